/**
 * Explains a name: its authority, its group, and the name that the gateway requests from each candidate.
 * Works with or without a running gateway.
 */
import {
  Federation,
  typeOfNamed,
  type FailoverGroup,
  type FederationView,
  type Hop,
  type Projection,
} from '../../authorities/index.js';
import { DEFAULT_AUTHORITY } from '../../config/defaults.js';
import { DEFAULT_RESOLUTION } from '../../config/limits.js';
import type { AuthorityMap } from '../../config/model.js';
import { withoutEntry } from '../../protos/list-collection.js';
import { isXdstp, type ResourceName } from '../../protos/resource-name.js';
import { TYPE_URL_PREFIX } from '../../protos/type-urls.js';
import { readAskedName } from '../core/session/asked-name.js';
import type { RightsExplanation } from './explain-rights.js';
import { candidateRow, groupRow, type CandidateRow } from './authorities.js';
import { NO_DETAILS, type DetailsOf } from './source-details.js';

export interface Explanation {
  /** Canonical spelling. */
  readonly name: string;
  readonly typeUrl: string;
  readonly authority: string;
  /** The map does not have the authority, so `default_config_source` serves the name. */
  readonly isDefault?: boolean;
  readonly group: string;
  readonly state: string;
  readonly since?: string;
  readonly why: string;
  readonly candidates: readonly (CandidateRow & {
    /** The name that the gateway requests from this source. */
    readonly asks: string;
    readonly active: boolean;
  })[];
  /** As clients receive it. `source` of a redirected name is `(another name)`, which `hops` shows. */
  readonly served?: { readonly version: string; readonly source: string };
  /** Redirects, list entries and alternatives of the name, whether followed or not. */
  readonly hops: readonly Hop[];
  /** Present if the question names a client. */
  readonly rights?: RightsExplanation;
}

export type Named =
  | { readonly ok: true; readonly name: ResourceName; readonly typeUrl: string }
  | { readonly ok: false; readonly message: string };

const WRONG_SCHEME = 'it does not begin with xdstp://';
const NO_TYPE = 'an old-style name needs its type (--type TYPE, or ?type=TYPE)';

/** Parses a name that a user wrote. A list means the list itself; with `#entry=` it means that entry. */
export function nameFrom(text: string): Named {
  if (!isXdstp(text)) {
    const isUrl = /^\w+:\/\//.test(text);
    return { ok: false, message: `not a resource name: ${isUrl ? WRONG_SCHEME : NO_TYPE}` };
  }
  const asked = readAskedName('', text);
  if (!asked.ok) {
    return { ok: false, message: `not a resource name: ${asked.status.message}` };
  }
  const { name } = asked;
  return { ok: true, name, typeUrl: TYPE_URL_PREFIX + typeOfNamed(name) };
}

/**
 * @param held what clients of the name hold; undefined: no client subscribes to it
 * @returns undefined if the map does not have the authority.
 */
export function explainName(
  view: FederationView,
  name: ResourceName,
  details: DetailsOf,
  held?: Projection,
): Explanation | undefined {
  // The gateway requests the whole list for an entry.
  const asked = withoutEntry(name);
  const group = view.groupFor(asked);
  if (!group) return undefined;
  const typeUrl = TYPE_URL_PREFIX + typeOfNamed(name);
  const { state, since, why } = groupRow(group, details);
  const { active } = group.failover;
  const served = servedAs(group, typeUrl, name, held);
  return {
    name: name.key,
    typeUrl,
    authority: name.authority,
    ...(group.spec.name === DEFAULT_AUTHORITY ? { isDefault: true } : {}),
    group: group.id,
    state,
    ...(since === undefined ? {} : { since }),
    why,
    candidates: group.candidates.map((candidate, index) => ({
      ...candidateRow(candidate, details, { typeUrl, name: asked }),
      asks: candidate.mapping.toSource(asked).key,
      active: group.activeSource !== undefined && index === active,
    })),
    ...(served ? { served } : {}),
    hops: view.hops(typeUrl, name),
  };
}

/**
 * The version that clients have, and its source. The group of a redirected name serves the redirect, and
 * clients have the content of its target.
 */
export function servedAs(
  group: FailoverGroup,
  typeUrl: string,
  name: ResourceName,
  held: Projection | undefined,
): Explanation['served'] {
  const own = group.served(typeUrl, name);
  const projection = held ?? own?.projection;
  if (!projection) return undefined;
  const isOwn = own?.projection.version === projection.version;
  const source = isOwn ? (group.candidates[own.from]?.source.name ?? KEPT) : ELSEWHERE;
  return { version: projection.version, source };
}

/** Shown as the source of content of another name; `hops` shows that name. */
const ELSEWHERE = '(another name)';

/** Shown as the source of content on disk, and of content that a reload of the map took over from the old group. */
const KEPT = '(kept: no source has confirmed it yet)';

/** Explains a name by the map alone. */
export function explainOffline(map: AuthorityMap, name: ResourceName): Explanation | undefined {
  return explainName(offlineFederation(map), name, NO_DETAILS);
}

/** A federation without transport: it connects to no source. */
export function offlineFederation(map: AuthorityMap): FederationView {
  return new Federation({
    map,
    nodeFor: () => new Uint8Array(),
    maxResourcesPerResponse: 1,
    bounds: DEFAULT_RESOLUTION,
    random: () => 0,
  });
}
