/**
 * Goal: a list is read correctly, each bad entry is reported separately, and no bytes do harm.
 * Method: protobufjs reflection writes entries, our codec reads them; and random bytes.
 */
import fc from 'fast-check';
import t from 'tap';
import {
  elementTypeOf,
  isListName,
  listTypeOf,
  readList,
  type ListEntry,
} from '../../../protos/list-collection.js';
import { formatResourceLocator } from '../../../protos/resource-name.js';
import {
  inlineEntry,
  listBytes,
  locatorEntry,
  textEntry,
} from '../../support/collection-messages.js';
import { nameOf, THING, thing } from '../../support/federation-driver.js';

const MAX = 10_000;
const a = thing('cloud', 'a');

/** A short text for an entry. */
function gist(entry: ListEntry): string {
  switch (entry.kind) {
    case 'locator':
      return formatResourceLocator(entry.locator);
    case 'inline':
      return `${entry.name} ${entry.typeUrl} ${Buffer.from(entry.body).toString()}`;
    case 'refused':
      return `refused: ${entry.reason}`;
  }
}

function read(bytes: Uint8Array, maxEntries = MAX): readonly string[] {
  const list = readList(bytes, maxEntries);
  return list.ok ? Array.from(list.entries, gist) : [`no list: ${list.reason}`];
}

t.test('entries are read in their order, in either form (TP1 lists)', (t) => {
  const list = listBytes(
    textEntry(a),
    locatorEntry({ authority: 'cloud', resource_type: 'test.v1.Thing', id: 'a' }),
    locatorEntry({
      authority: 'cloud',
      resource_type: 'test.v1.ThingCollection',
      id: 'l',
      directives: [{ entry: 'x' }],
    }),
    inlineEntry('x', THING, 'body'),
    inlineEntry('', THING, ''),
  );
  t.strictSame(read(list), [
    a,
    a,
    'xdstp://cloud/test.v1.ThingCollection/l#entry=x',
    `x ${THING} body`,
    ` ${THING} `,
  ]);
  t.strictSame(read(new Uint8Array(0)), [], 'an empty list is valid');
  t.end();
});

t.test('a bad entry is refused by itself, with a reason', (t) => {
  const noAny = Buffer.from([0x12, 3, 0x0a, 1, 0x79]);
  const list = listBytes(
    new Uint8Array(0),
    textEntry('xdstp:bad'),
    textEntry('http://a/b'),
    inlineEntry('x', THING, '1'),
    inlineEntry('', THING, '3'),
    inlineEntry('', THING, '4'),
    Buffer.from([0xff]),
    Buffer.from([0x12, 1, 0xff]),
    Buffer.from([0x12, 3, 0x1a, 1, 0xff]),
    Buffer.from([0x0a, 1, 0xff]),
    noAny,
  );
  const entries = read(list);
  t.match(entries[1], /^refused: does not lead to a valid resource name/);
  t.match(entries[2], /^refused: (does not lead|is not a ResourceLocator)/);
  t.strictSame(
    [entries[0], ...entries.slice(3)],
    [
      'refused: is empty',
      `x ${THING} 1`,
      ` ${THING} 3`,
      ` ${THING} 4`,
      'refused: is not a collection entry',
      'refused: is not an inline entry',
      'refused: is not an inline entry',
      'refused: is not a ResourceLocator',
      'y  ',
    ],
  );
  t.strictSame(read(listBytes(noAny)), ['y  '], 'without an Any, it has no type');
  t.end();
});

t.test('two entries of one name refuse the list; several entries may have no name', (t) => {
  const twice = [inlineEntry('x', THING, '1'), textEntry(a), inlineEntry('x', THING, '2')];
  t.strictSame(read(listBytes(...twice)), ['no list: has two entries named "x"']);
  t.equal(read(listBytes(inlineEntry('', THING, '1'), inlineEntry('', THING, '2'))).length, 2);
  t.end();
});

t.test('with both kinds in one entry, the last counts, as everywhere in protobuf (oneof)', (t) => {
  const [located, inline] = [textEntry(a), inlineEntry('x', THING, '1')];
  t.strictSame(read(listBytes(Buffer.concat([located, inline]))), [`x ${THING} 1`]);
  t.strictSame(read(listBytes(Buffer.concat([inline, located]))), [a]);
  t.end();
});

t.test('one entry too many refuses the list, before any is read', (t) => {
  const many = (count: number): Uint8Array =>
    listBytes(...Array.from({ length: count }, () => textEntry(a)));
  t.equal(read(many(MAX)).length, MAX);
  t.strictSame(read(many(MAX + 1)), ['no list: has more than 10000 entries']);
  t.strictSame(read(Buffer.concat([many(2), Buffer.from([0xff])]), 1), [
    'no list: has more than 1 entries',
  ]);
  t.strictSame(read(Buffer.concat([many(1), Buffer.from([0xff])])), [
    'no list: is not a list collection',
  ]);
  t.end();
});

t.test('no bytes make it throw, and bodies are views of the list', (t) => {
  const entry = fc.oneof(
    fc.constant(textEntry(a)),
    fc.uint8Array({ maxLength: 20 }).map((body) => inlineEntry('x', THING, body)),
    fc.uint8Array({ maxLength: 20 }),
  );
  const flipped = fc
    .tuple(fc.array(entry, { minLength: 1, maxLength: 5 }), fc.nat(), fc.nat({ max: 255 }))
    .map(([entries, at, to]) => {
      const bytes = Uint8Array.from(listBytes(...entries));
      if (bytes.length > 0) bytes[at % bytes.length] = to;
      return bytes;
    });
  fc.assert(
    fc.property(fc.oneof(fc.uint8Array({ maxLength: 200 }), flipped), (bytes) => {
      const list = readList(bytes, MAX);
      if (!list.ok) return list.reason !== '';
      return [...list.entries].every(
        (one) => one.kind !== 'inline' || one.body.length === 0 || one.body.buffer === bytes.buffer,
      );
    }),
    { numRuns: 2_000 },
  );
  t.end();
});

t.test('4 MiB cost no more than their length', (t) => {
  const repeated = (...bytes: readonly number[]): Buffer =>
    Buffer.alloc(4 * 1024 * 1024, Buffer.from(bytes));
  t.strictSame(read(repeated(0x0a, 0)), ['no list: has more than 10000 entries'], 'empty entries');
  t.strictSame(read(repeated(0x12, 0)), [], 'unknown fields');
  t.strictSame(read(repeated(0xff)), ['no list: is not a list collection']);
  t.strictSame(read(repeated(0x0b)), ['no list: is not a list collection'], 'groups');
  t.match(read(listBytes(repeated(0x0a, 0))), [/^refused: does not lead to/], 'one long entry');
  t.match(read(listBytes(repeated(0x78))), [/^refused/], 'of text');
  t.end();
});

t.test('a list has the list type of its members’ type', (t) => {
  t.equal(listTypeOf(THING), `${THING}Collection`);
  t.equal(elementTypeOf(`${THING}Collection`), THING);
  t.equal(elementTypeOf(THING), undefined);
  t.equal(elementTypeOf('Collection'), undefined, 'the list type of no type');
  const list = nameOf('xdstp://cloud/test.v1.ThingCollection/x');
  t.ok(isListName(THING, list));
  t.notOk(isListName(`${THING}Collection`, list), 'subscribed as itself');
  t.notOk(isListName('type.googleapis.com/test.v1.Other', list));
  t.notOk(isListName(THING, nameOf(a)));
  t.end();
});
