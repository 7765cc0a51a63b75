/**
 * When certificates end: that of the client listener as it is in use, all others as their files say, since the next
 * connection reads them. Files are read again at most once in 30 s, by scrapes.
 */
import { X509Certificate } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import type { AuthorityMap } from '../../config/model.js';
import type { NatsTlsSpec } from '../../config/nats-settings.js';
import type { ServerTlsSpec } from '../../config/settings.js';
import type { PutGauge } from './metrics.js';

/** Values of the label `certificate`. */
export type CertificateUse =
  'listener' | 'client_ca' | 'admin' | 'admin_ca' | 'source' | 'source_ca' | 'nats' | 'nats_ca';

/** The PEM bytes that the client listener uses. */
export interface ListenerCertificates {
  readonly cert: Buffer;
  readonly clientCa: Buffer | undefined;
}

export interface CertificateInputs {
  /** Undefined: the listener has no TLS, or does not listen yet. */
  readonly listener: () => ListenerCertificates | undefined;
  readonly map: () => AuthorityMap;
  readonly admin: ServerTlsSpec | null;
  readonly nats: NatsTlsSpec | null;
  /** Milliseconds, monotonic. */
  readonly clock: () => number;
}

interface CertificateEnd {
  readonly use: CertificateUse;
  /** Empty: not of a source. */
  readonly source: string;
  /** Unix time. */
  readonly endsAtSeconds: number;
}

const READ_AGAIN_AFTER_MS = 30_000;
/** A larger file cannot be a certificate. */
const MAX_FILE_BYTES = 4 << 20;

export class CertificateEnds {
  readonly #inputs: CertificateInputs;
  #ends: readonly CertificateEnd[] = [];
  #readAtMs: number | undefined;

  constructor(inputs: CertificateInputs) {
    this.#inputs = inputs;
  }

  /** Reads what the next scrape shows. Never rejects: a file that cannot be read has no end. */
  async read(): Promise<void> {
    const nowMs = this.#inputs.clock();
    if (this.#readAtMs !== undefined && nowMs - this.#readAtMs < READ_AGAIN_AFTER_MS) return;
    this.#readAtMs = nowMs;
    const ends: CertificateEnd[] = [];
    const add = (use: CertificateUse, source: string, pem: Buffer | undefined): void => {
      const endsAtMs = pem && endOf(pem, use);
      if (endsAtMs !== undefined) ends.push({ use, source, endsAtSeconds: endsAtMs / 1_000 });
    };
    const listener = this.#inputs.listener();
    add('listener', '', listener?.cert);
    add('client_ca', '', listener?.clientCa);
    for (const { use, source, path } of this.#files()) add(use, source, await contentOf(path));
    this.#ends = ends;
  }

  put(put: PutGauge): void {
    for (const { use, source, endsAtSeconds } of this.#ends) {
      put('tributary_certificate_expiry_timestamp_seconds', [use, source], endsAtSeconds);
    }
  }

  #files(): readonly { use: CertificateUse; source: string; path: string | undefined }[] {
    const { map, admin, nats } = this.#inputs;
    const ofSources = [...map().sources.values()].flatMap((source) => {
      if (source.kind !== 'grpc') return [];
      const { name, tls } = source;
      return [
        { use: 'source', source: name, path: tls?.certChainFile },
        { use: 'source_ca', source: name, path: tls?.rootCertsFile },
      ] as const;
    });
    return [
      ...ofSources,
      { use: 'admin', source: '', path: admin?.certChainFile },
      { use: 'admin_ca', source: '', path: admin?.clientCaFile },
      { use: 'nats', source: '', path: nats?.certFile },
      { use: 'nats_ca', source: '', path: nats?.caFile },
    ];
  }
}

/**
 * A chain expires when its first certificate to expire does. A bundle of CAs expires with the last of
 * them: the gateway does not know which CA the peer uses, and old roots stay in bundles.
 *
 * @returns Unix time in milliseconds; undefined: no certificate in the file
 */
function endOf(pem: Buffer, use: CertificateUse): number | undefined {
  const blocks = pem
    .toString('latin1')
    .match(/-----BEGIN CERTIFICATE-----[^]*?-----END CERTIFICATE-----/g);
  const ends = (blocks ?? []).flatMap((block) => {
    try {
      return [Date.parse(new X509Certificate(block).validTo)];
    } catch {
      return [];
    }
  });
  if (ends.length === 0) return undefined;
  return use.endsWith('_ca') ? Math.max(...ends) : Math.min(...ends);
}

/** A pipe or a device would never end. */
async function contentOf(path: string | undefined): Promise<Buffer | undefined> {
  if (path === undefined) return undefined;
  try {
    const found = await stat(path);
    const isReadable = found.isFile() && found.size <= MAX_FILE_BYTES;
    return isReadable ? await readFile(path) : undefined;
  } catch {
    return undefined;
  }
}
