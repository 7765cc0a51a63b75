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
  readAny,
  readerOf,
  readFirstString,
  readResource,
  readResourceError,
  readStatus,
  fieldsOf,
  readTag,
  readText,
  spliceResponse,
  TooMany,
  wireType,
  writeErrors,
  writeStatus,
  type Reader,
} from './discovery-fields.js';
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
    reader.fieldsLeft = fieldsOf(maxNames);
    let versionInfo = '';
    let node: Uint8Array | undefined;
    let typeUrl = '';
    let responseNonce = '';
    let errorDetail: RpcStatus | undefined;
    const names: string[] = [];
    let locators: string[] | undefined;
    let asked = 0;
    const count = (): void => {
      if (++asked > maxNames) throw new TooMany(`more than ${maxNames} names in one request`);
    };
    while (reader.pos < reader.len) {
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
          names.push(readText(reader));
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
          (locators ??= []).push(readFirstString(reader));
          break;
        default:
          reader.skipType(wireType(tag));
      }
    }
    const lists = { names, ...(locators && { locators }) };
    return { versionInfo, node, typeUrl, ...lists, responseNonce, errorDetail };
  });
}

/** The parts of a response. */
export interface SotwResponseParts {
  readonly typeUrl: string;
  readonly nonce: string;
  readonly versionInfo: string;
  /** Encoded `resources` fields, with tag and length. */
  readonly resources: readonly Uint8Array[];
  readonly errors: readonly ResourceError[];
}

/** Encodes a response. Protobuf fields may have any order, so the version follows the resources. */
export function encodeSotwResponse(parts: SotwResponseParts): Buffer {
  const writer = Writer.create().uint32(0x0a).string(parts.versionInfo);
  writeErrors(writer, 0x3a, parts.errors);
  return spliceResponse(parts.typeUrl, parts.nonce, parts.resources, writer.finish());
}

/**
 * @param maxResources most resources and errors in one response, counted before any of them is
 * decoded; more is `too_many`
 */
export function decodeSotwResponse(bytes: Uint8Array, maxResources: number): Decoded<SotwResponse> {
  return decode(bytes, (reader) => {
    reader.fieldsLeft = fieldsOf(countEntries(bytes, maxResources, SOTW_ENTRIES));
    let versionInfo = '';
    let typeUrl = '';
    let nonce = '';
    const resources: WireResource[] = [];
    const errors: ResourceError[] = [];
    while (reader.pos < reader.len) {
      const tag = readTag(reader);
      switch (tag) {
        case 0x0a:
          versionInfo = readText(reader);
          break;
        case 0x12:
          resources.push(readSotwResource(reader));
          break;
        case 0x22:
          typeUrl = readText(reader);
          break;
        case 0x2a:
          nonce = readText(reader);
          break;
        case 0x3a:
          errors.push(readResourceError(reader));
          break;
        default:
          reader.skipType(wireType(tag));
      }
    }
    return { versionInfo, typeUrl, nonce, resources, errors };
  });
}

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
