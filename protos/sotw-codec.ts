/**
 * Encodes and decodes messages of the state-of-the-world protocol. Resource bodies stay opaque.
 * Written by hand; delta-codec.ts says why. Field numbers:
 * envoy/service/discovery/v3/discovery.proto; TP3 for `resource_errors`.
 */
import protobuf from 'protobufjs/minimal.js';
import type {
  Decoded,
  ResourceError,
  RpcStatus,
  SotwRequest,
  SotwResponse,
  WireResource,
} from './discovery.js';
import {
  countEntries,
  decode,
  decodeAtOnce,
  decodeInPortions,
  readAny,
  readerOf,
  readLocator,
  readResource,
  readResourceError,
  readStatus,
  maxFieldsFor,
  readTag,
  readText,
  spliceResponse,
  type Chunks,
  TooMany,
  wireTypeOf,
  writeErrors,
  writeStatus,
  type Decoding,
  type FieldReading,
  type Reader,
} from './discovery-fields.js';
import type { ParameterizedName } from './dynamic-parameters.js';
import { ownNameOf } from './payload-names.js';
import { TYPE_URL } from './type-urls.js';

const { Writer } = protobuf;

/** The fields of a response that are counted: resources and errors. */
const SOTW_ENTRIES: ReadonlySet<number> = new Set([2, 7]);

/**
 * @param maxNames most names in one request; more is `too_many`
 */
export function decodeSotwRequest(bytes: Uint8Array, maxNames: number): Decoded<SotwRequest> {
  return decode(bytes, (reader) => {
    reader.fieldsLeft = maxFieldsFor(maxNames);
    let versionInfo = '';
    let node: Uint8Array | undefined;
    let typeUrl = '';
    let responseNonce = '';
    let errorDetail: RpcStatus | undefined;
    const names: string[] = [];
    // Where the encoded names begin and end; NaN: they are not in one piece.
    let namesAt = 0;
    let namesEnd = 0;
    let locators: ParameterizedName[] | undefined;
    let asked = 0;
    const count = (): void => {
      if (++asked > maxNames) throw new TooMany(`more than ${maxNames} names in one request`);
    };
    while (reader.pos < reader.len) {
      const { pos } = reader;
      const tag = readTag(reader);
      switch (tag) {
        case 0x0a:
          versionInfo = readText(reader);
          break;
        case 0x12:
          node = reader.bytes();
          break;
        case 0x1a:
          count();
          if (names.length === 0) namesAt = pos;
          else if (namesEnd !== pos) namesAt = Number.NaN;
          names.push(readText(reader));
          namesEnd = reader.pos;
          break;
        case 0x22:
          typeUrl = readText(reader);
          break;
        case 0x2a:
          responseNonce = readText(reader);
          break;
        case 0x32:
          errorDetail = readStatus(reader);
          break;
        case 0x3a:
          count();
          (locators ??= []).push(readLocator(reader));
          break;
        default:
          reader.skipType(wireTypeOf(tag));
      }
    }
    const rest = { versionInfo, node, typeUrl, names, responseNonce, errorDetail };
    if (locators) return { ...rest, locators };
    if (Number.isNaN(namesAt)) return rest;
    return { ...rest, encodedNames: bytes.subarray(namesAt, namesEnd) };
  });
}

/** The encoded ACK of a response, before and after the Node and the names. */
export interface SotwAck {
  readonly head: Uint8Array;
  readonly tail: Uint8Array;
}

/** Clients encode fields in the order of their numbers, so these bytes are known. */
export function encodeSotwAck(versionInfo: string, typeUrl: string, nonce: string): SotwAck {
  return {
    head: Writer.create().uint32(0x0a).string(versionInfo).finish(),
    tail: Writer.create().uint32(0x22).string(typeUrl).uint32(0x2a).string(nonce).finish(),
  };
}

/**
 * Is the request this ACK, with these names? False also for an ACK whose fields are encoded otherwise.
 *
 * @param names `encodedNames` of an earlier request
 * @param mayHaveNode Envoy repeats its Node in each request (ENVOY 15)
 */
export function isSotwAck(
  request: Uint8Array,
  { head, tail }: SotwAck,
  names: Uint8Array,
  mayHaveNode: boolean,
): boolean {
  const namesAt = mayHaveNode ? skipNode(request, head.length) : head.length;
  const tailAt = namesAt + names.length;
  return (
    request.length === tailAt + tail.length &&
    Buffer.compare(request.subarray(tailAt), tail) === 0 &&
    Buffer.compare(request.subarray(0, head.length), head) === 0 &&
    Buffer.compare(request.subarray(namesAt, tailAt), names) === 0
  );
}

