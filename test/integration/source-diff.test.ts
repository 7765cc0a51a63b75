/**
 * Goal: `tributary diff` tells what a forced source would change, and changes nothing (docs/OPERATIONS.md, "Compare two
 * sources").
 * Method: the real program with a directory, a management server, a dead address and a server that never responds as
 * sources; the command line in this process.
 */
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { resourceFromJson } from '../../protos/json-resources.js';
import { TYPE_URL } from '../../protos/type-urls.js';
import { DeltaClient } from '../support/delta-client.js';
import { httpJson, httpRequest } from '../support/http.js';
import { metricsText, seriesOf } from '../support/metrics-text.js';
import { runHere, serveMap, type Outcome } from '../support/program.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { until } from '../support/until.js';

const CLUSTER = TYPE_URL.cluster;
const urn = (authority: string, name: string): string =>
  `xdstp://${authority}/envoy.config.cluster.v3.Cluster/edge/${name}`;
const cluster = (name: string, seconds: number): Readonly<Record<string, string>> => ({
  '@type': CLUSTER,
  name,
  connect_timeout: `${seconds}s`,
});

interface Program {
  readonly admin: string;
  readonly port: number;
  readonly upstream: ScriptedUpstream;
  readonly silent: SilentServer;
  readonly run: (...args: readonly string[]) => Promise<Outcome>;
}

/** Accepts connections and sends nothing. */
interface SilentServer {
  readonly port: number;
  /** Someone has connected. */
  readonly reached: Promise<unknown>;
  readonly stop: () => void;
}

async function startSilent(): Promise<SilentServer> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const stop = (): void => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  const { port } = server.address() as AddressInfo;
  return { port, reached: once(server, 'connection'), stop };
}

/** `cloud.test` is served from files; its alternatives are servers: a good one, a dead address, a silent one. */
async function startProgram(t: Test): Promise<Program> {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-diff-'));
  mkdirSync(join(folder, 'one'));
  for (const [name, seconds] of [
    ['same', 1],
    ['web', 1],
    ['old', 1],
  ] as const) {
    const body = JSON.stringify(cluster(urn('cloud.test', name), seconds));
    writeFileSync(join(folder, `one/${name}.json`), body);
  }
  const upstream = await ScriptedUpstream.start();
  t.teardown(() => upstream.stop());
  for (const [name, seconds] of [
    ['same', 1],
    ['web', 2],
    ['new', 1],
  ] as const) {
    const resource = resourceFromJson(cluster(urn('cloud.test', name), seconds));
    if (!resource.ok) throw new Error(JSON.stringify(resource));
    upstream.put(CLUSTER, urn('cloud.test', name), resource.body);
  }
  const dead = await ScriptedUpstream.start();
  await dead.stop();
  const silent = await startSilent();
  t.teardown(silent.stop);
  const server = (port: number): unknown => ({ target: `127.0.0.1:${port}`, insecure: true });
  const map = {
    sources: {
      one: { path: 'one' },
      two: server(upstream.port),
      dead: server(dead.port),
      silent: server(silent.port),
    },
    authorities: {
      'cloud.test': { sources: ['one', 'two', 'dead', 'silent'] },
      'unused.test': { sources: ['one', 'two'] },
    },
  };
  const { admin, port } = await serveMap(t, folder, map);
  const run = (...args: readonly string[]) => runHere([...args, '--admin', admin]);
  return { admin, port, upstream, silent, run };
}

