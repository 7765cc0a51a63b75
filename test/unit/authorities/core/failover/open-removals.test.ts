/**
 * Goal: a name that has not arrived yet is not removed (invariant 3), and names that are removed at
 * once are judged together.
 * Method: as in whole-collections.test.ts; the hold of removals also alone.
 */
import t from 'tap';
import { RemovalHold } from '../../../../../authorities/core/failover/removal-hold.js';
import { TurnRoom } from '../../../../../authorities/core/failover/turn-room.js';
import { DEFAULT_FAILOVER } from '../../../../../config/defaults.js';
import type { DeletionGuard } from '../../../../../config/model.js';
import { a, alt, glob, kindOf, member, pair, TRIP_MS } from '../../../../support/authority-pair.js';
import {
  askedName,
  FederationDriver,
  mapOf,
  THING,
  thing,
  WHOLE_MS,
  type RecordingWatcher,
} from '../../../../support/federation-driver.js';
import { at, driverOf } from '../../../../support/node-groups.js';
import { getsCompleteAfter, piece, silent } from '../../../../support/pieces.js';

const OTHER = 'type.googleapis.com/test.v1.Other';
const SWITCH_WAIT_MS = DEFAULT_FAILOVER.switchWaitMs;
const other = (n: number): string => `xdstp://cloud/test.v1.Other/${n}`;

const guardedNames = (driver: FederationDriver): readonly number[] =>
  driver.takeGroupEvents().flatMap((event) => (event.kind === 'guarded' ? [event.names] : []));

/** The primary has the members `had`; it lost the members `lost` while its stream was cut. */
function resynced(
  had: readonly string[],
  lost: readonly string[],
): { driver: FederationDriver; watcher: RecordingWatcher } {
  const driver = pair(Object.fromEntries(had.map((name) => [name, '1'])), {});
  const watcher = driver.watching(glob);
  driver.advance(WHOLE_MS);
  for (const name of lost) driver.server('c').delete(THING, name);
  watcher.take();
  driver.takeGroupEvents();
  driver.cut('c');
  while (!driver.isConnected('c')) driver.advance(10);
  return { driver, watcher };
}

/** A source that has these names, and is sent no versions after a reconnect. */
function freshSource(had: readonly string[]): FederationDriver {
  const map = mapOf({ authorities: { cloud: { sources: ['c'] } } });
  const spec = map.sources.get('c');
  if (spec?.kind !== 'grpc') throw new Error('no source');
  const sources = new Map(map.sources).set('c', { ...spec, resume: 'fresh' });
  const driver = new FederationDriver({ ...map, sources });
  for (const name of had) driver.server('c').set(THING, name, '1');
  return driver;
}

const members = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, n) => member(`${n}`));

t.test('members removed by a resync go when the collection is complete, not before', (t) => {
  const { driver, watcher } = resynced(members(3), [member('2')]);
  getsCompleteAfter(t, driver, watcher, WHOLE_MS);
  driver.advance(2 * SWITCH_WAIT_MS - WHOLE_MS - 1);
  t.strictSame(watcher.take(), [`complete ${glob}`]);
  driver.advance(1);
  t.strictSame(watcher.take(), [`removed ${member('2')}`]);
  t.end();
});

t.test('a late response also delays the removals of its collection', (t) => {
  const { driver, watcher } = resynced(members(3), [member('2')]);
  driver.advance(1_900);
  piece(driver, 'c', member('more'));
  watcher.take();
  getsCompleteAfter(t, driver, watcher, WHOLE_MS);
  watcher.take();
  driver.advance(3 * SWITCH_WAIT_MS - 1_900 - WHOLE_MS - 1);
  t.strictSame(watcher.take(), []);
  driver.advance(1);
  t.strictSame(watcher.take(), [`removed ${member('2')}`]);
  t.end();
});

