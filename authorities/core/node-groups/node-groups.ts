/**
 * The node groups with subscribed old-style names. A node group is made with its first subscription
 * and dropped once it is idle.
 */
import { isDeepStrictEqual } from 'node:util';
import type { AuthorityMap, OldStyleSpec } from '../../../config/model.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import type { FailoverGroup } from '../failover/failover-group.js';
import type { Groups } from '../failover/groups.js';
import { servesType } from '../sources/source-ids.js';
import { NodeGroup } from './node-group.js';
import type { Projection } from '../projection.js';
import type { Sources } from '../sources/sources.js';

export class NodeGroups {
  readonly #sources: Sources;
  readonly #groups: Groups;
  readonly #byScope = new Map<string, NodeGroup>();
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

  /** The node group that a failover group belongs to. */
  of(group: FailoverGroup): NodeGroup | undefined {
    return this.#byGroup.get(group);
  }

  /** The resource that the node group of a name serves under it, if there is such a node group. */
  served(typeUrl: string, name: ResourceName): ReturnType<NodeGroup['served']> {
    return this.#byScope.get(name.authority)?.served(typeUrl, name);
  }

  /** @returns undefined when the map has no source for old-style names of this type. */
  route(typeUrl: string, scope: string, { oldStyle }: AuthorityMap): NodeGroup | undefined {
    if (!oldStyle?.servedBy.some((entry) => servesType(entry, typeUrl))) return undefined;
    return this.#byScope.get(scope) ?? this.#make(scope, oldStyle);
  }

  /** A group had an input, so its node group may be idle now. */
  handleTouched(group: FailoverGroup): void {
    const nodeGroup = this.#byGroup.get(group);
    if (nodeGroup) this.#touched.add(nodeGroup);
  }

  dropIdle(nowMs: number): void {
    const touched = [...this.#touched];
    this.#touched.clear();
    for (const nodeGroup of touched) {
      if (!nodeGroup.isIdle || this.#byScope.get(nodeGroup.scope) !== nodeGroup) continue;
      this.#forget(nodeGroup, nowMs);
      this.#closeUnused(nodeGroup, undefined, 'nothing subscribed', nowMs);
    }
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
   * @returns the resources that no source may serve any more
   */
  replace(
    before: NodeGroup,
    { oldStyle }: AuthorityMap,
    nowMs: number,
    reroute: () => void,
  ): readonly Projection[] {
    this.#forget(before, nowMs);
    const heir = oldStyle && this.#make(before.scope, oldStyle);
    const lost = heir ? heir.adopt(before) : before.servedResources();
    reroute();
    this.#closeUnused(before, heir, 'removed from the map', nowMs);
    return lost;
  }

  #make(scope: string, oldStyle: OldStyleSpec): NodeGroup {
    const sourceAt = (name: string) => this.#sources.forNodeGroup(name, scope);
    const made = new NodeGroup(scope, oldStyle, sourceAt, this.#groups);
    this.#byScope.set(scope, made);
    for (const group of made.groups) this.#byGroup.set(group, made);
    return made;
  }

  #forget(nodeGroup: NodeGroup, nowMs: number): void {
    this.#byScope.delete(nodeGroup.scope);
    for (const group of nodeGroup.groups) {
      group.close(nowMs);
      this.#groups.delete(group);
      this.#byGroup.delete(group);
    }
  }

  /** Closes the sources of this node group alone, except those that its heir uses too. */
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
