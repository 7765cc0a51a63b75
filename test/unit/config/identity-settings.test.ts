/**
 * Goal: the settings that pass on the identity of clients give the documented model, and each mistake in
 * them is reported at its place, with a correction.
 */
import t from 'tap';
import { parseAuthorityMap } from '../../../config/authority-map.js';
import type { MapFiles } from '../../../config/map-files.js';
import type { AuthorityMap, GrpcSourceSpec } from '../../../config/model.js';
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
const parse = (text: string): ReturnType<typeof parseAuthorityMap> =>
  parseAuthorityMap(text, { file: FILE, files: FILES });

function mapOf(text: string): AuthorityMap {
  const result = parse(text);
  if (!result.ok) throw new Error(result.problems.map(formatProblem).join('\n'));
  return result.map;
}

const shown = (problems: readonly Parameters<typeof formatProblem>[0][]): readonly string[] =>
  problems.map((problem) => formatProblem(problem).replace(`${FILE}:`, ''));

function problemsOf(text: string): readonly string[] {
  const result = parse(text);
  return result.ok ? [] : shown(result.problems);
}

function warningsOf(text: string): readonly string[] {
  const result = parse(text);
  return result.ok ? shown(result.warnings) : ['not valid', ...shown(result.problems)];
}

/** The source on line 1, and the section of old-style names from line 2. */
const served = (source: string, more = 'served_by: [{ sources: [s] }]'): string =>
  `sources: { s: { target: "s:1", ${source} } }\nold_style_names: { ${more} }\n`;

const OTHERS = [
  'kind',
  'name',
  'target',
  'tls',
  'channelArgs',
  'maxReceiveBytes',
  'timers',
  'apiType',
  'resume',
];

/** The settings of the source that this file is about. */
const sourceOf = (text: string): Partial<GrpcSourceSpec> => {
  const entries = Object.entries(mapOf(text).sources.get('s') ?? {});
  return Object.fromEntries(entries.filter(([key]) => !OTHERS.includes(key)));
};

t.test('the identity settings of a source are in the model, headers in lower case', (t) => {
  t.strictSame(
    sourceOf(
      served(
        'forward_node: all, forward_headers: [Authorization, x-consul-token], client_identity: forward, tls_by_identity: ids, node_in: every_request',
      ),
    ),
    {
      initialMetadata: [],
      forwardNode: 'all',
      forwardHeaders: ['authorization', 'x-consul-token'],
      clientIdentity: 'forward',
      tlsByIdentity: '/etc/ids',
      nodeIn: 'every_request',
    },
  );
  t.strictSame(sourceOf(served('forward_node: [id, metadata.a.b]')), {
    initialMetadata: [],
    forwardNode: ['id', 'metadata.a.b'],
  });
  t.strictSame(sourceOf(served('node_in: first_request')), { initialMetadata: [] }, 'the default');
  t.end();
});

t.test('`set_node_on_first_message_only: false` in a ConfigSource means every request', (t) => {
  const config = (written: string, more = ''): string => `
sources:
  s: { ${more} insecure: true, config_source: { api_config_source: { api_type: AGGREGATED_DELTA_GRPC, ${written} grpc_services: [{ google_grpc: { target_uri: "a:1" } }] } } }
authorities: { a: { sources: [s] } }`;
  const nodeIn = (text: string): unknown => sourceOf(text).nodeIn;
  t.equal(nodeIn(config('set_node_on_first_message_only: false,')), 'every_request');
  t.equal(nodeIn(config('setNodeOnFirstMessageOnly: true,')), undefined);
  t.equal(nodeIn(config('')), undefined);
  t.strictSame(
    problemsOf(config('set_node_on_first_message_only: false,', 'node_in: first_request,')),
    ['3:8: sources.s.node_in: contradicts set_node_on_first_message_only (keep one)'],
  );
  t.end();
});

