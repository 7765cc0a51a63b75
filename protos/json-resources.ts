/**
 * Resources as people write them (proto3 JSON, also spelled in YAML) to and from the bytes that
 * travel in an `Any`, over the whole Envoy API. For files and for the admin side only: on the way
 * from a source to a client, bodies stay opaque.
 */
import {
  fromBinary,
  fromJson,
  toBinary,
  toJson,
  type DescField,
  type DescMessage,
  type FileRegistry,
  type JsonObject,
  type JsonValue,
} from '@bufbuild/protobuf';
import { envoyRegistry } from './envoy-registry.js';
import { hideUnknownTypes, redact } from './resource-view.js';
import { TYPE_URL_PREFIX } from './type-urls.js';

export interface JsonResource {
  readonly ok: true;
  readonly typeUrl: string;
  /** The payload's own name (a string field number 1 called `name` or `…_name`); empty when it has none. */
  readonly name: string;
  /** The serialized message: the `value` of an `Any`. */
  readonly body: Uint8Array;
}

export interface JsonResourceError {
  readonly ok: false;
  /** Keys and indexes from the resource to what is wrong in it. */
  readonly path: readonly (string | number)[];
  /** Whether the last key itself is wrong, or what it holds. */
  readonly part: 'key' | 'value';
  readonly message: string;
}

/**
 * A JSON object with `@type` → the resource. Any messages inside it (`typed_config`) are JSON objects
 * with `@type` too. Field names may be snake_case or lowerCamelCase. Unknown fields, unknown types and
 * wrong values are errors. Throws only when the descriptor set was not built.
 */
export function resourceFromJson(value: unknown): JsonResource | JsonResourceError {
  if (!isObject(value)) return fault([], 'must be an object with "@type"');
  const { '@type': type, ...fields } = value;
  if (typeof type !== 'string') return fault([], 'has no "@type"');
  const registry = envoyRegistry();
  const desc = messageOf(type, registry);
  if (desc === undefined) return fault(['@type'], unknownType(type));
  try {
    const message = fromJson(desc, fields, { registry });
    const name: unknown = Object.entries(message).find(
      ([key]) => key === ownNameField(desc)?.localName,
    )?.[1];
    return {
      ok: true,
      typeUrl: TYPE_URL_PREFIX + desc.typeName,
      name: typeof name === 'string' ? name : '',
      body: toBinary(desc, message),
    };
  } catch (error) {
    return locateFault(desc, fields, registry, []) ?? fault([], textOf(error));
  }
}

/**
 * The bytes of an `Any` → proto3 JSON with `@type` and snake_case names, for people to look at.
 * Nothing in the bytes makes it throw: types that are not known, inside too, and bodies that do not parse
 * are shown by type and size. A Secret shows its name only; what the Envoy API marks as
 * sensitive shows as `[redacted]`. Throws only when the descriptor set was not built.
 */
export function resourceToJson(typeUrl: string, body: Uint8Array): JsonObject {
  const registry = envoyRegistry();
  const desc = messageOf(typeUrl, registry);
  if (desc === undefined) return { '@type': typeUrl, bytes: body.length, error: 'unknown type' };
  try {
    const message = fromBinary(desc, body);
    hideUnknownTypes(desc, message, registry);
    const shown = redact(
      desc,
      toJson(desc, message, { registry, useProtoFieldName: true }),
      registry,
    );
    return isObject(shown) ? { '@type': typeUrl, ...shown } : { '@type': typeUrl, value: shown };
  } catch (error) {
    return { '@type': typeUrl, bytes: body.length, error: textOf(error) };
  }
}

function ownNameField(desc: DescMessage): DescField | undefined {
  return desc.fields.find((field) => field.number === 1 && /(^|_)name$/.test(field.name));
}

/** The part of a type URL after its last slash names the type (google/protobuf/any.proto). */
function messageOf(typeUrl: string, registry: FileRegistry): DescMessage | undefined {
  return registry.getMessage(typeUrl.slice(typeUrl.lastIndexOf('/') + 1));
}

function unknownType(typeUrl: string): string {
  return `${JSON.stringify(typeUrl)} is not a type of the Envoy API (v3) that is built in`;
}

/**
 * Where a value went wrong. protobuf-es names the field but not the way to it, so each part is tried
 * alone, outermost first; only after a failure, so its cost does not matter.
 */
function locateFault(
  desc: DescMessage,
  value: unknown,
  registry: FileRegistry,
  path: readonly (string | number)[],
): JsonResourceError | undefined {
  if (desc.typeName === 'google.protobuf.Any') return locateInAny(value, registry, path);
  if (!isObject(value) || desc.typeName.startsWith('google.protobuf.')) return undefined;
  for (const [key, part] of Object.entries(value)) {
    const at = [...path, key];
    const field = desc.fields.find(
      (candidate) => candidate.jsonName === key || candidate.name === key,
    );
    if (field === undefined) return fault(at, `${desc.typeName} has no such field`, 'key');
    const message = failure(desc, { [key]: part }, registry);
    if (message === undefined) continue;
    return locateInField(field, part, registry, at) ?? fault(at, wordsFor(field) ?? message);
  }
  return undefined;
}

/** What may stand in an enum field, which the library's message does not tell. */
function wordsFor(field: DescField): string | undefined {
  if (field.enum === undefined) return undefined;
  return `must be one of ${field.enum.values.map((value) => value.name).join(', ')}`;
}

function locateInField(
  field: DescField,
  value: JsonValue,
  registry: FileRegistry,
  path: readonly (string | number)[],
): JsonResourceError | undefined {
  const { message } = field;
  if (message === undefined) return undefined;
  if (field.fieldKind === 'message') return locateFault(message, value, registry, path);
  const parts: (readonly [string | number, unknown])[] = Array.isArray(value)
    ? value.map((item, index) => [index, item] as const)
    : Object.entries(isObject(value) ? value : {});
  for (const [key, part] of parts) {
    const error = failure(message, part, registry);
    if (error === undefined) continue;
    return locateFault(message, part, registry, [...path, key]) ?? fault([...path, key], error);
  }
  return undefined;
}

function locateInAny(
  value: unknown,
  registry: FileRegistry,
  path: readonly (string | number)[],
): JsonResourceError | undefined {
  if (!isObject(value)) return undefined;
  const { '@type': type, ...fields } = value;
  if (typeof type !== 'string') return fault(path, 'has no "@type"');
  const desc = messageOf(type, registry);
  if (desc === undefined) return fault([...path, '@type'], unknownType(type));
  return locateFault(desc, fields, registry, path);
}

function failure(desc: DescMessage, value: unknown, registry: FileRegistry): string | undefined {
  try {
    fromJson(desc, value as JsonValue, { registry });
    return undefined;
  } catch (error) {
    return textOf(error);
  }
}

function fault(
  path: readonly (string | number)[],
  message: string,
  part: JsonResourceError['part'] = 'value',
): JsonResourceError {
  return { ok: false, path, part, message };
}

/** Without the library's "cannot decode …:" in front, which the path says better. */
function textOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.replace(/^cannot decode (field|oneof) \S+ from JSON: /, '');
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
