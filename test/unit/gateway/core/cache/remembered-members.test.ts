/** Goal: remembered members are found in any order, and those that were deleted no more. */
import t from 'tap';
import { LOG_START } from '../../../../../gateway/core/cache/change-log.js';
import { RememberedMembers } from '../../../../../gateway/core/cache/remembered-members.js';

const remembering = (...keys: readonly string[]): RememberedMembers =>
  new RememberedMembers(keys.map((key) => ({ key, joinedSeq: 0 })));
const keysOf = (members: RememberedMembers): readonly string[] =>
  members.values().map(({ key }) => key);

t.test('a member is found until it is deleted, in whatever order', (t) => {
  const members = remembering('a', 'b', 'c');
  for (const key of ['c', 'a', 'b']) t.equal(members.get(key)?.key, key);
  t.equal(members.get('d'), undefined);
  const b = members.get('b');
  if (b) members.delete(b);
  t.equal(members.get('b'), undefined);
  t.strictSame(keysOf(members), ['a', 'c']);
  t.equal(members.size, 2);
  t.equal(new RememberedMembers().size, 0);
  t.end();
});

t.test('when a member joined is found in portions: until it is known, clients may hold it', (t) => {
  const keys = Array.from({ length: 1_500 }, (_, at) => `${at}`);
  const members = remembering(...keys);
  t.equal(members.joinedSeqOf('none'), LOG_START, 'a thousand were searched');
  t.equal(members.joinedSeqOf('none'), Infinity, 'all of them');
  t.equal(members.joinedSeqOf('1499'), 0);
  t.end();
});
