/**
 * Goal: a session gives its client what the rules allow at that moment: denied names never reach the
 * sources, a revoked right takes the content back in order, a granted one serves at once.
 * Method: real delta sessions on one cache, model clients, and rules that the test changes.
 */
import t from 'tap';
import { GrantedCache } from '../../../../../gateway/core/rights/granted-cache.js';
import { ROUTE_WAIT_MS } from '../../../../../gateway/core/session/push-order.js';
import type { SessionEvent } from '../../../../../gateway/core/session/stream-session.js';
import type { DeltaResponse } from '../../../../../protos/discovery.js';
import {
  all,
  DENIED,
  HIDDEN,
  none,
  only,
  Rules,
  status,
} from '../../../../support/changing-rules.js';
import { nameOf } from '../../../../support/fake-directory.js';
import { CDS, EDS, LDS, RDS, cds, eds, lds, rds } from '../../../../support/mesh-names.js';
import { gist, Instance, type Settings } from '../../../../support/session-driver.js';
import { said, SotwClient } from '../../../../support/sotw-driver.js';

/** Of the sessions here. */
const ACK_DEADLINE_MS = 16_000;

function setUp(settings: Partial<Settings> = {}) {
  const rules = new Rules();
  const instance = new Instance({ judge: rules.judge, ...settings });
  const { directory } = instance;
  const client = instance.connect();
  const change = (denies: (key: string) => boolean): void => {
    rules.denies = denies;
    client.session.handleRightsChanged();
  };
  return { rules, instance, directory, client, change };
}

const codes = (responses: readonly DeltaResponse[]): readonly unknown[] =>
  responses.flatMap(({ errors }) => errors.map(({ name, status: { code } }) => [name, code]));

t.test(
  'a denied name is removed with PERMISSION_DENIED, and no source is asked (invariant 23, TP3)',
  (t) => {
    const { rules, directory, client } = setUp();
    directory.put(CDS, cds('a'), 'v1');
    rules.denies = all;
    client.subscribe(CDS, cds('a'));
    client.subscribe(CDS, cds('b/*'));
    t.equal(directory.watchCalls, 0);
    const [first, second, ...more] = client.settle();
    t.match(first, {
      removed: [cds('a'), cds('b/*')],
      errors: [
        { name: cds('a'), status },
        { name: cds('b/*'), status },
      ],
    });
    t.strictSame([second, ...more], [undefined]);
    const refused: readonly SessionEvent[] = client.session.takeEvents();
    t.match(
      refused.filter(({ kind }) => kind === 'refused_name'),
      [
        { typeUrl: CDS, name: cds('a'), reason: status.message },
        { typeUrl: CDS, name: cds('b/*'), reason: status.message },
      ],
    );
    client.unsubscribe(CDS, cds('a'), cds('b/*'));
    client.disconnect();
    t.equal(directory.unwatchCalls, 0);
    t.end();
  },
);

t.test('a client that may not ask for a name has an entry of its own for it', (t) => {
  const { cache, directory } = new Instance();
  const granted = new GrantedCache(cache, () => DENIED);
  const subscriber = { handleNameChanged: () => undefined };
  const entry = granted.subscribeName(CDS, nameOf(cds('a')), subscriber);
  t.match(entry, { state: { kind: 'absent', status }, denial: { isHidden: false } });
  t.equal(cache.nameCount + directory.watchCalls, 0);
  t.end();
});

t.test('a hidden name looks absent: it is removed without a reason', (t) => {
  const { rules, client } = setUp();
  Object.assign(rules, { denies: all, verdict: HIDDEN });
  client.subscribe(CDS, cds('a'), cds('b/*'));
  const responses = client.settle();
  t.strictSame(responses.map(gist), [
    { type: 'Cluster', resources: [], removed: [cds('a'), cds('b/*')] },
  ]);
  t.strictSame(codes(responses), []);
  t.end();
});

