/**
 * Goal: the section `clients` says exactly which client may ask for what, and reading it finds slips.
 * Method: tables of texts and what they mean, or of their problems.
 */
import t from 'tap';
import { parseAuthorityMap } from '../../../config/authority-map.js';
import type { ClientRule } from '../../../config/model.js';
import { formatProblem } from '../../../config/problems.js';

const FILE = '/etc/map.yaml';

const resultOf = (clients: string, more = '') =>
  parseAuthorityMap(
    `sources: { s: { path: . } }\nauthorities: { a: { sources: [s] } }\n${more}${clients}\n`,
    { file: FILE },
  );

function rulesOf(clients: string, more?: string): readonly ClientRule[] | undefined {
  const result = resultOf(clients, more);
  if (!result.ok) throw new Error(result.problems.map(formatProblem).join('\n'));
  return result.map.clients;
}

function problemsOf(rule: string): readonly string[] {
  const result = resultOf(`clients: [${rule}]`);
  const problems = result.ok ? result.warnings : result.problems;
  return problems.map((problem) => formatProblem(problem).replace(/^.*?: clients/, 'clients'));
}

t.test('a map without clients has no rules, and one with an empty list denies all', (t) => {
  t.equal(rulesOf(''), undefined);
  t.strictSame(rulesOf('clients: []'), []);
  t.end();
});

t.test('every field of a rule is read', (t) => {
  const rules = rulesOf(
    `clients:
  - match: { spiffe: "spiffe://prod.example.com/ns/edge/*", dns: "*.Edge.example.com", address: 10.0.0.0/8 }
    allow:
      - { authority: a, paths: ["edge/*", "*", web], types: [Cluster, envoy.config.listener.v3.ListenerCollection] }
      - { authority: "*" }
      - { old_style: true, types: [Secret] }
    limits: { streams: 2000, names: 50000, requests_per_second: 0.5 }
    node_id_must_match: "edge-*"
    hide_existence: true
  - match: { jwt: { sub: "edge-*", level: 3, admin: true } }
  - match: { anonymous: true }
`,
    'old_style_names: { served_by: [{ sources: [s] }] }\n',
  );
  t.strictSame(rules, [
    {
      match: {
        spiffe: 'spiffe://prod.example.com/ns/edge/*',
        dns: '*.edge.example.com',
        address: { bytes: [10, 0, 0, 0], prefixBits: 8 },
      },
      allow: [
        {
          kind: 'xdstp',
          authority: 'a',
          paths: [{ prefix: 'edge/' }, { prefix: '' }, { id: 'web' }],
          types: ['Cluster', 'envoy.config.listener.v3.Listener'],
        },
        { kind: 'xdstp', authority: '*', paths: undefined, types: undefined },
        { kind: 'old_style', types: ['Secret'] },
      ],
      limits: { streams: 2_000, names: 50_000, requestsPerSecond: 0.5 },
      nodeIdMustMatch: 'edge-*',
      hideExistence: true,
    },
    {
      match: { jwt: { sub: 'edge-*', level: 3, admin: true } },
      allow: [],
      limits: {},
      hideExistence: false,
    },
    { match: { anonymous: true }, allow: [], limits: {}, hideExistence: false },
  ]);
  t.end();
});

t.test('default_config_source serves authorities that the map does not name', (t) => {
  const grant = 'clients: [{ match: { anonymous: true }, allow: [{ authority: other }] }]';
  t.equal(rulesOf(grant, 'default_config_source: { sources: [s] }\n')?.length, 1);
  t.end();
});

