/**
 * State-of-the-world requests and responses as proto3 JSON, for REST. The binary form is that of
 * sotw-codec.ts. Like json-resources.ts, this uses the descriptors of the whole Envoy API: it decodes
 * each resource, which no other path to clients does.
 */
import {
  fromBinary,
  fromJson,
  isMessage,
  toBinary,
  toJson,
  type DescMessage,
  type Registry,
  type JsonValue,
  type Message,
} from '@bufbuild/protobuf';
import { reflect, type ReflectMessage } from '@bufbuild/protobuf/reflect';
import { AnySchema } from '@bufbuild/protobuf/wkt';
import type { Chunks } from './discovery-fields.js';
import { envoyRegistry } from './envoy-registry.js';
import { preparing } from './json-resources.js';
import { LARGE_RESOURCE, MAX_NESTED_MESSAGES, NESTS_TOO_DEEPLY } from './large-resource.js';
import { FieldCursor } from './protobuf-fields.js';
import { messageOf } from './type-urls.js';

const REQUEST = 'envoy.service.discovery.v3.DiscoveryRequest';
const RESPONSE = 'envoy.service.discovery.v3.DiscoveryResponse';

export type Converted<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly reason: string };

/**
 * Values of a request beside its names: objects, lists, numbers, texts. The Node of an Envoy with all its extensions
 * has some 3,000. Reading 1 MB of numbers would take a quarter of a second.
 */
const MAX_VALUES = 10_000;

const TOO_MANY: Converted<never> = {
  ok: false,
  reason: `it has more than ${MAX_VALUES} values beside the names`,
};

/** Prepares the conversion of requests, in steps (`preparing`). */
export const preparingRequests = (): Generator<undefined> => preparing(REQUEST);

/**
 * @param bytes a `DiscoveryRequest` as JSON. Unknown fields are ignored: a newer Envoy has more of them.
 * @param maxNames so many names the gateway may accept
 * @returns its binary form, or why the text is not a request
 */
export function requestFromJson(bytes: Uint8Array, maxNames: number): Converted<Uint8Array> {
  // Texts have commas and brackets too.
  if (separatorsIn(bytes) > maxNames + 2 * MAX_VALUES) return TOO_MANY;
  const registry = envoyRegistry();
  const desc = descOf(REQUEST, registry);
  try {
    const json = JSON.parse(Buffer.from(bytes).toString()) as JsonValue;
    if (hasTooManyValues(json)) return TOO_MANY;
    const message = fromJson(desc, json, { registry, ignoreUnknownFields: true });
    return { ok: true, value: toBinary(desc, message) };
  } catch (error) {
    return failed(error);
  }
}

/** The number of commas and opening brackets. Only 1 MB of them would take long to parse. */
function separatorsIn(bytes: Uint8Array): number {
  let count = 0;
  // Ten times as fast as `for … of`.
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === 0x2c || byte === 0x5b || byte === 0x7b) count++;
  }
  return count;
}

function hasTooManyValues(json: JsonValue): boolean {
  let values = 0;
  // Without recursion: a text may nest deeper than the stack.
  const left: JsonValue[] = [json];
  for (let value = left.pop(); value !== undefined; value = left.pop()) {
    if (value === null || typeof value !== 'object') continue;
    for (const [key, inner] of Object.entries(value)) {
      if (value === json && (key === 'resourceNames' || key === 'resource_names')) continue;
      if (++values > MAX_VALUES) return true;
      left.push(inner);
    }
  }
  return false;
}

/** `resources` of a DiscoveryResponse. */
const RESOURCES = 2;

/** Longer JSON is in several chunks. Characters. */
const CHUNK_LENGTH = 65_536;

/**
 * Writes one resource in each step, since a response may have thousands: 1,000 resources of 1 KB take some 150 ms.
 *
 * @param bytes a `DiscoveryResponse` of the gateway
 * @returns yields a large resource (`LARGE_RESOURCE`), whose JSON (`largeResourceToJson`) the caller may pass to `next`; returns the
 * JSON. A resource that JSON cannot carry in full (a type or field that the built-in
 * Envoy API lacks) is an error: without the field, the resource would mean something else.
 */
