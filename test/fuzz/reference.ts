/**
 * An independent decoder of protocol messages: protobuf-es, with descriptors written here. For
 * messages that are `isPlain`, both decoders must agree on what they accept and what they refuse;
 * docs/FUZZING.md lists the differences for others.
 */
import assert from 'node:assert/strict';
import { create, createFileRegistry, fromBinary, type DescMessage } from '@bufbuild/protobuf';
import {
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
  FileDescriptorProtoSchema,
} from '@bufbuild/protobuf/wkt';
import { MAX_STATUS_TEXT } from '../../protos/discovery-fields.js';
import type { Decoded } from '../../protos/discovery.js';
import { formatParameters } from '../../protos/dynamic-parameters.js';
import { WIRE } from './wire.js';

type FieldType = 'string' | 'bytes' | 'int32' | 'int64' | MessageShape;

interface Field {
  readonly name: string;
  readonly type: FieldType;
  readonly many?: boolean;
}

export interface MessageShape {
  readonly message: string;
  readonly fields: Readonly<Record<number, Field>>;
}

const text = (name: string): Field => ({ name, type: 'string' });
const texts = (name: string): Field => ({ name, type: 'string', many: true });
const one = (name: string, type: FieldType): Field => ({ name, type });
const many = (name: string, type: FieldType): Field => ({ name, type, many: true });

const STATUS: MessageShape = {
  message: 'Status',
  fields: { 1: one('code', 'int32'), 2: text('message') },
};
const ANY: MessageShape = {
  message: 'Any',
  fields: { 1: text('typeUrl'), 2: one('value', 'bytes') },
};
const DURATION: MessageShape = {
  message: 'Duration',
  fields: { 1: one('seconds', 'int64'), 2: one('nanos', 'int32') },
};
/** The constraints are bytes: the decoder of responses does not parse them. */
const NAME: MessageShape = {
  message: 'ResourceName',
  fields: { 1: text('name'), 2: one('constraints', 'bytes') },
};
const ENTRY: MessageShape = { message: 'Entry', fields: { 1: text('key'), 2: text('value') } };
const LOCATOR: MessageShape = {
  message: 'ResourceLocator',
  fields: { 1: text('name'), 2: many('parameters', ENTRY) },
};
const RESOURCE: MessageShape = {
  message: 'Resource',
  fields: {
    1: text('version'),
    2: one('resource', ANY),
    3: text('name'),
    6: one('ttl', DURATION),
    8: one('resourceName', NAME),
  },
};
const ERROR: MessageShape = {
  message: 'ResourceError',
  fields: { 1: one('resourceName', NAME), 2: one('status', STATUS) },
};

/** A Node is bytes: the gateway's decoder does not parse it. */
export const REQUEST: MessageShape = {
  message: 'DeltaDiscoveryRequest',
  fields: {
    1: one('node', 'bytes'),
    2: text('typeUrl'),
    3: texts('subscribe'),
    4: texts('unsubscribe'),
    5: many('initialVersions', ENTRY),
    6: text('responseNonce'),
    7: one('errorDetail', STATUS),
    8: many('locators', LOCATOR),
    9: many('locatorsLeft', LOCATOR),
  },
};

export const SOTW_REQUEST: MessageShape = {
  message: 'DiscoveryRequest',
  fields: {
    1: text('versionInfo'),
    2: one('node', 'bytes'),
    3: texts('names'),
    4: text('typeUrl'),
    5: text('responseNonce'),
    6: one('errorDetail', STATUS),
    7: many('locators', LOCATOR),
  },
};

export const RESPONSE: MessageShape = {
  message: 'DeltaDiscoveryResponse',
  fields: {
    1: text('systemVersion'),
    2: many('resources', RESOURCE),
    4: text('typeUrl'),
    5: text('nonce'),
    6: texts('removed'),
    8: many('removedVariants', NAME),
    9: many('errors', ERROR),
  },
};

