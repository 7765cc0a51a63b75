/**
 * Writes on a call, and tells when its reader is slow. grpc-js pushes back at 16 messages whatever
 * their size; with chunks of 2 MiB that would be 32 MiB for each client that does not read, so large
 * messages are counted in bytes besides. What is held back costs no speed: a message counts as written
 * when the socket's own buffer has the end of it.
 */

/** What is needed of a gRPC call. */
export interface WritableCall {
  write(bytes: Buffer, onWritten?: () => void): boolean;
  readonly writableNeedDrain: boolean;
}

/** Smaller ones are bounded well enough by their number. */
const LARGE_MESSAGE_BYTES = 16_384;

export class CallWriter {
  readonly #call: WritableCall;
  readonly #maxUnreadBytes: number;
  readonly #onDrain: () => void;
  #unreadBytes = 0;
  #blocked = false;

  /** @param maxUnreadBytes in large messages; with more, the reader is waited for */
  constructor(call: WritableCall, maxUnreadBytes: number, onDrain: () => void) {
    this.#call = call;
    this.#maxUnreadBytes = maxUnreadBytes;
    this.#onDrain = onDrain;
  }

  /** @returns false when the reader should be waited for: `onDrain` follows. */
  write(bytes: Buffer): boolean {
    if (bytes.length < LARGE_MESSAGE_BYTES) return this.#call.write(bytes) && !this.#blocked;
    this.#unreadBytes += bytes.length;
    const open = this.#call.write(bytes, () => {
      this.#handleWritten(bytes.length);
    });
    this.#blocked ||= this.#unreadBytes > this.#maxUnreadBytes;
    return open && !this.#blocked;
  }

  /** The call itself drained. */
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
