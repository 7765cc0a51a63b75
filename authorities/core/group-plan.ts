/** How the authority map becomes groups and their candidates, and what a new map leaves as it was. */
import { isDeepStrictEqual } from 'node:util';
import type {
  AlternativeSpec,
  AuthorityMap,
  AuthoritySpec,
  SourceSpec,
} from '../../config/model.js';
import type { Candidate } from './candidate.js';
import { alternativeMapping, IDENTITY_MAPPING } from './name-mapping.js';
import type { Source } from './source.js';

/** Stable and readable, as metrics label and operators' handle: `cloud.example.com/edge/*`. */
export function groupIdOf(spec: AuthoritySpec, alternative: AlternativeSpec | undefined): string {
  return alternative ? `${spec.name}/${alternative.fromPrefix}*` : spec.name;
}

/** The authority's own sources in order, then those of the alternative under its names (one hop). */
export function candidatesOf(
  spec: AuthoritySpec,
  alternative: AlternativeSpec | undefined,
  map: AuthorityMap,
  sourceOf: (name: string) => Source | undefined,
): readonly Candidate[] {
  const own = candidates(spec.sources, spec.name, IDENTITY_MAPPING, sourceOf);
  const other = alternative && map.authorities.get(alternative.authority);
  if (!alternative || !other) return own;
  const mapping = alternativeMapping(spec.name, alternative);
  return [...own, ...candidates(other.sources, other.name, mapping, sourceOf)];
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

/** Does the new map say the same of an authority, and of those that its alternatives lead to? */
export function sameAuthority(
  before: AuthoritySpec,
  after: AuthoritySpec | undefined,
  oldMap: AuthorityMap,
  newMap: AuthorityMap,
): boolean {
  if (!isDeepStrictEqual(before, after)) return false;
  return before.alternatives.every(({ authority }) =>
    isDeepStrictEqual(
      oldMap.authorities.get(authority)?.sources,
      newMap.authorities.get(authority)?.sources,
    ),
  );
}
