/** Goal: the state-of-the-world messages follow the published .proto files, within bounds. */
import fc from 'fast-check';
import t from 'tap';
import { wholeOf } from '../../../protos/discovery-fields.js';
import { encodeNode, hasClientFeature } from '../../../protos/node-codec.js';
import {
  bareResourceOf,
  encodeResourceField,
  wrappedResourceOf,
} from '../../../protos/resource-field.js';
import { decodeSotwRequest, encodeSotwResponse } from '../../../protos/sotw-codec.js';
import { decodeSotwResponse, encodeSotwRequest } from '../../support/discovery-messages.js';
import { WRAPPING_NODE } from '../../support/sotw-driver.js';

const FEATURE = 'xds.config.resource-in-sotw';
const text = fc.string({ unit: 'grapheme', maxLength: 40 });

t.test('a request encoded by another library is read the same', (t) => {
  const request = fc.record({
    version_info: text,
    resource_names: fc.array(text, { maxLength: 8 }),
    type_url: text,
    response_nonce: text,
    code: fc.option(fc.integer({ min: 0, max: 16 }), { nil: undefined }),
  });
  fc.assert(
    fc.property(request, ({ code, ...fields }) => {
      const error = code === undefined ? {} : { error_detail: { code, message: 'no' } };
      const locator = { resource_locators: [{ name: 'l', dynamic_parameters: { a: 'b' } }, {}] };
      const bytes = encodeSotwRequest({ ...fields, ...error, ...locator, node: { id: 'i' } });
      const decoded = decodeSotwRequest(bytes, 10);
      t.match(decoded, {
        ok: true,
        message: {
          versionInfo: fields.version_info,
          names: fields.resource_names,
          locators: [
            { name: 'l', parameters: 'a=b' },
            { name: '', parameters: '' },
          ],
          typeUrl: fields.type_url,
          responseNonce: fields.response_nonce,
          errorDetail: code === undefined ? undefined : { code, message: 'no' },
        },
      });
      if (decoded.ok) t.ok(decoded.message.node);
    }),
    { numRuns: 50 },
  );
  t.end();
});

t.test('more names than allowed are too many, and unreadable bytes are malformed', (t) => {
  const bytes = encodeSotwRequest({ resource_names: ['a', 'b', 'c'] });
  t.match(decodeSotwRequest(bytes, 2), { ok: false, code: 'too_many' });
  const [resource_names, locator] = [['a'], { name: 'l' }];
  const mixed = encodeSotwRequest({ resource_names, resource_locators: [locator, locator] });
  t.match(decodeSotwRequest(mixed, 2), { ok: false, code: 'too_many' }, 'locators count (TP2)');
  t.match(decodeSotwRequest(mixed, 3), { ok: true });
  t.match(decodeSotwRequest(Buffer.from([0xff]), 2), { ok: false, code: 'malformed' });
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (noise) => {
      decodeSotwRequest(noise, 5);
    }),
  );
  t.end();
});

t.test('another library reads a response: bare and wrapped, of any size, with errors', (t) => {
  for (const size of [0, 1, 100, 127, 128, 16_500, 2_200_000]) {
    const body = Buffer.alloc(size, 7);
    const field = encodeResourceField('the name', 'v', 'type/T', body);
    const errors = [{ name: 'n', status: { code: 5, message: 'gone' } }];
    const read = decodeSotwResponse(
      wholeOf(
        encodeSotwResponse({
          typeUrl: 'type/T',
          nonce: '7',
          versionInfo: 'set',
          resources: [bareResourceOf(field), ...wrappedResourceOf(field)],
          errors,
        }),
      ),
    );
    t.match(read, { typeUrl: 'type/T', nonce: '7', versionInfo: 'set' });
    t.strictSame(read.errors, [{ name: 'n', code: 5 }]);
    const [bare, wrapped, ...more] = read.resources;
    t.strictSame(more, []);
    t.match(bare, { name: undefined, typeUrl: 'type/T' });
    t.match(wrapped, { name: 'the name', version: 'v', typeUrl: 'type/T' });
    t.ok(bare?.body.equals(body) && wrapped?.body.equals(body), `${size} bytes`);
    t.equal(bareResourceOf(field).buffer, field.bytes.buffer, 'a view, not a copy');
  }
  t.end();
});

t.test('client features are found among all fields of a Node, and noise has none', (t) => {
  const node = encodeNode({ id: 'i', cluster: 'c', userAgentName: 'u', userAgentVersion: '1' });
  t.notOk(hasClientFeature(node, FEATURE));
  t.ok(hasClientFeature(Buffer.concat([node, WRAPPING_NODE]), FEATURE));
  t.notOk(hasClientFeature(WRAPPING_NODE, 'another'));
  t.notOk(hasClientFeature(Buffer.from([0x52, 0x7f, 1]), FEATURE));
  t.end();
});

t.test('the encoded names of a request are told only if they are all of it, in one piece', (t) => {
  const encodedIn = (
    ...parts: readonly Readonly<Record<string, unknown>>[]
  ): Buffer | undefined => {
    const bytes = Buffer.concat(parts.map((part) => encodeSotwRequest(part)));
    const decoded = decodeSotwRequest(bytes, 10);
    const encoded = decoded.ok ? decoded.message.encodedNames : undefined;
    return encoded && Buffer.from(encoded);
  };
  const [type_url, resource_names] = ['t', ['a', 'b']];
  const names = Buffer.from(encodeSotwRequest({ resource_names }));
  const whole = { version_info: 'v', node: { id: 'n' }, resource_names, type_url };
  t.same(encodedIn(whole), names);
  t.same(encodedIn({ resource_names: ['a'] }, { resource_names: ['b'] }), names);
  t.equal(encodedIn({ resource_names: ['a'] }, { type_url }, { resource_names: ['b'] }), undefined);
  t.same(encodedIn({ type_url }), Buffer.alloc(0), 'no names');
  t.equal(encodedIn({ ...whole, resource_locators: [{ name: 'l' }] }), undefined, 'locators');
  t.end();
});
