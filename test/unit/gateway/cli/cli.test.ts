/**
 * Goal: the command line exits with the right code and a helpful text, and a bad map never replaces
 * a good one.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { pino } from 'pino';
import { mock } from 'node:test';
import t, { type Test } from 'tap';
import { parse } from 'yaml';
import { loadAuthorityMap } from '../../../../config/authority-map.js';
import type { AuthorityMap } from '../../../../config/model.js';
import type { Explanation } from '../../../../gateway/admin/explain.js';
import { EXIT } from '../../../../gateway/cli/command.js';
import { explanationText } from '../../../../gateway/cli/explain.js';
import { MapFile, stampOf } from '../../../../gateway/cli/map-file.js';
import { readMap } from '../../../../gateway/cli/map-reader.js';
import { COMMANDS } from '../../../../gateway/cli/run.js';
import { Telemetry } from '../../../../gateway/telemetry/telemetry.js';
import { VERSION } from '../../../../gateway/version.js';
import { within } from '../../../support/until.js';
import { runHere } from '../../../support/program.js';

const MAP = `
sources:
  one: { target: "127.0.0.1:1", insecure: true }
  two: { target: "127.0.0.1:2", insecure: true }
authorities:
  cloud.example.com: { sources: [one], alternative: onprem.example.com }
  onprem.example.com: { sources: [two] }
`;
const URN = 'xdstp://cloud.example.com/envoy.config.cluster.v3.Cluster/edge/web';

function folder(t: Test): string {
  const path = mkdtempSync(join(tmpdir(), 'tributary-cli-'));
  t.teardown(() => {
    rmSync(path, { recursive: true, force: true });
  });
  return path;
}

function mapIn(path: string, text = MAP): string {
  const file = join(path, 'map.yaml');
  writeFileSync(file, text);
  return file;
}

const cli = (...argv: readonly string[]) => cliIn({}, ...argv);

async function cliIn(env: Readonly<Record<string, string>>, ...argv: readonly string[]) {
  const { code, stdout: out, stderr: err } = await runHere(argv, env);
  return { code, out, err };
}

t.test(
  'docs/SETTINGS.md: commands find the gateway that TRIBUTARY_PORT_OFFSET moved',
  async (t) => {
    const asked = async (env: Readonly<Record<string, string>>): Promise<string> =>
      (await cliIn({ TRIBUTARY_ADMIN_HOST: '127.0.0.1', ...env }, 'release', 'a')).err;
    const moved = { TRIBUTARY_ADMIN_PORT: '1', TRIBUTARY_PORT_OFFSET: '1' };
    t.match(await asked(moved), 'no gateway responds at 127.0.0.1:2:');
    t.match(
      await asked({ ...moved, TRIBUTARY_PORT_OFFSET: 'x' }),
      /TRIBUTARY_PORT_OFFSET: "x" is not a whole number/,
    );
    t.match(
      await asked({ TRIBUTARY_ADMIN_PORT: 'x' }),
      'TRIBUTARY_ADMIN_PORT: 127.0.0.1:x is not an address',
    );
    t.match(await asked({ ...moved, TRIBUTARY_ADMIN_HOST: '[::1]' }), 'responds at [::1]:2:');
    const ofService = { TRIBUTARY_ADMIN_PORT: 'tcp://10.0.0.1:1', TRIBUTARY_PORT_OFFSET: '1' };
    t.match(await asked(ofService), '127.0.0.1:18901', 'the variable of a Kubernetes Service');
  },
);

t.test('validate exits 0 for a good map, and 1 with file:line:column for a bad one', async (t) => {
  const file = mapIn(folder(t));
  t.match(await cli('validate', file), { code: EXIT.ok, out: /valid, 2 authorities, 2 sources/ });
  const settings = `${file}.settings.yaml`;
  writeFileSync(settings, `authority_map: ${file}.other\n`);
  t.match(await cli('validate', file, '--settings', settings), {
    code: EXIT.ok,
    err: /warning: .*: authority_map: names .*other, and this command checked/,
  });
  writeFileSync(file, MAP.replace('sources: [one]', 'sources: [ona]'));
  const bad = await cli('validate', file);
  t.equal(bad.code, EXIT.no);
  t.match(bad.err, new RegExp(`^${file}:6:\\d+: authorities\\."cloud\\.example\\.com".*one`, 'm'));
  t.equal((await cli('validate', `${file}.none`)).code, EXIT.no);
});

t.test(
  'validate reads the directories of resources too, and says what the gateway would log',
  async (t) => {
    const path = folder(t);
    mkdirSync(join(path, 'shop'));
    const text =
      'sources: { shop: { path: shop } }\nauthorities: { a.test: { sources: [shop] } }\n';
    const file = mapIn(path, text);
    const shop = join(path, 'shop/shop.yaml');
    const cluster = (name: string): string =>
      `"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: ${name}\n`;
    writeFileSync(shop, cluster('xdstp://a.test/envoy.config.cluster.v3.Cluster/x'));
    t.equal((await cli('validate', file)).code, EXIT.ok);
    writeFileSync(
      shop,
      `${cluster('xdstp://b.test/envoy.config.cluster.v3.Cluster/x')}---\nnam: y\n`,
    );
    const bad = await cli('validate', file);
    t.equal(bad.code, EXIT.no);
    t.match(bad.err, /shop\.yaml:4:1: .*\(source "shop"\)\n/);
    t.match(bad.err, /^xdstp:\/\/b\.test\S+: .*\(source "shop"\)$/m);
    writeFileSync(file, Buffer.from(`${text}# Zürich\n`, 'latin1'));
    t.match(await cli('validate', file), { code: EXIT.no, err: /map\.yaml:3:4: is not UTF-8/ });
  },
);

t.test('validate and explain show the sources of default_config_source', async (t) => {
  const file = mapIn(folder(t), `${MAP}default_config_source: { sources: [two, one] }\n`);
  const valid = await cli('validate', file);
  t.match(valid.out, /2 sources, old-style names from 1 entry, all other names from two, then one/);
  const urn = URN.replace('cloud', 'moon');
  const told = await cli('explain', urn, '--offline', '--authority-map', file);
  t.match(told.out, /authority {2}moon\.example\.com \(not in the map: default_config_source\)/);
  t.match(told.out, /group {6}default\/config_source/);
  t.match(told.out, /1\. two\n {7}requested as xdstp:\/\/moon/);
});

const RULES = `clients:
  - match: { spiffe: "spiffe://prod/ns/edge/*", address: 10.0.0.0/8 }
    node_id_must_match: "edge-*"
    allow: [{ authority: cloud.example.com, paths: ["edge/*"] }]
  - match: { jwt: { sub: x, level: 3 } }
    hide_existence: true
  - match: { dns: a.test }
    allow: [{ old_style: true }]
old_style_names: { served_by: [{ sources: [one] }] }
`;

t.test('explain --as says whether a client may ask for a name, and by which entry', async (t) => {
  const file = mapIn(folder(t), MAP + RULES);
  const offline = ['--offline', '--authority-map', file];
  const rightsOf = async (...argv: readonly string[]): Promise<string | undefined> => {
    const { out } = await cli('explain', ...argv, ...offline);
    return /rights +(.*)/.exec(out)?.[1];
  };
  const edge = ['--as', 'spiffe://prod/ns/edge/sa/web'];
  const allowed = 'spiffe://prod/ns/edge/sa/web: allowed by clients[0]: it allows the name';
  t.equal(await rightsOf(URN, ...edge, '--address', '10.1.2.3', '--node-id', 'edge-1'), allowed);
  t.equal(
    await rightsOf(URN, ...edge, '--address', '10.1.2.3'),
    'spiffe://prod/ns/edge/sa/web: denied by clients[0]: the Node id does not fit the identity of this client',
  );
  t.equal(
    await rightsOf(URN, ...edge),
    'spiffe://prod/ns/edge/sa/web: denied: no rule for clients matches this client',
  );
  t.equal(
    await rightsOf(URN, '--as', 'jwt:{"sub":"x","level":3}'),
    'jwt:x: denied by clients[1]: the rule for this client does not allow this name (the client is told that it does not exist)',
  );
  const type = ['--type', 'envoy.config.cluster.v3.Cluster'];
  t.equal(
    await rightsOf('web', ...type, '--as', 'dns:a.test'),
    'dns:a.test: allowed by clients[2]: it allows the name',
  );
  t.match(await rightsOf('web', ...type, '--as', 'anonymous'), /denied: no rule/);
  t.match(await rightsOf('web', ...type, '--as', 'jwt:x'), /denied: no rule/);
  t.equal(await rightsOf(URN), undefined);
  mapIn(file.replace('/map.yaml', ''));
  t.match(await rightsOf(URN, ...edge), /allowed: the map has no clients/);
  for (const as of ['me', 'jwt:{', 'dns:']) {
    const told = await cli('explain', URN, '--as', as, ...offline);
    t.match(told, { code: EXIT.usage, err: /--as is not an identity \(write spiffe/ }, as);
  }
});

t.test('the example of rules for clients is valid, and means what its comment says', async (t) => {
  const file = fileURLToPath(
    new URL('../../../../../examples/client-rules/authority-map.yaml', import.meta.url),
  );
  t.match(await cli('validate', file), { code: EXIT.ok, err: '' });
  const told = await cli(
    ...['explain', 'xdstp://mesh.example.com/envoy.config.cluster.v3.Cluster/edge/web'],
    ...['--as', 'spiffe://prod.example.com/ns/edge/sa/envoy', '--node-id', 'edge-1'],
    ...['--authority-map', file, '--offline'],
  );
  t.match(told.out, /allowed by clients\[0\]/);
});

t.test('validate warns of a map without clients where other hosts can connect', async (t) => {
  const path = folder(t);
  const open = { TRIBUTARY_CLIENT_HOST: '0.0.0.0', TRIBUTARY_CLIENT_INSECURE: 'true' };
  const warning = /warning: .*: every client may ask for everything/;
  t.match((await cliIn(open, 'validate', mapIn(path))).err, warning);
  t.notMatch((await cli('validate', mapIn(path))).err, warning);
  t.notMatch((await cliIn(open, 'validate', mapIn(path, MAP + RULES))).err, warning);
});

t.test('explain --offline lists each candidate and the name requested there', async (t) => {
  const file = mapIn(folder(t));
  const told = await cli('explain', URN, '--offline', '--authority-map', file);
  t.equal(told.code, EXIT.ok);
  t.match(told.out, /group {6}cloud\.example\.com\/\*/);
  t.match(told.out, /1\. one\n {7}requested as xdstp:\/\/cloud\.example\.com\//);
  t.match(told.out, /2\. two\n {7}requested as xdstp:\/\/onprem\.example\.com\//);
  const none = await cli(
    'explain',
    URN.replace('cloud', 'moon'),
    '--offline',
    '--authority-map',
    file,
  );
  t.match(none, { code: EXIT.no, err: /did you mean "cloud\.example\.com"\?/ });
  t.match(await cli('explain', 'web', '--offline'), { code: EXIT.no, err: /not a resource name/ });
});

