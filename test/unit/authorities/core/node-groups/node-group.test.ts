/**
 * Goal: the gateway requests old-style names at the entries that the map lists, per node group;
 * contents of entries add up, and the sources of one entry fail over to one another.
 * Method: a Federation against fake servers that answer by node id.
 */
import t from 'tap';
import { DEFAULT_FAILOVER } from '../../../../../config/defaults.js';
import { scopeOfSource, sourceNameOf } from '../../../../../authorities/core/sources/source-ids.js';
import { project, reproject } from '../../../../../authorities/core/projection.js';
import { TYPE_URL } from '../../../../../protos/type-urls.js';
import { oldStyleName } from '../../../../../protos/resource-name.js';
import {
  askedName,
  FederationDriver,
  mapOf,
  nameOf,
  RecordingWatcher,
  scopeOfId,
  THING,
  WHOLE_MS,
  type MapSketch,
  type OldStyleSketch,
} from '../../../../support/federation-driver.js';
import { at, driverOf, heldBy, toldTo } from '../../../../support/node-groups.js';

const OTHER = 'type.googleapis.com/test.v1.Other';
t.test(
  'each node group has a stream of its own with its Node, and gets only the content for it',
  (t) => {
    const driver = driverOf([{ sources: ['s'] }]);
    driver.server('s').setFor('a', THING, 'x', 'for a');
    driver.server('s').setFor('b', THING, 'x', 'for b');
    driver.server('s').setFor('b', THING, 'only-b', 'b');
    const a = driver.watching(at('a', 'x'), at('a', 'only-b'));
    const b = driver.watching(at('b', 'x'), at('b', '*'));
    t.strictSame(heldBy(a), { x: 'for a' });
    t.strictSame(heldBy(b), { x: 'for b', 'only-b': 'b' });
    t.strictSame(
      driver
        .streamsOf('s')
        .map(({ nodeId }) => nodeId)
        .sort(),
      ['a', 'b'],
    );
    t.ok(a.told.includes(`absent ${at('a', 'only-b')}`));
    t.equal(driver.streamsOf('s').length, 2, 'invariant 8: one stream per source and node group');
    t.end();
  },
);

t.test(
  'a node group can be given up while its sources answer, for then its content can be had again',
  (t) => {
    const driver = driverOf([{ sources: ['s'] }, { sources: ['unused'], types: ['Listener'] }]);
    driver.watching(at('a', 'x'), at('a', '*'));
    const nodeGroup = driver.federation.nodeGroups.at(scopeOfId('a'))!;
    t.ok(nodeGroup.isConnected);
    t.strictSame([...nodeGroup.demands()].map(({ name }) => name.key).sort(), [
      at('a', '*'),
      at('a', 'x'),
    ]);
    driver.kill('s');
    t.notOk(nodeGroup.isConnected);
    t.equal(driver.federation.nodeGroups.at('none'), undefined);
    t.end();
  },
);

t.test('a group lingers from the time at which its last client left', (t) => {
  const driver = driverOf([{ sources: ['s'] }]);
  const watcher = driver.watching(at('a', 'x'));
  driver.advance(60_000);
  const leftMs = driver.nowMs - DEFAULT_FAILOVER.lingerMs;
  driver.federation.unwatch(THING, nameOf(at('a', 'x')), watcher, driver.nowMs, leftMs + 1);
  driver.pump();
  t.equal(driver.streamsOf('s').length, 1);
  driver.advance(1);
  t.equal(driver.streamsOf('s').length, 0);
  t.end();
});

