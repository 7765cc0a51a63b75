/**
 * Goal: each source gets the loads of the clusters that it serves, under its own names, and of no others;
 * clients are asked for what the sources ask for (lrs.proto).
 * Method: a real federation over fake management servers, and the machine of load reports beside it.
 */
import t from 'tap';
import type { ClusterLoad } from '../../../../../protos/load-stats.js';
import {
  FederationDriver,
  mapOf,
  RecordingWatcher,
  scopeOfId,
  type MapSketch,
} from '../../../../support/federation-driver.js';
import { LoadsDriver } from '../../../../support/loads-driver.js';
import { CDS, cds, EDS, eds } from '../../../../support/mesh-names.js';
import { at, driverOf } from '../../../../support/node-groups.js';
import { encode } from '../../../protos/envoy-messages.js';

const CLUSTER = 'envoy.config.cluster.v3.Cluster';
const ASSIGNMENT = 'envoy.config.endpoint.v3.ClusterLoadAssignment';

function publish(driver: FederationDriver, source: string, name: string, text = name): void {
  driver.publish(source, name, encode(CLUSTER, { name: text }), CDS);
}

/** Authority cloud, whose alternative onprem has the same clusters under `copy/`. */
function pairOf(more: Partial<MapSketch> = {}): LoadsDriver {
  const alternatives = [{ authority: 'onprem', toPrefix: 'copy/' }];
  const driver = new FederationDriver(
    mapOf({
      authorities: { cloud: { sources: ['c'], alternatives }, onprem: { sources: ['o'] } },
      ...more,
    }),
  );
  for (const id of ['a', 'b']) {
    publish(driver, 'c', cds(id));
    publish(driver, 'o', cds(`copy/${id}`, 'onprem'));
    driver.server('c').set(EDS, eds(id), encode(ASSIGNMENT, { cluster_name: eds(id) }));
    const copy = eds(`copy/${id}`, 'onprem');
    driver.server('o').set(EDS, copy, encode(ASSIGNMENT, { cluster_name: copy }));
    driver.watch(cds(id), new RecordingWatcher(), CDS);
    driver.watch(eds(id), new RecordingWatcher(), EDS);
  }
  driver.advance(100);
  return new LoadsDriver(driver);
}

const namesOf = (clusters: readonly ClusterLoad[]): readonly string[] =>
  clusters.map(({ clusterName }) => clusterName);

const successful = (clusters: readonly ClusterLoad[]): unknown =>
  clusters[0]?.localities[0]?.requests.successful;

t.test('without clients no source has a stream of load reports', (t) => {
  const world = pairOf();
  world.syncSources();
  world.advance(60_000);
  t.strictSame(world.opened, []);
  const client = world.client();
  t.strictSame(world.opened, ['c'], 'only sources that are connected');
  world.ask('c');
  world.advance(10_000);
  world.leave(client);
  t.equal(world.calls.size, 0);
  t.end();
});

t.test('a load goes to the source that serves the cluster; unknown clusters are dropped', (t) => {
  const world = pairOf();
  publish(world.driver, 'o', cds('x', 'onprem'));
  world.driver.watch(cds('x', 'onprem'), new RecordingWatcher(), CDS);
  world.advance(100);
  const [one, two] = [world.client(), world.client()];
  world.ask('c');
  world.ask('o');
  t.strictSame(world.report(one, cds('a'), { successful: 1 }), []);
  t.strictSame(world.report(two, cds('a'), { successful: 2 }), []);
  t.strictSame(world.report(two, cds('x', 'onprem'), { successful: 4 }), []);
  t.strictSame(world.report(two, cds('none'), { successful: 8 }), [cds('none')]);
  t.strictSame(world.report(two, cds('a', 'other'), { successful: 8 }), [cds('a', 'other')]);
  const [cloud, onprem] = [world.after(10_000, 'c'), world.after(0, 'o')];
  t.strictSame([namesOf(cloud), successful(cloud)], [[cds('a')], 3]);
  t.strictSame([namesOf(onprem), successful(onprem)], [[cds('x', 'onprem')], 4]);
  t.equal(world.driver.federation.groups.length, 2, 'an unknown name makes no group');
  t.end();
});