t.test(
  'explain, get, force, release and invalidate exit 4 when no gateway is reachable',
  async (t) => {
    const admin = ['--admin', '127.0.0.1:1'];
    for (const argv of [
      ['explain', URN],
      ['get', URN],
      ['force', 'a', 's'],
      ['release', 'a'],
      ['invalidate', 'a'],
      ['invalidate', 'xdstp://a/test.v1.T/x'],
    ]) {
      t.match(await cli(...argv, ...admin), { code: EXIT.unreachable, err: /127\.0\.0\.1:1/ });
    }
  },
);

t.test('explain calls no source serving that is lost and serves nothing', (t) => {
  const source = {
    source: 'one',
    authority: 'a',
    asks: URN,
    active: true,
    live: false,
    tripped: true,
    answer: 'rejected' as const,
  };
  const explanation: Explanation = {
    name: URN,
    typeUrl: 'type.googleapis.com/envoy.config.cluster.v3.Cluster',
    authority: 'a',
    group: 'a',
    state: 'cached',
    why: 'all_sources_down',
    candidates: [source],
    hops: [],
  };
  const text = explanationText(explanation, true);
  t.match(text, '1. one  (not connected, counts as down)');
  t.match(text, `requested as ${URN}\n       answer: sent, and refused by the gateway`);
  const ofOther = { ...source, answer: 'unheard of' as 'sent' };
  const older = explanationText({ ...explanation, candidates: [ofOther] }, true);
  t.notMatch(older, 'answer', 'a gateway of a newer version may say more');
  const held = { ...explanation, served: { version: 'v', source: 'one' } };
  t.match(explanationText(held, true), '1. one  (serves, not connected, counts as down)');
  t.end();
});

