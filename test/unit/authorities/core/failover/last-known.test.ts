/**
 * Goal: a group of a new process whose sources are all unreachable serves what an earlier process kept, and nothing of it
 * once a source says otherwise (docs/FAILOVER.md, "Content on disk").
 * Method: one Federation after the other over the same kept content, fake servers, and simulated time.
 */
import t from 'tap';
import { listTypeOf } from '../../../../../protos/list-collection.js';
import { TYPE_URL } from '../../../../../protos/type-urls.js';
import {
  a,
  b,
  FAILBACK_MS,
  glob,
  kindOf,
  member,
  pair,
  TRIP_MS,
  type Resources,
} from '../../../../support/authority-pair.js';
import {
  FederationDriver,
  mapOf,
  nameOf,
  RecordingWatcher,
  THING,
  WHOLE_MS,
  type AuthoritySketch,
  type FederationDriverOptions,
} from '../../../../support/federation-driver.js';
import { at } from '../../../../support/node-groups.js';
import { KeptContent } from '../../../../support/kept-content.js';

const COLLECTION: Resources = { [a]: 'a1', [member('1')]: 'm1', [member('2')]: 'm2' };

/** `cloud` at source c, without an alternative. */
function alone(
  cloud: Resources,
  options: FederationDriverOptions,
  sketch: Partial<AuthoritySketch> = {},
): FederationDriver {
  const driver = new FederationDriver(
    mapOf({ authorities: { cloud: { sources: ['c'], ...sketch } } }),
    options,
  );
  for (const [name, body] of Object.entries(cloud)) driver.server('c').set(THING, name, body);
  return driver;
}

/** A process that served these resources, and ended. */
function keptBy(resources: Resources, ...asked: readonly string[]): KeptContent {
  const lastKnown = new KeptContent();
  const driver = alone(resources, { lastKnown });
  driver.watching(...asked);
  driver.advance(WHOLE_MS);
  lastKnown.restart();
  return lastKnown;
}

/** A new process whose source is down. */
function inOutage(
  lastKnown: KeptContent,
  cloud: Resources = {},
  options: FederationDriverOptions = {},
  sketch: Partial<AuthoritySketch> = {},
): FederationDriver {
  const driver = alone(cloud, { lastKnown, ...options }, sketch);
  driver.kill('c');
  return driver;
}

t.test(
  'kept content is served when all sources are unreachable, and not before (invariant 1)',
  (t) => {
    const lastKnown = keptBy(COLLECTION, a, glob);
    const driver = inOutage(lastKnown);
    const watcher = driver.watching(a, b, glob);
    t.strictSame(watcher.take(), [], 'the source may still answer');
    driver.advance(TRIP_MS);
    t.strictSame(watcher.take().toSorted(), [
      `changed ${a} a1`,
      `changed ${member('1')} m1`,
      `changed ${member('2')} m2`,
      `complete ${glob}`,
      `error 14 ${b}`,
    ]);
    t.equal(watcher.proven.get(glob), false, 'the source may have further members');
    const late = driver.watching(glob, a);
    driver.advance(0);
    t.strictSame(late.held, watcher.held, 'a later watcher gets the same');
    t.equal(late.proven.get(glob), false);
    const more = driver.watching(member('1'));
    driver.advance(0);
    t.equal(more.held.size, 1, 'and a name that nobody requested before');
    t.end();
  },
);

t.test('content that is unchanged when the source returns is not sent again (invariant 4)', (t) => {
  const driver = inOutage(keptBy(COLLECTION, a, glob), COLLECTION);
  const watcher = driver.watching(a, glob);
  driver.advance(TRIP_MS);
  watcher.take();
  driver.revive('c');
  driver.advance(FAILBACK_MS);
  t.equal(driver.group('cloud').failover.kind, 'primary');
  t.strictSame(
    watcher.take().filter((told) => !told.startsWith('complete')),
    [],
  );
  t.equal(watcher.proven.get(glob), true);
  t.end();
});