t.test(
  'a member that came back before its removal was sent goes when its right goes again (seed 1860)',
  (t) => {
    const { instance, directory, client, change } = setUp({ unsubscribedLingerMs: 0 });
    const listener = lds('g/x');
    const isListener = (key: string): boolean => key.includes('Listener');
    directory.put(LDS, listener, 'v1');
    client.subscribe(CDS, cds('g/*'));
    client.subscribe(LDS, lds('g/*'));
    directory.answer();
    client.settle();
    change(isListener);
    t.match(client.pollAll().map(gist), [{ removed: [lds('g/*')] }]);
    directory.put(CDS, cds('g/a'), 'v1');
    t.match(client.pollAll().map(gist), [{ type: 'Cluster' }]);
    client.ack(LDS);
    t.strictSame(client.pollAll(), [], 'the removal waits for the ACK of the cluster');
    instance.advance(ACK_DEADLINE_MS / 2);
    change(none);
    directory.put(CDS, cds('g/b'), 'v1');
    client.pollAll();
    directory.put(LDS, listener, 'v2');
    directory.answer();
    t.strictSame(client.pollAll(), [], 'so does the content');
    instance.advance(ACK_DEADLINE_MS / 2);
    t.strictSame(client.pollAll(), [], 'the removal is not due any more');
    change(isListener);
    t.ok(client.settle().some(({ removed }) => removed.includes(listener)));
    t.end();
  },
);

t.test('a client that left a collection needs no removal of its members', (t) => {
  const { directory, client, change } = setUp();
  directory.put(CDS, cds('g/a'), 'v1');
  client.subscribe(CDS, cds('g/*'), cds('h/*'));
  directory.answer();
  client.settle();
  change((key) => key.includes('/g/'));
  t.match(client.pollAll().map(gist), [{ removed: [cds('g/*')] }]);
  client.unsubscribe(CDS, cds('g/*'));
  t.strictSame(client.settle(), []);
  t.end();
});

t.test(
  'a revoked name is removed after its content, a granted one comes without a request',
  (t) => {
    const { directory, client, change } = setUp();
    directory.put(CDS, cds('a'), 'v1');
    client.subscribe(CDS, cds('a'));
    directory.answer();
    client.settle();
    change(all);
    const responses = client.settle();
    t.strictSame(responses.map(gist), [{ type: 'Cluster', resources: [], removed: [cds('a')] }]);
    t.strictSame(codes(responses), [[cds('a'), status.code]]);
    directory.put(CDS, cds('a'), 'v2');
    t.strictSame(client.settle(), [], 'changes of a revoked name are not sent');
    change(none);
    t.strictSame(client.settle().map(gist), [
      { type: 'Cluster', resources: [cds('a')], removed: [] },
    ]);
    t.end();
  },
);

t.test('rules that still judge alike change nothing for a client', (t) => {
  const { rules, directory, client, change } = setUp();
  directory.put(CDS, cds('a'), 'v1');
  rules.denies = only(cds('b'), cds('b/*'));
  client.subscribe(CDS, cds('a'), cds('b'), cds('x/*'), cds('b/*'));
  directory.answer();
  client.settle();
  change(only(cds('b'), cds('b/*')));
  t.strictSame(client.settle(), []);
  rules.verdict = HIDDEN;
  change(only(cds('b'), cds('b/*')));
  t.strictSame(codes(client.settle()), [], 'told as removed before, and now without a reason');
  t.end();
});

t.test('a right that ends and returns before its removal costs the client nothing', (t) => {
  const { directory, client, change } = setUp();
  directory.put(CDS, cds('a'), 'v1');
  client.subscribe(CDS, cds('a'));
  directory.answer();
  client.settle();
  change(all);
  change(none);
  t.strictSame(client.settle(), []);
  t.end();
});