t.test(
  'one stream serves every group where nothing differs, xdstp names too (invariant 8)',
  (t) => {
    const own = { s: { id: 'own', cluster: '' } };
    for (const { sketch, groups } of [
      { sketch: { differBy: [] }, groups: ['', ''] },
      { sketch: { nodes: own }, groups: [scopeOfId('a'), scopeOfId('b')] },
    ]) {
      const authorities = { cloud: { sources: ['s'] } };
      const driver = driverOf([{ sources: ['s'] }], { ...sketch, authorities });
      const [a, b] = groups.map((scope) => (text: string) => `\n${scope}\n${text}`);
      if (!a || !b) throw new Error('two groups');
      driver.server('s').set(THING, 'x', '1');
      driver.server('s').set(THING, 'xdstp://cloud/test.v1.Thing/y', '2');
      const scoped = driver.watching(a('x'), a('*'));
      const other = driver.watching(b('x'));
      const xdstp = driver.watching('xdstp://cloud/test.v1.Thing/y');
      t.equal(driver.dials.length, 1);
      t.strictSame([heldBy(scoped), heldBy(other)], [{ x: '1' }, { x: '1' }]);
      t.equal(xdstp.held.size, 1);
      driver.publish('s', 'x', '3');
      t.strictSame([heldBy(scoped), heldBy(other)], [{ x: '3' }, { x: '3' }]);
      driver.delete('s', 'x');
      t.strictSame([heldBy(scoped), heldBy(other)], [{}, {}]);
    }
    t.end();
  },
);

t.test('a wildcard is subscribed by an empty first request, or by `*` beside other names', (t) => {
  const driver = driverOf([{ sources: ['s'] }]);
  driver.server('s').set(THING, 'x', '1');
  const watcher = driver.watching(at('a', '*'));
  const [stream] = driver.streamsOf('s');
  t.strictSame(stream?.requests[0]?.subscribe, []);
  driver.advance(WHOLE_MS);
  t.strictSame(toldTo(watcher), ['changed x 1', 'complete *']);
  driver.watch(at('a', 'x'), watcher);
  t.ok(stream?.requests.some(({ subscribe }) => subscribe.includes('x')));
  driver.cut('s');
  driver.advance(1_000);
  const [again] = driver.streamsOf('s');
  t.strictSame([...(again?.requests[0]?.subscribe ?? [])].sort(), ['*', 'x']);
  driver.unwatch(at('a', '*'), watcher);
  t.strictSame(again?.requests.at(-1)?.unsubscribe, ['*']);
  t.end();
});

t.test('an empty response answers an empty wildcard', (t) => {
  const driver = driverOf([{ sources: ['s'] }]);
  const watcher = driver.watching(at('a', '*'));
  driver.advance(WHOLE_MS);
  t.strictSame(toldTo(watcher), ['complete *']);
  t.end();
});

t.test(
  'a wildcard resumes with the versions of its members, and gets removals of deleted ones',
  (t) => {
    const driver = driverOf([{ sources: ['s'] }]);
    driver.server('s').set(THING, 'x', '1');
    driver.server('s').set(THING, 'y', '1');
    const watcher = driver.watching(at('a', '*'));
    driver.kill('s');
    driver.server('s').delete(THING, 'y');
    driver.revive('s');
    driver.advance(10_000);
    const [stream] = driver.streamsOf('s');
    t.strictSame(stream?.requests[0]?.subscribe, []);
    t.strictSame(stream?.requests[0]?.initialVersions, { x: 'v1', y: 'v2' });
    t.strictSame(heldBy(watcher), { x: '1' });
    t.end();
  },
);

t.test(
  'entries add up; the first entry that has a name serves it, and the next one when it is deleted',
  (t) => {
    const driver = driverOf([{ sources: ['first'] }, { sources: ['second'] }]);
    driver.server('first').set(THING, 'x', 'first');
    driver.server('second').set(THING, 'x', 'second');
    driver.server('second').set(THING, 'y', 'second');
    const watcher = driver.watching(at('a', '*'), at('a', 'x'), at('a', 'none'));
    t.strictSame(heldBy(watcher), { x: 'first', y: 'second' });
    // The members of the first entry are also subscribed by name, which delays completion.
    driver.advance(15_000 + WHOLE_MS);
    t.equal(watcher.told.filter((line) => line.startsWith('complete')).length, 1, 'once, for both');
    t.equal(watcher.told.filter((line) => line.startsWith('absent')).length, 1, 'once, for both');
    const [nodeGroup] = driver.federation.nodeGroups.all;
    t.strictSame(
      nodeGroup?.groups.map((group) => nodeGroup.shadowedCount(group)),
      [0, 1],
    );
    const shadowed = driver.takeGroupEvents().filter(({ kind }) => kind === 'shadowed');
    t.match(shadowed[0], { group: { spec: { name: 'old-style/1' } }, name: { id: 'x' } });
    toldTo(watcher);
    driver.publish('second', 'x', 'second again');
    t.strictSame(toldTo(watcher), [], 'a shadowed resource is not notified');
    driver.delete('first', 'x');
    t.strictSame(
      toldTo(watcher),
      ['changed x second again'],
      'never absent in between (invariant 17)',
    );
    driver.publish('first', 'x', 'back');
    t.strictSame(toldTo(watcher), ['changed x back']);
    driver.delete('second', 'x');
    t.strictSame(toldTo(watcher), []);
    driver.delete('first', 'x');
    t.strictSame(toldTo(watcher), ['removed x']);
    t.end();
  },
);

