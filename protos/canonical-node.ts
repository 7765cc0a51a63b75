/**
 * A canonical encoding of `envoy.config.core.v3.Node`: equal Nodes have equal bytes. A client may write
 * the fields of a message and the entries of a protobuf map in any order, and in another order after a
 * restart (protobuf.dev, "Proto Serialization Is Not Canonical").
 */
import { FieldCursor, wireType } from './protobuf-fields.js';

/** The fields of a message that need an order: by field number. All other fields are opaque. */
interface Shape {
  /** Messages, and the entries of maps. */
  readonly messages: ReadonlyMap<number, Shape>;
  /** Fields that are maps: repeated entries, whose order means nothing. */
  readonly maps: ReadonlySet<number>;
}

const NO_MAPS: ReadonlySet<number> = new Set();

const value: Shape & { readonly messages: Map<number, Shape> } = {
  messages: new Map(),
  maps: NO_MAPS,
};
/** `google.protobuf.Struct`: `map<string, Value> fields = 1`. */
const struct: Shape = {
  messages: new Map([[1, { messages: new Map([[2, value]]), maps: NO_MAPS }]]),
  maps: new Set([1]),
};
/** `google.protobuf.Value`: `Struct struct_value = 5; ListValue list_value = 6`. */
value.messages.set(5, struct);
value.messages.set(6, { messages: new Map([[1, value]]), maps: NO_MAPS });

/** `envoy.config.core.v3.BuildVersion`: `Struct metadata = 2`. */
const buildVersion: Shape = { messages: new Map([[2, struct]]), maps: NO_MAPS };
/** `envoy.config.core.v3.Extension`: `BuildVersion version = 4`. */
const extension: Shape = { messages: new Map([[4, buildVersion]]), maps: NO_MAPS };
/** `xds.core.v3.ContextParams`: `map<string, string> params = 1`. */
const opaque: Shape = { messages: new Map(), maps: NO_MAPS };
const contextParams: Shape = { messages: new Map([[1, opaque]]), maps: new Set([1]) };

const node: Shape = {
  messages: new Map([
    [3, struct],
    [8, buildVersion],
    [9, extension],
    [12, { messages: new Map([[2, contextParams]]), maps: NO_MAPS }],
  ]),
  maps: new Set([12]),
};

const MAX_DEPTH = 100;

/** @returns undefined if the bytes are not a Node, or are nested too deeply. */
export function canonicalNode(bytes: Uint8Array): Buffer | undefined {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const text = canonical(buffer, 0, buffer.length, node, 0);
  return text === undefined ? undefined : Buffer.from(text, 'latin1');
}

interface Part {
  readonly number: number;
  readonly text: string;
}

/** One character for each byte: strings are cheaper to join and to compare than buffers. */
function canonical(
  bytes: Buffer,
  start: number,
  end: number,
  shape: Shape,
  depth: number,
): string | undefined {
  if (depth > MAX_DEPTH) return undefined;
  const parts: Part[] = [];
  const cursor = new FieldCursor(bytes, start, end);
  let at = start;
  let isSorted = true;
  while (cursor.next()) {
    const { number, wire, valueStart, valueEnd } = cursor;
    const inner = wire === wireType.bytes ? shape.messages.get(number) : undefined;
    const text = inner
      ? canonical(bytes, valueStart, valueEnd, inner, depth + 1)
      : bytes.toString('latin1', at, valueEnd);
    if (text === undefined) return undefined;
    const last = parts.at(-1);
    if (last && (last.number > number || shape.maps.has(number))) isSorted = false;
    parts.push({ number, text: framed(number, inner !== undefined, text) });
    at = valueEnd;
  }
  if (cursor.malformed) return undefined;
  if (!isSorted) sort(parts, shape);
  let joined = '';
  for (const { text } of parts) joined += text;
  return joined;
}

/** Stable: entries of a list keep their order. */
function sort(parts: Part[], { maps }: Shape): void {
  parts.sort((a, b) => {
    if (a.number !== b.number) return a.number - b.number;
    if (!maps.has(a.number) || a.text === b.text) return 0;
    return a.text < b.text ? -1 : 1;
  });
}

/**
 * Without the length and kind in front of each part, two different Nodes could have the same text. The
 * result is only hashed, and never decoded.
 */
const framed = (number: number, isMessage: boolean, text: string): string =>
  `${number}${isMessage ? '{' : ':'}${text.length}:${text}`;
