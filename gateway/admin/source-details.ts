/** The details of a source beside its facts: its last loss, its next attempt, its files. */
import type { BreakerState, Candidate } from '../../authorities/index.js';
import { wallTime } from '../clock.js';
import { shownText } from '../telemetry/line-fields.js';
import type { AdminContext } from './reply.js';

export interface SourceDetails {
  /** Absent for files. */
  readonly breaker?: BreakerState;
  /** Since when no stream responds. Absent: one does, or the gateway did not need one yet. */
  readonly lostSince?: string;
  /** How the last stream or attempt ended. */
  readonly lastError?: string;
  readonly nextAttempt?: string;
  /** Files that the gateway cannot read, and resources in them that it cannot serve. */
  readonly problems?: readonly string[];
}

export type DetailsOf = (source: Candidate['source']) => SourceDetails;

/** Without a gateway nothing is known. */
export const NO_DETAILS: DetailsOf = () => ({});

/** Number of problems of files in a reply; a further line counts the rest. */
const SHOWN_PROBLEMS = 20;

export function detailsOf({
  gateway,
  telemetry,
}: Pick<AdminContext, 'gateway' | 'telemetry'>): DetailsOf {
  return (source) => {
    const breaker = gateway.upstream.breakerState(source.id);
    const loss = telemetry.lossOf(source.id);
    const { live, retryAtMs } = source.facts();
    const problems = gateway.upstream.fileProblems(source.name);
    return {
      ...(breaker === undefined ? {} : { breaker }),
      ...(loss && !live
        ? { lostSince: wallTime(loss.atMs), lastError: shownText(loss.last.message) }
        : {}),
      ...(retryAtMs === undefined ? {} : { nextAttempt: wallTime(retryAtMs) }),
      ...(problems.length > 0 ? { problems: shown(problems) } : {}),
    };
  };
}

function shown(problems: readonly string[]): readonly string[] {
  if (problems.length <= SHOWN_PROBLEMS) return problems;
  return [...problems.slice(0, SHOWN_PROBLEMS), `… and ${problems.length - SHOWN_PROBLEMS} more`];
}

/** The trouble of each candidate in one line, such as `source "files": shop.yaml:7:5: unknown key`. */
export function troublesOf(
  candidates: readonly Pick<Candidate, 'source'>[],
  details: DetailsOf,
): readonly string[] {
  return candidates.flatMap(({ source }) => {
    const { lastError, problems = [] } = details(source);
    const words = [...problems, ...(lastError === undefined ? [] : [lastError])];
    return words.length === 0 ? [] : [`source "${source.name}": ${words.join('; ')}`];
  });
}