const KEEP = { share: 0.5, count: 10, waitMs: 60_000, then: 'keep' } as const;

/** What the source says when it returns, and how the content that was on disk stays. */
for (const [how, sketch, prepare] of [
  [
    'sends it',
    {},
    (driver: FederationDriver) => {
      driver.server('c').set(THING, a, 'a1');
    },
  ],
  ['lacks it, and the deletion guard keeps it', { failover: { deletionGuard: KEEP } }, () => 0],
  ['lacks it, and `ignore_deletion` keeps it', { ignoreDeletion: true }, () => 0],
  [
    'does not answer it in time',
    {},
    (driver: FederationDriver) => {
      driver.server('c').set(THING, b, 'b1');
      driver.server('c').stalled.add(a);
    },
  ],
  [
    'has a redirect to a name that it does not answer',
    {},
    (driver: FederationDriver) => {
      driver.server('c').stalled.add(member('none'));
      driver.redirect('c', a, member('none'));
    },
  ],
] as const) {
  t.test(
    `content on disk counts like content of a source when its source returns and ${how}`,
    (t) => {
      const driver = inOutage(keptBy({ [a]: 'a1' }, a), {}, {}, sketch);
      const watcher = driver.watching(a, b);
      driver.advance(TRIP_MS);
      t.equal(watcher.projections.get(a)?.isRestored, true);
      prepare(driver);
      driver.revive('c');
      driver.advance(2 * FAILBACK_MS);
      t.strictSame(watcher.confirmed, [a]);
      t.equal(watcher.held.get(a), 'a1');
      const later = driver.watching(a);
      driver.advance(0);
      t.not(later.projections.get(a)?.isRestored, true, 'for later watchers, too');
      t.end();
    },
  );
}

t.test('an old-style name on the disk is confirmed by the entry that serves it', (t) => {
  const lastKnown = new KeptContent();
  const start = (): FederationDriver => {
    const servedBy = [{ sources: ['c'] }, { sources: ['o'] }];
    const map = mapOf({ authorities: {}, oldStyle: { differBy: ['id'], servedBy } });
    const driver = new FederationDriver(map, { lastKnown });
    for (const server of ['c', 'o']) driver.server(server).set(THING, 'both', 'body');
    driver.server('o').set(THING, 'second', 'body');
    return driver;
  };
  const names = [at('n', 'both'), at('n', 'second')];
  const former = start();
  former.watching(...names);
  former.advance(WHOLE_MS);
  lastKnown.restart();
  const driver = start();
  for (const server of ['c', 'o']) driver.kill(server);
  const watcher = driver.watching(...names);
  driver.advance(TRIP_MS);
  t.equal(watcher.held.size, 2);
  driver.revive('c');
  driver.advance(FAILBACK_MS);
  watcher.confirmed.length = 0;
  driver.revive('o');
  driver.advance(FAILBACK_MS);
  t.strictSame(watcher.confirmed, [at('n', 'second')], 'the first entry has the other one');
  t.end();
});

t.test(
  'content on disk is not confirmed by a source that has other content, or by an outage',
  (t) => {
    const driver = inOutage(keptBy(COLLECTION, a, glob), { [a]: 'a2' });
    const watcher = driver.watching(a);
    driver.advance(FAILBACK_MS);
    t.strictSame(watcher.confirmed, []);
    driver.revive('c');
    driver.advance(FAILBACK_MS);
    t.strictSame(watcher.confirmed, []);
    t.not(watcher.projections.get(a)?.isRestored, true);
    t.end();
  },
);

t.test(
  'the source that returns changes and removes what it has changed and removed (invariant 3)',
  (t) => {
    const lastKnown = keptBy(COLLECTION, a, glob);
    const driver = inOutage(lastKnown, { [a]: 'a2', [member('1')]: 'm1', [member('3')]: 'm3' });
    const watcher = driver.watching(a, glob);
    driver.advance(TRIP_MS);
    watcher.take();
    driver.revive('c');
    driver.advance(FAILBACK_MS);
    const told = watcher.take().filter((one) => !one.startsWith('complete'));
    t.strictSame(told.toSorted(), [
      `changed ${a} a2`,
      `changed ${member('3')} m3`,
      `removed ${member('2')}`,
    ]);
    t.strictSame(lastKnown.names, [a, member('1'), member('3')], 'on disk, too');
    t.end();
  },
);