const SCALARS = {
  string: Type.STRING,
  bytes: Type.BYTES,
  int32: Type.INT32,
  int64: Type.INT64,
};
const SHAPES = [
  STATUS,
  ANY,
  DURATION,
  NAME,
  LOCATOR,
  ENTRY,
  RESOURCE,
  ERROR,
  REQUEST,
  SOTW_REQUEST,
  RESPONSE,
];

const file = create(FileDescriptorProtoSchema, {
  name: 'reference.proto',
  package: 'reference',
  syntax: 'proto3',
  messageType: SHAPES.map(({ message, fields }) => ({
    name: message,
    field: Object.entries(fields).map(([number, { name, type, many: repeated }]) => ({
      name,
      jsonName: name,
      number: Number(number),
      label: repeated === true ? Label.REPEATED : Label.OPTIONAL,
      type: typeof type === 'string' ? SCALARS[type] : Type.MESSAGE,
      ...(typeof type === 'string' ? {} : { typeName: `.reference.${type.message}` }),
    })),
  })),
});
const registry = createFileRegistry(file, () => undefined);

function schemaOf({ message }: MessageShape): DescMessage {
  const schema = registry.getMessage(`reference.${message}`);
  assert.ok(schema);
  return schema;
}

/** @param plain the message as an object of the reference's fields */
export function compare<T>(
  shape: MessageShape,
  bytes: Uint8Array,
  decoded: Decoded<T>,
  plain: (message: T) => unknown,
): void {
  if (!isPlain(shape, bytes, 0, bytes.length)) return;
  let expected: unknown;
  try {
    expected = valueOf(shape, fromBinary(schemaOf(shape), bytes));
  } catch (error) {
    assert.ok(!decoded.ok, `accepted, which the reference refuses: ${String(error)}`);
    return;
  }
  if (decoded.ok) assert.deepEqual(comparable(plain(decoded.message)), comparable(expected));
  else
    assert.equal(
      decoded.code,
      'too_many',
      `refused, which the reference accepts: ${decoded.reason}`,
    );
}

/** Buffers compare like other bytes. */
function comparable(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex');
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, comparable(part)]));
}

/** Converts a result of the reference to the form of the gateway's decoder. */
function valueOf({ message, fields }: MessageShape, read: unknown): unknown {
  const from = read as Readonly<Record<string, unknown>>;
  const of = ({ type }: Field, value: unknown): unknown =>
    typeof type === 'string' || value === undefined ? value : valueOf(type, value);
  const all = Object.fromEntries(
    Object.values(fields).map((field): [string, unknown] => {
      const value = from[field.name];
      if (field.many === true)
        return [field.name, (value as unknown[]).map((item) => of(field, item))];
      return [field.name, of(field, value)];
    }),
  );
  return message in IN_OUR_FORM ? IN_OUR_FORM[message]!(all) : all;
}

interface Values {
  readonly [name: string]: unknown;
}

/** The reference does not distinguish an empty Node from none. */
const bytesOrNone = (value: unknown): unknown =>
  value instanceof Uint8Array && value.length > 0 ? value : undefined;

const pairsOf = (entries: unknown): [string, string][] =>
  (entries as { key: string; value: string }[]).map(({ key, value }) => [key, value]);

function keptText(message: string): string {
  if (message.length <= MAX_STATUS_TEXT) return message;
  return `${Buffer.from(message.slice(0, MAX_STATUS_TEXT)).toString()}…`;
}

