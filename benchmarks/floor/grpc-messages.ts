/** gRPC frames each message by a byte for compression and the length in 4 bytes. */
const HEAD_BYTES = 5;

/** The pieces of one message as one uncompressed gRPC message. */
export function framed(pieces: readonly Buffer[]): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt32BE(
    pieces.reduce((bytes, piece) => bytes + piece.length, 0),
    1,
  );
  return Buffer.concat([head, ...pieces]);
}

/** Joins the chunks of a stream into messages. */
export class MessageReader {
  #chunks: Buffer[] = [];
  #bytes = 0;
  #needed = HEAD_BYTES;

  /** @returns the messages that this chunk completes */
  push(chunk: Buffer): readonly Buffer[] {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes < this.#needed) return [];
    const joined = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks);
    const messages: Buffer[] = [];
    let at = 0;
    this.#needed = HEAD_BYTES;
    while (joined.length - at >= HEAD_BYTES) {
      const end = at + HEAD_BYTES + joined.readUInt32BE(at + 1);
      if (end > joined.length) {
        this.#needed = end - at;
        break;
      }
      messages.push(joined.subarray(at + HEAD_BYTES, end));
      at = end;
    }
    this.#chunks = at < joined.length ? [joined.subarray(at)] : [];
    this.#bytes = joined.length - at;
    return messages;
  }
}
