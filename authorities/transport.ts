/** The port to management servers: sends and receives bytes, one attempt at a time. */
import type { GrpcSourceSpec } from '../config/model.js';
import { STATUS_CODE } from '../protos/discovery.js';
import type { DialIdentity } from './core/sources/client-identity.js';
import type { StreamRequest } from './core/sources/source-stream.js';
import type { StreamEnd } from './core/sources/source-health.js';

export interface AttemptHandlers {
  onMessage(bytes: Uint8Array): void;
  /** The source answered that it has nothing new (REST). */
  onAlive(): void;
  /** A source with one stream per type does not serve this one; the others go on. */
  onTypeUnserved(typeUrl: string, reason: string): void;
  /** It takes requests: the source is connected, or has read what `onBlocked` reported. */
  onWritable(): void;
  /**
   * Requests wait that the source does not read: the caller should send no more until `onWritable`. The
   * transport loses none that are sent nevertheless.
   */
  onBlocked(): void;
  /** Exactly once, unless `cancel` was called first. */
  onEnd(end: StreamEnd): void;
}

/** A stream of load reports (LRS) beside the ADS stream. */
export interface LoadCall {
  /**
   * @param onWritten called when the transport has taken the bytes and can take more; not after `onEnd`,
   * `end` or the attempt's `cancel`. grpc-js takes up to 1 MiB before the connection does.
   */
  send(bytes: Uint8Array, onWritten: () => void): void;
  /**
   * Ends the stream after all that was sent; calls no other handler afterwards.
   *
   * @param onOver called once, when the server has ended it too or the connection is gone
   */
  end(onOver: () => void): void;
}

export interface LoadCallHandlers {
  onMessage(bytes: Uint8Array): void;
  /** Exactly once, unless `end` was called first, or the attempt was cancelled. */
  onEnd(end: StreamEnd): void;
}

/**
 * One ADS stream, one stream per type, or polls (REST). Attempts of several node groups may share a connection,
 * but an attempt keeps the one that it has.
 */
export interface Attempt {
  /** Only after `onWritable`. */
  send(request: StreamRequest): void;
  /** Reads no more messages until `resume`; some may still come. Absent: the source sends only what it is asked for. */
  pause?(): void;
  resume?(): void;
  /**
   * Sends a liveness probe on its connection; any response counts, UNIMPLEMENTED included.
   *
   * @returns false only if no response came within `timeoutMs`.
   */
  probe(timeoutMs: number): Promise<boolean>;
  /**
   * Opens a stream of load reports on the same connection, with the same metadata. Its end leaves the
   * attempt alone. Never throws: if the stream cannot be opened, `onEnd` is called. Absent: this
   * transport has no load reports.
   */
  reportLoads?(handlers: LoadCallHandlers): LoadCall;
  /** Ends all its streams, and the connection if it has no other user; calls no handler afterwards. */
  cancel(): void;
}

export interface Transport {
  /**
   * Connects and opens the stream. Never throws: if the stream cannot be opened, `onEnd` is called. Calls
   * no handler before it returns.
   * Reads credentials and secrets from their files each time.
   *
   * @param identity of the clients for which the stream is open. Its values, and the contents of secret
   * files, are in no error, even if the source repeats them.
   */
  dial(source: GrpcSourceSpec, identity: DialIdentity, handlers: AttemptHandlers): Attempt;
}

/**
 * An attempt that failed before it began: unreadable credentials, or an invalid target. Both may be
 * mended, so the next attempt may succeed.
 */
export function failedAttempt(error: unknown, { onEnd }: Pick<AttemptHandlers, 'onEnd'>): Attempt {
  const message = error instanceof Error ? error.message : String(error);
  queueMicrotask(() => {
    onEnd({ code: STATUS_CODE.unavailable, message, detectedBy: 'stream' });
  });
  return {
    send: () => undefined,
    probe: () => Promise.resolve(true),
    cancel: () => undefined,
  };
}
