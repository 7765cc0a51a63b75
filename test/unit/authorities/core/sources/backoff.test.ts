import fc from 'fast-check';
import t from 'tap';
import { backoffDelayMs } from '../../../../../authorities/core/sources/backoff.js';

t.test('a retry waits between 0 and base × 1.6ⁿ, at most the maximum (full jitter)', (t) => {
  fc.assert(
    fc.property(
      fc.nat({ max: 10_000 }),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      (attempt, random) => {
        const delayMs = backoffDelayMs(attempt, 500, 30_000, random);
        const ceilingMs = Math.min(30_000, 500 * 1.6 ** attempt);
        return delayMs >= 0 && delayMs <= ceilingMs && Number.isInteger(delayMs);
      },
    ),
  );
  t.end();
});

t.test('the ceiling grows by 1.6 and stops at the maximum', (t) => {
  const ceilings = [0, 1, 2, 8, 9, 500].map((n) =>
    Math.round(backoffDelayMs(n, 500, 30_000, 0.9999)),
  );
  t.strictSame(ceilings, [499, 799, 1279, 21472, 29997, 29997]);
  t.end();
});
