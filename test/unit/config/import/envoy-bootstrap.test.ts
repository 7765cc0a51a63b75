/**
 * Goal: a whole Envoy bootstrap becomes an authority map without problems, with a comment for each part that
 * the map cannot express.
 */
import fc from 'fast-check';
import t from 'tap';
import { parse } from 'yaml';
import { parseAuthorityMap } from '../../../../config/authority-map.js';
import { importBootstrap } from '../../../../config/import/import-bootstrap.js';
import { fieldAt } from '../../../../config/import/json-fields.js';
import { formatProblem } from '../../../../config/problems.js';

const BOOTSTRAP = `
admin: { address: { socket_address: { address: 127.0.0.1, port_value: 9901 } } }
node: { id: envoy-1, cluster: edge, locality: { region: eu } }
layered_runtime: { layers: [] }
cluster_manager: { load_stats_config: { api_type: GRPC } }
config_sources:
  - resource_api_version: V3
    authorities: [{ name: cloud.example.com }]
    initial_fetch_timeout: 5s
    api_config_source:
      api_type: AGGREGATED_DELTA_GRPC
      transport_api_version: V3
      set_node_on_first_message_only: true
      rate_limit_settings: { max_tokens: 10, fill_rate: 2 }
      grpc_services:
        - envoy_grpc: { cluster_name: cloud-xds }
          initial_metadata: [{ key: x-team, value: edge }]
        - google_grpc:
            target_uri: dns:///spare.example.com:443
            stat_prefix: spare
            channel_credentials: { ssl_credentials: { root_certs: { filename: certs/ca.pem } } }
default_config_source:
  resource_api_version: V3
  ads: {}
dynamic_resources:
  ads_config:
    api_type: DELTA_GRPC
    transport_api_version: V3
    grpc_services: [{ envoy_grpc: { cluster_name: onprem-xds } }]
  cds_config: { resource_api_version: V3, ads: {} }
  lds_resources_locator: xdstp://cloud.example.com/envoy.config.listener.v3.Listener/edge/*
  lds_config: { resource_api_version: V3, ads: {} }
static_resources:
  listeners: [{ name: fixed, address: { socket_address: { address: 0.0.0.0, port_value: 1 } } }]
  clusters:
    - name: cloud-xds
      type: STRICT_DNS
      connect_timeout: 1s
      typed_extension_protocol_options: {}
      transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
          sni: cloud.example.com
          common_tls_context:
            tls_certificates: [{ certificate_chain: { filename: certs/client.pem }, private_key: { filename: certs/client.key } }]
            validation_context:
              trusted_ca: { filename: certs/ca.pem }
              match_typed_subject_alt_names: [{ san_type: DNS, matcher: { exact: cloud.example.com } }]
      load_assignment:
        cluster_name: cloud-xds
        endpoints:
          - priority: 1
            lb_endpoints: [{ endpoint: { address: { socket_address: { address: b.example.com, port_value: 443 } } } }]
          - lb_endpoints: [{ endpoint: { address: { socket_address: { address: a.example.com, port_value: 443 } } } }]
    - name: onprem-xds
      load_assignment:
        cluster_name: onprem-xds
        endpoints:
          - lb_endpoints:
              - { endpoint: { address: { socket_address: { address: 10.0.0.1, port_value: 18000 } } } }
              - { endpoint: { address: { socket_address: { address: 10.0.0.2, port_value: 18000 } } } }
    - name: local-service
      load_assignment: { cluster_name: local-service }
`;

