/**
 * Goal: a burst of work is spread over turns of the event loop, in its order; single work runs at once.
 * Method: work that takes a measured time, and setImmediate as the only clock.
 */
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { Turns } from '../../../authorities/turns.js';

/** Longer than a turn may take. Milliseconds. */
const LONG_MS = 9;

function busy(): void {
  const untilMs = performance.now() + LONG_MS;
  while (performance.now() < untilMs);
}

t.test('work without a burst runs at once', (t) => {
  const turns = new Turns();
  const done: number[] = [];
  turns.run(() => done.push(1));
  turns.run(() => done.push(2));
  t.strictSame(done, [1, 2]);
  t.end();
});

t.test('work beyond a few milliseconds follows in later turns, in its order', async (t) => {
  const turns = new Turns();
  const done: number[] = [];
  for (const id of [1, 2, 3]) {
    turns.run(() => {
      done.push(id);
      busy();
    });
  }
  t.strictSame(done, [1]);
  await turn();
  t.strictSame(done, [1, 2]);
  turns.run(() => done.push(4));
  await turn();
  t.strictSame(done, [1, 2, 3], 'later work does not pass earlier work');
  await turn();
  t.strictSame(done, [1, 2, 3, 4]);
  await turn();
  turns.run(() => done.push(5));
  t.strictSame(done, [1, 2, 3, 4, 5], 'the burst is over');
});

t.test('more work than may wait runs at once, so that its sender is slowed down', (t) => {
  const turns = new Turns();
  const done: number[] = [];
  turns.run(busy);
  for (let id = 0; id < 10_000; id++) turns.run(() => done.push(id));
  t.equal(done.length, 0);
  turns.run(() => done.push(10_000));
  t.strictSame(
    done,
    Array.from({ length: 10_001 }, (_, id) => id),
  );
  t.end();
});