t.test(
  'a source that restarts empty gets the time to send all members in several responses',
  (t) => {
    const names = members(9);
    const { driver, watcher } = resynced(names, names);
    for (const name of names) {
      driver.advance(SWITCH_WAIT_MS);
      piece(driver, 'c', name);
    }
    getsCompleteAfter(t, driver, watcher, WHOLE_MS);
    driver.advance(60_000);
    t.strictSame(watcher.take(), [`complete ${glob}`]);
    t.equal(watcher.held.size, 9);
    t.end();
  },
);

t.test('a member that a resync lacks and a later response brings is never removed', (t) => {
  const { driver, watcher } = resynced(members(3), [member('2')]);
  driver.advance(2_400);
  piece(driver, 'c', member('2'));
  driver.advance(60_000);
  t.strictSame(watcher.take(), [`complete ${glob}`]);
  t.equal(watcher.held.size, 3);
  t.end();
});

t.test('deletion guard: all types of one resync are judged together, collections too', (t) => {
  const driver = pair(Object.fromEntries(members(20).map((name) => [name, '1'])), {});
  const watcher = driver.watching(glob);
  // Less than half of all names: judged alone, these would be removed.
  const singles = Array.from({ length: 12 }, (_, n) => other(n));
  for (const name of singles) {
    driver.server('c').set(OTHER, name, '1');
    driver.watch(name, watcher, OTHER);
  }
  driver.advance(60_000);
  t.equal(watcher.held.size, 32);
  for (const name of singles) driver.server('c').delete(OTHER, name);
  for (const name of members(20)) driver.server('c').delete(THING, name);
  driver.takeGroupEvents();
  driver.cut('c');
  driver.advance(10_000);
  t.equal(watcher.held.size, 32, 'the source lost all its names');
  t.strictSame(guardedNames(driver), [32], 'one alarm');
  driver.advance(60_000);
  t.equal(watcher.held.size, 0);
  t.end();
});

t.test('a removed name does not wait for a collection that lost little', (t) => {
  const driver = pair(Object.fromEntries(members(20).map((name) => [name, '1'])), {});
  driver.server('c').set(THING, a, '1');
  const watcher = driver.watching(glob, a);
  driver.advance(WHOLE_MS);
  for (const name of [a, member('1')]) driver.server('c').delete(THING, name);
  watcher.take();
  driver.cut('c');
  while (!driver.isConnected('c')) driver.advance(10);
  driver.advance(SWITCH_WAIT_MS);
  t.strictSame(watcher.take(), [`removed ${a}`]);
  t.end();
});

t.test(
  'a removed name waits for a collection that lost the rest of its source (seed 70235)',
  (t) => {
    const driver = freshSource([a, ...members(3)]);
    const watcher = driver.watching(a, member('0'));
    driver.unwatch(member('0'), watcher);
    driver.watch(glob, watcher);
    driver.advance(WHOLE_MS);
    // The collection is not whole yet: the source's response for the single name may still come.
    driver.takeGroupEvents();
    driver.server('c').isDeaf = true;
    driver.cut('c');
    while (!driver.isConnected('c')) driver.advance(10);
    driver.send('c', { typeUrl: THING, nonce: 'n', resources: [], removed: [a, glob] });
    driver.advance(10_000);
    t.equal(watcher.held.size, 4, 'it lost all');
    t.strictSame(guardedNames(driver), [4], 'one alarm');
    driver.advance(60_000);
    t.equal(watcher.held.size, 0);
    t.end();
  },
);

t.test('deletion guard: names that the source has not answered raise no alarm', (t) => {
  const cloudAt = (target: string): FederationDriver['federation']['map'] =>
    mapOf({ authorities: { cloud: { sources: ['c'] } }, targets: { c: target } });
  const driver = new FederationDriver(cloudAt('one:1'));
  const singles = Array.from({ length: 12 }, (_, n) => thing('cloud', `${n}`));
  for (const name of [a, ...singles]) driver.server('c').set(THING, name, '1');
  const watcher = driver.watching(a, ...singles);
  driver.advance(WHOLE_MS);
  driver.takeGroupEvents();
  for (const name of singles) driver.server('c').stalled.add(name);
  driver.reload(cloudAt('other:1'));
  driver.advance(10_000);
  t.equal(driver.group('cloud').failover.kind, 'primary');
  piece(driver, 'c', ...singles);
  driver.advance(60_000);
  t.strictSame(guardedNames(driver), []);
  t.equal(watcher.held.size, 13);
  t.notMatch(watcher.told.join(), /removed/);
  t.end();
});

