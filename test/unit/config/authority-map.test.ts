/**
 * Goal: valid files give the documented model, with mistakes reported at their place.
 * Method: whole files in, frozen model or formatted problems out.
 */
import t from 'tap';
import { loadAuthorityMap, parseAuthorityMap } from '../../../config/authority-map.js';
import type { MapFiles } from '../../../config/map-files.js';
import { DEFAULT_FAILOVER, DEFAULT_PROTOCOL, DEFAULT_TIMERS } from '../../../config/defaults.js';
import type { AuthorityMap } from '../../../config/model.js';
import { formatProblem } from '../../../config/problems.js';

const FILES: MapFiles = {
  at: (path) => {
    if (path.includes('missing')) return { words: 'there is no such file', isMissing: true };
    return ['/etc', '/etc/ids', '/etc/i'].includes(path) ? 'directory' : 'file';
  },
  wrongContent: 'problem',
  nowMs: 0,
};
const FILE = '/etc/map.yaml';

function parse(text: string): ReturnType<typeof parseAuthorityMap> {
  return parseAuthorityMap(text, { file: FILE, files: FILES });
}

function mapOf(text: string): AuthorityMap {
  const result = parse(text);
  if (!result.ok) throw new Error(result.problems.map(formatProblem).join('\n'));
  return result.map;
}

const GRPC_DEFAULTS = {
  ...DEFAULT_PROTOCOL,
  initialMetadata: [],
  channelArgs: {},
  maxReceiveBytes: 16_777_216,
  timers: DEFAULT_TIMERS,
};

t.test('the short form of a source uses TLS unless insecure: true is written', (t) => {
  const map = mapOf(`
sources:
  a: { target: "a.example.com:443" }
  b: { target: "127.0.0.1:1", insecure: true, rate_limit: {}, max_receive: 1MiB, timers: { linger: 0s, short_stream_limit: 5 } }
  c: { target: "c:1", tls: { ca: ca.pem, cert: /abs/c.pem, key: k.pem, sans: ["spiffe://x"], server_name: n } }
  d: { path: ./resources, watched_directory: . }
authorities: { "": { sources: [a, b, c, d] } }
`);
  t.strictSame(
    [...map.sources.values()],
    [
      {
        kind: 'grpc',
        name: 'a',
        target: 'a.example.com:443',
        tls: { requiredSans: [] },
        ...GRPC_DEFAULTS,
      },
      {
        ...GRPC_DEFAULTS,
        kind: 'grpc',
        name: 'b',
        target: '127.0.0.1:1',
        tls: null,
        rateLimit: { maxTokens: 100, fillRatePerSecond: 10 },
        maxReceiveBytes: 1_048_576,
        timers: { ...DEFAULT_TIMERS, lingerMs: 0, shortStreamLimit: 5 },
      },
      {
        ...GRPC_DEFAULTS,
        kind: 'grpc',
        name: 'c',
        target: 'c:1',
        tls: {
          rootCertsFile: '/etc/ca.pem',
          certChainFile: '/abs/c.pem',
          privateKeyFile: '/etc/k.pem',
          requiredSans: ['spiffe://x'],
          serverName: 'n',
        },
      },
      { kind: 'path', name: 'd', path: '/etc/resources', watchedDirectory: '/etc' },
    ],
  );
  t.strictSame(map.authorities.get('')?.sources, ['a', 'b', 'c', 'd']);
  t.end();
});

const CONFIG_SOURCE = {
  resource_api_version: 'V3',
  initial_fetch_timeout: '5s',
  api_config_source: {
    api_type: 'AGGREGATED_DELTA_GRPC',
    transport_api_version: 'V3',
    set_node_on_first_message_only: true,
    rate_limit_settings: { max_tokens: 7, fill_rate: 0.5 },
    grpc_services: [
      {
        google_grpc: {
          target_uri: 'cloud.example.com:443',
          stat_prefix: 'x',
          channel_credentials: { ssl_credentials: { root_certs: { filename: 'ca.pem' } } },
          channel_args: { args: { 'grpc.a': { int_value: '5' }, 'grpc.b': { string_value: 'z' } } },
        },
        initial_metadata: [
          { key: 'Authorization', value_file: 'token' },
          { key: 'x', value: '1' },
        ],
      },
    ],
  },
};

