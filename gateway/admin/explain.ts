/** Where a name leads: authority, group, and how each candidate is asked for it. With or without a running gateway. */
import { Federation, typeOfNamed, type BreakerState, type Hop } from '../../authorities/index.js';
import { DEFAULT_RESOLUTION } from '../../config/limits.js';
import type { AuthorityMap } from '../../config/model.js';
import { withoutEntry } from '../../protos/list-collection.js';
import type { ResourceName } from '../../protos/resource-name.js';
import { TYPE_URL_PREFIX } from '../../protos/type-urls.js';
import { readAskedName } from '../core/session/asked-name.js';
import { candidateRow, groupRow, type CandidateRow } from './authorities.js';

export interface Explanation {
  /** Canonical spelling. */
  readonly name: string;
  readonly typeUrl: string;
  readonly authority: string;
  readonly group: string;
  readonly state: string;
  readonly since?: string;
  readonly why: string;
  readonly candidates: readonly (CandidateRow & {
    /** What this source is asked for. */
    readonly asks: string;
    readonly active: boolean;
  })[];
  readonly served?: { readonly version: string; readonly source: string };
  /** Redirects, entries of the list, and alternatives of the name itself, taken or not. */
  readonly hops: readonly Hop[];
}

export type Named =
  | { readonly ok: true; readonly name: ResourceName; readonly typeUrl: string }
  | { readonly ok: false; readonly message: string };

/** What a person wrote for a name: a list is the list itself, an entry of it (`#entry=`) is that. */
export function nameFrom(text: string): Named {
  const asked = readAskedName('', text);
  if (!asked.ok) {
    return { ok: false, message: `not a resource name: ${asked.status.message}` };
  }
  const { name } = asked;
  return { ok: true, name, typeUrl: TYPE_URL_PREFIX + typeOfNamed(name) };
}

/** @returns undefined when the map has no such authority. */
export function explainName(
  federation: Federation,
  name: ResourceName,
  breaker: (source: string) => BreakerState | undefined,
): Explanation | undefined {
  // Of an entry the list is asked for.
  const asked = withoutEntry(name);
  const group = federation.groupFor(asked);
  if (!group) return undefined;
  const typeUrl = TYPE_URL_PREFIX + typeOfNamed(name);
  const { state, since, why } = groupRow(group, breaker);
  const { active, kind } = group.failover;
  const served = group.served(typeUrl, name);
  return {
    name: name.key,
    typeUrl,
    authority: group.spec.name,
    group: group.id,
    state,
    ...(since === undefined ? {} : { since }),
    why,
    candidates: group.candidates.map((candidate, index) => ({
      ...candidateRow(candidate, breaker),
      asks: candidate.mapping.toSource(asked).key,
      active: kind !== 'idle' && index === active,
    })),
    ...(served
      ? {
          served: {
            version: served.projection.version,
            source: group.candidates[served.from]?.source.name ?? KEPT_FROM_BEFORE,
          },
        }
      : {}),
    hops: federation.hops(typeUrl, name),
  };
}

/** Content that a changed map took over from the group before. */
export const KEPT_FROM_BEFORE = '(kept from before the map was changed)';

/** What the map alone says. */
export function explainOffline(map: AuthorityMap, name: ResourceName): Explanation | undefined {
  return explainName(offlineFederation(map), name, () => undefined);
}

/** Asks nobody. */
export function offlineFederation(map: AuthorityMap): Federation {
  return new Federation({
    map,
    nodeFor: () => new Uint8Array(),
    maxResourcesPerResponse: 1,
    bounds: DEFAULT_RESOLUTION,
    random: () => 0,
  });
}
