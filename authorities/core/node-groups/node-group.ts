/**
 * Old-style names for one node group: one failover group for each entry of the map, and the union
 * of their resources. Within an entry the sources are fallbacks of one another, and all names fail
 * over together; across entries the resources add up. If several entries have a name, the first in
 * order is served. When that entry deletes the name, the next one is served. Bulk machine without
 * IO.
 *
 * The groups hold the content. This class keeps only the answers without content.
 */
import type { AuthoritySpec, OldStyleEntrySpec } from '../../../config/model.js';
import { STATUS_CODE, type RpcStatus } from '../../../protos/discovery.js';
import { COMMON_SCOPE } from '../../../protos/node-scope.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import { TypedMap } from '../../../protos/typed-map.js';
import { hasSameSource, type Candidate } from '../failover/candidate.js';
import type { Beside } from '../failover/comparison.js';
import type { FailoverGroup, GroupEvent } from '../failover/failover-group.js';
import type { Asked } from '../failover/candidate-content.js';
import type { Groups } from '../failover/groups.js';
import type { NameEvent, ResourceEvent } from '../failover/resource-events.js';
import { scopeMapping } from '../resolution/name-mapping.js';
import type { Projection } from '../projection.js';
import type { Served } from '../failover/served-names.js';
import type { Source } from '../sources/source.js';
import { servesType } from '../sources/source-ids.js';

/** The last answer of a group for a name that it does not serve, or for a wildcard. */
interface Answer {
  readonly kind: 'absent' | 'complete' | 'unavailable';
  readonly isProof?: boolean;
  readonly status?: RpcStatus | undefined;
}

const UNREACHABLE: RpcStatus = {
  code: STATUS_CODE.unavailable,
  message: 'a source of old-style names cannot be reached',
};

interface Entry {
  readonly spec: OldStyleEntrySpec;
  readonly group: FailoverGroup;
}

/** Is this the spec of an entry for old-style names, not of an authority? */
export const isOldStyleEntry = (spec: AuthoritySpec): spec is OldStyleEntrySpec => 'types' in spec;

export class NodeGroup {
  readonly scope: string;
  readonly #entries: readonly Entry[];
  readonly #answers = new TypedMap<Map<FailoverGroup, Answer>>();

