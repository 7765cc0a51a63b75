/**
 * Goal: the process logs one ready line, reloads on SIGHUP, drains on SIGTERM, and ends with the
 * documented codes.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { EXIT } from '../../gateway/cli/command.js';
import { TYPE_URL } from '../../protos/type-urls.js';
import { DeltaClient } from '../support/delta-client.js';
import { freePort } from '../support/free-port.js';
import { httpJson } from '../support/http.js';
import { until, within } from '../support/until.js';

const program = fileURLToPath(new URL('../../gateway/main.js', import.meta.url));
const MAP = `
sources: { files: { path: files } }
authorities: { cloud.test: { sources: [files] } }
`;

type Line = Record<string, unknown> & { readonly event: string };

function start(t: Test, args: readonly string[] = [], nodeArgs: readonly string[] = []) {
  const directory = mkdtempSync(join(tmpdir(), 'tributary-serve-'));
  mkdirSync(join(directory, 'files'));
  const file = join(directory, 'map.yaml');
  writeFileSync(file, MAP);
  const ports = ['--client-port', '0', '--admin-port', '0'];
  // The test runner's hooks, which it adds to NODE_OPTIONS of every child, handle signals, too.
  const node = ['--unset=NODE_OPTIONS', process.execPath, ...nodeArgs];
  const child = spawn(
    'env',
    [...node, program, 'serve', '--authority-map', file, ...ports, ...args],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  t.teardown(() => {
    child.kill('SIGKILL');
    rmSync(directory, { recursive: true, force: true });
  });
  const lines: Line[] = [];
  let wake: () => void = () => undefined;
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push(JSON.parse(line) as Line);
    wake();
  });
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const exit = once(child, 'exit') as Promise<[number | null, string | null]>;
  const said = async (event: string, nth = 1): Promise<Line> => {
    for (;;) {
      const line = lines.filter((one) => one.event === event)[nth - 1];
      if (line) return line;
      await within(`"${event}" is said`, 15_000, new Promise<void>((resolve) => (wake = resolve)));
    }
  };
  return { child, exit, file, lines, said, errors: () => stderr };
}

t.test('a SIGHUP while the gateway starts does not end it', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'tributary-early-'));
  t.teardown(() => {
    rmSync(directory, { recursive: true, force: true });
  });
  const preload = join(directory, 'preload.mjs');
  // As soon as the process handles the signal.
  writeFileSync(
    preload,
    `const hangUp = () => {
      process.kill(process.pid, 'SIGHUP');
      console.log(JSON.stringify({ event: 'hung_up' }));
    };
    process.on('newListener', function add(event) {
      if (event !== 'SIGHUP') return;
      process.off('newListener', add);
      // By then it is added. No timer: on Node.js 24 none runs while modules are loaded.
      queueMicrotask(hangUp);
    });`,
  );
  const { child, exit, lines, said } = start(t, [], ['--import', preload]);
  await said('gateway_ready');
  const early = lines.findIndex(({ event }) => event === 'hung_up');
  t.ok(early >= 0 && early < lines.findIndex(({ event }) => event === 'gateway_ready'));
  child.kill('SIGTERM');
  t.strictSame(await exit, [0, null]);
});

t.test(
  'one ready line with addresses and authorities; SIGHUP reloads; SIGTERM ends with 0',
  async (t) => {
    const { child, exit, file, lines, said, errors } = start(t);
    const ready = await said('gateway_ready');
    t.match(ready, {
      listen: /^127\.0\.0\.1:\d+$/,
      admin: /^127\.0\.0\.1:\d+$/,
      serves: { 'cloud.test': ['files'] },
      next: /^curl /,
    });
    t.match(await httpJson(`http://${String(ready['admin'])}/ready`), { ready: true });
    writeFileSync(file, MAP.replace('cloud.test:', 'cloud.test: { sources: [files] }, edge.test:'));
    child.kill('SIGHUP');
    t.match(await said('map_reloaded'), { authorities: { added: ['edge.test'] } });
    writeFileSync(file, 'sources: 3');
    child.kill('SIGHUP');
    t.match(await said('map_refused'), { problems: [/map\.yaml:1:/] });
    child.kill('SIGTERM');
    t.strictSame(await exit, [EXIT.ok, null]);
    const iso = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
    t.match(await said('gateway_stopped'), { level: 'info', time: iso });
    const ends = lines.map(({ event }) => event).filter((one) => /draining|stopped/.test(one));
    t.strictSame(ends, ['gateway_draining', 'gateway_stopped'], 'in this order');
    t.equal(errors(), '');
  },
);

t.test('a reload warns of what a start would warn of, newly or again', async (t) => {
  const { child, file, lines, said } = start(t);
  await said('gateway_ready');
  const clients = 'clients: [{ match: { jwt: { sub: a } }, allow: [{ authority: cloud.test }] }]';
  const warning = `${file}: clients[0].match.jwt: matches no client: the gateway reads no tokens (set client.jwt.jwks)`;
  writeFileSync(file, `${MAP}${clients}\n`);
  child.kill('SIGHUP');
  t.match(await said('map_warning'), { level: 'warn', warning });
  await said('map_reloaded');
  child.kill('SIGHUP');
  t.match(await said('map_warning', 2), { warning }, 'it still holds');
  writeFileSync(file, MAP);
  child.kill('SIGHUP');
  await said('map_reloaded', 2);
  t.equal(lines.filter(({ event }) => event === 'map_warning').length, 2, 'it holds no more');
});

t.test('a reload that takes names from clients warns of it', async (t) => {
  const { child, file, said } = start(t);
  const { listen } = await said('gateway_ready');
  const client = new DeltaClient({ port: Number(String(listen).split(':')[1]) });
  t.teardown(() => {
    client.close();
  });
  client.subscribe(TYPE_URL.cluster, ['xdstp://cloud.test/envoy.config.cluster.v3.Cluster/web']);
  await until('the client has its answer', () => client.responses.length > 0);
  writeFileSync(file, MAP.replace('cloud.test', 'clowd.test'));
  child.kill('SIGHUP');
  t.match(await said('map_warning'), {
    warning:
      /authorities\."cloud\.test": is not in the map any more: clients lose 1 names or globs/,
  });
  t.match(await said('map_reloaded'), { authorities: { removed: ['cloud.test'] } });
});

t.test(
  'a full disk behind stdout costs log lines, and nothing else',
  { skip: existsSync('/dev/full') ? false : 'no /dev/full' },
  async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'tributary-full-'));
    const file = join(directory, 'map.yaml');
    mkdirSync(join(directory, 'files'));
    writeFileSync(file, MAP);
    const port = String(await freePort());
    const stdout = openSync('/dev/full', 'w');
    const map = ['serve', '--authority-map', file, '--log-level', 'trace'];
    const ports = ['--client-port', '0', '--probe-port', '0', '--admin-port', port];
    const child = spawn(process.execPath, [program, ...map, ...ports], {
      stdio: ['ignore', stdout, 'ignore'],
    });
    t.teardown(() => {
      child.kill('SIGKILL');
      closeSync(stdout);
      rmSync(directory, { recursive: true, force: true });
    });
    const exit = once(child, 'exit');
    const scraped = async (): Promise<string> =>
      await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    const lost = (text: string): number =>
      Number(/^tributary_log_lines_lost_total (\d+)$/m.exec(text)?.[1]);
    await until('it serves', async () => lost(await scraped()) >= 0);
    // A MiB of lines may wait.
    const level = `http://127.0.0.1:${port}/logging?level=`;
    await until('lines are lost', async () => {
      const orders = Array.from(
        { length: 200 },
        (_, at) => `${level}${at % 2 ? 'trace' : 'debug'}`,
      );
      await Promise.all(orders.map((order) => fetch(order, { method: 'POST' })));
      return lost(await scraped()) > 0;
    });
    child.kill('SIGTERM');
    t.strictSame(await exit, [EXIT.ok, null]);
  },
);

t.test('with a port in use it exits with 3 and reports the address', async (t) => {
  const first = start(t);
  const { admin } = await first.said('gateway_ready');
  const port = String(admin).split(':')[1] ?? '';
  const second = start(t, ['--admin-port', port]);
  t.strictSame(await second.exit, [EXIT.cannotStart, null]);
  t.equal(
    second.errors(),
    `the gateway cannot start: cannot listen on 127.0.0.1:${port}: another process uses it, ` +
      'EADDRINUSE (end that process, or set another port with --admin-port or --port-offset)\n',
    'the reason with a remedy',
  );
  const failed = await second.said('gateway_failed');
  t.match(
    failed,
    { code: 'address_in_use', address: `127.0.0.1:${port}`, reason: /EADDRINUSE/ },
    'and in the log, which may be all that is kept',
  );
  first.child.kill('SIGINT');
  t.strictSame(await first.exit, [EXIT.ok, null]);
});
