/**
 * Which group requests a watched name from sources. The map, the alternatives in the name, and those in
 * references to it (`#alt=`) decide; names with equal answers share a group.
 */
import type { AuthorityMap } from '../../config/model.js';
import { isEntryOfNoList } from '../../protos/list-collection.js';
import { globKeyOf, isOldStyle, type ResourceName } from '../../protos/resource-name.js';
import { TypedMap } from '../../protos/typed-map.js';
import { TYPE_URL_PREFIX } from '../../protos/type-urls.js';
import { FailoverGroup } from './failover/failover-group.js';
import { candidatesOf } from './failover/group-plan.js';
import type { Groups } from './failover/groups.js';
import type { NodeGroups } from './node-groups/node-groups.js';
import type { Projection } from './projection.js';
import { AlternativeNotes } from './resolution/alternative-notes.js';
import { NamePairs } from './resolution/name-pairs.js';
import { routeOf, type NameRoute } from './resolution/name-route.js';
import type { Source } from './sources/source.js';
import type { Watched, Watches } from './watches.js';

export interface RoutingOptions {
  /** The map in force. */
  readonly map: () => AuthorityMap;
  /** The source with this name in the map. */
  readonly sourceOf: (name: string) => Source | undefined;
  readonly watches: Pick<Watches, 'get'>;
  readonly groups: Groups;
  readonly nodeGroups: NodeGroups;
}

export class Routing {
  readonly #options: RoutingOptions;
  /** By group id, for groups whose names have alternatives of their own (`#alt=`). */
  readonly #pairs = new Map<string, NamePairs>();
  /** The watched names of these groups, by the glob that they are members of. */
  readonly #ownNames = new TypedMap<Map<string, ResourceName>>();
  readonly #notes = new AlternativeNotes();

  constructor(options: RoutingOptions) {
    this.#options = options;
  }

  /** @returns undefined if the map has no route for the name; old-style names have none */
  routeOf(name: ResourceName): NameRoute | undefined {
    return routeOf(this.#options.map(), name, this.#notes.alternativeOf(name.key));
  }

  /** The group of a name, made if it does not exist. Not for old-style names. */
  groupFor(name: ResourceName): FailoverGroup | undefined {
    const route = this.routeOf(name);
    return route && this.#groupOf(route);
  }

  /**
   * Subscribes a watched name, glob or wildcard at its group.
   *
   * @returns false if the map has no route for it
   */
  route(watched: Watched, nowMs: number): boolean {
    const { typeUrl, name } = watched;
    const { nodeGroups, map } = this.#options;
    const group = isOldStyle(name)
      ? nodeGroups.route(typeUrl, name.authority, map())
      : this.#groupOfWatched(watched);
    if (!group) return false;
    watched.group = group;
    group.want(typeUrl, name, nowMs);
    return true;
  }

  /** Unsubscribes a watched name from its group. */
  leave({ typeUrl, name, group }: Watched, nowMs: number, leftMs = nowMs): void {
    if (!group) return;
    group.unwant(typeUrl, name, nowMs, leftMs);
    if (group instanceof FailoverGroup) this.#pairs.get(group.id)?.delete(name);
    const ownNames = this.#ownNames.get(typeUrl, globKeyOf(name));
    if (ownNames?.delete(name.key) === true && ownNames.size === 0)
      this.#ownNames.delete(typeUrl, globKeyOf(name));
  }

  /** The members of a glob that are watched by their names too, and have alternatives of their own. */
  ownNamesOf(typeUrl: string, glob: ResourceName): Iterable<ResourceName> {
    return this.#ownNames.get(typeUrl, glob.key)?.values() ?? [];
  }

  /** Do its names have alternatives of their own (`#alt=`)? A new map may allow other ones. */
  hasOwnAlternatives(group: FailoverGroup): boolean {
    return this.#pairs.has(group.id);
  }

  /** The group is gone. */
  forget(group: FailoverGroup): void {
    this.#pairs.delete(group.id);
  }

  /** Clients choose the alternatives in names: there may be thousands of groups of such names, one after another. */
  dropIfUnused(group: FailoverGroup): void {
    const { demandCount, failover } = group;
    if (demandCount > 0 || failover.kind !== 'idle') return;
    if (!this.hasOwnAlternatives(group)) return;
    this.#options.groups.delete(group);
    this.forget(group);
  }

  // ---- alternatives in references -------------------------------------------------------------

  /** A resource changed, and with it perhaps the alternatives in its references. */
  handleChanged(projection: Projection, nowMs: number): void {
    this.#reroute(this.#notes.handleChanged(projection), nowMs);
  }

  /** A resource was removed, and with it its references. */
  handleGone(typeUrl: string, name: ResourceName, nowMs: number): void {
    this.#reroute(this.#notes.handleGone(typeUrl, name), nowMs);
  }

  /**
   * The last watcher of this name or glob left.
   *
   * @param isWatched whether a member is still watched
   */
  handleUnwatched(
    { typeUrl, name }: Pick<Watched, 'typeUrl' | 'name'>,
    isWatched: (member: ResourceName) => boolean,
    nowMs: number,
  ): void {
    this.#reroute(this.#notes.handleUnwatched(typeUrl, name, isWatched), nowMs);
  }

  /** Moves names to their new groups: the alternatives in references to these names changed. */
  #reroute(names: readonly ResourceName[], nowMs: number): void {
    for (const name of names) {
      const watched = this.#options.watches.get(TYPE_URL_PREFIX + name.resourceType, name.key);
      const before = watched?.group;
      const route = this.routeOf(name);
      if (!watched || !(before instanceof FailoverGroup) || !route) continue;
      const group = this.#groupOf(route);
      const held = before.servedWithEnd(watched.typeUrl, name);
      if (held && group !== before) group.adoptOne(held);
      const old = { ...watched };
      watched.group = undefined;
      // Subscribe at the new group before leaving the old one: in the other order, a source that
      // both use would see an unsubscribe and a subscribe. Within one group the name leaves first,
      // while the old chain is still known.
      if (group === before) this.leave(old, nowMs);
      if (held && group === before) group.adoptOne(held);
      this.route(watched, nowMs);
      if (group !== before) this.leave(old, nowMs);
    }
  }

  // ---- groups ---------------------------------------------------------------------------------

  #groupOfWatched({ typeUrl, name, group: before }: Watched): FailoverGroup | undefined {
    // Such a name from a client is refused earlier, but a hop may lead to one.
    const route = isEntryOfNoList(typeUrl, name) ? undefined : this.routeOf(name);
    if (!route) return undefined;
    const group = this.#groupOf(route);
    if (route.chain && before !== group) this.#pairs.get(group.id)?.add(name, route.chain);
    if (route.chain && !name.isGlob) this.#noteOwn(typeUrl, name);
    return group;
  }

  #noteOwn(typeUrl: string, name: ResourceName): void {
    const globKey = globKeyOf(name);
    const known = this.#ownNames.get(typeUrl, globKey);
    if (known) known.set(name.key, name);
    else this.#ownNames.set(typeUrl, globKey, new Map([[name.key, name]]));
  }

  #groupOf(route: NameRoute): FailoverGroup {
    const { groups, map, sourceOf } = this.#options;
    const id = route.groupId;
    let group = groups.get(id);
    if (!group) {
      const pairs = route.chain && new NamePairs(route.chain.length);
      if (pairs) this.#pairs.set(id, pairs);
      group = groups.make(id, route.spec, candidatesOf(route, pairs, map(), sourceOf));
    }
    return group;
  }
}
