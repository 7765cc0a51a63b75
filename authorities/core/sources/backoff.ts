/** Growth per attempt, as gRPC's connection backoff has it. */
const FACTOR = 1.6;

/**
 * Full jitter: anywhere between nothing and base × 1.6^attempt, at most `maxMs`, so that many
 * clients of one server do not come back together.
 *
 * @param attempt 0 for the first retry.
 * @param random in [0, 1).
 */
export function backoffDelayMs(
  attempt: number,
  baseMs: number,
  maxMs: number,
  random: number,
): number {
  const ceilingMs = Math.min(maxMs, baseMs * FACTOR ** Math.min(attempt, 64));
  return Math.floor(ceilingMs * random);
}
