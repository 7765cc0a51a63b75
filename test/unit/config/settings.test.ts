/**
 * Goal: settings come from four places in a fixed order, and every mistake is reported.
 * Method: whole inputs in, settings or formatted problems out.
 */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { DEFAULT_KEEPALIVE, DEFAULT_LIMITS, DEFAULT_RESOLUTION } from '../../../config/limits.js';
import { formatProblem } from '../../../config/problems.js';
import { environmentName, flagName, SETTING_OPTIONS } from '../../../config/setting-options.js';
import { settingsFileOf } from '../../../config/setting-sources.js';
import { helpText, settingsReference } from '../../../config/settings-reference.js';
import {
  isOpenToOthers,
  loadSettings,
  parseSettings,
  type SettingsInput,
} from '../../../config/settings.js';

function parse(
  input: Partial<SettingsInput> & { readonly text?: string },
): ReturnType<typeof parseSettings> {
  const { text, ...rest } = input;
  const file = text === undefined ? {} : { file: { path: '/etc/t/settings.yaml', text } };
  return parseSettings({
    argv: [],
    env: {},
    workingDirectory: '/cwd',
    hostName: 'h',
    ...file,
    ...rest,
  });
}

function problemsOf(input: Parameters<typeof parse>[0]): readonly string[] {
  const result = parse(input);
  return result.ok ? [] : result.problems.map(formatProblem);
}

t.test('with only the map given, everything else has its default', (t) => {
  const result = parse({ argv: ['--authority-map', 'map.yaml'] });
  t.strictSame(result, {
    ok: true,
    settings: {
      authorityMap: '/cwd/map.yaml',
      client: {
        host: '127.0.0.1',
        port: 18_000,
        tls: null,
        maxMessage: 'auto',
        jwt: null,
        keepalive: DEFAULT_KEEPALIVE,
      },
      admin: { host: '127.0.0.1', port: 18_900, tokenFile: null, tls: null },
      probe: { host: '127.0.0.1', port: 19_000 },
      node: { id: 'tributary-h', cluster: 'tributary' },
      log: { level: 'info', pretty: false },
      traces: null,
      absentRouteAnswer: 'removed',
      stateFile: null,
      contentDir: null,
      nats: null,
      missingClusterAnswer: 'silence',
      unanswerableStream: 'silence',
      resolution: DEFAULT_RESOLUTION,
      limits: DEFAULT_LIMITS,
    },
    warnings: [],
  });
  t.ok(result.ok && Object.isFrozen(result.settings.limits));
  t.end();
});

t.test('defaults < file < environment < flags; text stays text', (t) => {
  const result = parse({
    text: 'authority_map: map.yaml\nclient: { host: "::1", port: 1 }\nadmin: { port: 1 }\nlog: { level: debug }\nlimits: { drain_grace: 0s, max_request: 1MiB }\n',
    env: { TRIBUTARY_CLIENT_PORT: '2', TRIBUTARY_ADMIN_PORT: '2', TRIBUTARY_LOG_PRETTY: 'true' },
    argv: ['--admin-port=3', '--node-id', '007', '--no-log-pretty', '--help'],
  });
  t.match(result, {
    ok: true,
    settings: {
      authorityMap: '/etc/t/map.yaml',
      client: { host: '::1', port: 2 },
      admin: { port: 3 },
      node: { id: '007' },
      log: { level: 'debug', pretty: false },
      limits: { drainGraceMs: 0, maxRequestBytes: 1_048_576 },
    },
  });
  t.end();
});

t.test(
  'the node of the gateway: locality and metadata, as a map in the file and as JSON in the environment',
  (t) => {
    const base = 'authority_map: m\nnode: { locality: { zone: z }, metadata: { a: { b: [1] } } }';
    const fromFile = parse({ text: base });
    t.strictSame(fromFile.ok && fromFile.settings.node, {
      id: 'tributary-h',
      cluster: 'tributary',
      locality: { region: '', zone: 'z', subZone: '' },
      metadata: { a: { b: [1] } },
    });
    const both = parse({ text: base, env: { TRIBUTARY_NODE_METADATA: '{"c":{}}' } });
    t.strictSame(both.ok && both.settings.node.metadata, { c: {} });
    t.end();
  },
);

