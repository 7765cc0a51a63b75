/** Goal: the files that the settings name are checked before the gateway needs them. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { formatProblem } from '../../../config/problems.js';
import { loadSettings } from '../../../config/settings.js';

t.test('docs/OPERATIONS.md: a missing or wrong file of the listeners ends the start', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-setting-files-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  const file = (name: string, text = 'hello'): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  mkdirSync(join(folder, 'directory'));
  const load = (...argv: readonly string[]) =>
    loadSettings({ argv: ['--authority-map', 'map.yaml', ...argv], env: {} });
  const tls = ['--client-tls-cert', file('tls.crt'), '--client-tls-key', join(folder, 'tls.kye')];
  file('tls.key');
  const read = load(...tls, '--admin-token-file', join(folder, 'directory'));
  t.match(read, { ok: false, areFilesWrong: true });
  t.strictSame(read.ok ? [] : read.problems.map(formatProblem), [
    `--admin-token-file: admin.token_file: ${folder}/directory is a directory (write the path of a file)`,
    '--client-tls-cert: client.tls.cert: has no PEM certificate (write a file with -----BEGIN CERTIFICATE-----)',
    `--client-tls-key: client.tls.key: no file at ${folder}/tls.kye (did you mean "${folder}/tls.key"?)`,
  ]);
  const peers = load('--nats-servers', 'tls://nats.test', '--nats-tls-ca', join(folder, 'none'));
  t.match(peers, { ok: true }, 'the gateway starts without its peers');
  t.strictSame(peers.ok ? peers.warnings.map(formatProblem) : [], [
    `--nats-tls-ca: nats.tls.ca: no file at ${folder}/none`,
  ]);
  const empty = load(
    ...['--admin-token-file', file('token', 'two words')],
    ...['--client-jwt-jwks', file('keys.json', '{"keys":[]}'), '--client-jwt-issuer', 'i'],
    ...['--client-jwt-audience', 'a', '--content-dir', join(folder, 'token', 'content')],
  );
  t.strictSame(empty.ok ? [] : empty.problems.map(formatProblem), [
    '--admin-token-file: admin.token_file: must have one token without white space (write one, such as the output of openssl rand -hex 32)',
    '--client-jwt-jwks: client.jwt.jwks: has no keys (write a JSON Web Key Set: { "keys": [{ "kty": … }] })',
  ]);
  const store = load('--content-dir', join(folder, 'token', 'content'));
  t.strictSame(store.ok ? store.warnings.map(formatProblem) : [], [
    `--content-dir: content_dir: ${folder}/token/content cannot be used: ${folder}/token is not a directory, ENOTDIR (correct the path)`,
  ]);
  t.match(load('--content-dir', join(folder, 'new', 'content')), { warnings: [] });
  const wrong = load('--client-port', 'x', '--admin-token-file', join(folder, 'none'));
  t.match(wrong, { ok: false, areFilesWrong: undefined }, 'a later start would not help');
  t.end();
});

t.test('settings have to be UTF-8, as the map has', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-setting-files-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  const file = join(folder, 'settings.yaml');
  writeFileSync(file, Buffer.from('# Zürich\nauthority_map: map.yaml\n', 'latin1'));
  const read = loadSettings({ argv: ['--settings', file], env: {} });
  t.strictSame(read.ok ? [] : read.problems.map(formatProblem), [
    `${file}:1:4: is not UTF-8 (save the file as UTF-8)`,
  ]);
  t.end();
});
