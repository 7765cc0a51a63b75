/**
 * Goal: an operator sees what each client holds and from where (docs/OPERATIONS.md, "Look").
 * Method: the real program serves two directories; clients over gRPC; the command line as a user runs it.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { run as runHere } from '../../gateway/cli/run.js';
import { encodeNode } from '../../protos/node-codec.js';
import { TYPE_URL } from '../../protos/type-urls.js';
import { DeltaClient } from '../support/delta-client.js';
import { httpJson } from '../support/http.js';
import { runCommand, serveMap } from '../support/program.js';
import { openRefusingClient } from '../support/refusing-client.js';
import { until } from '../support/until.js';

const urn = (authority: string, name: string): string =>
  `xdstp://${authority}/envoy.config.cluster.v3.Cluster/${name}`;
const WEB = urn('cloud.test', 'edge/web');
const NODE = { id: 'node-1', cluster: 'edge', userAgentName: 'test', userAgentVersion: '1' };

function cluster(name: string, seconds: number): string {
  return JSON.stringify({ '@type': TYPE_URL.cluster, name, connect_timeout: `${seconds}s` });
}

/** The program, with the directories `one` and `two` as sources of `cloud.test`. */
async function startProgram(t: Test) {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-view-'));
  for (const name of ['one', 'two']) mkdirSync(join(folder, name));
  writeFileSync(join(folder, 'one/web.json'), cluster(WEB, 1));
  writeFileSync(join(folder, 'two/web.json'), cluster(urn('onprem.test', 'edge/web'), 2));
  const map = {
    sources: { one: { path: 'one' }, two: { path: 'two' } },
    authorities: {
      'cloud.test': { sources: ['one'], alternative: 'onprem.test' },
      'onprem.test': { sources: ['two'] },
    },
    old_style_names: { served_by: [{ sources: ['one'] }] },
  };
  const { admin, port } = await serveMap(t, folder, map);
  const run = (...args: readonly string[]) => runCommand([...args, '--admin', admin]);
  return { admin, port, folder, run };
}

