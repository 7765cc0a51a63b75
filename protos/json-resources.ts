/**
 * Converts resources of the whole Envoy API between proto3 JSON (also written as YAML) and the bytes of
 * an `Any`. Only file sources, REST sources and the admin server use it: between a gRPC source and a
 * client, bodies stay opaque.
 */
import {
  fromBinary,
  fromJson,
  toBinary,
  toJson,
  type DescField,
  type DescMessage,
  type Registry,
  type JsonObject,
  type JsonValue,
} from '@bufbuild/protobuf';
import { envoyRegistry } from './envoy-registry.js';
import { isObject } from './json-object.js';
import { hideUnknownTypes, redact } from './resource-view.js';
import { quotableType } from './text-tokens.js';
import { messageOf, TYPE_URL_PREFIX } from './type-urls.js';

export interface JsonResource {
  readonly ok: true;
  readonly typeUrl: string;
  /** The payload's own name: its string field 1 called `name` or `…_name`. Empty if there is none. */
  readonly name: string;
  /** The serialized message: the `value` of an `Any`. */
  readonly body: Uint8Array;
}

export interface JsonResourceError {
  readonly ok: false;
  /** Keys and indexes from the resource to the error. */
  readonly path: readonly (string | number)[];
  /** Whether the error is in the last key of `path` or in its value. */
  readonly part: 'key' | 'value';
  readonly message: string;
}

/**
 * A JSON object with `@type` → the resource. An `Any` inside it (`typed_config`) is a JSON object with
 * `@type` too. Field names may be snake_case or lowerCamelCase. Unknown types and invalid values are
 * errors, and unknown fields too unless they are ignored. Throws only if the descriptor set is missing.
 */
export function resourceFromJson(
  value: unknown,
  { unknownFields = 'refuse' }: { readonly unknownFields?: 'refuse' | 'ignore' } = {},
): JsonResource | JsonResourceError {
  if (!isObject(value)) return fault([], 'must be an object with "@type"');
  const { '@type': type, ...fields } = value;
  if (typeof type !== 'string') return fault([], 'has no "@type"');
  const registry = envoyRegistry();
  const desc = descOf(type, registry);
  if (desc === undefined) return fault(['@type'], unknownType(type));
  const reading = { registry, ignoreUnknownFields: unknownFields === 'ignore' };
  try {
    const message = fromJson(desc, fields as JsonObject, reading);
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
    return locateFault(desc, fields, reading, []) ?? fault([], textOf(error));
  }
}

/**
 * Prepares a conversion of the type, a part of the work with each step: the first one of a process reads the names of all types,
 * and then `LazyRegistry.decoding`. What is prepared already takes no step.
 */
export function* preparing(typeUrl: string): Generator<undefined> {
  yield* envoyRegistry().decoding(messageOf(typeUrl));
}

/**
 * The bytes of an `Any` → proto3 JSON with `@type` and snake_case names, for dumps. A resource or nested
 * `Any` that has an unknown type or does not parse appears as its type and size. A Secret appears as its
 * name only; fields that the Envoy API marks as sensitive appear as `[redacted]`. No bytes make it
 * throw; it throws only if the descriptor set is missing.
 */
export function redactedJson(typeUrl: string, body: Uint8Array): JsonObject {
  const registry = envoyRegistry();
  const desc = descOf(typeUrl, registry);
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

function descOf(typeUrl: string, registry: Registry): DescMessage | undefined {
  return registry.getMessage(messageOf(typeUrl));
}

function unknownType(typeUrl: string): string {
  return `${quotableType(typeUrl)} is not a type of the built-in Envoy API (v3)`;
}

/** How the library reads JSON. */
interface Reading {
  readonly registry: Registry;
  readonly ignoreUnknownFields: boolean;
}

/**
 * Locates the error in a value. protobuf-es reports the field but not its path, so this tries each part
 * alone, outermost first. It runs only after a failure, so its cost does not matter.
 */
function locateFault(
  desc: DescMessage,
  value: unknown,
  reading: Reading,
  path: readonly (string | number)[],
): JsonResourceError | undefined {
  if (desc.typeName === 'google.protobuf.Any') return locateInAny(value, reading, path);
  if (!isObject(value) || desc.typeName.startsWith('google.protobuf.')) return undefined;
  for (const [key, part] of Object.entries(value)) {
    const at = [...path, key];
    const field = desc.fields.find(
      (candidate) => candidate.jsonName === key || candidate.name === key,
    );
    if (field === undefined && reading.ignoreUnknownFields) continue;
    if (field === undefined) return fault(at, `${desc.typeName} has no such field`, 'key');
    const message = failure(desc, { [key]: part }, reading);
    if (message === undefined) continue;
    return locateInField(field, part, reading, at) ?? fault(at, wordsFor(field) ?? message);
  }
  return undefined;
}

/** The valid values of an enum field, which the error of the library omits. */
function wordsFor(field: DescField): string | undefined {
  if (field.enum === undefined) return undefined;
  return `must be one of ${field.enum.values.map((value) => value.name).join(', ')}`;
}

function locateInField(
  field: DescField,
  value: unknown,
  reading: Reading,
  path: readonly (string | number)[],
): JsonResourceError | undefined {
  const { message } = field;
  if (message === undefined) return undefined;
  if (field.fieldKind === 'message') return locateFault(message, value, reading, path);
  const parts: (readonly [string | number, unknown])[] = Array.isArray(value)
    ? value.map((item, index) => [index, item] as const)
    : Object.entries(isObject(value) ? value : {});
  for (const [key, part] of parts) {
    const error = failure(message, part, reading);
    if (error === undefined) continue;
    return locateFault(message, part, reading, [...path, key]) ?? fault([...path, key], error);
  }
  return undefined;
}

function locateInAny(
  value: unknown,
  reading: Reading,
  path: readonly (string | number)[],
): JsonResourceError | undefined {
  if (!isObject(value)) return undefined;
  const { '@type': type, ...fields } = value;
  if (typeof type !== 'string') return fault(path, 'has no "@type"');
  const desc = descOf(type, reading.registry);
  if (desc === undefined) return fault([...path, '@type'], unknownType(type));
  return locateFault(desc, fields, reading, path);
}

function failure(desc: DescMessage, value: unknown, reading: Reading): string | undefined {
  try {
    fromJson(desc, value as JsonValue, reading);
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

/**
 * The error text without the library's prefix "cannot decode …:", which the path makes redundant, and
 * without values: in a Secret they are secrets.
 */
function textOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return withoutValues(text.replace(/^cannot decode (field|oneof) \S+ from JSON: /, ''));
}

/** The library writes a value last, after a colon or "got", or in quotes. */
export function withoutValues(text: string): string {
  return text.replace(/(?:,? got|:) (?=\S)[^]*$/, '').replace(/"(?:[^"\\]|\\.)*"/gs, '(hidden)');
}