t.test('the loss of one entry removes nothing, of its own or of another', (t) => {
  const driver = driverOf([{ sources: ['first'] }, { sources: ['second'] }]);
  driver.server('first').set(THING, 'x', 'first');
  driver.server('second').set(THING, 'y', 'second');
  const watcher = driver.watching(at('a', '*'));
  toldTo(watcher);
  driver.kill('first');
  driver.advance(120_000);
  t.strictSame(heldBy(watcher), { x: 'first', y: 'second' });
  driver.publish('second', 'y', '2');
  driver.delete('second', 'y');
  t.strictSame(heldBy(watcher), { x: 'first' });
  t.end();
});

t.test(
  'a name that a silent entry may have is not absent, and a wildcard is complete without proof',
  (t) => {
    const driver = driverOf([{ sources: ['first'] }, { sources: ['second'] }]);
    driver.server('second').reachability = 'refuse';
    const watcher = driver.watching(at('a', '*'), at('a', 'x'));
    t.strictSame(toldTo(watcher), []);
    driver.advance(30_000);
    t.strictSame([...toldTo(watcher)].sort(), ['complete * (14)', 'error 14 x']);
    driver.revive('second');
    driver.advance(60_000);
    t.strictSame([...toldTo(watcher)].sort(), ['absent x', 'complete *']);
    t.end();
  },
);

t.test('the sources of one entry fail over to one another, all names as one', (t) => {
  const driver = driverOf([{ sources: ['c', 'o'] }, { sources: ['other'] }]);
  for (const name of ['x', 'y']) {
    driver.server('c').set(THING, name, 'c');
    driver.server('o').set(THING, name, 'o');
  }
  driver.server('other').set(THING, 'z', 'other');
  const watcher = driver.watching(at('a', '*'));
  t.strictSame(heldBy(watcher), { x: 'c', y: 'c', z: 'other' });
  driver.kill('c');
  driver.advance(10_000);
  t.strictSame(heldBy(watcher), { x: 'o', y: 'o', z: 'other' });
  t.notOk(watcher.told.some((line) => line.startsWith('removed')));
  driver.revive('c');
  driver.advance(120_000);
  t.strictSame(heldBy(watcher), { x: 'c', y: 'c', z: 'other' });
  t.end();
});

t.test(
  'an entry gets requests only for its types, and may publish only those (invariant 11)',
  (t) => {
    const driver = driverOf([{ sources: ['things'], types: [THING] }]);
    driver.server('things').set(THING, 'x', '1');
    const watcher = new RecordingWatcher();
    driver.watch(at('a', 'x'), watcher, THING);
    driver.watch(at('a', 'x'), watcher, OTHER);
    driver.watch(at('a', '*'), watcher, OTHER);
    t.strictSame(toldTo(watcher), ['changed x 1', 'error 5 x', 'error 5 *']);
    const [stream] = driver.streamsOf('things');
    t.notOk(stream?.requests.some(({ typeUrl }) => typeUrl === OTHER));
    stream?.send({
      typeUrl: OTHER,
      nonce: 'n',
      resources: [{ name: 'x', version: '1', body: Buffer.from('') }],
    });
    driver.pump();
    t.match(stream?.acks.at(-1)?.error, /is not a resource name/);
    t.end();
  },
);

