/**
 * The files that a source is dialled with: certificates, key, secrets of its initial metadata. Each
 * attempt reads them anew; this tells when a refused source has others to be tried with. They are
 * compared by content in short intervals, which sees every way of replacing them: renaming, links
 * (Kubernetes), writing in place.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { GrpcSourceSpec } from '../config/model.js';

const INTERVAL_MS = 5_000;

export class CredentialFiles {
  readonly #paths: readonly string[];
  readonly #onChanged: () => void;
  #used = '';
  #timer: NodeJS.Timeout | undefined;

  /** @param onChanged called once after each `watch` whose files change. */
  constructor({ tls, initialMetadata }: GrpcSourceSpec, onChanged: () => void) {
    this.#paths = [
      tls?.rootCertsFile,
      tls?.privateKeyFile,
      tls?.certChainFile,
      ...initialMetadata.map(({ valueFile }) => valueFile),
    ].filter((path) => path !== undefined);
    this.#onChanged = onChanged;
  }

  /** An attempt is about to read the files. */
  noteUsed(): void {
    this.close();
    this.#used = digestOf(this.#paths);
  }

  /** The attempt was refused. */
  watch(): void {
    this.close();
    if (this.#paths.length === 0) return;
    this.#timer = setInterval(() => {
      this.refresh();
    }, INTERVAL_MS);
    this.#timer.unref();
  }

  /** Reads the files now. */
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

/** Of the contents: nobody is to keep secrets longer than an attempt needs them. */
function digestOf(paths: readonly string[]): string {
  const hash = createHash('sha256');
  for (const path of paths) hash.update(contentDigest(path));
  return hash.digest('hex');
}

function contentDigest(path: string): Buffer {
  const hash = createHash('sha256');
  try {
    hash.update(readFileSync(path));
  } catch {
    // It may come, or come back; that is a change like others.
    hash.update(path);
  }
  return hash.digest();
}