const IN_OUR_FORM: Readonly<Record<string, (all: Values) => unknown>> = {
  DeltaDiscoveryRequest: ({ locators, locatorsLeft, ...all }) => ({
    ...all,
    ...((locators as unknown[]).length + (locatorsLeft as unknown[]).length > 0 && {
      locators: { subscribe: locators, unsubscribe: locatorsLeft },
    }),
    node: bytesOrNone(all['node']),
    initialVersions: Object.fromEntries(pairsOf(all['initialVersions'])),
  }),
  DiscoveryRequest: ({ locators, ...all }) => ({
    ...all,
    ...((locators as unknown[]).length > 0 && { locators }),
    node: bytesOrNone(all['node']),
  }),
  ResourceLocator: ({ name, parameters }) => ({
    name,
    parameters: formatParameters(pairsOf(parameters)),
  }),
  DeltaDiscoveryResponse: ({ removedVariants, ...all }) => ({
    ...all,
    ...((removedVariants as unknown[]).length > 0 && { removedVariants }),
  }),
  Resource: ({ name, version, resource, ttl, resourceName }) => {
    const any = resource as Values | undefined;
    const variant = resourceName as Values | undefined;
    const constraints = bytesOrNone(variant?.['constraints']);
    return {
      ...(constraints !== undefined && { constraints }),
      name: variant?.['name'] ?? name,
      version,
      typeUrl: any?.['typeUrl'] ?? '',
      body: any ? any['value'] : undefined,
      ttlMs: ttl,
    };
  },
  Duration: ({ seconds, nanos }) => Number(seconds) * 1_000 + Math.trunc(Number(nanos) / 1e6),
  Status: ({ code, message }) => ({ code, message: keptText(message as string) }),
  ResourceError: ({ resourceName, status }) => ({
    name: (resourceName as Values | undefined)?.['name'] ?? '',
    status: status ?? { code: 0, message: '' },
  }),
};

/**
 * Is the message free of what no encoder writes? Only then must both decoders agree. Not plain:
 * groups, field number 0, overlong varints, a known field with another wire type, a message field
 * that occurs twice, and text that is not UTF-8.
 */
export function isPlain(
  shape: MessageShape,
  bytes: Uint8Array,
  start: number,
  end: number,
  isNested = false,
): boolean {
  const seen = new Set<number>();
  for (let at = start; at < end;) {
    const tag = varintAt(bytes, at, end, 5);
    if (tag === undefined) return false;
    const number = Math.floor(tag.value / 8);
    const wire = tag.value % 8;
    if (number === 0 || tag.value > 0xffffffff) return false;
    const field = shape.fields[number];
    const span = fieldEnd(bytes, tag.end, end, wire);
    if (span === 'odd') return false;
    if (field && wire !== wireOf(field.type)) return false;
    // Both must refuse a field beyond the end of the message; beyond a nested one protobuf-es reads
    // on.
    if (span === 'beyond') return !isNested;
    if (field && typeof field.type !== 'string') {
      if (seen.has(number) && field.many !== true) return false;
      seen.add(number);
      if (!isPlain(field.type, bytes, span.valueStart, span.end, true)) return false;
    }
    if (field?.type === 'string') {
      const value = Buffer.from(bytes.subarray(span.valueStart, span.end));
      if (value.toString().includes('\ufffd')) return false;
    }
    at = span.end;
  }
  return true;
}

const wireOf = (type: FieldType): number =>
  type === 'int32' || type === 'int64' ? WIRE.varint : WIRE.bytes;

function fieldEnd(
  bytes: Uint8Array,
  at: number,
  end: number,
  wire: number,
): 'odd' | 'beyond' | { readonly valueStart: number; readonly end: number } {
  const upTo = (valueStart: number, last: number) =>
    last > end ? ('beyond' as const) : { valueStart, end: last };
  if (wire === WIRE.fixed64) return upTo(at, at + 8);
  if (wire === WIRE.fixed32) return upTo(at, at + 4);
  if (wire === WIRE.varint) {
    const read = varintAt(bytes, at, end, 10);
    // Encoders write 32-bit numbers in more than 32 bits only if they are negative.
    const isOdd = read === undefined || (read.end - at > 5 && read.end - at < 10);
    return isOdd ? 'odd' : upTo(at, read.end);
  }
  if (wire !== WIRE.bytes) return 'odd';
  const length = varintAt(bytes, at, end, 5);
  if (length === undefined || length.value > 0xffffffff) return 'odd';
  return upTo(length.end, length.end + length.value);
}

function varintAt(bytes: Uint8Array, start: number, end: number, most: number) {
  let value = 0;
  for (let at = start, scale = 1; at < end && at < start + most; at++, scale *= 128) {
    value += (bytes[at]! & 0x7f) * scale;
    if (bytes[at]! < 0x80) return { value, end: at + 1 };
  }
  return undefined;
}