t.test(
  'TLS for clients; paths of the file are relative to the file, those of flags to the working directory',
  (t) => {
    const result = parse({
      text: 'authority_map: m\nclient: { host: 0.0.0.0, tls: { cert: c.pem, key: k.pem } }',
      argv: ['--client-tls-client-ca', 'ca.pem'],
    });
    t.strictSame(result.ok && result.settings.client.tls, {
      certChainFile: '/etc/t/c.pem',
      privateKeyFile: '/etc/t/k.pem',
      clientCaFile: '/cwd/ca.pem',
    });
    t.end();
  },
);

const S = '/etc/t/settings.yaml';
const BAD_INPUTS: readonly (readonly [Parameters<typeof parse>[0], readonly string[]])[] = [
  [
    { argv: ['--authority-map=m', '--client-jwt-jwks=keys.json', '--client-jwt-issuer=i'] },
    ['settings: client.jwt.audience: is not set (client.jwt.jwks needs it)'],
  ],
  [
    { argv: ['--authority-map=m', '--client-jwt-audience=a'] },
    ['--client-jwt-audience: client.jwt.audience: needs keys (set client.jwt.jwks)'],
  ],
  [{}, ['settings: authority_map: is not set (write --authority-map FILE)']],
  [
    { argv: ['--authority-map=m', '--limits-drain-grace', '10s'] },
    ['--limits-drain-grace: unknown flag (did you mean "--drain-grace"?)'],
  ],
  [
    { argv: ['--authority-mapp', 'm', 'x', '--log-pretty=y', '--client-port', '1x', '--node-id'] },
    [
      'x: is not a flag (all arguments are flags, see --help)',
      '--authority-mapp: unknown flag (did you mean "--authority-map"?)',
      '--client-port: client.port: must be a whole number from 0 to 65535, not "1x"',
      '--log-pretty: log.pretty: must be true or false, not "y"',
      '--node-id: node.id: needs a value',
    ],
  ],
  [
    {
      text: 'authority_map: m\nclient:\n  hots: x\n  port: 65536\nlimits: { drain_grace: 10, max_clients: 0, max_request: 4MB }\nlog: 5\nabsent_route_answer: remove\n',
    },
    [
      `${S}:3:3: client.hots: unknown key (did you mean "host"?)`,
      `${S}:4:9: client.port: must be a whole number from 0 to 65535, not 65536`,
      `${S}:5:24: limits.drain_grace: 10 has no unit (write "10s" or "10ms")`,
      `${S}:5:41: limits.max_clients: must be a whole number of 1 or more, not 0`,
      `${S}:5:57: limits.max_request: "4MB" is not a size (write a number and a unit: B, KiB, MiB or GiB, such as "2MiB")`,
      `${S}:6:6: log: must be a map`,
      `${S}:7:22: absent_route_answer: must be one of removed, silence, not "remove" (did you mean "removed"?)`,
    ],
  ],
  [
    {
      text: 'authority_map: m',
      env: { TRIBUTARY_NODE_METADATA: '[1]', TRIBUTARY_LIMITS_DRAIN_GRACE: '10' },
    },
    [
      'TRIBUTARY_LIMITS_DRAIN_GRACE: limits.drain_grace: 10 has no unit (write "10s" or "10ms")',
      'TRIBUTARY_NODE_METADATA: node.metadata: must be a JSON object',
    ],
  ],
  [
    { text: 'authority_map: m\nclient: { host: 0.0.0.0 }' },
    [
      `${S}:2:17: client.host: 0.0.0.0 is not a loopback address, and there is no TLS (set client.tls.cert and client.tls.key, or client.insecure: true)`,
    ],
  ],
  [
    { text: 'authority_map: m\nclient: { insecure: true, tls: { cert: c } }' },
    [
      'settings: client.tls.key: is not set (client.tls.cert needs it)',
      `${S}:2:21: client.insecure: contradicts client.tls (leave out client.insecure or client.tls)`,
    ],
  ],
  [
    { text: 'authority_map: m\nclient: { tls: { client_ca: c } }' },
    [
      `${S}:2:29: client.tls.client_ca: needs a server certificate (set client.tls.cert and client.tls.key)`,
    ],
  ],
];

for (const [input, expected] of BAD_INPUTS) {
  t.test(`all mistakes are reported at once, at their places: ${JSON.stringify(input)}`, (t) => {
    t.strictSame(problemsOf(input), expected);
    t.end();
  });
}

