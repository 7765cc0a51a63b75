/**
 * Codec parts that delta and state of the world share: decoding without exceptions, TP3 errors, and
 * responses spliced from encoded resources. Uses protobufjs's Reader and Writer for the reasons in
 * delta-codec.ts.
 */
import protobuf from 'protobufjs/minimal.js';
import type { Decoded, ResourceError, RpcStatus, VariantName, WireResource } from './discovery.js';
import { formatParameters, type ParameterizedName } from './dynamic-parameters.js';

const { Reader, Writer } = protobuf;

/** A reader that limits the fields of one message, over all messages nested in it. */
export interface Reader extends protobuf.Reader {
  /** {@link readTag} fails after as many more. */
  fieldsLeft: number;
}

/** The fields that a message may have beside its entries, unknown ones included. */
const MAX_OTHER_FIELDS = 1_000;
/** The fields of one entry on average: a Resource has up to 8, and its Any 2. */
const MAX_FIELDS_PER_ENTRY = 32;

/**
 * The most fields of a message with as many entries. Without a limit, 16 MiB of a repeated nonce, which
 * protobuf allows, are 8 million fields and a stall of half a second.
 */
export const maxFieldsFor = (entries: number): number =>
  MAX_OTHER_FIELDS + entries * MAX_FIELDS_PER_ENTRY;

/** The tag of the next field. Throws `TooMany` after `fieldsLeft` fields. */
export function readTag(reader: Reader): number {
  if (--reader.fieldsLeft < 0) throw new TooMany('too many fields in one message');
  return reader.uint32();
}

export const field = (tag: number): number => tag >>> 3;
export const wireTypeOf = (tag: number): number => tag & 7;

export class TooMany extends Error {}

/**
 * A reader over a Buffer. Over a plain Uint8Array, protobufjs decodes invalid UTF-8 to lone surrogates,
 * which no other reader produces and no writer can encode.
 */
export const readerOf = (bytes: Uint8Array): Reader =>
  Object.assign(Reader.create(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)), {
    fieldsLeft: Number.POSITIVE_INFINITY,
  });

/** Decodes a request or response with `read`. An exception of `read` becomes a result. */
export function decode<T>(bytes: Uint8Array, read: (reader: Reader) => T): Decoded<T> {
  try {
    return { ok: true, message: read(readerOf(bytes)) };
  } catch (error) {
    return refusalOf(error);
  }
}

/** Entries of a response that are decoded in one portion: some milliseconds. A count. */
const ENTRIES_PER_PORTION = 1_500;

/** The decoding of a large message, in portions: each `yield` ends one. */
export type Decoding<T> = Generator<'decoding', Decoded<T>, unknown>;

/**
 * Begins to read a message: `message` is complete when every field was read.
 *
 * @returns `readField` reads one field, and returns whether it is an entry: a resource, a removed name, an error or a cluster
 */
export type FieldReading<T> = (reader: Reader) => {
  readonly message: T;
  readonly readField: (tag: number) => boolean;
};

/** Decodes a message in portions. @param entriesPerPortion a count */
export function* decodeInPortions<T>(
  bytes: Uint8Array,
  begin: FieldReading<T>,
  entriesPerPortion = ENTRIES_PER_PORTION,
): Decoding<T> {
  try {
    const reader = readerOf(bytes);
    const { message, readField } = begin(reader);
    for (let entries = 0; reader.pos < reader.len;) {
      if (!readField(readTag(reader))) continue;
      if (++entries % entriesPerPortion === 0) yield 'decoding';
    }
    return { ok: true, message };
  } catch (error) {
    return refusalOf(error);
  }
}

/** Decodes all of it at once: for small messages, without the cost of a generator. */
export const decodeAtOnce = <T>(bytes: Uint8Array, begin: FieldReading<T>): Decoded<T> =>
  decode(bytes, (reader) => {
    const { message, readField } = begin(reader);
    while (reader.pos < reader.len) readField(readTag(reader));
    return message;
  });

