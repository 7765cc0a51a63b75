import t from 'tap';
import type { ManagementServer } from '../../../../authorities/core/sources/management-server.js';
import type { AuthorityMap } from '../../../../config/model.js';
import { encodeResponse } from '../../../support/discovery-messages.js';
import {
  FederationDriver,
  mapOf,
  nameOf,
  RecordingWatcher,
  THING,
  thing,
  type MapSketch,
} from '../../../support/federation-driver.js';

const a = thing('cloud', 'a');
const edge = thing('cloud', 'e/one');
const glob = thing('cloud', 'e/*');
const other = thing('lab', 'a');

const base = {
  cloud: { sources: ['c'], alternatives: [{ authority: 'onprem' }] },
  onprem: { sources: ['o'] },
  lab: { sources: ['l'] },
} as const satisfies MapSketch['authorities'];

function started(authorities: MapSketch['authorities'] = base): FederationDriver {
  const driver = new FederationDriver(mapOf({ authorities }));
  const cloud = [a, edge, thing('cloud', 'e/two')];
  for (const name of cloud) {
    driver.server('c').set(THING, name, 'c');
    driver.server('d').set(THING, name, 'd');
    driver.server('o').set(THING, name.replace('cloud', 'onprem'), 'o');
  }
  driver.server('l').set(THING, other, 'l');
  return driver;
}
const map = (
  authorities: MapSketch['authorities'],
  rest: Omit<MapSketch, 'authorities'> = {},
): AuthorityMap => mapOf({ authorities, ...rest });

t.test('reload: unchanged parts of the map keep their streams and groups', (t) => {
  const driver = started();
  const watcher = driver.watching(a, other);
  const group = driver.group('lab');
  const server = driver.federation.source('l');
  const dials = driver.dials.length;
  watcher.take();
  const next = map({ ...base, cloud: { ...base.cloud, alternatives: [] } });
  driver.reload(next);
  t.equal(driver.group('lab'), group);
  t.equal(driver.federation.source('l'), server);
  t.equal(driver.federation.map, next);
  t.equal(driver.dials.length, dials, 'the sources are the same: no new connection');
  t.strictSame(
    watcher.told.filter((what) => what.includes('lab')),
    [],
  );
  t.end();
});

t.test('reload: the same map again changes nothing', (t) => {
  const driver = started();
  const watcher = driver.watching(a, glob, other);
  watcher.take();
  driver.takeEffects();
  driver.reload(map(base));
  t.strictSame(watcher.told, []);
  t.strictSame(driver.takeEffects(), []);
  t.end();
});

t.test(
  'reload: a changed authority keeps its served content until its new primary answers',
  (t) => {
    const driver = started();
    const watcher = driver.watching(a, glob);
    watcher.take();
    driver.server('d').reachability = 'refuse';
    driver.reload(map({ ...base, cloud: { sources: ['d'] } }));
    driver.advance(600_000);
    t.equal(watcher.held.size, 3);
    t.notMatch(watcher.told.join(), /removed|absent|error/);
    t.notOk(driver.isConnected('c'), 'the source that left the map is disconnected');
    driver.server('d').delete(THING, thing('cloud', 'e/two'));
    driver.revive('d');
    driver.advance(120_000);
    t.strictSame(
      [...watcher.held].sort(),
      [
        [a, 'd'],
        [edge, 'd'],
      ].sort(),
      'and names that it lacks are removed, members of a glob too',
    );
    t.end();
  },
);

t.test('reload: the group of a new prefix adopts the names under it', (t) => {
  const driver = started({ cloud: { sources: ['c'] }, onprem: { sources: ['o'] } });
  const watcher = driver.watching(a, edge);
  watcher.take();
  const alternatives = [{ authority: 'onprem', fromPrefix: 'e/', toPrefix: 'e/' }];
  driver.server('c').reachability = 'black_hole';
  driver.reload(map({ cloud: { sources: ['c'], alternatives }, onprem: { sources: ['o'] } }));
  t.equal(driver.group('cloud').servedCount, 1);
  t.equal(driver.group('cloud/e/*').servedCount, 1);
  driver.server('c').reachability = 'refuse';
  driver.cut('c');
  driver.advance(10_000);
  t.strictSame([...watcher.held.values()], ['c', 'o'], 'each group then fails over by itself');
  t.notMatch(watcher.told.join(), /removed|absent|error/);
  driver.revive('c');
  driver.reload(map({ cloud: { sources: ['c'] }, onprem: { sources: ['o'] } }));
  driver.advance(120_000);
  t.strictSame(
    driver.federation.groups.map(({ id }) => id),
    ['cloud'],
  );
  t.strictSame([...watcher.held.values()], ['c', 'c'], 'and both return');
  t.end();
});

