import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const execute = promisify(execFile);

/** Paths of PEM files. */
export interface CertificatePaths {
  readonly cert: string;
  readonly key: string;
}

export interface CertificateSpec {
  /** Also the common name and the file name. */
  readonly name: string;
  readonly dnsNames?: readonly string[];
  readonly uris?: readonly string[];
  readonly ipAddresses?: readonly string[];
}

export interface CertificateAuthority {
  /** Path of the CA's certificate, a PEM file. */
  readonly ca: string;
  readonly directory: string;
  /** A key and a certificate of this CA, for servers and clients alike, valid as long as the CA. */
  issue(spec: CertificateSpec): Promise<CertificatePaths>;
  remove(): Promise<void>;
}

/**
 * A reason to skip when this machine has no `openssl`; Node.js itself cannot sign certificates.
 *
 * @throws Error in that case under `CI=true`, where no test may be skipped.
 */
export async function opensslMissing(): Promise<string | false> {
  try {
    await execute('openssl', ['version']);
    return false;
  } catch {
    const reason = 'openssl is not installed, and Node.js cannot sign certificates';
    if (process.env['CI'] === 'true') throw new Error(reason);
    return reason;
  }
}

const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

/**
 * A new CA in a temporary directory.
 *
 * @param days how long its certificates are valid. With less than 14, `validate` warns.
 * @throws Error when `openssl` is missing or fails.
 */
export async function createCertificateAuthority(
  commonName = 'test CA',
  days = 1,
): Promise<CertificateAuthority> {
  const directory = await mkdtemp(join(tmpdir(), 'tributary-certificates-'));
  const at = (file: string): string => join(directory, file);
  const [ca, caKey] = [at('ca.pem'), at('ca.key')];
  const valid = ['-days', String(days)];
  const selfSigned = ['-x509', ...valid, '-subj', `/CN=${commonName}`];
  await execute('openssl', ['req', ...selfSigned, ...newKey, '-keyout', caKey, '-out', ca]);

  async function issue(spec: CertificateSpec): Promise<CertificatePaths> {
    const paths = { cert: at(`${spec.name}.pem`), key: at(`${spec.name}.key`) };
    const [request, extensions] = [at(`${spec.name}.csr`), at(`${spec.name}.ext`)];
    const names = [
      ...(spec.dnsNames ?? []).map((name) => `DNS:${name}`),
      ...(spec.uris ?? []).map((uri) => `URI:${uri}`),
      ...(spec.ipAddresses ?? []).map((address) => `IP:${address}`),
    ];
    const subject = ['-subj', `/CN=${spec.name}`];
    await execute('openssl', ['req', ...subject, ...newKey, '-keyout', paths.key, '-out', request]);
    await writeFile(
      extensions,
      `basicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth,clientAuth\n` +
        (names.length > 0 ? `subjectAltName=${names.join(',')}\n` : ''),
    );
    // Not -CAcreateserial: certificates issued at the same time would write its file at once.
    const serial = ['-set_serial', `0x${randomBytes(8).toString('hex')}`];
    const signer = ['-CA', ca, '-CAkey', caKey, ...serial, ...valid];
    const files = ['-in', request, '-out', paths.cert, '-extfile', extensions];
    await execute('openssl', ['x509', '-req', ...signer, ...files]);
    return paths;
  }

  return {
    ca,
    directory,
    issue,
    remove: () => rm(directory, { recursive: true, force: true }),
  };
}
