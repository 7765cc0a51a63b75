/**
 * The node groups with subscribed old-style names. A node group is made with its first subscription
 * and dropped once it is idle.
 */
import { isDeepStrictEqual } from 'node:util';
import type { AuthorityMap, OldStyleEntrySpec, OldStyleSpec } from '../../../config/model.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import type { FailoverGroup } from '../failover/failover-group.js';
import type { Groups } from '../failover/groups.js';
import { appliesTo } from '../sources/node-conditions.js';
import { servesType } from '../sources/source-ids.js';
import { COMMON_SCOPE } from '../../../protos/node-scope.js';
import { Identities } from './identities.js';
import { NodeGroup } from './node-group.js';
import type { Projection } from '../projection.js';
import type { Sources } from '../sources/sources.js';

export class NodeGroups {
  readonly identities = new Identities();
  readonly #sources: Sources;
  readonly #groups: Groups;
  readonly #byScope = new Map<string, NodeGroup>();
  /** Ends the hold of each node group on its identity. */
  readonly #holds = new Map<NodeGroup, () => void>();
  readonly #byGroup = new Map<FailoverGroup, NodeGroup>();
  /** Node groups with an input since the last `dropIdle`. */
  readonly #touched = new Set<NodeGroup>();

  constructor(sources: Sources, groups: Groups) {
    this.#sources = sources;
    this.#groups = groups;
  }

  get all(): IterableIterator<NodeGroup> {
    return this.#byScope.values();
  }

  at(scope: string): NodeGroup | undefined {
    return this.#byScope.get(scope);
  }

  /** The node group that a failover group belongs to. */
  of(group: FailoverGroup): NodeGroup | undefined {
    return this.#byGroup.get(group);
  }

  /** The resource that the node group of a name serves under it, if there is such a node group. */
  served(typeUrl: string, name: ResourceName): ReturnType<NodeGroup['served']> {
    return this.#byScope.get(name.authority)?.served(typeUrl, name);
  }

  /** @returns undefined when the map has no source of this type for the clients of the scope. */
  route(typeUrl: string, scope: string, { oldStyle }: AuthorityMap): NodeGroup | undefined {
    if (!oldStyle) return undefined;
    const entries = this.#entriesOf(scope, oldStyle);
    if (!entries.some((entry) => servesType(entry, typeUrl))) return undefined;
    return this.#byScope.get(scope) ?? this.#make(scope, oldStyle);
  }

  /** The first entry of the map that serves the type to the clients of a scope. */
  entryFor(
    typeUrl: string,
    scope: string,
    { oldStyle }: AuthorityMap,
  ): OldStyleEntrySpec | undefined {
    const entries = oldStyle ? this.#entriesOf(scope, oldStyle) : [];
    return entries.find((entry) => servesType(entry, typeUrl));
  }

  /** A group had an input, so its node group may be idle now. */
  handleTouched(group: FailoverGroup): void {
    const nodeGroup = this.#byGroup.get(group);
    if (nodeGroup) this.#touched.add(nodeGroup);
  }

  /** @returns whether one was dropped, so that its sources have effects. */
  dropIdle(nowMs: number): boolean {
    let dropped = false;
    for (const nodeGroup of this.#touched) {
      this.#touched.delete(nodeGroup);
      if (!nodeGroup.isIdle || this.#byScope.get(nodeGroup.scope) !== nodeGroup) continue;
      dropped = true;
      this.#forget(nodeGroup);
      for (const group of nodeGroup.groups) group.close(nowMs);
      this.#closeUnused(nodeGroup, undefined, 'nothing subscribed', nowMs);
    }
    return dropped;
  }

  /**
   * The node groups that a new map changes. Call it after the sources have taken the new map.
   *
   * @param moved names that now stand for another source
   */
  stale(
    before: AuthorityMap,
    after: AuthorityMap,
    moved: ReadonlySet<string>,
  ): readonly NodeGroup[] {
    const isSame =
      isDeepStrictEqual(before.oldStyle, after.oldStyle) &&
      !before.oldStyle?.servedBy.some(({ sources }) => sources.some((name) => moved.has(name)));
    return isSame ? [] : [...this.#byScope.values()];
  }

  /**
   * Replaces a stale node group by a new one, if the map has entries for old-style names.
   *
   * @param reroute routes the watches of the old node group again
   * @returns the resources that no source may serve any more, or that another entry serves now
   */
  replace(
    before: NodeGroup,
    { oldStyle }: AuthorityMap,
    nowMs: number,
    reroute: () => void,
  ): readonly Projection[] {
    const release = this.#hold(before.scope);
    this.#forget(before);
    const hasEntry = oldStyle && this.#entriesOf(before.scope, oldStyle).length > 0;
    const heir = hasEntry ? this.#make(before.scope, oldStyle) : undefined;
    release();
    const lost = heir ? heir.adopt(before, nowMs) : before.servedResources();
    reroute();
    // After the heir has subscribed, see `Federation`.
    for (const group of before.groups) group.close(nowMs);
    this.#closeUnused(before, heir, 'removed from the map', nowMs);
    return lost;
  }

  /**
   * Without the identity of a hashed scope there are no entries: a source could not tell the group
   * from others.
   */
  #entriesOf(scope: string, { servedBy }: OldStyleSpec): readonly OldStyleEntrySpec[] {
    const identity = this.identities.of(scope);
    if (!identity) return scope === COMMON_SCOPE ? servedBy.filter(({ when }) => !when) : [];
    return servedBy.filter((entry) => appliesTo(entry, identity.fields));
  }

  #make(scope: string, oldStyle: OldStyleSpec): NodeGroup {
    const identity = this.identities.of(scope);
    const sourceAt = (name: string) => this.#sources.forNodeGroup(name, scope, identity);
    const entries = this.#entriesOf(scope, oldStyle);
    const made = new NodeGroup(scope, entries, sourceAt, this.#groups);
    this.#byScope.set(scope, made);
    // Made by a reload, it may have no subscription.
    this.#touched.add(made);
    this.#holds.set(made, this.#hold(scope));
    for (const group of made.groups) this.#byGroup.set(group, made);
    return made;
  }

  #hold(scope: string): () => void {
    const identity = this.identities.of(scope);
    return identity ? this.identities.hold(scope, identity) : () => undefined;
  }

  #forget(nodeGroup: NodeGroup): void {
    this.#byScope.delete(nodeGroup.scope);
    for (const group of nodeGroup.groups) {
      this.#groups.delete(group);
      this.#byGroup.delete(group);
    }
    this.#holds.get(nodeGroup)?.();
    this.#holds.delete(nodeGroup);
  }

  /** Closes the sources of this node group alone, except the sources that its replacement uses too. */
  #closeUnused(
    nodeGroup: NodeGroup,
    heir: NodeGroup | undefined,
    reason: string,
    nowMs: number,
  ): void {
    for (const id of nodeGroup.ownSources) {
      if (!heir?.ownSources.has(id)) this.#sources.close(id, reason, nowMs);
    }
  }
}
