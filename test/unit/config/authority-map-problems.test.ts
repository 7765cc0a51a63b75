/**
 * Goal: every mistake in an authority map is reported at its place, with a correction.
 * Method: a table of small bad files and their formatted problems.
 */
import fc from 'fast-check';
import t from 'tap';
import { parseAuthorityMap } from '../../../config/authority-map.js';
import type { MapFiles } from '../../../config/map-files.js';
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

function resultOf(text: string): ReturnType<typeof parseAuthorityMap> {
  return parseAuthorityMap(text, { file: FILE, files: FILES });
}

function problemsOf(text: string): readonly string[] {
  const result = resultOf(text);
  const problems = result.ok ? [] : result.problems;
  return problems.map((problem) => formatProblem(problem).replace(`${FILE}:`, ''));
}

function warningsOf(text: string): readonly string[] {
  const result = resultOf(text);
  if (!result.ok) throw new Error(result.problems.map(formatProblem).join('\n'));
  return result.warnings.map((problem) => formatProblem(problem).replace(`${FILE}:`, ''));
}

/** A file around one source, which starts at line 2, column 6. */
function withSource(source: string): string {
  return `sources:\n  s: ${source}\nauthorities: { a: { sources: [s] } }\n`;
}

function withService(service: string): string {
  return withSource(
    `{ config_source: { api_config_source: { api_type: AGGREGATED_DELTA_GRPC, grpc_services: [${service}] } } }`,
  );
}

/** A file around one authority, which starts at line 3, column 6. */
function withAuthority(authority: string): string {
  return `sources: { s: { path: . }, r: { path: . } }\nauthorities:\n  a: ${authority}\n  b: { sources: [r] }\n`;
}

const API = 'sources.s.config_source.api_config_source';