t.test('a misspelled command or option exits 2 and suggests a correction', async (t) => {
  t.match(await cli('--admin', '127.0.0.1:1', 'status'), {
    code: EXIT.usage,
    err: /write the command first: tributary status --admin 127\.0\.0\.1:1/,
  });
  t.match(await cli('watch', 'web'), { code: EXIT.usage, err: /xdstp:\/\/ names only/ });
  t.match(await cli('forse'), { code: EXIT.usage, err: /did you mean "force"\?/ });
  t.match(await cli('get', URN, '--admn', 'x'), { code: EXIT.usage, err: /"--admin"/ });
  t.match(await cli('get'), { code: EXIT.usage, err: /URN is missing/ });
  const twice = await cli('force', 'a', 's', '--for', '1m', '--for=2m');
  t.match(twice, { code: EXIT.usage, err: /--for is given twice/ });
  t.match(await cli('get', URN, '--admin', 'nonsense'), { code: EXIT.usage, err: /host:port/ });
  t.match(await cli('serve', '--authority-mpa', 'x'), { code: EXIT.usage, err: /--authority-map/ });
  t.match(await cli(), { code: EXIT.usage });
});

t.test('--help names every command, --version the version', async (t) => {
  const help = await cli('--help');
  for (const { name } of COMMANDS) {
    t.match(help.out, `tributary ${name}`);
    t.match(await cli(name, '--help'), { code: EXIT.ok, out: /^Usage: tributary / });
  }
  t.match(await cli('--version'), { code: EXIT.ok, out: `${VERSION}\n` });
});

