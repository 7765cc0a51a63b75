/**
 * Writes to a gRPC call, with backpressure by bytes. grpc-js applies backpressure at 16 messages of any
 * size. With chunks of 2 MiB, each client that does not read would cost 32 MiB, so the writer counts the
 * bytes of large messages too. This does not slow down a client that reads: a message counts as written
 * when its last byte is in the buffer of the socket.
 */

/** The part of a gRPC call that the writer uses. */
export interface WritableCall {
  write(bytes: Buffer, onWritten?: () => void): boolean;
  readonly writableNeedDrain: boolean;
}

/** For smaller messages the bound of grpc-js by number is enough. */
const LARGE_MESSAGE_BYTES = 16_384;

export class CallWriter {
  readonly #call: WritableCall;
  readonly #maxUnreadBytes: number;
  readonly #onDrain: () => void;
  #unreadBytes = 0;
  #blocked = false;

  /** @param maxUnreadBytes bound for unread bytes of large messages; above it `write` returns false */
  constructor(call: WritableCall, maxUnreadBytes: number, onDrain: () => void) {
    this.#call = call;
    this.#maxUnreadBytes = maxUnreadBytes;
    this.#onDrain = onDrain;
  }

  /** @returns false when the caller must wait for `onDrain` before the next write. */
  write(bytes: Buffer): boolean {
    if (bytes.length < LARGE_MESSAGE_BYTES) return this.#call.write(bytes) && !this.#blocked;
    this.#unreadBytes += bytes.length;
    const open = this.#call.write(bytes, () => {
      this.#handleWritten(bytes.length);
    });
    this.#blocked ||= this.#unreadBytes > this.#maxUnreadBytes;
    return open && !this.#blocked;
  }

  /** Call it on the `drain` event of the call. */
  handleDrain(): void {
    if (!this.#blocked) this.#onDrain();
  }

  #handleWritten(length: number): void {
    this.#unreadBytes -= length;
    if (!this.#blocked || this.#unreadBytes > this.#maxUnreadBytes / 2) return;
    this.#blocked = false;
    if (!this.#call.writableNeedDrain) this.#onDrain();
  }
}
