/** Splits protobuf bytes into fields that can be cut and replaced, as far as they parse. */

/** A field, as offsets in the message. Children come after their parent. */
export interface Span {
  readonly number: number;
  readonly wire: number;
  readonly start: number;
  /** The end of the tag: the start of the length, if there is one. */
  readonly tagEnd: number;
  readonly valueStart: number;
  readonly end: number;
  /** Index of the field whose value contains this one; -1: the message itself. */
  readonly parent: number;
}

export const WIRE = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const;
const MAX_SPANS = 400;
const MAX_DEPTH = 16;

export function varint(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7f; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 0x80);
  bytes.push(rest);
  return bytes;
}

export function concat(...parts: readonly Uint8Array[]): Uint8Array {
  let size = 0;
  for (const part of parts) size += part.length;
  const out = Buffer.allocUnsafe(size);
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

export const fieldBytes = (number: number, value: Uint8Array): Uint8Array =>
  concat(Uint8Array.from([...varint(number * 8 + WIRE.bytes), ...varint(value.length)]), value);

/**
 * All fields, including those inside values that parse as messages; empty if the bytes do not
 * parse.
 */
export function spansOf(bytes: Uint8Array): readonly Span[] {
  const spans: Span[] = [];
  readInto(spans, bytes, 0, bytes.length, -1, 0);
  return spans;
}

function readInto(
  spans: Span[],
  bytes: Uint8Array,
  start: number,
  end: number,
  parent: number,
  depth: number,
): boolean {
  const before = spans.length;
  for (let at = start; at < end;) {
    const span = spanAt(bytes, at, end, parent);
    if (!span || spans.length >= MAX_SPANS) {
      spans.length = before;
      return false;
    }
    const index = spans.push(span) - 1;
    if (span.wire === WIRE.bytes && span.end - span.valueStart > 1 && depth < MAX_DEPTH) {
      readInto(spans, bytes, span.valueStart, span.end, index, depth + 1);
    }
    at = span.end;
  }
  return true;
}

/** The end of the varint that was read last; -1: there was none. */
let varintEnd = -1;

function readVarint(bytes: Uint8Array, start: number, end: number): number {
  let value = 0;
  let scale = 1;
  for (let at = start; at < end && at < start + 10; at++) {
    const byte = bytes[at]!;
    value += (byte & 0x7f) * scale;
    if (byte < 0x80) {
      varintEnd = at + 1;
      return value;
    }
    scale *= 128;
  }
  varintEnd = -1;
  return 0;
}

function spanAt(bytes: Uint8Array, start: number, end: number, parent: number): Span | undefined {
  const tag = readVarint(bytes, start, end);
  const tagEnd = varintEnd;
  const number = Math.floor(tag / 8);
  const wire = tag % 8;
  if (tagEnd === -1 || number < 1 || number > 2 ** 20) return undefined;
  let valueStart = tagEnd;
  let valueEnd = tagEnd;
  if (wire === WIRE.fixed64) valueEnd += 8;
  else if (wire === WIRE.fixed32) valueEnd += 4;
  else if (wire === WIRE.varint || wire === WIRE.bytes) {
    const value = readVarint(bytes, tagEnd, end);
    if (varintEnd === -1) return undefined;
    if (wire === WIRE.bytes) valueStart = varintEnd;
    valueEnd = wire === WIRE.bytes ? varintEnd + value : varintEnd;
  } else return undefined;
  if (valueEnd > end) return undefined;
  return { number, wire, start, tagEnd, valueStart, end: valueEnd, parent };
}

/**
 * Replaces `bytes[from, to)`, inside the value of the field `parent`, with `insert`, and corrects
 * the lengths around it.
 */
export function splice(
  bytes: Uint8Array,
  spans: readonly Span[],
  parent: number,
  from: number,
  to: number,
  insert: Uint8Array,
): Uint8Array {
  // From the inside out: the new length of each enclosing value.
  const around: { readonly span: Span; readonly length: readonly number[] }[] = [];
  let growth = insert.length - (to - from);
  for (let at = parent; at !== -1; at = spans[at]!.parent) {
    const span = spans[at]!;
    const length = varint(span.end - span.valueStart + growth);
    growth += length.length - (span.valueStart - span.tagEnd);
    around.push({ span, length });
  }
  const out = Buffer.allocUnsafe(bytes.length + growth);
  let read = 0;
  let written = 0;
  const copy = (upTo: number): void => {
    out.set(bytes.subarray(read, upTo), written);
    written += upTo - read;
    read = upTo;
  };
  for (const { span, length } of around.reverse()) {
    copy(span.tagEnd);
    for (const byte of length) out[written++] = byte;
    read = span.valueStart;
  }
  copy(from);
  out.set(insert, written);
  written += insert.length;
  read = to;
  copy(bytes.length);
  return out;
}
