/**
 * Reads the first bytes of a connection, which tell HTTP/2 from HTTP/1.1: each HTTP/2 connection begins with the same
 * preface (RFC 9113, 3.4). An HTTP/1.1 request cannot begin with it: no method is "PRI".
 */
import type { Socket } from 'node:net';

/** The part of the preface that decides. */
const PREFACE = Buffer.from('PRI');
const NOTHING = Buffer.alloc(0);

export type Protocol = 'http1' | 'http2';

/** @returns undefined: further bytes decide */
export function protocolOf(firstBytes: Buffer): Protocol | undefined {
  const start = firstBytes.subarray(0, PREFACE.length);
  if (!PREFACE.subarray(0, start.length).equals(start)) return 'http1';
  return start.length < PREFACE.length ? undefined : 'http2';
}

/** The whole preface, and the head of a frame: its length in 3 bytes, type, flags and stream (RFC 9113, 4.1). Bytes. */
const PREFACE_LENGTH = 24;
const FRAME_HEAD_LENGTH = 9;

/**
 * Frames that come with the preface. Node handles all of them in one turn of the event loop, and makes an error of each bad one:
 * 3,800 PING frames that acknowledge nothing kept it for up to 100 ms. A client that opens 100 streams with 25 requests each
 * stays below. A count.
 */
const MAX_FIRST_FRAMES = 3_000;

/**
 * RST_STREAM frames that come with the preface. Node makes a stream for each: 1,000 kept the event loop for up to 100 ms. No
 * client needs to reset a stream that it has just opened. A count.
 */
const MAX_FIRST_RESETS = 100;
const RESET_STREAM = 3;

/** @param firstBytes of an HTTP/2 connection, with the preface */
export function isFlood(firstBytes: Buffer): boolean {
  let frames = 0;
  let resets = 0;
  for (let at = PREFACE_LENGTH; at + FRAME_HEAD_LENGTH <= firstBytes.length; frames++) {
    if (firstBytes[at + 3] === RESET_STREAM) resets++;
    at += FRAME_HEAD_LENGTH + firstBytes.readUIntBE(at, 3);
  }
  return frames > MAX_FIRST_FRAMES || resets > MAX_FIRST_RESETS;
}

export interface PrefaceOptions<Kind> {
  /** The connection is closed when its first bytes take longer. Milliseconds. */
  readonly withinMs: number;
  /** Tells by the first bytes, at least one, what the connection is; undefined: further bytes decide. */
  readonly kindOf: (firstBytes: Buffer) => Kind | undefined;
  /** Not called for a connection that closes before. The bytes stay in the socket. */
  readonly onDecided: (kind: Kind) => void;
  /** `onDecided` threw; the connection is closed. */
  readonly onError: (error: unknown) => void;
}

export function readPreface<Kind>(
  socket: Socket,
  { withinMs, kindOf, onDecided, onError }: PrefaceOptions<Kind>,
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
      let kind: Kind | undefined;
      while (kind === undefined) {
        // Since Node.js 26, one of several chunks that wait.
        const chunk = socket.read() as Buffer | null;
        if (chunk === null) return;
        // Nearly always the first chunk decides. A copy of it would cost most of the turn in a storm.
        seen = seen.length === 0 ? chunk : Buffer.concat([seen, chunk]);
        kind = kindOf(seen);
      }
      forget();
      socket.unshift(seen);
      onDecided(kind);
    } catch (error) {
      onError(error);
      socket.destroy();
    }
  };
  socket.on('readable', look);
  socket.on('close', forget);
  look();
}
