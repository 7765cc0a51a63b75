import t from 'tap';
import { TYPE_URL } from '../../../protos/type-urls.js';
import { inlineEntry, listBytes, textEntry } from '../../support/collection-messages.js';
import {
  askedName,
  FederationDriver,
  mapOf,
  RecordingWatcher,
  THING,
  thing,
} from '../../support/federation-driver.js';
import { FAILBACK_MS, TRIP_MS } from '../../support/authority-pair.js';
import { encode } from '../protos/envoy-messages.js';

const a = thing('cloud', 'a');
const b = thing('cloud', 'b');
const other = thing('onprem', 'deep/other');
const third = thing('third', 'x');

function three(
  mayLeadTo: readonly string[] = ['onprem', 'third'],
  mapAlternative = false,
): FederationDriver {
  return new FederationDriver(
    mapOf({
      authorities: {
        cloud: {
          sources: ['c'],
          mayLeadTo,
          ...(mapAlternative && { alternatives: [{ authority: 'third' }] }),
        },
        onprem: { sources: ['o'] },
        third: { sources: ['t'] },
      },
    }),
  );
}

t.test('a name with #alt= goes to its alternative, and back, under the asked name', (t) => {
  const driver = three();
  const asked = `${a}#alt=${other}`;
  driver.publish('c', a, 'cloud');
  driver.publish('o', other, 'onprem');
  const watcher = driver.watching(asked);
  t.strictSame(watcher.take(), [`changed ${asked} cloud`]);
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.strictSame(watcher.take(), [`changed ${asked} onprem`]);
  driver.revive('c');
  driver.advance(FAILBACK_MS);
  t.strictSame(watcher.take(), [`changed ${asked} cloud`]);
  t.end();
});

t.test('an alternative may have its own (TP1 nests them)', (t) => {
  const driver = three();
  const nested = `${other}%23alt=${third}`;
  const asked = `${a}#alt=${nested}`;
  driver.publish('c', a, '1');
  driver.publish('o', other, '2');
  driver.publish('t', third, '3');
  const watcher = driver.watching(asked);
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.equal(watcher.held.get(asked), '2');
  driver.kill('o');
  driver.advance(40_000);
  t.equal(watcher.held.get(asked), '3');
  t.end();
});

t.test('what one client writes behind a name changes nothing for another', (t) => {
  const driver = three();
  driver.publish('c', a, '1');
  driver.publish('o', other, 'alternative');
  driver.watching(`${a}#alt=${other}`);
  const plain = driver.watching(a);
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.equal(plain.held.get(a), '1');
  t.strictSame(driver.server('o').stream.subscribed(THING), [other]);
  t.end();
});

t.test('names of one chain of authorities move together (invariant 6)', (t) => {
  const driver = three();
  const [x, y] = ['x', 'y'].map((id) => `${thing('cloud', id)}#alt=${thing('onprem', `o${id}`)}`);
  for (const id of ['x', 'y']) {
    driver.publish('c', thing('cloud', id), 'cloud');
    driver.publish('o', thing('onprem', `o${id}`), 'onprem');
  }
  const watcher = driver.watching(x!, y!);
  const { groups } = driver.federation;
  t.strictSame(
    groups.map(({ id }) => id),
    ['cloud#alt=onprem'],
  );
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.strictSame([...watcher.held.values()], ['onprem', 'onprem']);
  t.end();
});

t.test('several names may share one alternative, and leave it one by one', (t) => {
  const driver = three();
  const [x, y] = [a, b].map((name) => `${name}#alt=${other}`);
  driver.publish('o', other, 'shared');
  driver.server('c').reachability = 'refuse';
  const watcher = driver.watching(x!, y!);
  driver.advance(20_000);
  t.strictSame([...watcher.held.values()], ['shared', 'shared']);
  driver.unwatch(x!, watcher);
  driver.publish('o', other, 'changed');
  t.equal(watcher.held.get(y!), 'changed');
  driver.unwatch(y!, watcher);
  driver.advance(120_000);
  t.strictSame(driver.server('o').stream.subscribed(THING), []);
  t.end();
});

t.test('an alternative that may not be used is not used, and explained (invariant 12)', (t) => {
  const cases: readonly (readonly [string, RegExp])[] = [
    [other, /may_lead_to of "cloud" does not list/],
    ['xdstp://nowhere/test.v1.Thing/x', /may_lead_to/],
    ['xdstp://cloud/test.v1.Other/x', /another type/],
    [thing('cloud', 'g/*'), /a collection/],
  ];
  for (const [to, problem] of cases) {
    const driver = three([]);
    const asked = `${a}#alt=${to}`;
    driver.publish('c', a, '1');
    driver.publish('o', other, 'secret');
    const watcher = driver.watching(asked);
    t.strictSame([...watcher.held], [[asked, '1']], 'the name itself is served');
    t.match(driver.federation.hops(THING, askedName(asked)), [{ kind: 'alternative', problem }]);
    driver.kill('c');
    driver.advance(60_000);
    t.strictSame([...watcher.held], [[asked, '1']]);
    t.notOk(
      driver.dials.some(({ source }) => source !== 'c'),
      'nobody else is dialled',
    );
  }
  t.end();
});

