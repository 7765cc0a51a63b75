/** The rules that every hop from one name to another has to keep, whatever the hop is. */
import { isListType } from '../../../protos/list-collection.js';
import type { ResourceName } from '../../../protos/resource-name.js';

/** One step of the way from an asked name to content, for people. */
export interface Hop {
  readonly kind: 'redirect' | 'alternative' | 'list';
  readonly from: string;
  readonly to: string;
  /** Why it is not taken; undefined if it is. */
  readonly problem: string | undefined;
}

export interface HopRules {
  /** May names of one authority lead to names of another? Says the authority map. */
  mayLead(from: string, to: string): boolean;
}

/** @returns why a hop between these authorities is not taken, or undefined. */
export function authorityProblem(rules: HopRules, from: string, to: string): string | undefined {
  if (rules.mayLead(from, to)) return undefined;
  return `leads to authority "${to}", which may_lead_to of "${from}" does not list`;
}

/**
 * What a name is a name of: an entry of a list is of the type that the list is of. An entry of what is
 * no list is of no type at all.
 */
export function typeOfNamed({ key, resourceType }: ResourceName): string {
  const hash = key.indexOf('#');
  const isEntry = hash >= 0 && /[#,]entry=/.test(key.slice(hash));
  if (!isEntry) return resourceType;
  return isListType(resourceType)
    ? resourceType.slice(0, -'Collection'.length)
    : `entry of ${resourceType}`;
}

/** @returns why a resource may not be a redirect to this one, or undefined. */
export function redirectProblem(
  rules: HopRules,
  from: ResourceName,
  to: ResourceName,
): string | undefined {
  if (to.isGlob) return 'leads to a collection';
  if (typeOfNamed(to) !== typeOfNamed(from)) return `leads to another type, ${to.resourceType}`;
  return authorityProblem(rules, from.authority, to.authority);
}
