/** Goal: collections that are rarely filled share one empty collection, and nothing gets into that one. */
import t from 'tap';
import { appended, noMap, noSet, ownMap, ownSet } from '../../../protos/empty-collections.js';

t.test('the shared collections are empty, the same for all, and cannot be filled', (t) => {
  t.equal(noMap<string, number>(), noMap<number, string>());
  t.equal(noSet<string>(), noSet<number>());
  t.throws(() => noMap<string, number>().set('a', 1), { name: 'TypeError' });
  t.throws(() => noSet<string>().add('a'), { name: 'TypeError' });
  t.notOk(noMap<string, number>().delete('a'));
  t.strictSame([...noMap(), ...noSet()], []);
  t.end();
});

t.test('a collection gets its own when it is filled, once', (t) => {
  const map = ownMap(noMap<string, number>()).set('a', 1);
  t.equal(ownMap(map), map);
  t.strictSame([...map], [['a', 1]]);
  const set = ownSet(noSet<string>()).add('a');
  t.equal(ownSet(set), set);
  t.strictSame([...set], ['a']);
  t.equal(noMap().size + noSet().size, 0);
  t.end();
});

t.test(
  'a list gets its own array with its first element, so that an empty one can be shared',
  (t) => {
    const empty: string[] = [];
    const one = appended(empty, 'a');
    t.strictSame([empty, one], [[], ['a']]);
    t.equal(appended(one, 'b'), one);
    t.strictSame(one, ['a', 'b']);
    t.end();
  },
);
