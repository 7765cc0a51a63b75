/**
 * Goal: a reload of the map changes nothing that it does not name: neither the state of a group whose settings
 * were edited, nor the content of old-style names whose entries were.
 * Method: a Federation against fake servers, and maps that differ in one thing.
 */
import t from 'tap';
import type { FailoverPolicy } from '../../../../config/model.js';
import {
  FederationDriver,
  mapOf,
  RecordingWatcher,
  thing,
  THING,
  type OldStyleSketch,
} from '../../../support/federation-driver.js';
import { at, heldBy, toldTo } from '../../../support/node-groups.js';

const NAME = thing('cloud', 'x');
const STALE: Partial<FailoverPolicy> = {
  useAlternativeWhen: { kind: 'stale_after', staleAfterMs: 600_000 },
};

const cloud = (failover: Partial<FailoverPolicy> = {}, sources = ['a', 'b']) =>
  mapOf({ authorities: { cloud: { sources, failover } } });

function started(map: ReturnType<typeof mapOf>) {
  const driver = new FederationDriver(map);
  for (const source of ['a', 'b', 'c']) driver.server(source).set(THING, NAME, `of ${source}`);
  const watcher = driver.watching(NAME);
  driver.advance(60_000);
  return { driver, watcher };
}
const stateOf = (driver: FederationDriver) => driver.group('cloud').failover;

t.test('a group goes on with its hold after a reload of its settings', (t) => {
  const { driver, watcher } = started(cloud());
  driver.kill('a');
  driver.advance(60_000);
  driver.revive('a');
  while (!driver.isConnected('a')) driver.advance(100);
  driver.reload(cloud({ lingerMs: 29_000 }));
  driver.advance(20_000);
  t.match(stateOf(driver), { kind: 'alt', active: 1 }, 'the primary is live for 20 s of 30');
  watcher.take();
  driver.advance(11_000);
  t.match(stateOf(driver), { kind: 'primary', active: 0 });
  t.strictSame(watcher.take(), [`changed ${NAME} of a`]);
  driver.kill('a');
  driver.advance(60_000);
  driver.reload(cloud({ lingerMs: 28_000 }));
  t.match(stateOf(driver), { kind: 'alt', holdMs: 60_000 }, 'a relapse has doubled it');
  driver.reload(cloud({ holdMaxMs: 45_000 }));
  t.match(stateOf(driver), { holdMs: 45_000 });
  t.end();
});

t.test('a hold that was not doubled follows the new map', (t) => {
  const { driver } = started(cloud());
  driver.kill('a');
  driver.advance(60_000);
  driver.reload(cloud({ holdMs: 5_000 }));
  t.match(stateOf(driver), { kind: 'alt', holdMs: 5_000 });
  t.end();
});

t.test('the state follows its source to another place in the list', (t) => {
  const { driver, watcher } = started(cloud());
  driver.kill('a');
  driver.advance(60_000);
  watcher.take();
  driver.reload(cloud({}, ['c', 'a', 'b']));
  driver.advance(1_000);
  t.match(stateOf(driver), { kind: 'alt', active: 2 });
  driver.reload(cloud({}, ['b', 'a']));
  driver.advance(10_000);
  t.match(stateOf(driver), { kind: 'primary', active: 0 });
  t.strictSame(watcher.take(), [], 'the same content');
  driver.reload(cloud({}, ['c']));
  driver.advance(10_000);
  t.strictSame(watcher.take(), [`changed ${NAME} of c`]);
  t.end();
});