t.test('removals of revoked names keep the push order: routes before clusters', (t) => {
  const { directory, client, change } = setUp();
  directory.put(CDS, cds('a'), 'v1');
  directory.put(RDS, rds('r'), 'v1');
  client.subscribe(CDS, cds('a'));
  client.subscribe(RDS, rds('r'));
  directory.answer();
  client.settle();
  change(all);
  const removed = [...client.settle(), ...client.settleAfter(ROUTE_WAIT_MS)];
  t.strictSame(
    removed.map((one) => one.removed),
    [[rds('r')], [cds('a')]],
  );
  t.end();
});

t.test(
  'a revoked glob loses the members that were sent, and no other name is told (invariant 23)',
  (t) => {
    const { rules, directory, client, change } = setUp();
    directory.put(CDS, cds('x/1'), 'v1');
    directory.put(CDS, cds('x/2'), 'v1');
    directory.put(CDS, cds('x/gone'), 'v1');
    client.subscribe(CDS, cds('x/*'), cds('x/2'));
    directory.answer();
    client.settle();
    directory.remove(CDS, cds('x/gone'));
    directory.put(CDS, cds('x/late'), 'v1');
    change(only(cds('x/*')));
    const responses = client.settle();
    t.strictSame(
      responses.flatMap(({ removed }) => removed).sort(),
      [cds('x/*'), cds('x/1'), cds('x/gone')].sort(),
      'x/2 is allowed by name, and x/late was never sent',
    );
    t.strictSame(codes(responses), [[cds('x/*'), status.code]]);
    rules.verdict = HIDDEN;
    change(none);
    directory.answer();
    t.strictSame(
      client
        .settle()
        .flatMap(({ resources }) => resources.map(({ name }) => name))
        .sort(),
      [cds('x/1'), cds('x/late')],
    );
    change(only(cds('x/*')));
    const hidden = client.settle();
    t.strictSame(
      hidden.flatMap(({ removed }) => removed).sort(),
      [cds('x/*'), cds('x/1'), cds('x/late')].sort(),
    );
    t.strictSame(codes(hidden), []);
    t.end();
  },
);

// Seeds 6800 and 8541: the member had joined anew, and its tombstone was gone.
t.test(
  'a revoked glob loses a member that was removed and came back before its client was sent either (invariant 23)',
  (t) => {
    const { directory, client, change } = setUp();
    for (const id of ['1', '2', 'told']) directory.put(CDS, cds(`x/${id}`), 'v1');
    client.subscribe(CDS, cds('x/*'));
    directory.answer();
    client.settle();
    directory.remove(CDS, cds('x/told'));
    client.settle();
    directory.remove(CDS, cds('x/1'));
    directory.remove(CDS, cds('x/2'));
    directory.put(CDS, cds('x/2'), 'v2');
    directory.remove(CDS, cds('x/2'));
    for (const id of ['1', '2', 'told', 'new']) directory.put(CDS, cds(`x/${id}`), 'v3');
    change(all);
    t.strictSame(
      client
        .settle()
        .flatMap(({ removed }) => removed)
        .sort(),
      [cds('x/*'), cds('x/1'), cds('x/2')].sort(),
      'its client read the removal of x/told, and was never sent x/new',
    );
    t.end();
  },
);

t.test('members that a client held before it subscribed the glob again are taken back too', (t) => {
  const { directory, client, change } = setUp();
  directory.put(CDS, cds('x/1'), 'v1');
  client.subscribe(CDS, cds('x/*'));
  directory.answer();
  client.settle();
  client.subscribe(CDS, cds('x/*'));
  change(all);
  t.strictSame(
    client
      .settle()
      .flatMap(({ removed }) => removed)
      .sort(),
    [cds('x/*'), cds('x/1')].sort(),
  );
  t.end();
});

