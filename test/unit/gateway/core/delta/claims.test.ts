/**
 * Goal: names known only from a resuming client are removed late, and not all at once.
 * Method: manual claims and doubts, and a clock.
 */
import t from 'tap';
import { DEFAULT_FAILOVER } from '../../../../../config/defaults.js';
import type { RemovalPolicy } from '../../../../../config/model.js';
import {
  Claims,
  ClientClaims,
  type ClaimingSubscriptions,
  type ClaimedName,
} from '../../../../../gateway/core/delta/claims.js';
import { DeltaSession } from '../../../../../gateway/core/delta/delta-session.js';
import { DeltaSubscriptions } from '../../../../../gateway/core/delta/delta-subscriptions.js';
import { GrantedCache } from '../../../../../gateway/core/rights/granted-cache.js';
import { nameOf, projectionOf } from '../../../../support/fake-directory.js';
import { CDS, cds, EDS } from '../../../../support/mesh-names.js';
import { GUARD_WAIT_MS, Instance, SWITCH_WAIT_MS } from '../../../../support/session-driver.js';

const SUBSCRIPTIONS = new Map<string, DeltaSubscriptions>(
  [CDS, EDS].map((typeUrl) => [typeUrl, subscriptionsOf(typeUrl)]),
);

function subscriptionsOf(typeUrl: string): DeltaSubscriptions {
  const { cache } = new Instance();
  const owner = new DeltaSession({ ...new Instance().settings, cache, onReady: () => undefined });
  return new DeltaSubscriptions({
    typeUrl,
    authority: 'cloud',
    cache: new GrantedCache(cache),
    owner,
    nowMs: 0,
    silentAbsence: false,
  });
}

function doubt(key: string, typeUrl: string = CDS): ClaimedName {
  const subscriptions = SUBSCRIPTIONS.get(typeUrl);
  if (!subscriptions) throw new Error(`no subscriptions of ${typeUrl}`);
  return { key, subscriptions };
}

function claiming(count: number, policy: RemovalPolicy = DEFAULT_FAILOVER): Claims {
  const claims = new Claims(policy);
  for (let at = 0; at < count; at++) claims.handleClaimed();
  return claims;
}

const keysOf = (claims: Claims, nowMs: number): readonly string[] =>
  claims.takeDue(nowMs).due.map(({ key }) => key);

t.test('a doubt waits for `switch_wait`, from when it is first polled', (t) => {
  const claims = claiming(3);
  t.equal(claims.nextDeadlineMs, undefined);
  claims.handleDoubt(doubt('a'));
  t.strictSame(keysOf(claims, 5), []);
  t.equal(claims.nextDeadlineMs, 5 + SWITCH_WAIT_MS);
  claims.handleDoubt(doubt('a'));
  claims.handleDoubt(doubt('b'));
  t.strictSame(keysOf(claims, 1_000), []);
  t.strictSame(keysOf(claims, 5 + SWITCH_WAIT_MS), ['a'], 'repeating it does not prolong the wait');
  t.equal(claims.nextDeadlineMs, 1_000 + SWITCH_WAIT_MS);
  t.strictSame(keysOf(claims, 1_000 + SWITCH_WAIT_MS), ['b']);
  t.equal(claims.nextDeadlineMs, undefined);
  t.end();
});

t.test(
  'a claim that is gone without doubt does not count: the others may be all (seed 301859)',
  (t) => {
    const claims = claiming(4);
    claims.handleGone(doubt('d'));
    for (const key of ['a', 'b', 'c']) claims.handleDoubt(doubt(key));
    claims.takeDue(0);
    t.match(claims.takeDue(SWITCH_WAIT_MS), { due: [], guarded: { names: 3 } });
    t.end();
  },
);

t.test('a claim that the client gave up is not judged, and no loss', (t) => {
  const claims = claiming(4);
  for (const key of ['a', 'b', 'c']) claims.handleDoubt(doubt(key));
  claims.handleGone(doubt('a'));
  claims.takeDue(0);
  claims.handleGone(doubt('b'));
  t.strictSame(keysOf(claims, SWITCH_WAIT_MS), ['c'], 'one of two: no reason for the guard');
  t.end();
});

t.test('losing all claims at once is too much, however few, of all types together', (t) => {
  const claims = claiming(2);
  claims.handleDoubt(doubt('a'));
  claims.handleDoubt(doubt('a', EDS));
  claims.takeDue(0);
  const { due, guarded } = claims.takeDue(SWITCH_WAIT_MS);
  t.strictSame(due, []);
  t.strictSame(guarded, { names: 2, untilMs: SWITCH_WAIT_MS + GUARD_WAIT_MS });
  t.strictSame(keysOf(claims, SWITCH_WAIT_MS + GUARD_WAIT_MS - 1), []);
  const later = claims.takeDue(SWITCH_WAIT_MS + GUARD_WAIT_MS);
  t.strictSame(
    later.due.map(({ key, subscriptions }) => [key, subscriptions.typeUrl]),
    [
      ['a', CDS],
      ['a', EDS],
    ],
    'then they are removed, as configured',
  );
  t.end();
});

