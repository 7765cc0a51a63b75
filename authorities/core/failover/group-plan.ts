/**
 * Derives groups and their candidates from the authority map, and finds what a new map leaves
 * unchanged.
 */
import { isDeepStrictEqual } from 'node:util';
import { DEFAULT_AUTHORITY } from '../../../config/defaults.js';
import type { AuthorityMap, AuthoritySpec } from '../../../config/model.js';
import type { Candidate } from './candidate.js';
import {
  alternativeMapping,
  IDENTITY_MAPPING,
  through,
  type NameMapping,
} from '../resolution/name-mapping.js';
import type { NamePairs } from '../resolution/name-pairs.js';
import { authorityOf, type NameRoute } from '../resolution/name-route.js';
import type { Source } from '../sources/source.js';

/**
 * Candidates in order: the authority's own sources, the sources of the name's own alternatives,
 * then those of the alternative in the map, under its names (one hop).
 *
 * @param pairs for a route with a chain: the names at each of its authorities
 */
export function candidatesOf(
  { spec, alternative, chain = [] }: NameRoute,
  pairs: NamePairs | undefined,
  map: AuthorityMap,
  sourceOf: (name: string) => Source | undefined,
): readonly Candidate[] {
  const at = (level: number): NameMapping => pairs?.mapping(level) ?? IDENTITY_MAPPING;
  const of = (authority: string, mapping: NameMapping): readonly Candidate[] => {
    const sources = authorityOf(map, authority)?.sources ?? [];
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
  // Equal sources are the same source, which cannot be its own fallback.
  const sources = new Set(names.flatMap((name) => sourceOf(name) ?? []));
  return [...sources].map((source) => ({ source, authority, mapping }));
}

/**
 * Does the new map leave an authority unchanged, and all authorities that its group may fail over
 * to?
 *
 * @param others authorities to which the group may fail over
 * @param moved names that now stand for another source
 */
export function isUnchanged(
  before: AuthoritySpec,
  others: readonly string[],
  oldMap: AuthorityMap,
  newMap: AuthorityMap,
  moved: ReadonlySet<string>,
): boolean {
  if (!isDeepStrictEqual(before, authorityOf(newMap, before.name))) return false;
  if (before.name === DEFAULT_AUTHORITY && !hasSameNames(oldMap, newMap)) return false;
  return [before.name, ...others].every((authority) => {
    const sources = authorityOf(newMap, authority)?.sources;
    const wasSame = isDeepStrictEqual(authorityOf(oldMap, authority)?.sources, sources);
    return wasSame && !sources?.some((name) => moved.has(name));
  });
}

/** The default source loses the names of a new authority, and gets those of a removed one. */
const hasSameNames = (before: AuthorityMap, after: AuthorityMap): boolean =>
  before.authorities.size === after.authorities.size &&
  [...before.authorities.keys()].every((name) => after.authorities.has(name));