const BAD_FILES: readonly (readonly [string, readonly string[]])[] = [
  ['', ['1:1: the file is empty (write at least sources and authorities)']],
  ['[1]', ['1:1: must be a map, not a list']],
  [
    'a: [',
    ['1:5: Flow sequence in block collection must be sufficiently indented and end with a ]'],
  ],
  ['sources: {}', ['1:1: has no authorities (write authorities: { name: { sources: [...] } })']],
  [`${withSource('{ path: . }')}---\nx: 1\n`, ['5:1: unexpected second document (keep one)']],
  [
    'sources: { s: { path: . }, s: { path: . } }\nauthorities: { a: { sources: [s] } }',
    ['1:28: sources.s: duplicate key (keep one)'],
  ],
  [
    `sorces: {}\n${withSource('{ path: . }')}`,
    ['1:1: sorces: unknown key (did you mean "sources"?)'],
  ],
  [
    withSource('{}'),
    ['2:3: sources.s: has none of config_source, target, path (write exactly one)'],
  ],
  [
    withSource('{ path: ., target: "a:1" }'),
    ['2:3: sources.s: has more than one of config_source, target, path (write exactly one)'],
  ],
  [
    withSource('{ path: ., insecure: true }'),
    ['2:17: sources.s.insecure: is not allowed with path (leave it out)'],
  ],
  [
    withSource('{ path: ./missing }'),
    [
      '2:14: sources.s.path: no file or directory at /etc/missing (paths are relative to the authority map file)',
    ],
  ],
  [
    withSource('{ target: "https://a:1/x" }'),
    ['2:16: sources.s.target: is a URL, not a gRPC target (write "a:1")'],
  ],
  [withSource('{ target: 5 }'), ['2:16: sources.s.target: must be text, not 5']],
  [
    withSource('{ target: "a:1", insecure: true, tls: { ca: /missing.pem, key: k } }'),
    ['2:39: sources.s.tls: contradicts insecure: true (keep tls or insecure: true)'],
  ],
  [
    withSource('{ target: "a:1", tls: { ca: /missing.pem, key: k } }'),
    ['2:34: sources.s.tls.ca: no file at /missing.pem', '2:48: sources.s.tls.key: needs cert too'],
  ],
  [
    withSource(
      '{ target: "a:1", timers: { probe_intervall: 1s, linger: 30, min_stable: -1s, probe_timeout: 0s, backoff_max: 1x } }',
    ),
    [
      '2:33: sources.s.timers.probe_intervall: unknown key (did you mean "probe_interval"?)',
      '2:62: sources.s.timers.linger: 30 has no unit (write "30s" or "30ms")',
      '2:78: sources.s.timers.min_stable: "-1s" is negative',
      '2:98: sources.s.timers.probe_timeout: must be more than zero',
      '2:115: sources.s.timers.backoff_max: "1x" is not a duration (write a number and a unit: ms, s, m, h or d, such as "30s")',
    ],
  ],
  [
    withSource('{ target: "a:1", timers: { linger: 25d } }'),
    [
      '2:41: sources.s.timers.linger: "25d" is longer than the longest timer, 24.8 days (write at most "24d")',
    ],
  ],
  [
    withSource('{ target: "a:1", timers: { backoff_max: 100ms } }'),
    ['2:46: sources.s.timers.backoff_max: backoff_max is less than backoff_base'],
  ],
  [
    withSource(
      '{ target: "a:1", initial_metadata: [{ key: "a b", value: x }, { key: c }, { key: d, value_file: missing }] }',
    ),
    [
      '2:49: sources.s.initial_metadata[0].key: "a b" is not a header name that gRPC allows',
      '2:68: sources.s.initial_metadata[1]: must have exactly one of value and value_file',
      '2:102: sources.s.initial_metadata[2].value_file: no file at /etc/missing (paths are relative to the authority map file)',
    ],
  ],
  [
    withSource('{ config_source: { ads: {} } }'),
    [
      '2:25: sources.s.config_source.ads: ads is not supported yet (write api_config_source with the address of the ADS server)',
    ],
  ],
  [
    withSource('{ config_source: {} }'),
    ['2:8: sources.s.config_source: has no source (write api_config_source or path_config_source)'],
  ],
  [
    withSource(
      '{ config_source: { api_config_source: { api_type: GRPC, cluster_names: [x], grpc_services: [{ google_grpc: { target_uri: "a:1" } }] } } }',
    ),
    [
      `2:62: ${API}.cluster_names: is for REST (leave it out)`,
      `2:100: ${API}.grpc_services[0].google_grpc: missing channel_credentials mean plaintext (write ssl_credentials, or insecure: true in the source to allow plaintext)`,
    ],
  ],
  [
    withSource(
      '{ config_source: { api_config_source: { api_type: REST, refresh_delay: 0s, grpc_services: [{ google_grpc: { target_uri: "a:1" } }] } } }',
    ),
    [
      `2:25: ${API}: has no cluster_names`,
      `2:77: ${API}.refresh_delay: must be more than zero`,
      `2:81: ${API}.grpc_services: is for gRPC (write cluster_names)`,
    ],
  ],
  [
    withSource('{ target: "a:1", insecure: true, api_type: GRPCC, refresh_delay: 1s }'),
    [
      '2:49: sources.s.api_type: unknown api_type GRPCC (did you mean "GRPC"?)',
      '2:56: sources.s.refresh_delay: is for REST (write api_type: REST, or leave it out)',
    ],
  ],
  [
    withSource('{ target: "a:1", insecure: true, api_type: GRPC, resume: fresh }'),
    ['2:55: sources.s.resume: has no effect with GRPC (leave it out)'],
  ],
  [
    withSource('{ target: "a:1", insecure: true, api_type: REST, dynamic_parameters: forward }'),
    ['2:55: sources.s.dynamic_parameters: has no effect with REST (leave it out)'],
  ],
  [
    withSource(
      '{ config_source: { api_config_source: { apiType: AGREGATED_DELTA_GRPC, transport_api_version: V2 } } }',
    ),
    [
      `2:25: ${API}: has no grpc_services`,
      `2:55: ${API}.apiType: unknown api_type AGREGATED_DELTA_GRPC (did you mean "AGGREGATED_DELTA_GRPC"?)`,
      `2:100: ${API}.transport_api_version: must be one of V3, AUTO, not "V2" (did you mean "V3"?)`,
    ],
  ],
  [
    withService('{ envoy_grpc: { cluster_name: x } }, { envoy_grpc: { cluster_name: x } }'),
    [
      `2:125: ${API}.grpc_services[0].envoy_grpc.cluster_name: unknown cluster "x" (write its addresses in a section "clusters")`,
      `2:132: ${API}.grpc_services[1]: several grpc_services are not supported yet (write one source per service and list them in order of preference under sources)`,
    ],
  ],
  [
    withService(
      '{ google_grpc: { target_uri: "a:1", targetUri: "a:1", channel_credentials: { google_default: {} } } }',
    ),
    [
      `2:131: ${API}.grpc_services[0].google_grpc.targetUri: is the same field as target_uri (keep one)`,
    ],
  ],
  [
    withService(
      '{ google_grpc: { target_uri: "a:1", call_credentials: [{ access_token: s3cret }, {}, { from_plugin: { name: x } }], channel_credentials: { ssl_credentials: { private_key: { inline_string: s3cret } } } } }',
    ),
    [
      `2:152: ${API}.grpc_services[0].google_grpc.call_credentials[0].access_token: access_token is not supported yet (write the token to a file and give access_token_file)`,
      `2:176: ${API}.grpc_services[0].google_grpc.call_credentials[1]: has none of access_token_file, jwt_file, google_default (write exactly one)`,
      `2:203: ${API}.grpc_services[0].google_grpc.call_credentials[2].from_plugin.name: unknown plug-in "x" (write envoy.grpc_credentials.file_based_metadata, access_token_file or jwt_file)`,
      `2:253: ${API}.grpc_services[0].google_grpc.channel_credentials.ssl_credentials.private_key: needs cert_chain too`,
      `2:268: ${API}.grpc_services[0].google_grpc.channel_credentials.ssl_credentials.private_key.inline_string: inline_string is not supported yet (write it to a file and give its filename)`,
    ],
  ],
  [
    withAuthority('{ sources: [z, s, s] }'),
    [
      '3:18: authorities.a.sources[0]: unknown source "z" (known here: "s", "r")',
      '3:24: authorities.a.sources[2]: "s" is listed twice',
    ],
  ],
  [withAuthority('{ sources: [] }'), ['3:17: authorities.a.sources: must not be empty']],
  [withAuthority('{}'), ['3:3: authorities.a: has no sources (write sources: [name of a source])']],
  [
    withAuthority('{ sources: [s], alternative: a }'),
    [
      '3:35: authorities.a.alternative: an authority cannot be its own alternative (write another authority)',
    ],
  ],
  [
    withAuthority('{ sources: [s], alternative: bb }'),
    ['3:35: authorities.a.alternative: unknown authority "bb" (known here: "a", "b")'],
  ],
  [
    withAuthority(
      '{ sources: [s], alternative: b, alternatives: [{ authority: b }, { match: edge, authority: b, path: /x/* }, { match: "a%20b/*", authority: b }] }',
    ),
    [
      '3:53: authorities.a.alternatives[0]: duplicate alternative for "*"',
      '3:80: authorities.a.alternatives[1].match: must be a path prefix that ends with /* (write "edge/*")',
      '3:106: authorities.a.alternatives[1].path: must be a path prefix that ends with /* (write "x/*")',
      '3:123: authorities.a.alternatives[2].match: must be written without percent-escapes (write "a b/*")',
    ],
  ],
  [
    withAuthority(
      '{ sources: [s, r], failover: { use_alternative_when: { stale: 5m }, hold: 0s, prewarm: of, unavailable_after: 0s, deletion_guard: { share: 2, count: 0.5 } } }',
    ),
    [
      '3:37: authorities.a.failover.use_alternative_when: has no stale_after',
      '3:61: authorities.a.failover.use_alternative_when.stale: unknown key (known here: "stale_after")',
      '3:80: authorities.a.failover.hold: must be more than zero',
      '3:93: authorities.a.failover.prewarm: must be one of off, connected, subscribed, not "of" (did you mean "off"?)',
      '3:116: authorities.a.failover.unavailable_after: must be more than zero',
      '3:145: authorities.a.failover.deletion_guard.share: must be 1 or less, not 2',
      '3:155: authorities.a.failover.deletion_guard.count: must be a whole number, not 0.5',
    ],
  ],
  [
    withAuthority('{ sources: [s, r], failover: { use_alternative_when: unreachble } }'),
    [
      '3:59: authorities.a.failover.use_alternative_when: must be one of unreachable, uncached, not "unreachble" (did you mean "unreachable"?)',
    ],
  ],
  [
    'sources: { s: { path: . } }\nauthorities: { "xdstp://x/": { sources: [s] } }',
    [
      '2:16: authorities."xdstp://x/": is not an authority name: an authority name has no /, ?, # or white space (write "x")',
    ],
  ],
  [
    `${withSource('{ path: . }')}clusters: { x: { endpoints: [a.example.com:1, b.example.com:1] }, y: {} }`,
    [
      '4:29: clusters.x.endpoints: several endpoints must all be IPv4 or all IPv6 addresses with a port (write one source per server and list them in order of preference under sources)',
      '4:67: clusters.y: has no endpoints',
    ],
  ],
  [
    'config_sources: [{ path: . }, { name: s, authorities: [{ name: a }, { name: a }], path: . }]\nsources: { s: { path: . } }',
    [
      '1:18: config_sources[0]: has no authorities (write authorities: [{ name: … }])',
      '1:39: config_sources[1].name: duplicate source "s"',
      '1:77: config_sources[1].authorities[1].name: is listed twice',
    ],
  ],
];