t.test('-o gives the same result as JSON or YAML', async (t) => {
  const file = mapIn(folder(t));
  const offline = ['explain', URN, '--offline', '--authority-map', file];
  // Each run of the command has its own clock.
  const untimed = (value: unknown): unknown => ({ ...(value as object), since: undefined });
  const json = JSON.parse((await cli(...offline, '-o', 'json')).out) as unknown;
  t.match(json, { name: URN, candidates: [{ source: 'one' }, { source: 'two' }] });
  t.strictSame(untimed(parse((await cli(...offline, '--output', 'yaml')).out)), untimed(json));
  t.match(await cli(...offline, '-o', 'jsn'), { code: EXIT.usage, err: /did you mean "json"\?/ });
  const valid = await cli('validate', file, '-o', 'json');
  t.strictSame(JSON.parse(valid.out), { file, valid: true, problems: [], warnings: [] });
  writeFileSync(file, 'sources: 3');
  const bad = await cli('validate', file, '-o', 'json');
  t.match(
    { code: bad.code, told: JSON.parse(bad.out) as unknown, err: bad.err },
    {
      code: EXIT.no,
      told: { valid: false, problems: [/map\.yaml:1:/] },
      err: '',
    },
  );
});

t.test('import prints a map that validate accepts, and refuses other files', async (t) => {
  const path = folder(t);
  const bootstrap = join(path, 'bootstrap.json');
  const server = { server_uri: '127.0.0.1:1', channel_creds: [{ type: 'insecure' }] };
  writeFileSync(bootstrap, JSON.stringify({ xds_servers: [server], node: { id: 'n' } }));
  t.match(await cli('validate', bootstrap), {
    code: EXIT.no,
    err: /a gRPC bootstrap.*tributary import/,
  });
  const { code, out } = await cli('import', bootstrap);
  t.equal(code, EXIT.ok);
  t.match(await cli('validate', mapIn(path, out)), { code: EXIT.ok, err: '' });
  t.match(await cli('import', join(path, 'map.yaml')), { code: EXIT.no, err: /is neither/ });
  t.match(await cli('import', join(path, 'none')), { code: EXIT.no, err: /cannot be read/ });
});

