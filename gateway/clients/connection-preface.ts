/**
 * Tells HTTP/2 from HTTP/1.1 by the first bytes of a connection: each HTTP/2 connection begins with the same
 * preface (RFC 9113, 3.4). An HTTP/1.1 request cannot begin with it: no method is "PRI".
 */
import type { Socket } from 'node:net';

/** The part of the preface that decides. */
const PREFACE = Buffer.from('PRI');
const NOTHING = Buffer.alloc(0);

export interface PrefaceOptions {
  /** The connection is closed when its first bytes take longer. Milliseconds. */
  readonly withinMs: number;
  /** Not called for a connection that closes before. The bytes stay in the socket. */
  readonly onDecided: (protocol: 'http1' | 'http2') => void;
  /** `onDecided` threw; the connection is closed. */
  readonly onError: (error: unknown) => void;
}

export function readPreface(
  socket: Socket,
  { withinMs, onDecided, onError }: PrefaceOptions,
): void {
  const timer = setTimeout(() => {
    socket.destroy();
  }, withinMs).unref();
  let seen: Buffer = NOTHING;
  const forget = (): void => {
    clearTimeout(timer);
    socket.off('readable', look);
    socket.off('close', forget);
  };
  const look = (): void => {
    try {
      const chunk = socket.read() as Buffer | null;
      if (chunk === null) return;
      // Nearly always the first chunk decides. A copy of it would cost most of the turn in a storm.
      seen = seen.length === 0 ? chunk : Buffer.concat([seen, chunk]);
      const start = seen.subarray(0, PREFACE.length);
      const isPreface = PREFACE.subarray(0, start.length).equals(start);
      if (isPreface && start.length < PREFACE.length) return;
      forget();
      socket.unshift(seen);
      onDecided(isPreface ? 'http2' : 'http1');
    } catch (error) {
      onError(error);
      socket.destroy();
    }
  };
  socket.on('readable', look);
  socket.on('close', forget);
  look();
}
