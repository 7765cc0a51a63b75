/** Goal: a queue keeps its order, and its cost does not grow with its length. */
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
