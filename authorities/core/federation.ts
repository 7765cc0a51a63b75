/**
 * The whole upstream side as one machine: sources, authorities, groups, and who watches what.
 * Inputs carry the time; `flush` tells watchers and hands out what shells have to do.
 *
 * No re-entrancy: watchers are called only from `flush`, after all state is settled, and may watch
 * and unwatch from there.
 */
import { DEFAULT_FAILOVER } from '../../config/defaults.js';
import type { ResolutionBounds } from '../../config/limits.js';
import type { AuthorityMap, RemovalPolicy } from '../../config/model.js';
import type { RpcStatus } from '../../protos/discovery.js';
import { isEntryOfNoList } from '../../protos/list-collection.js';
import { globKeyOf, isOldStyle, type ResourceName } from '../../protos/resource-name.js';
import { TYPE_URL_PREFIX } from '../../protos/type-urls.js';
import { AlternativeNotes } from './resolution/alternative-notes.js';
import type { FileLoad } from './sources/file-source.js';
import { FailoverGroup, type GroupEvent } from './failover/failover-group.js';
import { candidatesOf, sameAuthority } from './failover/group-plan.js';
import { Groups } from './failover/groups.js';
import type { ManagementServer } from './sources/management-server.js';
import { servesType, type NodeGroup } from './node-groups/node-group.js';
import { NodeGroups } from './node-groups/node-groups.js';
import type { Projection } from './projection.js';
import { Lists } from './resolution/lists.js';
import { NamePairs } from './resolution/name-pairs.js';
import { unreachable, unrouted } from './reasons.js';
import { mayLead, routeOf, type NameRoute } from './resolution/name-route.js';
import { Redirects, type LinkPort } from './resolution/redirects.js';
import type { Hop } from './resolution/hops.js';
import { revalidate } from './resolution/revalidation.js';
import type { StreamEnd } from './sources/source-health.js';
import type { Source } from './sources/source.js';
import { Sources, type SourceEffect, type SourcesOptions } from './sources/sources.js';
import type { ResourceWatcher } from './watcher.js';
import { Watches, type Watched } from './watches.js';

export interface FederationOptions extends SourcesOptions {
  readonly map: AuthorityMap;
  readonly bounds: ResolutionBounds;
}

/** What the shells do and what telemetry tells, in order; `source` is the id of one. */
export type FederationEffect =
  | SourceEffect
  | { readonly kind: 'group'; readonly group: FailoverGroup; readonly event: GroupEvent }
  | {
      readonly kind: 'file_refused';
      readonly source: string;
      readonly name: string;
      readonly reason: string;
    };

export class Federation {
  #map: AuthorityMap;
  readonly #sources: Sources;
  readonly #groups = new Groups();
  readonly #nodeGroups: NodeGroups;
  /** Of groups whose names have alternatives of their own. */
  readonly #pairs = new Map<string, NamePairs>();
  readonly #watches = new Watches();
  readonly #redirects: Redirects;
  readonly #lists: Lists;
  readonly #notes = new AlternativeNotes();
  /** Lists, their entries, and what has a watcher more: to be answered at the next flush, once. */
  readonly #toAnswer = new Set<Watched>();
  /** The map allows other hops than before; seen to at the next flush. */
  #rulesChanged = false;
  #nowMs = 0;
  /** Watches of authorities that the map does not have, to be refused at the next flush. */
  readonly #unrouted = new Set<Watched>();
  /** What an authority served that the map no longer has, to be told at the next flush. */
  readonly #lost: Projection[] = [];
  readonly #effects: FederationEffect[] = [];

