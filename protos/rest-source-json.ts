/**
 * State-of-the-world messages in proto3 JSON, as the REST variant of the protocol sends them
 * (`POST /v3/discovery:<type>`), to and from their bytes.
 */
import { create, fromBinary, fromJson, toBinary, toJson } from '@bufbuild/protobuf';
import type { DescMessage, JsonObject, JsonValue } from '@bufbuild/protobuf';
import { AnySchema } from '@bufbuild/protobuf/wkt';
import type { Decoded } from './discovery.js';
import type { Converted } from './rest-client-json.js';
import { envoyRegistry } from './envoy-registry.js';
import { listInJson } from './json-list.js';
import { isObject } from './json-object.js';
import { preparing, resourceFromJson, withoutValues } from './json-resources.js';
import { LARGE_RESOURCE } from './large-resource.js';
import { TYPE_URL } from './type-urls.js';

const REQUEST = 'envoy.service.discovery.v3.DiscoveryRequest';
const RESPONSE = 'envoy.service.discovery.v3.DiscoveryResponse';
/** `resources` of a DiscoveryResponse: field 2, length-delimited. */
const TAG_RESOURCES = 0x12;

/**
 * @param bytes a DiscoveryRequest
 * @returns its JSON with snake_case names, which is how Envoy writes it; every server accepts these
 * names. Throws if the bytes are not a DiscoveryRequest, or the descriptor set is missing.
 */
export function discoveryRequestToJson(bytes: Uint8Array): string {
  const registry = envoyRegistry();
  const desc = descOf(REQUEST);
  return JSON.stringify(
    toJson(desc, fromBinary(desc, bytes), { registry, useProtoFieldName: true }),
  );
}

export interface JsonDiscoveryResponse {
  /** The encoded DiscoveryResponse. */
  readonly bytes: Uint8Array;
  /** A resource has a TTL, which each further response renews. */
  readonly hasTtl: boolean;
}

/** The encoded `resources` field of one resource. */
export interface ResourceFromJson {
  readonly bytes: Uint8Array;
  readonly hasTtl: boolean;
}

/**
 * Reads one resource in each step, since a response may have thousands. A step that yields the JSON of a large resource
 * leaves it to the caller, who passes the resource to `next` (`largeResourceFromJson`); without it, the next step reads it.
 *
 * Ignores unknown fields, as Envoy does. A resource that cannot be encoded (a value or a nested type
 * that the built-in Envoy API lacks) keeps its name and gets the reason in place of its type. So the
 * gateway rejects that resource alone, and it does not look deleted.
 *
 * @param text JSON of a DiscoveryResponse
 * @param typeUrl of the request; fills in an absent `type_url`
 * @param nonce fills in an absent `nonce`
 * @returns the bytes, or why the text does not answer this request. Throws only if the descriptor
 * set is missing.
 */
export function* discoveryResponseFromJson(
  text: string,
  typeUrl: string,
  nonce: string,
): Generator<
  string | undefined,
  Decoded<JsonDiscoveryResponse>,
  Converted<ResourceFromJson> | undefined
> {
  yield* preparing(RESPONSE);
  yield* preparing(typeUrl);
  const desc = descOf(RESPONSE);
  try {
    const list = yield* listInJson(text, 'resources');
    const value = JSON.parse(list.rest) as JsonValue;
    if (!isObject(value)) return malformed('the body is not a JSON object');
    const { resources = [], ...rest } = value;
    // A list is in `list`.
    if (resources !== null && (!Array.isArray(resources) || resources.length > 0))
      return malformed('resources is not a list');
    const options = { registry: envoyRegistry(), ignoreUnknownFields: true };
    const head = { ...fromJson(desc, { type_url: typeUrl, nonce, ...named(rest) }, options) };
    const answered = (head as { typeUrl?: unknown }).typeUrl;
    if (answered !== typeUrl) return malformed(`the response is about ${String(answered)}`);
    const parts: ResourceFromJson[] = [];
    for (const { start, end } of list.elements) {
      const element = text.slice(start, end);
      const elsewhere = yield element.length > LARGE_RESOURCE ? element : undefined;
      if (elsewhere?.ok === false) return malformed(elsewhere.reason);
      parts.push(elsewhere?.value ?? resourceFieldOf(JSON.parse(element) as JsonValue));
    }
    const bytes = Buffer.concat([toBinary(desc, head), ...parts.map((part) => part.bytes)]);
    return { ok: true, message: { bytes, hasTtl: parts.some((part) => part.hasTtl) } };
  } catch (error) {
    return malformed(reasonOf(error));
  }
}

