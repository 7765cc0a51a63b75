/**
 * Goal: resources of the whole Envoy API convert from JSON to bytes and back, and dumps contain no
 * secret.
 */
import { BinaryWriter } from '@bufbuild/protobuf/wire';
import t from 'tap';
import { resourceFromJson, redactedJson } from '../../../protos/json-resources.js';
import { TYPE_URL } from '../../../protos/type-urls.js';

const PREFIX = 'type.googleapis.com/';

const LISTENER = {
  '@type': TYPE_URL.listener,
  name: 'l',
  api_listener: {
    api_listener: {
      '@type': `${PREFIX}envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager`,
      stat_prefix: 'x',
      rds: { config_source: { ads: {} }, route_config_name: 'r' },
      http_filters: [
        {
          name: 'rbac',
          typed_config: {
            '@type': `${PREFIX}envoy.extensions.filters.http.rbac.v3.RBAC`,
            rules: {
              policies: {
                p: {
                  permissions: [{ any: true }],
                  principals: [{ any: true }],
                  condition: { const_expr: { bool_value: true } },
                },
              },
            },
          },
        },
        {
          name: 'router',
          typed_config: { '@type': `${PREFIX}envoy.extensions.filters.http.router.v3.Router` },
        },
      ],
    },
  },
};

function bytesOf(json: unknown): {
  readonly typeUrl: string;
  readonly body: Uint8Array;
  readonly name: string;
} {
  const result = resourceFromJson(json);
  if (!result.ok) throw new Error(`${result.path.join('.')}: ${result.message}`);
  return result;
}

t.test('a listener with nested Any messages converts to bytes and back', (t) => {
  const { typeUrl, name, body } = bytesOf(LISTENER);
  t.equal(typeUrl, TYPE_URL.listener);
  t.equal(name, 'l');
  t.strictSame(redactedJson(typeUrl, body), LISTENER);
  t.end();
});

t.test('the bytes are the message: field 1 of a ClusterLoadAssignment is its name', (t) => {
  const { name, body } = bytesOf({ '@type': TYPE_URL.clusterLoadAssignment, clusterName: 'ab' });
  t.equal(name, 'ab');
  t.equal(Buffer.from(body).toString('hex'), '0a026162');
  t.end();
});

t.test('every type that clients subscribe by name is built in, and its own name is found', (t) => {
  const names: Readonly<Record<string, string>> = {
    'envoy.config.cluster.v3.Cluster': 'name',
    'envoy.config.endpoint.v3.ClusterLoadAssignment': 'cluster_name',
    'envoy.config.listener.v3.Listener': 'name',
    'envoy.config.route.v3.RouteConfiguration': 'name',
    'envoy.config.route.v3.ScopedRouteConfiguration': 'name',
    'envoy.config.route.v3.VirtualHost': 'name',
    'envoy.extensions.transport_sockets.tls.v3.Secret': 'name',
    'envoy.service.runtime.v3.Runtime': 'name',
    'envoy.config.core.v3.TypedExtensionConfig': 'name',
  };
  for (const [type, field] of Object.entries(names)) {
    t.equal(bytesOf({ '@type': PREFIX + type, [field]: 'n' }).name, 'n', type);
  }
  for (const type of [
    'xds.core.v3.ResourceLocator',
    'envoy.config.listener.v3.ListenerCollection',
    'udpa.type.v1.TypedStruct',
  ]) {
    t.equal(bytesOf({ '@type': PREFIX + type }).name, '', type);
  }
  t.end();
});

const FAULTS: readonly (readonly [unknown, readonly (string | number)[], RegExp])[] = [
  [5, [], /must be an object/],
  [[], [], /must be an object/],
  [{ name: 'x' }, [], /has no "@type"/],
  [{ '@type': 'x/envoy.api.v2.Cluster' }, ['@type'], /not a type of the built-in Envoy API \(v3\)/],
  [{ '@type': TYPE_URL.cluster, nme: 'x' }, ['nme'], /Cluster has no such field/],
  [{ '@type': TYPE_URL.cluster, name: 5 }, ['name'], /expected string/],
  [
    { '@type': TYPE_URL.cluster, type: 'EDSS' },
    ['type'],
    /must be one of STATIC, STRICT_DNS, LOGICAL_DNS, EDS/,
  ],
  [{ '@type': TYPE_URL.cluster, connect_timeout: '5' }, ['connect_timeout'], /Duration/],
  [
    {
      '@type': TYPE_URL.cluster,
      typed_extension_protocol_options: {
        a: { '@type': `${PREFIX}google.protobuf.Empty` },
        b: { '@type': 'x/y.Z' },
      },
    },
    ['typed_extension_protocol_options', 'b', '@type'],
    /not a type/,
  ],
  [
    {
      '@type': TYPE_URL.clusterLoadAssignment,
      endpoints: [{}, { lb_endpoints: [{ endpoint: { address: { pipe: { path: 1 } } } }] }],
    },
    ['endpoints', 1, 'lb_endpoints', 0, 'endpoint', 'address', 'pipe', 'path'],
    /expected string/,
  ],
];