const ALLOW = 'match: { anonymous: true }, allow:';
const BAD: readonly (readonly [rule: string, problem: string])[] = [
  ['{ allow: [] }', 'clients[0]: has no match'],
  [
    '{ match: {} }',
    'clients[0].match: matches nothing in particular (write spiffe, dns, jwt, anonymous or address; address: 0.0.0.0/0 is every IPv4 client)',
  ],
  ['{ match: { spifee: x } }', 'clients[0].match.spifee: unknown key (did you mean "spiffe"?)'],
  [
    '{ match: { jwt: { sub: x }, anonymous: true } }',
    'clients[0].match: no client has both jwt and anonymous: a client has one identity (write one entry for each)',
  ],
  ...['https://a/b', 'spiffe://*', 'spiffe://a*', 'spiffe://a/*/b'].map(
    (text) =>
      [
        `{ match: { spiffe: "${text}" } }`,
        'clients[0].match.spiffe: is not a SPIFFE ID, or a SPIFFE ID with * at its end (write "spiffe://trust.domain/path" or "spiffe://trust.domain/path/*")',
      ] as const,
  ),
  [
    '{ match: { dns: "edge.*.com" } }',
    'clients[0].match.dns: is not a DNS name, or one with *. at its start (write "edge.example.com" or "*.edge.example.com")',
  ],
  ['{ match: { jwt: {} } }', 'clients[0].match.jwt: names no claim (write { sub: "value" })'],
  ['{ match: { jwt: { sub: "a*b" } } }', 'clients[0].match.jwt.sub: may have * only at its end'],
  [
    '{ match: { jwt: { sub: [a] } } }',
    'clients[0].match.jwt.sub: must be text or a number or true or false, not a list',
  ],
  [
    '{ match: { anonymous: false } }',
    'clients[0].match.anonymous: must be true (leave it out to match any identity)',
  ],
  [
    '{ match: { address: 10.0.0.0/40 } }',
    'clients[0].match.address: is not an IP address or a range in CIDR notation (write "10.0.0.0/8")',
  ],
  [
    '{ match: { address: 10.0.0.1/8 } }',
    'clients[0].match.address: has bits beyond its prefix of 8 (write the first address of the range, or a longer prefix)',
  ],
  [
    `{ ${ALLOW} [{ authority: b }] }`,
    'clients[0].allow[0].authority: unknown authority "b" (known here: "a")',
  ],
  [
    `{ ${ALLOW} [{ types: [Cluster] }] }`,
    'clients[0].allow[0]: must have authority or old_style, and not both',
  ],
  [
    `{ ${ALLOW} [{ old_style: false }] }`,
    'clients[0].allow[0].old_style: must be true (leave it out)',
  ],
  [
    `{ ${ALLOW} [{ old_style: true, paths: [x] }] }`,
    'clients[0].allow[0].paths: old-style names have no paths (leave it out)',
  ],
  [
    `{ ${ALLOW} [{ authority: a, paths: ["edge*"] }] }`,
    'clients[0].allow[0].paths[0]: must be a path, a directory that ends with /*, or * (write * only at the end, after a slash)',
  ],
  [
    `{ ${ALLOW} [{ authority: a, paths: ["x/edge*/y"] }] }`,
    'clients[0].allow[0].paths[0]: must be a path, a directory that ends with /*, or * (write "x/*")',
  ],
  [
    `{ ${ALLOW} [{ authority: a, paths: ["/edge/*"] }] }`,
    'clients[0].allow[0].paths[0]: must be a path, a directory that ends with /*, or * (write "edge/*")',
  ],
  [
    `{ ${ALLOW} [{ authority: a, paths: ["a%20b"] }] }`,
    'clients[0].allow[0].paths[0]: must be written without percent-escapes',
  ],
  [
    `{ ${ALLOW} [{ authority: a, types: ["a b"] }] }`,
    'clients[0].allow[0].types[0]: is not a type (write its short name, such as Cluster)',
  ],
  [
    `{ match: { anonymous: true }, limits: { streams: 0 } }`,
    'clients[0].limits.streams: must be 1 or more, not 0',
  ],
];

t.test('a rule that would mean something else than it says is refused, with a remedy', (t) => {
  for (const [rule, problem] of BAD)
    t.ok(problemsOf(rule).includes(problem), problemsOf(rule).join('\n'));
  t.end();
});

t.test('a grant that no client can use is reported', (t) => {
  t.strictSame(problemsOf(`{ ${ALLOW} [{ old_style: true }] }`), [
    'clients[0].allow[0].old_style: the map serves no old-style names (write old_style_names)',
  ]);
  t.strictSame(problemsOf(`{ ${ALLOW} [{ authority: a, types: [Clusters] }] }`), [
    'clients[0].allow[0].types[0]: no client asks for Clusters (did you mean "Cluster"?)',
  ]);
  t.strictSame(problemsOf(`{ ${ALLOW} [{ authority: a, types: [Thing] }] }`), []);
  t.end();
});