t.test('deletion guard: members that are in flight raise no alarm', (t) => {
  const names = members(20);
  const driver = silent(glob);
  for (const name of names) driver.server('o').set(THING, alt(name), 'alt');
  const watcher = driver.watching(glob);
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.equal(watcher.held.size, 20);
  driver.revive('c');
  while (!driver.isConnected('c')) driver.advance(100);
  piece(driver, 'c', ...names.slice(0, 5));
  while (kindOf(driver) !== 'primary') driver.advance(100);
  driver.takeGroupEvents();
  for (const from of [5, 10, 15]) {
    driver.advance(1_900);
    t.equal(watcher.held.size, 20);
    piece(driver, 'c', ...names.slice(from, from + 5));
  }
  driver.advance(120_000);
  t.strictSame([...new Set(watcher.held.values())], ['1'], 'all of them come from the primary');
  t.equal(watcher.held.size, 20);
  t.strictSame(guardedNames(driver), []);
  t.notMatch(watcher.told.join(), /removed/);
  t.end();
});

t.test(
  'a collection that the primary answers late removes additional members of the alternative',
  (t) => {
    const driver = silent(glob);
    driver.server('c').reachability = 'refuse';
    driver.server('c').set(THING, a, '1');
    driver.server('o').set(THING, alt(member('2')), 'alt');
    const watcher = driver.watching(glob, a);
    driver.advance(TRIP_MS);
    driver.revive('c');
    // The silence of the primary eventually counts as an answer, but proves nothing.
    while (kindOf(driver) !== 'primary') driver.advance(1_000);
    driver.advance(60_000);
    t.equal(watcher.held.get(member('2')), 'alt');
    watcher.take();
    piece(driver, 'c', member('1'));
    getsCompleteAfter(t, driver, watcher, WHOLE_MS);
    driver.advance(SWITCH_WAIT_MS - 1);
    t.strictSame(watcher.take(), [`changed ${member('1')} 1`, `complete ${glob}`]);
    driver.advance(1);
    t.strictSame(watcher.take(), [`removed ${member('2')}`]);
    t.end();
  },
);

t.test('a complete collection of a lower source removes nothing (invariant 3)', (t) => {
  const driver = new FederationDriver(
    mapOf({ authorities: { cloud: { sources: ['c', 'o', 'p'] } } }),
  );
  driver.server('c').reachability = 'refuse';
  for (const id of ['1', '2']) driver.server('o').set(THING, member(id), 'o');
  driver.server('p').set(THING, member('1'), 'p');
  const watcher = driver.watching(glob);
  driver.advance(60_000);
  driver.kill('o');
  driver.advance(60_000);
  t.strictSame([...watcher.held.values()], ['p', 'o']);
  t.end();
});

// ---- the removal hold alone ---------------------------------------------------------------------

interface Name {
  readonly key: string;
}

const GUARD: DeletionGuard = { share: 0.5, count: 10, waitMs: 60_000, then: 'proceed' };
const OPEN_PREFIX = 'open';

/** A hold with `closed` and `open` names, all due at 1 s. */
function holdOf(
  counts: { readonly closed?: number; readonly open?: number },
  guard: ConstructorParameters<typeof RemovalHold>[0] = GUARD,
): RemovalHold<Name> {
  const hold = new RemovalHold<Name>(guard);
  const { closed = 0, open = 0 } = counts;
  for (let n = 0; n < closed; n++) hold.add({ typeUrl: THING, name: { key: `${n}` } }, 1_000);
  for (let n = 0; n < open; n++) {
    hold.add({ typeUrl: THING, name: { key: `${OPEN_PREFIX} ${n}` } }, 1_000);
  }
  return hold;
}

const openUntil = (
  againAtMs: number,
): { readonly isOpen: (held: { readonly name: Name }) => boolean; readonly againAtMs: number } => ({
  isOpen: ({ name }) => name.key.startsWith(OPEN_PREFIX),
  againAtMs,
});

