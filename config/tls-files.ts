/** Checks the contents of PEM files (RFC 7468) before a connection needs them. Pure: bytes in, findings out. */
import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto';

export type TlsFileRole = 'ca' | 'cert' | 'key';

export interface TlsFinding {
  readonly role: TlsFileRole;
  readonly message: string;
  readonly remedy: string;
  /** Connections still succeed. */
  readonly isHarmless?: true;
  /** The certificate can be used, but is outside of its validity. */
  readonly isOutdated?: true;
}

const DAY_MS = 86_400_000;
/** A certificate that ends sooner is reported. */
const SOON_MS = 14 * DAY_MS;

/**
 * Finds what makes every connection fail: a file without a certificate or key, a key of another certificate,
 * a certificate outside of its validity.
 *
 * @param files undefined: not configured, or not readable now
 * @param nowMs Unix time
 */
export function checkTlsFiles(
  files: Readonly<Record<TlsFileRole, Buffer | undefined>>,
  nowMs: number,
): readonly TlsFinding[] {
  const findings: TlsFinding[] = [];
  if (files.ca) findings.push(...checkRoots(files.ca, nowMs));
  const leaf = files.cert && readLeaf(files.cert, findings, nowMs);
  const key = files.key && readKey(files.key, findings);
  if (leaf && key && !leaf.checkPrivateKey(key)) {
    findings.push({
      role: 'key',
      message: `is not the key of the certificate "${nameOf(leaf)}"`,
      remedy: 'write the key and the certificate that belong together',
    });
  }
  return findings;
}

/** Each certificate of a PEM file, or why it cannot be read. */
function certificatesIn(pem: Buffer): readonly (X509Certificate | Error)[] {
  const blocks = pem
    .toString('latin1')
    .match(/-----BEGIN CERTIFICATE-----[^]*?-----END CERTIFICATE-----/g);
  return (blocks ?? []).map((block) => {
    try {
      return new X509Certificate(block);
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error));
    }
  });
}

const NO_CERTIFICATE = {
  message: 'has no PEM certificate',
  remedy: 'write a file with -----BEGIN CERTIFICATE-----',
};

const unreadable = (place: number, error: Error): Pick<TlsFinding, 'message' | 'remedy'> => ({
  message: `certificate ${place} of the file cannot be read: ${error.message}`,
  remedy: 'write the file anew',
});

/** A bundle may have expired roots: one valid root suffices. */
function checkRoots(pem: Buffer, nowMs: number): readonly TlsFinding[] {
  const all = certificatesIn(pem);
  if (all.length === 0) return [{ role: 'ca', ...NO_CERTIFICATE }];
  const findings: TlsFinding[] = [];
  const roots: X509Certificate[] = [];
  for (const [index, one] of all.entries()) {
    if (one instanceof Error) findings.push({ role: 'ca', ...unreadable(index + 1, one) });
    else roots.push(one);
  }
  const ages = roots.map((root) => ({ root, age: ageOf(root, nowMs) }));
  const someIsValid = ages.some(({ age }) => age === undefined || age.isHarmless === true);
  for (const { age } of ages) {
    if (age) findings.push({ role: 'ca', ...age, ...(someIsValid ? { isHarmless: true } : {}) });
  }
  return findings;
}

function readLeaf(pem: Buffer, findings: TlsFinding[], nowMs: number): X509Certificate | undefined {
  const [leaf] = certificatesIn(pem);
  if (leaf === undefined) findings.push({ role: 'cert', ...NO_CERTIFICATE });
  if (leaf instanceof Error) findings.push({ role: 'cert', ...unreadable(1, leaf) });
  if (leaf === undefined || leaf instanceof Error) return undefined;
  const age = ageOf(leaf, nowMs);
  if (age) findings.push({ role: 'cert', ...age });
  return leaf;
}

function readKey(pem: Buffer, findings: TlsFinding[]): KeyObject | undefined {
  try {
    return createPrivateKey(pem);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const isEncrypted =
      code === 'ERR_MISSING_PASSPHRASE' || /passphrase|interrupted/i.test(message);
    findings.push(
      isEncrypted
        ? {
            role: 'key',
            message: 'is encrypted, and the gateway cannot ask for a passphrase',
            remedy: 'write a key without a passphrase',
          }
        : {
            role: 'key',
            message: 'has no PEM private key',
            remedy: 'write a file with -----BEGIN PRIVATE KEY-----',
          },
    );
    return undefined;
  }
}

function ageOf(certificate: X509Certificate, nowMs: number): Omit<TlsFinding, 'role'> | undefined {
  const from = Date.parse(certificate.validFrom);
  const to = Date.parse(certificate.validTo);
  const name = nameOf(certificate);
  const remedy = 'renew it';
  if (nowMs > to) {
    return {
      message: `the certificate of ${name} expired on ${day(to)}`,
      remedy,
      isOutdated: true,
    };
  }
  if (nowMs < from) {
    const message = `the certificate of ${name} is valid from ${day(from)}`;
    return { message, remedy: 'check the clock of this machine', isOutdated: true };
  }
  if (to - nowMs >= SOON_MS) return undefined;
  return { message: `the certificate of ${name} expires on ${day(to)}`, remedy, isHarmless: true };
}

const day = (atMs: number): string => new Date(atMs).toISOString().slice(0, 10);

/** The common name, or all of the subject. */
const nameOf = ({ subject, serialNumber }: X509Certificate): string =>
  /^CN=(.+)$/m.exec(subject)?.[1] ?? (subject === '' ? `serial number ${serialNumber}` : subject);