t.test(
  'doubts wait for claims that no source has answered, but not for ever (seed 110610)',
  (t) => {
    const claims = claiming(3);
    const isOpen = (): boolean => true;
    claims.handleDoubt(doubt('a'));
    claims.takeDue(0, isOpen);
    const dueMs: number[] = [];
    for (let nowMs = SWITCH_WAIT_MS; dueMs.length === 0 && nowMs < 1_000_000;) {
      if (claims.takeDue(nowMs, isOpen).due.length > 0) dueMs.push(nowMs);
      nowMs = claims.nextDeadlineMs ?? Infinity;
    }
    t.strictSame(dueMs, [SWITCH_WAIT_MS + 60_000]);
    t.end();
  },
);

t.test('more than the share and the number of the guard is too much', (t) => {
  const policy = {
    ...DEFAULT_FAILOVER,
    deletionGuard: { ...DEFAULT_FAILOVER.deletionGuard, share: 0.5, count: 2 },
  };
  for (const [held, isHeldBack] of [
    [7, false],
    [6, true],
  ] as const) {
    const claims = claiming(held, policy);
    for (const key of ['a', 'b', 'c']) claims.handleDoubt(doubt(key));
    claims.takeDue(0);
    t.equal(keysOf(claims, SWITCH_WAIT_MS).length, isHeldBack ? 0 : 3, `3 of ${held}`);
  }
  t.end();
});

t.test('with `then: keep`, guarded names are never removed', (t) => {
  const { deletionGuard } = DEFAULT_FAILOVER;
  const claims = claiming(1, {
    ...DEFAULT_FAILOVER,
    deletionGuard: { ...deletionGuard, then: 'keep' },
  });
  claims.handleDoubt(doubt('a'));
  claims.takeDue(0);
  t.ok(claims.takeDue(SWITCH_WAIT_MS).guarded);
  t.strictSame(keysOf(claims, SWITCH_WAIT_MS + GUARD_WAIT_MS), []);
  t.equal(claims.nextDeadlineMs, undefined, 'and no deadline remains');
  t.end();
});

t.test('the claims of two authorities are judged apart (invariant 16)', (t) => {
  const claims = new ClientClaims(() => DEFAULT_FAILOVER);
  const { name } = projectionOf(CDS, cds('a'), 'v1');
  const at = (authority: string): ClaimingSubscriptions => ({
    typeUrl: CDS,
    authority,
    isCurrent: () => true,
    claimGuardedUntilMs: () => -Infinity,
    settleDoubt: () => undefined,
  });
  claims.handleDoubt({ key: 'a', subscriptions: at('cloud') });
  t.strictSame([...claims.takeDue(0, () => false)], [], 'a doubt without a claim is ignored');
  claims.handleClaimed(at('cloud'), name);
  for (let count = 0; count < 2; count++) claims.handleClaimed(at('other'), name);
  claims.handleDoubt({ key: 'a', subscriptions: at('cloud') });
  claims.handleDoubt({ key: 'b', subscriptions: at('other') });
  const due = (nowMs: number, isOpen: (authority: string) => boolean = () => false) =>
    [...claims.takeDue(nowMs, isOpen)].map((found) => [
      found.authority,
      found.due.map(({ key }) => key),
      found.guarded?.names,
    ]);
  due(0);
  t.equal(claims.nextDeadlineMs, SWITCH_WAIT_MS);
  t.strictSame(due(SWITCH_WAIT_MS - 1), [], 'nothing is new or due');
  const untilMs = SWITCH_WAIT_MS + GUARD_WAIT_MS;
  t.strictSame(
    due(SWITCH_WAIT_MS, (authority) => authority === 'other'),
    [
      ['cloud', [], 1],
      ['other', [], undefined],
    ],
    'one lost all of its claims, the other has open ones',
  );
  t.equal(claims.nextDeadlineMs, 2 * SWITCH_WAIT_MS);
  t.strictSame(due(2 * SWITCH_WAIT_MS), [
    ['cloud', [], undefined],
    ['other', ['b'], undefined],
  ]);
  t.equal(claims.nextDeadlineMs, untilMs);
  claims.handleDoubt({ key: 'c', subscriptions: at('other') });
  t.strictSame(due(untilMs - 1), [['other', [], undefined]], 'only the new one is looked at');
  t.strictSame(due(untilMs)[0]?.slice(0, 2), ['cloud', ['a']]);
  t.end();
});

t.test('a client that claims a removed name too loses the others no sooner (invariant 3)', (t) => {
  const [gone = '', ...others] = ['a', 'b', 'c', 'd'].map((id) => cds(`g/${id}`));
  const before = new Instance();
  for (const name of [gone, ...others]) before.directory.put(CDS, name, 'v');
  const client = before.connect({ resumesMembers: true });
  client.subscribe(CDS, cds('g/*'));
  before.directory.answer();
  client.settle();
  client.disconnect();
  const restarted = new Instance();
  const collection = { typeUrl: CDS, glob: nameOf(cds('g/*')), members: [], knownAtMs: 0 };
  restarted.cache.restoreCollections(
    [{ ...collection, removed: [{ key: gone, removedAtMs: 0 }] }],
    0,
  );
  client.reconnect(restarted);
  restarted.directory.answer();
  const removed = (ms: number): readonly string[] =>
    client
      .settleAfter(ms)
      .flatMap((response) => response.removed)
      .filter((name) => name !== cds('g/*'));
  t.strictSame(removed(0), [gone], 'its removal was observed');
  t.strictSame(
    removed(SWITCH_WAIT_MS),
    [],
    'the source lacks all of the rest: it may have just started',
  );
  t.strictSame(removed(GUARD_WAIT_MS).toSorted(), others);
  t.end();
});