t.test('a node group without subscriptions is forgotten, with its streams and shells', (t) => {
  const driver = driverOf([{ sources: ['s'] }]);
  driver.server('s').set(THING, 'x', '1');
  const watcher = driver.watching(at('a', 'x'));
  t.equal(driver.federation.groups.length, 1);
  driver.unwatch(at('a', 'x'), watcher);
  driver.advance(60_000);
  t.equal(driver.federation.groups.length, 0);
  t.equal(driver.streamsOf('s').length, 0);
  t.ok(driver.takeEffects().some(({ kind }) => kind === 'closed'));
  const again = driver.watching(at('a', 'x'));
  t.strictSame(heldBy(again), { x: '1' });
  t.end();
});

t.test('two node groups that lose their clients one after the other are both forgotten', (t) => {
  const driver = driverOf([{ sources: ['s'], failover: { lingerMs: 1_000 } }]);
  const [a, b] = ['a', 'b'].map((id) => driver.watching(at(id, 'x')));
  driver.unwatch(at('a', 'x'), a!);
  driver.advance(10);
  driver.unwatch(at('b', 'x'), b!);
  driver.advance(1_000);
  t.strictSame([...driver.federation.nodeGroups.all], []);
  t.equal(driver.streamsOf('s').length, 0);
  t.end();
});

t.test('a node group is forgotten at the end of its linger, whichever input comes then', (t) => {
  const driver = driverOf([{ sources: ['s'], failover: { lingerMs: 1_000 } }]);
  driver.server('s').set(THING, 'x', '1');
  const watcher = driver.watching(at('a', 'x'));
  const [stream] = driver.streamsOf('s');
  driver.unwatch(at('a', 'x'), watcher);
  // The message comes before the timer.
  driver.nowMs += 1_000;
  stream?.send({ typeUrl: THING, nonce: 'late' });
  driver.pump();
  t.strictSame([...driver.federation.nodeGroups.all], []);
  t.equal(driver.streamsOf('s').length, 0);
  t.end();
});

// ---- a new map ----------------------------------------------------------------------------------

const twoEntries = (servedBy: OldStyleSketch['servedBy'], targets: MapSketch['targets'] = {}) =>
  mapOf({ authorities: {}, targets, oldStyle: { differBy: ['id'], servedBy } });

t.test('an unchanged map keeps streams and names', (t) => {
  const driver = driverOf([{ sources: ['s'] }]);
  driver.server('s').set(THING, 'x', '1');
  const watcher = driver.watching(at('a', '*'));
  driver.advance(WHOLE_MS);
  toldTo(watcher);
  driver.reload(twoEntries([{ sources: ['s'] }]));
  driver.advance(WHOLE_MS);
  t.strictSame(toldTo(watcher), []);
  t.equal(driver.dials.length, 1);
  t.end();
});

t.test('a removed entry loses its names, a remaining one keeps them (invariant 12)', (t) => {
  const driver = driverOf([{ sources: ['first'] }, { sources: ['second'] }]);
  driver.server('first').set(THING, 'x', 'first');
  driver.server('second').set(THING, 'y', 'second');
  const watcher = driver.watching(at('a', '*'));
  driver.reload(twoEntries([{ sources: ['second'] }]));
  t.strictSame(heldBy(watcher), { y: 'second' });
  t.notOk(watcher.told.includes(`removed ${at('a', 'y')}`), 'never removed (invariant 17)');
  t.equal(driver.streamsOf('first').length, 0);
  driver.reload(mapOf({ authorities: { cloud: { sources: ['second'] } } }));
  t.strictSame(heldBy(watcher), {});
  t.equal(driver.federation.groups.length, 0);
  driver.reload(twoEntries([{ sources: ['first'] }, { sources: ['second'] }]));
  t.strictSame(heldBy(watcher), { x: 'first', y: 'second' }, 'existing watchers are served again');
  t.end();
});

