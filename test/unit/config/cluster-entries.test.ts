/** Goal: the section `clusters` takes Envoy's own form (`envoy.config.cluster.v3.Cluster`) too. */
import t from 'tap';
import { parseAuthorityMap } from '../../../config/authority-map.js';
import { formatProblem } from '../../../config/problems.js';

const SOURCE = {
  config_source: {
    api_config_source: {
      api_type: 'AGGREGATED_DELTA_GRPC',
      grpc_services: [{ envoy_grpc: { cluster_name: 'xds' } }],
    },
  },
};

function read(clusters: unknown) {
  const authorities = { a: { sources: ['one'] } };
  const text = JSON.stringify({ sources: { one: SOURCE }, authorities, clusters });
  return parseAuthorityMap(text, { file: '/m' });
}

const endpoint = { address: { socket_address: { address: '127.0.0.1', port_value: 5 } } };
const XDS = {
  name: 'xds',
  type: 'STATIC',
  connect_timeout: '1s',
  load_assignment: { cluster_name: 'xds', endpoints: [{ lb_endpoints: [{ endpoint }] }] },
};
const TLS = {
  name: 'envoy.transport_sockets.tls',
  typed_config: {
    '@type': 'x/y.UpstreamTlsContext',
    sni: 'xds.test',
    common_tls_context: { validation_context: { trusted_ca: { filename: 'ca.pem' } } },
  },
};

t.test('a list as in static_resources, and entries of the map', (t) => {
  const secure = { ...XDS, transport_socket: TLS };
  for (const clusters of [[secure], { xds: secure }]) {
    const map = read(clusters);
    if (!map.ok) throw new Error(map.problems.map(formatProblem).join());
    t.match(map.map.sources.get('one'), {
      target: '127.0.0.1:5',
      tls: { rootCertsFile: '/ca.pem', serverName: 'xds.test' },
    });
  }
  const plain = read([{ ...XDS, insecure: true }]);
  t.match(plain.ok && plain.map.sources.get('one'), { target: '127.0.0.1:5', tls: null });
  t.end();
});

t.test('mistakes have a place and a remedy; a field without a counterpart is a warning', (t) => {
  for (const [clusters, words] of [
    [[XDS], /clusters\[0\]: has no transport_socket, which means plaintext \(write a transport/],
    [[{ ...XDS, name: undefined }], /clusters\[0\]: has no name/],
    [
      [
        { ...XDS, insecure: true },
        { ...XDS, insecure: true },
      ],
      /duplicate cluster "xds"/,
    ],
    [{ xds: { ...XDS, insecure: true, load_assignment: {} } }, /load_assignment: has no endpoints/],
    [{ xds: { ...XDS, insecure: true, lb_polcy: 'X' } }, /lb_polcy: unknown key \(did you mean/],
    [{ xds: { ...XDS, insecure: true, transport_socket: TLS } }, /contradicts insecure: true/],
  ] as const) {
    const map = read(clusters);
    t.notOk(map.ok);
    if (!map.ok) t.match(map.problems.map(formatProblem).join('\n'), words);
  }
  const open = { ...TLS, typed_config: { '@type': 'x/y.UpstreamTlsContext' } };
  const map = read([{ ...XDS, transport_socket: open }]);
  t.match(map.ok && map.warnings.map(formatProblem), [/transport_socket: has no trusted_ca file/]);
  t.end();
});
