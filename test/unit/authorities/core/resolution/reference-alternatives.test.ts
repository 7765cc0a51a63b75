import t from 'tap';
import { TYPE_URL } from '../../../../../protos/type-urls.js';
import { FAILBACK_MS, three, TRIP_MS } from '../../../../support/authority-pair.js';
import {
  askedName,
  FederationDriver,
  mapOf,
  RecordingWatcher,
} from '../../../../support/federation-driver.js';
import { encode } from '../../../protos/envoy-messages.js';

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
    endpoints: [{ locality: { zone }, lb_endpoints: [{}] }],
  });

function mesh(mayLeadTo: readonly string[] = ['onprem']): FederationDriver {
  const driver = three(mayLeadTo);
  driver.publish('c', foo, assignment(foo, 'cloud'), EDS);
  driver.publish('o', bar, assignment(bar, 'onprem'), EDS);
  return driver;
}

const endpointsOf = (watcher: RecordingWatcher): string | undefined => watcher.held.get(foo);

t.test(
  'an #alt= in a reference is stripped, and becomes the alternative of that name (TP1 example)',
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
    t.equal(endpointsOf(watcher), moved, 'under the subscribed name');
    driver.revive('c');
    driver.advance(FAILBACK_MS);
    t.notMatch(endpointsOf(watcher), /onprem/);
    t.end();
  },
);

t.test('a name that its source lacked before it got its alternative goes all the same', (t) => {
  const driver = mesh();
  const held = foo.replace('/foo', '/held');
  const other = `${clusterName}-held`;
  driver.publish('c', held, assignment(held, 'cloud'), EDS);
  driver.publish('c', other, cluster(`${held}#alt=${bar}-held`, other), CDS);
  driver.publish('c', clusterName, cluster(foo), CDS);
  const watcher = new RecordingWatcher();
  for (const name of [clusterName, other]) driver.watch(name, watcher, CDS);
  for (const name of [foo, held]) driver.watch(name, watcher, EDS);
  driver.advance(5_000);
  driver.server('c').delete(EDS, foo);
  driver.cut('c');
  while (!driver.isConnected('c')) driver.advance(50);
  driver.advance(300);
  t.match(endpointsOf(watcher), /cloud/, 'its removal waits');
  driver.publish('c', clusterName, cluster(`${foo}#alt=${bar}`), CDS);
  driver.advance(60_000);
  t.equal(endpointsOf(watcher), undefined);
  t.end();
});

t.test(
  'a reload leaves a member with its collection, although a reference gives it an alternative',
  (t) => {
    const map = (holdMs: number) =>
      mapOf({
        authorities: {
          cloud: { sources: ['c'], mayLeadTo: ['onprem'], failover: { holdMs } },
          onprem: { sources: ['o'] },
        },
      });
    const driver = new FederationDriver(map(30_000));
    driver.publish('c', foo, assignment(foo, 'cloud'), EDS);
    driver.publish('c', `${foo}-2`, assignment(`${foo}-2`, 'cloud'), EDS);
    driver.publish('c', clusterName, cluster(`${foo}#alt=${bar}`), CDS);
    const watcher = new RecordingWatcher();
    driver.watch(clusterName, watcher, CDS);
    driver.watch(foo.replace('/foo', '/*'), watcher, EDS);
    driver.advance(5_000);
    driver.kill('c');
    driver.advance(TRIP_MS);
    driver.reload(map(40_000));
    driver.advance(1_000);
    t.match(endpointsOf(watcher), /cloud/);
    driver.server('c').delete(EDS, foo);
    driver.revive('c');
    driver.advance(FAILBACK_MS + 60_000);
    t.equal(endpointsOf(watcher), undefined, 'its source lacks it');
    t.end();
  },
);

