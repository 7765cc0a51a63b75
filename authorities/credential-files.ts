/**
 * Watches the credential files of a refused source: certificates, key, secrets of its initial
 * metadata. Each attempt reads them anew; a change is the reason for another attempt. Contents are
 * compared at short intervals, which detects every kind of replacement: renaming, links
 * (Kubernetes), writing in place.
 */
import { createHash } from 'node:crypto';
import type { GrpcSourceSpec } from '../config/model.js';
import { readRegularFile } from '../config/regular-file.js';
import type { DialIdentity } from './core/sources/client-identity.js';
import { identityFilesOf } from './identity-files.js';

const INTERVAL_MS = 5_000;

export class CredentialFiles {
  readonly #paths: readonly string[];
  readonly #onChanged: () => void;
  #used = '';
  #timer: NodeJS.Timeout | undefined;

  /** @param onChanged called once after each `watch`, when the files change. */
  constructor(spec: GrpcSourceSpec, identity: DialIdentity, onChanged: () => void) {
    const { tls, initialMetadata } = spec;
    this.#paths = [
      ...identityFilesOf(spec, identity).flatMap(({ cert, key }) => [cert, key]),
      tls?.rootCertsFile,
      tls?.privateKeyFile,
      tls?.certChainFile,
      ...initialMetadata.map(({ valueFile }) => valueFile),
    ].filter((path) => path !== undefined);
    this.#onChanged = onChanged;
  }

  /** Call this before an attempt reads the files. */
  noteUsed(): void {
    this.close();
    this.#used = digestOf(this.#paths);
  }

  /** Call this after the source refused the attempt. */
  watch(): void {
    this.close();
    if (this.#paths.length === 0) return;
    this.#timer = setInterval(() => {
      this.refresh();
    }, INTERVAL_MS);
    this.#timer.unref();
  }

  /** Compares the files now. */
  refresh(): void {
    if (this.#timer === undefined || digestOf(this.#paths) === this.#used) return;
    this.close();
    this.#onChanged();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

/**
 * A digest of the contents, so that secrets are kept in memory no longer than an attempt needs
 * them.
 */
function digestOf(paths: readonly string[]): string {
  const hash = createHash('sha256');
  for (const path of paths) hash.update(contentDigest(path));
  return hash.digest('hex');
}

function contentDigest(path: string): Buffer {
  const hash = createHash('sha256');
  try {
    hash.update(readRegularFile(path));
  } catch {
    // A missing file; that it appears later is a change too.
    hash.update(path);
  }
  return hash.digest();
}