t.test('waits, keepalive and bounds on resolution are settings, each with its range', (t) => {
  const text = `authority_map: m
client: { keepalive: { time: 5s, timeout: 1s }, max_message: 8MiB }
resolution: { max_hops: 8, max_list_entries: 50, max_nested_lists: 3 }
limits: { unsubscribed_linger: 0s, missing_cluster_wait: 2s, unanswerable_wait: 4s, write_ahead: 64KiB }
`;
  t.match(parse({ text }), {
    ok: true,
    settings: {
      client: { keepalive: { timeMs: 5_000, timeoutMs: 1_000 }, maxMessage: 8_388_608 },
      resolution: { maxHops: 8, maxListEntries: 50, maxNestedLists: 3 },
      limits: {
        unsubscribedLingerMs: 0,
        missingClusterWaitMs: 2_000,
        unanswerableWaitMs: 4_000,
        writeAheadBytes: 65_536,
      },
    },
  });
  const bad = `authority_map: m
client: { keepalive: { time: 0s, timeout: 5 }, max_message: 1KiB }
resolution: { max_hops: 17, max_list_entries: 0 }
limits: { missing_cluster_wait: 0s, unanswerable_wait: never, write_ahead: 0B }
`;
  t.strictSame(problemsOf({ text: bad }), [
    `${S}:2:30: client.keepalive.time: must be more than zero`,
    `${S}:2:43: client.keepalive.timeout: 5 has no unit (write "5s" or "5ms")`,
    `${S}:2:61: client.max_message: must be at least 64KiB`,
    `${S}:3:25: resolution.max_hops: must be a whole number from 1 to 16, not 17`,
    `${S}:3:47: resolution.max_list_entries: must be a whole number from 1 to 100000, not 0`,
    `${S}:4:33: limits.missing_cluster_wait: must be more than zero`,
    `${S}:4:56: limits.unanswerable_wait: "never" is not a duration (write a number and a unit: ms, s, m, h or d, such as "30s")`,
    `${S}:4:76: limits.write_ahead: must be more than zero`,
  ]);
  t.end();
});

t.test('the largest message is that of the client, none, or a size', (t) => {
  for (const word of ['auto', 'none'] as const) {
    const read = parse({ argv: ['--authority-map=m', `--client-max-message=${word}`] });
    t.match(read, { ok: true, settings: { client: { maxMessage: word } } });
  }
  const bad = parse({ argv: ['--authority-map=m', '--client-max-message=much'] });
  t.match(bad, { ok: false, problems: [{ field: 'client.max_message' }] });
  t.end();
});

t.test('the keys, issuer, audience and clock skew of client tokens are read', (t) => {
  const keys = ['--client-jwt-jwks=/keys.json', '--client-jwt-issuer=i', '--client-jwt-audience=a'];
  const read = parse({ argv: ['--authority-map=m', ...keys] });
  const jwt = { jwksFile: '/keys.json', issuer: 'i', audience: 'a', clockSkewMs: 60_000 };
  t.match(read, { ok: true, settings: { client: { jwt } } });
  t.end();
});

t.test('a listener beyond loopback without mutual TLS is open to others', (t) => {
  const isOpen = (...argv: readonly string[]): boolean | undefined => {
    const read = parse({ argv: ['--authority-map=m', ...argv] });
    return read.ok ? isOpenToOthers(read.settings.client) : undefined;
  };
  const tls = ['--client-host=0.0.0.0', '--client-tls-cert=c', '--client-tls-key=k'];
  t.equal(isOpen(), false);
  t.equal(isOpen('--client-host=0.0.0.0', '--client-insecure'), true);
  t.equal(isOpen(...tls), true);
  t.equal(isOpen(...tls, '--client-tls-client-ca=ca'), false);
  t.end();
});

t.test('plaintext off loopback needs client.insecure', (t) => {
  const result = parse({
    argv: ['--authority-map=m', '--client-host=0.0.0.0', '--client-insecure'],
  });
  t.match(result, { ok: true, settings: { client: { host: '0.0.0.0', tls: null } } });
  t.end();
});

