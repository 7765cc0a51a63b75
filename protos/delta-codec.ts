/**
 * Encodes and decodes messages of the delta protocol. Resource bodies stay opaque.
 *
 * Written by hand over protobufjs's Reader and Writer: a generated decoder builds an object for every
 * entry before the caller can count them, and 4 MiB of empty `Resource`s are two million objects.
 * Field numbers: envoy/service/discovery/v3/discovery.proto; TP3 for `resource_errors`. Of TP2 locators,
 * the decoder reads only the names.
 */
import protobuf from 'protobufjs/minimal.js';
import {
  closeAt,
  decode,
  field,
  readFirstString,
  readResourceError,
  readStatus,
  readerOf,
  readText,
  spliceResponse,
  subReader,
  TooMany,
  wireType,
  writeErrors,
  writeStatus,
  type Reader as FieldReader,
} from './discovery-fields.js';
import type {
  Decoded,
  DeltaRequest,
  DeltaResponse,
  ResourceError,
  RpcStatus,
  WireResource,
} from './discovery.js';

const { Writer } = protobuf;

/**
 * @param maxNames most names in one request, over all its lists; more is `too_many`
 */
export function decodeDeltaRequest(bytes: Uint8Array, maxNames: number): Decoded<DeltaRequest> {
  return decode(bytes, (reader) => {
    let node: Uint8Array | undefined;
    let typeUrl = '';
    let responseNonce = '';
    let errorDetail: RpcStatus | undefined;
    const subscribe: string[] = [];
    const unsubscribe: string[] = [];
    let locators: string[] | undefined;
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
          typeUrl = readText(reader);
          break;
        case 0x1a:
          count();
          subscribe.push(readText(reader));
          break;
        case 0x22:
          count();
          unsubscribe.push(readText(reader));
          break;
        case 0x2a:
          count();
          readVersionEntry(reader, initialVersions);
          break;
        case 0x32:
          responseNonce = readText(reader);
          break;
        case 0x3a:
          errorDetail = readStatus(reader);
          break;
        case 0x42:
          count();
          (locators ??= []).push(readFirstString(reader));
          break;
        case 0x4a:
          count();
          locators ??= [];
          readFirstString(reader);
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
      ...(locators && { locators }),
      initialVersions,
      responseNonce,
      errorDetail,
    };
  });
}

/**
 * @param maxResources most resources, removed names and errors in one response, counted before any
 * of them is decoded; more is `too_many`
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
          systemVersion = readText(reader);
          break;
        case 0x12:
          resources.push(readResource(reader));
          break;
        case 0x22:
          typeUrl = readText(reader);
          break;
        case 0x2a:
          nonce = readText(reader);
          break;
        case 0x32:
          removed.push(readText(reader));
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

const WIRE_BYTES = 2;

/** Counts entries at the top level. Throws `TooMany` if there are more than `max`. */
function countEntries(bytes: Uint8Array, max: number): void {
  const reader = readerOf(bytes);
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

function readResource(reader: FieldReader): WireResource {
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
      default:
        reader.skipType(wireType(tag));
    }
  }
  closeAt(reader, end);
  return { name, version, typeUrl, body, ttlMs };
}

const NO_BYTES = new Uint8Array(0);

function readAny(reader: FieldReader): { typeUrl: string; value: Uint8Array } {
  const { end } = subReader(reader);
  let typeUrl = '';
  let value: Uint8Array = NO_BYTES;
  while (reader.pos < end) {
    const tag = reader.uint32();
    if (tag === 0x0a) typeUrl = readText(reader);
    else if (tag === 0x12) value = reader.bytes();
    else reader.skipType(wireType(tag));
  }
  closeAt(reader, end);
  return { typeUrl, value };
}

function readDurationMs(reader: FieldReader): number {
  const { end } = subReader(reader);
  let seconds = 0;
  let nanos = 0;
  while (reader.pos < end) {
    const tag = reader.uint32();
    // An int64, but a Duration is at most 10,000 years: exact as a number.
    if (tag === 0x08) seconds = Number(reader.int64());
    else if (tag === 0x10) nanos = reader.int32();
    else reader.skipType(wireType(tag));
  }
  closeAt(reader, end);
  return seconds * 1000 + Math.trunc(nanos / 1e6);
}

function readVersionEntry(reader: FieldReader, into: Map<string, string>): void {
  const { end } = subReader(reader);
  let key = '';
  let value = '';
  while (reader.pos < end) {
    const tag = reader.uint32();
    if (tag === 0x0a) key = readText(reader);
    else if (tag === 0x12) value = readText(reader);
    else reader.skipType(wireType(tag));
  }
  closeAt(reader, end);
  into.set(key, value);
}

/** Encodes a request. Empty lists and absent fields take no space. */
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

/** Encodes the ACK of a response, as clients do: without a Node or names. */
export function encodeDeltaAck(typeUrl: string, nonce: string): Buffer {
  return Buffer.from(
    Writer.create().uint32(0x12).string(typeUrl).uint32(0x32).string(nonce).finish(),
  );
}

/** The parts of a response. */
export interface DeltaResponseParts {
  readonly typeUrl: string;
  readonly nonce: string;
  /** Encoded `resources` fields, with tag and length. */
  readonly resources: readonly Uint8Array[];
  readonly removed: readonly string[];
  readonly errors: readonly ResourceError[];
}

export function encodeDeltaResponse(parts: DeltaResponseParts): Buffer {
  return spliceResponse(parts.typeUrl, parts.nonce, parts.resources, encodeTail(parts));
}

/** Removals and errors; most responses have neither. */
function encodeTail({ removed, errors }: DeltaResponseParts): Uint8Array {
  if (removed.length === 0 && errors.length === 0) return NO_BYTES;
  const writer = Writer.create();
  for (const name of removed) writer.uint32(0x32).string(name);
  writeErrors(writer, 0x4a, errors);
  return writer.finish();
}
