/**
 * Goal: a locator in a resource reads the same in either form, and no bytes do harm.
 * Method: protobufjs reflection over the published .proto writes, our codec reads; and random
 * bytes.
 */
import fc from 'fast-check';
import t from 'tap';
import { readLocatorField, readResourceLocator } from '../../../protos/locator-codec.js';
import { formatResourceLocator, makeResourceName } from '../../../protos/resource-name.js';
import type { ContextParam } from '../../../protos/resource-urn.js';
import {
  locatorBytes,
  textLocatorBytes,
  type LocatorFields,
} from '../../support/collection-messages.js';

const TYPE = 'test.v1.Thing';
const fieldsOf = (authority: string, id: string): LocatorFields => ({
  authority,
  resource_type: TYPE,
  id,
});

/** The canonical text of the locator, or the reason for refusing it. */
function read(bytes: Uint8Array): string {
  const result = readResourceLocator(bytes);
  return result.ok ? formatResourceLocator(result.locator) : result.reason;
}
const published = (fields: LocatorFields): string => read(locatorBytes(fields));
const inText = (text: string): string => read(textLocatorBytes(text));
const own = `xdstp://a/${TYPE}/x`;

t.test('both forms of one locator are the same locator (TP1 redirects, lists)', (t) => {
  const cases: readonly (readonly [LocatorFields, string])[] = [
    [fieldsOf('a', 'x'), own],
    [fieldsOf('', 'x'), `xdstp:///${TYPE}/x`],
    [fieldsOf('a', 'x/*'), `xdstp://a/${TYPE}/x/*`],
    [{ ...fieldsOf('a', 'x'), exact_context: { params: {} } }, own],
    [{ ...fieldsOf('a', 'x'), exact_context: { params: { b: '2', a: '1' } } }, `${own}?a=1&b=2`],
    [
      { ...fieldsOf('a', 'x'), directives: [{ alt: fieldsOf('b', 'y') }] },
      `${own}#alt=xdstp://b/${TYPE}/y`,
    ],
    [
      { ...fieldsOf('a', 'x'), directives: [{ entry: 'e' }, { alt: fieldsOf('b', 'y') }] },
      `${own}#alt=xdstp://b/${TYPE}/y,entry=e`,
    ],
  ];
  for (const [fields, text] of cases) {
    t.equal(published(fields), text);
    t.equal(inText(text), text);
    const raw = Buffer.from(text);
    const field = readLocatorField(raw, 0, raw.length);
    t.equal(field.ok && formatResourceLocator(field.locator), text, 'a field that is the text');
  }
  t.end();
});

t.test('components are literal: only a text is unescaped', (t) => {
  t.equal(published(fieldsOf('a', 'x%2Fy#z')), `xdstp://a/${TYPE}/x%252Fy%23z`);
  t.equal(inText(`xdstp://a/${TYPE}/x%23z`), `xdstp://a/${TYPE}/x%23z`);
  t.end();
});

const nested = (depth: number): LocatorFields => ({
  ...fieldsOf('a', `n${depth}`),
  ...(depth > 0 && { directives: [{ alt: nested(depth - 1) }] }),
});

t.test('alternatives nest four deep in either form, and no deeper', (t) => {
  t.equal(inText(published(nested(4))), published(nested(4)));
  t.equal(published(nested(5)), 'nests alternatives too deeply');
  const tooDeep = `${own}#alt=${encodeURIComponent(published(nested(4)))}`;
  t.match(inText(tooDeep), /more than 4 nested alternatives/);
  t.end();
});

t.test('a directive that occurs twice is refused (TP1 "processing directives")', (t) => {
  const alt = { alt: fieldsOf('b', 'y') };
  for (const directives of [
    [alt, alt],
    [{ entry: 'x' }, { entry: 'y' }],
    [alt, { entry: 'x' }, alt],
  ]) {
    t.equal(published({ ...fieldsOf('a', 'x'), directives }), 'has a duplicate directive');
  }
  const twice = { ...fieldsOf('a', 'x'), directives: [{ alt: nested(1) }, alt] };
  const within = { ...fieldsOf('a', 'x'), directives: [{ alt: twice }] };
  t.equal(published(within), 'has a duplicate directive', 'in an alternative too');
  t.end();
});

t.test('a locator that leads to no xdstp: resource is refused, with a reason', (t) => {
  for (const scheme of [1, 2]) {
    t.match(published({ ...fieldsOf('a', 'x'), scheme }), /a file or an HTTP server/);
  }
  t.equal(published({ ...fieldsOf('a', 'x'), scheme: 0 }), own);
  for (const text of ['', 'http://a/x', 'xdstp://a', `xdstp://a/${TYPE}/x#foo=1`]) {
    t.match(inText(text), /^does not lead to a valid resource name: ./, text);
  }
  t.match(published({ id: '' }), /^does not lead to a valid resource name: ./);
  t.match(read(new Uint8Array(0)), /^does not lead to a valid resource name: ./);
  t.end();
});