t.test('reload: names whose old and new group both change get the content of the new one', (t) => {
  // Found by the simulation, seed 24437: the content went to the old group of the authority, which the reload then replaced.
  const alternatives = [{ authority: 'onprem', fromPrefix: 'e/', toPrefix: 'e/' }];
  const onprem = { sources: ['o'] };
  const paths = ['f'];
  const driver = new FederationDriver(
    mapOf({ authorities: { cloud: { sources: ['f'], alternatives }, onprem }, paths }),
  );
  driver.server('o').set(THING, edge.replace('cloud', 'onprem'), 'o');
  const resources = [edge, a].map((name) => ({ name, typeUrl: THING, body: Buffer.from('f') }));
  driver.federation.handleLoaded('f', { resources, nowMs: driver.nowMs });
  const watcher = driver.watching(edge, a);
  driver.force('cloud/e/*', 1);
  driver.advance(1_000);
  t.strictSame([...watcher.held.values()], ['o', 'f']);
  driver.reload(map({ cloud: { sources: ['f'] }, onprem }, { paths }));
  driver.advance(1_000);
  t.strictSame(
    driver.federation.groups.map(({ id }) => id),
    ['cloud'],
  );
  t.strictSame([...watcher.held.values()], ['f', 'f']);
  t.end();
});

t.test('reload: an authority that left the map loses its names at the next flush', (t) => {
  const driver = started();
  const watcher = driver.watching(a, glob, other);
  watcher.take();
  driver.federation.reload(map({ lab: base.lab }), driver.nowMs);
  t.strictSame(watcher.told, [], 'never from within the call');
  driver.pump();
  t.strictSame([...watcher.told].sort(), [
    `error 5 ${a}`,
    `error 5 ${glob}`,
    `removed ${a}`,
    `removed ${edge}`,
    `removed ${thing('cloud', 'e/two')}`,
  ]);
  t.strictSame([...watcher.held.keys()], [other]);
  driver.reload(map(base));
  t.equal(watcher.held.get(a), 'c', 'when the authority returns, so do its names');
  t.end();
});

t.test('reload: a name whose authority is added in time is never reported unknown', (t) => {
  const driver = started({ lab: base.lab });
  const watcher = new RecordingWatcher();
  driver.federation.watch(THING, nameOf(a), watcher, driver.nowMs);
  driver.reload(map(base));
  t.strictSame(watcher.told, [`changed ${a} c`]);
  t.end();
});

t.test('reload: late IO of a replaced source does not reach its successor', (t) => {
  const driver = started();
  const watcher = driver.watching(a);
  driver.reload(map(base, { targets: { c: 'elsewhere.example.com:443' } }));
  const dials = driver.dials.filter(({ source }) => source === 'c');
  t.equal(dials.length, 2);
  watcher.take();
  driver.takeEffects();
  const end = { code: 14, message: 'late', detectedBy: 'stream' } as const;
  driver.federation.handleAttemptEvent('c', 1, { kind: 'ended', end }, driver.nowMs);
  driver.pump();
  t.equal(driver.group('cloud/*').failover.kind, 'primary');
  const server = driver.federation.source('c') as ManagementServer;
  t.equal(server.health.epoch, 2, 'epochs keep counting');
  driver.advance(60_000);
  t.ok(driver.isConnected('c'));
  t.end();
});

t.test('reload: no version of the old server is sent to the new one (invariant 10)', (t) => {
  const driver = started();
  driver.watching(a, glob);
  driver.reload(map(base, { targets: { c: 'elsewhere.example.com:443' } }));
  const { requests } = driver.server('c').stream;
  t.ok(requests.length > 0);
  t.ok(requests.every(({ initialVersions }) => Object.keys(initialVersions).length === 0));
  t.end();
});

t.test('reload: a group that was prewarmed releases its stream', (t) => {
  const failover = { prewarm: 'connected' } as const;
  const driver = started({ ...base, cloud: { ...base.cloud, failover } });
  driver.watching(a);
  t.ok(driver.isConnected('o'));
  driver.reload(map(base));
  driver.advance(31_000);
  t.notOk(driver.isConnected('o'));
  t.end();
});