t.test('the admin server is on loopback, or requires a token or a client certificate', (t) => {
  const text = 'authority_map: m\nadmin:\n  host: 0.0.0.0\n';
  const open = parse({ text });
  t.strictSame(open.ok || open.problems.map(formatProblem), [
    '/etc/t/settings.yaml:3:9: admin.host: 0.0.0.0 is not a loopback address, and anybody could use the admin server (set admin.token_file, or admin.tls.cert, admin.tls.key and admin.tls.client_ca)',
  ]);
  t.match(parse({ text: `${text}  tls: { cert: c, key: k }\n` }), { ok: false }, 'TLS alone');
  t.match(parse({ text: `${text}  token_file: token\n` }), {
    ok: true,
    settings: { admin: { tokenFile: '/etc/t/token', tls: null } },
  });
  t.match(parse({ text: `${text}  tls: { cert: c, key: k, client_ca: a }\n` }), {
    ok: true,
    settings: { admin: { tls: { clientCaFile: '/etc/t/a' } } },
  });
  t.match(parse({ text: `${text}  tls: { client_ca: a }\n` }), {
    ok: false,
    problems: [{ field: 'admin.tls.client_ca', message: 'needs a server certificate' }],
  });
  t.end();
});

t.test('the probe port follows the admin port, unless it is set', (t) => {
  const portWith = (...argv: readonly string[]): unknown => {
    const result = parse({ argv: ['--authority-map=m', ...argv] });
    return result.ok && result.settings.probe.port;
  };
  t.equal(portWith('--admin-port=3'), 103);
  t.equal(portWith('--admin-port=0'), 0);
  t.equal(portWith('--admin-port=65500'), 0);
  t.equal(portWith('--admin-port=3', '--probe-port=7'), 7);
  t.end();
});

t.test('an unknown variable is a warning, except the variables that Kubernetes sets', (t) => {
  const env = {
    TRIBUTARY_ADMNI_HOST: 'x',
    // As the flag is called.
    TRIBUTARY_DRAIN_GRACE: '10s',
    TRIBUTARY_SERVICE_HOST: '1',
    TRIBUTARY_PORT_80_TCP_ADDR: '1',
    TRIBUTARY_PORT: 'tcp://',
    // Of a Service that is called `tributary-admin`.
    TRIBUTARY_ADMIN_PORT: 'tcp://10.0.0.1:18900',
  };
  const result = parse({ argv: ['--authority-map=m'], env });
  t.strictSame(result.ok && result.warnings.map(formatProblem), [
    'TRIBUTARY_ADMNI_HOST: unknown variable (did you mean "TRIBUTARY_ADMIN_HOST"?)',
    'TRIBUTARY_DRAIN_GRACE: unknown variable (did you mean "TRIBUTARY_LIMITS_DRAIN_GRACE"?)',
    'TRIBUTARY_ADMIN_PORT: is the variable of a Kubernetes Service (it is ignored; set enableServiceLinks: false in the pod)',
  ]);
  t.equal(result.ok && result.settings.admin.port, 18_900);
  t.end();
});

t.test(
  'the settings file comes from a flag, or else a variable; an unreadable one is a problem',
  (t) => {
    t.equal(settingsFileOf(['--settings', 'a'], { TRIBUTARY_SETTINGS: 'b' }), 'a');
    t.equal(settingsFileOf(['--settings=a'], {}), 'a');
    t.equal(settingsFileOf([], { TRIBUTARY_SETTINGS: 'b' }), 'b');
    t.equal(settingsFileOf([], {}), undefined);
    const result = loadSettings({
      argv: ['--settings', 'none.yaml'],
      env: {},
      workingDirectory: t.testdir({}),
    });
    t.match(result, {
      ok: false,
      problems: [{ message: 'cannot be read: there is no such file' }],
    });
    const read = loadSettings({
      argv: ['--settings', 's.json'],
      env: {},
      workingDirectory: t.testdir({ 's.json': '{"authority_map": "m.yaml"}' }),
    });
    t.match(read, { ok: true, settings: { authorityMap: /m\.yaml$/ } });
    t.end();
  },
);

