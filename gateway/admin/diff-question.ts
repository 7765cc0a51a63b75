/** Which contents `/authorities/<authority>/diff` compares. */
import { didYouMean } from '../../config/nearest.js';
import type { FailoverGroup, FederationView } from '../../authorities/index.js';
import { failure, type Reply } from './reply.js';

/** Old-style names have a group for each node group, and each group is a comparison. A count. */
const MAX_GROUPS = 20;

/** In place of a source: what clients are served now. */
export const SERVED = '(served)';

/** A group, and the candidates to compare by their index; `from` undefined: what is served. */
export interface ComparedPair {
  readonly group: FailoverGroup;
  readonly from: number | undefined;
  readonly to: number;
}

/** What `from` or `to` names. */
interface Side {
  /** Absent: every group with the source. */
  readonly group?: string;
  readonly source: string;
}

/**
 * @param query `to` and `from`, each `SOURCE` or `GROUP/SOURCE`. Without `to`: the other source of groups that have
 * two; without `from`: what is served
 * @returns the pairs, or the refusal of a question that does not fit the map
 */
export function pairsFrom(
  view: FederationView,
  query: URLSearchParams,
  authority: string,
): readonly ComparedPair[] | Reply {
  const groups = view.groupsOf(authority).filter(({ demandCount }) => demandCount > 0);
  if (groups.length === 0) {
    const error = `no client subscribes to names of "${authority}", so there is nothing to compare`;
    return failure(409, error);
  }
  const from = sideFrom(query.get('from'), groups, view);
  const to = sideFrom(query.get('to'), groups, view);
  if (from && 'unknown' in from) return unknownSide(from.unknown, authority, groups);
  if (to && 'unknown' in to) return unknownSide(to.unknown, authority, groups);
  const pairs = groups.flatMap((group) => pairOf(group, from, to) ?? []);
  if (pairs.length === 0) {
    const error = 'no group has two sources that fit from and to';
    return failure(400, error, { hint: 'write to=SOURCE', sources: sourcesOf(groups) });
  }
  if (pairs.length <= MAX_GROUPS) return pairs;
  const error = `"${authority}" has ${pairs.length} groups, and a diff compares at most ${MAX_GROUPS}`;
  const ids = pairs.slice(0, MAX_GROUPS).map(({ group }) => group.id);
  return failure(400, error, { hint: 'choose one: to=GROUP/SOURCE', groups: ids });
}

function sideFrom(
  text: string | null,
  groups: readonly FailoverGroup[],
  view: FederationView,
): Side | { readonly unknown: string } | undefined {
  if (text === null) return undefined;
  // Sources with equal settings share one source object; the operator may use any of their names.
  const named = (source: string): string => view.source(source)?.name ?? source;
  if (sourcesOf(groups).includes(named(text))) return { source: named(text) };
  const slash = text.lastIndexOf('/');
  const group = groups.find(({ id }) => id === text.slice(0, Math.max(0, slash)));
  const source = named(text.slice(slash + 1));
  if (!group || !sourcesOf([group]).includes(source)) return { unknown: text };
  return { group: group.id, source };
}

function unknownSide(text: string, authority: string, groups: readonly FailoverGroup[]): Reply {
  const sources = sourcesOf(groups);
  const example = `${groups[0]?.id ?? ''}/${sources[0] ?? ''}`;
  return failure(400, `"${text}" is not a source of "${authority}" or its alternatives`, {
    hint: text.includes('/')
      ? `write SOURCE or GROUP/SOURCE, such as ${example}`
      : didYouMean(text, sources),
    sources,
    groups: groups.slice(0, MAX_GROUPS).map(({ id }) => id),
  });
}

/** @returns undefined: the group does not have both sides, or they are the same source */
function pairOf(
  group: FailoverGroup,
  from: Side | undefined,
  to: Side | undefined,
): ComparedPair | undefined {
  const { id, candidates, failover } = group;
  if ([from, to].some((side) => side?.group !== undefined && side.group !== id)) return undefined;
  const indexOf = ({ source }: Side): number =>
    candidates.findIndex((candidate) => candidate.source.name === source);
  const fromIndex = from && indexOf(from);
  const other = candidates.length === 2 ? 1 - (fromIndex ?? failover.active) : -1;
  const toIndex = to ? indexOf(to) : other;
  if (fromIndex === -1 || toIndex === -1 || fromIndex === toIndex) return undefined;
  return { group, from: fromIndex, to: toIndex };
}

const sourcesOf = (groups: readonly FailoverGroup[]): readonly string[] => [
  ...new Set(groups.flatMap(({ candidates }) => candidates.map(({ source }) => source.name))),
];
