/**
 * One call of the gRPC server: a bidirectional stream of messages, which stay bytes here. Each callback
 * of Node runs in `#guard`, because an exception in one of them would end the process.
 */
import { constants, type OutgoingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import type { ClientCertificate } from '../../authorities/index.js';
import { sizeOf, type Chunks } from '../../protos/discovery-fields.js';
import { STATUS_CODE, type RpcStatus } from '../../protos/discovery.js';
import { INTERNAL_ERROR } from './call-statuses.js';
import { RESPONSE_HEADERS, trailersOf, trailersOnly, type CallHeaders } from './grpc-headers.js';
import type { Quotas } from '../core/quotas/quotas.js';
import { PartialRequest } from './partial-request.js';
import { MessageReader, PREFIX_BYTES } from './message-reader.js';

export interface CallLimits {
  /** The largest message that the server accepts. Bytes. */
  readonly maxMessageBytes: number;
  /** Bytes of messages that wait for the client to read. With more, `write` returns false. */
  readonly writeAheadBytes: number;
}

/** The connection of a call. */
export interface CallConnection {
  /** The verified certificate of the client; undefined: none. */
  readonly certificate: ClientCertificate | undefined;
  /** Once the connection is closed: why the client left. */
  readonly closeReason: string;
}

export interface CallOptions extends CallLimits {
  /** The address of the client. */
  readonly peer: string;
  /** The key of the account of its quotas: its identity, else its address without the port. */
  readonly quotaKey: string;
  readonly quotas: Quotas;
  readonly socket: Socket;
  readonly connection: CallConnection;
  /** A handler threw: the call ends, the process continues. */
  readonly onError: (error: unknown) => void;
}

export interface CallHandlers {
  /** @param bytes valid during this callback only: copy what you keep. */
  onMessage(bytes: Buffer): void;
  /** The client has read enough for the next `write`. */
  onDrain(): void;
  /** The client sends no more messages. */
  onEnd(): void;
  /**
   * The call is over. Also called after `end`, and twice if the server fails the call and the stream then closes.
   *
   * @param code of the status with which the gateway ended it
   */
  onClosed(reason: string, code?: number): void;
}

/** A method answers a new call with handlers, or with a refusal. */
export interface Method {
  /**
   * @param quotaKey see `CallOptions`
   * @returns the status that ends the call at once; undefined: call `open`
   */
  refusal(quotaKey: string): RpcStatus | undefined;
  /** The call must not be used before this returns. */
  open(call: GrpcCall): CallHandlers;
}

/** How long a client may hold a stream before its first message. Milliseconds. */
const FIRST_MESSAGE_WITHIN_MS = 10_000;

/**
 * If the first response takes longer than this, the server sends the headers without it: some clients give up a call that has no
 * headers (tonic's `timeout`). Milliseconds.
 */
const HEADERS_WITHIN_MS = 1_000;

/** How long a client may take to read the rest of a call that has ended. Milliseconds. */
const LAST_READ_WITHIN_MS = 10_000;

/** The longest time of a timer of Node; a later deadline (24 days) is none. Milliseconds. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The server copies a smaller message behind its prefix, since one buffer costs less than two. Bytes. */
const COPIED_BYTES = 16_384;

/** The memory of an unread message beside its bytes, so that tiny ones are bounded too. Bytes. */
const UNREAD_MESSAGE_COST_BYTES = 512;

// `sendDate` is missing in the types of Node.
const RESPONSE_OPTIONS = { waitForTrailers: true, sendDate: false };
const RESPONSE_ONLY = { endStream: true, sendDate: false };

export function startCall(
  stream: ServerHttp2Stream,
  headers: CallHeaders,
  options: CallOptions,
  method: Method,
): void {
  const refusal = method.refusal(options.quotaKey);
  if (refusal) respondOnly(stream, trailersOnly(refusal));
  else new GrpcCall(stream, headers, options, method).start();
}

export class GrpcCall {
  readonly userAgent: string;
  readonly #stream: ServerHttp2Stream;
  readonly #options: CallOptions;
  readonly #handlers: CallHandlers;
  readonly #reader: MessageReader;
  readonly #timeoutMs: number;
  #rawHeaders: readonly string[];
  #deadline: NodeJS.Timeout | undefined;
  #hasRequest = false;
  /** Until the first message, then until the headers are due, and from the end of the call until the client has read all of it. */
  #timer: NodeJS.Timeout | undefined;
  #pauses = 0;
  #partial: PartialRequest | undefined;
  #trailers: OutgoingHttpHeaders | undefined;
  #aheadBytes = 0;

  constructor(
    stream: ServerHttp2Stream,
    headers: CallHeaders,
    options: CallOptions,
    method: Method,
  ) {
    this.#stream = stream;
    this.#options = options;
    this.userAgent = headers.userAgent;
    this.#timeoutMs = headers.timeoutMs;
    this.#reader = new MessageReader(options.maxMessageBytes);
    this.#rawHeaders = headers.rawHeaders;
    this.#handlers = method.open(this);
    // Some are secrets, and the stream may live for days.
    this.#rawHeaders = [];
  }

  start(): void {
    const stream = this.#stream;
    // Present: the method has refused the call.
    if (!this.#trailers) this.#startTimers();
    stream.on('data', (chunk: Buffer) => {
      // Without `#guard`, which costs a closure for each message of each client.
      try {
        this.#take(chunk);
      } catch (error) {
        this.#failInternally(error);
      }
    });
    stream.on('end', () => {
      this.#guard(() => {
        this.#takeEnd();
      });
    });
    stream.on('wantTrailers', () => {
      this.#guard(() => {
        this.#sendTrailers();
      });
    });
    stream.on('close', () => {
      this.#guard(() => {
        this.#takeClose();
      });
    });
  }

  #startTimers(): void {
    this.#timer = this.#failAfter(FIRST_MESSAGE_WITHIN_MS, 'the client sent no message in time');
    if (this.#timeoutMs <= MAX_TIMER_MS) {
      this.#deadline = this.#failAfter(this.#timeoutMs, 'the deadline of the call has passed');
    }
  }

  /** The socket of the connection, to learn of its client. */
  get socket(): Socket {
    return this.#options.socket;
  }

  get peer(): string {
    return this.#options.peer;
  }

  /** The IP address of the client, without the port; empty once the connection is closed. */
  get address(): string {
    return this.#options.socket.remoteAddress ?? '';
  }

  get quotaKey(): string {
    return this.#options.quotaKey;
  }

  /**
   * Reads no more of the client, which can then send no more than its window, until `readOn` was called
   * as often as this.
   */
  pauseReading(): void {
    if (this.#pauses++ === 0 && !this.#trailers) this.#stream.pause();
  }

  /** The client is not read. The message that caused it was the last one. */
  get isPaused(): boolean {
    return this.#pauses > 0;
  }

  readOn(): void {
    if (--this.#pauses === 0) this.#stream.resume();
  }

  goAway(): void {
    this.#stream.session?.close();
  }

  get certificate(): ClientCertificate | undefined {
    return this.#options.connection.certificate;
  }

  /** @param key in lower case. @returns nothing once the call is open */
  headerValues(key: string): readonly string[] {
    return valuesIn(this.#rawHeaders, key);
  }

  /** The same, for use after the call is open. Let it go soon: some headers are secrets. */
  keepHeaders(): (key: string) => readonly string[] {
    const raw = this.#rawHeaders;
    return (key) => valuesIn(raw, key);
  }

  /**
   * Reads no message of the client until `ready` settles. Only while the call opens.
   *
   * @param ready does not reject
   * @param then it has the headers again. Not called if the call is over by then
   */
  holdUntil<T>(ready: Promise<T>, then: (value: T) => void): void {
    const stream = this.#stream;
    const rawHeaders = this.#rawHeaders;
    // Before the first 'data' listener, so that nothing is read.
    this.pauseReading();
    void ready.then((value) => {
      this.#guard(() => {
        if (this.#trailers || stream.destroyed || stream.closed) return;
        this.#rawHeaders = rawHeaders;
        then(value);
        this.#rawHeaders = [];
        this.readOn();
      });
    });
  }

  /** @returns false when the caller must wait for `onDrain` before the next write. */
  write(message: Chunks): boolean {
    const stream = this.#stream;
    // Its close is about to be reported.
    if (stream.destroyed || stream.closed) return false;
    if (!stream.headersSent) this.#sendHeaders();
    if (stream.writableLength === 0) this.#aheadBytes = 0;
    const size = sizeOf(message);
    this.#aheadBytes += size + UNREAD_MESSAGE_COST_BYTES;
    const isOpen = this.#aheadBytes <= this.#options.writeAheadBytes;
    const onWritten = isOpen ? undefined : this.#handleWritten;
    const [only] = message;
    if (only && message.length === 1 && size < COPIED_BYTES) {
      stream.write(framed(only), onWritten);
    } else {
      const prefix = Buffer.allocUnsafe(PREFIX_BYTES);
      writePrefix(prefix, size);
      // All in one write: each chunk would otherwise wait until the one before is on its way.
      stream.cork();
      stream.write(prefix);
      message.forEach((chunk, at) => {
        stream.write(chunk, at === message.length - 1 ? onWritten : undefined);
      });
      stream.uncork();
    }
    return isOpen;
  }

  /** Ends the call after all written messages; `undefined` is OK. */
  end(status: RpcStatus | undefined): void {
    const stream = this.#stream;
    if (this.#trailers) return;
    this.#trailers = trailersOf(status);
    this.#endPartial();
    clearTimeout(this.#deadline);
    clearTimeout(this.#timer);
    if (stream.destroyed || stream.closed) return;
    // What the client still sends is dropped. Unread, it would keep Node from ever reporting the close.
    stream.resume();
    this.#timer = setTimeout(() => {
      stream.close(constants.NGHTTP2_CANCEL);
    }, LAST_READ_WITHIN_MS).unref();
    if (stream.headersSent) {
      stream.end();
    } else {
      respondOnly(stream, trailersOnly(status));
    }
  }

  #take(chunk: Buffer): void {
    if (this.#trailers) return;
    const failure = this.#reader.push(chunk, this.#takeMessage, this.#holdsRest);
    if (failure) {
      this.#fail(failure);
      return;
    }
    // One chunk may have hundreds of messages, and each would wait for its turn by itself.
    const rest = this.#reader.takeRest();
    if (rest) this.#stream.unshift(rest);
    else this.#notePartial();
  }

  readonly #holdsRest = (): boolean => this.isPaused && !this.#trailers;

  #notePartial(): void {
    const { partialLength } = this.#reader;
    if (partialLength === undefined || this.#trailers) return;
    // Of a prefix that came in parts, the length is known later.
    if (this.#partial?.length === partialLength) return;
    this.#endPartial();
    this.#partial = new PartialRequest(
      {
        account: this.#options.quotas.account(this.#options.quotaKey),
        isPaused: () => this.isPaused,
        pauseReading: () => {
          this.pauseReading();
        },
        readOn: () => {
          this.readOn();
        },
        onTooSlow: (status) => {
          this.#guard(() => {
            this.#fail(status);
          });
        },
      },
      partialLength,
    );
  }

  #endPartial(): void {
    this.#partial?.end();
    this.#partial = undefined;
  }

  readonly #takeMessage = (message: Buffer): void => {
    this.#endPartial();
    if (this.#trailers) return;
    if (!this.#hasRequest) this.#takeRequest();
    this.#handlers.onMessage(message);
  };

  #takeRequest(): void {
    this.#hasRequest = true;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      const stream = this.#stream;
      if (stream.headersSent || stream.destroyed || stream.closed) return;
      this.#guard(() => {
        this.#sendHeaders();
      });
    }, HEADERS_WITHIN_MS).unref();
  }

  #sendHeaders(): void {
    this.#stream.respond(RESPONSE_HEADERS, RESPONSE_OPTIONS);
  }

  #takeEnd(): void {
    if (this.#trailers) return;
    const failure = this.#reader.end();
    if (failure) this.#fail(failure);
    else this.#handlers.onEnd();
  }

  #takeClose(): void {
    this.#endPartial();
    clearTimeout(this.#deadline);
    clearTimeout(this.#timer);
    this.#handlers.onClosed(this.#options.connection.closeReason);
  }

  /** The callback of the last write: the socket has taken all messages. */
  readonly #handleWritten = (): void => {
    if (this.#trailers || this.#stream.destroyed) return;
    this.#guard(() => {
      this.#handlers.onDrain();
    });
  };

  #sendTrailers(): void {
    this.#stream.sendTrailers(this.#trailers ?? trailersOf(undefined));
    // After the trailers, which Node sends in the next turn.
    setImmediate(release, this.#stream);
  }

  #failAfter(ms: number, message: string): NodeJS.Timeout {
    return setTimeout(() => {
      this.#guard(() => {
        this.#fail({ code: STATUS_CODE.deadlineExceeded, message });
      });
    }, ms).unref();
  }

  #fail(status: RpcStatus): void {
    this.end(status);
    this.#handlers.onClosed(status.message, status.code);
  }

  #guard(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#failInternally(error);
    }
  }

  #failInternally(error: unknown): void {
    this.#options.onError(error);
    this.end(INTERNAL_ERROR);
  }
}

