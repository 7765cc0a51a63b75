/** Growth per attempt, as in gRPC's connection backoff. */
const FACTOR = 1.6;

/**
 * Exponential backoff with full jitter: a random delay below min(maxMs, base × 1.6^attempt). The
 * jitter keeps the clients of one server from reconnecting together.
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
