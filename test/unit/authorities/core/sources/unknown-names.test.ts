/**
 * Goal: a server that answers no name of a request with an unknown one (java-control-plane for ADS) still
 * serves the endpoints and routes that it has; any other server is still asked for all names.
 * Method: the state machine of the stream alone.
 */
import t from 'tap';
import { SILENCE_MS, LEAVE_OUT_MS } from '../../../../../authorities/core/sources/unknown-names.js';
import { REDIRECT, textLocatorBytes } from '../../../../support/collection-messages.js';
import { any, bare, CDS, EDS, old, start, wrapped } from '../../../../support/sotw-stream-rig.js';
import { STREAM_OPTIONS } from '../../../../support/stream-options.js';
import { TYPE_URL } from '../../../../../protos/type-urls.js';
import { any as inAny, encode } from '../../../protos/envoy-messages.js';

const LDS = TYPE_URL.listener;
const RDS = TYPE_URL.routeConfiguration;
const SRDS = TYPE_URL.scopedRouteConfiguration;

/** A cluster with endpoints of its name. */
const edsCluster = (name: string): Buffer =>
  any(CDS, encode('envoy.config.cluster.v3.Cluster', { name, type: 3, eds_cluster_config: {} }));

/** A listener whose routes have this name. */
const rdsListener = (name: string, route: string): Buffer => {
  const manager = { stat_prefix: 's', rds: { route_config_name: route } };
  const typed_config = inAny(
    'envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager',
    manager,
  );
  const filter_chains = [{ filters: [{ name: 'http', typed_config }] }];
  return any(LDS, encode('envoy.config.listener.v3.Listener', { name, filter_chains }));
};

const scopedRoute = (name: string, route: string): Buffer => {
  const fields = { name, route_configuration_name: route };
  return any(SRDS, encode('envoy.config.route.v3.ScopedRouteConfiguration', fields));
};

/** Endpoints `has` and `lacks` are requested, and the source has a cluster for the first. */
function silent() {
  const rig = start();
  rig.subscribe(CDS, '*');
  for (const name of ['has', 'lacks']) rig.subscribe(EDS, name);
  rig.stream.handleOpened();
  rig.requests();
  rig.respond(CDS, '1', [edsCluster('has')]);
  rig.requests();
  const endpoints = (nowMs: number): readonly (readonly string[])[] => {
    rig.stream.handleTimer(nowMs);
    return rig.requests(nowMs).flatMap(({ typeUrl, names }) => (typeUrl === EDS ? [names] : []));
  };
  return { ...rig, endpoints };
}

t.test(
  'names that no cluster of the source refers to are left out of requests that it leaves unanswered',
  (t) => {
    const { stream, endpoints, respond, requests } = silent();
    t.equal(stream.nextDeadlineMs(), SILENCE_MS);
    t.strictSame(endpoints(SILENCE_MS - 1), []);
    t.strictSame(endpoints(SILENCE_MS), [['has']]);
    respond(EDS, '1', [bare(EDS, 'has')]);
    t.match(requests(SILENCE_MS), [{ names: ['has'], versionInfo: '1' }]);
    const againMs = SILENCE_MS + LEAVE_OUT_MS;
    t.strictSame(endpoints(againMs), [['has', 'lacks']], 'another server may have it by now');
    t.strictSame(endpoints(againMs + SILENCE_MS), [['has']], 'silent again');
    t.end();
  },
);

t.test(
  'a name that is to be requested again is in the request even while it is left out (invariant 14)',
  (t) => {
    // Simulation, seed 101748: another instance had it from the source.
    const { contents, stream, endpoints, requests } = silent();
    endpoints(SILENCE_MS);
    const rounds = Math.ceil(STREAM_OPTIONS.resourceTimeoutMs / (SILENCE_MS + LEAVE_OUT_MS));
    const narrowMs = SILENCE_MS + rounds * (SILENCE_MS + LEAVE_OUT_MS);
    for (let atMs = 0; atMs <= narrowMs; atMs += SILENCE_MS) endpoints(atMs);
    stream.handleAskedAgain(contents.subscription(EDS, old('lacks'))!);
    const names = requests(narrowMs).map((one) => one.names);
    t.strictSame(names, [['has'], ['has', 'lacks']]);
    t.strictSame(endpoints(narrowMs + LEAVE_OUT_MS), [['has', 'lacks']], 'the turn of all names');
    t.strictSame(endpoints(narrowMs + LEAVE_OUT_MS + SILENCE_MS), [['has']], 'silent again');
    t.end();
  },
);

t.test('a new cluster of the source brings its endpoints back into the request', (t) => {
  const { endpoints, respond, requests } = silent();
  endpoints(SILENCE_MS);
  respond(CDS, '2', [edsCluster('has'), edsCluster('lacks')]);
  const names = requests(SILENCE_MS).map((one) => [one.typeUrl, one.names]);
  t.strictSame(names, [
    [CDS, []],
    [EDS, ['has', 'lacks']],
  ]);
  t.end();
});

t.test('a server that answers every name is asked for all of them', (t) => {
  const { endpoints, respond } = silent();
  endpoints(SILENCE_MS);
  endpoints(SILENCE_MS + LEAVE_OUT_MS);
  respond(EDS, '1', [bare(EDS, 'has'), bare(EDS, 'lacks')]);
  for (const times of [1, 2, 3]) {
    const all = endpoints(SILENCE_MS + times * LEAVE_OUT_MS);
    t.ok(all.every((names) => names.length === 2));
  }
  t.end();
});

