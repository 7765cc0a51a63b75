/**
 * Goal: thousands of collections that are whole at the same time are told in several turns, each once.
 * Method: a turn with room for two, in scripted time.
 */
import t from 'tap';
import {
  WHOLE_MARGIN_MS,
  WholeWaits,
} from '../../../../../authorities/core/failover/whole-waits.js';
import { TurnRoom } from '../../../../../authorities/core/failover/turn-room.js';
import { nameOf } from '../../../../support/fake-directory.js';
import { CDS, cds } from '../../../../support/mesh-names.js';

t.test('collections beyond the room of a turn stay due', (t) => {
  const waits = new WholeWaits<{ typeUrl: string; name: ReturnType<typeof nameOf> }>(1_000);
  const demands = ['a/*', 'b/*', 'c/*'].map((id) => ({ typeUrl: CDS, name: nameOf(cds(id)) }));
  for (const demand of demands) waits.begin(demand, 0);
  const wholeMs = 1_000 + WHOLE_MARGIN_MS;
  const room = new TurnRoom(2);
  const take = (nowMs: number) => {
    room.refill();
    return waits.takeDue(
      nowMs,
      () => 0,
      () => room.take(),
    );
  };
  t.strictSame(take(wholeMs - 1), []);
  t.strictSame(take(wholeMs), demands.slice(0, 2));
  t.equal(waits.nextMs, wholeMs);
  t.strictSame(take(wholeMs), demands.slice(2));
  t.equal(waits.nextMs, undefined);
  t.end();
});
