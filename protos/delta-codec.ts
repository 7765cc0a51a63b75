/**
 * Bytes of the delta protocol to messages and back, with resource bodies left opaque.
 *
 * Written by hand over protobufjs's Reader and Writer, because a generated decoder builds an object
 * for every entry before anybody can count them: 4 MiB of empty `Resource`s are two million objects.
 * Field numbers: envoy/service/discovery/v3/discovery.proto; TP3 for `resource_errors`.
 */
import protobuf from 'protobufjs/minimal.js';
import type {
  Decoded,
  DeltaRequest,
  DeltaResponse,
  ResourceError,
  RpcStatus,
  WireResource,
} from './discovery.js';

const { Reader, Writer } = protobuf;
type Reader = protobuf.Reader;

const WIRE_BYTES = 2;
const field = (tag: number): number => tag >>> 3;
const wireType = (tag: number): number => tag & 7;

class TooMany extends Error {}

function decode<T>(bytes: Uint8Array, read: (reader: Reader) => T): Decoded<T> {
  try {
    return { ok: true, message: read(Reader.create(bytes)) };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { ok: false, code: error instanceof TooMany ? 'too_many' : 'malformed', reason };
  }
}

/**
 * @param maxNames most names taken in one request, over all its lists; more is `too_many`.
 */
export function decodeDeltaRequest(bytes: Uint8Array, maxNames: number): Decoded<DeltaRequest> {
  return decode(bytes, (reader) => {
    let node: Uint8Array | undefined;
    let typeUrl = '';
    let responseNonce = '';
    let errorDetail: RpcStatus | undefined;
    const subscribe: string[] = [];
    const unsubscribe: string[] = [];
    const initialVersions = new Map<string, string>();
    let names = 0;
    const count = (): void => {
      if (++names > maxNames) throw new TooMany(`more than ${maxNames} names in one request`);
    };
    while (reader.pos < reader.len) {
      const tag = reader.uint32();
      switch (tag) {
        case 0x0a:
          node = reader.bytes();
          break;
        case 0x12:
          typeUrl = reader.string();
          break;
        case 0x1a:
          count();
          subscribe.push(reader.string());
          break;
        case 0x22:
          count();
          unsubscribe.push(reader.string());
          break;
        case 0x2a:
          count();
          readVersionEntry(reader, initialVersions);
          break;
        case 0x32:
          responseNonce = reader.string();
          break;
        case 0x3a:
          errorDetail = readStatus(reader);
          break;
        default:
          reader.skipType(wireType(tag));
      }
    }
    return {
      node,
      typeUrl,
      subscribe,
      unsubscribe,
      initialVersions,
      responseNonce,
      errorDetail,
    };
  });
}

/**
 * @param maxResources most resources, removed names and errors in one response, counted before any
 * of them is decoded; more is `too_many`.
 */
export function decodeDeltaResponse(
  bytes: Uint8Array,
  maxResources: number,
): Decoded<DeltaResponse> {
  return decode(bytes, (reader) => {
    countEntries(bytes, maxResources);
    let typeUrl = '';
    let nonce = '';
    let systemVersion = '';
    const resources: WireResource[] = [];
    const removed: string[] = [];
    const errors: ResourceError[] = [];
    while (reader.pos < reader.len) {
      const tag = reader.uint32();
      switch (tag) {
        case 0x0a:
          systemVersion = reader.string();
          break;
        case 0x12:
          resources.push(readResource(reader));
          break;
        case 0x22:
          typeUrl = reader.string();
          break;
        case 0x2a:
          nonce = reader.string();
          break;
        case 0x32:
          removed.push(reader.string());
          break;
        case 0x4a:
          errors.push(readResourceError(reader));
          break;
        default:
          reader.skipType(wireType(tag));
      }
    }
    return { typeUrl, nonce, systemVersion, resources, removed, errors };
  });
}

