/** `/authorities`: the failover state, one row per group. */
import type { Candidate, FailoverGroup, FederationView } from '../../authorities/index.js';
import type { AuthoritySpec } from '../../config/model.js';
import { wallTime } from '../clock.js';
import { json, type AdminContext, type Reply } from './reply.js';
import { detailsOf, type DetailsOf, type SourceDetails } from './source-details.js';

export interface CandidateRow extends SourceDetails {
  readonly source: string;
  /** The authority of the names that the gateway requests from the source. */
  readonly authority: string;
  readonly live: boolean;
  readonly liveSince?: string;
  readonly tripped: boolean;
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

export function authorities(context: AdminContext): Reply {
  return json(200, { authorities: groupRows(context).rows });
}

/**
 * One row per group, in the order of the map; without groups, one for the authority.
 *
 * @param maxRows node groups make many groups, and a row visits the candidates of its group
 * @returns also the number of all rows
 */
export function groupRows(
  context: AdminContext,
  maxRows = Infinity,
): { readonly rows: readonly GroupRow[]; readonly count: number } {
  const { view } = context.gateway.client;
  const details = detailsOf(context);
  const { authorities, defaultSource } = view.map;
  const specs = [...authorities.values(), ...(defaultSource ? [defaultSource] : [])];
  const rows = specs.flatMap((spec) => {
    const groups = view.groupsOf(spec.name);
    return groups.length === 0
      ? [() => unusedRow(spec, view, details)]
      : groups.map((group) => () => groupRow(group, details));
  });
  const oldStyle = (view.map.oldStyle?.servedBy ?? []).flatMap((entry) =>
    view.groupsOf(entry.name).map((group) => () => ({
      ...groupRow(group, details),
      shadowed: view.nodeGroups.of(group)?.shadowedCount(group) ?? 0,
    })),
  );
  const all: readonly (() => GroupRow)[] = [...rows, ...oldStyle];
  return { rows: all.slice(0, maxRows).map((row) => row()), count: all.length };
}

export function groupRow(group: FailoverGroup, details: DetailsOf): GroupRow {
  const { kind, sinceMs, cause, active, target, holdMs, forcedUntilMs } = group.failover;
  return {
    authority: group.spec.name,
    group: group.id,
    state: kind,
    since: wallTime(sinceMs),
    why: cause,
    active: nameAt(group, active),
    ...(target === null ? {} : { target: nameAt(group, target) ?? '' }),
    candidates: group.candidates.map((candidate) => candidateRow(candidate, details)),
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

export function candidateRow(
  { source, authority }: Pick<Candidate, 'source' | 'authority'>,
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
    return source ? [candidateRow({ source, authority: name }, details)] : [];
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