function refusalOf(error: unknown): Extract<Decoded<never>, { ok: false }> {
  const reason = error instanceof Error ? error.message : String(error);
  return { ok: false, code: error instanceof TooMany ? 'too_many' : 'malformed', reason };
}

export function subReader(reader: protobuf.Reader): { readonly end: number } {
  const length = reader.uint32();
  const end = reader.pos + length;
  if (end > reader.len) throw new RangeError('a nested message is longer than its parent');
  return { end };
}

export function closeAt(reader: protobuf.Reader, end: number): void {
  if (reader.pos !== end) throw new RangeError('a field is longer than its message');
}

/**
 * Reads the fields of a message up to `end`.
 *
 * @param take consumes the value of a field, or returns false to skip it
 */
export function eachField(
  reader: protobuf.Reader,
  end: number,
  take: (tag: number) => boolean,
): void {
  while (reader.pos < end) {
    const tag = reader.uint32();
    if (!take(tag)) reader.skipType(wireTypeOf(tag));
  }
  closeAt(reader, end);
}

/** Reads the fields of a nested message, which begins with its length. */
export function eachFieldOfMessage(reader: protobuf.Reader, take: (tag: number) => boolean): void {
  eachField(reader, subReader(reader).end, take);
}

/**
 * Reads a string field and throws if it is longer than the message. protobufjs would shorten it to the
 * end of the message (`BufferReader.string`), so that a truncated message would decode.
 */
export function readText(reader: protobuf.Reader): string {
  const start = reader.pos;
  const length = reader.uint32();
  if (reader.pos + length > reader.len) throw new RangeError('a text is longer than the message');
  reader.pos = start;
  return reader.string();
}

/** The text of a status is for people, and kept. The rest of a longer one is dropped. UTF-16 code units. */
export const MAX_STATUS_TEXT = 4_096;

function readStatusText(reader: Reader): string {
  const text = readText(reader);
  if (text.length <= MAX_STATUS_TEXT) return text;
  // A part of a string keeps all of it in memory: this copies.
  return `${Buffer.from(text.slice(0, MAX_STATUS_TEXT)).toString()}…`;
}

export function readStatus(reader: Reader): RpcStatus {
  const { end } = subReader(reader);
  let code = 0;
  let message = '';
  while (reader.pos < end) {
    const tag = readTag(reader);
    if (tag === 0x08) code = reader.int32();
    else if (tag === 0x12) message = readStatusText(reader);
    else reader.skipType(wireTypeOf(tag));
  }
  closeAt(reader, end);
  return { code, message };
}

/** A TP3 error. Its `name` is a `ResourceName` message with the name in field 1. */
export function readResourceError(reader: Reader): ResourceError {
  const { end } = subReader(reader);
  let name = '';
  let status: RpcStatus = { code: 0, message: '' };
  while (reader.pos < end) {
    const tag = readTag(reader);
    if (tag === 0x0a) ({ name } = readVariantName(reader));
    else if (tag === 0x12) status = readStatus(reader);
    else reader.skipType(wireTypeOf(tag));
  }
  closeAt(reader, end);
  return { name, status };
}

/** TP2 `ResourceName`. */
export function readVariantName(reader: Reader): VariantName {
  const { end } = subReader(reader);
  let name = '';
  let constraints = NO_BYTES;
  while (reader.pos < end) {
    const tag = readTag(reader);
    if (tag === 0x0a) name = readText(reader);
    else if (tag === 0x12) constraints = reader.bytes();
    else reader.skipType(wireTypeOf(tag));
  }
  closeAt(reader, end);
  return { name, constraints };
}

/** Of one name: they are counted as they are read, since they are sorted next. A count. */
const MAX_PARAMETERS = 100;