/** Walks the top level only; throws `TooMany` past the bound. */
function countEntries(bytes: Uint8Array, max: number): void {
  const reader = Reader.create(bytes);
  let entries = 0;
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    const number = field(tag);
    if (number === 2 || number === 6 || number === 9) {
      if (++entries > max) throw new TooMany(`more than ${max} resources in one response`);
    }
    if (wireType(tag) === WIRE_BYTES) reader.skip(reader.uint32());
    else reader.skipType(wireType(tag));
  }
}

function subReader(reader: Reader): { readonly end: number } {
  const length = reader.uint32();
  const end = reader.pos + length;
  if (end > reader.len) throw new RangeError('a nested message is longer than its parent');
  return { end };
}

function closeAt(reader: Reader, end: number): void {
  if (reader.pos !== end) throw new RangeError('a field is longer than the message that it is in');
}

function readResource(reader: Reader): WireResource {
  const { end } = subReader(reader);
  let name = '';
  let version = '';
  let typeUrl = '';
  let body: Uint8Array | undefined;
  let ttlMs: number | undefined;
  while (reader.pos < end) {
    const tag = reader.uint32();
    switch (tag) {
      case 0x0a:
        version = reader.string();
        break;
      case 0x12: {
        const any = readAny(reader);
        typeUrl = any.typeUrl;
        body = any.value;
        break;
      }
      case 0x1a:
        name = reader.string();
        break;
      case 0x32:
        ttlMs = readDurationMs(reader);
        break;
      default:
        reader.skipType(wireType(tag));
    }
  }
  closeAt(reader, end);
  return { name, version, typeUrl, body, ttlMs };
}

const NO_BYTES = new Uint8Array(0);

function readAny(reader: Reader): { typeUrl: string; value: Uint8Array } {
  const { end } = subReader(reader);
  let typeUrl = '';
  let value: Uint8Array = NO_BYTES;
  while (reader.pos < end) {
    const tag = reader.uint32();
    if (tag === 0x0a) typeUrl = reader.string();
    else if (tag === 0x12) value = reader.bytes();
    else reader.skipType(wireType(tag));
  }
  closeAt(reader, end);
  return { typeUrl, value };
}

function readDurationMs(reader: Reader): number {
  const { end } = subReader(reader);
  let seconds = 0;
  let nanos = 0;
  while (reader.pos < end) {
    const tag = reader.uint32();
    if (tag === 0x08)
      seconds = reader.int32(); // int64 on the wire; 68 years are enough
    else if (tag === 0x10) nanos = reader.int32();
    else reader.skipType(wireType(tag));
  }
  closeAt(reader, end);
  return seconds * 1000 + Math.trunc(nanos / 1e6);
}

function readStatus(reader: Reader): RpcStatus {
  const { end } = subReader(reader);
  let code = 0;
  let message = '';
  while (reader.pos < end) {
    const tag = reader.uint32();
    if (tag === 0x08) code = reader.int32();
    else if (tag === 0x12) message = reader.string();
    else reader.skipType(wireType(tag));
  }
  closeAt(reader, end);
  return { code, message };
}

/** The `name` of a TP3 error is a `ResourceName` message: its field 1 is the name. */
function readResourceError(reader: Reader): ResourceError {
  const { end } = subReader(reader);
  let name = '';
  let status: RpcStatus = { code: 0, message: '' };
  while (reader.pos < end) {
    const tag = reader.uint32();
    if (tag === 0x0a) name = readFirstString(reader);
    else if (tag === 0x12) status = readStatus(reader);
    else reader.skipType(wireType(tag));
  }
  closeAt(reader, end);
  return { name, status };
}

function readFirstString(reader: Reader): string {
  const { end } = subReader(reader);
  let text = '';
  while (reader.pos < end) {
    const tag = reader.uint32();
    if (tag === 0x0a) text = reader.string();
    else reader.skipType(wireType(tag));
  }
  closeAt(reader, end);
  return text;
}