t.test('groups differ by all that sources get of a client', (t) => {
  const ruleOf = (text: string): unknown => mapOf(text).oldStyle?.rule;
  const none = { wholeNode: false, headers: [], certificate: 'none', forward: undefined };
  t.equal(ruleOf(served('')), undefined, 'the fields of differ_by alone');
  t.equal(ruleOf(served('forward_node: [cluster, id]')), undefined, 'the same fields');
  t.strictSame(ruleOf(served('forward_node: [id]')), {
    ...none,
    fields: ['id', 'cluster'],
    forward: ['id'],
  });
  t.strictSame(ruleOf(served('forward_node: all, forward_headers: [b, a]')), {
    ...none,
    fields: ['id', 'cluster'],
    headers: ['a', 'b'],
    forward: 'all',
  });
  t.strictSame(ruleOf(served('', 'differ_by: all, served_by: [{ sources: [s] }]')), {
    ...none,
    fields: [],
    wholeNode: true,
  });
  t.match(ruleOf(served('client_identity: forward')), { certificate: 'whole' });
  t.match(ruleOf(served('tls_by_identity: ids')), { certificate: 'names' });
  t.equal(ruleOf(served('node: { id: n }')), undefined, 'a source with a Node of its own');
  t.end();
});

t.test('`for` is read into conditions, whose fields count for the groups', (t) => {
  const { oldStyle } = mapOf(
    served(
      '',
      'differ_by: [id], served_by: [{ sources: [s], for: { metadata.MESH_ID: prod, cluster: web, locality.sub_zone: z, metadata.n: 1, metadata.b: true } }]',
    ),
  );
  t.strictSame(oldStyle?.servedBy[0]?.when, [
    { field: 'metadata.MESH_ID', equals: 'prod' },
    { field: 'cluster', equals: 'web' },
    { field: 'locality', part: 'subZone', equals: 'z' },
    { field: 'metadata.n', equals: 1 },
    { field: 'metadata.b', equals: true },
  ]);
  t.strictSame(oldStyle?.rule?.fields, [
    'id',
    'metadata.MESH_ID',
    'cluster',
    'locality',
    'metadata.n',
    'metadata.b',
  ]);
  t.strictSame(oldStyle?.rule?.forward, ['id'], 'the conditions add nothing to the Node');
  t.end();
});

t.test('call credentials become headers from files, or Google tokens', (t) => {
  const short = (credentials: string): unknown =>
    sourceOf(served(`call_credentials: ${credentials}`));
  const header = { key: 'authorization', prefix: 'Bearer ' };
  t.strictSame(short('{ access_token_file: t }'), {
    initialMetadata: [{ ...header, valueFile: '/etc/t' }],
  });
  t.strictSame(short('{ jwt_file: t }'), {
    initialMetadata: [{ ...header, valueFile: '/etc/t', isJwt: true }],
  });
  t.strictSame(short('{ google_default: {} }'), { initialMetadata: [], googleDefault: true });
  const google = (more: string): unknown =>
    sourceOf(`
sources:
  s: { config_source: { api_config_source: { api_type: AGGREGATED_DELTA_GRPC, grpc_services: [{ google_grpc: { target_uri: "a:1", ${more} } }] } } }
authorities: { a: { sources: [s] } }`);
  t.strictSame(google('channel_credentials: { google_default: {} }'), {
    initialMetadata: [],
    googleDefault: true,
  });
  t.strictSame(
    google(
      'channelCredentials: { sslCredentials: {} }, callCredentials: [{ googleComputeEngine: {} }, { fromPlugin: { name: envoy.grpc_credentials.file_based_metadata, typedConfig: { "@type": x, secretData: { filename: t }, headerKey: X-Token, headerPrefix: "T " } } }]',
    ),
    {
      initialMetadata: [{ key: 'x-token', valueFile: '/etc/t', prefix: 'T ' }],
      googleDefault: true,
    },
  );
  t.strictSame(
    google(
      'channel_credentials: { ssl_credentials: {} }, call_credentials: [{ from_plugin: { name: envoy.grpc_credentials.file_based_metadata, typed_config: { secret_data: { filename: t } } } }]',
    ),
    { initialMetadata: [{ key: 'authorization', valueFile: '/etc/t' }] },
  );
  t.end();
});

const FORWARD = 'sources.s.forward_headers';
const SHARED =
  'has no client to take it from: only authorities use this source, and all clients share their names (leave it out, or name the source in old_style_names.served_by)';