t.test('content whose source a reload took from its group has no active source', (t) => {
  const driver = new FederationDriver(cloud());
  driver.server('b').set(THING, NAME, 'of b');
  driver.kill('a');
  const watcher = driver.watching(NAME);
  const servedFrom = (): string | undefined => driver.group('cloud').activeSource?.name;
  driver.advance(60_000);
  t.equal(servedFrom(), 'b');
  driver.reload(cloud({}, ['a']));
  driver.reload(cloud({ lingerMs: 29_000 }, ['a']));
  driver.advance(60_000);
  t.equal(servedFrom(), undefined, 'the primary is away, and the alternative has left the map');
  watcher.take();
  driver.server('a').set(THING, NAME, 'of a');
  driver.revive('a');
  driver.advance(60_000);
  t.equal(servedFrom(), 'a');
  t.strictSame(watcher.take(), [`changed ${NAME} of a`]);
  t.end();
});

t.test('neither have members of a collection, until the primary has answered', (t) => {
  const driver = new FederationDriver(cloud());
  const [kept, left] = [thing('cloud', 'dir/x'), thing('cloud', 'dir/y')];
  const glob = thing('cloud', 'dir/*');
  for (const name of [kept, left]) driver.server('b').set(THING, name, 'of b');
  driver.kill('a');
  const watcher = driver.watching(glob, kept);
  const servedFrom = (): string | undefined => driver.group('cloud').activeSource?.name;
  driver.advance(60_000);
  driver.reload(cloud({}, ['a']));
  driver.advance(60_000);
  t.match([servedFrom(), driver.group('cloud').servedCount], [undefined, 2]);
  driver.unwatch(glob, watcher);
  t.match([servedFrom(), driver.group('cloud').servedCount], [undefined, 1]);
  driver.server('a').set(THING, kept, 'of a');
  driver.revive('a');
  driver.advance(60_000);
  t.equal(servedFrom(), 'a');
  t.end();
});

t.test(
  'an entry takes over the state of no other entry, although both have a source in common',
  (t) => {
    const entries = (...added: readonly { readonly sources: readonly string[] }[]) =>
      mapOf({
        authorities: {},
        oldStyle: {
          differBy: ['id'],
          servedBy: [{ sources: ['a', 'c'] }, { sources: ['b', 'c'] }, ...added],
        },
      });
    for (const disturb of ['an order', 'an outage']) {
      const driver = new FederationDriver(entries());
      driver.server('a').set(THING, 'x', 'of a');
      driver.server('b').set(THING, 'y', 'of b');
      for (const name of ['x', 'y']) driver.server('c').set(THING, name, 'of c');
      const watcher = driver.watching(at('n', 'x'), at('n', 'y'));
      // Longer than `hold_reset`, so that the primary of the first entry has no hold to pass on.
      driver.advance(31 * 60_000);
      const second = driver.federation.groups[1]?.id ?? '';
      if (disturb === 'an order') driver.force(second, 1);
      else driver.kill('b');
      driver.advance(60_000);
      toldTo(watcher);
      driver.reload(entries({ sources: ['d'] }));
      driver.advance(60_000);
      t.strictSame(heldBy(watcher), { x: 'of a', y: 'of c' }, disturb);
      t.strictSame(toldTo(watcher), [], disturb);
    }
    t.end();
  },
);

t.test(
  'what the deletion guard keeps stays after a reload, unless the new map keeps nothing',
  (t) => {
    const guarded = (then: 'keep' | 'proceed', lingerMs: number) =>
      cloud({ lingerMs, deletionGuard: { share: 0.5, count: 10, waitMs: 60_000, then } }, ['a']);
    for (const then of ['keep', 'proceed'] as const) {
      const driver = new FederationDriver(guarded('keep', 30_000));
      const member = (id: number): string => thing('cloud', `g/${id}`);
      for (let id = 0; id < 20; id++) driver.server('a').set(THING, member(id), '1');
      const watcher = driver.watching(thing('cloud', 'g/*'));
      driver.advance(60_000);
      for (let id = 0; id < 12; id++) driver.server('a').delete(THING, member(id));
      driver.cut('a');
      driver.advance(120_000);
      // Now the 12 that are kept are less than the share of the guard.
      for (let id = 20; id < 50; id++) driver.publish('a', member(id), '1');
      driver.advance(60_000);
      t.equal(watcher.held.size, 50);
      driver.reload(guarded(then, 29_000));
      driver.advance(600_000);
      t.equal(watcher.held.size, then === 'keep' ? 50 : 38);
    }
    t.end();
  },
);