t.test(
  'the group of a name with an alternative decides about it, also for clients of its collection',
  (t) => {
    const driver = new FederationDriver(
      mapOf({
        authorities: {
          cloud: {
            sources: ['c'],
            alternatives: [{ authority: 'onprem' }],
            mayLeadTo: ['spare'],
          },
          onprem: { sources: ['o'] },
          spare: { sources: ['s'] },
        },
      }),
    );
    const at = (authority: string, id: string): string =>
      `xdstp://${authority}/envoy.config.endpoint.v3.ClusterLoadAssignment/d/${id}`;
    const [one, two, glob] = [at('cloud', '1'), at('cloud', '2'), at('cloud', '*')];
    driver.publish('c', clusterName, cluster(`${one}#alt=${at('spare', '1')}`), CDS);
    for (const [source, authority] of [
      ['c', 'cloud'],
      ['o', 'onprem'],
    ] as const)
      for (const id of ['1', '2'])
        driver.publish(source, at(authority, id), assignment(at(authority, id), authority), EDS);
    driver.publish('s', at('spare', '1'), assignment(at('spare', '1'), 'spare'), EDS);
    const watcher = new RecordingWatcher();
    driver.watch(clusterName, watcher, CDS);
    const [byName, early, late] = [0, 0, 0].map(() => new RecordingWatcher());
    driver.watch(one, byName, EDS);
    driver.watch(glob, early, EDS);
    driver.advance(5_000);
    driver.kill('c');
    driver.advance(30_000);
    driver.watch(glob, late, EDS);
    driver.advance(10_000);
    const places = (of: RecordingWatcher | undefined) =>
      [one, two].map(
        (name) => /spare|onprem/.exec(of?.held.get(name)?.slice(name.length) ?? '')?.[0],
      );
    const all = () => [byName, early, late].map(places);
    const expected = [
      ['spare', undefined],
      ['spare', 'onprem'],
      ['spare', 'onprem'],
    ];
    t.strictSame(all(), expected);
    driver.publish('o', at('onprem', '1'), assignment(at('onprem', '1'), 'onprem later'), EDS);
    t.strictSame(all(), expected, 'a change at the alternative of the collection');
    driver.delete('o', at('onprem', '1'), EDS);
    driver.advance(10_000);
    t.strictSame(all(), expected, 'its removal there');
    driver.unwatch(one, byName!, EDS);
    driver.advance(10_000);
    t.strictSame(places(late), [undefined, 'onprem'], 'now the collection alone decides');
    t.end();
  },
);

t.test('a name that is already held gets its alternative without passing through absent', (t) => {
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
    'nothing is requested again: an ACK',
  );
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.match(endpointsOf(watcher), /onprem/);
  t.end();
});

t.test('an alternative lasts while a resource that names it is served', (t) => {
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
  t.equal(routed(), 'cloud#alt=onprem', 'the other cluster still names it');
  driver.delete('c', twin, CDS);
  t.equal(routed(), 'cloud');
  driver.publish('c', clusterName, cluster(`${foo}#alt=${bar}`), CDS);
  t.equal(routed(), 'cloud#alt=onprem');
  driver.unwatch(clusterName, watcher, CDS);
  t.equal(routed(), 'cloud', 'the cluster is unsubscribed');
  t.match(endpointsOf(watcher), /cloud/, 'the endpoints were held all the time');
  t.end();
});

t.test(
  'where references name different alternatives, one of them applies, always the same',
  (t) => {
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
    t.equal(routed(), 'cloud#alt=onprem', 'another name at the same authority');
    driver.kill('c');
    driver.publish('o', `${bar}2`, assignment(`${bar}2`, 'second'), EDS);
    driver.advance(TRIP_MS);
    t.match(endpointsOf(watcher), /second/);
    t.end();
  },
);

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
  'a name’s own alternative and that of the map: references use the names that the client knows',
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
    t.equal(
      watcher.held.get(asked),
      served(eds('onprem', 'e')),
      'neither the map nor a directive pairs these two names',
    );
    driver.kill('o');
    driver.advance(40_000);
    t.equal(watcher.held.get(asked), served(eds('cloud', 'e')), 'the map pairs these');
    driver.publish('t', at('third', 'c'), cluster(eds('third', 'e2'), at('third', 'c')), CDS);
    t.equal(watcher.held.get(asked), served(eds('cloud', 'e2')), 'and after a change there');
    t.end();
  },
);

t.test(
  'a reference with an alternative of its own is served under the name that the client knows',
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
    driver.publish('o', there, cluster(`${foo}#alt=${bar}`, there), CDS);
    t.match(endpointsOf(watcher), /onprem/, 'the alternative may name it as well');
    t.end();
  },
);

