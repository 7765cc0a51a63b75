/**
 * Goal: "45 mistakes" that operators make: each is named once, with its place and the remedy, and with the
 * documented exit code.
 * Method: mistakes.txt has the files, the commands and their whole output. The commands run as a user runs them:
 * `serve` in a process of its own, the others through the command line in this process, against two gateways.
 * `WRITE_MISTAKES=1 node build/test/integration/mistakes.test.js` writes the outputs into mistakes.txt: read the
 * difference.
 */
import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { run } from '../../gateway/cli/run.js';
import { createCertificateAuthority, opensslMissing } from '../support/certificates.js';
import { mistakesIn, pageOf, type Mistake, type MistakeStep } from '../support/mistakes.js';
import { program, root, serveExample } from '../support/program.js';

t.setTimeout(180_000);

const FILE = `${root}test/integration/mistakes.txt`;
/** Where the files of a mistake seem to be. */
const SHOWN_FOLDER = '/etc/tributary';

const OLD_CA = `-----BEGIN CERTIFICATE-----
MIIBCTCBsAIBATAKBggqhkjOPQQDAjARMQ8wDQYDVQQDDAZvbGQgQ0EwHhcNMjAw
MTAxMDAwMDAwWhcNMjEwMTAxMDAwMDAwWjARMQ8wDQYDVQQDDAZvbGQgQ0EwWTAT
BgcqhkjOPQIBBggqhkjOPQMBBwNCAAT04iHeaN+bTQvJI4pC7YmwLBTN0tfXfSej
rnPw49skKMMjlhKcMT/O0v3XLy8hjM+0wvFrAyvUHMutNBNtXsA+MAoGCCqGSM49
BAMCA0gAMEUCIQDcChy7ICJO+K2duin3lGT9ImZ1T0+2cOgmlggrux/SlAIgWUAt
zWv1X4CJMNlGOzZqHZQB17HofBpBsbJwJfLlvnw=
-----END CERTIFICATE-----
`;

/** Shown address → real address of the gateways. */
type Addresses = ReadonlyMap<string, string>;

interface World {
  readonly folder: string;
  readonly addresses: Addresses;
}

/** Certificates, a gateway on the quickstart, and another one that requires a token. */
async function startWorld(t: Test): Promise<World> {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-mistakes-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const ca = await createCertificateAuthority('operator CA', 30);
  t.teardown(() => ca.remove());
  for (const name of ['client', 'other']) await ca.issue({ name });
  await writeFile(join(ca.directory, 'old-ca.pem'), OLD_CA);
  await symlink(ca.directory, join(folder, 'tls'));
  const token = join(folder, 'right.token');
  await writeFile(token, 'right\n');
  const map = 'examples/quickstart/authority-map.yaml';
  const open = await serveExample(map);
  t.teardown(open.stop);
  const guarded = await serveExample(map, '--admin-token-file', token);
  t.teardown(guarded.stop);
  const addresses = new Map([
    ['127.0.0.1:18900', open.admin],
    ['127.0.0.1:18000', open.listen],
    ['127.0.0.1:19000', open.probes],
    ['127.0.0.1:18910', guarded.admin],
  ]);
  return { folder, addresses };
}

interface Said {
  readonly code: number;
  readonly text: string;
}

/** Words of a command; double quotes group. */
const wordsOf = (command: string): readonly string[] =>
  [...command.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain = '']) => quoted ?? plain);

async function perform(command: string, folder: string, addresses: Addresses): Promise<Said> {
  let text = command;
  for (const [shown, real] of addresses) text = text.replaceAll(shown, real);
  const port = (address: string): string => addresses.get(address)?.split(':')[1] ?? '';
  text = text.replace('--client-port 18000', `--client-port ${port('127.0.0.1:18000')}`);
  const words = wordsOf(text);
  const start = words.indexOf('tributary');
  const env: Record<string, string> = { TRIBUTARY_ADMIN_PORT: port('127.0.0.1:18900') };
  for (const word of words.slice(0, start)) {
    const [name = '', value = ''] = word.split('=');
    env[name] = value;
  }
  const argv = words.slice(start + 1);
  if (argv[0] === 'serve') {
    delete env['TRIBUTARY_ADMIN_PORT'];
    return serve(argv, folder, env);
  }
  const before = process.cwd();
  process.chdir(folder);
  try {
    const said = { out: '', err: '' };
    const shell = {
      env,
      out: (more: string) => (said.out += more),
      err: (more: string) => (said.err += more),
    };
    return { code: await run(argv, shell), text: said.out + said.err };
  } finally {
    process.chdir(before);
  }
}

/** Ends a gateway that starts; its output is then the warnings in its log. */
async function serve(argv: readonly string[], cwd: string, env: object): Promise<Said> {
  return new Promise((resolve) => {
    const options = { cwd, env: { PATH: process.env['PATH'], ...env } };
    const child = spawn(process.execPath, [program, ...argv], options);
    let [out, err, isStarted] = ['', '', false];
    child.stdout.on('data', (bytes: Buffer) => {
      out += bytes.toString();
      if (isStarted || !out.includes('"event":"gateway_ready"')) return;
      isStarted = true;
      child.kill('SIGTERM');
    });
    child.stderr.on('data', (bytes: Buffer) => (err += bytes.toString()));
    child.on('close', (code) => {
      resolve({ code: code ?? -1, text: warningsIn(out) + err });
    });
  });
}

/** `warn map_warning: …` of each such line, without the one on the version of Node.js. */
function warningsIn(log: string): string {
  const lines = log.split('\n').filter((line) => line.startsWith('{'));
  return lines
    .map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>)
    .filter(({ level, event }) => /^(?:warn|error)$/.test(String(level)) && event !== 'node_unsafe')
    .map(({ level, event, warning }) => {
      const told = typeof warning === 'string' ? `: ${warning}` : '';
      return `${String(level)} ${String(event)}${told}\n`;
    })
    .join('');
}

async function outcomeOf(
  { command }: MistakeStep,
  folder: string,
  addresses: Addresses,
): Promise<string> {
  const { code, text } = await perform(command, folder, addresses);
  let shown = text.replaceAll(folder, SHOWN_FOLDER);
  for (const [address, real] of addresses) shown = shown.replaceAll(real, address);
  return `${shown}[${code}]`;
}

async function stepsOf({ title, files, steps }: Mistake, world: World): Promise<MistakeStep[]> {
  const folder = await mkdtemp(join(world.folder, 'mistake-'));
  await symlink(join(world.folder, 'tls'), join(folder, 'tls'));
  for (const [path, content] of files) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), content);
  }
  if (steps.length === 0) throw new Error(`no command: ${title}`);
  const done: MistakeStep[] = [];
  for (const step of steps) {
    const said = await outcomeOf(step, folder, world.addresses);
    done.push({ command: step.command, said });
  }
  return done;
}

const skip = await opensslMissing();

t.test('45 mistakes: each is named with its place and its remedy', { skip }, async (t) => {
  const { intro, mistakes } = mistakesIn(await readFile(FILE, 'utf8'));
  t.ok(mistakes.length >= 45, `${mistakes.length} mistakes`);
  const world = await startWorld(t);
  const outcomes: Mistake[] = [];
  for (const mistake of mistakes) {
    const steps = await stepsOf(mistake, world);
    outcomes.push({ ...mistake, steps });
    if (process.env['WRITE_MISTAKES'] === undefined) {
      t.strictSame(steps, mistake.steps, mistake.title);
    }
  }
  if (process.env['WRITE_MISTAKES'] !== undefined) await writeFile(FILE, pageOf(intro, outcomes));
});
