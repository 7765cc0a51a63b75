/**
 * Reads the protobuf wire format field by field, without decoding to objects (protobuf.dev,
 * "Encoding").
 */

const maxGroupDepth = 100;

export const wireType = { varint: 0, fixed64: 1, bytes: 2, startGroup: 3, endGroup: 4, fixed32: 5 };

/**
 * Iterates over the fields of one message in `bytes[start, end)`. Call `next()` until it returns false,
 * then check `malformed`. Never throws, never reads outside of the range, and always terminates.
 */
export class FieldCursor {
  /** Number and wire type of the current field. */
  number = 0;
  wire = 0;
  /** The end of its tag, where the length of a `bytes` field begins, and the span of its value. */
  tagEnd: number;
  valueStart: number;
  valueEnd: number;
  malformed = false;
  #varint = 0;

  constructor(
    readonly bytes: Uint8Array,
    start: number,
    readonly end: number,
  ) {
    this.tagEnd = start;
    this.valueStart = start;
    this.valueEnd = start;
  }

  /** Moves to the next field; false at the end of the message, or if it is malformed. */
  next(): boolean {
    if (this.malformed || this.valueEnd === this.end) {
      return false;
    }
    if (!this.#field(this.valueEnd) || this.wire === wireType.endGroup) {
      this.malformed = true;
      return false;
    }
    return this.wire !== wireType.startGroup || this.#skipGroup();
  }

  /** The value of a varint field, exact up to 2^53. */
  get varint(): number {
    return this.#varint;
  }

  #field(at: number): boolean {
    if (!this.#readVarint(at) || this.#varint > 0xffffffff || this.#varint < 8) {
      return false;
    }
    this.number = this.#varint >>> 3;
    this.wire = this.#varint & 7;
    this.tagEnd = this.valueEnd;
    this.valueStart = this.valueEnd;
    switch (this.wire) {
      case wireType.varint:
        return this.#readVarint(this.tagEnd);
      case wireType.fixed64:
        return this.#take(8);
      case wireType.bytes:
        return this.#readVarint(this.tagEnd) && this.#take(this.#varint);
      case wireType.fixed32:
        return this.#take(4);
      default:
        return this.wire === wireType.startGroup || this.wire === wireType.endGroup;
    }
  }

  #take(length: number): boolean {
    this.valueStart = this.valueEnd;
    this.valueEnd += length;
    return this.valueEnd <= this.end;
  }

  /** Reads a varint at `at` into `#varint` and sets `valueEnd` to its end. */
  #readVarint(at: number): boolean {
    let value = 0;
    let scale = 1;
    for (let index = at; index < this.end && index < at + 10; index += 1) {
      const byte = this.bytes[index] ?? 0;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) {
        this.#varint = value;
        this.valueEnd = index + 1;
        return true;
      }
      scale *= 128;
    }
    return false;
  }

  /** Skips a group as one field. Groups are deprecated, but unknown fields may be groups. */
  #skipGroup(): boolean {
    const { number, tagEnd } = this;
    const open = [number];
    while (open.length > 0 && !this.malformed) {
      if (
        open.length > maxGroupDepth ||
        this.valueEnd === this.end ||
        !this.#field(this.valueEnd)
      ) {
        this.malformed = true;
      } else if (this.wire === wireType.startGroup) {
        open.push(this.number);
      } else if (this.wire === wireType.endGroup && open.pop() !== this.number) {
        this.malformed = true;
      }
    }
    this.number = number;
    this.wire = wireType.startGroup;
    this.tagEnd = tagEnd;
    this.valueStart = tagEnd;
    return !this.malformed;
  }
}

/** Encodes a varint; `value` is at most 2^32 - 1. */
export function encodeVarint(value: number): Uint8Array {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7f; rest = Math.floor(rest / 128)) {
    bytes.push((rest & 0x7f) | 0x80);
  }
  bytes.push(rest);
  return Uint8Array.from(bytes);
}
