/**
 * Goal: the names of a large group move to another candidate in several turns, and what anybody sees meanwhile is either
 * the state before the switch or the one after it (docs/FAILOVER.md, "Three kinds of alternatives").
 * Method: the federation with scripted servers, where one name moves in each turn.
 */
import t from 'tap';
import type { GroupEvent } from '../../../../../authorities/core/failover/failover-group.js';
import { DEFAULT_FAILOVER } from '../../../../../config/defaults.js';
import {
  a,
  alt,
  glob,
  ID,
  kindOf,
  member,
  pair,
  TRIP_MS,
} from '../../../../support/authority-pair.js';
import {
  FederationDriver,
  mapOf,
  nameOf,
  RecordingWatcher,
  THING,
} from '../../../../support/federation-driver.js';
import { piece } from '../../../../support/pieces.js';

const IDS = ['1', '2', '3'];
const allOf = (body: string): Readonly<Record<string, string>> =>
  Object.fromEntries(IDS.map((id) => [member(id), body]));
const told = (body: string): readonly string[] => IDS.map((id) => `changed ${member(id)} ${body}`);

const switchesOf = (driver: FederationDriver): readonly GroupEvent[] =>
  driver.takeGroupEvents().filter(({ kind }) => kind === 'switched');

/** The primary is lost, and the first name has moved. */
function startMove() {
  const driver = pair(allOf('1'), allOf('alt'), {}, { movedNamesPerTurn: 1 });
  const watcher = driver.watching(glob);
  driver.advance(TRIP_MS);
  driver.takeEffects();
  watcher.take();
  driver.kill('c');
  while (watcher.told.length === 0) driver.turn();
  return { driver, watcher };
}

t.test(
  'one name moves in each turn, and the switch is reported when all have (invariant 6)',
  (t) => {
    const { driver, watcher } = startMove();
    const switchedMs = driver.group(ID).failover.lastSwitchMs;
    t.strictSame(watcher.take(), told('alt').slice(0, 1));
    t.equal(driver.federation.nextDeadlineMs(driver.nowMs), driver.nowMs, 'the next turn is due');
    driver.turn();
    t.strictSame(watcher.take(), told('alt').slice(1, 2));
    t.strictSame(switchesOf(driver), []);
    driver.turn();
    t.strictSame(watcher.take().slice(0, 1), told('alt').slice(2));
    driver.advance(1_000);
    t.match(switchesOf(driver), [{ from: 0, to: 1, atMs: switchedMs, changed: 3, kept: 0 }]);
    t.end();
  },
);

t.test('a watcher that comes meanwhile gets what the group serves now, and then the rest', (t) => {
  const { driver } = startMove();
  const late = driver.watching(glob);
  const before = [`changed ${member('1')} alt`, ...told('1').slice(1)];
  t.strictSame([...late.take()].sort(), before.sort());
  driver.advance(1_000);
  t.strictSame(late.take(), told('alt').slice(1));
  t.end();
});

t.test('a collection is complete only when all of its members have moved (invariant 3)', (t) => {
  const driver = new FederationDriver(
    mapOf({ authorities: { cloud: { sources: ['f', 'o'] } }, paths: ['f'] }),
    { movedNamesPerTurn: 1 },
  );
  const bodies = IDS.map((id) => ({ name: member(id), typeUrl: THING, body: Buffer.from('file') }));
  for (const id of IDS) driver.server('o').set(THING, member(id), 'o');
  driver.federation.handleUnreadable('f', driver.nowMs);
  const watcher = driver.watching(glob);
  driver.advance(TRIP_MS);
  t.strictSame([...watcher.held.values()], ['o', 'o', 'o']);
  driver.federation.handleLoaded('f', { resources: bodies, nowMs: driver.nowMs });
  driver.pump();
  watcher.take();
  while (watcher.told.length === 0) driver.turn();
  t.notOk(driver.federation.isCurrent(THING, nameOf(glob)), 'its absence would prove nothing');
  const late = driver.watching(glob);
  t.notMatch(late.take().join(), /complete/);
  driver.advance(1_000);
  t.ok(driver.federation.isCurrent(THING, nameOf(glob)));
  t.strictSame(late.take(), [...told('file').slice(1), `complete ${glob}`]);
  t.end();
});

t.test('names that nobody watches any more do not move', (t) => {
  const { driver, watcher } = startMove();
  driver.unwatch(glob, watcher);
  driver.advance(1_000);
  t.equal(driver.group(ID).servedCount, 0);
  t.match(switchesOf(driver), [{ changed: 1, kept: 0 }]);
  t.end();
});

t.test('a name that its source removes or changes meanwhile moves as it is by then', (t) => {
  const { driver, watcher } = startMove();
  driver.delete('o', alt(member('2')));
  driver.publish('o', alt(member('3')), 'newer');
  driver.advance(1_000);
  t.strictSame(
    [...watcher.held.values()],
    ['alt', '1', 'newer'],
    'an alternative proves no absence',
  );
  t.match(switchesOf(driver), [{ changed: 1, kept: 1 }]);
  t.end();
});