function camelCased(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(camelCased);
  if (typeof value !== 'object' || value === null) return value;
  const rename = (key: string): string =>
    key === 'value_file' || key.includes('.')
      ? key
      : key.replace(/_([a-z])/g, (_, c: string) => c.toUpperCase());
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => [rename(key), camelCased(part)]),
  );
}

t.test(
  'a pasted Envoy ConfigSource reads the same in snake_case and in lowerCamelCase (proto3 JSON)',
  (t) => {
    const read = (config: unknown): unknown =>
      mapOf(
        JSON.stringify({
          sources: { s: { config_source: config } },
          authorities: { a: { sources: ['s'] } },
        }),
      ).sources.get('s');
    t.strictSame(read(CONFIG_SOURCE), {
      ...DEFAULT_PROTOCOL,
      kind: 'grpc',
      name: 's',
      target: 'cloud.example.com:443',
      tls: { rootCertsFile: '/etc/ca.pem', requiredSans: [] },
      initialMetadata: [
        { key: 'authorization', valueFile: '/etc/token' },
        { key: 'x', value: '1' },
      ],
      channelArgs: { 'grpc.a': 5, 'grpc.b': 'z' },
      rateLimit: { maxTokens: 7, fillRatePerSecond: 0.5 },
      maxReceiveBytes: 16_777_216,
      timers: { ...DEFAULT_TIMERS, resourceTimeoutMs: 5_000 },
    });
    t.strictSame(read(camelCased(CONFIG_SOURCE)), read(CONFIG_SOURCE));
    t.end();
  },
);

t.test(
  'TP1 form: ConfigSources that list authorities come after the sources of the entry, in file order',
  (t) => {
    const map = mapOf(`
config_sources:
  - { authorities: [{ name: a }], path_config_source: { path: ./one, watched_directory: { path: . } } }
  - { name: two, authorities: [{ name: a }, { name: b }], path: ./two }
sources: { s: { path: ./s } }
authorities: { a: { sources: [s] } }
`);
    t.strictSame(map.authorities.get('a')?.sources, ['s', 'config_sources[0]', 'two']);
    t.strictSame(map.authorities.get('b'), {
      name: 'b',
      sources: ['two'],
      alternatives: [],
      failover: DEFAULT_FAILOVER,
      ignoreDeletion: false,
    });
    t.strictSame(map.sources.get('config_sources[0]'), {
      kind: 'path',
      name: 'config_sources[0]',
      path: '/etc/one',
      watchedDirectory: '/etc',
    });
    t.end();
  },
);

t.test(
  'envoy_grpc takes its addresses from clusters; initial_fetch_timeout 0s waits forever, as in Envoy',
  (t) => {
    const map = mapOf(`
sources:
  s:
    config_source:
      initial_fetch_timeout: 0s
      api_config_source:
        api_type: 6
        grpc_services: [{ envoy_grpc: { cluster_name: x, authority: auth } }]
authorities: { a: { sources: [s] } }
clusters: { x: { endpoints: ["10.0.0.1:1", "10.0.0.2:1"], insecure: true } }
`);
    t.match(map.sources.get('s'), {
      target: 'ipv4:10.0.0.1:1,10.0.0.2:1',
      tls: null,
      channelArgs: { 'grpc.default_authority': 'auth' },
      timers: { resourceTimeoutMs: 2_147_483_647 },
    });
    t.end();
  },
);