const BAD: readonly (readonly [title: string, text: string, problems: readonly string[]])[] = [
  [
    'headers that cannot be forwarded',
    served(
      'forward_headers: [x-forwarded-client-cert, te, grpc-timeout, a b, x-bin, a, A, token], initial_metadata: [{ key: token, value: x }]',
    ),
    [
      `1:50: ${FORWARD}[0]: "x-forwarded-client-cert" would let a client claim any certificate (write client_identity: forward, which takes the verified certificate)`,
      `1:75: ${FORWARD}[1]: "te" belongs to the connection, not to the client (leave it out)`,
      `1:79: ${FORWARD}[2]: "grpc-timeout" is not a header name that gRPC allows (leave it out)`,
      `1:93: ${FORWARD}[3]: "a b" is not a header name that gRPC allows (leave it out)`,
      `1:98: ${FORWARD}[4]: "x-bin" is a binary header, which the gateway cannot forward (leave it out)`,
      `1:108: ${FORWARD}[6]: "a" is listed twice`,
      `1:111: ${FORWARD}[7]: the source sends a header token of its own (keep the header of the gateway (initial_metadata, call_credentials) or that of the client)`,
    ],
  ],
  [
    'a token of the gateway and one of the client',
    served('forward_headers: [authorization], call_credentials: { jwt_file: t }'),
    [
      `1:50: ${FORWARD}[0]: the source sends a header authorization of its own (keep the header of the gateway (initial_metadata, call_credentials) or that of the client)`,
    ],
  ],
  [
    'identity for a source of authorities only',
    `sources: { s: { target: "s:1", forward_headers: [a], forward_node: all, client_identity: forward, tls_by_identity: i } }\nauthorities: { a: { sources: [s] } }`,
    [
      `1:32: ${FORWARD}: ${SHARED}`,
      `1:54: sources.s.forward_node: ${SHARED}`,
      `1:73: sources.s.client_identity: ${SHARED}`,
      `1:99: sources.s.tls_by_identity: ${SHARED}`,
    ],
  ],
  [
    'a Node of the source and of the client; certificates without TLS',
    served('node: { id: n }, forward_node: all, insecure: true, tls_by_identity: i'),
    [
      '1:49: sources.s.forward_node: contradicts node (keep node or forward_node)',
      '1:84: sources.s.tls_by_identity: needs TLS (leave out insecure: true)',
    ],
  ],
  [
    'wrong words',
    served(
      'forward_node: [idd, all], client_identity: froward, node_in: any, tls_by_identity: missing',
      'differ_by: al, served_by: [{ sources: [s] }]',
    ),
    [
      '1:47: sources.s.forward_node[0]: "idd" is not a Node field that forward_node supports (did you mean "id"?)',
      '1:52: sources.s.forward_node[1]: "all" is not a Node field that forward_node supports (write all instead of the list)',
      '1:75: sources.s.client_identity: must be one of forward, not "froward" (did you mean "forward"?)',
      '1:93: sources.s.node_in: must be one of first_request, every_request, not "any"',
      '1:115: sources.s.tls_by_identity: no directory at /etc/missing (paths are relative to the authority map file)',
      '2:31: old_style_names.differ_by: "al" is not a list of Node fields (write all, or a list)',
    ],
  ],
  [
    'conditions that no Node can meet',
    served(
      '',
      'served_by: [{ sources: [s], for: {} }, { sources: [s], for: { clustr: a, role: b, id: 1, metadata.x: [] } }]',
    ),
    [
      '2:48: old_style_names.served_by[0].for: must not be empty (leave it out: the entry then applies to every client)',
      '2:82: old_style_names.served_by[1].for.clustr: is not a Node field that for supports (did you mean "cluster"?)',
      '2:93: old_style_names.served_by[1].for.role: is not a Node field that for supports (write id, cluster, locality.region, locality.zone, locality.sub_zone or metadata.<key>)',
      '2:106: old_style_names.served_by[1].for.id: must be text (write "1")',
      '2:121: old_style_names.served_by[1].for."metadata.x": must be text or a number or true or false, not a list',
    ],
  ],
  [
    'identity settings of files',
    `sources: { s: { path: ., forward_headers: [a], node_in: every_request } }\nold_style_names: { served_by: [{ sources: [s] }] }`,
    [
      '1:26: sources.s.forward_headers: is not allowed with path (leave it out)',
      '1:48: sources.s.node_in: is not allowed with path (leave it out)',
    ],
  ],
  [
    'identity settings of files in a ConfigSource',
    `sources: { s: { config_source: { path: . }, forward_headers: [a] } }\nold_style_names: { served_by: [{ sources: [s] }] }`,
    ['1:45: sources.s.forward_headers: is for management servers only (leave it out)'],
  ],
  [
    'call credentials',
    served('insecure: true, call_credentials: { google_default: {} }'),
    ['1:48: sources.s.call_credentials: google_default needs TLS (leave out insecure: true)'],
  ],
  [
    'call credentials of two kinds, and a file that is not there',
    `sources: { s: { target: "s:1", call_credentials: { jwt_file: a, access_token_file: b } }, r: { target: "r:1", call_credentials: { jwt_file: missing } } }\nauthorities: { a: { sources: [s, r] } }`,
    [
      '1:32: sources.s.call_credentials: has more than one of access_token_file, jwt_file, google_default (write exactly one)',
      '1:141: sources.r.call_credentials.jwt_file: no file at /etc/missing (paths are relative to the authority map file)',
    ],
  ],
];