t.test('status tells SYNCED, and NACK with its reason (OPERATIONS)', async (t) => {
  const { admin, port, run } = await startProgram(t);
  t.match(await run('status'), { code: 0, stdout: 'no client is connected\n' });
  t.match(await run('clients'), { code: 0, stdout: 'no client is connected\n' });

  const client = new DeltaClient({ port, node: encodeNode(NODE) });
  t.teardown(() => {
    client.close();
  });
  client.subscribe(TYPE_URL.cluster, [WEB]);
  client.subscribe(TYPE_URL.clusterLoadAssignment, ['old-name']);
  openRefusingClient(t, {
    port,
    nodeId: 'node-2',
    typeUrl: TYPE_URL.cluster,
    names: [WEB],
    message: 'no such\u001b[31m filter',
  });
  const shown = async (): Promise<unknown> => httpJson(`http://${admin}/status`);
  await until('both clients answered', async () => {
    const text = JSON.stringify(await shown());
    return text.includes('NACK') && text.includes('SYNCED');
  });
  const from = { authority: 'cloud.test', source: 'one', failover: 'primary', groups: 1 };
  const { clients } = (await shown()) as { readonly clients: readonly { readonly node: object }[] };
  const [first, second] = clients.toSorted((one, other) =>
    JSON.stringify(one.node) < JSON.stringify(other.node) ? -1 : 1,
  );
  t.match(first, {
    node: { id: 'node-1' },
    identity: 'anonymous',
    protocol: 'delta',
    types: [
      { type: 'Cluster', authority: 'cloud.test', names: 1, state: 'SYNCED', servedFrom: [from] },
      { type: 'ClusterLoadAssignment', names: 1, servedFrom: [{ authority: 'old-style/0' }] },
    ],
  });
  t.match(second, {
    types: [{ state: 'NACK', since: /^20.*Z$/, reason: /^no such.*filter/, servedFrom: [from] }],
  });

  const table = await run('status');
  t.equal(table.code, 0, table.stderr);
  t.match(table.stdout, /^CLIENT +NODE +IDENTITY +TYPE +STATE +NAMES +SERVED FROM\n/);
  t.match(table.stdout, / node-1 +anonymous +Cluster +SYNCED +1 +cloud\.test from one \(primary\)/);
  t.match(table.stdout, / NACK since \S+Z: no such\\u\{1b\}\[31m filter /);
  t.notMatch(table.stdout, '\u001b');
  const asJson = await run('status', '-o', 'json');
  t.match(JSON.parse(asJson.stdout), { count: 2, clients: [{ types: [{}] }, { types: [{}] }] });
  t.match((await run('clients')).stdout, /\n\d+ +127\.0\.0\.1:\d+ +anonymous +node-1 +delta +ADS /);

  const page = (await httpJson(`http://${admin}/status?limit=1`)) as { readonly next: number };
  t.match(await httpJson(`http://${admin}/clients?limit=1&after=${page.next}`), { count: 2 });
});

t.test('history tells each switch, its reason, and how long it lasted (OPERATIONS)', async (t) => {
  const { port, run } = await startProgram(t);
  const none = 'cloud.test has not switched since the gateway started\n';
  t.match(await run('history', 'cloud.test'), { code: 0, stdout: none });
  t.match(await run('history', 'clod.test'), { code: 1, stderr: /did you mean "cloud\.test"/ });
  const client = new DeltaClient({ port });
  t.teardown(() => {
    client.close();
  });
  client.subscribe(TYPE_URL.cluster, [WEB]);
  const versions = (): number => client.responses.length;
  await until('the client has its cluster', () => versions() === 1);
  t.match(await run('force', 'cloud.test', 'two'), { code: 0 });
  await until('the client has the other content', () => versions() === 2);
  t.match(await run('force', 'cloud.test', 'one'), { code: 0 });
  await until('the client has its cluster again', () => versions() === 3);

  const told = await run('history', 'cloud.test', '-o', 'json');
  t.match(JSON.parse(told.stdout), {
    authority: 'cloud.test',
    switches: [
      { at: /Z$/, group: 'cloud.test/*', direction: 'failback', from: 'two', to: 'one' },
      { direction: 'failover', reason: 'forced', from: 'one', to: 'two', changed: 1, kept: 0 },
    ],
  });
  const { switches } = JSON.parse(told.stdout) as { switches: readonly { lastedMs?: number }[] };
  t.match(
    switches.map(({ lastedMs }) => typeof lastedMs),
    ['undefined', 'number'],
  );
  t.match((await run('history', 'cloud.test')).stdout, / one +two +forced +- +\S+ +1 +0\n$/);
});

t.test('get --type prints an old-style resource while a client has it (OPERATIONS)', async (t) => {
  const { port, folder, run } = await startProgram(t);
  writeFileSync(join(folder, 'one/old.json'), cluster('old web', 3));
  const get = () =>
    run('get', 'old web', '--type', 'envoy.config.cluster.v3.Cluster', '-o', 'json');
  t.match(await get(), { code: 1, stderr: /no node group is served .*while a client subscribes/ });
  const client = new DeltaClient({ port });
  t.teardown(() => {
    client.close();
  });
  client.subscribe(TYPE_URL.cluster, ['old web']);
  await until('the client has it', () => client.held(TYPE_URL.cluster).size === 1);
  t.match(JSON.parse((await get()).stdout), {
    name: 'old web',
    typeUrl: TYPE_URL.cluster,
    count: 1,
    contents: [
      {
        version: client.held(TYPE_URL.cluster).get('old web') ?? '',
        entry: 'old-style/0',
        source: 'one',
        nodeGroups: 1,
        resource: { name: 'old web', connect_timeout: '3s' },
      },
    ],
  });
});

t.test('watch prints each change of a name and of a glob as it happens (OPERATIONS)', async (t) => {
  const { admin, folder, run } = await startProgram(t);
  const glob = urn('cloud.test', 'edge/*');
  const changes = ({ stdout }: { readonly stdout: string }): readonly object[] =>
    stdout.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as object]));

  const first = await run('watch', glob, '--count', '2', '-o', 'json');
  t.match(changes(first), [
    { kind: 'present', name: WEB, source: 'one', version: /./ },
    { kind: 'complete', name: glob, count: 1 },
  ]);
  const text = await run('watch', WEB, '--count', '1');
  t.match(text, {
    code: 0,
    stdout: /^\S+Z {2}present +xdstp:\S+web {2}version \S+ {2}from one\n$/,
  });

  const watched = async (count: number, name: string, onFirst: () => void) => {
    const lines: string[] = [];
    const out = (line: string): void => {
      if (lines.push(line) === 1) onFirst();
    };
    const argv = ['watch', name, '--count', String(count), '-o', 'json', '--admin', admin];
    const code = await runHere(argv, { env: {}, out, err: (line) => t.fail(line) });
    t.equal(code, 0);
    return lines.map((line) => JSON.parse(line) as object);
  };
  const renewed = await watched(2, WEB, () => {
    writeFileSync(join(folder, 'one/web.json'), cluster(WEB, 9));
  });
  t.match(renewed, [
    { kind: 'present', resource: { connect_timeout: '1s' } },
    { kind: 'present', resource: { connect_timeout: '9s' } },
  ]);
  const api = urn('cloud.test', 'edge/api');
  const members = await watched(4, glob, () => {
    writeFileSync(join(folder, 'one/api.json'), cluster(api, 5));
    rmSync(join(folder, 'one/web.json'));
  });
  const kinds = members.map((line) => ('kind' in line ? line.kind : ''));
  t.strictSame(kinds.slice(0, 2), ['present', 'complete']);
  t.strictSame(kinds.slice(2).toSorted(), ['absent', 'present']);

  t.match(await run('watch', 'xdstp://nowhere/x/y'), { code: 1, stderr: /nowhere|type/ });
  t.match(await run('watch', WEB, '--count', '0'), { code: 2, stderr: /--count 0 is not/ });
});