/** TP2 `ResourceLocator`: a name, and a map of parameters. */
export function readLocator(reader: Reader): ParameterizedName {
  const { end } = subReader(reader);
  let name = '';
  const pairs: [string, string][] = [];
  const most = `more than ${MAX_PARAMETERS} dynamic parameters of one name`;
  while (reader.pos < end) {
    const tag = readTag(reader);
    if (tag === 0x0a) name = readText(reader);
    else if (tag === 0x12 && pairs.length === MAX_PARAMETERS) throw new TooMany(most);
    else if (tag === 0x12) pairs.push(readPair(reader));
    else reader.skipType(wireTypeOf(tag));
  }
  closeAt(reader, end);
  return { name, parameters: formatParameters(pairs) };
}

/** One entry of a map of strings. */
export function readPair(reader: Reader): [key: string, value: string] {
  const { end } = subReader(reader);
  let key = '';
  let value = '';
  while (reader.pos < end) {
    const tag = readTag(reader);
    if (tag === 0x0a) key = readText(reader);
    else if (tag === 0x12) value = readText(reader);
    else reader.skipType(wireTypeOf(tag));
  }
  closeAt(reader, end);
  return [key, value];
}

/**
 * `envoy.service.discovery.v3.Resource`.
 *
 * @param end where the message ends; absent: it is a field, and begins with its length
 */
export function readResource(reader: Reader, end = subReader(reader).end): WireResource {
  let name = '';
  let version = '';
  let typeUrl = '';
  let body: Uint8Array | undefined;
  let ttlMs: number | undefined;
  let variant: VariantName | undefined;
  while (reader.pos < end) {
    const tag = readTag(reader);
    switch (tag) {
      case 0x0a:
        version = readText(reader);
        break;
      case 0x12: {
        const any = readAny(reader);
        typeUrl = any.typeUrl;
        body = any.value;
        break;
      }
      case 0x1a:
        name = readText(reader);
        break;
      case 0x32:
        ttlMs = readDurationMs(reader);
        break;
      case 0x42:
        variant = readVariantName(reader);
        break;
      default:
        reader.skipType(wireTypeOf(tag));
    }
  }
  closeAt(reader, end);
  if (!variant) return { name, version, typeUrl, body, ttlMs };
  const resource = { name: variant.name, version, typeUrl, body, ttlMs };
  return variant.constraints.length === 0
    ? resource
    : { ...resource, constraints: variant.constraints };
}

export const NO_BYTES: Uint8Array = new Uint8Array(0);

export function readAny(reader: Reader): { typeUrl: string; value: Uint8Array } {
  const { end } = subReader(reader);
  let typeUrl = '';
  let value: Uint8Array = NO_BYTES;
  while (reader.pos < end) {
    const tag = readTag(reader);
    if (tag === 0x0a) typeUrl = readText(reader);
    else if (tag === 0x12) value = reader.bytes();
    else reader.skipType(wireTypeOf(tag));
  }
  closeAt(reader, end);
  return { typeUrl, value };
}

function readDurationMs(reader: Reader): number {
  const { end } = subReader(reader);
  let seconds = 0;
  let nanos = 0;
  while (reader.pos < end) {
    const tag = readTag(reader);
    // An int64, but a Duration is at most 10,000 years: exact as a number.
    if (tag === 0x08) seconds = Number(reader.int64());
    else if (tag === 0x10) nanos = reader.int32();
    else reader.skipType(wireTypeOf(tag));
  }
  closeAt(reader, end);
  return seconds * 1000 + Math.trunc(nanos / 1e6);
}

const WIRE_BYTES = 2;

/**
 * Counts the entries of a response without decoding them. Throws `TooMany` if there are more than
 * `max`, or more than `MAX_OTHER_FIELDS` fields that do not count.
 *
 * @param numbers the fields at the top level that count
 */