t.test('bootstrap prints what a client needs, with a second gateway as fallback', async (t) => {
  const file = mapIn(folder(t));
  const two = ['--gateway', 'gw.example.com:18000', '--fallback', '[::1]:18001', '--node-id', 'n'];
  const envoy = await cli('bootstrap', 'envoy', ...two, '--authority-map', file, '--path', 'edge');
  t.match(parse(envoy.out), {
    node: { id: 'n' },
    dynamic_resources: {
      cds_resources_locator: 'xdstp://cloud.example.com/envoy.config.cluster.v3.Cluster/edge/*',
    },
    static_resources: {
      clusters: [
        {
          type: 'STRICT_DNS',
          dns_lookup_family: 'V4_PREFERRED',
          health_checks: [{ tcp_health_check: {} }],
          load_assignment: { endpoints: [{}, { priority: 1 }] },
        },
      ],
    },
  });
  const tls = ['--ca', 'ca.pem', '--cert', 'c.pem', '--key', 'c.key'];
  const secure = await cli('bootstrap', 'envoy', ...two, ...tls, '-o', 'json');
  t.match(JSON.parse(secure.out), {
    dynamic_resources: { cds_resources_locator: undefined },
    static_resources: {
      clusters: [{ transport_socket: { typed_config: { sni: 'gw.example.com' } } }],
    },
  });
  const grpc = await cli('bootstrap', 'grpc', ...two, ...tls, '--authority-map', file);
  t.match(JSON.parse(grpc.out), {
    xds_servers: [
      { server_uri: 'dns:///gw.example.com:18000', channel_creds: [{ type: 'tls' }] },
      { server_uri: '[::1]:18001' },
    ],
    node: { id: 'n' },
    authorities: { 'cloud.example.com': {}, 'onprem.example.com': {} },
  });
  const plain = await cli('bootstrap', 'grpc');
  t.match(JSON.parse(plain.out), {
    xds_servers: [{ server_uri: '127.0.0.1:18000', channel_creds: [{ type: 'insecure' }] }],
  });
  for (const argv of [
    ['bootstrap', 'evnoy'],
    ['bootstrap', 'grpc', '--gateway', 'x'],
    ['bootstrap', 'grpc', '--cert', 'c', '--key', 'k'],
    ['bootstrap', 'grpc', '--ca', 'a', '--key', 'k'],
  ]) {
    t.equal((await cli(...argv)).code, EXIT.usage, argv.join(' '));
  }
  writeFileSync(file, 'sources: 3');
  t.equal((await cli('bootstrap', 'grpc', '--authority-map', file)).code, EXIT.no);
});

t.test('serve exits 2 for a map that is invalid from the start', async (t) => {
  const file = mapIn(folder(t), 'sources: 3');
  t.match(await cli('serve', '--authority-map', file), { code: EXIT.usage, err: /map\.yaml:1:/ });
});

