/** State-of-the-world messages as a client writes and reads them, without the code that is under test. */
import protobuf from 'protobufjs/minimal.js';
import { lengthDelimited, nameOfWire, partsOf } from './names.js';
import { Violation } from './oracle.js';

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

/** A Node, which lists the feature of wrapped resources or does not. */
export function nodeBytes(node: string, wraps: boolean): Buffer {
  const id = lengthDelimited(1, Buffer.from(node));
  return wraps ? Buffer.concat([id, lengthDelimited(10, Buffer.from(FEATURE))]) : id;
}

/** A resource under the name that a client takes it for: its own, or that of its wrapper. */
export interface SotwResource {
  readonly wireName: string;
  readonly typeUrl: string;
  readonly body: Uint8Array;
}

export interface SotwResponse {
  readonly versionInfo: string;
  readonly typeUrl: string;
  readonly nonce: string;
  readonly resources: readonly SotwResource[];
  /** Names of which an error is told (TP3). */
  readonly errors: readonly string[];
}

export function decodeResponse(bytes: Uint8Array): SotwResponse {
  const response = { versionInfo: '', typeUrl: '', nonce: '' };
  const resources: SotwResource[] = [];
  const errors: string[] = [];
  fieldsOf(bytes, (field, value) => {
    if (field === 1) response.versionInfo = textOf(value);
    else if (field === 2) resources.push(resourceOf(value));
    else if (field === 4) response.typeUrl = textOf(value);
    else if (field === 5) response.nonce = textOf(value);
    else if (field === 7) errors.push(textOf(fieldOf(fieldOf(value, 1), 1)));
  });
  return { ...response, resources, errors };
}

const WRAPPER = 'type.googleapis.com/envoy.service.discovery.v3.Resource';

function resourceOf(any: Uint8Array): SotwResource {
  const typeUrl = textOf(fieldOf(any, 1));
  const body = fieldOf(any, 2);
  // Every type of a simulated world has its name in field 1.
  if (typeUrl !== WRAPPER) return { wireName: textOf(fieldOf(body, 1)), typeUrl, body };
  const inner = resourceOf(fieldOf(body, 2));
  return { ...inner, wireName: textOf(fieldOf(body, 3)) };
}

/** @returns the last field of that number, as bytes; none are none. */
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

/**
 * @param node of the client
 * @throws Violation where a resource is of another type, or comes twice.
 */
export function resourcesByName(
  { typeUrl, resources }: SotwResponse,
  node: string | undefined,
): ReadonlyMap<string, Uint8Array> {
  const arrived = new Map<string, Uint8Array>();
  for (const { wireName: wire, typeUrl: inner, body } of resources) {
    const name = nameOfWire(wire, typeUrl, node);
    if (inner !== typeUrl || partsOf(name).typeUrl !== typeUrl) {
      throw new Violation('wire', `${name} of type ${inner} in a response of ${typeUrl}`);
    }
    if (arrived.has(name)) throw new Violation('5', `${name} twice in one response`);
    arrived.set(name, Uint8Array.from(body));
  }
  return arrived;
}
