/** Prepares resources for dumps: redacts secrets, and replaces content of unknown types by its size. */
import {
  fromBinary,
  fromJson,
  isMessage,
  toBinary,
  type DescMessage,
  type Registry,
  type JsonObject,
  type JsonValue,
  type Message,
} from '@bufbuild/protobuf';
import { reflect, type ReflectMessage } from '@bufbuild/protobuf/reflect';
import { AnySchema, anyPack, StructSchema, type Any } from '@bufbuild/protobuf/wkt';
import { isObject } from './json-object.js';
import { MAX_NESTED_MESSAGES, NESTS_TOO_DEEPLY } from './large-resource.js';
import { messageOf } from './type-urls.js';

const REDACTED = '[redacted]';
const SECRET = 'envoy.extensions.transport_sockets.tls.v3.Secret';

/** The field option `(udpa.annotations.sensitive)`, by which Envoy redacts its own dumps. */
const SENSITIVE_OPTION = 76569463;

/**
 * Replaces in place an Any by a Struct with its type and size if its type is unknown, its value is invalid, or more than
 * `MAX_NESTED_MESSAGES` messages are nested in one another there. Otherwise the whole resource could not be converted to JSON.
 */
export function hideUnknownTypes(
  desc: DescMessage,
  message: Message,
  registry: Registry,
  nested = 0,
): void {
  if (nested > MAX_NESTED_MESSAGES) throw new RangeError(NESTS_TOO_DEEPLY);
  if (isMessage(message, AnySchema)) hideUnknownAny(message, registry, nested + 1);
  else hideInside(reflect(desc, message), registry, nested + 1);
}

function hideInside(message: ReflectMessage, registry: Registry, nested: number): void {
  for (const field of message.fields) {
    if (field.message === undefined || !message.isSet(field)) continue;
    if (field.fieldKind === 'message') {
      const inner = message.get(field);
      hideUnknownTypes(inner.desc, inner.message, registry, nested);
      continue;
    }
    const parts: Iterable<unknown> =
      field.fieldKind === 'list' ? message.get(field) : message.get(field).values();
    for (const part of parts) {
      const { desc, message: inner } = part as ReflectMessage;
      hideUnknownTypes(desc, inner, registry, nested);
    }
  }
}

function hideUnknownAny(any: Any, registry: Registry, nested: number): void {
  if (any.typeUrl === '') return;
  const desc = registry.getMessage(messageOf(any.typeUrl));
  try {
    if (desc === undefined) throw new TypeError('unknown type');
    const inner = fromBinary(desc, any.value);
    hideUnknownTypes(desc, inner, registry, nested);
    any.value = toBinary(desc, inner);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const note = fromJson(StructSchema, { type: any.typeUrl, bytes: any.value.length, error: why });
    Object.assign(any, anyPack(StructSchema, note));
  }
}

/** Types whose content has no schema, so that any part of it may be a secret. */
const OPAQUE: ReadonlySet<string> = new Set([
  'google.protobuf.BytesValue',
  'google.protobuf.ListValue',
  'google.protobuf.StringValue',
  'google.protobuf.Struct',
  'google.protobuf.Value',
]);
const TYPED_STRUCT = /^(xds\.type\.v3|udpa\.type\.v1)\.TypedStruct$/;
const DATA_SOURCE = 'envoy.config.core.v3.DataSource';
const HEADER = 'envoy.config.core.v3.HeaderValue';
/** Fields with content in place of the name of a file; of a DataSource, and the script of a Lua filter. */
const INLINE_FIELDS: ReadonlySet<string> = new Set([
  'inline_bytes',
  'inline_code',
  'inline_string',
]);
/** Names of fields, headers and keys whose value is a secret. */
const SECRET_NAME =
  /auth(orization)?$|cookie|credential|passw|private.?key|secret|token|(api|access).?key/i;
const isSecretName = (name: unknown): boolean => typeof name === 'string' && SECRET_NAME.test(name);
/** The user and password of a URL. */
const USER_OF_URL = /:\/\/[^/@\s]+@/g;

/** A copy of proto3 JSON (with proto field names) without secrets. */
export function redact(desc: DescMessage, value: JsonValue, registry: Registry): JsonValue {
  if (desc.typeName === 'google.protobuf.Struct') return withoutSecretKeys(value);
  if (!isObject(value)) return shownScalar('', value);
  if (desc.typeName === SECRET) return { name: value['name'] ?? '', redacted: true };
  if (desc.typeName === AnySchema.typeName) return redactAny(value, registry);
  if (TYPED_STRUCT.test(desc.typeName)) return { ...value, value: blank(value['value'] ?? null) };
  const isSecretHeader = desc.typeName === HEADER && isSecretName(value['key']);
  const result: JsonObject = {};
  for (const [key, part] of Object.entries(value)) {
    const isInline =
      INLINE_FIELDS.has(key) && (desc.typeName === DATA_SOURCE || key === 'inline_code');
    if (isInline || (isSecretHeader && key !== 'key')) {
      result[key] = blank(part);
      continue;
    }
    const field = desc.fields.find((candidate) => candidate.name === key);
    const sensitive =
      field?.proto.options?.$unknown?.some(({ no }) => no === SENSITIVE_OPTION) === true;
    if (sensitive) result[key] = blank(part);
    else if (field?.message === undefined) result[key] = shownScalar(key, part);
    else result[key] = redactField(field.fieldKind, field.message, part, registry);
  }
  return result;
}

function redactField(
  kind: 'message' | 'list' | 'map' | 'scalar' | 'enum',
  desc: DescMessage,
  value: JsonValue,
  registry: Registry,
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

function redactAny(value: JsonObject, registry: Registry): JsonValue {
  const { '@type': type, ...fields } = value;
  if (typeof type !== 'string') return value;
  const desc = registry.getMessage(messageOf(type));
  if (desc === undefined) return value;
  if (OPAQUE.has(desc.typeName) && !isNote(fields['value']))
    return { '@type': type, ...asObject(blank(fields)) };
  const shown = redact(desc, fields, registry);
  return isObject(shown) ? { '@type': type, ...shown } : shown;
}

/** The Struct that `hideUnknownAny` puts in place of content. */
const isNote = (value: JsonValue | undefined): boolean =>
  value !== undefined && isObject(value) && Object.keys(value).join() === 'type,bytes,error';

const asObject = (value: JsonValue): JsonObject => (isObject(value) ? value : { value });

/** A value without a message type: a text under a telling name is a secret. */
function shownScalar(key: string, value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map((item) => shownScalar(key, item));
  if (isObject(value)) return withoutSecretKeys(value);
  if (typeof value !== 'string') return value;
  return SECRET_NAME.test(key) && value !== '' ? REDACTED : value.replace(USER_OF_URL, '://…@');
}

/** A Struct, such as metadata: the values under telling keys are secrets. */
function withoutSecretKeys(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(withoutSecretKeys);
  if (!isObject(value)) return shownScalar('', value);
  const entries = Object.entries(value).map(([key, part]) => {
    if (SECRET_NAME.test(key)) return [key, blank(part)] as const;
    return [key, withoutSecretKeys(part)] as const;
  });
  return Object.fromEntries(entries);
}

/** Redacts the values of a sensitive field and keeps its structure, which shows what is set. */
function blank(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(blank);
  if (!isObject(value)) return REDACTED;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, blank(part)]));
}
