/**
 * Goal: a collection that a server sends in pieces is not told to be complete before the last one came,
 * and nothing is removed meanwhile because it has not come yet (invariant 3).
 * Method: a Federation against a fake server whose pieces the test sends itself, in simulated time.
 */
import t, { type Test } from 'tap';
import { RemovalHold } from '../../../authorities/core/removal-hold.js';
import { DEFAULT_FAILOVER } from '../../../config/defaults.js';
import type { DeletionGuard } from '../../../config/model.js';
import { a, alt, glob, ID, kindOf, member, pair, TRIP_MS } from '../../support/authority-pair.js';
import {
  askedName,
  FederationDriver,
  mapOf,
  RecordingWatcher,
  THING,
  thing,
  WHOLE_MS,
} from '../../support/federation-driver.js';
import { at, driverOf } from '../../support/node-groups.js';

const OTHER = 'type.googleapis.com/test.v1.Other';
const SWITCH_WAIT_MS = DEFAULT_FAILOVER.switchWaitMs;
const other = (n: number): string => `xdstp://cloud/test.v1.Other/${n}`;
const otherGlob = thing('cloud', 'y/*');

let nonces = 0;

/** One message of a server: a part of what it has. */
function piece(driver: FederationDriver, source: string, ...names: readonly string[]): void {
  const resources = names.map((name) => ({ name, version: '1', body: Buffer.from('1') }));
  driver.send(source, { typeUrl: THING, nonce: `piece ${nonces++}`, resources });
}

/** `cloud`, whose server says nothing of these globs by itself. */
function silent(...globs: readonly string[]): FederationDriver {
  const driver = pair({}, {});
  for (const one of globs) driver.server('c').stalled.add(one);
  return driver;
}

const completions = (watcher: RecordingWatcher): number =>
  watcher.told.filter((line) => line.startsWith('complete')).length;

/** Time passes, and the collection gets complete at its end, not a moment before. */
function getsCompleteAfter(
  t: Test,
  driver: FederationDriver,
  watcher: RecordingWatcher,
  ms: number,
): void {
  driver.advance(ms - 1);
  t.equal(completions(watcher), 0, 'not before');
  driver.advance(1);
  t.equal(completions(watcher), 1, 'and then once');
}

const guardedNames = (driver: FederationDriver): readonly number[] =>
  driver.takeGroupEvents().flatMap((event) => (event.kind === 'guarded' ? [event.names] : []));

// ---- when a collection is whole -----------------------------------------------------------------

t.test('a collection in pieces is complete when none came for a while (invariant 3)', (t) => {
  const oldStyle = driverOf([{ sources: ['c'] }]);
  oldStyle.server('c').stalled.add('*');
  for (const { driver, asked, name } of [
    { driver: silent(glob), asked: glob, name: member },
    { driver: oldStyle, asked: at('n', '*'), name: (id: string) => id },
  ]) {
    const watcher = driver.watching(asked);
    for (const [index, gapMs] of [20, 200, 1_000, 2_000].entries()) {
      piece(driver, 'c', name(`${index}`));
      driver.advance(gapMs);
    }
    piece(driver, 'c', name('last'));
    t.equal(watcher.held.size, 5, 'what came is told at once');
    getsCompleteAfter(t, driver, watcher, WHOLE_MS);
    t.strictSame([...watcher.proven.values()], [true]);
  }
  t.end();
});

t.test('only a member that was not there puts off the completion', (t) => {
  const driver = silent(glob);
  const watcher = driver.watching(glob);
  piece(driver, 'c', member('1'));
  driver.advance(2_000);
  piece(driver, 'c', member('2'));
  driver.advance(2_000);
  const changed = { name: member('1'), version: '2', body: Buffer.from('2') };
  driver.send('c', { typeUrl: THING, nonce: 'changed', resources: [changed] });
  piece(driver, 'c', thing('cloud', 'z/not-asked'));
  t.equal(watcher.held.get(member('1')), '2');
  getsCompleteAfter(t, driver, watcher, WHOLE_MS - 2_000);
  piece(driver, 'c', member('3'));
  driver.advance(60_000);
  t.equal(completions(watcher), 1, 'what joins later is a change of a whole collection');
  t.end();
});