t.test(
  'a group that still waits for its first answer leaves it at once for a new first source',
  (t) => {
    const driver = new FederationDriver(cloud({}, ['a']));
    driver.server('c').set(THING, NAME, 'of c');
    driver.server('a').reachability = 'black_hole';
    const watcher = driver.watching(NAME);
    driver.advance(2_000);
    driver.reload(cloud({}, ['c', 'a']));
    driver.advance(1_000);
    t.match(stateOf(driver), { kind: 'primary', active: 0 });
    t.equal(watcher.held.size, 1);
    t.end();
  },
);

t.test(
  'stale_after counts from the loss, also after a reload with other settings of the source',
  (t) => {
    for (const kind of ['xdstp', 'old-style']) {
      const isOld = kind === 'old-style';
      const sources = ['a', 'b'];
      const oldStyle: OldStyleSketch = {
        differBy: ['id'],
        servedBy: [{ sources, failover: STALE }],
      };
      const map = (target: string) =>
        mapOf({
          authorities: isOld ? {} : { cloud: { sources, failover: STALE } },
          ...(isOld && { oldStyle }),
          targets: { a: target },
        });
      const driver = new FederationDriver(map('t:1'));
      for (const source of sources)
        driver.server(source).set(THING, isOld ? 'x' : NAME, `of ${source}`);
      const watcher = driver.watching(isOld ? at('n', 'x') : NAME);
      driver.advance(60_000);
      driver.kill('a');
      driver.advance(5_000);
      driver.reload(map('t:2'));
      driver.advance(60_000);
      t.strictSame([...watcher.held.values()], ['of a'], kind);
      driver.advance(600_000);
      t.strictSame([...watcher.held.values()], ['of b'], kind);
    }
    t.end();
  },
);

t.test('the order of an operator holds until its end, whatever the map says meanwhile', (t) => {
  const { driver, watcher } = started(cloud());
  driver.force('cloud', 1, 600_000);
  driver.advance(10_000);
  watcher.take();
  driver.reload(cloud({ lingerMs: 29_000 }));
  driver.advance(300_000);
  t.match(stateOf(driver), { kind: 'forced', active: 1, target: 1 });
  t.strictSame(watcher.take(), []);
  driver.advance(300_000);
  t.match(stateOf(driver), { kind: 'primary', active: 0 });
  driver.force('cloud', 1, 600_000);
  driver.advance(10_000);
  driver.reload(cloud({}, ['a', 'c']));
  driver.advance(1_000);
  t.match(stateOf(driver), { kind: 'primary' }, 'its source is gone from the group');
  t.end();
});

t.test('groups that a reload does not concern keep their state', (t) => {
  const map = (authorities: object) =>
    mapOf({
      authorities: {
        cloud: { sources: ['a'], mayLeadTo: ['edge'] },
        edge: { sources: ['b'] },
        ...authorities,
      },
      defaultSource: { sources: ['a', 'b'] },
    });
  const driver = new FederationDriver(map({}));
  const alternative = `${NAME}#alt=${thing('edge', 'x')}`;
  const other = thing('any', 'x');
  for (const name of [NAME, thing('edge', 'x'), other])
    for (const source of ['a', 'b']) driver.server(source).set(THING, name, `of ${source}`);
  driver.watching(alternative, other);
  driver.advance(1_000);
  driver.kill('a');
  driver.advance(60_000);
  driver.revive('a');
  while (!driver.isConnected('a')) driver.advance(100);
  driver.reload(map({ new: { sources: ['c'] } }));
  driver.advance(1_000);
  const kinds = driver.federation.groups.map(({ failover }) => failover.kind);
  t.strictSame(kinds, ['alt', 'alt']);
  t.end();
});