for (const [json, path, message] of FAULTS) {
  t.test(`a mistake is found: ${JSON.stringify(json)}`, (t) => {
    const result = resourceFromJson(json);
    t.match(result, { ok: false, message });
    t.strictSame(result.ok ? undefined : result.path, path);
    t.end();
  });
}

t.test('13: a Secret shows its name only', (t) => {
  const { typeUrl, body } = bytesOf({
    '@type': TYPE_URL.secret,
    name: 's',
    tls_certificate: { private_key: { inline_string: 'KEY' } },
  });
  t.strictSame(redactedJson(typeUrl, body), {
    '@type': TYPE_URL.secret,
    name: 's',
    redacted: true,
  });
  t.end();
});

t.test(
  '13: sensitive fields inside other resources are redacted, as in the dumps of Envoy',
  (t) => {
    const tls = {
      '@type': `${PREFIX}envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext`,
      common_tls_context: {
        tls_certificates: [
          {
            certificate_chain: { filename: 'c' },
            private_key: { inline_string: 'KEY' },
            password: { inline_bytes: 'S0VZ' },
          },
        ],
      },
    };
    const cluster = {
      '@type': TYPE_URL.cluster,
      name: 'c',
      transport_socket: { name: 'tls', typed_config: tls },
    };
    const { typeUrl, body } = bytesOf(cluster);
    t.ok(Buffer.from(body).includes('KEY'));
    const shown = JSON.stringify(redactedJson(typeUrl, body));
    t.notMatch(shown, /KEY|S0VZ/);
    t.match(shown, '"private_key":{"inline_string":"[redacted]"}');
    t.match(shown, '"certificate_chain":{"filename":"c"}');
    t.end();
  },
);

t.test(
  'an unknown type, outside or inside, and an unreadable body are reported by type and size',
  (t) => {
    t.strictSame(redactedJson('x/y.Z', new Uint8Array(3)), {
      '@type': 'x/y.Z',
      bytes: 3,
      error: 'unknown type',
    });
    t.match(redactedJson(TYPE_URL.cluster, new Uint8Array([255])), {
      '@type': TYPE_URL.cluster,
      bytes: 1,
      error: String,
    });
    // Cluster { transport_socket (24): TransportSocket { name: "a", typed_config (3): Any { type_url: "x/y.Z", value: 1 byte } } }
    const any = Buffer.concat([
      Buffer.from('0a05', 'hex'),
      Buffer.from('x/y.Z'),
      Buffer.from('120107', 'hex'),
    ]);
    const socket = Buffer.concat([Buffer.from('0a01611a', 'hex'), Buffer.from([any.length]), any]);
    const cluster = Buffer.concat([
      Buffer.from('c201', 'hex'),
      Buffer.from([socket.length]),
      socket,
    ]);
    t.strictSame(redactedJson(TYPE_URL.cluster, cluster), {
      '@type': TYPE_URL.cluster,
      transport_socket: {
        name: 'a',
        typed_config: {
          '@type': `${PREFIX}google.protobuf.Struct`,
          value: { type: 'x/y.Z', bytes: 1, error: 'unknown type' },
        },
      },
    });
    t.end();
  },
);

t.test('an unknown type two levels down hides only itself', (t) => {
  const filter = { name: 'f', typed_config: { '@type': `${PREFIX}google.protobuf.Empty` } };
  const listener = structuredClone(LISTENER);
  listener.api_listener.api_listener.http_filters = [filter];
  const { typeUrl, body } = bytesOf(listener);
  // The same length, so that no length prefix changes.
  const altered = Buffer.from(
    Buffer.from(body).toString('latin1').replace('protobuf.Empty', 'protobuf.Emptx'),
    'latin1',
  );
  const shown = JSON.stringify(redactedJson(typeUrl, altered));
  t.match(shown, '"route_config_name":"r"');
  t.match(shown, `{"type":"${PREFIX}google.protobuf.Emptx","bytes":0,"error":"unknown type"}`);
  t.end();
});

/** A cluster with so many nested Any messages. */
function nestedCluster(count: number): Uint8Array {
  const any = (type: string, value: Uint8Array): Uint8Array =>
    new BinaryWriter().uint32(10).string(type).uint32(18).bytes(value).finish();
  let inner = any(`${PREFIX}google.protobuf.Empty`, Buffer.of());
  for (let at = 1; at < count; at++) inner = any(`${PREFIX}google.protobuf.Any`, inner);
  // Cluster.typed_extension_protocol_options = 36, a map.
  const entry = new BinaryWriter().uint32(10).string('k').uint32(18).bytes(inner).finish();
  return new BinaryWriter()
    .uint32((36 << 3) | 2)
    .bytes(entry)
    .finish();
}

t.test('of more than 200 nested messages, the innermost are hidden', (t) => {
  const count = (shown: unknown): number => JSON.stringify(shown).split('"@type"').length - 2;
  const few = redactedJson(TYPE_URL.cluster, nestedCluster(90));
  t.equal(count(few), 90);
  t.notMatch(JSON.stringify(few), 'error');
  const many = redactedJson(TYPE_URL.cluster, nestedCluster(10_000));
  t.ok(count(many) <= 201);
  t.match(JSON.stringify(many), '"error":"more than 200 messages are nested in one another"');
  t.end();
});