t.test('each collection waits for itself', (t) => {
  const driver = silent(glob, otherGlob);
  const [first, second] = [driver.watching(glob), driver.watching(otherGlob)];
  piece(driver, 'c', member('1'));
  driver.advance(1_000);
  piece(driver, 'c', thing('cloud', 'y/1'));
  driver.advance(1_000);
  piece(driver, 'c', member('2'));
  getsCompleteAfter(t, driver, second, WHOLE_MS - 1_000);
  getsCompleteAfter(t, driver, first, 1_000);
  t.end();
});

t.test('where members come and come, a collection is complete after 30 s', (t) => {
  const driver = silent(glob);
  const watcher = driver.watching(glob);
  for (let second = 0; second < 30; second++) {
    piece(driver, 'c', member(`${second}`));
    driver.advance(999);
    t.equal(completions(watcher), 0);
    driver.advance(1);
  }
  t.equal(completions(watcher), 1);
  piece(driver, 'c', member('late'));
  driver.advance(60_000);
  t.equal(completions(watcher), 1);
  t.equal(watcher.held.size, 31);
  t.end();
});

t.test('a stream that is cut between two pieces begins the wait anew', (t) => {
  // The first wait ends on the new stream, while nobody dials yet, or while dialling fails.
  for (const { cutMs, downMs, next } of [
    { cutMs: 500, downMs: 0, next: '1' },
    { cutMs: 500, downMs: 0, next: '2' },
    { cutMs: 2_400, downMs: 0, next: '2' },
    { cutMs: 500, downMs: 10_000, next: '2' },
  ]) {
    const driver = pair({}, {}, { alternatives: [] });
    driver.server('c').stalled.add(glob);
    const watcher = driver.watching(glob);
    piece(driver, 'c', member('1'));
    driver.advance(cutMs);
    driver.kill('c');
    driver.advance(downMs);
    driver.revive('c');
    while (!driver.isConnected('c')) driver.advance(50);
    t.equal(completions(watcher), 0, 'a stream that is lost completes nothing');
    piece(driver, 'c', member(next));
    getsCompleteAfter(t, driver, watcher, WHOLE_MS);
    t.ok(watcher.held.has(member('1')));
    t.notMatch(watcher.told.join(), /removed/);
  }
  t.end();
});

t.test('a new stream that has not answered yet completes nothing', (t) => {
  const driver = silent(glob);
  const watcher = driver.watching(glob);
  driver.watch(other(1), watcher, OTHER);
  piece(driver, 'c', member('1'));
  driver.advance(500);
  driver.cut('c');
  // Live again by the answer of another type, but of the collection nothing was said.
  driver.advance(WHOLE_MS + 1_000);
  t.equal(driver.group(ID).failover.kind, 'primary');
  t.equal(completions(watcher), 0);
  piece(driver, 'c', member('2'));
  getsCompleteAfter(t, driver, watcher, WHOLE_MS);
  t.end();
});

t.test('a switch begins the wait anew', (t) => {
  const driver = silent(glob);
  const watcher = driver.watching(glob);
  piece(driver, 'c', member('1'));
  driver.advance(2_000);
  // The stand-in has nothing.
  driver.force(ID, 1);
  t.equal(driver.group(ID).failover.active, 1);
  getsCompleteAfter(t, driver, watcher, WHOLE_MS);
  t.equal(watcher.proven.get(glob), false);
  t.end();
});

t.test('a stand-in that sends in pieces what the primary had is not whole either', (t) => {
  const driver = silent(glob);
  driver.server('o').stalled.add(alt(glob));
  const watcher = driver.watching(glob);
  piece(driver, 'c', member('1'), member('2'));
  driver.force(ID, 1);
  piece(driver, 'o', alt(member('1')));
  driver.advance(2_000);
  piece(driver, 'o', alt(member('2')));
  getsCompleteAfter(t, driver, watcher, WHOLE_MS);
  t.end();
});

t.test('a directory is whole at once: it is read as one', (t) => {
  const driver = new FederationDriver(
    mapOf({ authorities: { cloud: { sources: ['f'] } }, paths: ['f'] }),
  );
  const resources = [{ name: member('1'), typeUrl: THING, body: Buffer.from('1') }];
  const watcher = driver.watching(glob);
  driver.federation.handleLoaded('f', { resources, nowMs: driver.nowMs });
  driver.pump();
  t.strictSame(watcher.take(), [`changed ${member('1')} 1`, `complete ${glob}`]);
  t.equal(watcher.proven.get(glob), true);
  t.end();
});