function mapRig(t: Test) {
  const file = mapIn(folder(t));
  const lines: Record<string, unknown>[] = [];
  let wake: () => void = () => undefined;
  const write = (text: string): void => {
    lines.push(JSON.parse(text) as Record<string, unknown>);
    wake();
  };
  const telemetry = new Telemetry(pino({ level: 'debug' }, { write }));
  const stamp = stampOf(file);
  const loaded = loadAuthorityMap(file);
  if (!loaded.ok) throw new Error('the map of the test is invalid');
  const applied: AuthorityMap[] = [];
  const mapFile = new MapFile({
    file,
    stamp,
    map: loaded.map,
    apply: (map) => applied.push(map),
    warn: () => undefined,
    telemetry,
  });
  t.teardown(() => {
    mapFile.close();
  });
  // The watch and its timer do not keep the process alive: `within` does.
  const nextLine = (): Promise<void> =>
    within('a line of the log', 10_000, new Promise((resolve) => (wake = resolve)));
  return { applied, file, lines, mapFile, nextLine };
}

t.test(
  'an invalid map is refused as a whole, with every problem, and the old one stays',
  async (t) => {
    const { applied, file, lines, mapFile } = mapRig(t);
    writeFileSync(file, MAP.replace('sources: [one]', 'sources: [ona]').replace('[two]', '[]'));
    await mapFile.reload();
    t.equal(applied.length, 0);
    t.match(lines, [{ event: 'map_refused' }]);
    t.ok((lines[0]?.['problems'] as readonly string[]).length >= 2);
    writeFileSync(file, `${MAP}\n# the same in other words\n`);
    await mapFile.reload();
    t.match(lines[1], { event: 'map_unchanged' });
    t.equal(applied.length, 0);
  },
);

t.test('a map that is replaced by rename is applied, and the log lists the changes', async (t) => {
  const { applied, file, lines, mapFile, nextLine } = mapRig(t);
  mapFile.watch();
  const told = nextLine();
  writeFileSync(
    `${file}.new`,
    MAP.replace('127.0.0.1:2', '127.0.0.1:3').replace('[one]', '[one, two]'),
  );
  renameSync(`${file}.new`, file);
  await told;
  t.equal(applied.length, 1);
  t.match(lines, [
    {
      event: 'map_reloaded',
      sources: { added: [], removed: [], changed: ['two'] },
      authorities: { added: [], removed: [], changed: ['cloud.example.com'] },
    },
  ]);
});

t.test(
  'a changed map comes with the names that differ, and keeps the objects that do not',
  async (t) => {
    const directory = folder(t);
    const before = loadAuthorityMap(mapIn(directory));
    if (!before.ok) throw new Error('the map of the test is invalid');
    const file = mapIn(
      directory,
      MAP.replace('127.0.0.1:2', '127.0.0.1:3').replaceAll(
        'onprem.example.com',
        'edge.example.com',
      ),
    );
    const read = await readMap({ file }, before.map, new AbortController().signal);
    if (read.kind !== 'read') throw new Error(read.kind);
    t.strictSame(read.sources, { added: [], removed: [], changed: ['two'] });
    t.strictSame(read.authorities, {
      added: ['edge.example.com'],
      removed: ['onprem.example.com'],
      changed: ['cloud.example.com'],
    });
    t.strictSame(read.sections, []);
    t.equal(read.map.sources.get('one'), before.map.sources.get('one'));
    const again = loadAuthorityMap(file);
    t.strictSame(again.ok && read.map, again.ok && again.map, 'it is the map that the file has');
    const { digest } = read;
    t.match(await readMap({ file, unlessDigest: digest }, read.map, new AbortController().signal), {
      kind: 'same',
    });
  },
);

t.test('other sections that differ are named', async (t) => {
  const directory = folder(t);
  const before = loadAuthorityMap(mapIn(directory));
  if (!before.ok) throw new Error('the map of the test is invalid');
  const file = mapIn(directory, `${MAP}\nold_style_names: { served_by: [{ sources: [one] }] }\n`);
  const read = await readMap({ file }, before.map, new AbortController().signal);
  t.match(read, { kind: 'read', sections: ['oldStyle'] });
});

