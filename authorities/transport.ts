/** The port to management servers: sends and receives bytes, one attempt at a time. */
import type { GrpcSourceSpec } from '../config/model.js';
import type { StreamRequest } from './core/sources/source-stream.js';
import type { StreamEnd } from './core/sources/source-health.js';

export interface AttemptHandlers {
  onMessage(bytes: Uint8Array): void;
  /** A source with one stream per type does not serve this one; the others go on. */
  onTypeUnserved(typeUrl: string, reason: string): void;
  /** Exactly once, unless `cancel` was called first. */
  onEnd(end: StreamEnd): void;
}

/** One connection with one ADS stream on it, or with one stream per type. */
export interface Attempt {
  send(request: StreamRequest): void;
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