for (const [title, text, problems] of BAD) {
  t.test(`a mistake is reported with its line and a correction: ${title}`, (t) => {
    t.strictSame(problemsOf(text), problems);
    t.end();
  });
}

t.test(
  'a `differ_by` that does not determine the forwarded Node is a warning that says why',
  (t) => {
    const why =
      'does not determine the forwarded Node: the source gets that of the first client of each group';
    t.strictSame(warningsOf(served('forward_node: all')), [
      `1:32: sources.s.forward_node: differ_by: [id, cluster] ${why} (write differ_by: all, or make sure that clients of one group have the same Node)`,
    ]);
    t.strictSame(
      warningsOf(
        served('forward_node: [id, locality]', 'differ_by: [], served_by: [{ sources: [s] }]'),
      ),
      [`1:32: sources.s.forward_node: differ_by: [] ${why} (add id, locality to differ_by)`],
    );
    const all = 'differ_by: all, served_by: [{ sources: [s] }]';
    t.strictSame(warningsOf(served('forward_node: all', all)), []);
    t.strictSame(warningsOf(served('forward_node: [id]')), []);
    t.end();
  },
);

t.test(
  'identity settings of a source that also serves authorities are a warning, because the common stream of all clients has no identity (invariant 8)',
  (t) => {
    const both = (source: string): string =>
      `${served(source, 'differ_by: all, served_by: [{ sources: [s] }]')}authorities: { a: { sources: [s] } }\n`;
    const advice =
      'applies to old-style names only: the stream for names of authorities has no client to take it from (give the authorities a source of their own, with credentials of the gateway if the source needs any)';
    t.strictSame(
      warningsOf(
        both(
          'forward_node: all, forward_headers: [a], client_identity: forward, tls_by_identity: i',
        ),
      ),
      [
        `1:32: sources.s.forward_node: ${advice}`,
        `1:51: sources.s.forward_headers: ${advice}`,
        `1:73: sources.s.client_identity: ${advice}`,
        `1:99: sources.s.tls_by_identity: ${advice}`,
      ],
    );
    t.strictSame(warningsOf(both('node_in: every_request')), [], 'no part of the identity');
    t.strictSame(
      warningsOf(
        'sources: { s: { target: "s:1", forward_headers: [a] }, own: { target: "s:1" } }\n' +
          'old_style_names: { served_by: [{ sources: [s] }] }\n' +
          'authorities: { a: { sources: [own] } }\n',
      ),
      [],
      'the remedy',
    );
    t.end();
  },
);

t.test(
  'settings without an effect on a REST source are not in the model: such sources are equal, and share one stream (invariant 8)',
  (t) => {
    const polled = (more: string): unknown =>
      mapOf(served(`api_type: REST${more}`)).sources.get('s');
    t.strictSame(polled(', node_in: every_request'), polled(''));
    t.strictSame(polled(', channel_args: { grpc.max_metadata_size: 1 }'), polled(''));
    t.strictNotSame(polled(', channel_args: { grpc.default_authority: a }'), polled(''));
    t.end();
  },
);

t.test('secrets over plaintext are a warning, except on a Unix socket', (t) => {
  const at = (target: string, more: string): string =>
    `sources: { s: { target: "${target}", insecure: true, ${more} } }\nold_style_names: { served_by: [{ sources: [s] }] }\n`;
  const advice = 'sends secrets in plaintext (use TLS, or a unix: target)';
  t.strictSame(warningsOf(at('s:1', 'forward_headers: [a]')), [
    `1:48: sources.s.forward_headers: ${advice}`,
  ]);
  t.strictSame(warningsOf(at('s:1', 'call_credentials: { jwt_file: t }')), [
    `1:48: sources.s.call_credentials: ${advice}`,
  ]);
  t.strictSame(warningsOf(at('unix:/run/s', 'forward_headers: [a]')), []);
  t.end();
});
