/**
 * Goal: the names of collections without a client are bounded, by time and by number (invariant 18).
 * Method: collections with a few names, and a manual clock.
 */
import t from 'tap';
import { Collection } from '../../../../../gateway/core/cache/collection.js';
import { DormantCollections } from '../../../../../gateway/core/cache/dormant-collections.js';
import { nameOf, projectionOf } from '../../../../support/fake-directory.js';
import { CDS, cds } from '../../../../support/mesh-names.js';

function dormant(authority: string, untilMs: number, names = 3) {
  const collection = new Collection(nameOf(cds('g/*', authority)), {
    tombstonesPerCollection: 10,
    tombstoneMaxAgeMs: 1_000,
  });
  for (let at = 0; at < names; at++)
    collection.put(projectionOf(CDS, cds(`g/${at}`, authority), 'v1'));
  collection.forgetContent();
  return { typeUrl: CDS, collection, untilMs };
}
const authorities = (all: DormantCollections): readonly string[] =>
  [...all.values()].map(({ collection }) => collection.glob.authority);

t.test('with more names than the bound, the collections that ended first are forgotten', (t) => {
  const all = new DormantCollections(7);
  const first = dormant('a', 1_000);
  for (const one of [first, dormant('b', 2_000)]) all.add(one);
  t.equal(all.nameCount, 6);
  all.add(dormant('c', 3_000));
  t.strictSame(authorities(all), ['b', 'c']);
  t.equal(all.nameCount, 6);
  t.equal(first.collection.rememberedCount, 0, 'whatever still refers to it');
  const large = dormant('d', 4_000, 50);
  all.add(large);
  t.strictSame(authorities(all), ['d'], 'the last one stays, however large it is');
  t.equal(all.take(CDS, large.collection.glob), large.collection);
  t.equal(all.nameCount, 0);
  t.equal(all.take(CDS, large.collection.glob), undefined);
  t.end();
});

t.test('a collection is forgotten when its time is over', (t) => {
  const all = new DormantCollections();
  for (const [authority, untilMs] of [
    ['a', 1_000],
    ['b', 2_000],
    ['a', 3_000],
  ] as const)
    all.add(dormant(authority, untilMs));
  t.strictSame(authorities(all), ['b', 'a'], 'each once');
  t.equal(all.forgetDue(1_999), 0);
  t.equal(all.forgetDue(2_000), 1);
  t.strictSame(authorities(all), ['a']);
  t.equal(all.nameCount, 3);
  t.end();
});