t.test(
  'a source that returns without any of the restored content has most likely just started: the deletion guard waits, however few names there are (seed 5698)',
  (t) => {
    const driver = inOutage(keptBy(COLLECTION, a, glob), { [member('3')]: 'm3' });
    const watcher = driver.watching(a, glob);
    driver.advance(TRIP_MS);
    t.notOk(driver.group('cloud').isCurrent(THING, nameOf(a)), 'the source is away');
    driver.server('c').delete(THING, member('3'));
    driver.revive('c');
    driver.advance(10_000);
    t.equal(driver.group('cloud').failover.kind, 'primary');
    t.equal(driver.group('cloud').guardedCount, 3);
    t.equal(watcher.held.size, 3);
    t.notOk(driver.group('cloud').isCurrent(THING, nameOf(a)), 'other names stay, too (seed 2980)');
    driver.advance(60_000);
    t.equal(watcher.held.size, 0, 'then it is believed');
    t.ok(driver.group('cloud').isCurrent(THING, nameOf(a)));
    t.end();
  },
);

t.test('a member that is requested by its name too is restored once', (t) => {
  const driver = inOutage(keptBy(COLLECTION, glob));
  const watcher = driver.watching(member('1'), glob);
  driver.advance(TRIP_MS);
  t.strictSame(watcher.take().toSorted(), [
    `changed ${member('1')} m1`,
    `changed ${member('2')} m2`,
    `complete ${glob}`,
  ]);
  driver.unwatch(member('1'), watcher);
  driver.unwatch(glob, watcher);
  driver.advance(FAILBACK_MS);
  t.equal(driver.group('cloud').failover.kind, 'idle');
  driver.watching(glob);
  driver.advance(TRIP_MS);
  t.equal(driver.group('cloud').servedCount, 2, 'and again when the group is used again');
  t.end();
});

t.test(
  'after one name of a collection was restored, a request for the collection restores the rest',
  (t) => {
    const driver = inOutage(keptBy(COLLECTION, glob));
    driver.watching(member('1'));
    driver.advance(TRIP_MS);
    const watcher = driver.watching(glob);
    driver.advance(0);
    t.strictSame([...watcher.held.values()], ['m1', 'm2']);
    t.end();
  },
);

t.test('an alternative that can be reached comes before kept content', (t) => {
  const lastKnown = keptBy(COLLECTION, a, glob);
  const driver = pair({}, { [a]: 'o1', [member('1')]: 'o1' }, {}, { lastKnown });
  driver.kill('c');
  const watcher = driver.watching(a, glob);
  driver.advance(TRIP_MS);
  t.equal(kindOf(driver), 'alt');
  t.strictSame([...watcher.held.values()], ['o1', 'o1']);
  t.end();
});

t.test(
  'an alternative that returns first replaces kept content, and its absence proves nothing (invariant 3)',
  (t) => {
    const lastKnown = keptBy(COLLECTION, a, glob);
    const driver = pair({}, { [member('1')]: 'o1' }, {}, { lastKnown });
    driver.kill('c');
    driver.kill('o');
    const watcher = driver.watching(a, glob);
    driver.advance(TRIP_MS);
    t.equal(kindOf(driver), 'cached');
    t.strictSame([...watcher.held.values()], ['a1', 'm1', 'm2']);
    driver.revive('o');
    driver.advance(FAILBACK_MS);
    t.equal(kindOf(driver), 'alt');
    t.strictSame(Object.fromEntries(watcher.held), {
      [a]: 'a1',
      [member('1')]: 'o1',
      [member('2')]: 'm2',
    });
    t.strictSame(lastKnown.names, [a, member('1'), member('2')]);
    t.end();
  },
);

