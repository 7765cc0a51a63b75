/**
 * Tells the watchers the changes since the last flush: groups serve other content, or a new map removed routes and resources.
 * A new watcher gets the whole state of its name. Redirects and lists get the changes that concern them.
 */
import type { ResourceName } from '../../protos/resource-name.js';
import { FailoverGroup, type GroupEvent } from './failover/failover-group.js';
import type { Groups } from './failover/groups.js';
import type { NameEvent } from './failover/resource-events.js';
import type { NodeGroup } from './node-groups/node-group.js';
import type { NodeGroups } from './node-groups/node-groups.js';
import type { Projection } from './projection.js';
import { unrouted } from './reasons.js';
import type { Lists } from './resolution/lists.js';
import type { Redirects } from './resolution/redirects.js';
import type { Routing } from './routing.js';
import { notify, type Watched, type Watches } from './watches.js';

export interface DeliveryOptions {
  readonly watches: Watches;
  readonly groups: Groups;
  readonly nodeGroups: NodeGroups;
  readonly routing: Routing;
  readonly redirects: Redirects;
  readonly lists: Lists;
  /** The time of the flush. */
  readonly nowMs: () => number;
  /** Called with each event that no watcher gets: telemetry gets it. */
  readonly onGroupEvent: (group: FailoverGroup, event: GroupEvent) => void;
}

export class Delivery {
  readonly #options: DeliveryOptions;
  /** Watches with newcomers, which get the whole state. */
  readonly #joined = new Set<Watched>();
  /** The new map may allow other hops: all redirects and lists are to be checked again. */
  #rulesChanged = false;
  /** Watches that a reload left without a route: they get errors. */
  readonly #unrouted = new Set<Watched>();
  /**
   * Resources that their group serves no more. Their watchers get what another group serves in
   * their place, or their removals.
   */
  readonly #lost: Pick<Watched, 'typeUrl' | 'name'>[] = [];

  constructor(options: DeliveryOptions) {
    this.#options = options;
  }

  // ---- what is to be told -------------------------------------------------------------------

  /** A watch has newcomers. */
  noteJoined(watched: Watched): void {
    this.#joined.add(watched);
  }

  /** The last watcher left. */
  forget(watched: Watched): void {
    this.#unrouted.delete(watched);
    this.#joined.delete(watched);
  }

  /** The new map has no route for a name that had one. */
  noteUnrouted(watched: Watched): void {
    this.#unrouted.add(watched);
  }

  /** The name has a route, perhaps again. */
  noteRouted(watched: Watched): void {
    this.#unrouted.delete(watched);
  }

  /** Their group serves these resources no more. */
  noteLost(resources: Iterable<Pick<Watched, 'typeUrl' | 'name'>>): void {
    for (const { typeUrl, name } of resources) this.#lost.push({ typeUrl, name });
  }

  /** There is a new map. */
  noteNewRules(): void {
    this.#rulesChanged = true;
  }

  // ---- telling ------------------------------------------------------------------------------

  /**
   * Tells all that was noted, and all events of groups. What watchers do meanwhile may have to be told with the next call.
   *
   * @returns false when there was nothing to tell
   */
  tell(): boolean {
    const { watches, groups, nodeGroups, routing, redirects, lists } = this.#options;
    const rulesChanged = this.#rulesChanged;
    this.#rulesChanged = false;
    if (rulesChanged) {
      redirects.handleRulesChanged();
      lists.handleRulesChanged();
    }
    let told = rulesChanged;
    for (const group of groups.takeTouched()) {
      nodeGroups.handleTouched(group);
      const nodeGroup = nodeGroups.of(group);
      for (const event of group.takeEvents()) {
        told = true;
        for (const one of nodeGroup?.merge(group, event) ?? [event]) this.#tell(group, one);
      }
      routing.dropIfUnused(group);
    }
    for (const { typeUrl, name } of this.#lost.splice(0)) {
      told = true;
      const served = watches.groupOf(typeUrl, name)?.served(typeUrl, name);
      if (served) this.#tellChanged(served.projection);
      else this.#tellGone({ kind: 'removed', typeUrl, name, status: undefined });
    }
    for (const watched of this.#unrouted) {
      told = true;
      this.#unrouted.delete(watched);
      watches.notify(unroutedEvent(watched));
    }
    // Newcomers come after all events. Their state then includes these, so none comes twice. Lists
    // are tried again once the views of all nested lists exist.
    return told || this.#tellNewcomers() || lists.retry();
  }

  #tellNewcomers(): boolean {
    let told = false;
    for (const watched of this.#joined) {
      told = true;
      this.#joined.delete(watched);
      this.#replay(watched);
      // A newcomer watched or unwatched another name, which may give groups events.
      if (this.#options.groups.hasTouched) break;
    }
    return told;
  }

