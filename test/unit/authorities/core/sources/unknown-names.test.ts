/**
 * Goal: a server that answers no name of a request with an unknown one (java-control-plane for ADS) still
 * serves the endpoints that it has; any other server is still asked for all names.
 * Method: the state machine of the stream alone.
 */
import t from 'tap';
import { SILENCE_MS, LEAVE_OUT_MS } from '../../../../../authorities/core/sources/unknown-names.js';
import { any, bare, CDS, EDS, start } from '../../../../support/sotw-stream-rig.js';
import { encode } from '../../../protos/envoy-messages.js';

/** A cluster with endpoints of its name. */
const edsCluster = (name: string): Buffer =>
  any(CDS, encode('envoy.config.cluster.v3.Cluster', { name, type: 3, eds_cluster_config: {} }));

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