t.test('writes beside the map do not delay its reload', async (t) => {
  const { applied, file, mapFile, nextLine } = mapRig(t);
  mapFile.watch();
  const busy = setInterval(() => {
    writeFileSync(`${file}.busy`, String(Math.random()));
  }, 8);
  t.teardown(() => {
    clearInterval(busy);
  });
  const told = nextLine();
  writeFileSync(file, MAP.replace('127.0.0.1:2', '127.0.0.1:3'));
  await told;
  t.equal(applied.length, 1);
});

t.test('a map that changed while the gateway started is applied once it watches', async (t) => {
  const { applied, file, mapFile, nextLine } = mapRig(t);
  const told = nextLine();
  writeFileSync(file, MAP.replace('127.0.0.1:2', '127.0.0.1:3'));
  mapFile.watch();
  await told;
  t.equal(applied.length, 1);
});

t.test('a map file that becomes a pipe is refused, and the map in force stays', async (t) => {
  const { applied, file, lines, mapFile } = mapRig(t);
  rmSync(file);
  execFileSync('mkfifo', [file]);
  await mapFile.reload();
  t.match(lines, [{ event: 'map_refused', problems: [/is a pipe, not a regular file/] }]);
  t.equal(applied.length, 0);
});

t.test('a map that cannot be read now is read again, and its problem is told once', async (t) => {
  const { applied, file, lines, mapFile, nextLine } = mapRig(t);
  mock.timers.enable({ apis: ['setInterval'] });
  t.teardown(() => {
    mock.timers.reset();
  });
  mapFile.watch();
  const text = MAP.replace('127.0.0.1:2', '127.0.0.1:3');
  rmSync(file);
  execFileSync('mkfifo', [file]);
  await mapFile.reload();
  t.equal(lines.length, 1);
  await mapFile.reload();
  t.equal(lines.length, 2, 'an order of the operator is answered again');
  rmSync(file);
  writeFileSync(file, text);
  const told = nextLine();
  mock.timers.tick(5_000);
  await told;
  t.equal(applied.length, 1);
  t.match(lines[2], { event: 'map_reloaded' });
});

t.test(
  'a map that was refused for a missing file is read again when that may be there',
  async (t) => {
    const { applied, file, lines, mapFile, nextLine } = mapRig(t);
    mock.timers.enable({ apis: ['setInterval'] });
    t.teardown(() => {
      mock.timers.reset();
    });
    mapFile.watch();
    const token = join(folder(t), 'token');
    const told = nextLine();
    const metadata = `initial_metadata: [{ key: token, value_file: ${token} }]`;
    writeFileSync(file, MAP.replace('insecure: true', `insecure: true, ${metadata}`));
    await told;
    t.match(lines, [{ event: 'map_refused', problems: [/token/] }]);
    writeFileSync(token, 'x');
    const again = nextLine();
    mock.timers.tick(5_000);
    await again;
    t.match(lines, [{}, { event: 'map_reloaded', sources: { changed: ['one'] } }]);
    t.equal(applied.length, 1);
  },
);

t.test('changes of a map are noticed after its directory was replaced', async (t) => {
  const { applied, file, mapFile, nextLine } = mapRig(t);
  mock.timers.enable({ apis: ['setInterval'] });
  t.teardown(() => {
    mock.timers.reset();
  });
  mapFile.watch();
  const directory = dirname(file);
  renameSync(directory, `${directory}.old`);
  mkdirSync(directory);
  t.teardown(() => {
    rmSync(`${directory}.old`, { recursive: true });
  });
  for (const port of [3, 4]) {
    const told = nextLine();
    writeFileSync(file, MAP.replace('127.0.0.1:2', `127.0.0.1:${port}`));
    mock.timers.tick(5_000);
    await told;
  }
  t.equal(applied.length, 2);
});
