/**
 * Instances that know less than others catch up, even if other instances are late too
 * (docs/INSTANCES.md).
 */
import t from 'tap';
import type { PeerMessage } from '../../../../../gateway/core/peers/peer-message.js';
import { TYPE_URL } from '../../../../../protos/type-urls.js';
import { nameOf } from '../../../../support/fake-directory.js';
import { GRACE_MS, hintOf, HintsDriver } from '../../../../support/hints-driver.js';
import { CDS, cds } from '../../../../support/mesh-names.js';

const A = nameOf(cds('g/a'));

t.test('the hint of a late instance does not undo that of another', (t) => {
  const me = new HintsDriver().holds(A, { version: '1' });
  me.hears(hintOf(A, '2'), 'early').hears(hintOf(A, '1'), 'late').after(GRACE_MS);
  t.strictSame(me.words(), [`revalidate ${A.key} for hint`]);
  t.end();
});

t.test('an instance that holds a name as absent learns through digests that it exists', (t) => {
  const me = new HintsDriver().holds(A, { kind: 'absent' });
  me.hints.handleAsked(CDS, A, 1);
  t.strictSame(me.hints.digest(), [], 'nothing is held');
  const other = new HintsDriver('other').sees(A, '1').after(50);
  other.take();
  const rows = other.hints.digest();
  me.hears({ kind: 'digest', isQuestion: true, rows });
  const [answer] = me.messages();
  t.match(answer, { kind: 'digest', isQuestion: false, rows: [{ count: 0 }] });
  other.hears(answer!, 'me');
  t.strictSame(other.words(), ['tell g/a=1']);
  me.hints.handleAsked(CDS, A, -1);
  me.hears({ kind: 'digest', isQuestion: true, rows });
  t.strictSame(me.words(), [], 'nor does an instance without the subscription reply');
  me.hints.handleAsked(TYPE_URL.secret, A, 1);
  me.hears({ kind: 'digest', isQuestion: true, rows: [{ ...rows[0]!, typeUrl: TYPE_URL.secret }] });
  t.strictSame(me.words(), [], 'Secrets are in no digest (invariant 13)');
  t.end();
});

// Found by the simulation, seed 62154.
t.test(
  'an instance that connects right after a reply to another one gets a reply too (invariant 14)',
  (t) => {
    const question = (hash: string): PeerMessage => ({
      kind: 'digest',
      isQuestion: true,
      rows: [{ typeUrl: CDS, authority: A.authority, count: 0, hash }],
    });
    const me = new HintsDriver().sees(A, '1').after(50);
    me.take();
    me.hears(question('a'), 'first');
    t.strictSame(me.words(), ['tell digest of 1', 'tell g/a=1']);
    me.after(500).hears(question('b'), 'late').hears(question('c'), 'later').after(999);
    t.strictSame(me.words(), [], 'not within the second');
    me.after(1);
    t.strictSame(me.words(), ['tell digest of 1', 'tell g/a=1'], 'one reply for both');
    me.after(10_000);
    t.strictSame(me.words(), [], 'and no more');
    t.end();
  },
);

t.test('postponed digest replies end when the row is gone, and on disconnect', (t) => {
  const owing = (): HintsDriver => {
    const me = new HintsDriver().sees(A, '1').after(50);
    const rows = [{ typeUrl: CDS, authority: A.authority, count: 0, hash: 'a' }];
    for (const from of ['first', 'late'])
      me.hears({ kind: 'digest', isQuestion: true, rows }, from);
    me.take();
    return me;
  };
  const without = owing().sees(A, undefined, { cause: 'dropped' }).after(1_000);
  t.strictSame(without.words(), []);
  const cut = owing();
  t.equal(cut.hints.nextDeadlineMs(), cut.nowMs + 1_000);
  cut.hints.handleDisconnected();
  t.equal(cut.hints.nextDeadlineMs(), undefined);
  t.end();
});
