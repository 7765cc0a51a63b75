/**
 * Bytes that arrive in parts, copied into one buffer. A list of the parts would cost some 150 bytes for each of them, and a
 * hostile peer sends parts of one byte. A view of a part would pin the buffer that Node read it into, up to 64 KiB.
 */
export class CollectedBytes {
  #buffer: Buffer | undefined;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** The memory that the bytes take. Bytes. */
  get bufferBytes(): number {
    return this.#buffer?.length ?? 0;
  }

  /**
   * The buffer grows with the bytes that came, and doubles, so that the time is linear.
   *
   * @param maxBytes as many bytes as there will be at most
   */
  append(part: Buffer, maxBytes: number): void {
    const neededBytes = this.#length + part.length;
    const old = this.#buffer;
    if (neededBytes > (old?.length ?? 0)) {
      const roomBytes = Math.min(maxBytes, 2 * (old?.length ?? 0));
      this.#buffer = Buffer.allocUnsafeSlow(Math.max(neededBytes, roomBytes));
      old?.copy(this.#buffer, 0, 0, this.#length);
    }
    if (this.#buffer) part.copy(this.#buffer, this.#length);
    this.#length = neededBytes;
  }

  /** @returns all bytes, which are the caller's from now on */
  take(): Buffer {
    const bytes = this.#buffer?.subarray(0, this.#length) ?? Buffer.alloc(0);
    this.#buffer = undefined;
    this.#length = 0;
    return bytes;
  }
}