t.test('open removals are not judged, and are checked again later', (t) => {
  const hold = holdOf({ open: 12 });
  t.strictSame(
    hold.takeDue(() => 12, 1_000, openUntil(3_000)),
    { due: [], guarded: undefined, kept: [] },
  );
  t.equal(hold.size, 12);
  t.equal(hold.guardedCount, 0);
  t.equal(hold.nextDeadlineMs(), 3_000);
  t.strictSame(
    hold.takeDue(() => 12, 2_999),
    { due: [], guarded: undefined, kept: [] },
    'not due before',
  );
  t.match(
    hold.takeDue(() => 12, 3_000),
    { due: [], guarded: { names: 12, untilMs: 63_000 } },
  );
  t.strictSame(
    hold.takeDue(() => 12, 63_000, openUntil(70_000)),
    { due: [], guarded: undefined, kept: [] },
    'their source may have been lost while the guard held them back (invariant 3)',
  );
  t.equal(hold.guardedCount, 12);
  t.equal(hold.nextDeadlineMs(), 70_000);
  t.equal(hold.takeDue(() => 12, 70_000).due.length, 12);
  t.equal(hold.size, 0);
  t.equal(hold.nextDeadlineMs(), undefined);
  t.end();
});

t.test('due removals proceed while others are open, unless all together are too many', (t) => {
  const few = holdOf({ closed: 5, open: 5 });
  t.equal(few.takeDue(() => 20, 1_000, openUntil(3_000)).due.length, 5);
  t.equal(few.size, 5);

  const many = holdOf({ closed: 8, open: 8 });
  many.add({ typeUrl: THING, name: { key: 'late' } }, 1_500);
  t.strictSame(
    many.takeDue(() => 30, 1_000, openUntil(3_000)),
    { due: [], guarded: undefined, kept: [] },
  );
  t.equal(many.nextDeadlineMs(), 1_500, 'a removal that is not due yet keeps its deadline');
  for (let n = 0; n < 8; n++) many.cancel(THING, { key: `${OPEN_PREFIX} ${n}` });
  t.match(many.takeDue(() => 30, 1_500, openUntil(3_500)).due, [{ name: { key: 'late' } }]);
  t.equal(
    many.takeDue(() => 30, 3_000, openUntil(5_000)).due.length,
    8,
    'the open ones arrived after all',
  );

  const most = holdOf({ closed: 15, open: 5 });
  t.match(
    most.takeDue(() => 20, 1_000, openUntil(3_000)).guarded,
    { names: 15 },
    'these alone exceed the guard',
  );
  t.end();
});

t.test('the loss of all names triggers the guard, however few they are', (t) => {
  t.match(holdOf({ closed: 3 }).takeDue(() => 3, 1_000).guarded, { names: 3, untilMs: 61_000 });
  t.equal(holdOf({ closed: 3 }).takeDue(() => 4, 1_000).due.length, 3);
  t.end();
});

// ---- which removal policy applies ---------------------------------------------------------------

t.test('removals of a name use the policy of its authority or of its first entry', (t) => {
  const failover = (switchWaitMs: number): { readonly failover: object } => ({
    failover: { switchWaitMs },
  });
  const { federation } = new FederationDriver(
    mapOf({
      authorities: { cloud: { sources: ['c'], ...failover(1) } },
      oldStyle: {
        servedBy: [
          { sources: ['c'], types: [THING], ...failover(2) },
          { sources: ['o'], types: [THING, OTHER], ...failover(3) },
        ],
      },
    }),
  );
  const waitOf = (text: string, typeUrl = THING): number =>
    federation.removalPolicyOf(typeUrl, askedName(text)).switchWaitMs;
  t.equal(waitOf(a), 1);
  t.equal(waitOf(glob), 1);
  t.equal(waitOf(at('n', 'x')), 2);
  t.equal(waitOf(at('n', '*')), 2);
  t.equal(waitOf(at('n', 'x'), OTHER), 3, 'the first entry that serves the type');
  t.equal(waitOf(at('n', 'x'), `${OTHER}s`), SWITCH_WAIT_MS, 'no entry serves it');
  t.equal(waitOf(thing('nobody', 'a')), SWITCH_WAIT_MS, 'the authority is not in the map');
  const { federation: plain } = pair({}, {});
  const policy = plain.removalPolicyOf(THING, askedName(at('n', 'x')));
  t.equal(policy, DEFAULT_FAILOVER, 'the map has no old-style names');
  t.end();
});

