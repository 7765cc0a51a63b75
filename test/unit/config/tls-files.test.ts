/** Goal: certificates and keys that would fail at the first connection are found before it. */
import { readFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import t from 'tap';
import { parseAuthorityMap } from '../../../config/authority-map.js';
import { filesOnDisk } from '../../../config/map-files.js';
import { formatProblem } from '../../../config/problems.js';
import { checkTlsFiles } from '../../../config/tls-files.js';
import { createCertificateAuthority, opensslMissing } from '../../support/certificates.js';

const skip = await opensslMissing();
const DAY_MS = 86_400_000;

t.test('PEM contents are checked (RFC 7468)', { skip }, async (t) => {
  const authority = await createCertificateAuthority();
  t.teardown(() => authority.remove());
  const one = await authority.issue({ name: 'one' });
  const two = await authority.issue({ name: 'two' });
  const nowMs = Date.now();
  const check = (files: Partial<Parameters<typeof checkTlsFiles>[0]>, atMs = nowMs) =>
    checkTlsFiles({ ca: undefined, cert: undefined, key: undefined, ...files }, atMs)
      .filter(({ isHarmless }) => isHarmless !== true)
      .map(({ role, message }) => `${role}: ${message}`);
  const [ca, cert, key] = [authority.ca, one.cert, one.key].map((path) => readFileSync(path));
  const otherKey = readFileSync(two.key);
  t.strictSame(check({ ca: ca!, cert: cert!, key: key! }), []);
  t.strictSame(check({}), []);
  const hello = Buffer.from('hello');
  t.strictSame(check({ ca: hello }), ['ca: has no PEM certificate']);
  t.strictSame(check({ cert: hello, key: hello }), [
    'cert: has no PEM certificate',
    'key: has no PEM private key',
  ]);
  t.strictSame(check({ cert: cert!, key: otherKey }), [
    'key: is not the key of the certificate "one"',
  ]);
  const cut = Buffer.from('-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n');
  t.match(check({ ca: cut, cert: cut }), [
    /^ca: certificate 1 of the file cannot be read/,
    /^cert: certificate 1 of the file cannot be read/,
  ]);
  t.match(check({ ca: ca!, cert: cert! }, nowMs + 3 * DAY_MS), [
    /^ca: the certificate of test CA expired on \d{4}-\d\d-\d\d$/,
    /^cert: the certificate of one expired on/,
  ]);
  t.match(check({ cert: cert! }, nowMs - 3 * DAY_MS), [
    /^cert: the certificate of one is valid from/,
  ]);
  const soon = checkTlsFiles({ ca: undefined, cert, key: undefined }, nowMs);
  t.match(soon, [{ role: 'cert', message: /expires on/, isHarmless: true }]);
  const encrypted = join(authority.directory, 'encrypted.key');
  execFileSync('openssl', [
    'pkcs8',
    '-topk8',
    '-in',
    one.key,
    '-out',
    encrypted,
    '-passout',
    'pass:x',
  ]);
  t.match(check({ key: readFileSync(encrypted) }), [/^key: is encrypted/]);
});

t.test('a bundle with one valid root works, so an expired one is harmless', { skip }, async (t) => {
  const authority = await createCertificateAuthority();
  t.teardown(() => authority.remove());
  const long = join(authority.directory, 'long.pem');
  const key = join(authority.directory, 'ca.key');
  const named = ['-subj', '/CN=long', '-days', '9'];
  execFileSync('openssl', ['req', '-x509', '-new', '-key', key, ...named, '-out', long]);
  const bundle = Buffer.concat([readFileSync(authority.ca), readFileSync(long)]);
  const findings = checkTlsFiles(
    { ca: bundle, cert: undefined, key: undefined },
    Date.now() + 3 * DAY_MS,
  );
  t.ok(findings.every(({ isHarmless }) => isHarmless));
  t.ok(findings.some(({ message }) => /test CA expired on/.test(message)));
});

t.test(
  'validate reports them as problems with their place, a gateway at start as warnings',
  (t) => {
    const directory = t.testdir({ 'ca.pem': 'hello', folder: {} });
    const map = (ca: string): string =>
      `sources:\n  one:\n    target: a:1\n    tls:\n      ca: ${ca}\nauthorities: { a: { sources: [one] } }\n`;
    const file = join(directory, 'map.yaml');
    const wrong = parseAuthorityMap(map('ca.pem'), { file, files: filesOnDisk('problem') });
    t.notOk(wrong.ok);
    if (!wrong.ok) {
      t.match(wrong.problems.map(formatProblem), [
        /map\.yaml:5:11: sources\.one\.tls\.ca: has no PEM certificate \(write a file with -----BEGIN/,
      ]);
    }
    const started = parseAuthorityMap(map('ca.pem'), { file, files: filesOnDisk('warning') });
    t.ok(started.ok && started.warnings.length === 1);
    const folder = parseAuthorityMap(map('folder'), { file, files: filesOnDisk('warning') });
    t.notOk(folder.ok, 'a directory never becomes a CA file');
    if (!folder.ok)
      t.match(folder.problems.map(formatProblem), [
        /folder is a directory \(write the path of a file\)/,
      ]);
    t.end();
  },
);