export function countEntries(bytes: Uint8Array, max: number, numbers: ReadonlySet<number>): number {
  const reader = readerOf(bytes);
  let entries = 0;
  let others = 0;
  while (reader.pos < reader.len) {
    const tag = readTag(reader);
    if (!numbers.has(field(tag))) {
      if (++others > MAX_OTHER_FIELDS) throw new TooMany('too many fields in one message');
    } else if (++entries > max) {
      throw new TooMany(`more than ${max} entries (resources, removals, errors) in one response`);
    }
    if (wireTypeOf(tag) === WIRE_BYTES) reader.skip(reader.uint32());
    else reader.skipType(wireTypeOf(tag));
  }
  return entries;
}

export function writeStatus(writer: protobuf.Writer, status: RpcStatus): void {
  writer.fork().uint32(0x08).int32(status.code).uint32(0x12).string(status.message).ldelim();
}

/**
 * @param tag of the `resource_errors` field, whose number differs between delta and state of the
 * world
 */
export function writeErrors(
  writer: protobuf.Writer,
  tag: number,
  errors: readonly ResourceError[],
): void {
  for (const error of errors) {
    writer.uint32(tag).fork();
    writer.uint32(0x0a).fork().uint32(0x0a).string(error.name).ldelim();
    writeStatus(writer.uint32(0x12), error.status);
    writer.ldelim();
  }
}

/**
 * A message in chunks, in this order. A large resource is a chunk of its own, and the same chunk in every
 * message that has it.
 */
export type Chunks = readonly Buffer[];

/** A smaller piece is copied, since one buffer costs less than three. Bytes. */
const SHARED_PIECE_BYTES = 16_384;

/** @returns of the whole message. Bytes. */
export function sizeOf(chunks: Chunks): number {
  let size = 0;
  for (const { length } of chunks) size += length;
  return size;
}

/** @returns the message in one buffer */
export function wholeOf(chunks: Chunks): Buffer {
  const [only] = chunks;
  return only && chunks.length === 1 ? only : Buffer.concat(chunks);
}

/**
 * Encodes a delta or state-of-the-world response. Both have the same field numbers for type (4),
 * nonce (5) and resources (2).
 * @param pieces encoded `resources` fields, unchanged in the response
 * @param tail all other fields, encoded
 */
export function spliceResponse(
  typeUrl: string,
  nonce: string,
  pieces: readonly Buffer[],
  tail: Uint8Array,
): Chunks {
  const head = typeHead(typeUrl);
  const nonceSize = Buffer.byteLength(nonce);
  if (nonceSize > 0x7f) throw new RangeError('a nonce is longer than 127 bytes');
  let size = head.length + 2 + nonceSize + tail.length;
  for (const { length } of pieces) if (length < SHARED_PIECE_BYTES) size += length;
  const out = Buffer.allocUnsafe(size);
  out.set(head, 0);
  let at = head.length;
  out[at++] = 0x2a;
  out[at++] = nonceSize;
  at += out.write(nonce, at, 'utf8');
  const chunks: Buffer[] = [];
  let chunkStart = 0;
  for (const piece of pieces) {
    if (piece.length < SHARED_PIECE_BYTES) {
      out.set(piece, at);
      at += piece.length;
    } else {
      if (at > chunkStart) chunks.push(out.subarray(chunkStart, at));
      chunks.push(piece);
      chunkStart = at;
    }
  }
  out.set(tail, at);
  if (size > chunkStart) chunks.push(chunkStart === 0 ? out : out.subarray(chunkStart));
  return chunks;
}

const typeHeads = new Map<string, Uint8Array>();
/** There are few types. The bound protects the memory from clients that invent type URLs. */
const MAX_TYPE_HEADS = 256;

/** The encoded `type_url` field, cached per type. */
function typeHead(typeUrl: string): Uint8Array {
  const known = typeHeads.get(typeUrl);
  if (known) return known;
  const head = Writer.create().uint32(0x22).string(typeUrl).finish();
  if (typeHeads.size < MAX_TYPE_HEADS) typeHeads.set(typeUrl, head);
  return head;
}
