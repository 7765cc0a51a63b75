/** State-of-the-world messages, written and read without the code under test. */
import protobuf from 'protobufjs/minimal.js';
import { lengthDelimited, nameOfWire, partsOf } from './names.js';
import { Violation } from './oracle.js';
import type { ToldError } from './said-nothing.js';

const { Reader, Writer } = protobuf;
const FEATURE = 'xds.config.resource-in-sotw';

export interface SotwRequestParts {
  readonly versionInfo: string;
  readonly node: Uint8Array | undefined;
  readonly names: readonly string[];
  readonly typeUrl: string;
  readonly responseNonce: string;
  readonly isRefused: boolean;
}

export function encodeRequest(parts: SotwRequestParts): Uint8Array {
  const writer = Writer.create();
  if (parts.versionInfo !== '') writer.uint32(0x0a).string(parts.versionInfo);
  if (parts.node) writer.uint32(0x12).bytes(parts.node);
  for (const name of parts.names) writer.uint32(0x1a).string(name);
  writer.uint32(0x22).string(parts.typeUrl);
  if (parts.responseNonce !== '') writer.uint32(0x2a).string(parts.responseNonce);
  if (parts.isRefused) writer.uint32(0x32).fork().uint32(0x08).int32(13).ldelim();
  return writer.finish();
}

/** A Node, with or without the feature of wrapped resources. @param node without it */
export function nodeBytes(node: Uint8Array, wraps: boolean): Uint8Array {
  return wraps ? Buffer.concat([node, lengthDelimited(10, Buffer.from(FEATURE))]) : node;
}

/** A resource with the name that the client uses: its own, or that of its wrapper. */
export interface SotwResource {
  readonly name: string;
  readonly typeUrl: string;
  readonly body: Uint8Array;
}

export interface SotwResponse {
  readonly versionInfo: string;
  readonly typeUrl: string;
  readonly nonce: string;
  readonly resources: readonly SotwResource[];
  readonly errors: readonly ToldError[];
}

/** @param node the client's node, which identifies old-style names */
export function decodeResponse(bytes: Uint8Array, node: string | undefined): SotwResponse {
  const response = { versionInfo: '', typeUrl: '', nonce: '' };
  const resources: SotwResource[] = [];
  const errors: ToldError[] = [];
  fieldsOf(bytes, (field, value) => {
    if (field === 1) response.versionInfo = textOf(value);
    else if (field === 2) resources.push(resourceOf(value));
    else if (field === 4) response.typeUrl = textOf(value);
    else if (field === 5) response.nonce = textOf(value);
    else if (field === 7) errors.push(errorOf(value));
  });
  const named = <T extends ToldError | SotwResource>(one: T): T => ({
    ...one,
    name: nameOfWire(one.name, response.typeUrl, node),
  });
  return { ...response, resources: resources.map(named), errors: errors.map(named) };
}

/** `ResourceError` of TP3. */
function errorOf(bytes: Uint8Array): ToldError {
  const reader = Reader.create(fieldOf(bytes, 2));
  let code = 0;
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    if (tag === 0x08) code = reader.int32();
    else reader.skipType(tag & 7);
  }
  return { name: textOf(fieldOf(fieldOf(bytes, 1), 1)), code };
}

const WRAPPER = 'type.googleapis.com/envoy.service.discovery.v3.Resource';

function resourceOf(any: Uint8Array): SotwResource {
  const typeUrl = textOf(fieldOf(any, 1));
  const body = fieldOf(any, 2);
  // Every type of a simulated world has its name in field 1.
  if (typeUrl !== WRAPPER) return { name: textOf(fieldOf(body, 1)), typeUrl, body };
  const inner = resourceOf(fieldOf(body, 2));
  return { ...inner, name: textOf(fieldOf(body, 3)) };
}

/** @returns the last field with that number as bytes; empty if there is none. */
function fieldOf(bytes: Uint8Array, wanted: number): Uint8Array {
  let found: Uint8Array = new Uint8Array();
  fieldsOf(bytes, (field, value) => {
    if (field === wanted) found = value;
  });
  return found;
}

function fieldsOf(bytes: Uint8Array, take: (field: number, value: Uint8Array) => void): void {
  const reader = Reader.create(bytes);
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    if ((tag & 7) === 2) take(tag >>> 3, reader.bytes());
    else reader.skipType(tag & 7);
  }
}

const textOf = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8');

/** @throws Violation if a resource has another type, occurs twice, or also has an error. */
export function resourcesByName({
  typeUrl,
  resources,
  errors,
}: SotwResponse): ReadonlyMap<string, Uint8Array> {
  const arrived = new Map<string, Uint8Array>();
  for (const { name, typeUrl: inner, body } of resources) {
    if (inner !== typeUrl || partsOf(name).typeUrl !== typeUrl) {
      throw new Violation('wire', `${name} of type ${inner} in a response of ${typeUrl}`);
    }
    if (arrived.has(name)) throw new Violation('5', `${name} twice in one response`);
    arrived.set(name, Uint8Array.from(body));
  }
  const there = errors.find(({ name }) => arrived.has(name));
  if (there) throw new Violation('3', `${there.name} has content and an error`);
  return arrived;
}
