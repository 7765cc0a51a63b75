/** Goal: the latest 32 versions of sets that went out are known, with the latest place in the removals. */
import t from 'tap';
import { SentVersions } from '../../../../../gateway/core/cache/sent-versions.js';

t.test('a version that went out again counts as new', (t) => {
  const sent = new SentVersions();
  const place = (removedSeq: number) => ({ sentSeq: 0, removedSeq });
  sent.note('again', place(1));
  for (let at = 0; at < 31; at++) sent.note(`v${at}`, place(2));
  sent.note('again', place(3));
  sent.note('one more', place(4));
  t.equal(sent.placeOf('again')?.removedSeq, 3);
  t.equal(sent.placeOf('v0'), undefined, 'the oldest is forgotten');
  t.equal(sent.placeOf('v1')?.removedSeq, 2);
  t.end();
});
