/**
 * Goal: examples/old-beside-new works as described: old-style names of two entries and a glob of
 * xdstp names on one stream, one name shadowed by another, and a switch within an entry.
 * Method: the built program on the example, a delta client over a real connection.
 */
import { execFile, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import t from 'tap';

import { DeltaClient } from '../support/delta-client.js';
import { TYPE_URLS } from '../support/mesh.js';
import { until } from '../support/until.js';

const program = fileURLToPath(new URL('../../gateway/main.js', import.meta.url));
const root = fileURLToPath(new URL('../../../', import.meta.url));
const map = 'examples/old-beside-new/authority-map.yaml';
const glob = 'xdstp://cloud.example.com/envoy.config.cluster.v3.Cluster/edge/*';

async function serve(): Promise<{ admin: string; port: number; stop: () => void }> {
  const flags = ['--authority-map', map, '--client-port', '0', '--admin-port', '0'];
  const child = spawn(process.execPath, [program, 'serve', ...flags], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const entry = JSON.parse(line) as { event?: string; admin: string; listen: string };
    if (entry.event !== 'gateway_ready') continue;
    const port = Number(entry.listen.split(':').at(-1));
    return { admin: entry.admin, port, stop: () => child.kill('SIGKILL') };
  }
  throw new Error('the example did not start');
}

const run = (...args: readonly string[]): Promise<string> =>
  new Promise((resolve, reject) => {
    execFile(process.execPath, [program, ...args], { cwd: root }, (error, stdout, stderr) => {
      if (error) reject(new Error(`${args.join(' ')}\n${stdout}${stderr}`));
      else resolve(stdout);
    });
  });

/** The body in the last response that has it. */
function bodyOf(client: DeltaClient, typeUrl: string, name: string): Buffer {
  const all = client.responses.flatMap((response) =>
    response.typeUrl === typeUrl ? response.resources : [],
  );
  return Buffer.from(all.findLast((resource) => resource.name === name)?.body ?? []);
}

t.test(
  'the example serves both kinds of names on one stream, and switches within an entry',
  async (t) => {
    const { admin, port, stop } = await serve();
    t.teardown(stop);
    const client = new DeltaClient({ port });
    t.teardown(() => {
      client.close();
    });
    client.subscribe(TYPE_URLS.cluster, ['*', glob]);
    client.subscribe(TYPE_URLS.assignment, ['shop']);
    await until('all resources have arrived', () => client.held(TYPE_URLS.cluster).size === 3);
    await until('endpoints too', () => client.held(TYPE_URLS.assignment).size === 1);
    t.strictSame([...client.held(TYPE_URLS.cluster).keys()].sort(), [
      'billing',
      'shop',
      glob.replace('*', 'shop'),
    ]);
    const port8081 = Buffer.from([0x18, 0x91, 0x3f]);
    const port8082 = Buffer.from([0x18, 0x92, 0x3f]);
    t.ok(bodyOf(client, TYPE_URLS.assignment, 'shop').includes(port8081), 'from cloud');
    t.strictSame(client.errors(), []);

    const type = ['--type', 'envoy.config.cluster.v3.Cluster'];
    const explained = await run('explain', 'shop', ...type, '--admin', admin);
    t.match(explained, 'from old-style/0; old-style/1 has it too');
    const offline = await run('explain', 'shop', ...type, '--offline', '--authority-map', map);
    t.match(offline, 'old-style/0: cloud, then onprem');

    await run('force', 'old-style/0', 'onprem', '--admin', admin);
    await until('the endpoints are those of onprem', () =>
      bodyOf(client, TYPE_URLS.assignment, 'shop').includes(port8082),
    );
    t.strictSame(client.removals(TYPE_URLS.cluster), [], 'nothing was removed on the way');
  },
);