for (const [text, expected] of BAD_FILES) {
  t.test(
    `every mistake is reported at its place, with a correction: ${JSON.stringify(text)}`,
    (t) => {
      t.strictSame(problemsOf(text), expected);
      t.end();
    },
  );
}

t.test('allowed but rarely intended settings are warnings', (t) => {
  t.strictSame(
    warningsOf(`
sources: { s: { path: . }, r: { path: . }, unused: { path: . } }
authorities:
  a: { sources: [s], alternative: b }
  b: { sources: [r], alternative: c }
  c: { sources: [r], failover: { linger: 1s, unavailable_after: 1s, hold: 1s } }
clusters: { x: { endpoints: ["a:1"] } }
`),
    [
      '2:44: sources.unused: no authority uses this source',
      '4:3: authorities.a: the alternative "b" has its own alternative, which the gateway does not use',
      '5:3: authorities.b: the alternative "c" has the same sources, so both fail together',
      '6:69: authorities.c.failover.hold: has no effect: there is one source and no alternative',
      '7:13: clusters.x: no source uses this cluster',
    ],
  );
  t.end();
});

t.test('multiplying aliases are refused, not expanded', (t) => {
  const levels = Array.from(
    { length: 12 },
    (_, i) => `l${i}: &l${i} [${i === 0 ? '1' : `*l${i - 1}`.concat(', ').repeat(9).slice(0, -2)}]`,
  );
  const problems = problemsOf(levels.join('\n'));
  t.match(problems, [/Excessive alias count/]);
  t.end();
});