t.test('docs/SETTINGS.md: one flag moves every port, except a free one (0)', (t) => {
  const portsOf = (...flags: readonly string[]): readonly number[] | undefined => {
    const read = parse({ argv: ['--authority-map', 'm', ...flags] });
    if (!read.ok) return undefined;
    const { client, admin, probe } = read.settings;
    return [client.port, admin.port, probe.port];
  };
  t.same(portsOf('--port-offset', '7'), [18_007, 18_907, 19_007]);
  t.same(portsOf('--port-offset', '7', '--admin-port', '0'), [18_007, 0, 0]);
  t.same(portsOf('--port-offset', '7', '--probe-port', '20'), [18_007, 18_907, 27]);
  t.same(problemsOf({ argv: ['--authority-map', 'm', '--port-offset', '47000'] }), [
    '--port-offset: port_offset: moves admin.port to 65900 (ports end at 65535)',
  ]);
  t.end();
});

t.test(
  'docs/SETTINGS.md: log lines are human-readable by default where stdout is a terminal',
  (t) => {
    const prettyOf = (isTerminal: boolean, ...flags: readonly string[]): boolean | undefined => {
      const read = parse({ argv: ['--authority-map', 'm', ...flags], isTerminal });
      return read.ok ? read.settings.log.pretty : undefined;
    };
    t.equal(prettyOf(true), true);
    t.equal(prettyOf(false), false);
    t.equal(prettyOf(true, '--no-log-pretty'), false, 'a written setting wins');
    t.equal(prettyOf(false, '--log-pretty'), true);
    for (const [flag, isPretty] of [
      ['--no-log-pretty=true', false],
      ['--no-log-pretty=false', true],
      ['--log-pretty=false', false],
      ['--no-log-pretty=maybe', undefined],
    ] as const) {
      t.equal(prettyOf(true, flag), isPretty, flag);
    }
    t.equal(prettyOf(true, '--settings'), undefined, 'a value is missing');
    t.end();
  },
);

t.test('every limit is a setting, with a flag and a variable of its own', (t) => {
  for (const name of [flagName, environmentName]) {
    const names = SETTING_OPTIONS.map(({ key }) => name(key));
    t.equal(new Set(names).size, names.length);
  }
  const limits = SETTING_OPTIONS.filter(({ key }) => key.startsWith('limits.'));
  t.equal(limits.length, Object.keys(DEFAULT_LIMITS).length);
  t.end();
});

t.test('docs/SETTINGS.md and --help list every setting, with its default', (t) => {
  const page = readFileSync(new URL('../../../../docs/SETTINGS.md', import.meta.url), 'utf8');
  t.equal(page, settingsReference(), 'write settingsReference() to docs/SETTINGS.md');
  for (const { key } of SETTING_OPTIONS) t.match(helpText(), `--${flagName(key)}`);
  t.match(page, '| `limits.response_chunk` | size (B, KiB, MiB, GiB) | `2MiB` |');
  t.end();
});

t.test('NATS settings: absent by default, with files for all secrets', (t) => {
  const text = `authority_map: m
nats:
  servers: ["tls://a:4222", "tls://b:4222"]
  cluster: edge
  tls: { ca: ca.pem, cert: c.pem, key: k.pem }
  user: me
  password_file: /run/secrets/password
`;
  const result = parse({ text });
  t.strictSame(result.ok && result.settings.nats, {
    servers: ['tls://a:4222', 'tls://b:4222'],
    cluster: 'edge',
    subjectPrefix: 'tributary',
    tls: { caFile: '/etc/t/ca.pem', certFile: '/etc/t/c.pem', keyFile: '/etc/t/k.pem' },
    user: 'me',
    passwordFile: '/run/secrets/password',
    graceMs: 1_000,
  });
  const argv = ['--authority-map', 'm', '--nats-servers', 'nats://127.0.0.1:1, nats://[::1]:2'];
  const local = parse({ argv });
  t.match(local, {
    ok: true,
    settings: { nats: { servers: ['nats://127.0.0.1:1', 'nats://[::1]:2'], tls: null } },
  });
  const files = ['--nats-credentials-file', 'x.creds', '--nats-grace', '200ms'];
  t.match(parse({ argv: [...argv, ...files] }), {
    settings: { nats: { credentialsFile: '/cwd/x.creds', graceMs: 200 } },
  });
  t.end();
});