  /**
   * @param servedBy the entries that apply to the clients of the group
   * @param sourceAt a source, and the scope of its stream for this node group
   */
  constructor(
    scope: string,
    servedBy: readonly OldStyleEntrySpec[],
    sourceAt: (name: string) => { readonly source: Source; readonly scope: string } | undefined,
    groups: Groups,
  ) {
    this.scope = scope;
    this.#entries = servedBy.map((spec) => {
      const candidates = new Map<Source, Candidate>();
      for (const name of spec.sources) {
        const at = sourceAt(name);
        if (!at || candidates.has(at.source)) continue;
        const { source, scope: authority } = at;
        candidates.set(source, { source, authority, mapping: scopeMapping(scope, authority) });
      }
      return {
        spec,
        group: groups.make(oldStyleGroupId(spec.name, scope), spec, [...candidates.values()]),
      };
    });
  }

  get groups(): readonly FailoverGroup[] {
    return this.#entries.map(({ group }) => group);
  }

  /** Ids of the sources whose streams serve only this node group. */
  get ownSources(): ReadonlySet<string> {
    const sources = this.groups.flatMap(({ candidates }) => candidates.map(({ source }) => source));
    return new Set(sources.flatMap(({ id, name }) => (id === name ? [] : [id])));
  }

  /** Number of resources that a group has but an earlier group serves. */
  shadowedCount(group: FailoverGroup): number {
    let count = 0;
    for (const { typeUrl, name } of group.servedResources()) {
      if (this.served(typeUrl, name)?.group !== group) count++;
    }
    return count;
  }

  servedResources(): readonly Projection[] {
    return this.groups.flatMap((group) => [...group.servedResources()]);
  }

  /** Nothing is subscribed, and no group lingers for clients that may come back. */
  get isIdle(): boolean {
    return this.groups.every(
      ({ demandCount, failover }) => demandCount === 0 && failover.kind === 'idle',
    );
  }

  /** Do the sources in use answer now? */
  get isConnected(): boolean {
    return this.groups.every(({ demandCount, candidates, failover }) => {
      return demandCount === 0 || candidates[failover.active]?.source.facts().live === true;
    });
  }

  /** The subscribed names of its groups; a name of several groups comes several times. */
  *demands(): IterableIterator<Asked> {
    for (const group of this.groups) yield* group.demands();
  }

  /** The groups that serve a type, in the order of their entries. */
  groupsFor(typeUrl: string): readonly FailoverGroup[] {
    return this.#entries.flatMap(({ spec, group }) => (servesType(spec, typeUrl) ? [group] : []));
  }

  want(typeUrl: string, name: ResourceName, nowMs: number): void {
    if (!this.#answers.has(typeUrl, name.key)) this.#answers.set(typeUrl, name.key, new Map());
    for (const group of this.groupsFor(typeUrl)) group.want(typeUrl, name, nowMs);
  }

  unwant(typeUrl: string, name: ResourceName, nowMs: number, leftMs: number): void {
    this.#answers.delete(typeUrl, name.key);
    for (const group of this.groupsFor(typeUrl)) group.unwant(typeUrl, name, nowMs, leftMs);
  }

  /** The events that tell a new watcher the whole state of a requested name or wildcard. */
  replay(typeUrl: string, name: ResourceName): readonly NameEvent[] {
    const events = this.groupsFor(typeUrl).flatMap((group) =>
      group.replay(typeUrl, name).flatMap((event) => this.merge(group, event)),
    );
    const answer = events.findLast(
      (event) =>
        event.kind === 'absent' || event.kind === 'complete' || event.kind === 'unavailable',
    );
    return [...events.filter((event) => event.kind === 'changed'), ...(answer ? [answer] : [])];
  }

  /** Requests a name again from the sources. */
  revalidate(typeUrl: string, name: ResourceName, nowMs: number): void {
    for (const group of this.groupsFor(typeUrl)) group.revalidate(typeUrl, name, nowMs);
  }

  /** The resource that is served under a name, and its group. */
  served(
    typeUrl: string,
    name: ResourceName,
  ): (Served & { readonly group: FailoverGroup }) | undefined {
    return this.#servedByEach(typeUrl, name)[0];
  }

  /** What another group has under a name of this one. */
  beside(group: FailoverGroup, typeUrl: string, name: ResourceName): Beside | undefined {
    const other = this.#servedByEach(typeUrl, name).find((one) => one.group !== group);
    if (!other) return undefined;
    const isFirst = this.groups.indexOf(other.group) < this.groups.indexOf(group);
    return { projection: other.projection, isFirst };
  }

  /**
   * Takes over the resources that a node group of the same scope served before a reload. The resources of an old entry go
   * to the most similar new entry that serves their type. Without one, they go to an entry that did not serve the type before,
   * so that no name is absent until its new source has answered.
   *
   * @returns the resources that no entry serves any more, or that another one serves in their place
   */
  adopt(before: NodeGroup, nowMs: number): readonly Projection[] {
    for (const { group } of this.#entries) {
      // The content of the first one comes before that of others.
      const inOrder = mostAlike(group, before.groups);
      for (const old of inOrder) {
        // By type, since a wildcard may have 100,000 members.
        const isHeirByType = new Map<string, boolean>();
        const isOurs = (typeUrl: string, name: ResourceName): boolean => {
          const isHeir = isHeirByType.get(typeUrl) ?? this.#heirOf(old, typeUrl, before) === group;
          isHeirByType.set(typeUrl, isHeir);
          return isHeir && !group.served(typeUrl, name);
        };
        group.adopt(old, isOurs);
      }
      // Two entries may have a source in common, and an order for one of them says nothing about the other.
      const [old] = inOrder;
      const takesOverState =
        old && likeness(old, group) > 0 && mostAlike(old, this.groups)[0] === group;
      if (takesOverState) group.inherit(old, nowMs);
    }
    return before.servedResources().filter(({ typeUrl, name }) => {
      const was = before.served(typeUrl, name)?.projection.version;
      return was !== this.served(typeUrl, name)?.projection.version;
    });
  }

  #heirOf(old: FailoverGroup, typeUrl: string, before: NodeGroup): FailoverGroup | undefined {
    let heir: FailoverGroup | undefined;
    for (const group of this.groupsFor(typeUrl)) {
      if (likeness(old, group) > (heir ? likeness(old, heir) : 0)) heir = group;
    }
    const isNew = (group: FailoverGroup): boolean =>
      before.groupsFor(typeUrl).every((other) => likeness(other, group) === 0);
    return heir ?? this.groupsFor(typeUrl).find(isNew);
  }

  /** @returns the events for watchers that follow from an event of one of the groups. */
  merge(group: FailoverGroup, event: GroupEvent): readonly GroupEvent[] {
    switch (event.kind) {
      case 'changed':
        return this.#mergeChanged(group, event.projection);
      case 'confirmed': {
        const { typeUrl, name } = event.projection;
        return this.#servedByEach(typeUrl, name)[0]?.group === group ? [event] : [];
      }
      case 'removed':
        return this.#mergeRemoved(group, event);
      case 'absent':
      case 'complete':
      case 'unavailable':
        return this.#mergeAnswer(group, event);
      default:
        return [event];
    }
  }

  #mergeChanged(group: FailoverGroup, projection: Projection): readonly GroupEvent[] {
    const { typeUrl, name } = projection;
    this.#answers.get(typeUrl, name.key)?.delete(group);
    const [first, ...others] = this.#servedByEach(typeUrl, name);
    // The resource is gone since the event, or an earlier group has it.
    if (first?.group !== group) {
      return first ? [{ kind: 'shadowed', group, typeUrl, name }] : [];
    }
    return [
      { kind: 'changed', projection },
      ...others.map((other) => ({ kind: 'shadowed', group: other.group, typeUrl, name }) as const),
    ];
  }

  #mergeRemoved(
    group: FailoverGroup,
    event: Extract<ResourceEvent, { kind: 'removed' }>,
  ): readonly GroupEvent[] {
    const { typeUrl, name } = event;
    this.#answers.get(typeUrl, name.key)?.set(group, { kind: 'absent', status: event.status });
    const first = this.served(typeUrl, name);
    if (!first) return [event];
    const isBehind = this.groups.indexOf(first.group) > this.groups.indexOf(group);
    return isBehind ? [{ kind: 'changed', projection: first.projection }] : [];
  }

  /**
   * A name is absent only when every group has answered "absent". A wildcard is complete when every
   * group has answered it or is unavailable. With an unavailable group it proves no absence, since
   * that group may have more members.
   */
  #mergeAnswer(
    group: FailoverGroup,
    event: Extract<ResourceEvent, { kind: Answer['kind'] }>,
  ): readonly GroupEvent[] {
    const { typeUrl, name } = event;
    const answers = this.#answers.get(typeUrl, name.key)?.set(group, event);
    if (!answers || this.served(typeUrl, name)) return [];
    const all = this.groupsFor(typeUrl).map((one) => answers.get(one));
    if (all.includes(undefined)) return [];
    const silent = all.some((answer) => answer?.kind === 'unavailable');
    const spoken = all.findLast((answer) => answer !== undefined && answer.kind !== 'unavailable');
    if (!spoken || (silent && !name.isGlob)) {
      const said = all.find((answer) => answer?.kind === 'unavailable' && answer.status);
      return [{ kind: 'unavailable', typeUrl, name, status: said?.status }];
    }
    if (!name.isGlob) return [{ kind: 'absent', typeUrl, name, status: spoken.status }];
    const isProof = all.every((answer) => answer?.isProof === true);
    const status = silent ? UNREACHABLE : spoken.status;
    return [{ kind: 'complete', typeUrl, name, isProof, status }];
  }

  #servedByEach(
    typeUrl: string,
    name: ResourceName,
  ): readonly (Served & { readonly group: FailoverGroup })[] {
    return this.groupsFor(typeUrl).flatMap((group) => {
      const served = group.served(typeUrl, name);
      return served ? [{ ...served, group }] : [];
    });
  }
}

/** How similar the sources of two groups are; 0: they have none in common. */
function likeness(
  { candidates: ones }: FailoverGroup,
  { candidates: others }: FailoverGroup,
): number {
  const isSameAt = (one: Candidate, at: number): boolean => hasSameSource(one, others[at]);
  if (ones.length === others.length && ones.every(isSameAt)) return 3;
  if (ones[0] && hasSameSource(ones[0], others[0])) return 2;
  return ones.some((one) => others.some((other) => hasSameSource(one, other))) ? 1 : 0;
}

/** @returns the groups, the one that is most like `group` first */
const mostAlike = (
  group: FailoverGroup,
  groups: readonly FailoverGroup[],
): readonly FailoverGroup[] =>
  [...groups].sort((one, other) => likeness(other, group) - likeness(one, group));

/** Stable and readable, like the group ids of authorities. */
function oldStyleGroupId(entry: string, scope: string): string {
  return scope === COMMON_SCOPE ? entry : `${entry} ${scope}`;
}