const valuesIn = (raw: readonly string[], key: string): readonly string[] =>
  raw.flatMap((name, index) =>
    index % 2 === 0 && name.toLowerCase() === key ? [raw[index + 1] ?? ''] : [],
  );

/** The message that was framed last: one change goes to a thousand clients as the same buffer. */
const latest: { message: Buffer; framed: Buffer } = {
  message: Buffer.alloc(0),
  framed: Buffer.alloc(0),
};

/** @returns the message behind its prefix; the same buffer for all clients that are sent it one after the other */
function framed(message: Buffer): Buffer {
  if (latest.message === message) return latest.framed;
  const framed = Buffer.allocUnsafe(PREFIX_BYTES + message.length);
  writePrefix(framed, message.length);
  message.copy(framed, PREFIX_BYTES);
  latest.message = message;
  latest.framed = framed;
  return framed;
}

function writePrefix(buffer: Buffer, messageBytes: number): void {
  buffer[0] = 0;
  buffer.writeUInt32BE(messageBytes, 1);
}

/** A response without messages. */
export function respondOnly(stream: ServerHttp2Stream, headers: OutgoingHttpHeaders): void {
  stream.respond(headers, RESPONSE_ONLY);
  setImmediate(release, stream);
}

/**
 * Lets the client's side of the stream go: the client may never end it (PROTOCOL-HTTP2.md, "Early Server
 * Closure").
 */
function release(stream: ServerHttp2Stream): void {
  if (!stream.destroyed) stream.close(constants.NGHTTP2_NO_ERROR);
}