t.test('a directory that is read late takes away at once what a stand-in had more', (t) => {
  const driver = new FederationDriver(
    mapOf({ authorities: { cloud: { sources: ['f', 'o'] } }, paths: ['f'] }),
  );
  for (const id of ['1', '2']) driver.server('o').set(THING, member(id), 'o');
  const watcher = driver.watching(glob);
  driver.federation.handleUnreadable('f', driver.nowMs);
  driver.pump();
  driver.advance(TRIP_MS);
  t.equal(watcher.held.size, 2);
  const resources = [{ name: member('1'), typeUrl: THING, body: Buffer.from('1') }];
  driver.federation.handleLoaded('f', { resources, nowMs: driver.nowMs });
  driver.pump();
  watcher.take();
  while (driver.group('cloud').failover.active !== 0) driver.advance(100);
  t.strictSame(watcher.take(), [`changed ${member('1')} 1`, `complete ${glob}`]);
  driver.advance(SWITCH_WAIT_MS);
  t.strictSame(watcher.take(), [`removed ${member('2')}`]);
  t.end();
});

// ---- who watches --------------------------------------------------------------------------------

t.test('a second watcher is told what came, and of the end together with the first', (t) => {
  const driver = silent(glob);
  const first = driver.watching(glob);
  piece(driver, 'c', member('1'));
  driver.advance(2_000);
  const second = driver.watching(glob);
  t.strictSame(second.told, [`changed ${member('1')} 1`]);
  getsCompleteAfter(t, driver, first, WHOLE_MS - 2_000);
  t.equal(completions(second), 1);
  t.strictSame(driver.watching(glob).told, [`changed ${member('1')} 1`, `complete ${glob}`]);
  t.end();
});

t.test('watchers that come and come put off nothing', (t) => {
  const driver = silent(glob);
  const first = driver.watching(glob);
  piece(driver, 'c', member('1'));
  for (let second = 0; second < 3; second++) {
    t.equal(completions(first), 0);
    driver.watching(glob);
    driver.advance(1_000);
  }
  t.equal(completions(first), 1);
  t.end();
});

t.test('a collection that is left before it is whole, and asked for again, waits anew', (t) => {
  const driver = silent(glob);
  const first = driver.watching(glob, a);
  piece(driver, 'c', member('1'));
  driver.advance(1_000);
  driver.unwatch(glob, first);
  driver.advance(1_000);
  const again = driver.watching(glob);
  driver.advance(WHOLE_MS);
  t.equal(completions(again), 0, 'nobody answered the new question');
  piece(driver, 'c', member('1'));
  // For 30 s, a member may be a late answer to the old question.
  getsCompleteAfter(t, driver, again, 30_000 + WHOLE_MS);
  t.equal(completions(first), 0);
  t.end();
});

// ---- removals -----------------------------------------------------------------------------------

/** The primary has these members; it lost some of them while its stream was cut. */
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

const members = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, n) => member(`${n}`));

t.test('what a resync removes of a collection goes when that is whole, not before', (t) => {
  const { driver, watcher } = resynced(members(3), [member('2')]);
  getsCompleteAfter(t, driver, watcher, WHOLE_MS);
  driver.advance(2 * SWITCH_WAIT_MS - WHOLE_MS - 1);
  t.strictSame(watcher.take(), [`complete ${glob}`]);
  driver.advance(1);
  t.strictSame(watcher.take(), [`removed ${member('2')}`]);
  t.end();
});