/** The error of JSON.parse quotes the text. */
function reasonOf(error: unknown): string {
  if (error instanceof SyntaxError) return 'the body is not JSON';
  return withoutValues(error instanceof Error ? error.message : String(error));
}

/** Reads one resource, on another thread. */
export function largeResourceFromJson(text: string): Converted<ResourceFromJson> {
  try {
    return { ok: true, value: resourceFieldOf(JSON.parse(text) as JsonValue) };
  } catch (error) {
    return { ok: false, reason: reasonOf(error) };
  }
}

/** With the snake_case names of the fields that have defaults, and without empty values for them. */
function named({ typeUrl, ...rest }: JsonObject): JsonObject {
  const said: JsonObject = { ...(typeUrl === undefined ? {} : { type_url: typeUrl }), ...rest };
  return Object.fromEntries(
    Object.entries(said).filter(
      ([key, value]) => !((key === 'type_url' || key === 'nonce') && isEmpty(value)),
    ),
  );
}

const isEmpty = (value: JsonValue): boolean => value === '' || value === null;

function resourceFieldOf(value: JsonValue): ResourceFromJson {
  const read = resourceFromJson(value, { unknownFields: 'ignore' });
  if (read.ok) {
    const isWrapped = read.typeUrl === TYPE_URL.resource;
    const hasTtl = isWrapped && isObject(value) && !isAbsent(value['ttl']);
    return { bytes: fieldOf({ typeUrl: read.typeUrl, value: read.body }), hasTtl };
  }
  const where = read.path.length === 0 ? '' : `${read.path.join('.')}: `;
  const wrapper = descOf('envoy.service.discovery.v3.Resource');
  const unreadable = create(wrapper, {
    name: nameIn(value),
    resource: create(AnySchema, { typeUrl: `unreadable JSON (${where}${read.message})` }),
  });
  const body = toBinary(wrapper, unreadable);
  return { bytes: fieldOf({ typeUrl: TYPE_URL.resource, value: body }), hasTtl: false };
}

/** The name of a resource that cannot be read: that of its wrapper, or the payload's own. */
function nameIn(value: JsonValue): string {
  if (!isObject(value)) return '';
  const name = value['name'] ?? value['cluster_name'] ?? value['clusterName'];
  if (typeof name === 'string') return name;
  const { resource } = value;
  return resource === undefined ? '' : nameIn(resource);
}

function fieldOf(any: { readonly typeUrl: string; readonly value: Uint8Array }): Uint8Array {
  const bytes = toBinary(AnySchema, create(AnySchema, any));
  const length: number[] = [];
  for (let rest = bytes.length; ; rest >>>= 7) {
    if (rest < 0x80) {
      length.push(rest);
      break;
    }
    length.push((rest & 0x7f) | 0x80);
  }
  return Buffer.concat([Uint8Array.of(TAG_RESOURCES, ...length), bytes]);
}

function descOf(name: string): DescMessage {
  const found = envoyRegistry().getMessage(name);
  /* c8 ignore next -- the descriptor set always has the discovery service */
  if (!found) throw new Error(`the descriptor set has no ${name}`);
  return found;
}

const isAbsent = (value: JsonValue | undefined): boolean => value === undefined || value === null;

const malformed = (reason: string) => ({ ok: false, code: 'malformed', reason }) as const;