t.test('after a failover the alternative gets the loads, under its own names', (t) => {
  const world = pairOf();
  const client = world.client();
  world.ask('c');
  world.report(client, cds('a'), { successful: 1, inProgress: 3 }, eds('a'));
  world.driver.kill('c');
  world.syncSources();
  t.equal(world.calls.has('c'), true, 'the test’s end of it');
  world.calls.delete('c');
  world.advance(60_000);
  world.ask('o');
  world.report(client, cds('a'), { successful: 2, inProgress: 1 }, eds('a'));
  t.match(world.after(10_000, 'o'), [
    {
      clusterName: cds('copy/a', 'onprem'),
      serviceName: eds('copy/a', 'onprem'),
      localities: [{ requests: { successful: 2, inProgress: 1 } }],
    },
  ]);
  world.driver.revive('c');
  world.advance(600_000);
  world.ask('c');
  t.match(
    world.after(10_000, 'c'),
    [{ clusterName: cds('a'), localities: [{ requests: { successful: 1, inProgress: 0 } }] }],
    'loads from before the loss arrive later; gauges are where the client reports now',
  );
  t.end();
});

t.test('a redirected cluster belongs to the source of its content', (t) => {
  const driver = new FederationDriver(
    mapOf({
      authorities: {
        cloud: { sources: ['c'], mayLeadTo: ['onprem'] },
        onprem: { sources: ['o'] },
      },
    }),
  );
  driver.redirect('c', cds('moved'), cds('home', 'onprem'), CDS);
  publish(driver, 'o', cds('home', 'onprem'));
  driver.watch(cds('moved'), new RecordingWatcher(), CDS);
  driver.advance(100);
  const world = new LoadsDriver(driver);
  const client = world.client();
  world.ask('c', { clusters: [] });
  world.ask('o', { clusters: [cds('home', 'onprem')] });
  t.match(
    world.reports.wanted(undefined, driver.nowMs),
    { asked: { clusters: [cds('home', 'onprem'), cds('moved')].sort() } },
    'a client holds it under the redirected name',
  );
  t.strictSame(world.report(client, cds('moved'), { successful: 1 }), []);
  t.strictSame(namesOf(world.after(10_000, 'o')), [cds('home', 'onprem')]);
  t.end();
});

t.test('old-style clusters go to the stream of the client’s node group, with its Node', (t) => {
  const driver = driverOf([{ sources: ['c'] }]);
  publish(driver, 'c', 'shop');
  for (const id of ['one', 'two']) driver.watch(at(id, 'shop'), new RecordingWatcher(), CDS);
  driver.advance(100);
  const world = new LoadsDriver(driver);
  const one = world.client(scopeOfId('one'));
  const [ofOne, ofTwo] = ['one', 'two'].map((id) => `c\n${scopeOfId(id)}`) as [string, string];
  t.strictSame(world.opened, [ofOne], 'no stream for a node group without clients');
  const two = world.client(scopeOfId('two'));
  t.strictSame(world.opened, [ofOne, ofTwo]);
  t.strictSame([world.call(ofOne).nodeId, world.call(ofTwo).nodeId], ['one', 'two']);
  world.ask(ofOne, { intervalMs: 5_000 });
  world.ask(ofTwo, { clusters: ['shop'] });
  const { nowMs } = driver;
  t.match(world.reports.wanted(scopeOfId('one'), nowMs), { asked: { intervalMs: 5_000 } });
  t.match(world.reports.wanted(scopeOfId('two'), nowMs), { asked: { clusters: ['shop'] } });
  world.report(one, at('one', 'shop'), { successful: 1 });
  world.report(two, at('two', 'shop'), { successful: 2 });
  const received = [world.after(10_000, ofOne), world.after(0, ofTwo)];
  t.strictSame(received.map(namesOf), [['shop'], ['shop']]);
  t.strictSame(received.map(successful), [1, 2]);
  world.leave(two);
  t.strictSame([...world.calls.keys()], [ofOne]);
  t.end();
});

t.test('a directory takes no load reports, and its clusters are known', (t) => {
  const driver = new FederationDriver(
    mapOf({ authorities: { cloud: { sources: ['files'] } }, paths: ['files'] }),
  );
  driver.watch(cds('a'), new RecordingWatcher(), CDS);
  const body = encode(CLUSTER, { name: cds('a') });
  const resources = [{ name: cds('a'), typeUrl: CDS, body }];
  driver.federation.handleLoaded('files', { resources, nowMs: driver.nowMs });
  driver.pump();
  const world = new LoadsDriver(driver);
  t.strictSame(world.report(world.client(), cds('a'), { successful: 1 }), []);
  t.equal(world.reports.sources.size, 0);
  t.end();
});