t.test('the candidate that the group left stays subscribed until all names have moved', (t) => {
  const { driver, watcher } = startMove();
  driver.advance(1_000);
  driver.revive('c');
  while (kindOf(driver) !== 'primary') driver.turn();
  t.strictSame(new Set(watcher.held.values()), new Set(['1', 'alt']), 'some have moved');
  const { stream } = driver.server('o');
  t.strictSame(stream.subscribed(THING), [alt(glob)]);
  driver.advance(1_000);
  t.strictSame([...watcher.held.values()], ['1', '1', '1']);
  t.strictSame(stream.subscribed(THING), []);
  t.end();
});

t.test('the names that the new candidate lacks are counted in portions too', (t) => {
  const lacked = ['10', '11', '12', '4', '5', '6', '7', '8', '9'].map(
    (id) => [member(id), '1'] as const,
  );
  const cloud = { ...allOf('1'), ...Object.fromEntries(lacked) };
  const driver = pair(cloud, allOf('alt'), {}, { movedNamesPerTurn: 3 });
  const watcher = driver.watching(glob);
  driver.advance(TRIP_MS);
  driver.kill('c');
  watcher.take();
  while (watcher.told.length === 0) driver.turn();
  t.strictSame(watcher.take(), told('alt'));
  t.strictSame(switchesOf(driver), []);
  driver.turn();
  t.match(switchesOf(driver), [{ changed: 3, kept: 9 }]);
  t.end();
});

t.test(
  'the members that a whole collection lacks are searched in portions, and go together',
  (t) => {
    const extra = Array.from({ length: 9 }, (_, n) => member(`extra${n}`));
    const alternative = Object.fromEntries(extra.map((name) => [name, 'alt']));
    const driver = pair({ [a]: '1' }, alternative, {}, { movedNamesPerTurn: 1 });
    const server = driver.server('c');
    server.stalled.add(glob);
    server.reachability = 'refuse';
    const watcher = driver.watching(glob, a);
    driver.advance(TRIP_MS);
    driver.revive('c');
    while (kindOf(driver) !== 'primary') driver.advance(1_000);
    driver.advance(60_000);
    watcher.take();
    piece(driver, 'c', member('1'));
    while (watcher.told.length < 2) driver.turn();
    t.strictSame(watcher.take(), [`changed ${member('1')} 1`, `complete ${glob}`]);
    const { nowMs } = driver;
    t.equal(driver.federation.nextDeadlineMs(nowMs), nowMs, 'the next turn is due');
    driver.turn();
    t.ok((driver.federation.nextDeadlineMs(nowMs) ?? 0) > nowMs, 'ten were compared');
    driver.advance(DEFAULT_FAILOVER.switchWaitMs);
    t.strictSame(
      watcher.take(),
      extra.map((name) => `removed ${name}`),
    );
    t.end();
  },
);

t.test(
  'what the new candidate lacks is judged together, even if the search takes longer than `switch_wait`',
  (t) => {
    const many = Array.from({ length: 24 }, (_, n) => member(`many${n}`));
    const alternative = Object.fromEntries([...many, a].map((name) => [name, 'alt']));
    const driver = pair({ [a]: '1' }, alternative, {}, { movedNamesPerTurn: 1 });
    const server = driver.server('c');
    server.reachability = 'refuse';
    const watcher = driver.watching(...many, a);
    driver.advance(TRIP_MS);
    t.equal(watcher.held.size, 25);
    driver.revive('c');
    while (kindOf(driver) !== 'primary') driver.turn();
    driver.takeGroupEvents();
    const guarded: number[] = [];
    while (guarded.length === 0 && watcher.held.size === 25) {
      driver.nowMs += DEFAULT_FAILOVER.switchWaitMs + 100;
      driver.turn();
      for (const event of driver.takeGroupEvents())
        if (event.kind === 'guarded') guarded.push(event.names);
    }
    t.strictSame([guarded, watcher.held.size], [[24], 25]);
    t.end();
  },
);

t.test('a switch that begins during another one ends it, and both are reported', (t) => {
  const driver = pair(
    allOf('1'),
    allOf('alt'),
    { failover: { prewarm: 'subscribed' } },
    { movedNamesPerTurn: 1 },
  );
  const watcher = driver.watching(glob);
  driver.advance(TRIP_MS);
  driver.takeEffects();
  driver.force(ID, 1);
  while (kindOf(driver) !== 'forced' || driver.group(ID).failover.active !== 1) driver.turn();
  t.strictSame([...watcher.held.values()], ['alt', '1', '1']);
  driver.force(ID, 0);
  driver.advance(1_000);
  t.strictSame([...watcher.held.values()], ['1', '1', '1']);
  t.match(switchesOf(driver), [
    { from: 0, to: 1, changed: 1 },
    { from: 1, to: 0, changed: 1, kept: 0 },
  ]);
  t.end();
});

t.test('a group that becomes idle during a move reports it', (t) => {
  const driver = pair(
    allOf('1'),
    allOf('alt'),
    { failover: { lingerMs: 0 } },
    { movedNamesPerTurn: 1 },
  );
  const watcher = new RecordingWatcher();
  driver.watch(glob, watcher);
  driver.advance(TRIP_MS);
  driver.takeEffects();
  watcher.take();
  driver.kill('c');
  while (watcher.told.length === 0) driver.turn();
  driver.unwatch(glob, watcher);
  driver.advance(1);
  t.equal(kindOf(driver), 'idle');
  t.match(switchesOf(driver), [{ changed: 1 }]);
  t.end();
});
