/** The health of a source in words: why a name is served as it is. */
import type { CandidateAnswer } from '../../authorities/index.js';
import type { CandidateRow } from './authorities.js';

const ANSWERS: Readonly<Record<CandidateAnswer, string>> = {
  sent: 'sent',
  rejected: 'sent, and refused by the gateway (source_refused in the log says why)',
  absent: 'there is no such resource',
  'not answered yet': 'none yet',
  'no answer': 'none (the wait is over)',
  'not requested': 'none (not requested)',
};

/** @returns no line for the answer of a gateway of another version that this one does not know */
export function answerLines({ answer }: CandidateRow): readonly string[] {
  const words = answer && (ANSWERS[answer] as string | undefined);
  return words === undefined ? [] : [`answer: ${words}`];
}

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