t.test('a reload forgets a node group whose clients have left', (t) => {
  const driver = driverOf([{ sources: ['first'] }]);
  const watcher = driver.watching(at('a', 'x'));
  driver.unwatch(at('a', 'x'), watcher);
  driver.reload(twoEntries([{ sources: ['second'] }]));
  t.strictSame([...driver.federation.nodeGroups.all], []);
  t.equal(driver.streamsOf('first').length + driver.streamsOf('second').length, 0);
  t.end();
});

t.test(
  'a changed target gets a new connection and no version of the old target (invariant 10)',
  (t) => {
    const driver = driverOf([{ sources: ['s'] }]);
    driver.server('s').set(THING, 'x', '1');
    const watcher = driver.watching(at('a', 'x'));
    driver.reload(twoEntries([{ sources: ['s'] }], { s: 'elsewhere:1' }));
    t.equal(driver.dials.length, 2);
    t.strictSame(driver.streamsOf('s')[0]?.requests[0]?.initialVersions, {});
    t.strictSame(heldBy(watcher), { x: '1' });
    t.end();
  },
);

t.test('a source that the map does not have is left out of its entry', (t) => {
  const map = twoEntries([{ sources: ['gone', 's'] }]);
  const sources = new Map([...map.sources].filter(([name]) => name !== 'gone'));
  const driver = new FederationDriver({ ...map, sources });
  driver.server('s').set(THING, 'x', '1');
  t.strictSame(heldBy(driver.watching(at('a', 'x'))), { x: '1' });
  t.end();
});

t.test('the table of names for DNS has no name, and comes with the wildcard (Istio)', (t) => {
  const table = 'type.googleapis.com/istio.networking.nds.v1.NameTable';
  const driver = driverOf([{ sources: ['s'] }]);
  driver.server('s').set(table, '', '1');
  driver.server('s').set(THING, '', '1');
  const watcher = new RecordingWatcher();
  driver.federation.watch(table, askedName(at('a', '*')), watcher, driver.nowMs);
  driver.pump();
  t.strictSame(heldBy(watcher), { '': '1' });
  driver.publish('s', '', '2', table);
  t.strictSame(heldBy(watcher), { '': '2' });
  t.strictSame(heldBy(driver.watching(at('a', '*'))), {}, 'other resources need names');
  t.end();
});

t.test(
  'the gateway makes no request that the source would take for the health of a client (Istio)',
  (t) => {
    const health = 'type.googleapis.com/istio.v1.HealthInformation';
    const driver = driverOf([{ sources: ['s'] }]);
    const watcher = new RecordingWatcher();
    driver.federation.watch(health, askedName(at('a', '*')), watcher, driver.nowMs);
    driver.watching(at('a', 'x'));
    t.match(watcher.take(), [/^error/]);
    const asked = driver.federation.servers.flatMap(({ contents }) => [...contents.types()]);
    t.strictSame(asked, [THING]);
    t.end();
  },
);

t.test('files hold old-style names too, the same for every node group', (t) => {
  const driver = driverOf([{ sources: ['f'] }], { paths: ['f'] });
  const body = Buffer.from('1');
  const resources = [
    ...['x', '*', ''].map((name) => ({ name, typeUrl: THING, body })),
    { name: 'no redirect', typeUrl: TYPE_URL.resourceLocator, body },
  ];
  driver.federation.handleLoaded('f', { resources, nowMs: driver.nowMs });
  driver.pump();
  const refused = driver.takeEffects().filter(({ kind }) => kind === 'file_refused');
  t.match(refused, [
    { name: '*', reason: 'is the name of a collection' },
    { name: '', reason: 'is empty' },
  ]);
  t.strictSame(heldBy(driver.watching(at('a', '*'))), { x: '1' });
  t.strictSame(heldBy(driver.watching(at('b', 'x'))), { x: '1' });
  t.end();
});

t.test('the id of a source encodes the source and the node group', (t) => {
  const driver = driverOf([{ sources: ['s'] }]);
  driver.watching(at('a', 'x'));
  const ids = driver.federation.servers.map(({ id }) => [sourceNameOf(id), scopeOfSource(id)]);
  t.strictSame(ids, [
    ['s', ''],
    ['s', scopeOfId('a')],
  ]);
  t.end();
});