t.test('a glob that is revoked between two chunks sends no further member', (t) => {
  const rules = new Rules();
  const instance = new Instance({ judge: rules.judge, chunkBytes: 1 });
  const { directory } = instance;
  const client = instance.connect();
  for (const id of ['1', '2', '3']) directory.put(CDS, cds(`x/${id}`), 'v1');
  client.subscribe(CDS, cds('x/*'));
  directory.answer();
  t.strictSame(gist(client.poll()), { type: 'Cluster', resources: [cds('x/1')], removed: [] });
  rules.denies = all;
  client.session.handleRightsChanged();
  const responses = client.settle();
  t.strictSame(
    responses.flatMap(({ resources }) => resources),
    [],
  );
  t.ok(responses.flatMap(({ removed }) => removed).includes(cds('x/1')));
  t.end();
});

t.test(
  'a client that resumes names of a revoked right gets removals, without the deletion guard (invariants 18, 23)',
  (t) => {
    for (const verdict of [DENIED, HIDDEN]) {
      const { rules, instance, directory, client } = setUp();
      for (let id = 0; id < 30; id++) directory.put(CDS, cds(`x/${id}`), 'v1');
      directory.put(CDS, cds('a'), 'v1');
      const resuming = instance.connect({ resumesMembers: true });
      resuming.subscribe(CDS, cds('x/*'), cds('a'));
      directory.answer();
      resuming.settle();
      Object.assign(rules, { denies: all, verdict });
      resuming.disconnect();
      resuming.reconnect();
      const responses = resuming.settle();
      t.equal(responses.flatMap(({ resources }) => resources).length, 0);
      const removed = new Set(responses.flatMap((response) => response.removed));
      t.ok(removed.has(cds('a')) && removed.has(cds('x/7')), `${verdict.kind}, at once`);
      t.equal(removed.size, 32);
      client.disconnect();
    }
    t.end();
  },
);

t.test('endpoints do not wait for a cluster that the client may not ask for', (t) => {
  const { rules, directory, client } = setUp();
  rules.denies = only(cds('a'), cds('x/*'));
  const other = new Instance({ directory }).connect();
  directory.put(CDS, cds('a'), 'v1', eds('e'));
  directory.put(CDS, cds('x/b'), 'v1', eds('e'));
  directory.put(EDS, eds('e'), 'v1');
  client.subscribe(CDS, cds('a'), cds('x/*'));
  client.subscribe(EDS, eds('e'));
  directory.answer();
  t.match(
    client.settle().flatMap(({ resources }) => resources.map(({ name }) => name)),
    [eds('e')],
  );
  other.disconnect();
  t.end();
});

t.test('endpoints of a cluster whose right is being revoked do not wait for it', (t) => {
  const { instance, directory, client, change } = setUp();
  const sibling = new Instance({ directory });
  sibling.nowMs = instance.nowMs;
  directory.put(CDS, cds('a'), 'v1', eds('e'));
  directory.put(CDS, cds('x/b'), 'v1', eds('e'));
  directory.put(EDS, eds('e'), 'v1');
  client.subscribe(CDS, cds('a'), cds('x/*'));
  client.subscribe(EDS, eds('e'));
  directory.answer();
  client.settle();
  // Another client keeps the clusters in the cache.
  const keeper = new SotwClient(instance);
  keeper.ask(CDS, cds('a'), cds('x/*'));
  keeper.settle();
  change(only(cds('a'), cds('x/*')));
  directory.put(EDS, eds('e'), 'v2');
  t.ok(client.settle().some(({ resources }) => resources.some(({ name }) => name === eds('e'))));
  t.end();
});

// ---- state of the world --------------------------------------------------------------------------

t.test('a name of the cache stays where another client may ask for it', (t) => {
  const { rules, instance, directory, client, change } = setUp();
  directory.put(CDS, cds('a'), 'v1');
  client.subscribe(CDS, cds('a'));
  const other = new SotwClient(instance);
  other.ask(CDS, cds('a'));
  directory.answer();
  client.settle();
  change(all);
  client.settle();
  t.equal(instance.cache.stateOf(CDS, nameOf(cds('a')))?.kind, 'present');
  t.strictSame(other.settle().map(said), [['Cluster', 'a=v1']]);
  t.ok(rules.denies(''));
  t.end();
});