function readVersionEntry(reader: Reader, into: Map<string, string>): void {
  const { end } = subReader(reader);
  let key = '';
  let value = '';
  while (reader.pos < end) {
    const tag = reader.uint32();
    if (tag === 0x0a) key = reader.string();
    else if (tag === 0x12) value = reader.string();
    else reader.skipType(wireType(tag));
  }
  closeAt(reader, end);
  into.set(key, value);
}

/** Bytes of a request; empty lists and absent fields take no space. */
export function encodeDeltaRequest(request: DeltaRequest): Uint8Array {
  const writer = Writer.create();
  if (request.node) writer.uint32(0x0a).bytes(request.node);
  writer.uint32(0x12).string(request.typeUrl);
  for (const name of request.subscribe) writer.uint32(0x1a).string(name);
  for (const name of request.unsubscribe) writer.uint32(0x22).string(name);
  for (const [name, version] of request.initialVersions) {
    writer.uint32(0x2a).fork();
    writer.uint32(0x0a).string(name).uint32(0x12).string(version).ldelim();
  }
  if (request.responseNonce !== '') writer.uint32(0x32).string(request.responseNonce);
  if (request.errorDetail) writeStatus(writer.uint32(0x3a), request.errorDetail);
  return writer.finish();
}

function writeStatus(writer: protobuf.Writer, status: RpcStatus): void {
  writer.fork().uint32(0x08).int32(status.code).uint32(0x12).string(status.message).ldelim();
}

/** What a response carries beside resources that are already encoded. */
export interface DeltaResponseParts {
  readonly typeUrl: string;
  readonly nonce: string;
  /** Whole encoded `resources` fields, tag and length included. */
  readonly resources: readonly Uint8Array[];
  readonly removed: readonly string[];
  readonly errors: readonly ResourceError[];
}

/** Bytes of a response: a small header, the pieces spliced in as they are, and the names that went. */
export function encodeDeltaResponse(parts: DeltaResponseParts): Buffer {
  const head = typeHead(parts.typeUrl);
  const nonceSize = Buffer.byteLength(parts.nonce);
  if (nonceSize > 0x7f) throw new RangeError('nonces are ours, and short');
  const tail = encodeTail(parts);
  let size = head.length + 2 + nonceSize + tail.length;
  for (const piece of parts.resources) size += piece.length;
  const out = Buffer.allocUnsafe(size);
  out.set(head, 0);
  let at = head.length;
  out[at++] = 0x2a;
  out[at++] = nonceSize;
  at += out.write(parts.nonce, at, 'utf8');
  for (const piece of parts.resources) {
    out.set(piece, at);
    at += piece.length;
  }
  out.set(tail, at);
  return out;
}

/** Most responses remove nothing and tell no error. */
function encodeTail({ removed, errors }: DeltaResponseParts): Uint8Array {
  if (removed.length === 0 && errors.length === 0) return NO_BYTES;
  const writer = Writer.create();
  for (const name of removed) writer.uint32(0x32).string(name);
  for (const error of errors) {
    writer.uint32(0x4a).fork();
    writer.uint32(0x0a).fork().uint32(0x0a).string(error.name).ldelim();
    writeStatus(writer.uint32(0x12), error.status);
    writer.ldelim();
  }
  return writer.finish();
}

const typeHeads = new Map<string, Uint8Array>();
/** Types are few; clients that make them up are not to fill the memory. */
const MAX_TYPE_HEADS = 256;

/** The `type_url` field, encoded once for each type. */
function typeHead(typeUrl: string): Uint8Array {
  const known = typeHeads.get(typeUrl);
  if (known) return known;
  const head = Writer.create().uint32(0x22).string(typeUrl).finish();
  if (typeHeads.size < MAX_TYPE_HEADS) typeHeads.set(typeUrl, head);
  return head;
}
