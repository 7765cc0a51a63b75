/** How the authority map becomes groups and their candidates, and what a new map leaves as it was. */
import { isDeepStrictEqual } from 'node:util';
import type { AuthorityMap, AuthoritySpec, SourceSpec } from '../../config/model.js';
import type { Candidate } from './candidate.js';
import { alternativeMapping, IDENTITY_MAPPING, through, type NameMapping } from './name-mapping.js';
import type { NamePairs } from './name-pairs.js';
import type { NameRoute } from './name-route.js';
import type { Source } from './source.js';

/**
 * The authority's own sources in order, then those of the name's own alternatives, then those of the
 * map's alternative under its names (one hop).
 *
 * @param pairs of a route with a chain: the names at its authorities
 */
export function candidatesOf(
  { spec, alternative, chain = [] }: NameRoute,
  pairs: NamePairs | undefined,
  map: AuthorityMap,
  sourceOf: (name: string) => Source | undefined,
): readonly Candidate[] {
  const at = (level: number): NameMapping => pairs?.mapping(level) ?? IDENTITY_MAPPING;
  const of = (authority: string, mapping: NameMapping): readonly Candidate[] => {
    const sources = map.authorities.get(authority)?.sources ?? [];
    return candidates(sources, authority, mapping, sourceOf);
  };
  const chained = chain.slice(1).flatMap(({ authority }, index) => of(authority, at(index + 1)));
  if (!alternative) return [...of(spec.name, at(0)), ...chained];
  const mapped = through(at(0), alternativeMapping(spec.name, alternative));
  return [...of(spec.name, at(0)), ...chained, ...of(alternative.authority, mapped)];
}

function candidates(
  names: readonly string[],
  authority: string,
  mapping: Candidate['mapping'],
  sourceOf: (name: string) => Source | undefined,
): readonly Candidate[] {
  return names.flatMap((name) => {
    const source = sourceOf(name);
    return source ? [{ source, authority, mapping }] : [];
  });
}

export function sameSource(before: SourceSpec | undefined, after: SourceSpec | undefined): boolean {
  return before !== undefined && isDeepStrictEqual(before, after);
}

/** Does the new map say the same of an authority, and of those that its group may go to? */
export function sameAuthority(
  before: AuthoritySpec,
  others: readonly string[],
  oldMap: AuthorityMap,
  newMap: AuthorityMap,
): boolean {
  if (!isDeepStrictEqual(before, newMap.authorities.get(before.name))) return false;
  return others.every((authority) =>
    isDeepStrictEqual(
      oldMap.authorities.get(authority)?.sources,
      newMap.authorities.get(authority)?.sources,
    ),
  );
}
