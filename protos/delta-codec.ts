/**
 * Encodes and decodes messages of the delta protocol. Resource bodies stay opaque.
 *
 * Written by hand over protobufjs's Reader and Writer: a generated decoder builds an object for every
 * entry before the caller can count them, and 4 MiB of empty `Resource`s are two million objects.
 * Field numbers: envoy/service/discovery/v3/discovery.proto; TP3 for `resource_errors`; TP2 for locators and variants.
 */
import protobuf from 'protobufjs/minimal.js';
import {
  countEntries,
  decode,
  decodeAtOnce,
  decodeInPortions,
  NO_BYTES,
  readLocator,
  readPair,
  readResource,
  readResourceError,
  readStatus,
  maxFieldsFor,
  readTag,
  readText,
  readVariantName,
  spliceResponse,
  type Chunks,
  TooMany,
  wireTypeOf,
  writeErrors,
  writeStatus,
  type Decoding,
  type FieldReading,
  type Reader as FieldReader,
} from './discovery-fields.js';
import type {
  Decoded,
  DeltaRequest,
  DeltaResponse,
  ResourceError,
  RpcStatus,
  VariantName,
  WireResource,
} from './discovery.js';
import { parametersIn, type ParameterizedName } from './dynamic-parameters.js';

const { Writer } = protobuf;

/** The fields of a response that are counted: resources, removed names, removed variants, errors. */
const DELTA_ENTRIES: ReadonlySet<number> = new Set([2, 6, 8, 9]);

/**
 * @param maxNames most names in one request, over all its lists; more is `too_many`. It reads at most `maxNames`
 * versions and skips the rest: an error would keep a client with more versions from ever resuming
 */
export function decodeDeltaRequest(bytes: Uint8Array, maxNames: number): Decoded<DeltaRequest> {
  return decode(bytes, (reader) => {
    reader.fieldsLeft = maxFieldsFor(maxNames);
    let node: Uint8Array | undefined;
    let typeUrl = '';
    let responseNonce = '';
    let errorDetail: RpcStatus | undefined;
    const subscribe: string[] = [];
    const unsubscribe: string[] = [];
    let locators: { subscribe: ParameterizedName[]; unsubscribe: ParameterizedName[] } | undefined;
    const initialVersions = new Map<string, string>();
    let versionsLeftOut = 0;
    let names = 0;
    const count = (): void => {
      if (++names > maxNames) throw new TooMany(`more than ${maxNames} names in one request`);
    };
    while (reader.pos < reader.len) {
      const tag = readTag(reader);
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
          versionsLeftOut += readVersionEntry(reader, initialVersions, maxNames);
          break;
        case 0x32:
          responseNonce = readText(reader);
          break;
        case 0x3a:
          errorDetail = readStatus(reader);
          break;
        case 0x42:
          count();
          (locators ??= noLocators()).subscribe.push(readLocator(reader));
          break;
        case 0x4a:
          count();
          (locators ??= noLocators()).unsubscribe.push(readLocator(reader));
          break;
        default:
          reader.skipType(wireTypeOf(tag));
      }
    }
    return {
      node,
      typeUrl,
      subscribe,
      unsubscribe,
      ...(locators && { locators }),
      initialVersions,
      ...(versionsLeftOut > 0 && { versionsLeftOut }),
      responseNonce,
      errorDetail,
    };
  });
}

const noLocators = (): { subscribe: ParameterizedName[]; unsubscribe: ParameterizedName[] } => ({
  subscribe: [],
  unsubscribe: [],
});

/**
 * @param maxResources most resources, removed names and errors in one response, counted before any
 * of them is decoded; more is `too_many`
 */
export const decodeDeltaResponse = (
  bytes: Uint8Array,
  maxResources: number,
): Decoded<DeltaResponse> => decodeAtOnce(bytes, deltaFields(bytes, maxResources));

/** The same in portions; `maxResources` is checked in the first one. */
export const decodingDeltaResponse = (
  bytes: Uint8Array,
  maxResources: number,
): Decoding<DeltaResponse> => decodeInPortions(bytes, deltaFields(bytes, maxResources));

const deltaFields =
  (bytes: Uint8Array, maxResources: number): FieldReading<DeltaResponse> =>
  (reader) => {
    reader.fieldsLeft = maxFieldsFor(countEntries(bytes, maxResources, DELTA_ENTRIES));
    const resources: WireResource[] = [];
    const removed: string[] = [];
    const errors: ResourceError[] = [];
    const message: DeltaResponse & { typeUrl: string; nonce: string; systemVersion: string } & {
      removedVariants?: VariantName[];
    } = { typeUrl: '', nonce: '', systemVersion: '', resources, removed, errors };
    const readField = (tag: number): boolean => {
      switch (tag) {
        case 0x0a:
          message.systemVersion = readText(reader);
          return false;
        case 0x12:
          resources.push(readResource(reader));
          return true;
        case 0x22:
          message.typeUrl = readText(reader);
          return false;
        case 0x2a:
          message.nonce = readText(reader);
          return false;
        case 0x32:
          removed.push(readText(reader));
          return true;
        case 0x42:
          (message.removedVariants ??= []).push(readVariantName(reader));
          return true;
        case 0x4a:
          errors.push(readResourceError(reader));
          return true;
        default:
          reader.skipType(wireTypeOf(tag));
          return false;
      }
    };
    return { message, readField };
  };

/** @returns the number of entries left out: 1 if there are `max` others */
function readVersionEntry(reader: FieldReader, into: Map<string, string>, max: number): number {
  const [key, value] = readPair(reader);
  if (into.size >= max && !into.has(key)) return 1;
  into.set(key, value);
  return 0;
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
  for (const one of request.locators?.subscribe ?? []) writeLocator(writer.uint32(0x42), one);
  for (const one of request.locators?.unsubscribe ?? []) writeLocator(writer.uint32(0x4a), one);
  return writer.finish();
}

function writeLocator(writer: protobuf.Writer, { name, parameters }: ParameterizedName): void {
  writer.fork().uint32(0x0a).string(name);
  for (const [key, value] of parametersIn(parameters)) {
    writer.uint32(0x12).fork();
    writer.uint32(0x0a).string(key).uint32(0x12).string(value).ldelim();
  }
  writer.ldelim();
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
  readonly resources: readonly Buffer[];
  readonly removed: readonly string[];
  readonly removedVariants?: readonly VariantName[];
  readonly errors: readonly ResourceError[];
}

export function encodeDeltaResponse(parts: DeltaResponseParts): Chunks {
  return spliceResponse(parts.typeUrl, parts.nonce, parts.resources, encodeTail(parts));
}

/** Removals and errors; most responses have neither. */
function encodeTail({ removed, removedVariants = [], errors }: DeltaResponseParts): Uint8Array {
  if (removed.length + removedVariants.length + errors.length === 0) return NO_BYTES;
  const writer = Writer.create();
  for (const name of removed) writer.uint32(0x32).string(name);
  for (const { name, constraints } of removedVariants) {
    writer.uint32(0x42).fork().uint32(0x0a).string(name).uint32(0x12).bytes(constraints).ldelim();
  }
  writeErrors(writer, 0x4a, errors);
  return writer.finish();
}