t.test('mistakes in NATS settings are reported with a correction', (t) => {
  const told = (...argv: readonly string[]): string =>
    problemsOf({ argv: ['--authority-map', 'm', ...argv] }).join();
  const servers = ['--nats-servers', 'nats://127.0.0.1'];
  t.match(told('--nats-cluster', 'c'), /nats.servers.*is not set/);
  t.match(told('--nats-servers', '127.0.0.1:4222'), /not the URL of a NATS server.*nats:\/\/host/);
  const withPassword = told('--nats-servers', 'nats://u:secret@127.0.0.1');
  t.match(withPassword, /not the URL of a NATS server/);
  t.notMatch(withPassword, /secret/);
  t.match(told('--nats-servers', 'nats://far.test'), /not a loopback address/);
  t.equal(told('--nats-servers', 'nats://far.test', '--nats-insecure'), '');
  t.equal(told('--nats-servers', 'tls://far.test'), '');
  t.match(
    told('--nats-servers', 'tls://10.0.0.1:4222'),
    /is an IP address, but TLS verifies host names/,
  );
  t.match(told('--nats-servers', 'tls://[::1]'), /is an IP address/);
  t.match(told(...servers, '--nats-user', 'u'), /nats.password_file.*is not set/);
  t.match(told(...servers, '--nats-password-file', 'p'), /nats.user.*is not set/);
  t.match(told(...servers, '--nats-tls-cert', 'c'), /nats.tls.key.*is not set/);
  t.match(told(...servers, '--nats-tls-key', 'c'), /nats.tls.cert.*is not set/);
  t.match(
    told(...servers, '--nats-token-file', 't', '--nats-credentials-file', 'c'),
    /nats.token_file.*conflicts with nats.credentials_file/,
  );
  t.match(told(...servers, '--nats-cluster', 'a.b'), /must be a word of letters/);
  t.match(told(...servers, '--nats-subject-prefix', 'a..b'), /must be words of letters/);
  t.match(told('--nats-servers', 'nats://a,,'), /must be a list of texts/);
  t.end();
});

t.test('the endpoint of traces is an http URL without a user, which logs could show', (t) => {
  const map = ['--authority-map', 'map.yaml'];
  const parse = (endpoint: string) =>
    parseSettings({ argv: [...map, '--traces-endpoint', endpoint], env: {} });
  for (const endpoint of ['http://127.0.0.1:4318/v1/traces', 'https://collector.example.com']) {
    t.match(parse(endpoint), { ok: true, settings: { traces: { endpoint } } });
  }
  for (const endpoint of ['collector:4318', 'grpc://a:4317', 'http://u:p@a/v1/traces', 'http://']) {
    t.match(parse(endpoint), { ok: false, problems: [{ field: 'traces.endpoint' }] }, endpoint);
  }
  t.end();
});

t.test('two listeners of a process have ports of their own', (t) => {
  const problemsOf = (...argv: readonly string[]): readonly string[] => {
    const read = parseSettings({ argv: ['--authority-map', 'm.yaml', ...argv], env: {} });
    return read.ok ? [] : read.problems.map(formatProblem);
  };
  t.match(problemsOf('--client-port', '7', '--admin-port', '7'), [
    /admin.port: is 7, which is client.port too \(set another port\)/,
  ]);
  t.match(problemsOf('--admin-port', '7', '--probe-port', '7', '--probe-host', '0.0.0.0'), [
    /probe.port: is 7, which is admin.port too/,
  ]);
  t.match(problemsOf('--client-port', '107', '--admin-port', '7'), [
    /probe.port: is 107 \(admin.port plus 100\), which is client.port too/,
  ]);
  const hosts = (client: string, admin: string): readonly string[] =>
    problemsOf(
      ...['--client-port=7', '--admin-port=7', '--client-host', client, '--admin-host', admin],
    ).filter((problem) => problem.includes('admin.port: is 7'));
  t.equal(hosts('127.0.0.1', '::').length, 1, 'Node listens at :: for IPv4, too');
  t.equal(hosts('0.0.0.0', 'localhost').length, 1);
  t.equal(hosts('0.0.0.0', '[::1]').length, 0);
  t.strictSame(problemsOf('--client-port', '0', '--admin-port', '0'), []);
  t.strictSame(problemsOf('--client-port', '7', '--admin-port', '7', '--client-host', '::1'), []);
  const bracketed = parseSettings({
    argv: ['--authority-map', 'm.yaml', '--client-host', '[::1]'],
    env: {},
  });
  t.match(bracketed, { settings: { client: { host: '::1' } } }, 'as in a URL');
  t.end();
});
