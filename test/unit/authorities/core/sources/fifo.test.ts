/** Goal: a queue keeps its order, and its cost does not grow with its length. */
import { setImmediate as turn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { Fifo } from '../../../../../authorities/core/sources/fifo.js';

t.test('first in, first out, however pushes and shifts mix', (t) => {
  const fifo = new Fifo<number>();
  const model: number[] = [];
  for (let step = 0; step < 2_000; step++) {
    // Grows for 1,000 steps, then empties.
    const pushes = step < 1_000 ? step % 3 : 0;
    for (let one = 0; one < pushes; one++) {
      fifo.push(step + one);
      model.push(step + one);
    }
    t.equal(fifo.first, model[0]);
    t.equal(fifo.shift(), model.shift());
  }
  t.equal(fifo.first, undefined);
  t.end();
});

t.test('clear empties the queue', (t) => {
  const fifo = new Fifo<string>();
  for (const item of ['a', 'b', 'c']) fifo.push(item);
  fifo.shift();
  fifo.clear();
  t.equal(fifo.first, undefined);
  fifo.push('d');
  t.equal(fifo.shift(), 'd');
  t.end();
});

t.test('the cost of a shift does not grow with the length of the queue', (t) => {
  const fifo = new Fifo<number>();
  for (let item = 0; item < 500_000; item++) fifo.push(item);
  const startedMs = performance.now();
  while (fifo.shift() !== undefined);
  // Some 10 ms; `Array.shift` takes longer by orders of magnitude.
  t.ok(performance.now() - startedMs < 1_000);
  t.end();
});

t.test('an item that is taken is garbage, also while others wait', async (t) => {
  const fifo = new Fifo<object>();
  const push = (): WeakRef<object> => {
    const item = {};
    fifo.push(item);
    return new WeakRef(item);
  };
  const items = Array.from({ length: 10 }, push);
  for (let taken = 0; taken < 3; taken++) fifo.shift();
  // V8 keeps the target of a new WeakRef until the turn ends.
  await turn();
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  t.strictSame(
    items.map((item) => item.deref() !== undefined),
    [false, false, false, ...Array.from({ length: 7 }, () => true)],
  );
  t.equal(fifo.first, items[3]?.deref());
});