t.test('a name without watchers counts as current', (t) => {
  const driver = new FederationDriver(mapOf({ authorities: { cloud: { sources: ['c'] } } }));
  t.ok(driver.federation.isCurrent(THING, askedName(thing('cloud', 'x'))));
  t.end();
});

t.test('a source is silent about a name while it is live and has sent no trace of it', (t) => {
  const driver = pair({ [member('there')]: '1' }, {});
  driver.server('c').stalled.add(member('silent'));
  const isSilent = (text: string): boolean =>
    driver.federation.isSilentAbout(THING, askedName(text));
  driver.watching(member('there'), member('silent'));
  t.notOk(isSilent(member('there')));
  t.ok(isSilent(member('silent')));
  driver.cut('c');
  t.notOk(isSilent(member('silent')), 'a source that is away tells nothing');
  t.end();
});

t.test(
  'the guard waits for as long as a name has no source that has been well (seed 410808)',
  (t) => {
    const driver = driverOf([{ sources: ['first'] }, { sources: ['second'] }]);
    const name = askedName(at('n', 'x'));
    const guardedUntilMs = (): number => driver.directory.guardedUntilMs(THING, name);
    const { waitMs } = DEFAULT_FAILOVER.deletionGuard;
    driver.watching(at('n', 'x'));
    t.equal(guardedUntilMs(), driver.nowMs + waitMs);
    driver.advance(1_000);
    t.equal(guardedUntilMs(), driver.nowMs - 1_000 + waitMs);
    driver.kill('second');
    driver.advance(1_000);
    t.equal(guardedUntilMs(), driver.nowMs + waitMs);
    t.end();
  },
);

t.test('an old-style name is current only when all entries answer now', (t) => {
  const driver = driverOf([{ sources: ['first'] }, { sources: ['second'] }]);
  const name = askedName(at('n', 'x'));
  driver.watching(at('n', 'x'));
  t.ok(driver.federation.isCurrent(THING, name));
  driver.cut('second');
  t.notOk(driver.federation.isCurrent(THING, name));
  t.end();
});

// ---- in portions -----------------------------------------------------------------------------

const guard: DeletionGuard = { share: 0.5, count: 10, waitMs: 60_000, then: 'proceed' };

/** A turn of the event loop with room for so many removals, or eight times as many looks. */
const turnWith = (removals: number): TurnRoom => new TurnRoom(removals);

function holding(count: number, policy = guard): RemovalHold {
  const hold = new RemovalHold(policy);
  for (let n = 0; n < count; n++)
    hold.add({ typeUrl: THING, name: askedName(other(n), OTHER) }, 1_000);
  return hold;
}

t.test('removals are looked at in portions, judged together, and removed in portions', (t) => {
  const hold = holding(40);
  const none = { due: [], guarded: undefined, kept: [] };
  t.strictSame(
    hold.takeDue(() => 100, 999, undefined, turnWith(3)),
    none,
  );
  t.notOk(hold.isBusy, 'none is due');
  t.strictSame(
    hold.takeDue(() => 100, 1_000, undefined, turnWith(3)),
    none,
    '24 were looked at',
  );
  t.ok(hold.isBusy);
  const turns: number[] = [];
  while (hold.isBusy) turns.push(hold.takeDue(() => 100, 1_000, undefined, turnWith(3)).due.length);
  t.strictSame(turns.slice(0, 3), [1, 3, 3], 'the first of these ended the review');
  t.equal(
    turns.reduce((sum, taken) => sum + taken),
    40,
  );
  t.equal(hold.size, 0);
  t.end();
});

