/**
 * Where the map lets the gateway get a name: from the sources of its authority and of its
 * alternative.
 */
import type { AlternativeSpec, AuthorityMap } from '../../config/model.js';
import { inlineOf, isGlob, isOldAuthority, nameText, oldAuthority, partsOf } from './names.js';

/** A source for a name under one map; the authority's first source comes first. */
export interface Place {
  readonly source: string;
  readonly name: string;
  readonly isPrimary: boolean;
  /** Entries of old-style names add up; within one entry, sources stand in for one another. */
  readonly entry: number;
  /** The alternative of the map, and the authority that has it. */
  readonly alternative: AlternativeSpec | undefined;
  readonly asked: string;
}

/** Does the map forbid names to lead from here to there? */
export function problemIn(map: AuthorityMap, from: string, to: string): boolean {
  const { authority: here, typeUrl } = partsOf(from);
  const { authority: there, typeUrl: otherType } = partsOf(to);
  const spec = map.authorities.get(here);
  if (!spec || !map.authorities.has(there) || typeUrl !== otherType || isGlob(to)) return true;
  if (here === there || spec.alternatives.some(({ authority }) => authority === there))
    return false;
  return spec.mayLeadTo?.includes(there) !== true;
}

export function placesOf(map: AuthorityMap, name: string): readonly Place[] {
  if (name.includes('#entry=')) return placesOf(map, inlineOf(name));
  const { authority, typeUrl, id } = partsOf(name);
  if (isOldAuthority(authority)) return oldPlacesOf(map, name);
  const spec = map.authorities.get(authority);
  if (!spec) return [];
  const own = spec.sources.map((source, index): Place => {
    const parts = { alternative: undefined, asked: authority };
    return { source, name, isPrimary: index === 0, entry: 0, ...parts };
  });
  const alternative = spec.alternatives
    .filter(({ fromPrefix }) => id.startsWith(fromPrefix))
    .sort((one, other) => other.fromPrefix.length - one.fromPrefix.length)[0];
  if (!alternative) return own;
  const { fromPrefix, toPrefix } = alternative;
  const there = nameText(alternative.authority, typeUrl, toPrefix + id.slice(fromPrefix.length));
  const others = (map.authorities.get(alternative.authority)?.sources ?? []).map(
    (source): Place => ({
      source,
      name: there,
      isPrimary: false,
      entry: 0,
      alternative,
      asked: authority,
    }),
  );
  return [...own, ...others];
}

/** The first entry that has a name serves it; the sources of one entry stand in for one another. */
function oldPlacesOf(map: AuthorityMap, name: string): readonly Place[] {
  const { authority: asked, typeUrl, id } = partsOf(name);
  const entries = map.oldStyle?.servedBy ?? [];
  return entries.flatMap(({ sources, types }, entry) => {
    if (types?.includes(typeUrl) === false) return [];
    return sources.map((source, index): Place => {
      const authority = oldAuthorityAt(map, source, asked);
      // A source that sends every node the same resources uses names of its own node.
      const alternative = authority === asked ? undefined : { authority, ...AS_IT_IS };
      const there = nameText(authority, typeUrl, id);
      return { source, name: there, isPrimary: index === 0, entry, alternative, asked };
    });
  });
}

const AS_IT_IS = { fromPrefix: '', toPrefix: '' };

function oldAuthorityAt(map: AuthorityMap, source: string, asked: string): string {
  const spec = map.sources.get(source);
  return spec?.kind === 'grpc' && spec.node ? oldAuthority(spec.node.id) : asked;
}

/** Does every entry have such a place? */
export function everyEntry(places: readonly Place[], is: (place: Place) => boolean): boolean {
  const entries = new Set(places.map(({ entry }) => entry));
  return [...entries].every((one) => places.some((place) => place.entry === one && is(place)));
}

/** Content of an alternative refers to the names that the client knows. */
export const referenceAt = ({ reference }: { readonly reference: string }, place: Place): string =>
  reference === '' ? reference : mappedBack(reference, place);

export function mappedBack(reference: string, { alternative, asked }: Place): string {
  if (!alternative) return reference;
  const { authority, typeUrl, id } = partsOf(reference);
  const { fromPrefix, toPrefix } = alternative;
  if (authority !== alternative.authority || !id.startsWith(toPrefix)) return reference;
  return nameText(asked, typeUrl, fromPrefix + id.slice(toPrefix.length));
}
