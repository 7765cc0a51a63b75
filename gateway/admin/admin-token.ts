/** The token that requests to the admin server must carry (RFC 6750, 2.1), from a file that may change. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { adminTokenIn } from '../../config/listener-secrets.js';
import { readNamedFile } from '../../config/unreadable-file.js';
import { Reread } from '../reread.js';

/** The file is read again when the last reading is older. */
const REREAD_AFTER_MS = 1_000;
const MAX_TOKEN_BYTES = 16 * 1_024;

export class AdminToken {
  readonly #file: string;
  /** Milliseconds, monotonic. */
  readonly #clock: () => number;
  readonly #reread: Reread;
  #digest: Buffer;
  #readAtMs: number;

  /**
   * @param onRefused called once per reason when the file cannot be used any more, until it can: the last token stays
   * @throws Error with the reason when the file is unreadable or empty
   */
  constructor(file: string, clock: () => number, onRefused: (reason: string) => void) {
    this.#file = file;
    this.#clock = clock;
    this.#reread = new Reread(onRefused);
    this.#digest = digestIn(file);
    this.#readAtMs = clock();
  }

  /** @param authorization the header of a request */
  allows(authorization: string | undefined): boolean {
    const token = /^bearer +(\S+) *$/i.exec(authorization ?? '')?.[1];
    return token !== undefined && this.isToken(token);
  }

  isToken(token: string): boolean {
    // Digests have one length, as the comparison in constant time needs.
    return timingSafeEqual(digestOf(token), this.digest);
  }

  /** Of the token that is valid now. */
  get digest(): Buffer {
    this.#readAgain();
    return this.#digest;
  }

  #readAgain(): void {
    const nowMs = this.#clock();
    if (nowMs - this.#readAtMs < REREAD_AFTER_MS) return;
    this.#readAtMs = nowMs;
    this.#reread.attempt(() => {
      this.#digest = digestIn(this.#file);
    });
  }
}

function digestIn(file: string): Buffer {
  let text: string;
  try {
    text = readNamedFile(file, MAX_TOKEN_BYTES).toString();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`admin.token_file ${reason}`, { cause: error });
  }
  const token = adminTokenIn(text);
  if (!token.ok) throw new Error(`admin.token_file ${file}: ${token.words} (${token.remedy})`);
  return digestOf(token.value);
}

const digestOf = (token: string): Buffer => createHash('sha256').update(token).digest();