  /** Sends the whole state of a name, glob or list to its new watchers alone. */
  #replay(watched: Watched): void {
    const { lists, redirects } = this.#options;
    const { typeUrl, name, group } = watched;
    const newcomers = [...(watched.newcomers ?? [])];
    watched.newcomers = undefined;
    if (lists.isOurs(typeUrl, name)) {
      lists.handleWatched(typeUrl, name, newcomers);
      return;
    }
    if (!group) {
      notify(newcomers, unroutedEvent(watched));
      return;
    }
    for (const event of this.#stateOf(watched, group)) {
      // An earlier event may have made a newcomer leave.
      const to = newcomers.filter((one) => watched.watchers.has(one));
      if (event.kind === 'changed' && event.projection.redirect) {
        redirects.replay(typeUrl, event.projection.name, to);
      } else if (event.kind !== 'complete' || this.#noteComplete(event)) notify(to, event);
    }
    redirects.handleWatched(typeUrl, name);
  }

  /** A member of a glob that is watched by its own name too may be in another group, which alone decides about it. */
  #stateOf({ typeUrl, name }: Watched, group: FailoverGroup | NodeGroup): readonly NameEvent[] {
    const { watches, routing } = this.#options;
    const state = group.replay(typeUrl, name);
    const ownNames = name.isGlob ? [...routing.ownNamesOf(typeUrl, name)] : [];
    if (ownNames.length === 0) return state;
    const own = ownNames.flatMap((one): NameEvent[] => {
      const served = watches.groupOf(typeUrl, one)?.served(typeUrl, one);
      return served ? [{ kind: 'changed', projection: served.projection }] : [];
    });
    const ownKeys = new Set(ownNames.map(({ key }) => key));
    const others = state.filter(
      (event) => event.kind !== 'changed' || !ownKeys.has(event.projection.name.key),
    );
    return [...own, ...others];
  }

  /** A member of a glob that is watched by its own name too is served by the group of that name. */
  #decides(group: FailoverGroup, typeUrl: string, name: ResourceName): boolean {
    const own = this.#options.watches.get(typeUrl, name.key)?.group;
    return own === undefined || own === group || !(own instanceof FailoverGroup);
  }

  #tell(group: FailoverGroup, event: GroupEvent): void {
    const { watches, routing, nowMs, onGroupEvent } = this.#options;
    switch (event.kind) {
      case 'changed': {
        const { typeUrl, name } = event.projection;
        if (!this.#decides(group, typeUrl, name)) return;
        this.#tellChanged(event.projection, event.before);
        return;
      }
      case 'confirmed':
        if (this.#decides(group, event.projection.typeUrl, event.projection.name))
          watches.notify(event);
        return;
      case 'noted':
        routing.handleChanged(event.projection, nowMs());
        return;
      case 'removed':
      case 'absent':
        if (this.#decides(group, event.typeUrl, event.name)) this.#tellGone(event);
        return;
      case 'complete':
        if (this.#noteComplete(event)) watches.notify(event);
        return;
      case 'unavailable':
        watches.notify(event);
        return;
      case 'shadowed':
        onGroupEvent(event.group, event);
        return;
      default:
        onGroupEvent(group, event);
    }
  }

  #tellChanged(projection: Projection, before?: Projection): void {
    const { watches, routing, redirects, nowMs } = this.#options;
    const { typeUrl, name } = projection;
    // An earlier event of this flush may have made the last watcher leave. A redirect would then
    // open a link that no `unwatch` closes.
    if (!watches.covers(typeUrl, name)) return;
    routing.handleChanged(projection, nowMs());
    if (redirects.handleChanged(projection, before)) return;
    watches.notify({ kind: 'changed', projection });
  }

  #tellGone(event: Extract<NameEvent, { kind: 'removed' | 'absent' }>): void {
    const { watches, routing, redirects, nowMs } = this.#options;
    redirects.handleGone(event.typeUrl, event.name);
    routing.handleGone(event.typeUrl, event.name, nowMs());
    watches.notify(event);
  }

  /**
   * A collection is complete only when its redirected members are answered.
   *
   * @returns whether watchers may be told now
   */
  #noteComplete({
    typeUrl,
    name,
    isProof,
    status,
  }: Extract<NameEvent, { kind: 'complete' }>): boolean {
    return this.#options.redirects.handleComplete(typeUrl, name, isProof, status);
  }
}

const unroutedEvent = ({ typeUrl, name }: Watched): NameEvent => ({
  kind: 'unavailable',
  typeUrl,
  name,
  status: unrouted(name),
});
