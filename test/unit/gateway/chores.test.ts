/**
 * Goal: a look at thousands of streams does not hold up the event loop.
 * Method: streams that each take a part of a turn, counted in each turn.
 */
import t from 'tap';
import { endDue } from '../../../gateway/chores.js';

const STREAMS = 20;
/** A turn has room for a few of them. */
const STREAM_MS = 3;

t.test('each stream is looked at once, in several turns of the event loop', async (t) => {
  const looks = new Array<number>(STREAMS).fill(0);
  const streams = looks.map((_, at) => ({
    endIfDue: () => {
      const untilMs = performance.now() + STREAM_MS;
      while (performance.now() < untilMs);
      looks[at] = (looks[at] ?? 0) + 1;
    },
  }));
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns++;
    if (!isOver) setImmediate(count);
  };
  await new Promise<void>((resolve) => {
    endDue(streams.values(), () => {
      isOver = true;
      resolve();
    });
    t.ok(looks.includes(0), 'the first turn ends before the last stream');
    count();
  });
  t.ok(looks.every((times) => times === 1));
  t.ok(turns > 2, `${turns} turns`);
});

t.test('a look at no stream is over at once', (t) => {
  let isOver = false;
  endDue([].values(), () => (isOver = true));
  t.ok(isOver);
  t.end();
});
