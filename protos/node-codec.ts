/** `envoy.config.core.v3.Node`: written for sources, and as much of it read as the gateway shows of a client. */
import protobuf from 'protobufjs/minimal.js';

const { Reader, Writer } = protobuf;

export interface NodeFields {
  readonly id: string;
  readonly cluster: string;
  readonly locality?: { readonly region: string; readonly zone: string; readonly subZone: string };
  /** A JSON object; becomes a `google.protobuf.Struct`. */
  readonly metadata?: Readonly<Record<string, unknown>>;
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

/**
 * Id and cluster of an encoded Node. Everything else is skipped: Envoy's Node has 60 kB of extensions.
 * Bytes that are no Node give empty strings.
 */
export function readNodeIdentity(bytes: Uint8Array): {
  readonly id: string;
  readonly cluster: string;
} {
  let id = '';
  let cluster = '';
  try {
    const reader = Reader.create(bytes);
    while (reader.pos < reader.len) {
      const tag = reader.uint32();
      if (tag === 0x0a) id = reader.string();
      else if (tag === 0x12) cluster = reader.string();
      else reader.skipType(tag & 7);
    }
  } catch {
    // It only serves to be looked at.
  }
  return { id, cluster };
}

/** Does an encoded Node list this among its `client_features`? Bytes that are no Node list nothing. */
export function hasClientFeature(bytes: Uint8Array, feature: string): boolean {
  try {
    const reader = Reader.create(bytes);
    while (reader.pos < reader.len) {
      const tag = reader.uint32();
      if (tag !== 0x52) reader.skipType(tag & 7);
      else if (reader.string() === feature) return true;
    }
  } catch {
    // Such a client gets what all clients understand.
  }
  return false;
}