t.test(
  'reload: a changed source list of the alternative creates a new group for the primary',
  (t) => {
    const driver = started();
    driver.watching(a);
    const group = driver.group('cloud/*');
    driver.reload(map({ ...base, onprem: { sources: ['o', 'd'] } }));
    t.not(driver.group('cloud/*'), group);
    t.equal(driver.group('cloud/*').candidates.length, 3);
    t.end();
  },
);

t.test('an alternative that the map does not have is left out', (t) => {
  const driver = started({ cloud: { sources: ['c'], alternatives: [{ authority: 'gone' }] } });
  t.equal(driver.watching(a).held.get(a), 'c');
  t.equal(driver.group('cloud/*').candidates.length, 1);
  t.end();
});

t.test('watchers may watch and unwatch from within a notification', (t) => {
  const driver = started();
  const inner = new RecordingWatcher();
  const outer = new RecordingWatcher();
  outer.onChanged = (projection): void => {
    driver.federation.unwatch(THING, projection.name, outer, driver.nowMs);
    driver.federation.watch(THING, nameOf(edge), inner, driver.nowMs);
  };
  driver.watch(a, outer);
  t.equal(inner.held.get(edge), 'c');
  driver.publish('c', a, 'again');
  t.strictSame(outer.told, []);
  t.end();
});

t.test('a watcher of a name and of its glob gets each change once', (t) => {
  const driver = started();
  const watcher = driver.watching(edge, glob);
  watcher.take();
  driver.publish('c', edge, '2');
  t.strictSame(watcher.told, [`changed ${edge} 2`]);
  const second = driver.watching(glob);
  second.take();
  driver.publish('c', edge, '3');
  t.strictSame(second.told, [`changed ${edge} 3`]);
  t.end();
});

t.test('ending a watch that does not exist, or twice, does nothing', (t) => {
  const driver = started();
  const watcher = driver.watching(a);
  driver.unwatch(edge, watcher);
  driver.unwatch(a, new RecordingWatcher());
  driver.publish('c', a, '2');
  t.equal(watcher.held.get(a), '2');
  driver.unwatch(a, watcher);
  driver.unwatch(a, watcher);
  driver.unwatch(thing('nobody', 'x'), watcher);
  t.equal(driver.group('cloud/*').demandCount, 0);
  t.end();
});

t.test('several authorities share one source, one stream and one set of names', (t) => {
  const driver = new FederationDriver(
    map({
      cloud: { sources: ['s'], alternatives: [{ authority: 'onprem' }] },
      onprem: { sources: ['s'] },
    }),
  );
  const there = thing('onprem', 'a');
  driver.server('s').set(THING, a, 'c');
  driver.server('s').set(THING, there, 'o');
  const watcher = driver.watching(a, there);
  t.equal(driver.dials.length, 1);
  driver.force('cloud/*', 1);
  t.strictSame([...watcher.held.values()], ['o', 'o']);
  driver.publish('s', there, 'o2');
  t.strictSame([...watcher.held.values()], ['o2', 'o2']);
  t.strictSame(driver.server('s').stream.subscribed(THING), [a, there].sort());
  driver.unwatch(there, watcher);
  driver.publish('s', there, 'o3');
  t.equal(watcher.held.get(a), 'o3', 'its group still subscribes it');
  t.end();
});

t.test('a source object survives a reload while its map entry is unchanged', (t) => {
  const driver = started();
  const { federation } = driver;
  const before = federation.source('c');
  driver.reload(structuredClone(federation.map));
  t.equal(federation.source('c'), before);
  t.end();
});

t.test('groups without demand are not listed; missing sources are left out', (t) => {
  const driver = started();
  t.strictSame(driver.federation.groupsOf('cloud'), []);
  const whole = map({ cloud: { sources: ['gone', 'c'] } });
  const sources = new Map([...whole.sources].filter(([name]) => name !== 'gone'));
  driver.reload({ ...whole, sources });
  t.equal(driver.watching(a).held.get(a), 'c');
  t.equal(driver.group('cloud').candidates.length, 1);
  t.end();
});

t.test('a change that arrives after the watch ended is not notified', (t) => {
  const driver = started();
  const watcher = driver.watching(a);
  watcher.take();
  const change = { name: a, version: '2', body: Buffer.from('2') };
  const bytes = encodeResponse({ typeUrl: THING, nonce: 'n', resources: [change] });
  driver.federation.handleMessage('c', 1, bytes, driver.nowMs);
  driver.federation.unwatch(THING, nameOf(a), watcher, driver.nowMs);
  driver.pump();
  t.strictSame(watcher.told, []);
  t.equal(driver.group('cloud/*').servedCount, 0);
  t.end();
});
