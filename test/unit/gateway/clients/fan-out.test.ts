/**
 * Goal: each ready stream is pumped once for many calls, in turns that let other work of the event
 * loop through.
 * Method: streams that count, and setImmediate as the only clock.
 */
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { FanOut, type Pumpable } from '../../../../gateway/clients/fan-out.js';

t.test(
  'a stream that is scheduled many times is pumped once, and not from within the call',
  async (t) => {
    const fanOut = new FanOut();
    let pumps = 0;
    const stream: Pumpable = { pump: () => pumps++ };
    for (let call = 0; call < 5; call++) fanOut.schedule(stream);
    t.equal(pumps, 0);
    await turn();
    t.equal(pumps, 1);
    await turn();
    t.equal(pumps, 1);
  },
);

t.test('a forgotten stream is not pumped', async (t) => {
  const fanOut = new FanOut();
  const pumped: string[] = [];
  const [gone, stays] = ['gone', 'stays'].map((id): Pumpable => ({ pump: () => pumped.push(id) }));
  fanOut.schedule(gone!);
  fanOut.schedule(stays!);
  fanOut.forget(gone!);
  await turn();
  t.strictSame(pumped, ['stays']);
});

t.test('a long turn ends after a few milliseconds, and the rest follow in the next', async (t) => {
  const fanOut = new FanOut();
  const pumped: number[] = [];
  const slow = (id: number): Pumpable => ({
    pump: () => {
      pumped.push(id);
      const untilMs = performance.now() + 9;
      while (performance.now() < untilMs);
    },
  });
  for (const id of [1, 2, 3]) fanOut.schedule(slow(id));
  await turn();
  t.strictSame(pumped, [1]);
  await turn();
  t.strictSame(pumped, [1, 2]);
  await turn();
  t.strictSame(pumped, [1, 2, 3]);
});

t.test('a stream that becomes ready while others are pumped gets its turn', async (t) => {
  const fanOut = new FanOut();
  const pumped: string[] = [];
  const late: Pumpable = { pump: () => pumped.push('late') };
  fanOut.schedule({
    pump: () => {
      pumped.push('first');
      fanOut.schedule(late);
    },
  });
  await turn();
  await turn();
  t.strictSame(pumped, ['first', 'late']);
});
