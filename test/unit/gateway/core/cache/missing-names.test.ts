/**
 * Goal: remembered names that a source lacks go late, not all at once, and only by the word of a source
 * that is connected (invariants 3, 18).
 * Method: collections that remember names of an earlier process, and a manual clock.
 */
import t from 'tap';
import { DEFAULT_FAILOVER } from '../../../../../config/defaults.js';
import { Collection } from '../../../../../gateway/core/cache/collection.js';
import { MissingNames, type HeldBack } from '../../../../../gateway/core/cache/missing-names.js';
import { nameOf, projectionOf } from '../../../../support/fake-directory.js';
import { CDS, cds } from '../../../../support/mesh-names.js';

const WAIT_MS = 1_000;
const GUARD_WAIT_MS = 60_000;
const POLICY = {
  ...DEFAULT_FAILOVER,
  switchWaitMs: WAIT_MS,
  deletionGuard: { share: 0.5, count: 100, waitMs: GUARD_WAIT_MS, then: 'proceed' as const },
};

interface Glob {
  readonly typeUrl: string;
  readonly collection: Collection;
}

/** A complete glob of an authority that remembers these names, and has some of them. */
function globOf(authority: string, ids: readonly string[], there: readonly string[]) {
  const collection = new Collection(nameOf(cds('g/*', authority)), {
    tombstonesPerCollection: 10,
    tombstoneMaxAgeMs: 1_000_000,
  });
  const members = ids.map((id) => cds(`g/${id}`, authority));
  collection.restore(
    { typeUrl: CDS, glob: collection.glob, members, removed: [], knownAtMs: 0 },
    0,
  );
  for (const id of there) collection.put(projectionOf(CDS, cds(`g/${id}`, authority), 'v1'));
  const glob: Glob = { typeUrl: CDS, collection };
  return { glob, missing: collection.handleComplete(true) };
}

/** One that has the member `stays`, and lacks these. */
const globThatMisses = (authority: string, ...ids: readonly string[]) =>
  globOf(authority, ['stays', ...ids], ['stays']);

function setUp(globs: readonly Glob[]) {
  const events: string[] = [];
  const heldBack: HeldBack[] = [];
  const facts = { isCurrent: true, wellSinceMs: 0, subscribed: globs };
  const names = new MissingNames<Glob>({
    globsOf: (wanted) =>
      facts.subscribed.filter(({ collection }) => collection.glob.authority === wanted),
    globOf: (_typeUrl, { key }) =>
      facts.subscribed.find(({ collection }) => collection.glob.key === key),
    isCurrent: () => facts.isCurrent,
    guardedUntilMs: () => facts.wellSinceMs + GUARD_WAIT_MS,
    onHeldBack: (held) => heldBack.push(held),
    onRemoved: ({ collection }) => events.push(`removed ${collection.glob.authority}`),
    onSettled: ({ collection }) => events.push(`settled ${collection.glob.authority}`),
  });
  return { names, events, heldBack, facts };
}

t.test('a missing name is removed after `switch_wait`, and its collection is settled', (t) => {
  const { glob, missing } = globThatMisses('cloud', 'gone');
  const { names, events } = setUp([glob]);
  t.equal(names.nextDeadlineMs(), Infinity, 'no name waits');
  names.add(glob, missing, POLICY, 500);
  t.equal(names.nextDeadlineMs(), 500 + WAIT_MS);
  names.handleTimer(499 + WAIT_MS);
  t.strictSame(events, []);
  names.handleTimer(500 + WAIT_MS);
  t.strictSame(events, ['removed cloud', 'settled cloud']);
  t.equal(glob.collection.isDoubted, false);
  t.equal(names.nextDeadlineMs(), Infinity);
  t.end();
});

t.test(
  'the guard counts the names of one authority, and reports the names that it holds back',
  (t) => {
    const cloud = globThatMisses('cloud', 'a', 'b');
    const other = globThatMisses('other', 'c');
    const guard = { ...POLICY.deletionGuard, count: 1 };
    const { names, events, heldBack } = setUp([cloud.glob, other.glob]);
    for (const { glob, missing } of [cloud, other]) {
      names.add(glob, missing, { ...POLICY, deletionGuard: guard }, 0);
    }
    names.handleTimer(WAIT_MS);
    const untilMs = WAIT_MS + GUARD_WAIT_MS;
    t.strictSame(heldBack, [{ authority: 'cloud', names: 2, untilMs }], '2 of 3 are too many');
    t.strictSame(events, ['removed other', 'settled other'], '1 of 2 is not above the count');
    names.handleTimer(untilMs);
    t.strictSame(events.slice(2), ['removed cloud', 'removed cloud', 'settled cloud']);
    t.end();
  },
);

