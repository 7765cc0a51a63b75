/** What a resource looks like to people: without secrets, and with unknown types by their size only. */
import {
  fromBinary,
  fromJson,
  isMessage,
  toBinary,
  type DescMessage,
  type FileRegistry,
  type JsonObject,
  type JsonValue,
  type Message,
} from '@bufbuild/protobuf';
import { reflect, type ReflectMessage } from '@bufbuild/protobuf/reflect';
import { AnySchema, anyPack, StructSchema, type Any } from '@bufbuild/protobuf/wkt';

const REDACTED = '[redacted]';
const SECRET = 'envoy.extensions.transport_sockets.tls.v3.Secret';

/** `(udpa.annotations.sensitive)` of field options; Envoy redacts its own dumps by it. */
const SENSITIVE_OPTION = 76569463;

/**
 * Replaces, in place, every Any inside whose type is not in the registry or whose value does not
 * parse, by a Struct that tells type and size: without it nothing of the resource could be shown.
 */
export function hideUnknownTypes(
  desc: DescMessage,
  message: Message,
  registry: FileRegistry,
): void {
  if (isMessage(message, AnySchema)) hideUnknownAny(message, registry);
  else hideInside(reflect(desc, message), registry);
}

function hideInside(message: ReflectMessage, registry: FileRegistry): void {
  for (const field of message.fields) {
    if (field.message === undefined || !message.isSet(field)) continue;
    if (field.fieldKind === 'message') {
      const inner = message.get(field);
      hideUnknownTypes(inner.desc, inner.message, registry);
      continue;
    }
    const parts: Iterable<unknown> =
      field.fieldKind === 'list' ? message.get(field) : message.get(field).values();
    for (const part of parts) {
      const { desc, message: inner } = part as ReflectMessage;
      hideUnknownTypes(desc, inner, registry);
    }
  }
}

function hideUnknownAny(any: Any, registry: FileRegistry): void {
  if (any.typeUrl === '') return;
  const desc = registry.getMessage(any.typeUrl.slice(any.typeUrl.lastIndexOf('/') + 1));
  try {
    if (desc === undefined) throw new TypeError('unknown type');
    const inner = fromBinary(desc, any.value);
    hideUnknownTypes(desc, inner, registry);
    any.value = toBinary(desc, inner);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const note = fromJson(StructSchema, { type: any.typeUrl, bytes: any.value.length, error: why });
    Object.assign(any, anyPack(StructSchema, note));
  }
}

/** A copy of proto3 JSON (with proto field names) in which no secret is left. */
export function redact(desc: DescMessage, value: JsonValue, registry: FileRegistry): JsonValue {
  if (!isObject(value)) return value;
  if (desc.typeName === SECRET) return { name: value['name'] ?? '', redacted: true };
  if (desc.typeName === AnySchema.typeName) return redactAny(value, registry);
  const result: JsonObject = {};
  for (const [key, part] of Object.entries(value)) {
    const field = desc.fields.find((candidate) => candidate.name === key);
    const sensitive =
      field?.proto.options?.$unknown?.some(({ no }) => no === SENSITIVE_OPTION) === true;
    if (sensitive) result[key] = blank(part);
    else if (field?.message === undefined) result[key] = part;
    else result[key] = redactField(field.fieldKind, field.message, part, registry);
  }
  return result;
}

function redactField(
  kind: 'message' | 'list' | 'map' | 'scalar' | 'enum',
  desc: DescMessage,
  value: JsonValue,
  registry: FileRegistry,
): JsonValue {
  if (kind === 'list' && Array.isArray(value))
    return value.map((item) => redact(desc, item, registry));
  if (kind === 'map' && isObject(value)) {
    const entries = Object.entries(value).map(
      ([key, item]) => [key, redact(desc, item, registry)] as const,
    );
    return Object.fromEntries(entries);
  }
  return redact(desc, value, registry);
}

function redactAny(value: JsonObject, registry: FileRegistry): JsonValue {
  const { '@type': type, ...fields } = value;
  if (typeof type !== 'string') return value;
  const desc = registry.getMessage(type.slice(type.lastIndexOf('/') + 1));
  if (desc === undefined) return value;
  const shown = redact(desc, fields, registry);
  return isObject(shown) ? { '@type': type, ...shown } : shown;
}

/** All that a sensitive field says goes; its shape stays, so that one sees that it is set. */
function blank(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(blank);
  if (!isObject(value)) return REDACTED;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, blank(part)]));
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