export function* responseToJson(
  bytes: Uint8Array,
): Generator<Uint8Array | undefined, Converted<Chunks>, Converted<Uint8Array> | undefined> {
  const chunks: Buffer[] = [];
  const others: Uint8Array[] = [];
  let text = '{"resources":[';
  let separator = '';
  try {
    const registry = envoyRegistry();
    const fields = new FieldCursor(bytes, 0, bytes.length);
    for (let start = 0; fields.next(); start = fields.valueEnd) {
      if (fields.number !== RESOURCES) {
        others.push(bytes.subarray(start, fields.valueEnd));
        continue;
      }
      const any = bytes.subarray(fields.valueStart, fields.valueEnd);
      const elsewhere = any.length > LARGE_RESOURCE ? yield any : undefined;
      if (elsewhere) {
        if (!elsewhere.ok) return elsewhere;
        const { buffer, byteOffset, length } = elsewhere.value;
        chunks.push(Buffer.from(text + separator), Buffer.from(buffer, byteOffset, length));
        text = '';
        separator = ',';
        continue;
      }
      const json = anyToJson(any, registry);
      if (!json.ok) return json;
      text += separator + json.value;
      separator = ',';
      if (text.length >= CHUNK_LENGTH) {
        chunks.push(Buffer.from(text));
        text = '';
      }
      yield;
    }
    if (fields.malformed) return { ok: false, reason: 'the response is malformed' };
    const desc = descOf(RESPONSE, registry);
    // It knows no resource errors: clients of REST ignore them.
    const rest = JSON.stringify(
      toJson(desc, fromBinary(desc, Buffer.concat(others)), { registry }),
    );
    chunks.push(Buffer.from(`${text}]${rest === '{}' ? '' : ','}${rest.slice(1)}`));
    return { ok: true, value: chunks };
  } catch (error) {
    return failed(error);
  }
}

/** @param bytes an Any. @returns its JSON; for another thread, which takes no strings over without a copy */
export function largeResourceToJson(bytes: Uint8Array): Converted<Uint8Array> {
  try {
    const json = anyToJson(bytes, envoyRegistry());
    return json.ok ? { ok: true, value: Buffer.from(json.value) } : json;
  } catch (error) {
    return failed(error);
  }
}

function anyToJson(bytes: Uint8Array, registry: Registry): Converted<string> {
  const any = fromBinary(AnySchema, bytes);
  const lost = unknownIn(AnySchema, any, registry);
  if (lost !== undefined) return { ok: false, reason: lost };
  return { ok: true, value: JSON.stringify(toJson(AnySchema, any, { registry })) };
}

function failed(error: unknown): { readonly ok: false; readonly reason: string } {
  return { ok: false, reason: error instanceof Error ? error.message : String(error) };
}

function descOf(typeName: string, registry: Registry): DescMessage {
  const desc = registry.getMessage(typeName);
  if (desc === undefined) throw new Error(`envoy-descriptors.binpb lacks ${typeName}`);
  return desc;
}

/** @returns what JSON would lose of the message, or undefined */
function unknownIn(
  desc: DescMessage,
  message: Message,
  registry: Registry,
  nested = 0,
): string | undefined {
  if (nested > MAX_NESTED_MESSAGES) return NESTS_TOO_DEEPLY;
  const [field] = message.$unknown ?? [];
  if (field)
    return `${desc.typeName} has the field ${field.no}, which the built-in Envoy API lacks`;
  if (!isMessage(message, AnySchema))
    return unknownInside(reflect(desc, message), registry, nested + 1);
  if (message.typeUrl === '') return undefined;
  const typeName = messageOf(message.typeUrl);
  const inner = registry.getMessage(typeName);
  if (!inner) return `the built-in Envoy API lacks the type ${typeName}`;
  return unknownIn(inner, fromBinary(inner, message.value), registry, nested + 1);
}

function unknownInside(
  message: ReflectMessage,
  registry: Registry,
  nested: number,
): string | undefined {
  for (const field of message.fields) {
    if (field.message === undefined || !message.isSet(field)) continue;
    for (const part of partsOf(message, field)) {
      const lost = unknownIn(part.desc, part.message, registry, nested);
      if (lost !== undefined) return lost;
    }
  }
  return undefined;
}

function partsOf(
  message: ReflectMessage,
  field: ReflectMessage['fields'][number],
): Iterable<ReflectMessage> {
  if (field.fieldKind === 'message') return [message.get(field)];
  const parts: Iterable<unknown> =
    field.fieldKind === 'list'
      ? message.get(field)
      : field.fieldKind === 'map'
        ? message.get(field).values()
        : [];
  return parts as Iterable<ReflectMessage>;
}