t.test('with `then: keep`, the guard decides once: a reconnect raises no doubt again', (t) => {
  const { glob, missing } = globThatMisses('cloud', 'a', 'b');
  const { names, events } = setUp([glob]);
  const guard = { ...POLICY.deletionGuard, count: 1, then: 'keep' as const };
  names.add(glob, missing, { ...POLICY, deletionGuard: guard }, 0);
  names.handleTimer(WAIT_MS);
  t.equal(glob.collection.isDoubted, true);
  names.handleTimer(WAIT_MS + GUARD_WAIT_MS);
  t.strictSame(events, ['settled cloud']);
  t.equal(glob.collection.nameCount, 3, 'clients may hold them');
  t.strictSame(glob.collection.handleComplete(true), [], 'the source says the same again');
  t.equal(glob.collection.isDoubted, false);
  const again = cds('g/a', 'cloud');
  glob.collection.put(projectionOf(CDS, again, 'v1'));
  t.equal(glob.collection.handleComplete(true).length, 0);
  t.equal(glob.collection.removeRemembered(1), true, 'the collection does not exist any more');
  t.equal(glob.collection.isBuried(cds('g/b', 'cloud')), true);
  t.equal(glob.collection.isBuried(again), false);
  t.equal(glob.collection.removeRemembered(1), false);
  t.end();
});

t.test(
  'while an authority gets more members, it keeps those that it lacks, a minute at most (seed 154231)',
  (t) => {
    const listeners = globOf('cloud', ['a'], []);
    const clusters = globOf('cloud', [], []);
    const { names, events } = setUp([listeners.glob, clusters.glob]);
    names.add(listeners.glob, listeners.missing, POLICY, 0);
    let nowMs = WAIT_MS - 1;
    const grow = (): void => {
      clusters.glob.collection.put(projectionOf(CDS, cds(`g/${nowMs}`), 'v1'));
      names.handleGrowth('cloud', nowMs);
      names.handleTimer(nowMs);
    };
    grow();
    names.handleTimer(nowMs + 1);
    t.strictSame(events, []);
    nowMs += WAIT_MS;
    t.equal(names.nextDeadlineMs(), nowMs);
    names.handleTimer(nowMs);
    t.match(events, ['removed cloud', /settled/]);
    t.end();
  },
);

t.test('an authority that always gets more members keeps what it lacks for a minute', (t) => {
  const { glob, missing } = globOf('cloud', ['a'], []);
  const { names, events } = setUp([glob]);
  names.add(glob, missing, POLICY, 0);
  let nowMs = 0;
  while (events.length === 0 && nowMs < 100_000) {
    nowMs += WAIT_MS / 2;
    glob.collection.put(projectionOf(CDS, cds(`g/${nowMs}`), 'v1'));
    names.handleGrowth('cloud', nowMs);
    names.handleTimer(nowMs);
  }
  t.equal(nowMs, 60_000);
  t.match(events, ['removed cloud', /settled/]);
  t.end();
});

t.test('a collection that is never answered delays the others for a minute (seed 160622)', (t) => {
  const { glob, missing } = globOf('cloud', ['gone'], []);
  const unanswered = new Collection(nameOf(cds('never/*', 'cloud')), {
    tombstonesPerCollection: 10,
    tombstoneMaxAgeMs: 1_000_000,
  });
  const members = [cds('never/a', 'cloud')];
  unanswered.restore(
    { typeUrl: CDS, glob: unanswered.glob, members, removed: [], knownAtMs: 0 },
    0,
  );
  const { names, events, heldBack } = setUp([glob, { typeUrl: CDS, collection: unanswered }]);
  names.add(glob, missing, POLICY, 0);
  let nowMs = 0;
  for (let looks = 0; looks < 100 && heldBack.length === 0; looks++) {
    nowMs = names.nextDeadlineMs();
    names.handleTimer(nowMs);
  }
  t.equal(nowMs, 61_000, 'then the guard counts it no longer: all names of the authority would go');
  names.handleTimer(names.nextDeadlineMs());
  t.strictSame(events, ['removed cloud', 'settled cloud']);
  t.equal(unanswered.nameCount, 1, 'its own names stay');
  t.end();
});

t.test('many missing names are removed in several turns, after all were looked at', (t) => {
  const ids = Array.from({ length: 5_000 }, (_, at) => `gone-${at}`);
  const { glob, missing } = globThatMisses('cloud', ...ids);
  const { names, events } = setUp([glob]);
  const deletionGuard = { ...POLICY.deletionGuard, count: 10_000 };
  names.add(glob, missing, { ...POLICY, deletionGuard }, 0);
  const removed: number[] = [];
  while (names.handleTimer(WAIT_MS)) {
    t.ok(names.nextDeadlineMs() <= WAIT_MS, 'the rest is due at once');
    removed.push(events.length);
  }
  t.equal(removed[0], 0, 'the first turns only look');
  t.ok(removed.length > 3);
  t.equal(events.filter((event) => event === 'removed cloud').length, 5_000);
  t.equal(events.at(-1), 'settled cloud');
  t.end();
});

