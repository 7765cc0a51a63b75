/**
 * Goal: tombstones are bounded, and never dropped before a live reader has read them.
 * Method: manual puts, removals and readers.
 */
import t from 'tap';
import { Collection } from '../../../../../gateway/core/cache/collection.js';
import { LOG_START } from '../../../../../gateway/core/cache/change-log.js';
import { nameOf, projectionOf } from '../../../../support/fake-directory.js';
import { CDS, cds } from '../../../../support/mesh-names.js';

const LIMITS = { tombstonesPerCollection: 10, tombstoneMaxAgeMs: 1_000 };
const collection = (): Collection => new Collection(nameOf(cds('g/*')), LIMITS);
const member = (id: string, content = 'v1') => projectionOf(CDS, cds(`g/${id}`), content);
const buried = (one: Collection): readonly string[] =>
  [...one.tombstones.since(LOG_START)].map(({ key }) => key);

function bury(one: Collection, id: string, nowMs: number): void {
  one.put(member(id));
  one.remove(cds(`g/${id}`), nowMs);
}

t.test('putting the same version again changes nothing', (t) => {
  const one = collection();
  t.ok(one.put(member('a')));
  t.notOk(one.put(member('a')));
  t.ok(one.put(member('a', 'v2')));
  t.equal(one.members.size, 1);
  t.equal(one.member(cds('g/a'))?.joinedSeq, 0, 'it joined once');
  t.end();
});

t.test('removing a non-member reports that and leaves no tombstone', (t) => {
  const one = collection();
  t.notOk(one.remove(cds('g/a'), 0));
  t.strictSame(buried(one), []);
  t.end();
});

t.test('a member that comes back deletes its tombstone', (t) => {
  const one = collection();
  bury(one, 'a', 0);
  t.strictSame(buried(one), [cds('g/a')]);
  one.put(member('a'));
  t.strictSame(buried(one), []);
  t.end();
});

t.test('a member that comes back remembers its first membership and its last removal', (t) => {
  const one = collection();
  const key = cds('g/a');
  const former = (): unknown => one.member(key)?.former;
  one.put(member('a'));
  t.equal(former(), undefined);
  one.remove(key, 0);
  one.put(member('a'));
  t.strictSame(former(), { joinedSeq: 0, removedSeq: 0 });
  one.remove(key, 0);
  one.put(member('a'));
  t.strictSame(former(), { joinedSeq: 0, removedSeq: 1 });
  t.end();
});

t.test('a removal from before the last subscription says nothing of a membership', (t) => {
  const one = collection();
  bury(one, 'a', 0);
  one.forgetContent();
  one.handleComplete(true);
  t.strictSame(buried(one), [cds('g/a')]);
  one.put(member('a'));
  t.equal(one.member(cds('g/a'))?.former, undefined);
  t.end();
});

t.test('tombstones are bounded by number while no reader needs them (invariant 18)', (t) => {
  const one = collection();
  for (let id = 0; id < 100; id++) bury(one, String(id), 0);
  t.ok(one.tombstones.size <= 11, String(one.tombstones.size));
  t.ok(buried(one).includes(cds('g/99')), 'the latest are kept');
  t.end();
});

t.test('a bound of zero keeps no tombstone', (t) => {
  const one = new Collection(nameOf(cds('g/*')), { ...LIMITS, tombstonesPerCollection: 0 });
  bury(one, 'a', 0);
  t.strictSame(buried(one), []);
  t.end();
});

t.test('tombstones are bounded by age (invariant 18)', (t) => {
  const one = collection();
  bury(one, 'old', 0);
  bury(one, 'older than a second now', 500);
  bury(one, 'new', 1_600);
  t.strictSame(buried(one), [cds('g/new')]);
  t.end();
});

t.test('a tombstone that a live reader has not read stays, however many or old', (t) => {
  const one = collection();
  const slow = { removedSeq: LOG_START };
  const fast = { removedSeq: LOG_START };
  one.readers.add(slow).add(fast);
  for (let id = 0; id < 50; id++) bury(one, String(id), id * 1_000);
  fast.removedSeq = one.tombstones.lastSeq;
  t.equal(one.tombstones.size, 50);
  slow.removedSeq = 39;
  bury(one, 'next', 50_000);
  t.equal(buried(one)[0], cds('g/40'), 'tombstones that both have read are dropped');
  slow.removedSeq = one.tombstones.lastSeq;
  fast.removedSeq = one.tombstones.lastSeq;
  bury(one, 'last', 51_500);
  t.strictSame(buried(one), [cds('g/last')]);
  t.end();
});

t.test(
  'members lost without clients are listed on completion, and get tombstones once judged',
  (t) => {
    const one = collection();
    for (const id of ['stays', 'goes']) one.put(member(id));
    one.handleComplete(true);
    t.strictSame([...one.forgetContent().keys()], [cds('g/stays'), cds('g/goes')]);
    t.ok(one.rememberedCount > 0);
    t.equal(one.members.size, 0);
    t.notOk(one.complete);
    one.put(member('stays'));
    t.notOk(
      one.settleRemembered(cds('g/goes'), 5),
      'nothing is known before the collection is complete',
    );
    t.strictSame(one.handleComplete(true), [cds('g/goes')]);
    t.ok(one.isDoubted);
    t.strictSame(buried(one), [], 'no tombstone before the judgement');
    t.ok(one.settleRemembered(cds('g/goes'), 5));
    t.strictSame(buried(one), [cds('g/goes')]);
    t.notOk(one.settleRemembered(cds('g/goes'), 5), 'once');
    t.end();
  },
);

