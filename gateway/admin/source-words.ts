/** The health of a source in words: why a name is served as it is. */
import type { CandidateRow } from './authorities.js';

/** Such as `not connected, counts as down, breaker open`. */
export function healthWords({ live, tripped, breaker }: CandidateRow): readonly string[] {
  return [
    live ? 'connected' : 'not connected',
    ...(tripped ? ['counts as down'] : []),
    ...(breaker === undefined ? [] : [`breaker ${breaker}`]),
  ];
}

/** One line for each: the last loss, the next attempt, wrong files. */
export function troubleLines({
  lostSince,
  lastError,
  nextAttempt,
  problems = [],
}: CandidateRow): readonly string[] {
  return [
    ...(lastError === undefined ? [] : [`lost since ${lostSince ?? 'the start'}: ${lastError}`]),
    ...(nextAttempt === undefined ? [] : [`next attempt at ${nextAttempt}`]),
    ...problems,
  ];
}