t.test('endlessly nested brackets are a problem, not an exception', (t) => {
  const words = '1:201: lists and maps are nested more than 200 levels deep';
  t.strictSame(problemsOf('['.repeat(50_000)), [words]);
  t.strictSame(problemsOf('['.repeat(50_000) + ']'.repeat(50_000)), [words]);
  t.end();
});

const WHOLE = {
  sources: {
    s: {
      target: 'a:1',
      insecure: true,
      timers: { linger: '1s' },
      node: { id: 'n', locality: { zone: 'z' } },
    },
    p: { path: '.' },
    c: {
      config_source: {
        initial_fetch_timeout: '1s',
        api_config_source: {
          api_type: 'AGGREGATED_DELTA_GRPC',
          rate_limit_settings: { max_tokens: 1 },
          grpc_services: [
            {
              google_grpc: {
                target_uri: 'a:1',
                channel_credentials: {
                  ssl_credentials: {
                    private_key: { filename: 'k' },
                    cert_chain: { filename: 'c' },
                  },
                },
              },
              initial_metadata: [{ key: 'k', value: 'v' }],
            },
          ],
        },
      },
    },
    e: {
      config_source: {
        api_config_source: {
          api_type: 'AGGREGATED_DELTA_GRPC',
          grpc_services: [{ envoy_grpc: { cluster_name: 'x' } }],
        },
      },
    },
  },
  config_sources: [{ authorities: [{ name: 'a' }], path_config_source: { path: '.' } }],
  authorities: {
    a: {
      sources: ['s', 'p', 'c', 'e'],
      alternative: 'b',
      alternatives: [{ match: 'e/*', authority: 'b', path: 'f/*' }],
      failover: {
        hold: '1s',
        use_alternative_when: { stale_after: '5m' },
        deletion_guard: { share: 1 },
      },
    },
    b: { sources: ['s'] },
  },
  clusters: { x: { endpoints: ['10.0.0.1:1'], tls: { ca: 'ca' } } },
};

/** A copy with one value replaced, chosen by a random walk; `undefined` leaves the key out. */
function mutate(value: unknown, walk: readonly number[], replacement: unknown): unknown {
  const [step, ...rest] = walk;
  if (step === undefined || typeof value !== 'object' || value === null) return replacement;
  const keys = Object.keys(value);
  if (keys.length === 0) return replacement;
  const chosen = keys[step % keys.length] ?? '';
  const copy: Record<string, unknown> = { ...value };
  copy[chosen] = mutate(copy[chosen], rest, replacement);
  return Array.isArray(value) ? Object.values(copy) : copy;
}

// Hypothesis: with any one value of a good file replaced, parsing ends with a result, and an
// accepted map contains every source and alternative that it names.
t.test(
  'any one value replaced by anything: never an exception, never a dangling reference',
  (t) => {
    t.strictSame(problemsOf(JSON.stringify(WHOLE)), []);
    const junk = fc.oneof(
      fc.constantFrom(
        undefined,
        null,
        {},
        [],
        '',
        'x',
        '*',
        '0s',
        '-1s',
        0,
        -1,
        1.5,
        true,
        { ads: {} },
        [null],
        [[]],
      ),
      fc.jsonValue(),
    );
    fc.assert(
      fc.property(
        fc.array(fc.nat(20), { minLength: 1, maxLength: 9 }),
        junk,
        (walk, replacement) => {
          const result = resultOf(JSON.stringify(mutate(WHOLE, walk, replacement)));
          if (!result.ok) return result.problems.length > 0;
          const { sources, authorities } = result.map;
          return [...authorities.values()].every(
            (authority) =>
              authority.sources.length > 0 &&
              authority.sources.every((source) => sources.has(source)) &&
              authority.alternatives.every((alternative) => authorities.has(alternative.authority)),
          );
        },
      ),
      { numRuns: 500 },
    );
    t.end();
  },
);