t.test(
  'the endpoints of an old-style cluster are of its own scope, or an xdstp name (ENVOY 5)',
  (t) => {
    const xdstp = 'xdstp://cloud/envoy.config.endpoint.v3.ClusterLoadAssignment/x';
    // Cluster { name, type: EDS, eds_cluster_config { service_name } }
    const cluster = (serviceName: string): Buffer =>
      Buffer.concat([
        Buffer.from([
          0x0a,
          1,
          0x63,
          0x10,
          3,
          0x1a,
          serviceName.length + 2,
          0x12,
          serviceName.length,
        ]),
        Buffer.from(serviceName),
      ]);
    const edsKeyOf = (body: Buffer, scope: string): string | undefined => {
      const there = project(oldStyleName('', 'c'), TYPE_URL.cluster, body);
      if (!there.ok) throw new Error(there.reason);
      const here = reproject(there.projection, oldStyleName(scope, 'c'), (name) => name);
      if (!here.ok) throw new Error(here.reason);
      t.equal(here.projection.field, there.projection.field, 'the same bytes');
      return here.projection.edsKey;
    };
    t.equal(edsKeyOf(cluster('x'), 's'), oldStyleName('s', 'x').key);
    t.equal(edsKeyOf(cluster(xdstp), 's'), xdstp);
    t.equal(edsKeyOf(Buffer.from([0x0a, 1, 0x63, 0x10, 3]), 's'), oldStyleName('s', 'c').key);
    t.equal(edsKeyOf(Buffer.from([0x0a, 1, 0x63]), 's'), undefined);
    t.end();
  },
);

t.test('a response for a name proves nothing about the wildcard (invariants 3, 19)', (t) => {
  const driver = driverOf([{ sources: ['s'] }]);
  driver.server('s').set(THING, 'x', '1');
  driver.server('s').stalled.add('*');
  const watcher = driver.watching(at('a', '*'), at('a', 'x'));
  t.strictSame(toldTo(watcher), ['changed x 1']);
  driver.advance(15_000 + WHOLE_MS);
  t.strictSame(toldTo(watcher), ['complete *'], 'only after a pause without members');
  t.end();
});

t.test('a response about xdstp names, or with errors, proves nothing about the wildcard', (t) => {
  const driver = driverOf([{ sources: ['s'] }], {
    differBy: [],
    authorities: { cloud: { sources: ['s'] } },
  });
  driver.server('s').stalled.add('*');
  const watcher = driver.watching('xdstp://cloud/test.v1.Thing/y', '\n\n*');
  const [stream] = driver.streamsOf('s');
  driver.advance(WHOLE_MS);
  t.notOk(watcher.told.some((line) => line.startsWith('complete')));
  const errors = [{ name: 'x', code: 14 }];
  stream?.send({ typeUrl: THING, nonce: 'e', errors });
  driver.pump();
  driver.advance(WHOLE_MS);
  t.notOk(watcher.told.some((line) => line.startsWith('complete')));
  stream?.send({ typeUrl: THING, nonce: 'f' });
  driver.pump();
  driver.advance(WHOLE_MS);
  t.ok(watcher.told.some((line) => line.startsWith('complete')));
  t.end();
});

t.test('an old-style name is revalidated at every entry that serves its type', (t) => {
  const driver = driverOf([{ sources: ['first'] }, { sources: ['second'] }]);
  driver.server('second').set(THING, 'x', '1');
  const watcher = driver.watching(at('a', 'x'));
  driver.server('second').set(THING, 'x', '2');
  const [{ name } = { name: undefined }] = [...watcher.projections.values()];
  t.ok(name && driver.federation.revalidate(THING, name, driver.nowMs));
  driver.pump();
  t.strictSame(heldBy(watcher), { x: '2' });
  const asked = driver.streamsOf('first')[0]?.requests.flatMap(({ subscribe }) => subscribe);
  t.strictSame(asked, ['x', 'x']);
  t.end();
});
