import fc from 'fast-check';
import t from 'tap';
import { bodyOf, encodeResourceField, withVersion } from '../../../protos/resource-field.js';
import { decodeResponse } from '../../support/discovery-messages.js';

/** The only resource of a response that consists of this field. */
function resourceOf(field: Uint8Array): unknown {
  const { resources } = decodeResponse(field) as { resources: unknown[] };
  return resources[0];
}

const wire = (name: string, version: string, typeUrl: string, body: Uint8Array): object => ({
  name,
  version,
  resource: { type_url: typeUrl, value: Buffer.from(body) },
});
const text = fc.string({ unit: 'grapheme', maxLength: 300 });
// Lengths on both sides of one and two bytes of varint.
const body = fc.oneof(
  fc.uint8Array({ maxLength: 200 }),
  fc
    .constantFrom(0, 1, 127, 128, 16_383, 16_384, 70_000)
    .map((size) => new Uint8Array(size).fill(7)),
);

t.test('any protobuf library reads a resource field', (t) => {
  fc.assert(
    fc.property(text, text, text, body, (name, version, typeUrl, value) => {
      const { bytes } = encodeResourceField(name, version, typeUrl, value);
      const expected = wire(name, version, typeUrl, value);
      return JSON.stringify(pick(resourceOf(bytes))) === JSON.stringify(expected);
    }),
  );
  t.end();
});

function pick(resource: unknown): object {
  const {
    name,
    version,
    resource: any,
  } = resource as {
    name: string;
    version: string;
    resource: { type_url: string; value: Buffer };
  };
  return { name, version, resource: { type_url: any.type_url, value: Buffer.from(any.value) } };
}

t.test('the body is a view of the field, and a copy of the input', (t) => {
  fc.assert(
    fc.property(body, (value) => {
      const field = encodeResourceField('n', 'v', 't', value);
      const before = Buffer.from(value);
      value.fill(1);
      return bodyOf(field).equals(before) && bodyOf(field).buffer === field.bytes.buffer;
    }),
  );
  t.end();
});

t.test('long-lived bytes have memory of their own, not a slice of a pool', (t) => {
  const { bytes } = encodeResourceField('n', 'v', 't', Buffer.from('x'));
  t.equal(bytes.buffer.byteLength, bytes.length);
  t.end();
});

t.test('another version is a new head before the same tail', (t) => {
  fc.assert(
    fc.property(text, text, text, body, (name, first, second, value) => {
      const field = encodeResourceField(name, first, 't', value);
      const [head, tail] = withVersion(field, second);
      const whole = encodeResourceField(name, second, 't', value).bytes;
      return Buffer.concat([head, tail]).equals(whole) && tail.buffer === field.bytes.buffer;
    }),
  );
  t.end();
});
