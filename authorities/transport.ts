/** The port to a management server: bytes in, bytes out, one attempt at a time. */
import type { GrpcSourceSpec } from '../config/model.js';
import type { StreamEnd } from './core/sources/source-health.js';

export interface AttemptHandlers {
  onMessage(bytes: Uint8Array): void;
  /** Exactly once, unless `cancel` was called first. */
  onEnd(end: StreamEnd): void;
}

/** One connection with one delta ADS stream on it. */
export interface Attempt {
  send(bytes: Uint8Array): void;
  /**
   * Asks for a sign of life on the same connection: any answer is one, "unimplemented" too.
   *
   * @returns false only if nothing came within `timeoutMs`.
   */
  probe(timeoutMs: number): Promise<boolean>;
  /** Ends the stream and closes the connection; no handler is called any more. */
  cancel(): void;
}

export interface Transport {
  /**
   * Connects and opens the stream. Never throws: what cannot be opened ends.
   * Credentials and secrets are read from their files each time.
   */
  dial(source: GrpcSourceSpec, handlers: AttemptHandlers): Attempt;
}
