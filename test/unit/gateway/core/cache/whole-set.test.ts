/**
 * Goal: the segments of a collection hold each member once, in its last content, and only a change of a member encodes
 * its segment again.
 * Method: random histories of a collection, beside a map; then manual ones.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { Collection } from '../../../../../gateway/core/cache/collection.js';
import { SetDigest } from '../../../../../gateway/core/cache/set-digest.js';
import { sizeInMessage } from '../../../../../gateway/core/cache/message-size.js';
import type { Segment } from '../../../../../gateway/core/cache/whole-set.js';
import { encodeSotwResponse } from '../../../../../protos/sotw-codec.js';
import { wholeOf } from '../../../../../protos/discovery-fields.js';
import type { Projection } from '../../../../../authorities/index.js';
import { decodeSotwResponse } from '../../../../support/discovery-messages.js';
import { nameOf, projectionOf } from '../../../../support/fake-directory.js';
import { CDS, cds } from '../../../../support/mesh-names.js';

const LIMITS = { tombstonesPerCollection: 10, tombstoneMaxAgeMs: 1_000 };
/** Of one segment; see whole-set.ts. */
const SEGMENT_BYTES = 65_536;

const collection = (): Collection => new Collection(nameOf(cds('g/*')), LIMITS);
const member = (id: number, content: string): Projection =>
  projectionOf(CDS, cds(`g/${id}`), content);

/** What a client reads from all segments: the content by name. */
function read(one: Collection): ReadonlyMap<string, string> {
  const resources = [...one.wholeSet.segments].map((segment) => segment.encoded(true));
  const response = { typeUrl: CDS, nonce: '1', versionInfo: '1', resources, errors: [] };
  const { resources: all } = decodeSotwResponse(wholeOf(encodeSotwResponse(response)));
  const byName = new Map(all.map(({ name = '', body }) => [name, body.toString()]));
  assert.equal(byName.size, all.length, 'each member once');
  return byName;
}

/** How many members the collection encodes again. */
function encodedAgain(one: Collection, change: () => void): number {
  const before = new Map([...one.wholeSet.segments].map((each) => [each, each.encoded(false)]));
  change();
  const isNew = (each: Segment): boolean => before.get(each) !== each.encoded(false);
  return [...one.wholeSet.segments].filter(isNew).reduce((sum, { size }) => sum + size, 0);
}

t.test('after any history the segments hold exactly the members, and so does the digest', (t) => {
  const step = fc.record({
    id: fc.nat(60),
    // With 20 KB, three members fill a segment.
    content: fc.constantFrom('a', 'b', 'c'.repeat(20_000), 'd'.repeat(40_000), undefined),
    portions: fc.constantFrom(0, 0, 1, 3, Infinity),
  });
  fc.assert(
    fc.property(fc.array(step, { size: 'max', maxLength: 200 }), (steps) => {
      const one = collection();
      const model = new Map<string, Projection>();
      for (const { id, content, portions } of steps) {
        const key = cds(`g/${id}`);
        if (content === undefined) {
          one.remove(key, 0);
          model.delete(key);
        } else {
          one.put(member(id, content));
          model.set(key, member(id, content));
        }
        if (portions === 0) continue;
        one.digestSome(portions);
        one.wholeSet.prepare(false, portions);
      }
      const expected = new SetDigest();
      for (const projection of model.values()) expected.add(projection);
      assert.equal(SetDigest.union([one.digest]), SetDigest.union([expected]));
      const held = read(one);
      assert.equal(held.size, model.size);
      let bytes = 0;
      for (const [key, { name, field, version }] of model) {
        const { bodyOffset, bodyLength } = field;
        const body = field.bytes.toString('utf8', bodyOffset, bodyOffset + bodyLength);
        assert.equal(held.get(key), body, version);
        const segment = one.wholeSet.segmentOf(name.key)!;
        assert.ok([...segment.members].some((each) => each.version === version));
      }
      const segments = [...one.wholeSet.segments];
      for (const segment of segments) {
        const sizes = [...segment.members].map(sizeInMessage);
        assert.equal(segment.largest, Math.max(0, ...sizes));
        assert.equal(
          segment.bytes,
          sizes.reduce((sum, size) => sum + size, 0),
        );
        assert.ok(segment.size <= 1 || segment.bytes <= SEGMENT_BYTES);
        bytes += segment.bytes;
      }
      const most = 2 + (4 * bytes) / SEGMENT_BYTES;
      assert.ok(segments.length <= most, `${segments.length} segments for ${bytes} bytes`);
    }),
    { numRuns: 200 },
  );
  t.pass();
  t.end();
});

t.test('a change of one member encodes one segment, and none without a change', (t) => {
  const one = collection();
  for (let id = 0; id < 1_000; id++) one.put(member(id, 'x'.repeat(1_000)));
  t.equal(
    encodedAgain(one, () => undefined),
    0,
  );
  const again = encodedAgain(one, () => one.put(member(500, 'y'.repeat(1_000))));
  t.ok(again > 1 && again < 70, `${again} of 1,000 members`);
  t.equal(read(one).get(cds('g/500')), 'y'.repeat(1_000));
  t.end();
});

t.test('a large resource has a segment of its own, without a copy', (t) => {
  const one = collection();
  const large = member(1, 'x'.repeat(100_000));
  one.put(member(0, 'small'));
  one.put(large);
  const segment = one.wholeSet.segmentOf(large.name.key);
  t.equal(segment?.size, 1);
  t.equal(segment?.encoded(false).buffer, large.field.bytes.buffer);
  t.end();
});

t.test('a set is prepared in portions, for each kind of response', (t) => {
  const one = collection();
  for (let id = 0; id < 200; id++) one.put(member(id, 'x'.repeat(1_000)));
  const portionsOf = (wraps: boolean): number => {
    let portions = 1;
    while (!one.wholeSet.prepare(wraps, 50)) portions++;
    return portions;
  };
  t.ok(portionsOf(false) > 200 / 50);
  t.equal(portionsOf(false), 1, 'nothing is left to do');
  t.ok(portionsOf(true) > 1, 'wrapped resources are encoded apart');
  one.remove(cds('g/1'), 0);
  t.equal(read(one).size, 199);
  t.end();
});

t.test('a collection that its last client left forgets the segments', (t) => {
  const one = collection();
  one.put(member(0, 'x'));
  t.equal(read(one).size, 1);
  one.forgetContent();
  t.equal(read(one).size, 0);
  one.put(member(1, 'y'));
  t.strictSame([...read(one).keys()], [cds('g/1')]);
  t.end();
});
