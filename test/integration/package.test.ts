/**
 * Goal: what npm would publish works where nothing else of the project is: the command, the library and
 * its types.
 * Method: the package is packed as it is built, and installed into an empty directory.
 */
import { execFile } from 'node:child_process';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { program, root } from '../support/program.js';

t.setTimeout(120_000);

const run = promisify(execFile);

const USE = `
import { embedGateway, formatProblem, loadAuthorityMap, loadSettings, type Gateway } from '@tributary-xds/tributary';
import { FederatedClient } from '@tributary-xds/tributary/authorities';

const argv = ['--authority-map', process.argv[2] ?? '', '--client-port', '0', '--admin-port', '0'];
const read = loadSettings({ argv: [...argv, '--log-level', 'silent'], env: {} });
if (!read.ok) throw new Error(read.problems.map(formatProblem).join());
const loaded = loadAuthorityMap(read.settings.authorityMap);
if (!loaded.ok) throw new Error(loaded.problems.map(formatProblem).join());
const gateway: Gateway = embedGateway(read.settings, loaded.map);
const port: number = await gateway.start();
await gateway.stop();
console.log(JSON.stringify({ port: port > 0, client: typeof FederatedClient }));
`;

t.test('the packed package serves as a command and as a library with types', async (t) => {
  const directory = t.testdir({ 'package.json': '{ "type": "module" }', 'use.ts': USE });
  const pack = await run(
    'npm',
    ['pack', '--ignore-scripts', '--json', '--pack-destination', directory],
    { cwd: root, maxBuffer: 1e8 },
  );
  const [packed] = JSON.parse(pack.stdout) as readonly { readonly filename: string }[];
  const tarball = join(directory, packed!.filename);
  // What `npm ci` of this project fetched is in npm's cache.
  const install = ['install', '--prefer-offline', '--no-audit', '--no-fund', tarball];
  await run('npm', install, { cwd: directory });

  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as {
    version: string;
  };
  const command = await run(join(directory, 'node_modules/.bin/tributary'), ['--version'], {
    cwd: directory,
  });
  t.match(command.stdout, version, 'the command');

  const typescript = join(root, 'node_modules/typescript/bin/tsc');
  // The types of Node.js come with the package: its own types need them.
  const options = ['--strict', '--target', 'es2022', '--module', 'nodenext', '--types', 'node'];
  await run(process.execPath, [typescript, ...options, '--skipLibCheck', 'use.ts'], {
    cwd: directory,
  });
  await writeFile(
    join(directory, 'map.yaml'),
    'sources:\n  a: { path: . }\nauthorities: { a: { sources: [a] } }\n',
  );
  const used = await run(process.execPath, ['use.js', 'map.yaml'], { cwd: directory });
  t.strictSame(JSON.parse(used.stdout), { port: true, client: 'function' }, 'the library');
});

t.test('a build leaves the command executable: npx and npm link set that only once', async (t) => {
  t.ok(((await stat(program)).mode & 0o111) === 0o111);
});

t.test('every file that package.json names is in the package, and packing builds it', async (t) => {
  const described = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as {
    readonly name: string;
    readonly bin: unknown;
    readonly exports: unknown;
    readonly scripts: Readonly<Record<string, string>>;
  };
  const { name, bin, exports, scripts } = described;
  t.match(name, /^@tributary-xds\//, 'the name without a scope belongs to another project');
  t.match(scripts['prepack'], 'build', 'a fresh clone has nothing built');
  const dry = await run('npm', ['pack', '--ignore-scripts', '--dry-run', '--json'], {
    cwd: root,
    maxBuffer: 1e8,
  });
  const [packed] = JSON.parse(dry.stdout) as readonly {
    readonly files: readonly { readonly path: string }[];
  }[];
  const files = new Set(packed!.files.map(({ path }) => path));
  const named = JSON.stringify([bin, exports]).match(/"(\.\/)?(build|config)\/[^"]+"/g) ?? [];
  t.ok(named.length >= 6);
  for (const one of named) t.ok(files.has(one.replaceAll('"', '').replace('./', '')), one);
});