t.test('nothing is left out before the clusters came, nor without any', (t) => {
  t.equal(start().stream.nextDeadlineMs(), undefined, 'nothing is requested');
  const early = start();
  early.subscribe(CDS, '*');
  early.subscribe(EDS, 'a');
  early.stream.handleOpened();
  early.requests();
  early.stream.handleTimer(SILENCE_MS);
  t.strictSame(early.requests(SILENCE_MS), []);
  const alone = start();
  alone.subscribe(EDS, 'a');
  alone.stream.handleOpened();
  alone.requests();
  alone.stream.handleTimer(SILENCE_MS);
  t.strictSame(alone.requests(SILENCE_MS), []);
  t.end();
});

t.test(
  'names are left out as soon as a name comes that no cluster refers to, also after hours',
  (t) => {
    const { stream, subscribe, endpoints, respond, requests } = silent();
    respond(EDS, '1', [bare(EDS, 'has'), bare(EDS, 'lacks')]);
    requests();
    t.equal(stream.nextDeadlineMs(), undefined, 'the server answered all');
    const laterMs = 3_600_000;
    subscribe(EDS, 'other', laterMs);
    t.match(requests(laterMs), [{ names: ['has', 'lacks', 'other'] }]);
    t.strictSame(endpoints(laterMs + SILENCE_MS), [['has', 'lacks']]);
    t.end();
  },
);

t.test('endpoints that lost their cluster are left out until the server sends them again', (t) => {
  const { stream, endpoints, respond, requests, held } = silent();
  respond(CDS, '2', [edsCluster('has'), edsCluster('lacks')]);
  respond(EDS, '2', [bare(EDS, 'has'), bare(EDS, 'lacks')]);
  requests();
  t.equal(stream.nextDeadlineMs(), undefined);
  const laterMs = 3_600_000;
  respond(CDS, '3', [edsCluster('has')], laterMs);
  requests(laterMs);
  t.strictSame(endpoints(laterMs + SILENCE_MS), [['has']]);
  t.strictSame(held(EDS), ['has', 'lacks'], 'what the source sent stays');
  const againMs = laterMs + SILENCE_MS + LEAVE_OUT_MS;
  t.strictSame(endpoints(againMs), [['has', 'lacks']]);
  respond(EDS, '3', [bare(EDS, 'lacks', 2)], againMs);
  requests(againMs);
  t.equal(stream.nextDeadlineMs(), undefined, 'it has them, although no cluster refers to them');
  respond(CDS, '4', [edsCluster('has')], againMs);
  t.equal(stream.nextDeadlineMs(), undefined, 'nor did one before');
  t.end();
});

t.test('endpoints whose cluster returns are requested all the time', (t) => {
  const { stream, endpoints, respond, requests } = silent();
  const both = [edsCluster('has'), edsCluster('lacks')];
  respond(CDS, '2', both);
  respond(EDS, '2', [bare(EDS, 'has'), bare(EDS, 'lacks')]);
  respond(CDS, '3', [edsCluster('has')]);
  respond(CDS, '4', both);
  requests();
  t.strictSame(endpoints(SILENCE_MS), []);
  t.equal(stream.nextDeadlineMs(), undefined);
  t.end();
});

t.test('routes that no listener of the source refers to are left out in the same way', (t) => {
  const rig = start();
  rig.subscribe(LDS, '*');
  rig.subscribe(SRDS, '*');
  for (const name of ['has', 'scoped', 'lacks']) rig.subscribe(RDS, name);
  rig.stream.handleOpened();
  rig.requests();
  const routes = (nowMs: number): readonly (readonly string[])[] => {
    rig.stream.handleTimer(nowMs);
    return rig.requests(nowMs).flatMap(({ typeUrl, names }) => (typeUrl === RDS ? [names] : []));
  };
  const redirect = Buffer.from(textLocatorBytes('xdstp://a/envoy.config.listener.v3.Listener/x'));
  const led = wrapped('led', '1', 60, redirect, REDIRECT);
  rig.respond(LDS, '1', [rdsListener('http', 'has'), bare(LDS, 'tcp'), led]);
  t.strictSame(routes(SILENCE_MS), [], 'a scoped route that has not come may refer to them');
  rig.respond(SRDS, '1', [scopedRoute('scope', 'scoped')], SILENCE_MS);
  t.strictSame(routes(2 * SILENCE_MS), [['has', 'scoped']]);
  rig.respond(RDS, '1', [bare(RDS, 'has'), bare(RDS, 'scoped')], 2 * SILENCE_MS);
  t.strictSame(routes(2 * SILENCE_MS), [['has', 'scoped']], 'its ACK');
  t.end();
});

t.test('a name that is left out counts as unanswered after its time', (t) => {
  const { stream, subscribe, endpoints, respond, requests, status } = silent();
  endpoints(SILENCE_MS);
  respond(EDS, '1', [bare(EDS, 'has')], SILENCE_MS);
  subscribe(EDS, 'other', SILENCE_MS);
  t.match(requests(SILENCE_MS), [{ names: ['has'] }]);
  for (let atMs = stream.nextDeadlineMs(); atMs !== undefined && atMs <= SILENCE_MS + 30_000;) {
    stream.handleTimer(atMs);
    requests(atMs);
    atMs = stream.nextDeadlineMs();
  }
  t.equal(status(EDS, 'other'), 'timed_out');
  t.end();
});

t.test('names are not left out while no cluster is subscribed any more', (t) => {
  const { unsubscribe, endpoints, requests } = silent();
  unsubscribe(CDS, '*');
  requests();
  t.strictSame(endpoints(SILENCE_MS), []);
  t.end();
});
