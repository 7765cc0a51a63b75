/** Goal: memory is short before V8 ends the process, and garbage alone is not a shortage. */
import t from 'tap';
import {
  memoryFullness,
  memoryLevel,
  type MemoryLevel,
} from '../../../../../gateway/core/quotas/memory-level.js';

const sample = (used: number, live = used, external = 0) => ({
  heapUsedBytes: used,
  heapLiveBytes: live,
  externalBytes: external,
  heapLimitBytes: 100,
});

t.test('live bytes and buffers count, garbage counts half', (t) => {
  t.equal(memoryFullness(sample(40)), 0.4);
  t.equal(memoryFullness(sample(80, 40)), 0.6);
  t.equal(memoryFullness(sample(40, 40, 30)), 0.7);
  t.equal(memoryFullness(sample(40, 50)), 0.4, 'live is at most what is used');
  t.end();
});

t.test('each level has a bound, and ends a little below it', (t) => {
  const steps: readonly (readonly [used: number, before: MemoryLevel, after: MemoryLevel])[] = [
    [70, 'enough', 'enough'],
    [71, 'enough', 'short'],
    [68, 'short', 'short'],
    [66, 'short', 'enough'],
    [86, 'short', 'critical'],
    [86, 'enough', 'critical'],
    [82, 'critical', 'critical'],
    [80, 'critical', 'short'],
    [60, 'critical', 'enough'],
  ];
  for (const [used, before, after] of steps) {
    t.equal(memoryLevel(sample(used), before, 0.7), after, `${before} at ${used}`);
  }
  t.end();
});
