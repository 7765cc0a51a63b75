/**
 * Encodes `envoy.config.core.v3.Node` for sources, and decodes the fields that the gateway needs of
 * clients.
 */
import protobuf from 'protobufjs/minimal.js';
import { eachField, eachFieldOfMessage, readerOf, readText } from './discovery-fields.js';

const { Writer } = protobuf;

export interface NodeFields {
  readonly id: string;
  readonly cluster: string;
  readonly locality?: { readonly region: string; readonly zone: string; readonly subZone: string };
  /** A JSON object, sent as `google.protobuf.Struct`. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Type URL → `xds.core.v3.ContextParams` for responses of that type. */
  readonly dynamicParameters?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly userAgentName: string;
  readonly userAgentVersion: string;
}

export function encodeNode(node: NodeFields): Uint8Array {
  const writer = Writer.create();
  writer.uint32(0x0a).string(node.id).uint32(0x12).string(node.cluster);
  if (node.metadata) writeStruct(writer.uint32(0x1a), node.metadata);
  if (node.locality) {
    const { region, zone, subZone } = node.locality;
    writer.uint32(0x22).fork();
    writer.uint32(0x0a).string(region).uint32(0x12).string(zone).uint32(0x1a).string(subZone);
    writer.ldelim();
  }
  writer.uint32(0x32).string(node.userAgentName);
  writer.uint32(0x3a).string(node.userAgentVersion);
  for (const [typeUrl, params] of Object.entries(node.dynamicParameters ?? {})) {
    writer.uint32(0x62).fork().uint32(0x0a).string(typeUrl).uint32(0x12).fork();
    for (const [key, value] of Object.entries(params)) {
      writer.uint32(0x0a).fork().uint32(0x0a).string(key).uint32(0x12).string(value).ldelim();
    }
    writer.ldelim().ldelim();
  }
  return writer.finish();
}

function writeStruct(writer: protobuf.Writer, value: Readonly<Record<string, unknown>>): void {
  writer.fork();
  for (const [key, field] of Object.entries(value)) {
    writer.uint32(0x0a).fork().uint32(0x0a).string(key);
    writeValue(writer.uint32(0x12), field);
    writer.ldelim();
  }
  writer.ldelim();
}

/** `google.protobuf.Value`. */
function writeValue(writer: protobuf.Writer, value: unknown): void {
  writer.fork();
  if (typeof value === 'number') writer.uint32(0x11).double(value);
  else if (typeof value === 'string') writer.uint32(0x1a).string(value);
  else if (typeof value === 'boolean') writer.uint32(0x20).bool(value);
  else if (Array.isArray(value)) {
    writer.uint32(0x32).fork();
    for (const item of value) writeValue(writer.uint32(0x0a), item);
    writer.ldelim();
  } else if (typeof value === 'object' && value !== null) {
    writeStruct(writer.uint32(0x2a), value as Readonly<Record<string, unknown>>);
  } else writer.uint32(0x08).int32(0);
  writer.ldelim();
}

/** The decoded fields of a client's Node. */
export interface ClientNode {
  readonly id: string;
  readonly cluster: string;
  readonly userAgentName: string;
  readonly locality?: { readonly region: string; readonly zone: string; readonly subZone: string };
  /** The requested metadata keys that the Node has. */
  readonly metadata: Readonly<Record<string, unknown>>;
  /** The bytes are not a Node. The other fields have what was decoded before the error. */
  readonly malformed: boolean;
}

const MAX_VALUE_DEPTH = 32;

/**
 * Decodes the needed fields of a Node and skips all others: Envoy's Node has 60 kB of extensions. Never
 * throws.
 *
 * @param metadataKeys the top-level metadata keys to decode
 */
export function readClientNode(
  bytes: Uint8Array,
  metadataKeys: readonly string[] = [],
): ClientNode {
  let id = '';
  let cluster = '';
  let userAgentName = '';
  let locality: ClientNode['locality'];
  let metadata: Record<string, unknown> = {};
  let malformed = false;
  const wanted = new Set(metadataKeys);
  try {
    const reader = readerOf(bytes);
    eachField(reader, reader.len, (tag) => {
      if (tag === 0x0a) id = readText(reader);
      else if (tag === 0x12) cluster = readText(reader);
      else if (tag === 0x1a) metadata = { ...metadata, ...readStruct(reader, 0, wanted) };
      else if (tag === 0x22) locality = readLocality(reader);
      else if (tag === 0x32) userAgentName = readText(reader);
      else return false;
      return true;
    });
  } catch {
    malformed = true;
  }
  return { id, cluster, userAgentName, ...(locality ? { locality } : {}), metadata, malformed };
}

/** Reads an `envoy.config.core.v3.Locality`, which begins with its length. */
export function readLocality(reader: protobuf.Reader): NonNullable<ClientNode['locality']> {
  const locality = { region: '', zone: '', subZone: '' };
  eachFieldOfMessage(reader, (tag) => {
    if (tag === 0x0a) locality.region = readText(reader);
    else if (tag === 0x12) locality.zone = readText(reader);
    else if (tag === 0x1a) locality.subZone = readText(reader);
    else return false;
    return true;
  });
  return locality;
}

/** @param wanted the keys to decode; undefined: all keys */
function readStruct(
  reader: protobuf.Reader,
  depth: number,
  wanted?: ReadonlySet<string>,
): Record<string, unknown> {
  const entries: [string, unknown][] = [];
  eachFieldOfMessage(reader, (tag) => {
    if (tag !== 0x0a) return false;
    let key = '';
    let valueAt = -1;
    eachFieldOfMessage(reader, (inner) => {
      if (inner === 0x0a) key = readText(reader);
      else if (inner === 0x12) {
        valueAt = reader.pos;
        return false;
      } else return false;
      return true;
    });
    if (wanted?.has(key) === false) return true;
    // The value may precede its key.
    const end = reader.pos;
    if (valueAt !== -1) reader.pos = valueAt;
    entries.push([key, valueAt === -1 ? null : readValue(reader, depth)]);
    reader.pos = end;
    return true;
  });
  return Object.fromEntries(entries);
}

/** `google.protobuf.Value`. NaN and infinities, which JSON lacks, become text such as `"NaN"`. */
function readValue(reader: protobuf.Reader, depth: number): unknown {
  if (depth > MAX_VALUE_DEPTH) throw new RangeError('metadata is nested too deeply');
  let value: unknown = null;
  eachFieldOfMessage(reader, (tag) => {
    if (tag === 0x11) {
      const number = reader.double();
      value = Number.isFinite(number) ? number : String(number);
    } else if (tag === 0x1a) value = readText(reader);
    else if (tag === 0x20) value = reader.bool();
    else if (tag === 0x2a) value = readStruct(reader, depth + 1);
    else if (tag === 0x32) value = readList(reader, depth + 1);
    else return false;
    return true;
  });
  return value;
}

function readList(reader: protobuf.Reader, depth: number): readonly unknown[] {
  const values: unknown[] = [];
  eachFieldOfMessage(reader, (tag) => {
    if (tag !== 0x0a) return false;
    values.push(readValue(reader, depth));
    return true;
  });
  return values;
}

/** Whether the `client_features` of an encoded Node include `feature`; false for invalid bytes. */
export function hasClientFeature(bytes: Uint8Array, feature: string): boolean {
  try {
    const reader = readerOf(bytes);
    while (reader.pos < reader.len) {
      const tag = reader.uint32();
      if (tag !== 0x52) reader.skipType(tag & 7);
      else if (readText(reader) === feature) return true;
    }
  } catch {
    // Invalid bytes: such a client gets the form that all clients understand.
  }
  return false;
}