t.test('alternatives are prefixes, and failover has defaults', (t) => {
  const map = mapOf(`
sources: { s: { path: ./s }, r: { path: ./r } }
authorities:
  a:
    sources: [s]
    alternative: b
    alternatives: [{ match: "edge/*", authority: b, path: "dc1/edge/*" }, { match: "x/y/*", authority: b }]
    failover: { use_alternative_when: { stale_after: 5m }, hold: 10s, unavailable_after: 4s, deletion_guard: { share: 0.1 } }
    ignore_deletion: true
  b: { sources: [r] }
`);
  t.strictSame(map.authorities.get('a'), {
    name: 'a',
    sources: ['s'],
    alternatives: [
      { authority: 'b', fromPrefix: '', toPrefix: '' },
      { authority: 'b', fromPrefix: 'edge/', toPrefix: 'dc1/edge/' },
      { authority: 'b', fromPrefix: 'x/y/', toPrefix: 'x/y/' },
    ],
    failover: {
      ...DEFAULT_FAILOVER,
      useAlternativeWhen: { kind: 'stale_after', staleAfterMs: 300_000 },
      holdMs: 10_000,
      unavailableAfterMs: 4_000,
      deletionGuard: { ...DEFAULT_FAILOVER.deletionGuard, share: 0.1 },
    },
    ignoreDeletion: true,
  });
  t.end();
});

t.test('may_lead_to lists authorities of the map; * means all of them', (t) => {
  const read = (list: string): unknown =>
    mapOf(`
sources: { s: { path: ./s } }
authorities: { a: { sources: [s], may_lead_to: ${list} }, b: { sources: [s] } }
`).authorities.get('a')?.mayLeadTo;
  t.strictSame(read('[b]'), ['b']);
  t.strictSame(read('["*"]'), ['a', 'b']);
  t.equal(read('[]'), undefined);
  t.throws(() => read('[bb]'), /may_lead_to\[0\]: unknown authority "bb"/);
  t.end();
});

t.test('the map is deeply frozen', (t) => {
  const map = mapOf('sources: { s: { target: "a:1" } }\nauthorities: { a: { sources: [s] } }');
  const source = map.sources.get('s');
  t.ok(Object.isFrozen(map));
  t.ok(Object.isFrozen(source) && source?.kind === 'grpc' && Object.isFrozen(source.timers));
  t.ok(Object.isFrozen(map.authorities.get('a')?.failover.deletionGuard));
  t.end();
});

t.test('a file is loaded from disk, and files that it names must exist', (t) => {
  const directory = t.testdir({
    'map.yaml': 'sources: { s: { path: ./here } }\nauthorities: { a: { sources: [s] } }',
    'bad.yaml': 'sources: { s: { path: ./gone } }\nauthorities: { a: { sources: [s] } }',
    here: {},
  });
  const good = loadAuthorityMap(`${directory}/map.yaml`);
  t.strictSame(good.ok && good.map.sources.get('s'), {
    kind: 'path',
    name: 's',
    path: `${directory}/here`,
  });
  t.match(loadAuthorityMap(`${directory}/bad.yaml`), {
    ok: false,
    problems: [{ line: 1, column: 23, message: `no file or directory at ${directory}/gone` }],
  });
  t.match(loadAuthorityMap(`${directory}/none.yaml`), {
    ok: false,
    problems: [{ message: 'cannot be read: there is no such file' }],
  });
  t.end();
});

t.test('a ConfigSource is plaintext only with insecure: true beside it', (t) => {
  const read = (entry: string, credentials: string): unknown =>
    mapOf(`
sources:
  s: { ${entry} config_source: { api_config_source: { api_type: 6, grpc_services: [{ google_grpc: { target_uri: "a:1" ${credentials} } }] } } }
authorities: { a: { sources: [s] } }
`).sources.get('s');
  t.match(read('insecure: true,', ''), { tls: null });
  t.match(read('insecure: true,', ', channel_credentials: { local_credentials: {} }'), {
    tls: null,
  });
  t.match(read('', ', channel_credentials: { ssl_credentials: {} }'), {
    tls: { requiredSans: [] },
  });
  t.throws(() => read('', ''), /mean plaintext/);
  t.throws(() => read('', ', channel_credentials: { local_credentials: {} }'), /mean plaintext/);
  t.throws(
    () => read('insecure: true,', ', channel_credentials: { ssl_credentials: {} }'),
    /contradicts plaintext/,
  );
  t.end();
});

