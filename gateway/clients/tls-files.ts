/**
 * The certificate, key and client CA of a listener, read again when they change. Comparing the
 * content in short intervals detects every kind of replacement: rename, symbolic link (Kubernetes),
 * write in place. A certificate and key that do not match, e.g. between two writes, are refused.
 */
import { createSecureContext } from 'node:tls';
import type { ServerTlsSpec } from '../../config/settings.js';
import { checkTlsFiles } from '../../config/tls-files.js';
import { readNamedFile } from '../../config/unreadable-file.js';
import { Reread } from '../reread.js';

export interface TlsMaterial {
  readonly cert: Buffer;
  readonly key: Buffer;
  /** Present: clients must present a certificate that it signed. */
  readonly clientCa: Buffer | undefined;
}

export interface TlsFilesHandlers {
  readonly onChanged: (material: TlsMaterial) => void;
  /** Called once per reason, until the files are valid again. */
  readonly onRefused: (reason: string) => void;
}

const INTERVAL_MS = 5_000;

export class TlsFiles {
  readonly #spec: ServerTlsSpec;
  readonly #handlers: TlsFilesHandlers;
  #material: TlsMaterial;
  readonly #reread: Reread;
  #timer: NodeJS.Timeout | undefined;

  /** Throws UnreadableFileError, or the error of OpenSSL, if the files are unusable: no listener without them. */
  constructor(spec: ServerTlsSpec, handlers: TlsFilesHandlers) {
    this.#spec = spec;
    this.#handlers = handlers;
    this.#material = readMaterial(spec);
    this.#reread = new Reread(handlers.onRefused);
  }

  get material(): TlsMaterial {
    return this.#material;
  }

  watch(): void {
    this.#timer = setInterval(() => {
      this.refresh();
    }, INTERVAL_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Reads the files now. */
  refresh(): void {
    this.#reread.attempt(() => {
      const material = readMaterial(this.#spec);
      if (isSame(material, this.#material)) return;
      this.#material = material;
      this.#handlers.onChanged(material);
    });
  }
}

function readMaterial({ certChainFile, privateKeyFile, clientCaFile }: ServerTlsSpec): TlsMaterial {
  const cert = readNamedFile(certChainFile);
  const key = readNamedFile(privateKeyFile);
  const clientCa = clientCaFile === undefined ? undefined : readNamedFile(clientCaFile);
  // Throws if they do not match: a listener with such files would refuse every handshake.
  createSecureContext({ cert, key, ...(clientCa ? { ca: clientCa } : {}) });
  // OpenSSL accepts a CA file without a whole certificate, and the listener then rejects every client.
  const findings = checkTlsFiles({ ca: clientCa, cert: undefined, key: undefined }, Date.now());
  const wrong = findings.find(({ isHarmless, isOutdated }) => !isHarmless && !isOutdated);
  if (wrong) {
    throw new Error(`${clientCaFile ?? ''}: ${wrong.message} (${wrong.remedy})`);
  }
  return { cert, key, clientCa };
}

function isSame(a: TlsMaterial, b: TlsMaterial): boolean {
  return (
    a.cert.equals(b.cert) &&
    a.key.equals(b.key) &&
    (a.clientCa === b.clientCa || (a.clientCa?.equals(b.clientCa ?? Buffer.alloc(0)) ?? false))
  );
}