t.test('content of an alternative may name alternatives for its own references', (t) => {
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

t.test('an unsubscribed cluster withdraws its alternatives; a subscribed one keeps them', (t) => {
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

t.test(
  'unsubscribing a member of a subscribed glob, or a cluster without alternatives, changes none',
  (t) => {
    const driver = mesh();
    const [member, mute] = ['g/c', 'h/c'].map(
      (id) => `xdstp://cloud/envoy.config.cluster.v3.Cluster/${id}`,
    );
    driver.publish('c', member!, cluster(`${foo}#alt=${bar}`, member), CDS);
    driver.publish('c', mute!, cluster(foo, mute), CDS);
    const watcher = new RecordingWatcher();
    const globs = [member!, mute!].map((name) => name.replace(/c$/, '*'));
    for (const name of [member!, ...globs]) driver.watch(name, watcher, CDS);
    driver.watch(foo, watcher, EDS);
    const routed = (): string | undefined => driver.federation.groupFor(askedName(foo, EDS))?.id;
    driver.unwatch(member!, watcher, CDS);
    driver.unwatch(globs[1]!, watcher, CDS);
    t.equal(routed(), 'cloud#alt=onprem');
    driver.unwatch(globs[0]!, watcher, CDS);
    t.equal(routed(), 'cloud');
    t.end();
  },
);

t.test(
  'an unsubscribed glob withdraws the alternatives of its clusters, except of one subscribed by name',
  (t) => {
    const driver = mesh();
    const [one, two] = ['g/1', 'g/2'].map(
      (id) => `xdstp://cloud/envoy.config.cluster.v3.Cluster/${id}`,
    );
    const glob = 'xdstp://cloud/envoy.config.cluster.v3.Cluster/g/*';
    for (const name of [one!, two!]) {
      driver.publish('c', name, cluster(`${foo}#alt=${bar}`, name), CDS);
    }
    const watcher = new RecordingWatcher();
    for (const name of [one!, glob]) driver.watch(name, watcher, CDS);
    driver.watch(foo, watcher, EDS);
    const routed = (): string | undefined => driver.federation.groupFor(askedName(foo, EDS))?.id;
    driver.unwatch(glob, watcher, CDS);
    t.equal(routed(), 'cloud#alt=onprem');
    driver.unwatch(one!, watcher, CDS);
    t.equal(routed(), 'cloud');
    const other = glob.replace('/g/', '/other/');
    driver.watch(other, watcher, CDS);
    driver.unwatch(other, watcher, CDS);
    t.equal(routed(), 'cloud');
    t.end();
  },
);

t.test(
  'a member that had its own alternative follows its glob again once it is unsubscribed',
  (t) => {
    const [member, spare] = ['cloud', 'onprem'].map(
      (authority) => `xdstp://${authority}/envoy.config.endpoint.v3.ClusterLoadAssignment/g/e`,
    );
    for (const exists of [true, false]) {
      const driver = mesh();
      driver.publish('c', clusterName, cluster(`${member!}#alt=${spare!}`), CDS);
      if (exists) driver.publish('c', member!, assignment(member!, 'cloud'), EDS);
      driver.publish('o', spare!, assignment(spare!, 'onprem'), EDS);
      const [one, all] = [new RecordingWatcher(), new RecordingWatcher()];
      driver.watch(clusterName, one, CDS);
      driver.watch(member!, one, EDS);
      driver.watch(member!.replace('g/e', 'g/*'), all, EDS);
      driver.kill('c');
      driver.advance(TRIP_MS);
      t.match(one.held.get(member!), /onprem/);
      driver.unwatch(member!, one, EDS);
      driver.revive('c');
      driver.advance(2 * FAILBACK_MS);
      t.match(all.held.get(member!) ?? '', exists ? /cloud/ : /^$/);
      t.notMatch(all.held.get(member!) ?? '', /onprem/);
    }
    t.end();
  },
);

t.test(
  'a name that loses its alternative keeps the TTL of what it got there (invariant 20)',
  (t) => {
    const driver = three(['onprem']);
    // The primary lacks the name.
    driver.publish('o', bar, assignment(bar, 'onprem'), EDS);
    driver.publish('c', clusterName, cluster(`${foo}#alt=${bar}`), CDS);
    const [watcher, ofCluster] = [new RecordingWatcher(), new RecordingWatcher()];
    driver.watch(clusterName, ofCluster, CDS);
    driver.watch(foo, watcher, EDS);
    driver.advance(1_000);
    driver.kill('c');
    driver.advance(TRIP_MS);
    const ttl = { seconds: 60, nanos: 0 };
    const body = Buffer.from(assignment(bar, 'onprem with a TTL'));
    driver.send('o', {
      typeUrl: EDS,
      nonce: 'ttl',
      resources: [{ name: bar, version: 'ttl', ttl, body }],
      removed: [],
    });
    driver.advance(100);
    driver.unwatch(clusterName, ofCluster, CDS);
    driver.kill('o');
    driver.advance(30_000);
    t.match(endpointsOf(watcher), /with a TTL/);
    driver.advance(31_000);
    t.equal(endpointsOf(watcher), undefined);
    t.end();
  },
);