t.test('the missing names of many authorities are judged in several turns', (t) => {
  const all = Array.from({ length: 1_500 }, (_, at) => globThatMisses(`a${at}`, 'gone'));
  const { names, events } = setUp(all.map(({ glob }) => glob));
  for (const { glob, missing } of all) names.add(glob, missing, POLICY, 0);
  t.ok(names.handleTimer(WAIT_MS), 'more is due');
  t.ok(events.length < 2 * all.length);
  while (names.handleTimer(WAIT_MS));
  t.equal(events.length, 2 * all.length);
  t.equal(names.nextDeadlineMs(), Infinity);
  t.end();
});

t.test('a lost source removes nothing, and is asked again (invariant 3)', (t) => {
  const { glob, missing } = globThatMisses('cloud', 'gone');
  const { names, events, facts } = setUp([glob]);
  names.add(glob, missing, POLICY, 0);
  facts.isCurrent = false;
  names.handleTimer(WAIT_MS);
  t.strictSame(events, ['settled cloud'], 'whole sets do not wait for a source that is away');
  t.notOk(glob.collection.isDoubted);
  facts.isCurrent = true;
  const againMs = names.nextDeadlineMs();
  t.ok(againMs > WAIT_MS && againMs < Infinity);
  names.handleTimer(againMs);
  t.strictSame(events, ['settled cloud', 'removed cloud']);
  t.end();
});

t.test(
  'what the guard holds back stays when the source is lost before the wait ends (invariant 3)',
  (t) => {
    const { glob, missing } = globOf('cloud', ['a', 'b', 'c'], []);
    const { names, events, heldBack, facts } = setUp([
      { typeUrl: CDS, collection: glob.collection },
    ]);
    names.add(glob, missing, POLICY, 0);
    names.handleTimer(WAIT_MS);
    t.match(heldBack, [{ names: 3 }]);
    facts.isCurrent = false;
    names.handleTimer(WAIT_MS + GUARD_WAIT_MS);
    t.notMatch(events, [/removed/]);
    facts.isCurrent = true;
    names.handleTimer(names.nextDeadlineMs());
    t.match(events.join(), /removed/);
    t.end();
  },
);

t.test('the guard waits anew for a source that failed during its wait (seed 410808)', (t) => {
  const { glob, missing } = globOf('cloud', ['a', 'b', 'c'], []);
  const { names, events, facts } = setUp([glob]);
  names.add(glob, missing, POLICY, 0);
  names.handleTimer(WAIT_MS);
  facts.wellSinceMs = GUARD_WAIT_MS;
  names.handleTimer(WAIT_MS + GUARD_WAIT_MS);
  t.strictSame(events, []);
  t.equal(names.nextDeadlineMs(), 2 * GUARD_WAIT_MS);
  names.handleTimer(2 * GUARD_WAIT_MS);
  t.equal(events.filter((one) => one === 'removed cloud').length, 3);
  t.end();
});

t.test('it waits ten minutes at most: first sets of clients wait for it', (t) => {
  const { glob, missing } = globOf('cloud', ['a', 'b', 'c'], []);
  const { names, events, facts } = setUp([glob]);
  names.add(glob, missing, POLICY, 0);
  names.handleTimer(WAIT_MS);
  facts.wellSinceMs = Infinity;
  names.handleTimer(WAIT_MS + GUARD_WAIT_MS);
  t.equal(names.nextDeadlineMs(), 600_000);
  names.handleTimer(600_000);
  t.match(events, ['removed cloud']);
  t.end();
});

t.test('a name that came meanwhile stays, and so does one of a glob without clients', (t) => {
  const { glob, missing } = globThatMisses('cloud', 'late');
  const left = globThatMisses('other', 'gone');
  const { names, events, facts } = setUp([glob, left.glob]);
  names.add(glob, missing, POLICY, 0);
  names.add(left.glob, left.missing, POLICY, 0);
  glob.collection.put(projectionOf(CDS, cds('g/late'), 'v1'));
  facts.subscribed = [glob];
  names.handleTimer(WAIT_MS);
  names.handleTimer(WAIT_MS + GUARD_WAIT_MS);
  t.strictSame(events, ['settled cloud']);
  t.ok(left.glob.collection.isDoubted, 'it is judged when a client subscribes again');
  t.end();
});
