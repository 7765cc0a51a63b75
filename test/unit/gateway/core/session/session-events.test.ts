/** Goal: each event of a session is taken once, and sessions have no event in common. */
import t from 'tap';
import { SessionEvents } from '../../../../../gateway/core/session/session-events.js';

t.test('events are taken once, oldest first, and belong to one session', (t) => {
  const [one, other] = [new SessionEvents(), new SessionEvents()];
  const stale = (typeUrl: string) => ({ kind: 'stale_nonce', typeUrl }) as const;
  one.add(stale('a'));
  one.add(stale('b'));
  t.strictSame(other.take(), []);
  t.strictSame(one.take(), [stale('a'), stale('b')]);
  t.strictSame(one.take(), []);
  one.add(stale('c'));
  t.strictSame([other.take(), one.take()], [[], [stale('c')]]);
  t.end();
});
