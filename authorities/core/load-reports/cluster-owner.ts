/**
 * The source that a cluster's load belongs to, and the names of the cluster there: the candidate that
 * published the content that clients hold, wherever redirects and failover lead.
 */
import {
  isXdstp,
  nameOfLocator,
  parseResourceName,
  wireText,
  type ResourceName,
} from '../../../protos/resource-name.js';
import { TYPE_URL } from '../../../protos/type-urls.js';
import type { Candidate } from '../failover/candidate.js';
import type { FailoverGroup } from '../failover/failover-group.js';
import type { Federation } from '../federation.js';
import type { Source } from '../sources/source.js';

/** The part of the federation that tells which group serves a name. */
export type ServingView = Pick<
  Federation,
  'groups' | 'groupServing' | 'nodeGroups' | 'redirectedTo'
>;

export interface ClusterOwner {
  readonly source: Source;
  readonly clusterName: string;
  readonly serviceName: string;
}

/** More hops than any map allows. A cycle of redirects has no content, but the walk along it must end. */
const MAX_HOPS = 64;

/**
 * @param cluster the name that clients hold
 * @param serviceName as the client reports it; may be empty
 * @returns undefined: no source serves this cluster now
 */
export function clusterOwner(
  view: ServingView,
  cluster: ResourceName,
  serviceName: string,
): ClusterOwner | undefined {
  let name = cluster;
  for (let hops = 0; hops <= MAX_HOPS; hops++) {
    const group = view.groupServing(TYPE_URL.cluster, name);
    const served = group?.served(TYPE_URL.cluster, name);
    if (!group || !served) return undefined;
    const { redirect } = served.projection;
    if (redirect) {
      name = nameOfLocator(redirect);
      continue;
    }
    // Content from before a reload of the map has no candidate: the one in use stands for it.
    const candidate = group.candidates[served.from] ?? group.candidates[group.failover.active];
    /* c8 ignore next -- a group without candidates serves no content, also after a reload */
    if (!candidate) return undefined;
    return {
      source: candidate.source,
      clusterName: wireText(candidate.mapping.toSource(name).key),
      serviceName: serviceNameAt(view, group, candidate, serviceName),
    };
  }
  return undefined;
}

/**
 * The gateway gave references inside an alternative's content the primary's names; the alternative knows
 * only its own.
 */
function serviceNameAt(
  view: ServingView,
  group: FailoverGroup,
  { mapping }: Candidate,
  text: string,
): string {
  if (mapping.identity || !isXdstp(text)) return text;
  const parsed = parseResourceName(text);
  if (!parsed.ok) return text;
  const isOfGroup = view.groupServing(TYPE_URL.clusterLoadAssignment, parsed.value) === group;
  return isOfGroup ? mapping.toSource(parsed.value).key : text;
}

/**
 * The names under which clients hold the clusters that a source names, whether the source is in use now or
 * not: the answer does not change when a group moves.
 *
 * @param names as the source names them
 * @returns sorted names
 */
export function clientNamesOf(
  view: ServingView,
  source: { readonly id: string },
  names: Iterable<string>,
): readonly string[] {
  const roles = view.groups.flatMap(({ candidates }) =>
    candidates.filter((candidate) => candidate.source.id === source.id),
  );
  const found = new Set<string>();
  for (const text of names) {
    const parsed = isXdstp(text) ? parseResourceName(text) : undefined;
    // An old-style name is the same text in every node group.
    if (!parsed?.ok) {
      found.add(text);
      continue;
    }
    for (const { authority, mapping } of roles) {
      if (authority !== parsed.value.authority) continue;
      for (const asked of mapping.toAsked(parsed.value)) addWithRedirects(view, asked, found);
    }
  }
  return [...found].sort();
}

function addWithRedirects(view: ServingView, name: ResourceName, found: Set<string>): void {
  if (found.has(wireText(name.key))) return;
  found.add(wireText(name.key));
  for (const from of view.redirectedTo(TYPE_URL.cluster, name)) addWithRedirects(view, from, found);
}