t.test('stale_after counts from the loss of the source in use', (t) => {
  const when = (title: string, prepare: (driver: FederationDriver) => void, active: number) => {
    const { driver } = started(cloud(STALE, ['a', 'b', 'c']));
    prepare(driver);
    driver.advance(300_000);
    t.match(stateOf(driver), { kind: 'cached', active }, title);
    driver.advance(310_000);
    t.match(stateOf(driver), { kind: 'alt', active: active + 1 }, title);
  };
  when(
    'across a reload',
    (driver) => {
      driver.kill('a');
      driver.advance(60_000);
      driver.reload(cloud({ ...STALE, lingerMs: 29_000 }, ['a', 'b', 'c']));
    },
    0,
  );
  when(
    'of an alternative',
    (driver) => {
      driver.kill('a');
      driver.advance(610_000);
      driver.kill('b');
    },
    1,
  );
  when(
    'during an order of an operator',
    (driver) => {
      driver.force('cloud', 0, 30_000);
      driver.advance(1_000);
      driver.kill('a');
      driver.advance(30_000);
    },
    0,
  );
  t.end();
});

const entries = (servedBy: OldStyleSketch['servedBy'], targets: Record<string, string> = {}) =>
  mapOf({ authorities: {}, targets, oldStyle: { differBy: ['id'], servedBy } });

t.test('an old-style name has the content of the entry that the new map names first', (t) => {
  const [a, b, both] = [{ sources: ['a'] }, { sources: ['b'] }, { sources: ['a', 'b'] }];
  for (const { before, after, held, told } of [
    { before: [a, b], after: [{ sources: ['b', 'a'] }], held: 'of b', told: ['changed x of b'] },
    { before: [a, b], after: [both], held: 'of a', told: [] },
    { before: [a, b], after: [b, a], held: 'of b', told: ['changed x of b'] },
    { before: [a, b], after: [b], held: 'of b', told: ['changed x of b'] },
    { before: [b], after: [a, b], held: 'of a', told: ['changed x of a'] },
    { before: [both], after: [b, a], held: 'of b', told: ['changed x of b'] },
  ]) {
    const driver = new FederationDriver(entries(before));
    for (const source of ['a', 'b']) driver.server(source).set(THING, 'x', `of ${source}`);
    const watcher = driver.watching(at('n', 'x'));
    driver.advance(10_000);
    watcher.take();
    driver.reload(entries(after));
    driver.advance(120_000);
    const title = JSON.stringify([before, after]);
    t.strictSame(heldBy(watcher), { x: held }, title);
    t.strictSame([...new Set(toldTo(watcher))], told, title);
  }
  t.end();
});

t.test('a source of old-style names may be renamed, or move, while it is down', (t) => {
  for (const [before, after] of [
    [entries([{ sources: ['a'] }], { a: 't:1' }), entries([{ sources: ['b'] }], { b: 't:1' })],
    [entries([{ sources: ['a'] }], { a: 't:1' }), entries([{ sources: ['a'] }], { a: 't:2' })],
  ] as const) {
    const driver = new FederationDriver(before);
    driver.server('a').set(THING, 'x', '1');
    const watcher = driver.watching(at('n', 'x'));
    driver.advance(10_000);
    driver.kill('a');
    driver.advance(60_000);
    watcher.take();
    driver.server('b').reachability = 'refuse';
    driver.reload(after);
    driver.advance(120_000);
    t.strictSame(heldBy(watcher), { x: '1' });
    t.notMatch(toldTo(watcher).join(), /removed|absent/);
  }
  t.end();
});

