/** `/authorities`: the failover state, one row per group. */
import {
  answerAt,
  type Asked,
  type Candidate,
  type CandidateAnswer,
  type FailoverGroup,
  type FederationView,
} from '../../authorities/index.js';
import type { AuthoritySpec } from '../../config/model.js';
import { wallTime } from '../clock.js';
import { groupedBy } from '../grouped-by.js';
import { inSlices, jsonPieces } from './pieces.js';
import { jsonText, type AdminContext, type Reply } from './reply.js';
import { detailsOf, type DetailsOf, type SourceDetails } from './source-details.js';

export interface CandidateRow extends SourceDetails {
  readonly source: string;
  /** The authority of the names that the gateway requests from the source. */
  readonly authority: string;
  readonly live: boolean;
  readonly liveSince?: string;
  readonly tripped: boolean;
  /** Of `explain`: what the source has said of the name. */
  readonly answer?: CandidateAnswer;
}

export interface GroupRow {
  readonly authority: string;
  readonly group: string;
  readonly state: string;
  /** Absent: no client has subscribed to its names yet. */
  readonly since?: string;
  readonly why: string;
  readonly active: string | null;
  readonly target?: string;
  readonly candidates: readonly CandidateRow[];
  readonly wanted: number;
  readonly served: number;
  readonly guarded: number;
  /** For old-style names: number of resources that an earlier entry serves instead. */
  readonly shadowed?: number;
  /** How long the primary must be healthy before names move back. */
  readonly holdMs?: number;
  readonly forcedUntil?: string;
}

export async function authorities(context: AdminContext): Promise<Reply> {
  const rows = groupRows(context);
  return jsonText(200, await inSlices(jsonPieces({}, 'authorities', rows, (row) => row())));
}

/**
 * One row per group, in the order of the map; without groups, one for the authority.
 *
 * @returns a function that makes each row: node groups make many groups, and a row visits the candidates of its group
 */
export function groupRows(context: AdminContext): readonly (() => GroupRow)[] {
  const { view } = context.gateway.upstream;
  const details = detailsOf(context);
  const { authorities, defaultSource } = view.map;
  const specs = [...authorities.values(), ...(defaultSource ? [defaultSource] : [])];
  const groupsOf = groupedBy(view.groups, ({ spec }) => spec.name);
  const rows = specs.flatMap((spec) => {
    const groups = groupsOf.get(spec.name) ?? [];
    return groups.length === 0
      ? [() => unusedRow(spec, view, details)]
      : groups.map((group) => () => groupRow(group, details));
  });
  const oldStyle = (view.map.oldStyle?.servedBy ?? []).flatMap((entry) =>
    (groupsOf.get(entry.name) ?? []).map((group) => () => ({
      ...groupRow(group, details),
      shadowed: view.nodeGroups.of(group)?.shadowedCount(group) ?? 0,
    })),
  );
  return [...rows, ...oldStyle];
}

/** @param asked the row says what each source has answered for this name; default: the row has no answers */
export function groupRow(group: FailoverGroup, details: DetailsOf, asked?: Asked): GroupRow {
  const { kind, sinceMs, cause, active, target, holdMs, forcedUntilMs } = group.failover;
  return {
    authority: group.spec.name,
    group: group.id,
    state: kind,
    since: wallTime(sinceMs),
    why: cause,
    active: kind === 'idle' ? nameAt(group, active) : (group.activeSource?.name ?? null),
    ...(target === null ? {} : { target: nameAt(group, target) ?? '' }),
    candidates: group.candidates.map((candidate) => candidateRow(candidate, details, asked)),
    wanted: group.demandCount,
    served: group.servedCount,
    guarded: group.guardedCount,
    holdMs,
    ...(kind === 'forced' && Number.isFinite(forcedUntilMs)
      ? { forcedUntil: wallTime(forcedUntilMs) }
      : {}),
  };
}

function nameAt(group: FailoverGroup, index: number): string | null {
  return group.candidates[index]?.source.name ?? null;
}

/** @param asked the row says what the source has answered for this name; default: the row has no answer */
export function candidateRow(
  candidate: Candidate,
  details: DetailsOf,
  asked?: Asked,
): CandidateRow {
  const { source, authority } = candidate;
  const row = sourceRow(source, authority, details);
  return asked ? { ...row, answer: answerAt(candidate, asked) } : row;
}

function sourceRow(
  source: Candidate['source'],
  authority: string,
  details: DetailsOf,
): CandidateRow {
  const { live, liveSinceMs, tripped } = source.facts();
  return {
    source: source.name,
    authority,
    live,
    ...(live ? { liveSince: wallTime(liveSinceMs) } : {}),
    tripped,
    ...details(source),
  };
}

/** A group exists only after the first subscription. Until then the row comes from the map alone. */
function unusedRow(
  { name, sources, failover }: AuthoritySpec,
  view: FederationView,
  details: DetailsOf,
): GroupRow {
  const candidates = sources.flatMap((sourceName) => {
    const source = view.source(sourceName);
    return source ? [sourceRow(source, name, details)] : [];
  });
  return {
    authority: name,
    group: name,
    state: 'idle',
    why: 'no client has subscribed to its names yet',
    active: null,
    candidates,
    wanted: 0,
    served: 0,
    guarded: 0,
    holdMs: failover.holdMs,
  };
}
