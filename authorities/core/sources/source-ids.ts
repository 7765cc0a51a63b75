/**
 * Which names and entries of the map stand for one source: equal management servers are one, and a
 * management server has a stream, with an id of its own, for each node group.
 */
import type {
  AuthorityMap,
  OldStyleEntrySpec,
  OldStyleSpec,
  SourceSpec,
} from '../../../config/model.js';
import { isObject } from '../../../protos/json-object.js';
import { COMMON_SCOPE } from '../../../protos/node-scope.js';
import { tellsClientsApart } from './client-identity.js';

/**
 * Maps each source to the first equal one: equal management servers share one stream, whatever
 * their names (invariant 8).
 */
export function leadsOf({ sources }: AuthorityMap): ReadonlyMap<string, string> {
  const firsts = new Map<string, string>();
  const leads = new Map<string, string>();
  for (const [name, spec] of sources) {
    const key = spec.kind === 'grpc' ? configOf(spec) : name;
    const lead = firsts.get(key) ?? name;
    firsts.set(key, lead);
    leads.set(name, lead);
  }
  return leads;
}

/** The configuration without its name; equal strings for equal sources. */
export const configOf = (spec: SourceSpec): string =>
  JSON.stringify({ ...spec, name: '' }, (_key, value: unknown) =>
    isObject(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value,
  );

/**
 * Types whose requests are reports: Istio's agent sends one whenever the health of its application changes. The gateway's own
 * request of such a type would be a report too, and a false one.
 */
const REPORTS: ReadonlySet<string> = new Set(['type.googleapis.com/istio.v1.HealthInformation']);

/** Does the entry serve old-style names of this type? */
export const servesType = ({ types }: OldStyleEntrySpec, typeUrl: string): boolean =>
  !REPORTS.has(typeUrl) && (types?.includes(typeUrl) ?? true);

/**
 * May a source publish old-style names of this type?
 *
 * @param isOne whether a source name of the map stands for this source
 */
export function mayServeOldStyle(
  spec: OldStyleSpec | undefined,
  isOne: (name: string) => boolean,
  typeUrl: string,
): boolean {
  return (spec?.servedBy ?? []).some(
    (entry) => entry.sources.some(isOne) && servesType(entry, typeUrl),
  );
}

/**
 * The scope of the stream on which this source serves a node group. A directory, and a source with
 * a `node` of its own that gets nothing else of clients, send every node group the same resources:
 * they have the common scope.
 */
export function scopeAtSource(spec: SourceSpec, scope: string): string {
  if (spec.kind === 'path') return COMMON_SCOPE;
  return spec.node !== undefined && !tellsClientsApart(spec) ? COMMON_SCOPE : scope;
}

/**
 * The id of a source on the stream of one node group; for the common scope, the source's name.
 */
export function sourceIdOf(name: string, scope: string): string {
  return scope === COMMON_SCOPE ? name : `${name}\n${scope}`;
}

/** @returns the source's name in the map. */
export function sourceNameOf(id: string): string {
  const end = id.indexOf('\n');
  return end < 0 ? id : id.slice(0, end);
}

/** @returns the node group that the source's stream serves, or the common scope. */
export function scopeOfSource(id: string): string {
  return id.slice(sourceNameOf(id).length + 1);
}
