/**
 * A resource as an encoded `resources` field of a delta response, encoded once and shared by all clients
 * (field 2 of DeltaDiscoveryResponse; Resource: version 1, resource 2, name 3). A variant with constraints has the name in a TP2
 * `ResourceName` instead (Resource: resource_name 8).
 *
 *   tag len | version | any | name
 *   head ------------>| tail ---->    the tail does not depend on the version
 */

const TAG_RESOURCES = 0x12;
const TAG_VERSION = 0x0a;
const TAG_ANY = 0x12;
const TAG_NAME = 0x1a;
const TAG_VARIANT_NAME = 0x42;
const TAG_NAME_OF_VARIANT = 0x0a;
const TAG_CONSTRAINTS = 0x12;
const TAG_ANY_TYPE_URL = 0x0a;
const TAG_ANY_VALUE = 0x12;

export interface ResourceField {
  /** Its own memory, never a view of a larger message. */
  readonly bytes: Buffer;
  readonly tailOffset: number;
  /** Offset in `bytes` of the value of the Any. */
  readonly bodyOffset: number;
  /** Length of the value of the Any, in bytes. */
  readonly bodyLength: number;
}

function varintSize(value: number): number {
  let size = 1;
  for (let rest = value; rest > 0x7f; rest = Math.floor(rest / 128)) size++;
  return size;
}

function writeVarint(out: Buffer, value: number, at: number): number {
  let rest = value;
  let position = at;
  while (rest > 0x7f) {
    out[position++] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  out[position++] = rest;
  return position;
}

function writeText(out: Buffer, tag: number, text: string, size: number, at: number): number {
  out[at] = tag;
  const start = writeVarint(out, size, at + 1);
  out.write(text, start, size, 'utf8');
  return start + size;
}

const sized = (size: number): number => 1 + varintSize(size) + size;

/**
 * Encodes a resource. Copies `body`.
 *
 * @param constraints of a variant, encoded; absent: the resource has none
 */
export function encodeResourceField(
  name: string,
  version: string,
  typeUrl: string,
  body: Uint8Array,
  constraints?: Uint8Array,
): ResourceField {
  const nameSize = Buffer.byteLength(name);
  const versionSize = Buffer.byteLength(version);
  const typeSize = Buffer.byteLength(typeUrl);
  const anySize = sized(typeSize) + sized(body.length);
  const variantSize = constraints && sized(nameSize) + sized(constraints.length);
  const resourceSize = sized(versionSize) + sized(anySize) + sized(variantSize ?? nameSize);
  // The bytes are long-lived, and a slice of Node's pool would pin 8 KiB.
  const bytes = Buffer.allocUnsafeSlow(sized(resourceSize));
  bytes[0] = TAG_RESOURCES;
  let at = writeVarint(bytes, resourceSize, 1);
  at = writeText(bytes, TAG_VERSION, version, versionSize, at);
  const tailOffset = at;
  bytes[at] = TAG_ANY;
  at = writeVarint(bytes, anySize, at + 1);
  at = writeText(bytes, TAG_ANY_TYPE_URL, typeUrl, typeSize, at);
  bytes[at] = TAG_ANY_VALUE;
  at = writeVarint(bytes, body.length, at + 1);
  const bodyOffset = at;
  bytes.set(body, at);
  at += body.length;
  if (constraints && variantSize !== undefined) {
    bytes[at] = TAG_VARIANT_NAME;
    at = writeVarint(bytes, variantSize, at + 1);
    at = writeText(bytes, TAG_NAME_OF_VARIANT, name, nameSize, at);
    bytes[at] = TAG_CONSTRAINTS;
    bytes.set(constraints, writeVarint(bytes, constraints.length, at + 1));
  } else writeText(bytes, TAG_NAME, name, nameSize, at);
  return { bytes, tailOffset, bodyOffset, bodyLength: body.length };
}

/** The value of the resource's Any, as a view. */
export function bodyOf(field: ResourceField): Buffer {
  return field.bytes.subarray(field.bodyOffset, field.bodyOffset + field.bodyLength);
}

/**
 * The resource for a state-of-the-world response, as a view. There, `resources` is field 2 of type Any.
 * Here, the Any is field 2 of the Resource, so the bytes are the same.
 */
export function bareResourceOf({
  bytes,
  tailOffset,
  bodyOffset,
  bodyLength,
}: ResourceField): Buffer {
  return bytes.subarray(tailOffset, bodyOffset + bodyLength);
}

const WRAPPER_TYPE_URL = 'type.googleapis.com/envoy.service.discovery.v3.Resource';

/**
 * The resource for a state-of-the-world response to a client that wants the `Resource` wrapper,
 * with name and version.
 */
export function wrappedResourceOf({ bytes }: ResourceField): [head: Buffer, resource: Buffer] {
  let start = 1;
  while ((bytes[start] ?? 0) > 0x7f) start++;
  const resource = bytes.subarray(start + 1);
  const typeSize = WRAPPER_TYPE_URL.length;
  const anySize = sized(typeSize) + sized(resource.length);
  const head = Buffer.allocUnsafe(sized(anySize) - resource.length);
  head[0] = TAG_RESOURCES;
  let at = writeVarint(head, anySize, 1);
  at = writeText(head, TAG_ANY_TYPE_URL, WRAPPER_TYPE_URL, typeSize, at);
  head[at] = TAG_ANY_VALUE;
  writeVarint(head, resource.length, at + 1);
  return [head, resource];
}

/** The resource with another version: a new head and the shared tail. */
export function withVersion(field: ResourceField, version: string): [head: Buffer, tail: Buffer] {
  const versionSize = Buffer.byteLength(version);
  const tail = field.bytes.subarray(field.tailOffset);
  const resourceSize = sized(versionSize) + tail.length;
  const head = Buffer.allocUnsafe(1 + varintSize(resourceSize) + sized(versionSize));
  head[0] = TAG_RESOURCES;
  writeText(head, TAG_VERSION, version, versionSize, writeVarint(head, resourceSize, 1));
  return [head, tail];
}