/** The map, and its comment lines. */
function imported(bootstrap: unknown): {
  readonly map: unknown;
  readonly notes: readonly string[];
} {
  const text = typeof bootstrap === 'string' ? bootstrap : JSON.stringify(bootstrap);
  const read = importBootstrap(Buffer.from(text), '/x/envoy.yaml', 'envoy.yaml');
  if (!read.ok) throw new Error(read.problems.map(formatProblem).join());
  const valid = parseAuthorityMap(read.yaml, { file: '/x/map.yaml' });
  if (!valid.ok) throw new Error(`${valid.problems.map(formatProblem).join()}\n${read.yaml}`);
  const notes = read.yaml.split('\n').flatMap((line) => /^# - (.*)/.exec(line)?.[1] ?? []);
  return { map: parse(read.yaml), notes };
}

t.test('a whole bootstrap: TP1 sources, ADS, clusters with TLS, and comments on the rest', (t) => {
  const { map, notes } = imported(BOOTSTRAP);
  const cloud = {
    tls: {
      ca: 'certs/ca.pem',
      cert: 'certs/client.pem',
      key: 'certs/client.key',
      sans: ['cloud.example.com'],
      server_name: 'cloud.example.com',
    },
    rate_limit: { max_tokens: 10, fill_rate: 2 },
    timers: { resource_timeout: '5s' },
    initial_metadata: [{ key: 'x-team', value: 'edge' }],
  };
  t.strictSame(map, {
    sources: {
      'cloud-xds': { target: 'a.example.com:443', ...cloud },
      'cloud-xds-2': { target: 'b.example.com:443', ...cloud },
      spare: {
        target: 'dns:///spare.example.com:443',
        tls: { ca: 'certs/ca.pem' },
        rate_limit: cloud.rate_limit,
        timers: cloud.timers,
      },
      // Its ConfigSource does not say set_node_on_first_message_only: Envoy repeats its Node.
      'onprem-xds': {
        target: 'ipv4:10.0.0.1:18000,10.0.0.2:18000',
        insecure: true,
        node_in: 'every_request',
      },
    },
    authorities: { 'cloud.example.com': { sources: ['cloud-xds', 'cloud-xds-2', 'spare'] } },
    old_style_names: { served_by: [{ sources: ['onprem-xds'] }] },
    default_config_source: { sources: ['onprem-xds'] },
  });
  const stays = 'stays in the bootstrap of Envoy';
  t.strictSame(notes, [
    'node: each client sends its own; old_style_names.differ_by says which of its fields sources get',
    `static_resources.clusters.local-service: ${stays}`,
    `static_resources.listeners: ${stays}`,
    `admin: ${stays}`,
    `layered_runtime: ${stays}`,
    `cluster_manager: ${stays}; the gateway passes load reports on (load_stats_config)`,
  ]);
  t.end();
});

const grpcTo = (cluster: string): unknown => ({
  apiType: 'GRPC',
  transportApiVersion: 'V3',
  grpcServices: [{ envoyGrpc: { clusterName: cluster, authority: 'xds.example.com' } }],
});
const address = (host: string, port: number): unknown => ({
  endpoint: { address: { socketAddress: { address: host, portValue: port } } },
});
const cluster = (name: string, ...endpoints: readonly unknown[]): Record<string, unknown> => ({
  name,
  loadAssignment: { clusterName: name, endpoints: [{ lbEndpoints: endpoints }] },
});

t.test('JSON in lowerCamelCase; a collection of an authority; the node goes to the source', (t) => {
  const { map, notes } = imported({
    node: { id: 'e', cluster: 'c', userAgentName: 'envoy' },
    dynamicResources: {
      adsConfig: grpcTo('x'),
      cdsResourcesLocator: 'xdstp://a.test/envoy.config.cluster.v3.Cluster/*',
      cdsConfig: { ads: {} },
      ldsResourcesLocator: 'xdstp://a.test/envoy.config.listener.v3.Listener/*',
    },
    staticResources: { clusters: [cluster('x', address('::1', 1), address('::2', 2))] },
  });
  t.strictSame(map, {
    sources: {
      x: {
        node_in: 'every_request',
        target: 'ipv6:[::1]:1,[::2]:2',
        insecure: true,
        api_type: 'AGGREGATED_GRPC',
        channel_args: { 'grpc.default_authority': 'xds.example.com' },
        node: { id: 'e', cluster: 'c' },
      },
    },
    authorities: { 'a.test': { sources: ['x'] } },
  });
  t.strictSame(notes, ['node.userAgentName: is not sent by the gateway']);
  t.end();
});

t.test('a ConfigSource for each type, REST, and files', (t) => {
  const rest = {
    api_config_source: {
      api_type: 'REST',
      transport_api_version: 'V2',
      cluster_names: ['r', 'none'],
      refresh_delay: '5s',
      request_timeout: '2s',
    },
  };
  const { map, notes } = imported({
    dynamic_resources: {
      cds_config: rest,
      lds_config: {
        path_config_source: { path: '/etc/lds.yaml', watched_directory: { path: '/etc' } },
      },
    },
    static_resources: { clusters: [cluster('r', address('r.test', 80))] },
  });
  t.match(map, {
    sources: {
      r: {
        target: 'r.test:80',
        insecure: true,
        api_type: 'REST',
        refresh_delay: '5s',
        request_timeout: '2s',
      },
      'lds.yaml': { path: '/etc/lds.yaml', watched_directory: '/etc' },
    },
    old_style_names: {
      served_by: [
        {
          sources: ['r'],
          types: [
            'envoy.config.cluster.v3.Cluster',
            'envoy.config.endpoint.v3.ClusterLoadAssignment',
          ],
        },
        { sources: ['lds.yaml'] },
      ],
    },
  });
  t.match(notes, [/transport_api_version: the gateway speaks v3/, /has no cluster "none"/]);
  t.end();
});

t.test('ads_config alone, Google credentials, a plug-in, and clusters with other fields', (t) => {
  const google = (more: object, prefix: string): unknown => ({
    google_grpc: { target_uri: 'td.test:443', stat_prefix: prefix, ...more },
  });
  const plugin = {
    name: 'envoy.grpc_credentials.file_based_metadata',
    typed_config: { secret_data: { filename: '/token' } },
  };
  const tlsCluster = {
    ...cluster('s', { endpoint: { address: { pipe: { path: '/run/xds' } } } }, {}),
    transport_socket: {
      name: 'envoy.transport_sockets.tls',
      typed_config: {
        '@type': 'x/envoy.UpstreamTlsContext',
        common_tls_context: {
          tls_certificate_sds_secret_configs: [{}],
          tls_certificates: [{ certificate_chain: { inline_string: 'x' } }],
          validation_context: { match_subject_alt_names: [{ prefix: 'a' }] },
        },
      },
    },
  };
  const { map, notes } = imported({
    dynamic_resources: {
      ads_config: {
        api_type: 'DELTA_GRPC',
        set_node_on_first_message_only: false,
        config_validators: [],
        grpc_services: [
          google({ channel_credentials: { google_default: {} } }, 'td'),
          google(
            {
              channel_credentials: { ssl_credentials: { root_certs: { inline_string: 'x' } } },
              call_credentials: [{ from_plugin: plugin }, {}],
              channel_args: {
                args: { 'grpc.x': { int_value: '5' }, 'grpc.y': { string_value: 'z' } },
              },
            },
            'plug',
          ),
          google(
            {
              channel_credentials: { ssl_credentials: {} },
              call_credentials: [{ access_token: 't' }],
            },
            'tok',
          ),
          { envoy_grpc: { cluster_name: 's' }, initial_metadata: [{ key: 'k' }] },
          { google_grpc: {} },
          {},
        ],
      },
    },
    static_resources: { clusters: [tlsCluster] },
  });
  t.strictSame(map, {
    sources: {
      td: {
        target: 'td.test:443',
        call_credentials: { google_default: {} },
        node_in: 'every_request',
      },
      plug: {
        target: 'td.test:443',
        call_credentials: { from_plugin: plugin },
        channel_args: { 'grpc.x': 5, 'grpc.y': 'z' },
        node_in: 'every_request',
      },
      tok: { target: 'td.test:443', node_in: 'every_request' },
      s: { target: 'unix:/run/xds', node_in: 'every_request' },
    },
    old_style_names: { served_by: [{ sources: ['td', 'plug', 'tok', 's'] }] },
  });
  for (const words of [
    /config_validators: stays/,
    /root_certs: is not a file/,
    /only the first one/,
    /call_credentials\.access_token: has no counterpart/,
    /initial_metadata: k has no text value/,
    /endpoint without address/,
    /SDS/,
    /certificate_chain: is not a file/,
    /no trusted_ca file/,
    /only exact names/,
    /no target_uri/,
    /no envoy_grpc\.cluster_name/,
  ]) {
    t.match(notes.join('\n'), words);
  }
  t.end();
});

t.test('a file that is not a bootstrap is refused with a place and a remedy', (t) => {
  const refused = (text: string | Buffer): readonly string[] => {
    const read = importBootstrap(Buffer.from(text), 'f', 'f');
    return read.ok ? [] : read.problems.map(formatProblem);
  };
  t.match(refused('sources: {}'), [/^f:1:1: is neither .*\(tributary validate/]);
  t.match(refused('a: [b'), [/^f:1:/]);
  t.match(refused(Buffer.from('a: \u00fc', 'latin1')), [/^f:1:4: is not UTF-8/]);
  t.end();
});

t.test('no bootstrap makes the import throw, and its YAML is readable', (t) => {
  const odd = fc.oneof(
    fc.jsonValue(),
    fc.constant({ toString: 1, valueOf: 1 }),
    fc.constant('\n# x: ['),
  );
  const some = (shape: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<unknown> =>
    fc.oneof({ weight: 4, arbitrary: fc.record(shape, { requiredKeys: [] }) }, odd);
  const list = (item: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
    fc.oneof({ weight: 4, arbitrary: fc.array(item, { maxLength: 2 }) }, odd);
  const name = fc.oneof(fc.constantFrom('a', 'b'), odd);
  const service = some({
    envoy_grpc: some({ cluster_name: name, authority: odd }),
    google_grpc: some({
      target_uri: name,
      stat_prefix: odd,
      channel_credentials: some({ ssl_credentials: odd, google_default: odd }),
      call_credentials: list(odd),
      channel_args: some({ args: some({ x: some({ int_value: odd, string_value: odd }) }) }),
    }),
    initial_metadata: list(some({ key: odd, value: odd })),
  });
  const api = some({
    api_type: fc.constantFrom('GRPC', 'REST', 'DELTA_GRPC'),
    grpc_services: list(service),
    cluster_names: list(name),
    rate_limit_settings: odd,
  });
  const source = some({ ads: odd, api_config_source: api, authorities: list(some({ name })) });
  const endpoint = some({
    endpoint: some({
      address: some({ socket_address: some({ address: name, port_value: odd }), pipe: odd }),
    }),
  });
  const cluster = some({
    name,
    load_assignment: some({
      endpoints: list(some({ priority: odd, lb_endpoints: list(endpoint) })),
    }),
    transport_socket: some({
      typed_config: some({
        '@type': fc.constantFrom('x.UpstreamTlsContext', 'RawBuffer'),
        common_tls_context: some({ tls_certificates: list(odd), validation_context: odd }),
      }),
    }),
  });
  const server = some({
    server_uri: name,
    channel_creds: list(some({ type: fc.constantFrom('tls', 'insecure', 'x'), config: odd })),
    server_features: list(odd),
  });
  const bootstrapOf = some({
    node: odd,
    admin: odd,
    config_sources: list(source),
    default_config_source: source,
    dynamic_resources: some({
      ads_config: api,
      cds_config: source,
      lds_config: source,
      lds_resources_locator: name,
    }),
    static_resources: some({ clusters: list(cluster), listeners: odd }),
    xds_servers: list(server),
    authorities: some({ a: some({ xds_servers: list(server) }), b: odd }),
  });
  fc.assert(
    fc.property(bootstrapOf, (value) => {
      const read = importBootstrap(Buffer.from(JSON.stringify(value)), 'f', 'f');
      if (read.ok) parse(read.yaml);
      const clusters = fieldAt(value, 'static_resources', 'clusters');
      parseAuthorityMap(JSON.stringify({ sources: {}, clusters }), { file: 'f' });
    }),
    { numRuns: 500 },
  );
  t.end();
});