t.test('each old-style entry takes over its own content, although they share a source', (t) => {
  const map = (holdMs: number) =>
    entries([{ sources: ['a', 'b'] }, { sources: ['b'], failover: { holdMs } }]);
  const driver = new FederationDriver(map(30_000));
  driver.server('a').set(THING, 'x', 'of a');
  driver.server('b').set(THING, 'y', 'of b');
  const watcher = driver.watching(at('n', '*'));
  driver.advance(10_000);
  driver.kill('b');
  driver.advance(60_000);
  driver.reload(map(29_000));
  driver.advance(300_000);
  t.strictSame(heldBy(watcher), { x: 'of a', y: 'of b' });
  t.end();
});

t.test('an old-style name stays until the entry that serves it now has answered', (t) => {
  const OTHER = 'type.googleapis.com/test.v1.Other';
  const one = [{ sources: ['a'] }];
  const same = [
    { sources: ['a'], types: [THING] },
    { sources: ['a'], types: [OTHER] },
  ];
  const split = [
    { sources: ['a'], types: [OTHER] },
    { sources: ['b'], types: [THING] },
  ];
  for (const [before, after] of [
    [one, split],
    [split, one],
    [one, same],
    [same, one],
    [one, [{ sources: ['b'] }]],
  ] as const) {
    const driver = new FederationDriver(entries(before));
    for (const source of ['a', 'b'])
      for (const type of [THING, OTHER]) driver.server(source).set(type, 'x', '1');
    const [ofThing, ofOther] = [new RecordingWatcher(), new RecordingWatcher()];
    driver.watch(at('n', '*'), ofThing, THING);
    driver.watch(at('n', '*'), ofOther, OTHER);
    driver.advance(10_000);
    for (const watcher of [ofThing, ofOther]) t.ok(toldTo(watcher).includes('changed x 1'));
    driver.reload(entries(after));
    driver.advance(120_000);
    const title = JSON.stringify([before, after]);
    for (const watcher of [ofThing, ofOther]) {
      t.strictSame(heldBy(watcher), { x: '1' }, title);
      t.notMatch(toldTo(watcher).join(), /removed|absent|changed/, title);
    }
  }
  t.end();
});

t.test(
  'an edit of the alternative during an outage does not bring back what the dead source sent last',
  (t) => {
    const withAlternative = (...authority: string[]) =>
      mapOf({
        authorities: {
          cloud: { sources: ['a'], alternatives: authority.map((one) => ({ authority: one })) },
          edge: { sources: ['b'] },
          third: { sources: ['c'] },
        },
      });
    for (const isDown of [false, true]) {
      for (const alternative of [[], ['third']]) {
        const driver = new FederationDriver(withAlternative('edge'));
        driver.server('a').set(THING, NAME, 'of a');
        driver.server('b').set(THING, thing('edge', 'x'), 'of b');
        driver.server('c').set(THING, thing('third', 'x'), 'of c');
        const watcher = driver.watching(NAME);
        driver.advance(60_000);
        driver.kill('a');
        driver.advance(60_000);
        if (isDown) driver.kill('b');
        driver.advance(60_000);
        watcher.take();
        driver.reload(withAlternative(...alternative));
        driver.advance(60_000);
        const title = `${isDown ? 'cached' : 'alt'}, then ${alternative.join() || 'none'}`;
        const isMoved = alternative.length > 0;
        t.strictSame(watcher.take(), isMoved ? [`changed ${NAME} of c`] : [], title);
        driver.revive('a');
        driver.advance(120_000);
        const group = driver.federation.groups.find(({ spec }) => spec.name === 'cloud');
        t.match(group?.failover, { kind: 'primary' }, title);
        // It resumes its stream, and says nothing: its content has not changed.
        t.strictSame(watcher.take(), [`changed ${NAME} of a`], title);
        t.equal(group?.activeSource?.name, 'a', title);
        const switches = driver.takeGroupEvents().filter(({ kind }) => kind === 'switched');
        t.notOk(
          switches.some((one) => one.kind === 'switched' && one.from === one.to),
          title,
        );
      }
    }
    t.end();
  },
);
