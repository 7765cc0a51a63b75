/** The port to management servers: sends and receives bytes, one attempt at a time. */
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
   * Sends a liveness probe on the same connection; any response counts, UNIMPLEMENTED included.
   *
   * @returns false only if no response came within `timeoutMs`.
   */
  probe(timeoutMs: number): Promise<boolean>;
  /** Ends the stream and closes the connection; calls no handler afterwards. */
  cancel(): void;
}

export interface Transport {
  /**
   * Connects and opens the stream. Never throws: if the stream cannot be opened, `onEnd` is called.
   * Reads credentials and secrets from their files each time.
   */
  dial(source: GrpcSourceSpec, handlers: AttemptHandlers): Attempt;
}