t.test('old-style names: entries in order, with the defaults of an authority', (t) => {
  const text = `
sources:
  s: { path: . }
  r:
    target: r:1
    insecure: true
    node:
      id: n
      dynamic_parameters: { type.googleapis.com/a.B: { params: { stage: test } }, other: {} }
old_style_names:
  served_by:
    - { sources: [s, r], types: [a.B, x.y/c.D], failover: { hold: 3s } }
    - { sources: [r], ignore_deletion: true }
`;
  const result = parseAuthorityMap(text, { file: '/etc/map.yaml' });
  if (!result.ok) throw new Error(result.problems.map(formatProblem).join('\n'));
  const { oldStyle, sources } = result.map;
  t.match(sources.get('r'), {
    node: { dynamicParameters: { 'type.googleapis.com/a.B': { stage: 'test' }, other: {} } },
  });
  t.strictSame(oldStyle, {
    differBy: ['id', 'cluster'],
    servedBy: [
      {
        name: 'old-style/0',
        sources: ['s', 'r'],
        alternatives: [],
        failover: { ...DEFAULT_FAILOVER, holdMs: 3_000 },
        ignoreDeletion: false,
        types: ['type.googleapis.com/a.B', 'x.y/c.D'],
      },
      {
        name: 'old-style/1',
        sources: ['r'],
        alternatives: [],
        failover: DEFAULT_FAILOVER,
        ignoreDeletion: true,
        types: undefined,
      },
    ],
  });
  const differing = (list: string): unknown => {
    const read = parseAuthorityMap(
      `sources: { s: { path: . } }\nold_style_names: { differ_by: ${list}, served_by: [{ sources: [s] }] }`,
      { file: '/etc/map.yaml' },
    );
    return read.ok && read.map.oldStyle?.differBy;
  };
  t.strictSame(differing('[]'), []);
  t.strictSame(differing('[locality, metadata.team.x]'), ['locality', 'metadata.team.x']);
  t.end();
});

t.test('a source is written with any api_type of a ConfigSource, in the short form too', (t) => {
  const map = mapOf(`
clusters: { plain: { endpoints: ["10.0.0.1:80"], insecure: true } }
sources:
  a: { target: "a:1", insecure: true, api_type: AGGREGATED_GRPC }
  b: { target: "b:1", insecure: true, api_type: 3, resume: fresh, dynamic_parameters: forward }
  c: { target: "c:1", insecure: true, api_type: REST, refresh_delay: 1s }
  d:
    config_source:
      api_config_source:
        { api_type: REST, cluster_names: [plain], refresh_delay: 2s, request_timeout: 500ms }
  e:
    config_source: { api_config_source: { api_type: GRPC, grpc_services: [{ envoy_grpc: { cluster_name: plain } }] } }
authorities: { x: { sources: [a, b, c, d, e] } }
`);
  t.match(
    [...map.sources.values()],
    [
      {
        apiType: 'AGGREGATED_GRPC',
        resume: 'trusted',
        rest: undefined,
        dynamicParameters: undefined,
      },
      { apiType: 'DELTA_GRPC', resume: 'fresh', dynamicParameters: 'forward' },
      { apiType: 'REST', rest: { refreshDelayMs: 1_000, requestTimeoutMs: 5_000 } },
      {
        apiType: 'REST',
        target: '10.0.0.1:80',
        tls: null,
        rest: { refreshDelayMs: 2_000, requestTimeoutMs: 500 },
      },
      { apiType: 'GRPC', target: '10.0.0.1:80' },
    ],
  );
  t.end();
});
