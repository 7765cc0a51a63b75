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
import { envoyRegistry } from './envoy-registry.js';

const REQUEST = 'envoy.service.discovery.v3.DiscoveryRequest';
const RESPONSE = 'envoy.service.discovery.v3.DiscoveryResponse';

export type Converted<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly reason: string };

/**
 * @param text a `DiscoveryRequest` as JSON. Unknown fields are ignored: a newer Envoy has more of them.
 * @returns its binary form, or why the text is not a request
 */
export function requestFromJson(text: string): Converted<Uint8Array> {
  const registry = envoyRegistry();
  const desc = descOf(REQUEST, registry);
  try {
    const json = JSON.parse(text) as JsonValue;
    const message = fromJson(desc, json, { registry, ignoreUnknownFields: true });
    return { ok: true, value: toBinary(desc, message) };
  } catch (error) {
    return failed(error);
  }
}

/**
 * @param bytes a `DiscoveryResponse` of the gateway
 * @returns its JSON. A resource that JSON cannot carry in full (a type or field that the built-in
 * Envoy API lacks) is an error: without the field, the resource would mean something else.
 */
export function responseToJson(bytes: Uint8Array): Converted<string> {
  const registry = envoyRegistry();
  const desc = descOf(RESPONSE, registry);
  try {
    const message = fromBinary(desc, bytes);
    // Fields of the response itself, such as resource errors, may be unknown: clients ignore them.
    delete message.$unknown;
    const lost = unknownInside(reflect(desc, message), registry);
    if (lost !== undefined) return { ok: false, reason: lost };
    return { ok: true, value: JSON.stringify(toJson(desc, message, { registry })) };
  } catch (error) {
    return failed(error);
  }
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
function unknownIn(desc: DescMessage, message: Message, registry: Registry): string | undefined {
  const [field] = message.$unknown ?? [];
  if (field)
    return `${desc.typeName} has the field ${field.no}, which the built-in Envoy API lacks`;
  if (!isMessage(message, AnySchema)) return unknownInside(reflect(desc, message), registry);
  if (message.typeUrl === '') return undefined;
  const typeName = message.typeUrl.slice(message.typeUrl.lastIndexOf('/') + 1);
  const inner = registry.getMessage(typeName);
  if (!inner) return `the built-in Envoy API lacks the type ${typeName}`;
  return unknownIn(inner, fromBinary(inner, message.value), registry);
}

function unknownInside(message: ReflectMessage, registry: Registry): string | undefined {
  for (const field of message.fields) {
    if (field.message === undefined || !message.isSet(field)) continue;
    for (const part of partsOf(message, field)) {
      const lost = unknownIn(part.desc, part.message, registry);
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