t.test('a name’s own alternative goes before that of the map, which is still there', (t) => {
  const driver = three(['onprem'], true);
  const asked = `${a}#alt=${other}`;
  driver.publish('c', a, '1');
  driver.publish('o', other, '2');
  driver.publish('t', thing('third', 'a'), '3');
  const watcher = driver.watching(asked);
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.equal(watcher.held.get(asked), '2');
  driver.kill('o');
  driver.advance(40_000);
  t.equal(watcher.held.get(asked), '3');
  t.end();
});

t.test('the alternative of a redirect and of a list entry is used (TP1)', (t) => {
  const driver = three();
  const list = 'xdstp://cloud/test.v1.ThingCollection/all';
  driver.publish('o', other, 'alternative');
  driver.publish('c', b, 'target');
  driver.redirect('c', a, `${b}#alt=${other}`);
  driver.publish('c', list, listBytes(textEntry(`${b}#alt=${other}`)), `${THING}Collection`);
  const watcher = driver.watching(a, list);
  t.strictSame(
    [...watcher.held],
    [
      [a, 'target'],
      [b, 'target'],
    ],
    'a member has its plain name',
  );
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.strictSame(
    [...watcher.held],
    [
      [a, 'alternative'],
      [b, 'alternative'],
    ],
  );
  t.end();
});

t.test('an entry of a list may have an alternative list', (t) => {
  const driver = three();
  const [list, spare] = ['cloud', 'onprem'].map((at) => `xdstp://${at}/test.v1.ThingCollection/l`);
  for (const [at, source] of [
    ['cloud', 'c'],
    ['onprem', 'o'],
  ] as const) {
    const bytes = listBytes(inlineEntry('x', THING, at));
    driver.publish(source, `xdstp://${at}/test.v1.ThingCollection/l`, bytes, `${THING}Collection`);
  }
  const asked = `${list!}#alt=${spare!},entry=x`;
  const watcher = driver.watching(asked);
  t.equal(watcher.held.get(asked), 'cloud');
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.equal(watcher.held.get(asked), 'onprem');
  t.end();
});

// ---- references -----------------------------------------------------------------------------

const CDS = TYPE_URL.cluster;
const EDS = TYPE_URL.clusterLoadAssignment;
const clusterName = 'xdstp://cloud/envoy.config.cluster.v3.Cluster/c';
const foo = 'xdstp://cloud/envoy.config.endpoint.v3.ClusterLoadAssignment/foo';
const bar = 'xdstp://onprem/envoy.config.endpoint.v3.ClusterLoadAssignment/bar';

const cluster = (service: string, name = clusterName): Uint8Array =>
  encode('envoy.config.cluster.v3.Cluster', {
    name,
    type: 3,
    eds_cluster_config: { service_name: service },
  });
const assignment = (name: string, zone: string): Uint8Array =>
  encode('envoy.config.endpoint.v3.ClusterLoadAssignment', {
    cluster_name: name,
    endpoints: [{ locality: { zone } }],
  });

function mesh(mayLeadTo: readonly string[] = ['onprem']): FederationDriver {
  const driver = three(mayLeadTo);
  driver.publish('c', foo, assignment(foo, 'cloud'), EDS);
  driver.publish('o', bar, assignment(bar, 'onprem'), EDS);
  return driver;
}

const endpointsOf = (watcher: RecordingWatcher): string | undefined => watcher.held.get(foo);

t.test(
  'an #alt= in a reference is taken off, and becomes that name’s alternative (TP1 example)',
  (t) => {
    const driver = mesh();
    driver.publish('c', clusterName, cluster(`${foo}#alt=${bar}`), CDS);
    const watcher = new RecordingWatcher();
    driver.watch(clusterName, watcher, CDS);
    t.equal(watcher.held.get(clusterName), Buffer.from(cluster(foo)).toString(), 'byte for byte');
    driver.watch(foo, watcher, EDS);
    t.match(endpointsOf(watcher), /cloud/);
    driver.kill('c');
    driver.advance(TRIP_MS);
    const moved = Buffer.from(assignment(foo, 'onprem')).toString();
    t.equal(endpointsOf(watcher), moved, 'under the asked name');
    driver.revive('c');
    driver.advance(FAILBACK_MS);
    t.notMatch(endpointsOf(watcher), /onprem/);
    t.end();
  },
);

