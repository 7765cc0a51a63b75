/** The node groups that old-style names are asked for: made when one is, dropped when none is any more. */
import { isDeepStrictEqual } from 'node:util';
import type { AuthorityMap, OldStyleSpec } from '../../../config/model.js';
import type { FailoverGroup } from '../failover/failover-group.js';
import type { Groups } from '../failover/groups.js';
import { NodeGroup, servesType } from './node-group.js';
import type { Projection } from '../projection.js';
import type { Sources } from '../sources/sources.js';

export class NodeGroups {
  readonly #sources: Sources;
  readonly #groups: Groups;
  readonly #byScope = new Map<string, NodeGroup>();
  readonly #byGroup = new Map<FailoverGroup, NodeGroup>();
  /** Since `dropIdle` looked last. */
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

  /** @returns undefined when the map has no source for old-style names of this type. */
  route(typeUrl: string, scope: string, { oldStyle }: AuthorityMap): NodeGroup | undefined {
    if (!oldStyle?.servedBy.some((entry) => servesType(entry, typeUrl))) return undefined;
    return this.#byScope.get(scope) ?? this.#make(scope, oldStyle);
  }

  /** A group had an input: the node group that it is of may be idle by now. */
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
   * Those that a new map, which the sources have already, does not leave as they were.
   *
   * @param moved names whose source is another one now
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
   * Puts another in the place of a stale one, if the map has entries for it.
   *
   * @param reroute makes those who watched the old one watch again
   * @returns what nobody may serve any more
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

  /** The sources that only this node group had, but for those that its heir has too. */
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