t.test('clients are asked for the union, at the least interval', (t) => {
  const world = pairOf();
  publish(world.driver, 'o', cds('x', 'onprem'));
  world.driver.watch(cds('x', 'onprem'), new RecordingWatcher(), CDS);
  world.advance(100);
  world.client();
  const wanted = () => world.reports.wanted(undefined, world.driver.nowMs);
  t.match(wanted(), { kind: 'pending', untilMs: world.driver.nowMs + 2_000 });
  world.ask('c', { clusters: [cds('a')], intervalMs: 20_000 });
  t.match(wanted(), { kind: 'pending' }, 'onprem may answer soon');
  world.advance(2_000);
  t.match(wanted(), { asked: { clusters: [cds('a')], intervalMs: 20_000, byEndpoint: false } });
  world.notified.splice(0);
  world.ask('o', { clusters: [cds('copy/b', 'onprem')], intervalMs: 10_000, byEndpoint: true });
  t.strictSame(world.notified, [undefined]);
  t.match(
    wanted(),
    { asked: { clusters: [cds('a'), cds('b')], intervalMs: 10_000, byEndpoint: true } },
    'the names by which clients know them',
  );
  world.ask('o', { clusters: 'all', intervalMs: 30_000 });
  t.match(wanted(), { asked: { clusters: 'all', intervalMs: 20_000, byEndpoint: false } });
  world.notified.splice(0);
  world.ask('o', { clusters: 'all', intervalMs: 30_000 });
  t.strictSame(world.notified, [], 'nothing new: no client is notified');
  t.end();
});

t.test('clients are asked for all clusters rather than for a very long list', (t) => {
  const world = pairOf();
  const client = world.client();
  const long = Array.from({ length: 600 }, (_, n) => cds(`${'x'.repeat(900)}${n}`));
  world.ask('c', { clusters: [cds('a'), ...long] });
  t.match(world.reports.wanted(undefined, world.driver.nowMs), { asked: { clusters: 'all' } });
  world.report(client, cds('b'), { successful: 1 });
  world.report(client, cds('a'), { successful: 1 });
  t.strictSame(namesOf(world.after(10_000, 'c')), [cds('a')], 'the source gets those it named');
  t.end();
});

t.test('if no source asks for loads, clients report nothing, once per minute', (t) => {
  const world = pairOf();
  const client = world.client();
  const wanted = () => world.reports.wanted(undefined, world.driver.nowMs);
  t.match(wanted(), { kind: 'pending' });
  world.end('c', { code: 12 });
  t.strictSame(wanted(), {
    kind: 'known',
    asked: { clusters: [], intervalMs: 60_000, byEndpoint: false },
  });
  world.report(client, cds('a'), { successful: 1 });
  world.advance(600_000);
  t.strictSame(world.opened, ['c'], 'the source is not asked again');
  world.driver.cut('c');
  world.advance(30_000);
  t.strictSame(world.opened, ['c', 'c'], 'until its xDS stream reconnects');
  t.end();
});

t.test('a source that is removed from the map takes its loads with it', (t) => {
  const world = pairOf();
  const client = world.client();
  world.ask('c');
  world.report(client, cds('a'), { successful: 1 });
  world.driver.reload(mapOf({ authorities: { onprem: { sources: ['o'] } } }));
  world.reports.handleMapChanged(world.driver.nowMs);
  world.pump();
  t.equal(world.reports.sources.size, 0);
  t.strictSame(world.report(client, cds('a'), { successful: 1 }), [cds('a')]);
  t.end();
});

t.test('after a reload, the source in use gets the loads of content from before', (t) => {
  const world = pairOf();
  const client = world.client();
  world.driver.server('n').reachability = 'black_hole';
  const cloud = { sources: ['n', 'o'] };
  world.driver.reload(mapOf({ authorities: { cloud, onprem: { sources: ['o'] } } }));
  world.reports.handleMapChanged(world.driver.nowMs);
  world.pump();
  t.strictSame(world.report(client, cds('a'), { successful: 1 }), []);
  t.strictSame(
    [...world.reports.sources.keys()].map(({ id }) => id).filter((id) => id !== 'o'),
    ['n'],
  );
  t.end();
});

