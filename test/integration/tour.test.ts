/**
 * Goal: the README's five-minute tour is true.
 * Method: its commands, taken from the README itself, against the quickstart example served by the
 * built program, on free ports instead of the default ones.
 */
import { execFile, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import t from 'tap';

const program = fileURLToPath(new URL('../../gateway/main.js', import.meta.url));
const root = fileURLToPath(new URL('../../../', import.meta.url));
const readme = readFileSync(`${root}README.md`, 'utf8');
const tour = /<!-- tour -->\s*```console\n([^`]*)```/.exec(readme)?.[1] ?? '';
const commands = tour.trim().split('\n');

interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function run(args: readonly string[]): Promise<Outcome> {
  return new Promise((resolve) => {
    execFile(process.execPath, [program, ...args], { cwd: root }, (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr });
    });
  });
}

async function serveQuickstart(): Promise<{ readonly admin: string; readonly stop: () => void }> {
  const map = 'examples/quickstart/authority-map.yaml';
  const flags = ['--authority-map', map, '--client-port', '0', '--admin-port', '0'];
  const child = spawn(process.execPath, [program, 'serve', ...flags], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const entry = JSON.parse(line) as { event?: string; admin: string };
    if (entry.event !== 'gateway_ready') continue;
    return { admin: entry.admin, stop: () => child.kill('SIGKILL') };
  }
  throw new Error('the quickstart did not start');
}

t.test('every command of the tour succeeds, and the second `get` shows the switch', async (t) => {
  t.equal(commands.length, 6, 'the tour is found in the README');
  const { admin, stop } = await serveQuickstart();
  t.teardown(stop);
  const shown: string[] = [];
  for (const command of commands) {
    const words = command.split(' ');
    t.same(words.slice(0, 2), ['npx', 'tributary']);
    const asks = words[2] !== 'validate';
    const { code, stdout, stderr } = await run([
      ...words.slice(2),
      ...(asks ? ['--admin', admin] : []),
    ]);
    t.equal(code, 0, `${command}\n${stdout}${stderr}`);
    if (words[2] === 'get') shown.push(stdout);
  }
  t.match(shown[0], /port_value: 8081/, 'the cloud, at first');
  t.match(shown[1], /port_value: 8082/, 'on-prem, after the switch');
  t.match(shown[1], /cluster_name: xdstp:\/\/cloud\.example\.com\//, 'under the asked name');
});
