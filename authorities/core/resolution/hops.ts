/** The rules for every hop from one name to another: redirect, alternative or list entry. */
import { elementTypeOf } from '../../../protos/list-collection.js';
import type { ResourceName } from '../../../protos/resource-name.js';

/** One step from a requested name to its content, as shown to operators. */
export interface Hop {
  readonly kind: 'redirect' | 'alternative' | 'list';
  readonly from: string;
  readonly to: string;
  /** Why the hop is not taken; undefined if it is. */
  readonly problem: string | undefined;
}

export interface HopRules {
  /** Does the authority map let names of one authority lead to names of another? */
  mayLead(from: string, to: string): boolean;
}

/** @returns why a hop between these authorities is not allowed, or undefined. */
export function authorityProblem(rules: HopRules, from: string, to: string): string | undefined {
  if (rules.mayLead(from, to)) return undefined;
  return `leads to authority "${to}", which may_lead_to of "${from}" does not list`;
}

/**
 * The type of the resource that a name stands for: an entry of a list has the list's element type.
 * An entry of any other type matches no type.
 */
export function typeOfNamed({ key, resourceType }: ResourceName): string {
  const hash = key.indexOf('#');
  const isEntry = hash >= 0 && /[#,]entry=/.test(key.slice(hash));
  if (!isEntry) return resourceType;
  return elementTypeOf(resourceType) ?? `entry of ${resourceType}`;
}

/** @returns why `from` may not lead to `to`, by a redirect or an alternative; undefined: it may */
export function leadProblem(
  rules: HopRules,
  from: ResourceName,
  to: ResourceName,
): string | undefined {
  if (to.isGlob) return 'leads to a collection';
  if (typeOfNamed(to) !== typeOfNamed(from)) return `leads to another type, ${to.resourceType}`;
  return authorityProblem(rules, from.authority, to.authority);
}