t.test(
  'a cycle of redirects belongs to no source, and clients are asked for each name once',
  (t) => {
    const driver = new FederationDriver(mapOf({ authorities: { cloud: { sources: ['c'] } } }));
    driver.redirect('c', cds('a'), cds('b'), CDS);
    driver.redirect('c', cds('b'), cds('a'), CDS);
    for (const id of ['a', 'b']) driver.watch(cds(id), new RecordingWatcher(), CDS);
    driver.advance(100);
    const world = new LoadsDriver(driver);
    const client = world.client();
    t.strictSame(world.report(client, cds('a'), { successful: 1 }), [cds('a')]);
    world.ask('c', { clusters: [cds('a')] });
    t.match(world.reports.wanted(undefined, driver.nowMs), {
      asked: { clusters: [cds('a'), cds('b')] },
    });
    t.end();
  },
);

t.test('a service name that the alternative did not give stays as the client reports it', (t) => {
  const world = pairOf();
  const client = world.client();
  world.driver.kill('c');
  world.advance(60_000);
  world.ask('o');
  const names = ['plain', 'xdstp:', eds('a', 'other'), eds('a', 'onprem')];
  for (const name of names) world.report(client, cds('a'), { successful: 1 }, name);
  t.strictSame(
    world.after(10_000, 'o').map(({ serviceName }) => serviceName),
    names,
  );
  t.end();
});

t.test('a source of two authorities may ask for the names of one of them', (t) => {
  const driver = new FederationDriver(
    mapOf({ authorities: { cloud: { sources: ['c'] }, onprem: { sources: ['c'] } } }),
  );
  for (const authority of ['cloud', 'onprem']) {
    publish(driver, 'c', cds('a', authority));
    driver.watch(cds('a', authority), new RecordingWatcher(), CDS);
  }
  driver.advance(100);
  const world = new LoadsDriver(driver);
  world.client();
  world.ask('c', { clusters: [cds('a', 'onprem')] });
  t.match(world.reports.wanted(undefined, driver.nowMs), {
    asked: { clusters: [cds('a', 'onprem')] },
  });
  t.end();
});

t.test('a client that left has no loads, and leaves once', (t) => {
  const world = pairOf();
  const [one, two] = [world.client(), world.client()];
  world.ask('c');
  world.leave(one);
  world.leave(one);
  t.equal(world.reports.clientCount, 1);
  world.report(one, cds('a'), { successful: 1 });
  world.report(two, cds('a'), { successful: 2 });
  t.equal(successful(world.after(10_000, 'c')), 2);
  t.end();
});

t.test('a node group keeps its stream until its last client leaves', (t) => {
  const driver = driverOf([{ sources: ['c'] }]);
  publish(driver, 'c', 'shop');
  for (const id of ['one', 'two']) driver.watch(at(id, 'shop'), new RecordingWatcher(), CDS);
  driver.advance(100);
  const world = new LoadsDriver(driver);
  const [ofOne, ofTwo] = ['one', 'two'].map(scopeOfId) as [string, string];
  const [first, second] = [world.client(ofOne), world.client(ofOne)];
  world.client(ofTwo);
  world.client();
  for (const scope of [ofOne, ofTwo]) world.ask(`c\n${scope}`);
  for (const scope of [ofOne, ofTwo, undefined]) world.reports.wanted(scope, driver.nowMs);
  world.notified.splice(0);
  world.ask(`c\n${ofOne}`, { intervalMs: 5_000 });
  t.strictSame(world.notified, [ofOne, ofOne], 'only the clients of its node group are told');
  world.leave(first);
  world.syncSources();
  t.equal(world.calls.has(`c\n${ofOne}`), true);
  world.leave(second);
  t.equal(world.calls.has(`c\n${ofOne}`), false);
  t.equal(world.calls.has(`c\n${ofTwo}`), true);
  t.end();
});

t.test('the machine is due when its first source is', (t) => {
  const world = pairOf();
  const { nowMs } = world.driver;
  t.equal(world.reports.nextDeadlineMs(nowMs), Infinity, 'nothing to do without clients');
  world.client();
  world.ask('c', { intervalMs: 7_000 });
  t.equal(world.reports.nextDeadlineMs(nowMs), nowMs + 7_000);
  t.end();
});

t.test('at the stop of the gateway all sources get the loads that wait', (t) => {
  const world = pairOf();
  const client = world.client();
  world.ask('c');
  const { received } = world.call('c');
  world.report(client, cds('a'), { successful: 1 });
  world.reports.finish(world.driver.nowMs);
  world.pump();
  t.equal(successful(received), 1);
  t.equal(world.calls.size, 0);
  t.end();
});
