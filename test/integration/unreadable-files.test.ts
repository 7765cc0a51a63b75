/**
 * Goal: every file that an operator can name and that the gateway may not read is reported with the file, the
 * field and a remedy (docs/OPERATIONS.md), and no reading blocks.
 * Method: the built program, in a process that the rights of files bind, with a file of mode 000 in each place.
 */
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { rightsMissing, runWithinRights } from '../support/file-rights.js';
import { program } from '../support/program.js';

t.setTimeout(120_000);

const MAP =
  'sources: { f: { path: ./resources } }\nauthorities: { a.example.com: { sources: [f] } }\n';
const mapWith = (source: string): string =>
  `sources:\n  s: { target: "xds.example.com:443", ${source} }\nauthorities: { a.example.com: { sources: [s] } }\n`;
const RIGHTS = 'the user of this process may not read it, EACCES';
const MEND = '(give this user the right to read it)';

interface Place {
  readonly place: string;
  readonly files?: Readonly<Record<string, string>>;
  readonly args: readonly string[];
  readonly code: number;
  /** The output; `DIR` stands for the folder, in which `closed` cannot be read. */
  readonly said: string;
}

const jwt = ['--client-jwt-issuer', 'i', '--client-jwt-audience', 'a'];
const serve = ['serve', '--authority-map', 'map.yaml'];
const inMap = (place: string, source: string, at: string): Place => ({
  place,
  files: { 'in.yaml': mapWith(source) },
  args: ['validate', 'in.yaml'],
  code: 1,
  said: `DIR/in.yaml:2:${at}: DIR/closed cannot be read: ${RIGHTS} ${MEND}\n`,
});
const inSetting = (key: string, ...more: readonly string[]): Place => {
  const flag = `--${key.replaceAll(/[._]/g, '-')}`;
  return {
    place: key,
    args: [...serve, flag, 'closed', ...more],
    code: 3,
    said: `${flag}: ${key}: DIR/closed cannot be read: ${RIGHTS} ${MEND}\n`,
  };
};

const PLACES: readonly Place[] = [
  {
    place: 'the map',
    args: ['validate', 'closed'],
    code: 1,
    said: `DIR/closed: cannot be read: ${RIGHTS} ${MEND}\n`,
  },
  {
    place: 'the map at start',
    args: ['serve', '--authority-map', 'closed'],
    code: 2,
    said: `DIR/closed: cannot be read: ${RIGHTS} ${MEND}\n`,
  },
  {
    place: 'the settings',
    args: ['serve', '--settings', 'closed'],
    code: 2,
    said: `DIR/closed: cannot be read: ${RIGHTS} ${MEND}\n`,
  },
  {
    place: 'a bootstrap',
    args: ['import', 'closed'],
    code: 1,
    said: `DIR/closed: cannot be read: ${RIGHTS} ${MEND}\n`,
  },
  {
    place: 'a certificate and its key',
    args: [...serve, '--client-tls-cert', 'closed', '--client-tls-key', 'closed'],
    code: 3,
    said:
      `--client-tls-cert: client.tls.cert: DIR/closed cannot be read: ${RIGHTS} ${MEND}\n` +
      `--client-tls-key: client.tls.key: DIR/closed cannot be read: ${RIGHTS} ${MEND}\n`,
  },
  inSetting('client.jwt.jwks', ...jwt),
  inSetting('admin.token_file'),
  inMap('a CA of a source', 'tls: { ca: closed }', '50: sources.s.tls.ca'),
  inMap(
    'a token of a source',
    'call_credentials: { access_token_file: closed }',
    '78: sources.s.call_credentials.access_token_file',
  ),
  {
    place: 'a token of the command line',
    args: ['status', '--admin-token-file', 'closed'],
    code: 2,
    said: `--admin-token-file: closed cannot be read: ${RIGHTS} ${MEND}\nUsage: tributary status [flags]\n`,
  },
  {
    place: 'resources',
    files: { 'resources/a.yaml': '', 'resources/below/b.yaml': '' },
    args: ['validate', 'map.yaml'],
    code: 1,
    said:
      `DIR/resources/below: cannot be read: ${RIGHTS} ${MEND} (source "f")\n` +
      `DIR/resources/a.yaml: cannot be read: ${RIGHTS} ${MEND} (source "f")\n`,
  },
  {
    place: 'the state file',
    files: { 'settings.yaml': 'authority_map: map.yaml\nstate_file: closed\n' },
    args: ['validate', 'map.yaml', '--settings', 'settings.yaml'],
    code: 0,
    said:
      'map.yaml: valid, 1 authority, 1 source\n' +
      `warning: DIR/settings.yaml:2:13: state_file: DIR/closed cannot be read: ${RIGHTS} ${MEND}\n`,
  },
  {
    place: 'the directory of the state file',
    files: { 'settings.yaml': 'authority_map: map.yaml\nstate_file: none/state\n' },
    args: ['validate', 'map.yaml', '--settings', 'settings.yaml'],
    code: 0,
    said:
      'map.yaml: valid, 1 authority, 1 source\n' +
      'warning: DIR/settings.yaml:2:13: state_file: DIR/none/state cannot be written: ' +
      'there is no directory DIR/none (create it)\n',
  },
];

async function folderOf(t: Test, files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-unreadable-'));
  const closed = ['closed', 'resources/a.yaml', 'resources/below'].map((path) =>
    join(folder, path),
  );
  t.teardown(async () => {
    for (const path of closed) await chmod(path, 0o700).catch(() => undefined);
    await rm(folder, { recursive: true });
  });
  const all = { 'map.yaml': MAP, closed: '', ...files };
  await mkdir(join(folder, 'resources'));
  for (const [path, text] of Object.entries(all)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  for (const path of closed) await chmod(path, 0o000).catch(() => undefined);
  return folder;
}

const skip = await rightsMissing();

for (const { place, files, args, code, said } of PLACES) {
  t.test(`an unreadable file has file, field and remedy: ${place}`, { skip }, async (t) => {
    const folder = await folderOf(t, files ?? {});
    const ran = await runWithinRights([program, ...args], folder);
    const lines = ran.out.split('\n').filter((line) => !line.startsWith('{'));
    const text = `${lines.join('\n')}${ran.err}`.replaceAll(folder, 'DIR');
    t.equal(text, said);
    t.equal(ran.code, code);
  });
}

const clusterOf = (name: string): string =>
  `"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: ${name}\n`;

t.test(
  'a directory of resources that loses its rights keeps its content, and says so',
  { skip },
  async (t) => {
    const folder = await folderOf(t, {
      'found/a.yaml': clusterOf('a'),
      'found/below/b.yaml': clusterOf('b'),
    });
    const script = `
      import { chmodSync } from 'node:fs';
      import { FilesystemSource } from '${import.meta.resolve('../../authorities/filesystem-source.js')}';
      const source = new FilesystemSource({ kind: 'path', name: 'f', path: '${folder}/found' }, {});
      const told = [0o700, 0o000, 0o700].map((mode) => {
        chmodSync('${folder}/found/below', mode);
        const { loaded, problems } = source.read();
        return [loaded.resources.length, loaded.isWhole, problems];
      });
      console.log(JSON.stringify(told));`;
    const { out, err } = await runWithinRights(['--input-type=module', '--eval', script], folder);
    t.equal(err, '');
    t.strictSame(JSON.parse(out), [
      [2, true, []],
      [2, true, [`${folder}/found/below: cannot be read: ${RIGHTS} ${MEND}`]],
      [2, true, []],
    ]);
  },
);