t.test('a name that is held already gets its alternative without passing through absent', (t) => {
  const driver = mesh();
  driver.publish('c', clusterName, cluster(foo), CDS);
  const watcher = new RecordingWatcher();
  driver.watch(foo, watcher, EDS);
  driver.watch(clusterName, watcher, CDS);
  const before = watcher.projections.get(foo)?.version;
  watcher.take();
  const requests = driver.server('c').stream.requests.length;
  driver.publish('c', clusterName, cluster(`${foo}#alt=${bar}`), CDS);
  t.notOk(watcher.take().some((line) => !line.startsWith('changed')));
  t.equal(watcher.projections.get(foo)?.version, before, 'nothing changes for the client');
  t.equal(
    driver.server('c').stream.requests.length,
    requests + 1,
    'nothing is asked again: an ACK',
  );
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.match(endpointsOf(watcher), /onprem/);
  t.end();
});

t.test('an alternative lasts as long as a resource that names it is served', (t) => {
  const driver = mesh();
  const twin = `${clusterName}2`;
  driver.publish('c', clusterName, cluster(`${foo}#alt=${bar}`), CDS);
  driver.publish('c', twin, cluster(`${foo}#alt=${bar}`, twin), CDS);
  const watcher = new RecordingWatcher();
  for (const name of [clusterName, twin]) driver.watch(name, watcher, CDS);
  driver.watch(foo, watcher, EDS);
  const routed = (): string | undefined => driver.federation.groupFor(askedName(foo, EDS))?.id;
  t.equal(routed(), 'cloud#alt=onprem');
  driver.publish('c', clusterName, cluster(foo), CDS);
  t.equal(routed(), 'cloud#alt=onprem', 'the other still says so');
  driver.delete('c', twin, CDS);
  t.equal(routed(), 'cloud');
  driver.publish('c', clusterName, cluster(`${foo}#alt=${bar}`), CDS);
  t.equal(routed(), 'cloud#alt=onprem');
  driver.unwatch(clusterName, watcher, CDS);
  t.equal(routed(), 'cloud', 'nobody asks for the cluster');
  t.match(endpointsOf(watcher), /cloud/, 'all that time it was held');
  t.end();
});

t.test('where references say different things, one of them counts, always the same', (t) => {
  const driver = mesh(['onprem', 'third']);
  const twin = `${clusterName}2`;
  const another = bar.replace('//onprem/', '//third/');
  driver.publish('c', clusterName, cluster(`${foo}#alt=${another}`), CDS);
  const watcher = new RecordingWatcher();
  driver.watch(foo, watcher, EDS);
  for (const name of [clusterName, twin]) driver.watch(name, watcher, CDS);
  const routed = (): string | undefined => driver.federation.groupFor(askedName(foo, EDS))?.id;
  t.equal(routed(), 'cloud#alt=third');
  driver.publish('c', twin, cluster(`${foo}#alt=${bar}`, twin), CDS);
  t.equal(routed(), 'cloud#alt=onprem');
  driver.publish('c', twin, cluster(`${foo}#alt=${bar}2`, twin), CDS);
  t.equal(routed(), 'cloud#alt=onprem', 'another name there');
  driver.kill('c');
  driver.publish('o', `${bar}2`, assignment(`${bar}2`, 'second'), EDS);
  driver.advance(TRIP_MS);
  t.match(endpointsOf(watcher), /second/);
  t.end();
});

t.test('an alternative in a reference that the map does not allow is ignored', (t) => {
  const driver = mesh([]);
  driver.publish('c', clusterName, cluster(`${foo}#alt=${bar}`), CDS);
  const watcher = new RecordingWatcher();
  driver.watch(clusterName, watcher, CDS);
  driver.watch(foo, watcher, EDS);
  driver.kill('c');
  driver.advance(60_000);
  t.match(endpointsOf(watcher), /cloud/);
  driver.revive('c');
  driver.reload(mesh().federation.map);
  driver.advance(2 * FAILBACK_MS);
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.match(endpointsOf(watcher), /onprem/, 'a new map allows it');
  t.end();
});

t.test(
  'a name’s own alternative and that of the map: references read as the client knows them',
  (t) => {
    const driver = three(['onprem'], true);
    const at = (authority: string, id: string): string =>
      `xdstp://${authority}/envoy.config.cluster.v3.Cluster/${id}`;
    const eds = (authority: string, id: string): string =>
      `xdstp://${authority}/envoy.config.endpoint.v3.ClusterLoadAssignment/${id}`;
    const asked = `${at('cloud', 'c')}#alt=${at('onprem', 'd')}`;
    const served = (service: string): string => Buffer.from(cluster(service, asked)).toString();
    driver.publish('c', at('cloud', 'c'), cluster(eds('cloud', 'e'), at('cloud', 'c')), CDS);
    driver.publish('o', at('onprem', 'd'), cluster(eds('onprem', 'e'), at('onprem', 'd')), CDS);
    driver.publish('t', at('third', 'c'), cluster(eds('third', 'e'), at('third', 'c')), CDS);
    const watcher = new RecordingWatcher();
    driver.watch(asked, watcher, CDS);
    driver.kill('c');
    driver.advance(TRIP_MS);
    t.equal(watcher.held.get(asked), served(eds('onprem', 'e')), 'nobody pairs these two names');
    driver.kill('o');
    driver.advance(40_000);
    t.equal(watcher.held.get(asked), served(eds('cloud', 'e')), 'the map does');
    t.end();
  },
);