  constructor(options: FederationOptions) {
    this.#map = options.map;
    this.#sources = new Sources(options, options.map, (source) => {
      this.#groups.handleTouched(source);
    });
    this.#nodeGroups = new NodeGroups(this.#sources, this.#groups);
    const port: LinkPort = {
      watch: (typeUrl, name, watcher) => {
        this.watch(typeUrl, name, watcher, this.#nowMs);
      },
      unwatch: (typeUrl, name, watcher) => {
        this.unwatch(typeUrl, name, watcher, this.#nowMs);
      },
      watchersOf: (typeUrl, name) => this.#watches.watchersOf(typeUrl, name),
      bounds: options.bounds,
      mayLead: (from, to) => mayLead(this.#map, from, to),
    };
    this.#redirects = new Redirects(port);
    this.#lists = new Lists(port);
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

  /** By id: the name of a source, or what `sourceIdOf` gives. */
  source(id: string): Source | undefined {
    return this.#sources.get(id);
  }

  /** Of old-style names. */
  get nodeGroups(): NodeGroups {
    return this.#nodeGroups;
  }

  // ---- demand -------------------------------------------------------------------------------

  watch(typeUrl: string, name: ResourceName, watcher: ResourceWatcher, nowMs: number): void {
    const watched = this.#watches.add(typeUrl, name, watcher);
    const isKnown = watched.group !== undefined && watched.watchers.size > 1;
    if (isKnown || this.#lists.isOurs(typeUrl, name)) this.#toAnswer.add(watched);
    else this.#route(watched, nowMs);
  }

  unwatch(typeUrl: string, name: ResourceName, watcher: ResourceWatcher, nowMs: number): void {
    this.#nowMs = nowMs;
    const watched = this.#watches.delete(typeUrl, name, watcher);
    if (!watched) {
      this.#redirects.handleLeft(typeUrl, name);
      return;
    }
    this.#unrouted.delete(watched);
    this.#toAnswer.delete(watched);
    if (this.#lists.isOurs(typeUrl, name)) {
      this.#lists.handleUnwatched(typeUrl, name);
      return;
    }
    this.#leaveToGlob(watched);
    this.#leave(watched, nowMs);
    const isAsked = (member: ResourceName): boolean => this.#watches.covers(typeUrl, member);
    this.#redirects.handleUnwatched(typeUrl, name, isAsked);
    this.#reroute(this.#notes.handleUnwatched(typeUrl, name, isAsked));
  }

  // ---- inputs -------------------------------------------------------------------------------

  handleMessage(source: string, epoch: number, bytes: Uint8Array, nowMs: number): void {
    const server = this.#sources.server(source);
    if (!server) return;
    server.handleMessage(epoch, bytes, nowMs);
    this.#dispatch(server, nowMs);
  }

  handleEnded(source: string, epoch: number, end: StreamEnd, nowMs: number): void {
    const server = this.#sources.server(source);
    if (!server) return;
    server.handleEnded(epoch, end, nowMs);
    this.#dispatch(server, nowMs);
  }

  /** The files that a source is dialled with changed since it refused us. */
  handleCredentialsChanged(source: string, nowMs: number): void {
    this.#sources.server(source)?.handleCredentialsChanged(nowMs);
  }

  handleLoaded(source: string, load: FileLoad): void {
    const files = this.#sources.file(source);
    if (!files) return;
    for (const { name, reason } of files.handleLoaded(load)) {
      this.#effects.push({ kind: 'file_refused', source, name, reason });
    }
    this.#dispatch(files, load.nowMs);
  }

  /** A directory of resources is not there, or may not be read. */
  handleUnreadable(source: string, nowMs: number): void {
    const files = this.#sources.file(source);
    if (!files) return;
    files.handleUnreadable();
    this.#dispatch(files, nowMs);
  }

  handleTimer(nowMs: number): void {
    for (const server of this.#sources.takeDue(nowMs)) {
      server.handleTimer(nowMs);
      this.#dispatch(server, nowMs);
    }
    for (const group of this.#groups.takeDue(nowMs)) group.handleTimer(nowMs);
    this.#nodeGroups.dropIdle(nowMs);
  }

  nextDeadlineMs(nowMs: number): number | undefined {
    const soonestMs = Math.min(
      this.#sources.nextDeadlineMs(nowMs),
      this.#groups.nextDeadlineMs(nowMs),
    );
    return soonestMs === Infinity ? undefined : soonestMs;
  }

  force(groupId: string, candidate: number, nowMs: number, untilMs: number): void {
    this.#groups.get(groupId)?.force(candidate, nowMs, untilMs);
  }

  release(groupId: string, nowMs: number): void {
    this.#groups.get(groupId)?.release(nowMs);
  }

  /**
   * Asks the sources of a watched name, glob or list about it once more, and those of the names that
   * it redirects to. Watchers hear of it only if the answer differs from what was said before.
   *
   * @returns whether it is watched.
   */
  revalidate(typeUrl: string, name: ResourceName, nowMs: number): boolean {
    const watched = { watches: this.#watches, lists: this.#lists, redirects: this.#redirects };
    return revalidate(typeUrl, name, watched, nowMs);
  }

  /**
   * The groups that names of this authority fall into; of an entry of old-style names, those of all
   * node groups.
   */
  groupsOf(authority: string): readonly FailoverGroup[] {
    return [...this.#groups.values()].filter(({ spec }) => spec.name === authority);
  }

  /** How removals of a name or collection are judged that no source announced. */
  removalPolicyOf(typeUrl: string, name: ResourceName): RemovalPolicy {
    const spec = isOldStyle(name)
      ? this.#map.oldStyle?.servedBy.find((entry) => servesType(entry, typeUrl))
      : this.#map.authorities.get(name.authority);
    return spec?.failover ?? DEFAULT_FAILOVER;
  }

  /**
   * Is what was said of a watched name, glob or list the word of sources that answer now? Otherwise its
   * absence may be old.
   */
  isCurrent(typeUrl: string, name: ResourceName): boolean {
    const group = this.#watches.get(typeUrl, name.key)?.group;
    const groups = group instanceof FailoverGroup ? [group] : (group?.groupsFor(typeUrl) ?? []);
    return groups.every((one) => one.isCurrent(typeUrl, name));
  }

  groupFor(name: ResourceName): FailoverGroup | undefined {
    const route = this.#routeOf(name);
    return route && this.#groupOf(route);
  }

  /**
   * The way from a name to content, as far as it does not end at the name's own sources. What the
   * entries of a list lead to is known while somebody asks for its members.
   */
  hops(typeUrl: string, name: ResourceName): readonly Hop[] {
    return [
      ...(this.#routeOf(name)?.hops ?? []),
      ...this.#redirects.hops(typeUrl, name),
      ...this.#lists.hops(typeUrl.replace(/Collection$/, ''), name),
    ];
  }

  // ---- the map ------------------------------------------------------------------------------

  /** A new map, checked already. What it leaves as it was keeps its streams and its state. */
  reload(map: AuthorityMap, nowMs: number): void {
    const before = this.#map;
    this.#map = map;
    const moved = this.#sources.reload(map, nowMs);
    const replaced = [...this.#groups.values()].filter((group) => {
      const { spec, candidates } = group;
      if (this.#nodeGroups.of(group)) return false;
      const others = new Set(candidates.map(({ authority }) => authority));
      return (
        !sameAuthority(spec, [...others], before, map, moved) ||
        // An alternative that could not be used may be allowed now.
        this.#pairs.has(group.id)
      );
    });
    for (const group of replaced) this.#replace(group, nowMs);
    for (const nodeGroup of this.#nodeGroups.stale(before, map, moved)) {
      const routeAgain = (): void => {
        this.#routeAgain(nodeGroup, nowMs);
      };
      this.#lost.push(...this.#nodeGroups.replace(nodeGroup, map, nowMs, routeAgain));
    }
    for (const watched of this.#watches.values()) {
      const { group, typeUrl, name } = watched;
      if (group || this.#lists.isOurs(typeUrl, name)) continue;
      // What is not in this map either was refused already.
      if (isOldStyle(name) ? map.oldStyle : map.authorities.has(name.authority)) {
        this.#route(watched, nowMs);
      }
    }
    this.#rulesChanged = true;
  }

  #replace(group: FailoverGroup, nowMs: number): void {
    this.#groups.delete(group);
    this.#pairs.delete(group.id);
    group.close(nowMs);
    if (this.#map.authorities.has(group.spec.name)) {
      const orphans = this.#watchedAt(group);
      /* c8 ignore next -- their authority is in the map, so each of them has a group */
      const heirs = new Set(orphans.flatMap(({ name }) => this.groupFor(name) ?? []));
      for (const heir of heirs) heir.adopt(group, (name) => this.groupFor(name) === heir);
    } else {
      // The right to all of it is lost.
      this.#lost.push(...group.servedResources());
    }
    this.#routeAgain(group, nowMs);
  }

  #watchedAt(group: FailoverGroup | NodeGroup): readonly Watched[] {
    return [...this.#watches.values()].filter((watched) => watched.group === group);
  }

  #routeAgain(group: FailoverGroup | NodeGroup, nowMs: number): void {
    for (const watched of this.#watchedAt(group)) {
      watched.group = undefined;
      this.#route(watched, nowMs);
    }
  }

  // ---- routing ------------------------------------------------------------------------------

  #route(watched: Watched, nowMs: number): void {
    const { typeUrl, name } = watched;
    const group = isOldStyle(name)
      ? this.#nodeGroups.route(typeUrl, name.authority, this.#map)
      : this.#groupOfWatched(watched);
    if (!group) {
      this.#unrouted.add(watched);
      return;
    }
    this.#unrouted.delete(watched);
    watched.group = group;
    group.want(typeUrl, name, nowMs);
  }

  #groupOfWatched({ typeUrl, name, group: before }: Watched): FailoverGroup | undefined {
    // A client's name is refused before; hops may lead to one.
    const route = isEntryOfNoList(typeUrl, name) ? undefined : this.#routeOf(name);
    if (!route) return undefined;
    const group = this.#groupOf(route);
    if (route.chain && before !== group) this.#pairs.get(group.id)?.add(name, route.chain);
    return group;
  }

  /** Its glob may be served from elsewhere, and its word has not counted for this member until now. */
  #leaveToGlob({ typeUrl, name, group }: Watched): void {
    const glob = this.#watches.get(typeUrl, globKeyOf(name));
    if (!glob?.group || glob.group === group) return;
    this.#toAnswer.add(glob);
    const held = group?.served(typeUrl, name);
    if (held && !glob.group.served(typeUrl, name)) this.#lost.push(held.projection);
  }

  #leave({ typeUrl, name, group }: Watched, nowMs: number): void {
    if (!group) return;
    group.unwant(typeUrl, name, nowMs);
    if (group instanceof FailoverGroup) this.#pairs.get(group.id)?.delete(name);
  }

  #routeOf(name: ResourceName): NameRoute | undefined {
    return routeOf(this.#map, name, this.#notes.alternativeOf(name.key));
  }

  #groupOf(route: NameRoute): FailoverGroup {
    const id = route.groupId;
    let group = this.#groups.get(id);
    if (!group) {
      const source = (sourceName: string): Source | undefined => this.source(sourceName);
      const pairs = route.chain && new NamePairs(route.chain.length);
      if (pairs) this.#pairs.set(id, pairs);
      group = this.#groups.make(id, route.spec, candidatesOf(route, pairs, this.#map, source));
    }
    return group;
  }

  /** The alternative that references give to these names is another one now. */
  #reroute(names: readonly ResourceName[]): void {
    for (const name of names) {
      const watched = this.#watches.get(TYPE_URL_PREFIX + name.resourceType, name.key);
      const before = watched?.group;
      const route = this.#routeOf(name);
      if (!watched || !(before instanceof FailoverGroup) || !route) continue;
      const group = this.#groupOf(route);
      const held = before.served(watched.typeUrl, name);
      if (held && group !== before) group.adoptOne(held.projection);
      const old = { ...watched };
      watched.group = undefined;
      // First the new one: what both ask of a source is not left in between.
      if (group === before) this.#leave(old, this.#nowMs);
      if (held && group === before) group.adoptOne(held.projection);
      this.#route(watched, this.#nowMs);
      if (group !== before) this.#leave(old, this.#nowMs);
    }
  }

  #dispatch(source: Source, nowMs: number): void {
    for (const change of source.contents.takeChanges()) {
      for (const listener of change.listeners) {
        if (listener instanceof FailoverGroup) listener.handleChange(source, change, nowMs);
      }
    }
    for (const group of this.#groups.at(source)) group.handleTimer(nowMs);
  }

  // ---- outputs ------------------------------------------------------------------------------

  /** Tells watchers, and returns what is left for shells and telemetry, in order. */
  flush(nowMs: number): readonly FederationEffect[] {
    this.#nowMs = nowMs;
    for (;;) {
      for (const effect of this.#sources.takeEffects(nowMs)) this.#effects.push(effect);
      // A directory answers while it is asked.
      for (const files of this.#sources.takeTouchedFiles()) this.#dispatch(files, nowMs);
      const told = this.#tellWatchers();
      if (!told) break;
    }
    return this.#effects.splice(0);
  }

  #tellWatchers(): boolean {
    let told = this.#answerAsked();
    for (const group of this.#groups.takeTouched()) {
      this.#nodeGroups.handleTouched(group);
      const nodeGroup = this.#nodeGroups.of(group);
      for (const event of group.takeEvents()) {
        told = true;
        for (const one of nodeGroup?.merge(group, event) ?? [event]) this.#tell(group, one);
      }
    }
    for (const { typeUrl, name } of this.#lost.splice(0)) {
      told = true;
      this.#tellGone('removed', typeUrl, name);
    }
    for (const watched of this.#unrouted) {
      told = true;
      this.#unrouted.delete(watched);
      this.#watches.tellError(watched, unrouted(watched.name));
    }
    return told;
  }

  #answerAsked(): boolean {
    const asked = [...this.#toAnswer];
    this.#toAnswer.clear();
    for (const { typeUrl, name, group } of asked) {
      if (this.#lists.isOurs(typeUrl, name)) this.#lists.handleWatched(typeUrl, name);
      else group?.want(typeUrl, name, this.#nowMs);
    }
    const rulesChanged = this.#rulesChanged;
    this.#rulesChanged = false;
    if (rulesChanged) {
      this.#redirects.handleRulesChanged();
      this.#lists.handleRulesChanged();
    }
    return this.#lists.retry() || rulesChanged || asked.length > 0;
  }

  #tell(group: FailoverGroup, event: GroupEvent): void {
    switch (event.kind) {
      case 'changed': {
        const { projection } = event;
        const { typeUrl, name } = projection;
        // Whoever watched it may have left by what was told just before: a link would stay behind.
        if (!this.#watches.covers(typeUrl, name)) return;
        this.#reroute(this.#notes.handleChanged(projection));
        if (this.#redirects.handleChanged(projection, event.before)) return;
        const told = this.#watches.watchersOf(typeUrl, name);
        for (const watcher of told) watcher.onChanged(projection);
        return;
      }
      case 'noted':
        this.#reroute(this.#notes.handleChanged(event.projection));
        return;
      case 'removed':
      case 'absent':
        this.#tellGone(event.kind, event.typeUrl, event.name, event.status);
        return;
      case 'complete': {
        const { typeUrl, name, isProof, status } = event;
        if (!this.#redirects.handleComplete(typeUrl, name, isProof, status)) return;
        const told = this.#watches.watchersOf(typeUrl, name);
        for (const watcher of told) watcher.onComplete(typeUrl, name, isProof, status);
        return;
      }
      case 'unavailable':
        this.#watches.tellError(event, event.status ?? unreachable(event.name));
        return;
      case 'shadowed':
        this.#effects.push({ kind: 'group', group: event.group, event });
        return;
      default:
        this.#effects.push({ kind: 'group', group, event });
    }
  }

  #tellGone(
    kind: 'removed' | 'absent',
    typeUrl: string,
    name: ResourceName,
    status?: RpcStatus,
  ): void {
    this.#redirects.handleGone(typeUrl, name);
    this.#reroute(this.#notes.handleGone(typeUrl, name));
    for (const watcher of this.#watches.watchersOf(typeUrl, name)) {
      if (kind === 'removed') watcher.onRemoved(typeUrl, name, status);
      else watcher.onDoesNotExist(typeUrl, name, status);
    }
  }
}
