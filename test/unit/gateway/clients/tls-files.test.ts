/**
 * Goal: new certificates are loaded when they fit, and a half-written pair never closes the
 * listener.
 */
import { copyFileSync } from 'node:fs';
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

t.test('no listener without a readable certificate', (t) => {
  const spec = { certChainFile: '/nowhere/cert.pem', privateKeyFile: '/nowhere/key.pem' };
  const handlers = { onChanged: () => undefined, onRefused: () => undefined };
  t.throws(() => new TlsFiles(spec, handlers), { code: 'unreadable_file' });
  t.end();
});
