/** Goal: load reports follow the published .proto files, within bounds. */
import fc from 'fast-check';
import t from 'tap';
import {
  decodeLoadStatsRequest,
  decodeLoadStatsResponse,
  encodeLoadStatsRequest,
  encodeLoadStatsResponse,
  withClientFeature,
} from '../../../protos/load-stats-codec.js';
import { MAX_COUNT } from '../../../protos/load-stats.js';
import { encodeNode, hasClientFeature } from '../../../protos/node-codec.js';
import { clusterLoad } from '../../support/loads.js';
import { decode, encode } from './envoy-messages.js';

const REQUEST = 'envoy.service.load_stats.v3.LoadStatsRequest';
const RESPONSE = 'envoy.service.load_stats.v3.LoadStatsResponse';

const address = { socket_address: { address: '10.0.0.1', port_value: 80 } };

const published = {
  node: { id: 'n' },
  cluster_stats: [
    {
      cluster_name: 'c',
      cluster_service_name: 's',
      total_dropped_requests: 9,
      dropped_requests: [{ category: 'overload', dropped_count: 4 }],
      load_report_interval: { seconds: 2, nanos: 500_000_000 },
      upstream_locality_stats: [
        {
          locality: { region: 'r', zone: 'z', sub_zone: 's' },
          total_successful_requests: 1,
          total_requests_in_progress: 2,
          total_error_requests: 3,
          total_issued_requests: 4,
          total_active_connections: 5,
          total_new_connections: 6,
          total_fail_connections: 7,
          cpu_utilization: { num_requests_finished_with_metric: 1, total_metric_value: 0.5 },
          mem_utilization: { num_requests_finished_with_metric: 2, total_metric_value: 0.25 },
          application_utilization: {
            num_requests_finished_with_metric: 3,
            total_metric_value: 1.5,
          },
          load_metric_stats: [
            { metric_name: 'm', num_requests_finished_with_metric: 8, total_metric_value: 1.25 },
          ],
          priority: 1,
          upstream_endpoint_stats: [
            {
              address,
              total_successful_requests: 1,
              total_requests_in_progress: 2,
              total_error_requests: 3,
              total_issued_requests: 4,
              metadata: { fields: { k: { string_value: 'v' } } },
              load_metric_stats: [
                { metric_name: 'e', num_requests_finished_with_metric: 1, total_metric_value: 2 },
              ],
            },
          ],
        },
      ],
    },
  ],
};

t.test('a report of another library is read with every field, and written back the same', (t) => {
  const bytes = encode(REQUEST, published);
  const decoded = decodeLoadStatsRequest(bytes, 100);
  t.match(decoded, {
    ok: true,
    message: {
      clusters: [
        {
          clusterName: 'c',
          serviceName: 's',
          dropped: 9,
          droppedBy: new Map([['overload', 4]]),
          intervalMs: 2_500,
          localities: [
            {
              locality: { region: 'r', zone: 'z', subZone: 's' },
              priority: 1,
              requests: { successful: 1, inProgress: 2, failed: 3, issued: 4 },
              connections: { active: 5, opened: 6, failed: 7 },
              metrics: new Map([['m', { finished: 8, total: 1.25 }]]),
              endpoints: [{ requests: { successful: 1, inProgress: 2, failed: 3, issued: 4 } }],
            },
          ],
        },
      ],
    },
  });
  if (!decoded.ok) throw new Error(decoded.reason);
  const again = decode(REQUEST, encodeLoadStatsRequest(decoded.message));
  t.strictSame(again, decode(REQUEST, bytes));
  t.end();
});

t.test('a response is written and read like that of another library', (t) => {
  const all = { clusters: 'all', intervalMs: 1_500, byEndpoint: true } as const;
  const named = { clusters: ['a', 'b'], intervalMs: 60_000, byEndpoint: false } as const;
  for (const response of [all, named]) {
    const bytes = encodeLoadStatsResponse(response);
    t.strictSame(decodeLoadStatsResponse(bytes, 10), { ok: true, message: response });
  }
  t.match(decode(RESPONSE, encodeLoadStatsResponse(all)), {
    send_all_clusters: true,
    report_endpoint_granularity: true,
    load_reporting_interval: { nanos: 500_000_000 },
  });
  const other = encode(RESPONSE, {
    clusters: ['a', 'b'],
    load_reporting_interval: { seconds: 60 },
  });
  t.strictSame(decodeLoadStatsResponse(other, 10), { ok: true, message: named });
  t.match(decodeLoadStatsResponse(other, 1), { ok: false, code: 'too_many' });
  t.end();
});

t.test('entries of every kind count towards the bound, before they are kept', (t) => {
  const bytes = encode(REQUEST, published);
  // A cluster, a category, a locality, its metric, an endpoint, its metric.
  t.match(decodeLoadStatsRequest(bytes, 6), { ok: true });
  t.match(decodeLoadStatsRequest(bytes, 5), { ok: false, code: 'too_many' });
  const empty = Buffer.from('1200'.repeat(100), 'hex');
  t.match(decodeLoadStatsRequest(empty, 99), { ok: false, code: 'too_many' });
  t.end();
});

t.test('counts beyond exact numbers count as the largest one', (t) => {
  const bytes = encode(REQUEST, {
    cluster_stats: [{ cluster_name: 'c', total_dropped_requests: 2 ** 60 }],
  });
  t.match(decodeLoadStatsRequest(bytes, 9), {
    message: { clusters: [{ dropped: MAX_COUNT }] },
  });
  const load = clusterLoad('c', [], { dropped: MAX_COUNT });
  const written = encodeLoadStatsRequest({ node: undefined, clusters: [load] });
  t.match(decodeLoadStatsRequest(written, 9), { message: { clusters: [{ dropped: MAX_COUNT }] } });
  t.end();
});

t.test('bytes that are not a report are data, not an exception', (t) => {
  t.match(decodeLoadStatsRequest(Buffer.from([0x12, 0x05, 0x0a]), 9), { code: 'malformed' });
  t.match(decodeLoadStatsResponse(Buffer.from([0xff]), 9), { code: 'malformed' });
  const whole = encode(REQUEST, published);
  fc.assert(
    fc.property(fc.nat(whole.length - 1), fc.nat(255), (at, byte) => {
      const damaged = Uint8Array.from(whole);
      damaged[at] = byte;
      decodeLoadStatsRequest(damaged, 100);
      decodeLoadStatsRequest(whole.subarray(0, at), 100);
    }),
    { numRuns: 300 },
  );
  t.end();
});

t.test('a client feature is added to an encoded Node', (t) => {
  const node = encodeNode({ id: 'n', cluster: 'c', userAgentName: '', userAgentVersion: '' });
  const added = withClientFeature(node, 'f');
  t.equal(hasClientFeature(node, 'f'), false);
  t.equal(hasClientFeature(added, 'f'), true);
  t.match(decode('envoy.config.core.v3.Node', added), { id: 'n', cluster: 'c' });
  t.end();
});