t.test('a remembered name that arrives before it is judged gets no tombstone', (t) => {
  const one = collection();
  one.put(member('late'));
  one.forgetContent();
  t.strictSame(one.handleComplete(true), [cds('g/late')]);
  one.put(member('late'));
  t.notOk(one.settleRemembered(cds('g/late'), 5));
  t.strictSame(buried(one), []);
  t.end();
});

t.test('an alternative proves no remembered name removed', (t) => {
  const one = collection();
  one.put(member('primary-only'));
  one.forgetContent();
  t.strictSame(one.handleComplete(false), []);
  t.notOk(one.isDoubted);
  t.strictSame(one.handleComplete(true), [cds('g/primary-only')]);
  t.end();
});

t.test(
  'an earlier removal counts once the source has answered, a current one at once (seed 5998)',
  (t) => {
    const one = collection();
    for (const id of ['before', 'returns']) bury(one, id, 0);
    one.forgetContent();
    t.ok(one.isBuried(cds('g/before')));
    bury(one, 'now', 5);
    t.strictSame(buried(one), [cds('g/now')]);
    one.put(member('returns'));
    t.notOk(one.isBuried(cds('g/returns')), 'a member that exists again was not removed');
    const removed = one.names(CDS, 7).removed.map(({ key }) => key);
    t.strictSame(removed, [cds('g/before'), cds('g/now')], 'the written state has both');
    one.handleComplete(false, false);
    t.strictSame(buried(one), [cds('g/now')], 'what an earlier process kept says nothing about it');
    one.handleComplete(false, true);
    t.strictSame(buried(one), [cds('g/now'), cds('g/before')]);
    t.end();
  },
);

t.test(
  'a collection that loses its clients again before it is judged remembers each name once',
  (t) => {
    const one = collection();
    one.put(member('goes'));
    one.forgetContent();
    t.strictSame(one.handleComplete(true), [cds('g/goes')]);
    one.forgetContent();
    t.strictSame(one.names(CDS, 0).members, [cds('g/goes')]);
    t.notOk(one.settleRemembered(cds('g/goes'), 1), 'it is to be judged anew');
    t.end();
  },
);

t.test('a name gets one tombstone, in whatever order it was remembered and removed', (t) => {
  const one = collection();
  bury(one, 'before', 0);
  one.put(member('between'));
  one.forgetContent();
  one.forgetContent();
  bury(one, 'between', 5);
  for (let round = 0; round < 2; round++) {
    for (const key of one.handleComplete(true)) one.settleRemembered(key, 6);
  }
  t.strictSame([...buried(one)].sort(), [cds('g/before'), cds('g/between')]);
  t.end();
});

t.test(
  'a restored collection has its removals, except those that are too old (invariant 18)',
  (t) => {
    const names = {
      ...collection().names(CDS, 0),
      members: [cds('g/stays'), cds('g/goes')],
      removed: [
        { key: cds('g/too old'), removedAtMs: -2_000 },
        { key: cds('g/old'), removedAtMs: -500 },
      ],
    };
    const one = collection();
    one.restore(names, 0);
    t.notOk(one.isBuried(cds('g/too old')));
    t.strictSame(buried(one), [], 'a removed member may exist again');
    one.put(member('stays'));
    t.strictSame(one.handleComplete(true), [cds('g/goes')]);
    t.strictSame(buried(one), [cds('g/old')]);
    t.strictSame(one.names(CDS, 7).members, [cds('g/goes'), cds('g/stays')], 'until it is judged');
    t.ok(one.settleRemembered(cds('g/goes'), 5));
    t.strictSame(one.handleComplete(true), []);
    t.strictSame(buried(one), [cds('g/old'), cds('g/goes')]);
    t.strictSame(one.names(CDS, 7).members, [cds('g/stays')]);
    t.end();
  },
);

t.test('restored removals are bounded by number (invariant 18)', (t) => {
  const removed = Array.from({ length: 100 }, (_, at) => ({ key: cds(`g/${at}`), removedAtMs: 0 }));
  const one = collection();
  one.restore({ ...one.names(CDS, 0), removed }, 0);
  one.handleComplete(true);
  t.ok(one.tombstones.size >= 10 && one.tombstones.size <= 11, String(one.tombstones.size));
  t.end();
});

t.test('a collection that never had a member has nothing to remember', (t) => {
  const one = collection();
  one.forgetContent();
  t.equal(one.rememberedCount, 0);
  t.end();
});

t.test('a collection that is never proven remembers a bounded number of former members', (t) => {
  const one = collection();
  for (let round = 0; round < 30; round++) {
    for (let at = 0; at < 10; at++) one.put(member(`${round}-${at}`));
    one.handleComplete(false);
    one.forgetContent();
  }
  t.equal(one.rememberedCount, 110, 'the last members, and 10 x tombstonesPerCollection before');
  t.end();
});