/** @returns where the field after the Node begins; `at` if no Node is there */
function skipNode(request: Uint8Array, at: number): number {
  if (request[at] !== 0x12) return at;
  let length = 0;
  let end = at + 1;
  for (let scale = 1; end < request.length; scale *= 128) {
    const byte = request[end++] ?? 0;
    length += (byte & 0x7f) * scale;
    if (byte < 0x80) break;
  }
  return end + length;
}

/** The parts of a response. */
export interface SotwResponseParts {
  readonly typeUrl: string;
  readonly nonce: string;
  readonly versionInfo: string;
  /** Encoded `resources` fields, with tag and length. */
  readonly resources: readonly Buffer[];
  readonly errors: readonly ResourceError[];
}

/** Encodes a response. Protobuf fields may have any order, so the version follows the resources. */
export function encodeSotwResponse(parts: SotwResponseParts): Chunks {
  const writer = Writer.create().uint32(0x0a).string(parts.versionInfo);
  writeErrors(writer, 0x3a, parts.errors);
  return spliceResponse(parts.typeUrl, parts.nonce, parts.resources, writer.finish());
}

/**
 * @param maxResources most resources and errors in one response, counted before any of them is
 * decoded; more is `too_many`
 */
export const decodeSotwResponse = (
  bytes: Uint8Array,
  maxResources: number,
): Decoded<SotwResponse> => decodeAtOnce(bytes, sotwFields(bytes, maxResources));

/** The same in portions; `maxResources` is checked in the first one. */
export const decodingSotwResponse = (
  bytes: Uint8Array,
  maxResources: number,
): Decoding<SotwResponse> => decodeInPortions(bytes, sotwFields(bytes, maxResources));

const sotwFields =
  (bytes: Uint8Array, maxResources: number): FieldReading<SotwResponse> =>
  (reader) => {
    reader.fieldsLeft = maxFieldsFor(countEntries(bytes, maxResources, SOTW_ENTRIES));
    const resources: WireResource[] = [];
    const errors: ResourceError[] = [];
    const message = { versionInfo: '', typeUrl: '', nonce: '', resources, errors };
    const readField = (tag: number): boolean => {
      switch (tag) {
        case 0x0a:
          message.versionInfo = readText(reader);
          return false;
        case 0x12:
          resources.push(readSotwResource(reader));
          return true;
        case 0x22:
          message.typeUrl = readText(reader);
          return false;
        case 0x2a:
          message.nonce = readText(reader);
          return false;
        case 0x3a:
          errors.push(readResourceError(reader));
          return true;
        default:
          reader.skipType(wireTypeOf(tag));
          return false;
      }
    };
    return { message, readField };
  };

/**
 * A resource is in an Any: bare, with its name only in the payload, or within a `Resource` (xDS
 * protocol, "TTL"), with the name outside.
 */
function readSotwResource(reader: Reader): WireResource {
  const { typeUrl, value } = readAny(reader);
  if (typeUrl === TYPE_URL.resource) {
    const wrapped = readerOf(value);
    wrapped.fieldsLeft = reader.fieldsLeft;
    const resource = readResource(wrapped, wrapped.len);
    const { body } = resource;
    if (resource.name !== '' || !body) return resource;
    return { ...resource, name: ownNameOf(resource.typeUrl, body) ?? '' };
  }
  const name = ownNameOf(typeUrl, value) ?? '';
  return { name, version: '', typeUrl, body: value, ttlMs: undefined };
}

/** Encodes a request. Empty lists and absent fields take no space. */
export function encodeSotwRequest(request: SotwRequest): Uint8Array {
  const writer = Writer.create();
  if (request.versionInfo !== '') writer.uint32(0x0a).string(request.versionInfo);
  if (request.node) writer.uint32(0x12).bytes(request.node);
  for (const name of request.names) writer.uint32(0x1a).string(name);
  writer.uint32(0x22).string(request.typeUrl);
  if (request.responseNonce !== '') writer.uint32(0x2a).string(request.responseNonce);
  if (request.errorDetail) writeStatus(writer.uint32(0x32), request.errorDetail);
  return writer.finish();
}
