/**
 * The whole upstream side as one machine: sources, authorities, groups and watches. Inputs carry
 * the time; `flush` notifies watchers and returns the effects for the shells.
 *
 * No re-entrancy: `flush` alone calls watchers, after all state is settled. Watchers may call
 * `watch` and `unwatch` from there.
 */
import { DEFAULT_FAILOVER } from '../../config/defaults.js';
import type { ResolutionBounds } from '../../config/limits.js';
import type { AuthorityMap, RemovalPolicy } from '../../config/model.js';
import { elementTypeOf } from '../../protos/list-collection.js';
import { globKeyOf, isOldStyle, type ResourceName } from '../../protos/resource-name.js';
import { TYPE_URL_PREFIX } from '../../protos/type-urls.js';
import type { FileLoad } from './sources/file-source.js';
import { Delivery } from './delivery.js';
import { Comparison, type ComparisonOptions } from './failover/comparison.js';
import { FailoverGroup, type GroupEvent } from './failover/failover-group.js';
import type { ForceOrders } from './failover/force-orders.js';
import { isUnchanged } from './failover/group-plan.js';
import { Groups } from './failover/groups.js';
import type { LastKnown } from './failover/last-known.js';
import { TurnRoom } from './failover/turn-room.js';
import type { AttemptEvent, ManagementServer } from './sources/management-server.js';
import type { NodeGroup } from './node-groups/node-group.js';
import { NodeGroups } from './node-groups/node-groups.js';
import { Lists } from './resolution/lists.js';
import { authorityOf, mayLead } from './resolution/name-route.js';
import { Redirects } from './resolution/redirects.js';
import type { ResolutionPort } from './resolution/resolution-port.js';
import type { Hop } from './resolution/hops.js';
import { revalidate } from './resolution/revalidation.js';
import { Routing } from './routing.js';
import type { Source } from './sources/source.js';
import { Sources, type SourceEffect, type SourcesOptions } from './sources/sources.js';
import type { ResourceWatcher } from './watcher.js';
import { Watches, type Watched } from './watches.js';
import { soonestOf } from './soonest.js';

export interface FederationOptions extends SourcesOptions {
  readonly map: AuthorityMap;
  readonly bounds: ResolutionBounds;
  /** How many names may move to another candidate in one turn; default: `MOVED_NAMES_PER_TURN`. */
  readonly movedNamesPerTurn?: number;
  /** Absent: no content is kept beyond the process. */
  readonly lastKnown?: LastKnown;
}

/** Work for the shells and events for telemetry, in order; `source` is a source id. */
export type FederationEffect =
  | SourceEffect
  | { readonly kind: 'group'; readonly group: FailoverGroup; readonly event: GroupEvent };

/** The part of a federation that observers need. */
export type FederationView = Pick<
  Federation,
  'map' | 'groups' | 'groupsOf' | 'groupFor' | 'nodeGroups' | 'servers' | 'source' | 'hops'
>;

export class Federation {
  #map: AuthorityMap;
  readonly #sources: Sources;
  readonly #groups: Groups;
  readonly #nodeGroups: NodeGroups;
  readonly #watches = new Watches();
  readonly #routing: Routing;
  readonly #redirects: Redirects;
  readonly #lists: Lists;
  readonly #delivery: Delivery;
  /** The last turn took a portion of a response, so the next one reads lists. */
  #isTurnOfLists = false;
  #nowMs = 0;
  readonly #effects: FederationEffect[] = [];