t.test('an entry name, or a length, that no text can have does not resolve', (t) => {
  for (const entry of ['', 'a,b', 'a#b', 'a b', 'a%2Fb', `a,alt=${own}`, `a,entry=b`]) {
    const fields = { ...fieldsOf('a', 'x'), directives: [{ entry }] };
    t.match(
      published(fields),
      /^does not lead to a valid resource name|an entry name that a URL/,
      entry,
    );
  }
  const long = (depth: number): LocatorFields => ({
    ...fieldsOf('a', `${depth}${'%'.repeat(600)}`),
    ...(depth > 0 && { directives: [{ alt: long(depth - 1) }] }),
  });
  t.match(published(long(0)), /^xdstp:/);
  t.match(published(long(4)), /longer than 8192 bytes/);
  t.end();
});

t.test('unknown fields are skipped, and cut ones are malformed', (t) => {
  const whole = Buffer.from(locatorBytes({ ...nested(2), exact_context: { params: { k: 'v' } } }));
  const unknown = Buffer.from([0x7a, 1, 0x78, 0x50, 5]);
  t.equal(read(Buffer.concat([unknown, whole, unknown])), read(whole));
  for (let length = 1; length < whole.length; length++) {
    // No throw; a cut between two fields is another locator.
    t.type(read(whole.subarray(0, length)), 'string');
  }
  t.equal(read(Buffer.from([0x12, 5, 0x61])), 'is not a ResourceLocator');
  for (const cut of [
    [0x2a, 2, 0x0a, 9],
    [0x2a, 3, 0x0a, 1, 0x0a],
    [0x32, 2, 0x0a, 9],
    [0x32, 3, 0x0a, 1, 0x0a],
  ]) {
    t.equal(read(Buffer.from(cut)), 'is not a ResourceLocator', 'parameters and directives');
  }
  t.end();
});

const id = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 });
const name = fc
  .record({ authority: fc.stringMatching(/^[a-z.]{0,8}$/), itsId: id, key: id, value: id })
  .filter(({ authority, itsId, key, value }) => {
    const contextParams: readonly ContextParam[] = [[key, value]];
    return makeResourceName({ authority, resourceType: TYPE, id: itsId, contextParams }).ok;
  })
  .map(({ authority, itsId, key, value }) => ({
    ...fieldsOf(authority, itsId),
    exact_context: { params: { [key]: value } },
  }));
const locator: fc.Arbitrary<LocatorFields> = fc
  .array(fc.tuple(name, fc.option(fc.stringMatching(/^[a-z~:]{1,5}$/))), {
    minLength: 1,
    maxLength: 4,
  })
  .map(([first, ...rest]) => {
    const alt = rest.reduceRight<LocatorFields | undefined>(
      (inner, [fields]) => ({ ...fields, ...(inner && { directives: [{ alt: inner }] }) }),
      undefined,
    );
    const [fields, entry] = first!;
    const directives = [...(alt ? [{ alt }] : []), ...(entry === null ? [] : [{ entry }])];
    return { ...fields, directives };
  });

t.test('a published locator reads the same as its text', (t) => {
  fc.assert(
    fc.property(locator, (fields) => {
      const text = published(fields);
      return text.startsWith('xdstp:') && inText(text) === text;
    }),
  );
  t.end();
});

t.test('no bytes make it throw, or read bytes outside the field', (t) => {
  const valid = fc.oneof(
    locator.map((fields) => locatorBytes(fields)),
    fc.constant(textLocatorBytes(own)),
  );
  const flipped = fc
    .tuple(valid, fc.array(fc.tuple(fc.nat(), fc.nat({ max: 255 })), { maxLength: 4 }))
    .map(([bytes, flips]) => {
      const copy = Uint8Array.from(bytes);
      for (const [at, to] of flips) copy[at % copy.length] = to;
      return copy;
    });
  fc.assert(
    fc.property(fc.oneof(fc.uint8Array({ maxLength: 200 }), flipped), (bytes) => {
      const alone = readLocatorField(bytes, 0, bytes.length);
      const around = Buffer.concat([Buffer.alloc(9, 0x0a), bytes, Buffer.alloc(99, 0x61)]);
      const within = readLocatorField(around, 9, 9 + bytes.length);
      return JSON.stringify(alone) === JSON.stringify(within) && read(bytes) !== '';
    }),
    { numRuns: 2_000 },
  );
  t.end();
});

t.test('4 MiB cost no more than their length', (t) => {
  const size = 4 * 1024 * 1024;
  const repeated = (...bytes: readonly number[]): Buffer => Buffer.alloc(size, Buffer.from(bytes));
  const wrapped = (inner: Buffer, tag: number): Buffer => {
    const length = [0, 7, 14, 21].map((shift) => ((inner.length >>> shift) & 0x7f) | 0x80);
    return Buffer.concat([Buffer.from([tag, ...length, 0]), inner]);
  };
  for (const [what, bytes] of [
    ['one byte again and again', repeated(0xff)],
    ['groups in groups', repeated(0x0b)],
    ['empty ids', repeated(0x12, 0)],
    ['empty directives', repeated(0x32, 0)],
    ['empty parameters', repeated(0x2a, 0)],
    ['one directive of many alternatives', wrapped(repeated(0x0a, 0), 0x32)],
    ['one long text', wrapped(repeated(0x78), 0x0a)],
    ['one long id', wrapped(repeated(0x78), 0x12)],
  ] as const) {
    t.type(read(bytes), 'string', what);
  }
  t.end();
});