t.test(
  'a name that comes again during the review does not count, nor is it removed after it',
  (t) => {
    const hold = holding(40);
    hold.takeDue(() => 70, 1_000, undefined, turnWith(3));
    for (let n = 0; n < 5; n++) t.ok(hold.cancel(THING, askedName(other(n), OTHER)));
    t.notOk(hold.cancel(THING, askedName(other(0), OTHER)), 'it is not held any more');
    const { due, guarded } = hold.takeDue(() => 71, 1_000, undefined, turnWith(3));
    t.equal(guarded, undefined, '35 of 71');
    t.ok(hold.cancel(THING, askedName(other(39), OTHER)));
    let removed = due.length;
    while (hold.isBusy) removed += hold.takeDue(() => 71, 1_000).due.length;
    t.equal(removed, 34);
    t.end();
  },
);

t.test('names that are added during the review are judged with the others', (t) => {
  const hold = holding(34);
  hold.takeDue(() => 70, 1_000, undefined, turnWith(3));
  hold.add({ typeUrl: THING, name: askedName(other(34), OTHER) }, 9_000);
  t.strictSame(hold.takeDue(() => 70, 1_000).guarded, { names: 35, untilMs: 61_000 });
  t.equal(hold.nextDeadlineMs(), 61_000);
  t.end();
});

t.test('a review for guarded names that are due judges no fresh names that are not', (t) => {
  const hold = holding(12);
  t.equal(hold.takeDue(() => 20, 1_000).guarded?.names, 12);
  for (let n = 12; n < 32; n++)
    hold.add({ typeUrl: THING, name: askedName(other(n), OTHER) }, 70_000);
  const { due, guarded } = hold.takeDue(() => 40, 61_000);
  t.strictSame([due.length, guarded, hold.nextDeadlineMs()], [12, undefined, 70_000]);
  t.end();
});

t.test('guarded names that come again during a review do not count in it', (t) => {
  const hold = holding(20);
  t.equal(hold.takeDue(() => 40, 1_000).guarded?.names, 20);
  hold.add({ typeUrl: THING, name: askedName(other(20), OTHER) }, 5_000);
  hold.takeDue(() => 40, 5_000, undefined, turnWith(2));
  for (let n = 0; n < 5; n++) hold.cancel(THING, askedName(other(n), OTHER));
  const { due, guarded } = hold.takeDue(() => 40, 5_000);
  t.strictSame([due.length, guarded], [1, undefined], '16 of 40');
  t.end();
});

t.test('a guard that keeps lets go of guarded names in portions, and removes none', (t) => {
  const hold = holding(40, { ...guard, then: 'keep' });
  t.equal(hold.takeDue(() => 40, 1_000).guarded?.names, 40);
  t.strictSame(hold.takeDue(() => 40, 61_000, undefined, turnWith(3)).due, []);
  t.strictSame([hold.size, hold.isBusy], [40, true]);
  t.ok(hold.cancel(THING, askedName(other(0), OTHER)));
  const { due, kept } = hold.takeDue(() => 40, 61_000, undefined, turnWith(3));
  t.strictSame(due, []);
  t.equal(kept.length, 39, 'not the one that came again meanwhile');
  t.strictSame([hold.size, hold.isBusy], [0, false]);
  t.end();
});

t.test('clearing ends the review, and nothing is removed after it', (t) => {
  const hold = holding(40);
  hold.takeDue(() => 100, 1_000, undefined, turnWith(3));
  hold.clear();
  t.notOk(hold.isBusy);
  const again = holding(40);
  again.takeDue(() => 100, 1_000, undefined, turnWith(6));
  again.clear();
  t.notOk(again.isBusy);
  t.strictSame(again.takeDue(() => 100, 1_000).due, []);
  t.end();
});