  constructor(options: FederationOptions) {
    this.#map = options.map;
    this.#groups = new Groups(new TurnRoom(options.movedNamesPerTurn), options.lastKnown);
    this.#sources = new Sources(options, options.map, (source) => {
      this.#groups.handleTouched(source);
    });
    this.#nodeGroups = new NodeGroups(this.#sources, this.#groups);
    this.#routing = new Routing({
      map: () => this.#map,
      sourceOf: (name) => this.#sources.get(name),
      watches: this.#watches,
      groups: this.#groups,
      nodeGroups: this.#nodeGroups,
    });
    const port: ResolutionPort = {
      watch: (typeUrl, name, watcher) => {
        this.watch(typeUrl, name, watcher, this.#nowMs);
      },
      unwatch: (typeUrl, name, watcher) => {
        this.unwatch(typeUrl, name, watcher, this.#nowMs);
      },
      watchersOf: (typeUrl, name) => this.#watches.watchersOf(typeUrl, name),
      audienceOf: (typeUrl, name) => this.#watches.audienceOf(typeUrl, name),
      bounds: options.bounds,
      nowMs: () => this.#nowMs,
      mayLead: (from, to) => mayLead(this.#map, from, to),
    };
    this.#redirects = new Redirects(port);
    this.#lists = new Lists(port);
    this.#delivery = new Delivery({
      watches: this.#watches,
      groups: this.#groups,
      nodeGroups: this.#nodeGroups,
      routing: this.#routing,
      redirects: this.#redirects,
      lists: this.#lists,
      nowMs: () => this.#nowMs,
      onGroupEvent: (group, event) => {
        this.#effects.push({ kind: 'group', group, event });
      },
    });
  }

  get map(): AuthorityMap {
    return this.#map;
  }

  get groups(): readonly FailoverGroup[] {
    return [...this.#groups.values()];
  }

  get servers(): readonly ManagementServer[] {
    return [...this.#sources.servers];
  }

  /** @param id the name of a source in the map, or an id from `sourceIdOf` */
  source(id: string): Source | undefined {
    return this.#sources.get(id);
  }

  /** The node groups with watched old-style names. */
  get nodeGroups(): NodeGroups {
    return this.#nodeGroups;
  }

  // ---- demand -------------------------------------------------------------------------------

  watch(typeUrl: string, name: ResourceName, watcher: ResourceWatcher, nowMs: number): void {
    const watched = this.#watches.add(typeUrl, name, watcher);
    this.#delivery.noteJoined(watched);
    if (!watched.group && !this.#lists.isOurs(typeUrl, name)) this.#route(watched, nowMs);
  }

  /** @param leftMs since when no client subscribes to the name: its group lingers from then */
  unwatch(
    typeUrl: string,
    name: ResourceName,
    watcher: ResourceWatcher,
    nowMs: number,
    leftMs = nowMs,
  ): void {
    this.#nowMs = nowMs;
    const watched = this.#watches.delete(typeUrl, name, watcher);
    if (!watched) {
      this.#redirects.handleLeft(typeUrl, name);
      return;
    }
    this.#delivery.forget(watched);
    if (this.#lists.isOurs(typeUrl, name)) {
      this.#lists.handleUnwatched(typeUrl, name);
      return;
    }
    this.#leaveToGlob(watched);
    this.#routing.leave(watched, nowMs, leftMs);
    const isWatched = (member: ResourceName): boolean => this.#watches.covers(typeUrl, member);
    this.#redirects.handleUnwatched(typeUrl, name, isWatched);
    this.#routing.handleUnwatched(watched, isWatched, nowMs);
  }

  // ---- inputs -------------------------------------------------------------------------------

  handleMessage(source: string, epoch: number, bytes: Uint8Array, nowMs: number): void {
    const server = this.#sources.server(source);
    if (!server) return;
    if (this.#lists.nextDeadlineMs(nowMs) > nowMs) this.#lists.beginTurn();
    server.handleMessage(epoch, bytes, nowMs);
    this.#dispatch(server, nowMs);
  }

  /** The transport reports something else than a message. */
  handleAttemptEvent(source: string, epoch: number, event: AttemptEvent, nowMs: number): void {
    const server = this.#sources.server(source);
    if (!server) return;
    server.handleAttemptEvent(epoch, event, nowMs);
    this.#dispatch(server, nowMs);
  }

  /** The credential files of a source changed since it rejected the gateway. */
  handleCredentialsChanged(source: string, nowMs: number): void {
    this.#sources.server(source)?.handleCredentialsChanged(nowMs);
  }

  /** See `FileSource.handlePart`. */
  handlePart(source: string, { resources, nowMs }: FileLoad): void {
    const files = this.#sources.file(source);
    if (!files) return;
    files.handlePart(resources);
    this.#dispatch(files, nowMs);
  }

  handleLoaded(source: string, load: FileLoad): void {
    const files = this.#sources.file(source);
    if (!files) return;
    for (const { name, reason } of files.handleLoaded(load)) {
      this.#effects.push({ kind: 'file_refused', source, name, reason });
    }
    this.#dispatch(files, load.nowMs);
  }

  /** The directory of a source is missing or unreadable. */
  handleUnreadable(source: string, nowMs: number): void {
    const files = this.#sources.file(source);
    if (!files) return;
    files.handleUnreadable();
    this.#dispatch(files, nowMs);
  }

  handleTimer(nowMs: number): void {
    this.#groups.beginTurn();
    for (const server of this.#sources.takeDue(nowMs)) {
      server.handleTimer(nowMs);
      this.#dispatch(server, nowMs);
    }
    for (const group of this.#groups.takeDue(nowMs)) group.handleTimer(nowMs);
    // One portion of one response, or one of lists, so that no turn is long.
    const isForLists = this.#isTurnOfLists && this.#lists.nextDeadlineMs(nowMs) <= nowMs;
    const source = isForLists ? undefined : this.#sources.takeMidResponse();
    this.#isTurnOfLists = source !== undefined;
    if (!source) {
      this.#lists.beginTurn();
      return;
    }
    this.#lists.endTurn();
    source.continueResponse(nowMs);
    this.#dispatch(source, nowMs);
  }

  nextDeadlineMs(nowMs: number): number | undefined {
    return soonestOf(
      this.#sources.nextDeadlineMs(nowMs),
      this.#groups.nextDeadlineMs(nowMs),
      this.#lists.nextDeadlineMs(nowMs),
    );
  }

  force(groupId: string, candidate: number, nowMs: number, untilMs: number): void {
    this.#groups.get(groupId)?.force(candidate, nowMs, untilMs);
  }

  release(groupId: string, nowMs: number): void {
    this.#groups.get(groupId)?.release(nowMs);
  }

  /** What operators forced for whole authorities: groups that begin later follow too. */
  get forceOrders(): ForceOrders {
    return this.#groups.orders;
  }

  /**
   * Compares what a group serves, or one of its candidates, with another candidate.
   *
   * @returns undefined: there is no such group
   */
  comparison(
    groupId: string,
    sides: Pick<ComparisonOptions, 'from' | 'to' | 'deadlineMs'>,
  ): Comparison | undefined {
    const group = this.#groups.get(groupId);
    if (!group) return undefined;
    const nodeGroup = this.#nodeGroups.of(group);
    return new Comparison({
      ...sides,
      group,
      isInUse: () => this.#groups.get(groupId) === group,
      beside: (typeUrl, name) => nodeGroup?.beside(group, typeUrl, name),
    });
  }

  /**
   * Requests a watched name, glob or list again from its sources, with all names that it redirects
   * to. Watchers are notified only if the response differs from the content they have.
   *
   * @returns whether it is watched.
   */
  revalidate(typeUrl: string, name: ResourceName, nowMs: number): boolean {
    const watched = { watches: this.#watches, lists: this.#lists, redirects: this.#redirects };
    return revalidate(typeUrl, name, watched, nowMs);
  }

  /**
   * @param authority an authority, or the name of an entry for old-style names
   * @returns the groups of its names; for an entry, one group per node group
   */
  groupsOf(authority: string): readonly FailoverGroup[] {
    return [...this.#groups.values()].filter(({ spec }) => spec.name === authority);
  }

  /** The policy for removals of a name or collection that no source announced. */
  removalPolicyOf(typeUrl: string, name: ResourceName): RemovalPolicy {
    const spec = isOldStyle(name)
      ? this.#nodeGroups.entryFor(typeUrl, name.authority, this.#map)
      : authorityOf(this.#map, name.authority);
    return spec?.failover ?? DEFAULT_FAILOVER;
  }

  /**
   * Are the primary sources of a watched name, glob or list live, and have they answered it on
   * their present streams? If not, its absence may be outdated.
   */
  isCurrent(typeUrl: string, name: ResourceName): boolean {
    if (this.#lists.isOurs(typeUrl, name)) {
      const listTypeUrl = TYPE_URL_PREFIX + name.resourceType;
      return this.groupServing(listTypeUrl, name)?.isCurrent(listTypeUrl, name) !== false;
    }
    return this.#groupsWatching(typeUrl, name).every((one) => one.isCurrent(typeUrl, name));
  }

  /**
   * The deletion guard removes no held-back name of this watched glob or list before this time: its wait starts anew when a
   * primary source that failed meanwhile is well again.
   */
  guardedUntilMs(typeUrl: string, name: ResourceName, nowMs: number): number {
    const list = this.#lists.isOurs(typeUrl, name)
      ? TYPE_URL_PREFIX + name.resourceType
      : undefined;
    const wellSinceMs = this.#groupsWatching(list ?? typeUrl, name).map(
      (group) => group.primaryWellSinceMs ?? nowMs,
    );
    const { deletionGuard } = this.removalPolicyOf(typeUrl, name);
    return Math.max(...wellSinceMs) + deletionGuard.waitMs;
  }

  /** Is this very name or glob watched? */
  isWatched(typeUrl: string, name: ResourceName): boolean {
    return this.#watches.get(typeUrl, name.key) !== undefined;
  }

  /** Are the primary sources of a watched name live, and has none of them sent the name or an error for it? */
  isSilentAbout(typeUrl: string, name: ResourceName): boolean {
    return this.#groupsWatching(typeUrl, name).every((one) => one.isSilentAbout(typeUrl, name));
  }

  #groupsWatching(typeUrl: string, name: ResourceName): readonly FailoverGroup[] {
    const group = this.#watches.get(typeUrl, name.key)?.group;
    return group instanceof FailoverGroup ? [group] : (group?.groupsFor(typeUrl) ?? []);
  }

  groupFor(name: ResourceName): FailoverGroup | undefined {
    return this.#routing.groupFor(name);
  }

  /**
   * The group that serves a name or would serve it, if that group exists. Unlike `groupFor`, this
   * creates no group. For an old-style name: the group whose resource is served.
   */
  groupServing(typeUrl: string, name: ResourceName): FailoverGroup | undefined {
    if (isOldStyle(name)) return this.#nodeGroups.served(typeUrl, name)?.group;
    const route = this.#routing.routeOf(name);
    return route && this.#groups.get(route.groupId);
  }

  /** The watched names that redirect to this name. */
  redirectedTo(typeUrl: string, name: ResourceName): readonly ResourceName[] {
    return this.#redirects.namesLeadingTo(typeUrl, name);
  }

  /**
   * The hops from a name to its content; empty if the name's own sources serve it. The hops of a
   * list's entries are known only while the list is watched.
   */
  hops(typeUrl: string, name: ResourceName): readonly Hop[] {
    return [
      ...(this.#routing.routeOf(name)?.hops ?? []),
      ...this.#redirects.hops(typeUrl, name),
      ...this.#lists.hops(elementTypeOf(typeUrl) ?? typeUrl, name),
    ];
  }

  // ---- the map ------------------------------------------------------------------------------

  /**
   * @param map a validated map. Sources and groups that it leaves unchanged keep their streams and
   * their state.
   */
  reload(map: AuthorityMap, nowMs: number): void {
    const before = this.#map;
    this.#map = map;
    const moved = this.#sources.reload(map, nowMs);
    const replaced = [...this.#groups.values()].filter((group) => {
      const { spec, candidates } = group;
      if (this.#nodeGroups.of(group)) return false;
      const others = new Set(candidates.map(({ authority }) => authority));
      return (
        !isUnchanged(spec, [...others], before, map, moved) ||
        this.#routing.hasOwnAlternatives(group)
      );
    });
    // Delete all replaced groups before routing any name: an event of a group that is about to be deleted would reach
    // no watcher.
    for (const group of replaced) {
      this.#groups.delete(group);
      this.#routing.forget(group);
    }
    for (const group of replaced) this.#replace(group, nowMs);
    for (const nodeGroup of this.#nodeGroups.stale(before, map, moved)) {
      const routeAgain = (): void => {
        this.#routeAgain(nodeGroup, nowMs);
      };
      this.#delivery.noteLost(this.#nodeGroups.replace(nodeGroup, map, nowMs, routeAgain));
    }
    for (const watched of this.#watches.values()) {
      const { group, typeUrl, name } = watched;
      if (group || this.#lists.isOurs(typeUrl, name)) continue;
      // Names that neither map serves have already been refused.
      if (isOldStyle(name) ? map.oldStyle : authorityOf(map, name.authority)) {
        this.#route(watched, nowMs);
      }
    }
    this.#delivery.noteNewRules();
  }

  /**
   * Its names move to the groups of the new map, which go on from what it served. They subscribe before it unsubscribes:
   * a source that they have in common is not asked again, and some would not answer (go-control-plane, for a wildcard).
   */
  #replace(group: FailoverGroup, nowMs: number): void {
    const orphans = this.#watchedAt(group);
    const heirOf = new Map(orphans.map(({ name }) => [name.key, this.groupFor(name)]));
    // A member goes with its collection, although a reference may give its own name an alternative.
    for (const heir of new Set(heirOf.values())) {
      heir?.adopt(
        group,
        (_typeUrl, name) => heirOf.get(name.key) === heir || heirOf.get(globKeyOf(name)) === heir,
      );
      heir?.inherit(group, nowMs);
    }
    // Resources of authorities that are no longer in the map may not be served.
    const served = [...group.servedResources()];
    this.#delivery.noteLost(served.filter(({ name }) => !authorityOf(this.#map, name.authority)));
    this.#routeAgain(group, nowMs);
    group.close(nowMs);
  }

  #watchedAt(group: FailoverGroup | NodeGroup): readonly Watched[] {
    return [...this.#watches.values()].filter((watched) => watched.group === group);
  }

  #routeAgain(group: FailoverGroup | NodeGroup, nowMs: number): void {
    for (const watched of this.#watchedAt(group)) {
      watched.group = undefined;
      if (!this.#route(watched, nowMs)) this.#delivery.noteUnrouted(watched);
    }
  }

  // ---- routing ------------------------------------------------------------------------------

  /** @returns false if the map has no route for the name. */
  #route(watched: Watched, nowMs: number): boolean {
    const isRouted = this.#routing.route(watched, nowMs);
    if (isRouted) this.#delivery.noteRouted(watched);
    return isRouted;
  }

  /**
   * A name loses its own watch while its glob stays watched, and another group may serve the glob.
   * From now on that group alone decides about the name.
   */
  #leaveToGlob({ typeUrl, name, group }: Watched): void {
    const glob = this.#watches.get(typeUrl, globKeyOf(name));
    if (!glob?.group || glob.group === group) return;
    const served = glob.group.served(typeUrl, name) ?? group?.served(typeUrl, name);
    if (served) this.#delivery.noteLost([{ typeUrl, name }]);
  }

  #dispatch(source: Source, nowMs: number): void {
    for (const change of source.contents.takeChanges()) {
      for (const listener of change.listeners) {
        if (listener instanceof FailoverGroup) listener.handleChange(source, change, nowMs);
      }
    }
    // The groups that the changes concern; all groups of the source if its facts changed (`Groups.handleTouched`).
    for (const group of this.#groups.takeDue(nowMs)) group.handleTimer(nowMs);
  }

  // ---- outputs ------------------------------------------------------------------------------

  /** Notifies watchers, and returns the effects for shells and telemetry, in order. */
  flush(nowMs: number): readonly FederationEffect[] {
    this.#nowMs = nowMs;
    for (;;) {
      for (const effect of this.#sources.takeEffects(nowMs)) this.#effects.push(effect);
      // A directory answers within `subscribe`, so a watcher's call may have produced changes.
      for (const files of this.#sources.takeTouchedFiles()) this.#dispatch(files, nowMs);
      if (this.#delivery.tell()) continue;
      // Here and not with the timer: any input may come first after the linger of a group, and no timer may follow.
      if (this.#nodeGroups.dropIdle(nowMs)) continue;
      if (!this.#lists.readDue(nowMs)) break;
    }
    return this.#effects.splice(0);
  }
}