t.test(
  'a neighbour that has its own alternative there is referred to as the client knows it',
  (t) => {
    const driver = mesh();
    const there = clusterName.replace('//cloud/', '//onprem/');
    const asked = `${clusterName}#alt=${there}`;
    driver.publish('c', clusterName, cluster(`${foo}#alt=${bar}`), CDS);
    driver.publish('o', there, cluster(bar, there), CDS);
    const watcher = new RecordingWatcher();
    driver.watch(asked, watcher, CDS);
    driver.watch(foo, watcher, EDS);
    t.strictSame(
      driver.federation.groups.filter(({ demandCount }) => demandCount > 0).map(({ id }) => id),
      ['cloud#alt=onprem'],
      'both move together',
    );
    driver.kill('c');
    driver.advance(TRIP_MS);
    t.equal(watcher.held.get(asked), Buffer.from(cluster(foo, asked)).toString());
    t.match(endpointsOf(watcher), /onprem/);
    t.end();
  },
);

t.test('content of an alternative has alternatives for its own references', (t) => {
  const driver = three(['third'], true);
  const twin = clusterName.replace('//cloud/', '//third/');
  const spare = foo.replace('//cloud/', '//third/');
  driver.publish('c', clusterName, cluster(foo), CDS);
  driver.publish('t', twin, cluster(`${foo}#alt=${spare}2`, twin), CDS);
  const watcher = new RecordingWatcher();
  driver.watch(clusterName, watcher, CDS);
  const routed = (): string | undefined => driver.federation.groupFor(askedName(foo, EDS))?.id;
  t.equal(routed(), 'cloud/*');
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.equal(routed(), 'cloud/*#alt=third');
  t.equal(watcher.held.get(clusterName), Buffer.from(cluster(foo)).toString());
  t.end();
});

t.test('a name that is asked as several types has its alternative until the last is left', (t) => {
  const driver = three();
  const asked = `${a}#alt=${other}`;
  const types = [THING, `${THING}2`, `${THING}3`];
  const watchers = types.map((typeUrl) => {
    driver.publish('c', a, 'cloud', typeUrl);
    driver.publish('o', other, 'onprem', typeUrl);
    const watcher = new RecordingWatcher();
    driver.watch(asked, watcher, typeUrl);
    return watcher;
  });
  for (const at of [0, 1]) driver.unwatch(asked, watchers[at]!, types[at]);
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.equal(watchers[2]!.held.get(asked), 'onprem');
  t.end();
});

t.test('what a name would be asked as is known before anybody asks for it', (t) => {
  const driver = three();
  const asked = askedName(`${a}#alt=${other}`);
  const group = driver.federation.groupFor(asked);
  t.strictSame(
    group?.candidates.map(({ source, mapping }) => [source.name, mapping.toSource(asked).key]),
    [
      ['c', a],
      ['o', other],
    ],
  );
  t.strictSame(group?.candidates[1]?.mapping.toSource(askedName(b)).key, b, 'not of this chain');
  t.end();
});

t.test(
  'a name of an authority that the map does not have leads nowhere, and is left as it came',
  (t) => {
    const driver = three();
    const lost = thing('nowhere', 'x');
    const watcher = driver.watching(lost);
    t.strictSame(watcher.take(), [`error 5 ${lost}`]);
    t.strictSame(driver.federation.hops(THING, askedName(lost)), []);
    driver.unwatch(lost, watcher);
    t.strictSame(watcher.take(), []);
    t.end();
  },
);

t.test('a cluster that is left takes its word with it, one that is still asked keeps it', (t) => {
  const driver = mesh();
  const [twin, third] = [`${clusterName}2`, `${clusterName}3`];
  const watcher = new RecordingWatcher();
  for (const name of [twin, third]) {
    driver.publish('c', name, cluster(`${foo}#alt=${bar}`, name), CDS);
    driver.watch(name, watcher, CDS);
  }
  driver.watch(foo, watcher, EDS);
  driver.unwatch(twin, watcher, CDS);
  const routed = (): string | undefined => driver.federation.groupFor(askedName(foo, EDS))?.id;
  t.equal(routed(), 'cloud#alt=onprem');
  driver.unwatch(third, watcher, CDS);
  t.equal(routed(), 'cloud');
  t.end();
});