t.test('what this process had from a source is not replaced by what an earlier one kept', (t) => {
  const lastKnown = keptBy(COLLECTION, a, glob);
  const driver = alone({ [member('1')]: 'new' }, { lastKnown });
  const watcher = driver.watching(glob, a);
  driver.advance(WHOLE_MS);
  lastKnown.keep(keptProjection(), 'c');
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.strictSame(Object.fromEntries(watcher.held), { [member('1')]: 'new' });
  t.end();
});

t.test(
  'a source sends a part of a collection and is lost: kept content completes the collection',
  (t) => {
    const lastKnown = keptBy(COLLECTION, glob);
    const driver = alone({ [member('1')]: 'new' }, { lastKnown });
    const watcher = driver.watching(glob);
    driver.kill('c');
    driver.advance(TRIP_MS);
    t.strictSame([...watcher.held.values()], ['new', 'm2']);
    t.equal(watcher.proven.get(glob), false);
    t.end();
  },
);

/** Of a name that the source of the test does not have. */
function keptProjection() {
  const watcher = new RecordingWatcher();
  const driver = alone(COLLECTION, {});
  driver.watch(glob, watcher);
  driver.advance(WHOLE_MS);
  return watcher.projections.get(member('2'))!;
}

t.test(
  'what the source of a later process lacks is gone for the one after it (invariant 3)',
  (t) => {
    const lastKnown = keptBy({ ...COLLECTION, [b]: 'b1' }, a, b, glob);
    const second = alone({ [member('1')]: 'new' }, { lastKnown });
    second.watching(a, glob);
    second.advance(WHOLE_MS);
    t.strictSame(lastKnown.names, [b, member('1')], 'nobody requested the other name');
    lastKnown.restart();
    const third = inOutage(lastKnown);
    const watcher = third.watching(a, b, glob);
    third.advance(TRIP_MS);
    t.strictSame(Object.fromEntries(watcher.held), { [b]: 'b1', [member('1')]: 'new' });
    t.end();
  },
);

t.test('a name that the primary is found to lack at a failback is gone, too', (t) => {
  const lastKnown = keptBy({ [b]: 'b1' }, b);
  const driver = pair({ [a]: 'a1' }, { [a]: 'o1' }, {}, { lastKnown });
  driver.kill('c');
  driver.watching(a, b);
  driver.advance(TRIP_MS);
  t.equal(kindOf(driver), 'alt');
  t.strictSame(lastKnown.names, [a, b].sort());
  driver.revive('c');
  driver.advance(2 * FAILBACK_MS);
  t.equal(kindOf(driver), 'primary');
  t.strictSame(lastKnown.names, [a]);
  t.end();
});

t.test('an alternative that lacks a name drops no kept content (invariant 3)', (t) => {
  const lastKnown = keptBy(COLLECTION, a, glob);
  const driver = pair({}, {}, {}, { lastKnown });
  driver.kill('c');
  driver.watching(a, glob);
  driver.advance(TRIP_MS);
  t.equal(kindOf(driver), 'alt');
  t.strictSame(lastKnown.names, [a, member('1'), member('2')]);
  t.end();
});

t.test('kept content of a source that the authority no longer has is not served', (t) => {
  const lastKnown = keptBy(COLLECTION, a);
  const driver = new FederationDriver(mapOf({ authorities: { cloud: { sources: ['other'] } } }), {
    lastKnown,
  });
  driver.kill('other');
  const watcher = driver.watching(a);
  driver.advance(TRIP_MS);
  t.strictSame(watcher.take(), [`error 14 ${a}`]);
  t.end();
});