t.test(
  'diff tells what changes, exits as diff(1), and nothing is switched (OPERATIONS)',
  async (t) => {
    const { admin, port, upstream, run } = await startProgram(t);
    const client = new DeltaClient({ port });
    t.teardown(() => {
      client.close();
    });
    const names = ['same', 'web', 'old', 'new'].map((name) => urn('cloud.test', name));
    client.subscribe(CLUSTER, names);
    await until('the client has its clusters', () => client.held(CLUSTER).size === 3);
    const held = new Map(client.held(CLUSTER));

    const asJson = await run('diff', 'cloud.test', '--to', 'two', '-o', 'json');
    t.equal(asJson.code, 1, asJson.stderr);
    const versionOf = (name: string): string | undefined => held.get(urn('cloud.test', name));
    const row = (kind: string, name: string, versions: object): object => ({
      kind,
      type: 'Cluster',
      name: urn('cloud.test', name),
      ...versions,
    });
    t.match(JSON.parse(asJson.stdout), {
      authority: 'cloud.test',
      differences: 3,
      groups: [
        {
          group: 'cloud.test',
          from: '(served)',
          to: 'two',
          same: 1,
          counts: { added: 1, changed: 1, removed: 0, kept: 1, unanswered: 0 },
          names: [
            row('added', 'new', { after: /^\S{22}$/ }),
            row('changed', 'web', { before: versionOf('web'), after: /^\S{22}$/ }),
            row('kept', 'old', { before: versionOf('old') }),
          ],
        },
      ],
    });
    const text = await run('diff', 'cloud.test', '--to', 'cloud.test/two');
    t.equal(text.code, 1);
    t.match(
      text.stdout,
      'cloud.test: from (served) to two: 1 added, 1 changed, 1 kept, 1 the same\n',
    );
    t.match(text.stdout, /^\+ +added +Cluster +xdstp:\S+\/new +\S{22}$/m);
    t.match(text.stdout, /^~ +changed +Cluster +xdstp:\S+\/web +\S{22} → \S{22}$/m);
    t.match(text.stdout, /^= +kept +Cluster +xdstp:\S+\/old +\S{22}$/m);
    t.match(text.stdout, /\nkept: two does not have them, and clients keep what they hold\n$/);
    const asYaml = await run('diff', 'cloud.test', '--to', 'two', '-o', 'yaml');
    t.match(asYaml.stdout, /^differences: 3$/m);
    t.match((await run('diff', 'cloud.test', '--from', 'two', '--to', 'one')).stdout, /1 removed/);

    t.strictSame(new Map(client.held(CLUSTER)), held, 'the client holds what it held');
    t.equal(
      client.responses.flatMap(({ resources }) => resources).length,
      3,
      'and was sent nothing',
    );
    await until(
      'nothing is subscribed any more',
      () => !names.some((one) => upstream.isAsked(CLUSTER, one)),
    );
    t.match((await run('history', 'cloud.test')).stdout, 'has not switched');
    const scrape = await metricsText(admin);
    const switches = seriesOf(scrape, 'tributary_switches_total').map(({ value }) => value);
    t.equal(Math.max(...switches), 0, 'no failover is counted');

    const web = resourceFromJson(cluster(urn('cloud.test', 'web'), 1));
    const old = resourceFromJson(cluster(urn('cloud.test', 'old'), 1));
    if (!web.ok || !old.ok) throw new Error('resources');
    upstream.put(CLUSTER, urn('cloud.test', 'web'), web.body);
    upstream.put(CLUSTER, urn('cloud.test', 'old'), old.body);
    upstream.delete(CLUSTER, urn('cloud.test', 'new'));
    t.match(await run('diff', 'cloud.test', '--to', 'two'), {
      code: 0,
      stdout: 'cloud.test: from (served) to two: 3 the same\n',
    });
  },
);

t.test('every trouble of diff has exit code 2 and a reason (OPERATIONS)', async (t) => {
  const { admin, port, silent, run } = await startProgram(t);
  const refused = async (reason: RegExp, ...args: readonly string[]): Promise<void> => {
    const { code, stderr, stdout } = await run('diff', ...args);
    t.match({ code, stderr, stdout }, { code: 2, stderr: reason, stdout: '' }, args.join(' '));
  };
  await refused(/no client subscribes to names of "cloud\.test"/, 'cloud.test');
  await refused(/did you mean "cloud\.test"/, 'clod.test');
  const client = new DeltaClient({ port });
  t.teardown(() => {
    client.close();
  });
  client.subscribe(CLUSTER, [urn('cloud.test', 'web')]);
  await until('the client has its cluster', () => client.held(CLUSTER).size === 1);
  await refused(/source "dead": .*ECONNREFUSED/, 'cloud.test', '--to', 'dead');
  await refused(/"thwo" is not a source .*did you mean "two"/, 'cloud.test', '--to', 'thwo');
  await refused(/"x\/two" is not a source .*GROUP\/SOURCE/, 'cloud.test', '--to', 'x/two');
  await refused(/"cloud\.test\/x" is not a source/, 'cloud.test', '--from', 'cloud.test/x');
  await refused(/no group has two sources that fit .*to=SOURCE/, 'cloud.test');
  await refused(/no group has two sources that fit/, 'cloud.test', '--from', 'two', '--to', 'two');
  await refused(/wait: "1x" is not a duration/, 'cloud.test', '--wait', '1x');
  await refused(/wait: must be at most 20s/, 'cloud.test', '--wait', '21s');
  const elsewhere = await runHere(['diff', 'cloud.test', '--admin', '127.0.0.1:9']);
  t.match(elsewhere, { code: 2, stderr: /no gateway responds/ });

  const path = '/authorities/cloud.test/diff?to=silent&wait=20s';
  const post = () => httpRequest(`http://${admin}${path}`, { method: 'POST', timeoutMs: 25_000 });
  const one = post();
  await silent.reached;
  t.equal((await post()).status, 503, 'one at a time');
  silent.stop();
  t.equal((await one).status, 502, 'the first goes on, until its source is down');
  t.equal((await httpRequest(`http://${admin}${path}`)).status, 405, 'it asks a source: POST only');
  t.match(await httpJson(`http://${admin}/ready`), { ready: true });
});
