/**
 * Goal: new certificates are loaded when they fit, and a half-written pair never closes the
 * listener.
 */
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { TlsFiles, type TlsMaterial } from '../../../../gateway/clients/tls-files.js';
import { createCertificateAuthority, opensslMissing } from '../../../support/certificates.js';

const skip = await opensslMissing();

t.test(
  'a pair is replaced as a whole: with only one new file the old pair stays, reported once',
  { skip },
  async (t) => {
    const ca = await createCertificateAuthority();
    t.teardown(() => ca.remove());
    const one = await ca.issue({ name: 'one', dnsNames: ['one.test'] });
    const two = await ca.issue({ name: 'two', dnsNames: ['two.test'] });
    const certChainFile = join(ca.directory, 'live.pem');
    const privateKeyFile = join(ca.directory, 'live.key');
    copyFileSync(one.cert, certChainFile);
    copyFileSync(one.key, privateKeyFile);
    const changes: TlsMaterial[] = [];
    const refusals: string[] = [];
    const files = new TlsFiles(
      { certChainFile, privateKeyFile },
      {
        onChanged: (material) => changes.push(material),
        onRefused: (reason) => refusals.push(reason),
      },
    );
    files.refresh();
    t.equal(changes.length, 0, 'nothing changed');
    copyFileSync(two.cert, certChainFile);
    files.refresh();
    files.refresh();
    t.equal(changes.length, 0);
    t.equal(refusals.length, 1, `refused once: ${refusals[0] ?? ''}`);
    t.ok(files.material.cert.length > 0);
    copyFileSync(two.key, privateKeyFile);
    files.refresh();
    t.equal(changes.length, 1);
    t.equal(files.material, changes[0]);
  },
);

t.test(
  'a file of client CAs that is empty or cut off is refused, and the old one stays',
  { skip },
  async (t) => {
    const ca = await createCertificateAuthority();
    t.teardown(() => ca.remove());
    const { cert: certChainFile, key: privateKeyFile } = await ca.issue({ name: 'one' });
    const clientCaFile = join(ca.directory, 'clients.pem');
    copyFileSync(ca.ca, clientCaFile);
    const refusals: string[] = [];
    const files = new TlsFiles(
      { certChainFile, privateKeyFile, clientCaFile },
      {
        onChanged: () => t.fail('no change'),
        onRefused: (reason) => refusals.push(reason),
      },
    );
    const whole = readFileSync(clientCaFile);
    for (const half of [Buffer.alloc(0), Buffer.from('garbage'), whole.subarray(0, 200)]) {
      writeFileSync(clientCaFile, half);
      files.refresh();
      t.match(refusals, [/clients\.pem: has no PEM certificate \(write a file/]);
    }
    t.ok(files.material.clientCa?.equals(whole));
    t.end();
  },
);

t.test('no listener without a readable certificate', (t) => {
  const spec = { certChainFile: '/nowhere/cert.pem', privateKeyFile: '/nowhere/key.pem' };
  const handlers = { onChanged: () => undefined, onRefused: () => undefined };
  t.throws(() => new TlsFiles(spec, handlers), { code: 'unreadable_file' });
  t.end();
});
