/**
 * Reads length-prefixed messages (gRPC over HTTP/2, "Length-Prefixed-Message") from chunks that are
 * split anywhere.
 */
import { CollectedBytes } from '../../protos/collected-bytes.js';
import { STATUS_CODE, type RpcStatus } from '../../protos/discovery.js';

/** Compressed-Flag (1 byte) and Message-Length (4 bytes, big endian). */
export const PREFIX_BYTES = 5;

const CUT_OFF: RpcStatus = {
  code: STATUS_CODE.internal,
  message: 'the stream ended within a message',
};

/** The gateway refuses each `grpc-encoding` but identity, so the flag is never right (gRPC compression.md). */
const COMPRESSED: RpcStatus = {
  code: STATUS_CODE.internal,
  message: 'the Compressed-Flag is set, but the stream has no grpc-encoding',
};

export class MessageReader {
  readonly #maxBytes: number;
  /** Bytes read of the prefix of the current message. */
  #prefixBytes = 0;
  #flag = 0;
  /** The announced length of the current message. */
  #length = 0;
  /** The first bytes of the current message. */
  readonly #held = new CollectedBytes();
  #failure: RpcStatus | undefined;
  #rest: Buffer | undefined;

  /** @param maxBytes the gateway refuses a message that announces more, before it keeps any of it */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The announced length of the incomplete message; undefined: there is none; 0: the length is not known yet. Bytes. */
  get partialLength(): number | undefined {
    return this.#prefixBytes === 0
      ? undefined
      : this.#prefixBytes < PREFIX_BYTES
        ? 0
        : this.#length;
  }

  /** Bytes of memory that the reader keeps of an incomplete message. */
  get bufferBytes(): number {
    return this.#held.bufferBytes;
  }

  /**
   * @param take receives each complete message. It may be a view of `chunk`: copy what you keep.
   * @param isPaused asked after each message: whether the rest of the chunk has to wait. Then call `takeRest`
   * @returns the error of the stream, if it has one; the reader ignores all later chunks
   */
  push(
    chunk: Buffer,
    take: (message: Buffer) => void,
    isPaused: () => boolean = () => false,
  ): RpcStatus | undefined {
    let at = 0;
    while (at < chunk.length) {
      if (at > 0 && this.#prefixBytes === 0 && isPaused()) {
        this.#rest = chunk.subarray(at);
        return undefined;
      }
      const wholeBytes = this.#wholeAt(chunk, at);
      if (wholeBytes !== undefined) {
        const end = at + PREFIX_BYTES + wholeBytes;
        take(chunk.subarray(at + PREFIX_BYTES, end));
        at = end;
        continue;
      }
      at += this.#readPrefix(chunk, at);
      if (this.#failure || this.#prefixBytes < PREFIX_BYTES) return this.#failure;
      at += this.#readBody(chunk, at, take);
    }
    return undefined;
  }

  /** What waits of the last chunk, to be pushed again; undefined: nothing. */
  takeRest(): Buffer | undefined {
    const rest = this.#rest;
    this.#rest = undefined;
    return rest;
  }

  /** The client ended its side. @returns the error if a message is incomplete. */
  end(): RpcStatus | undefined {
    if (this.#prefixBytes > 0) this.#failure ??= CUT_OFF;
    return this.#failure;
  }

  /**
   * Nearly every message of a client in sync is the whole of one chunk, so this path is short.
   *
   * @returns the length of the message that begins and ends in the chunk; undefined: none does, or the
   * prefix is refused
   */
  #wholeAt(chunk: Buffer, at: number): number | undefined {
    const leftBytes = chunk.length - at - PREFIX_BYTES;
    if (this.#prefixBytes > 0 || this.#failure || leftBytes < 0 || chunk[at] !== 0)
      return undefined;
    const bytes = chunk.readUInt32BE(at + 1);
    return bytes <= leftBytes && bytes <= this.#maxBytes ? bytes : undefined;
  }

  /** @returns the number of bytes read. */
  #readPrefix(chunk: Buffer, at: number): number {
    const bytes = Math.min(PREFIX_BYTES - this.#prefixBytes, chunk.length - at);
    for (const byte of chunk.subarray(at, at + bytes)) {
      if (this.#prefixBytes++ === 0) this.#flag = byte;
      else this.#length = this.#length * 256 + byte;
    }
    if (bytes > 0 && this.#prefixBytes === PREFIX_BYTES) this.#checkPrefix();
    return bytes;
  }

  #checkPrefix(): void {
    if (this.#flag !== 0) {
      this.#failure = COMPRESSED;
    } else if (this.#length > this.#maxBytes) {
      this.#failure = {
        code: STATUS_CODE.resourceExhausted,
        message: `a message of ${this.#length} bytes exceeds the limit of ${this.#maxBytes} (limits.max_request)`,
      };
    }
  }

  /** @returns the number of bytes read. */
  #readBody(chunk: Buffer, at: number, take: (message: Buffer) => void): number {
    const bytes = Math.min(this.#length - this.#held.length, chunk.length - at);
    const part = chunk.subarray(at, at + bytes);
    const isWhole = bytes === this.#length;
    if (!isWhole) this.#held.append(part, this.#length);
    if (!isWhole && this.#held.length < this.#length) return bytes;
    const message = isWhole ? part : this.#held.take();
    this.#prefixBytes = 0;
    this.#length = 0;
    take(message);
    return bytes;
  }
}
