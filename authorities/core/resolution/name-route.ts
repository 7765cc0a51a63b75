/**
 * Where the gateway gets a name: from the sources of its authority, then from the name's own
 * alternatives (`#alt=` in the name or in a served reference), then from the map's alternative.
 */
import type { AlternativeSpec, AuthorityMap, AuthoritySpec } from '../../../config/model.js';
import { isListType } from '../../../protos/list-collection.js';
import {
  locatorOfName,
  type ResourceLocator,
  type ResourceName,
} from '../../../protos/resource-name.js';
import { leadProblem, type Hop } from './hops.js';

export interface NameRoute {
  /**
   * Names with the same id share a group. Stable and readable: a metric label and an operator's
   * handle.
   */
  readonly groupId: string;
  readonly spec: AuthoritySpec;
  /** The alternative that the map gives the name. */
  readonly alternative: AlternativeSpec | undefined;
  /** The name at each authority of its own alternatives, itself first. Undefined: it has none. */
  readonly chain: readonly ResourceName[] | undefined;
  /** The alternatives of the chain, and the first one that is not allowed. */
  readonly hops: readonly Hop[];
}

/** `cloud.example.com`, or with a path prefix from the map `cloud.example.com/edge/*`. */
function groupIdOf(spec: AuthoritySpec, alternative: AlternativeSpec | undefined): string {
  return alternative ? `${spec.name}/${alternative.fromPrefix}*` : spec.name;
}

/**
 * The spec of an authority, or `default_config_source`: an authority of the map beats it (TP1,
 * "Authority resolution").
 */
export const authorityOf = (map: AuthorityMap, authority: string): AuthoritySpec | undefined =>
  map.authorities.get(authority) ?? map.defaultSource;

export function mayLead(map: AuthorityMap, from: string, to: string): boolean {
  const spec = authorityOf(map, from);
  if (!spec || !authorityOf(map, to)) return false;
  if (from === to || spec.alternatives.some(({ authority }) => authority === to)) return true;
  return spec.mayLeadTo?.includes(to) === true;
}

/** @param noted the alternative from references to the name */
export function routeOf(
  map: AuthorityMap,
  name: ResourceName,
  noted: ResourceLocator | undefined,
): NameRoute | undefined {
  const spec = authorityOf(map, name.authority);
  if (!spec) return undefined;
  const alternative = longestMatch(spec, name);
  const plainId = groupIdOf(spec, alternative);
  const locator = locatorOfName(name) ?? noted;
  if (!locator || locator.alternatives.length === 0)
    return { groupId: plainId, spec, alternative, chain: undefined, hops: [] };
  const { chain, hops } = chainOf(map, locator);
  const others = chain.slice(1).map(({ authority }) => authority);
  const groupId = `${plainId}#alt=${others.join(',')}`;
  return { groupId, spec, alternative, chain, hops };
}

function longestMatch(spec: AuthoritySpec, { id }: ResourceName): AlternativeSpec | undefined {
  const { alternatives } = spec;
  if (alternatives.length === 0) return undefined;
  return alternatives
    .filter(({ fromPrefix }) => id.startsWith(fromPrefix))
    .reduce<AlternativeSpec | undefined>(
      (best, one) => (!best || one.fromPrefix.length > best.fromPrefix.length ? one : best),
      undefined,
    );
}

/**
 * TP1: an alternative may have an alternative, as deep as a locator nests them
 * (`maxAlternativeDepth`). The first one that is not allowed ends the chain.
 */
function chainOf(
  map: AuthorityMap,
  locator: ResourceLocator,
): { readonly chain: readonly ResourceName[]; readonly hops: readonly Hop[] } {
  const { name } = locator;
  const rules = { mayLead: (from: string, to: string) => mayLead(map, from, to) };
  const chain = [name];
  const hops: Hop[] = [];
  let [next] = locator.alternatives;
  while (next) {
    const to = next.name;
    const isOfNoList = next.entries.length > 0 && !isListType(to.resourceType);
    const problem = isOfNoList
      ? `leads to an entry of ${to.resourceType}, which is not a list`
      : leadProblem(rules, name, to);
    hops.push({ kind: 'alternative', from: name.key, to: to.key, problem });
    if (problem !== undefined) break;
    chain.push(to);
    [next] = next.alternatives;
  }
  return { chain, hops };
}