t.test('a removal that is due waits while its source is compared with its first answer', (t) => {
  const map = mapOf({
    authorities: { cloud: { sources: ['c'], failover: { switchWaitMs: 600 } } },
  });
  const spec = map.sources.get('c');
  if (spec?.kind !== 'grpc') throw new Error('no source');
  const sources = new Map(map.sources).set('c', { ...spec, resume: 'fresh' });
  const driver = new FederationDriver({ ...map, sources });
  const had = Array.from({ length: 2_400 }, (_, n) => thing('cloud', `${n}`));
  for (const name of had) driver.server('c').stalled.add(name);
  const watcher = driver.watching(...had);
  driver.advance(100);
  piece(driver, 'c', ...had);
  driver.advance(0);
  t.equal(watcher.held.size, 2_400);
  driver.cut('c');
  while (!driver.isConnected('c')) driver.advance(10);
  driver.takeGroupEvents();
  const [gone, ...others] = had;
  driver.send('c', { typeUrl: THING, nonce: 'first', resources: [], removed: [gone ?? ''] });
  driver.advance(100);
  piece(driver, 'c', ...others.slice(-1_100));
  // The answer is whole 500 ms after its last part: in the turn in which the first removal is due.
  driver.advance(500);
  t.strictSame(guardedNames(driver), [1_300], 'of 2,400, all together');
  t.equal(watcher.held.size, 2_400);
  t.end();
});

t.test('removals in later responses after a reconnect without versions pass the guard too', (t) => {
  const had = Array.from({ length: 40 }, (_, n) => thing('cloud', `${n}`));
  const driver = freshSource(had);
  const watcher = driver.watching(...had);
  driver.advance(60_000);
  // The control plane restarts, has nothing yet, and says so in two responses.
  for (const name of had) driver.server('c').delete(THING, name);
  driver.server('c').isDeaf = true;
  driver.cut('c');
  while (!driver.isConnected('c')) driver.advance(10);
  for (const removed of [had.slice(0, 1), had.slice(1)])
    driver.send('c', { typeUrl: THING, nonce: 'n', resources: [], removed });
  driver.advance(5_000);
  t.equal(watcher.held.size, 40);
  t.strictSame(guardedNames(driver), [40]);
  t.end();
});

t.test('a removal that is due waits while its source is lost (invariant 3)', (t) => {
  const had = Array.from({ length: 9 }, (_, n) => thing('cloud', `${n}`));
  const driver = new FederationDriver(mapOf({ authorities: { cloud: { sources: ['c'] } } }));
  for (const name of had) driver.server('c').set(THING, name, '1');
  const watcher = driver.watching(...had);
  driver.advance(60_000);
  for (const name of had.slice(1)) driver.server('c').delete(THING, name);
  driver.cut('c');
  while (!driver.isConnected('c')) driver.advance(10);
  driver.advance(500);
  driver.server('c').reachability = 'refuse';
  driver.cut('c', { detectedBy: 'oversize' });
  driver.advance(20_000);
  t.equal(
    watcher.held.size,
    9,
    'too few for the guard, but their source may have been about to load them',
  );
  driver.server('c').reachability = 'up';
  driver.advance(60_000);
  t.equal(watcher.held.size, 1, 'its next stream says so again');
  t.end();
});

t.test('a removal that is due waits while a response of its source is read', (t) => {
  const had = Array.from({ length: 24 }, (_, n) => thing('cloud', `${n}`));
  const bodies = Object.fromEntries(had.map((name) => [name, '1']));
  const driver = pair(bodies, {}, {}, { portionBytes: 1 });
  const watcher = driver.watching(...had);
  driver.advance(WHOLE_MS);
  t.equal(watcher.held.size, 24);
  for (const name of had) driver.server('c').stalled.add(name);
  driver.cut('c');
  while (!driver.isConnected('c')) driver.advance(10);
  driver.takeGroupEvents();
  driver.send('c', { typeUrl: THING, nonce: 'first', resources: [], removed: had.slice(0, 13) });
  // One name in each turn, and the first of them is due before the last has been read.
  const guarded: number[] = [];
  while (guarded.length === 0 && watcher.held.size === 24) {
    driver.nowMs += 400;
    driver.turn();
    guarded.push(...guardedNames(driver));
  }
  t.strictSame([guarded, watcher.held.size], [[13], 24]);
  t.end();
});