t.test('a large collection is restored in portions, until the source returns', (t) => {
  const many: Resources = Object.fromEntries(
    Array.from({ length: 20 }, (_, at) => [member(`${at}`), 'm']),
  );
  const lastKnown = keptBy(many, glob);
  const driver = inOutage(lastKnown, many, { movedNamesPerTurn: 5 });
  const watcher = driver.watching(glob);
  let turns = 0;
  while (watcher.held.size === 0) driver.turn();
  for (; watcher.held.size < 20; turns++) driver.turn();
  t.ok(turns >= 3, `${turns} turns after the first`);
  const second = inOutage(lastKnown, many, { movedNamesPerTurn: 5 });
  const cut = second.watching(glob);
  while (cut.held.size === 0) second.turn();
  t.ok(cut.held.size < 20);
  second.revive('c');
  second.group('cloud').nudge(second.nowMs);
  second.pump();
  t.equal(second.group('cloud').failover.kind, 'primary', 'before all was restored');
  second.advance(FAILBACK_MS);
  t.equal(cut.held.size, 20);
  t.equal(cut.proven.get(glob), true);
  t.end();
});

t.test('a name that is left while it waits to be restored is not served', (t) => {
  const many: Resources = Object.fromEntries(
    Array.from({ length: 20 }, (_, at) => [member(`${at}`), 'm']),
  );
  const lastKnown = keptBy({ ...many, [a]: 'a1' }, glob, a);
  const driver = inOutage(lastKnown, {}, { movedNamesPerTurn: 5 });
  const watcher = driver.watching(a, glob);
  while (watcher.held.size < 3) driver.turn();
  driver.unwatch(glob, watcher);
  driver.advance(TRIP_MS);
  t.equal(driver.group('cloud').servedCount, 1);
  t.end();
});

t.test(
  'a collection is not complete if an earlier process had only single members of it (seed 8467)',
  (t) => {
    const driver = inOutage(keptBy(COLLECTION, member('1')));
    const watcher = driver.watching(glob);
    driver.advance(TRIP_MS);
    t.strictSame(watcher.take(), [`changed ${member('1')} m1`]);
    t.ok(driver.federation.isWatched(THING, nameOf(glob)), 'its sign on disk is of use');
    t.notOk(driver.federation.isWatched(THING, nameOf(member('1'))));
    t.end();
  },
);

for (const when of ['first', 'later'] as const) {
  t.test(
    `a collection with a member that was not kept is not complete, if it came ${when}`,
    (t) => {
      const lastKnown = new KeptContent();
      const former = alone(COLLECTION, { lastKnown });
      if (when === 'first') former.redirect('c', member('3'), a);
      former.watching(glob);
      former.advance(WHOLE_MS);
      if (when === 'later') former.redirect('c', member('3'), a);
      const driver = inOutage(lastKnown);
      const watcher = driver.watching(glob);
      driver.advance(TRIP_MS);
      t.strictSame(watcher.take().toSorted(), [
        `changed ${member('1')} m1`,
        `changed ${member('2')} m2`,
      ]);
      t.end();
    },
  );
}

t.test(
  'secrets, lists, redirects and content with a TTL do not outlive the process (invariants 13, 19, 20; seeds 477, 8305)',
  (t) => {
    const lastKnown = new KeptContent();
    const driver = alone({ [a]: 'a1', [b]: 'b1' }, { lastKnown });
    const secret = 'xdstp://cloud/envoy.extensions.transport_sockets.tls.v3.Secret/s';
    driver.server('c').set(TYPE_URL.secret, secret, '');
    driver.watch(secret, new RecordingWatcher(), TYPE_URL.secret);
    // Without entries: it would say that the collection is empty.
    const list = 'xdstp://cloud/test.v1.ThingCollection/l';
    driver.server('c').set(listTypeOf(THING), list, '');
    driver.watch(list, new RecordingWatcher(), listTypeOf(THING));
    const redirect = member('r');
    driver.redirect('c', redirect, b);
    driver.watching(redirect);
    driver.watching(a, b);
    driver.advance(WHOLE_MS);
    t.strictSame(lastKnown.names, [a, b]);
    const ttl = { seconds: 10, nanos: 0 };
    const resource = { name: b, version: '2', body: Buffer.from('b2'), ttl };
    driver.send('c', { typeUrl: THING, nonce: 'n', resources: [resource] });
    t.strictSame(lastKnown.names, [a]);
    t.end();
  },
);