t.test('a piece that comes late puts off the removals of its collection too', (t) => {
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

t.test('a source that restarts with nothing gets the time to send all in pieces', (t) => {
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
});

t.test('what a resync removes and a later piece brings was never gone', (t) => {
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
  // Less than half of all: alone, these would go.
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
  t.equal(watcher.held.size, 32, 'the source lost all that it had');
  t.strictSame(guardedNames(driver), [32], 'one alarm');
  driver.advance(60_000);
  t.equal(watcher.held.size, 0);
  t.end();
});

t.test('a name that went does not wait for a collection that lost little', (t) => {
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

t.test('deletion guard: members that are on their way raise no alarm', (t) => {
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
  t.strictSame([...new Set(watcher.held.values())], ['1'], 'all of them are the primary’s');
  t.equal(watcher.held.size, 20);
  t.strictSame(guardedNames(driver), []);
  t.notMatch(watcher.told.join(), /removed/);
  t.end();
});

t.test('a collection that the primary answers late takes away what a stand-in had more', (t) => {
  const driver = silent(glob);
  driver.server('c').reachability = 'refuse';
  driver.server('c').set(THING, a, '1');
  driver.server('o').set(THING, alt(member('2')), 'alt');
  const watcher = driver.watching(glob, a);
  driver.advance(TRIP_MS);
  driver.revive('c');
  // It is silent until this counts as an answer: nothing is proven by that.
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
});

t.test('a whole collection of a stand-in takes nothing away (invariant 3)', (t) => {
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

// ---- the hold alone -----------------------------------------------------------------------------

interface Name {
  readonly key: string;
}

const GUARD: DeletionGuard = { share: 0.5, count: 10, waitMs: 60_000, then: 'proceed' };
const OPEN_PREFIX = 'open';

/** A hold with so many names that are due at 1 s. */
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

t.test('removals that are open are not judged, and are looked at again', (t) => {
  const hold = holdOf({ open: 12 });
  t.strictSame(hold.takeDue(12, 1_000, openUntil(3_000)), { due: [], guarded: undefined });
  t.equal(hold.size, 12);
  t.equal(hold.guardedCount, 0);
  t.equal(hold.nextDeadlineMs(), 3_000);
  t.strictSame(hold.takeDue(12, 2_999), { due: [], guarded: undefined }, 'not due before');
  t.match(hold.takeDue(12, 3_000), { due: [], guarded: { names: 12, untilMs: 63_000 } });
  t.equal(hold.takeDue(12, 63_000, openUntil(70_000)).due.length, 12, 'they had their time');
  t.equal(hold.size, 0);
  t.equal(hold.nextDeadlineMs(), undefined);
  t.end();
});

t.test('what is due goes while others are open, unless all together would be too much', (t) => {
  const few = holdOf({ closed: 5, open: 5 });
  t.equal(few.takeDue(20, 1_000, openUntil(3_000)).due.length, 5);
  t.equal(few.size, 5);

  const many = holdOf({ closed: 8, open: 8 });
  many.add({ typeUrl: THING, name: { key: 'late' } }, 1_500);
  t.strictSame(many.takeDue(30, 1_000, openUntil(3_000)), { due: [], guarded: undefined });
  t.equal(many.nextDeadlineMs(), 1_500, 'what is not due yet keeps its time');
  for (let n = 0; n < 8; n++) many.cancel(THING, { key: `${OPEN_PREFIX} ${n}` });
  t.match(many.takeDue(30, 1_500, openUntil(3_500)).due, [{ name: { key: 'late' } }]);
  t.equal(many.takeDue(30, 3_000, openUntil(5_000)).due.length, 8, 'the open ones came after all');

  const most = holdOf({ closed: 15, open: 5 });
  t.match(most.takeDue(20, 1_000, openUntil(3_000)).guarded, { names: 15 }, 'these alone are');
  t.end();
});

t.test('a guard of `all` holds back everything at once, however few that is', (t) => {
  const all = { ...GUARD, all: true };
  t.match(holdOf({ closed: 3 }, all).takeDue(3, 1_000).guarded, { names: 3, untilMs: 61_000 });
  t.equal(holdOf({ closed: 3 }, all).takeDue(4, 1_000).due.length, 3);
  t.equal(holdOf({ closed: 3 }).takeDue(3, 1_000).due.length, 3, 'and an ordinary one does not');
  t.match(holdOf({ closed: 11 }, all).takeDue(22, 1_000).guarded, { names: 11 }, 'as before');
  t.end();
});

// ---- how removals are judged --------------------------------------------------------------------

t.test('removals of a name are judged as its authority or its first entry says', (t) => {
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
  t.equal(waitOf(at('n', 'x'), OTHER), 3, 'the first that serves the type');
  t.equal(waitOf(at('n', 'x'), `${OTHER}s`), SWITCH_WAIT_MS, 'none serves it');
  t.equal(waitOf(thing('nobody', 'a')), SWITCH_WAIT_MS, 'the map does not have it');
  const { federation: plain } = pair({}, {});
  const policy = plain.removalPolicyOf(THING, askedName(at('n', 'x')));
  t.equal(policy, DEFAULT_FAILOVER, 'the map has no old-style names');
  t.end();
});
