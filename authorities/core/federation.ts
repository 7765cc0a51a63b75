/**
 * The whole upstream side as one machine: sources, authorities, groups, and who watches what.
 * Inputs carry the time; `flush` tells watchers and hands out what shells have to do.
 *
 * No re-entrancy: watchers are called only from `flush`, after all state is settled, and may watch
 * and unwatch from there.
 */
import type { AuthorityMap, SourceSpec } from '../../config/model.js';
import { STATUS_CODE, type RpcStatus } from '../../protos/discovery.js';
import type { ResourceName } from '../../protos/resource-name.js';
import { TYPE_URL_PREFIX } from '../../protos/type-urls.js';
import { AlternativeNotes } from './alternative-notes.js';
import { FileSource, type FileLoad } from './file-source.js';
import { Group, type GroupEvent } from './group.js';
import type { Projection } from './projection.js';
import { candidatesOf, sameAuthority, sameSource } from './group-plan.js';
import type { Hop } from './hops.js';
import { Lists } from './lists.js';
import { NamePairs } from './name-pairs.js';
import { mayLead, routeOf, type NameRoute } from './name-route.js';
import { Redirects, type LinkPort } from './redirects.js';
import { revalidate } from './revalidation.js';
import { ManagementServer, type ServerEffect } from './management-server.js';
import type { StreamEnd } from './source-health.js';
import type { Source } from './source.js';
import type { ResourceWatcher } from './watcher.js';
import { Watches, type Watched } from './watches.js';

export interface FederationOptions {
  readonly map: AuthorityMap;
  /** The encoded Node for a source. */
  readonly nodeFor: (source: SourceSpec) => Uint8Array;
  readonly maxResourcesPerResponse: number;
  /** In [0, 1). */
  readonly random: () => number;
}

/** What the shells do and what telemetry tells, in order. */
export type FederationEffect =
  | { readonly kind: 'server'; readonly source: string; readonly effect: ServerEffect }
  | { readonly kind: 'group'; readonly group: Group; readonly event: GroupEvent }
  | {
      readonly kind: 'file_refused';
      readonly source: string;
      readonly name: string;
      readonly reason: string;
    };

export class Federation {
  readonly #options: FederationOptions;
  #map: AuthorityMap;
  readonly #servers = new Map<string, ManagementServer>();
  readonly #files = new Map<string, FileSource>();
  readonly #groups = new Map<string, Group>();
  /** Of groups whose names have alternatives of their own. */
  readonly #pairs = new Map<string, NamePairs>();
  readonly #watches = new Watches();
  readonly #redirects: Redirects;
  readonly #lists: Lists;
  readonly #notes = new AlternativeNotes();
  /** Watches of lists, and entries of lists, to be answered at the next flush. */
  readonly #askedOfLists = new Set<Watched>();
  /** The map allows other hops than before; seen to at the next flush. */
  #rulesChanged = false;
  #nowMs = 0;
  /** Watches of authorities that the map does not have, to be refused at the next flush. */
  readonly #unrouted = new Set<Watched>();
  /** What an authority served that the map no longer has, to be told at the next flush. */
  #lost: Projection[] = [];
  /** Of sources that were replaced: late IO of the old one must not pass for the new one's. */
  readonly #lastEpochs = new Map<string, number>();
  #effects: FederationEffect[] = [];

  constructor(options: FederationOptions) {
    this.#options = options;
    this.#map = options.map;
    const port: LinkPort = {
      watch: (typeUrl, name, watcher) => {
        this.watch(typeUrl, name, watcher, this.#nowMs);
      },
      unwatch: (typeUrl, name, watcher) => {
        this.unwatch(typeUrl, name, watcher, this.#nowMs);
      },
      watchersOf: (typeUrl, name) => this.#watches.watchersOf(typeUrl, name),
      mayLead: (from, to) => mayLead(this.#map, from, to),
    };
    this.#redirects = new Redirects(port);
    this.#lists = new Lists(port);
    this.#makeSources();
  }

  get map(): AuthorityMap {
    return this.#map;
  }

  get groups(): readonly Group[] {
    return [...this.#groups.values()];
  }

  source(name: string): Source | undefined {
    return this.#servers.get(name) ?? this.#files.get(name);
  }

  /** Does the present map have this source just as this spec says? */
  keepsSource(name: string, spec: SourceSpec): boolean {
    return sameSource(spec, this.#map.sources.get(name));
  }

  // ---- demand -------------------------------------------------------------------------------

  watch(typeUrl: string, name: ResourceName, watcher: ResourceWatcher, nowMs: number): void {
    const watched = this.#watches.add(typeUrl, name, watcher);
    if (this.#lists.isOurs(typeUrl, name)) this.#askedOfLists.add(watched);
    else this.#route(watched, nowMs);
  }

  unwatch(typeUrl: string, name: ResourceName, watcher: ResourceWatcher, nowMs: number): void {
    const watched = this.#watches.delete(typeUrl, name, watcher);
    if (!watched) return;
    this.#unrouted.delete(watched);
    this.#nowMs = nowMs;
    if (this.#lists.isOurs(typeUrl, name)) {
      this.#askedOfLists.delete(watched);
      this.#lists.handleUnwatched(typeUrl, name);
      return;
    }
    this.#leave(watched, nowMs);
    const isAsked = (member: ResourceName): boolean => this.#watches.covers(typeUrl, member);
    this.#redirects.handleUnwatched(typeUrl, name, isAsked);
    this.#reroute(this.#notes.handleUnwatched((type, held) => this.#watches.covers(type, held)));
  }

  // ---- inputs -------------------------------------------------------------------------------

  handleMessage(source: string, epoch: number, bytes: Uint8Array, nowMs: number): void {
    const server = this.#servers.get(source);
    if (!server) return;
    server.handleMessage(epoch, bytes, nowMs);
    this.#dispatch(server, nowMs);
  }

  handleEnded(source: string, epoch: number, end: StreamEnd, nowMs: number): void {
    const server = this.#servers.get(source);
    if (!server) return;
    server.handleEnded(epoch, end, nowMs);
    this.#dispatch(server, nowMs);
  }

  handleLoaded(source: string, load: FileLoad): void {
    const files = this.#files.get(source);
    if (!files) return;
    for (const { name, reason } of files.handleLoaded(load)) {
      this.#effects.push({ kind: 'file_refused', source, name, reason });
    }
    this.#dispatch(files, load.nowMs);
  }

  /** A directory of resources is not there, or may not be read. */
  handleUnreadable(source: string, nowMs: number): void {
    const files = this.#files.get(source);
    if (!files) return;
    files.handleUnreadable();
    this.#dispatch(files, nowMs);
  }

  handleTimer(nowMs: number): void {
    for (const server of this.#servers.values()) {
      server.handleTimer(nowMs);
      this.#dispatch(server, nowMs);
    }
    for (const group of this.#groups.values()) group.handleTimer(nowMs);
  }

  nextDeadlineMs(nowMs: number): number | undefined {
    let soonest: number | undefined;
    const machines = [...this.#servers.values(), ...this.#groups.values()];
    for (const machine of machines) {
      const atMs = machine.nextDeadlineMs(nowMs);
      if (atMs !== undefined && (soonest === undefined || atMs < soonest)) soonest = atMs;
    }
    return soonest;
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

  /** The groups that names of this authority fall into, whether watched yet or not. */
  groupsOf(authority: string): readonly Group[] {
    return [...this.#groups.values()].filter(({ spec }) => spec.name === authority);
  }

  groupFor(name: ResourceName): Group | undefined {
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
    for (const [name, server] of this.#servers) {
      if (sameSource(before.sources.get(name), map.sources.get(name))) continue;
      server.close();
      this.#takeServerEffects(server, nowMs);
      this.#lastEpochs.set(name, server.health.epoch);
      this.#servers.delete(name);
    }
    for (const name of this.#files.keys()) {
      if (!sameSource(before.sources.get(name), map.sources.get(name))) this.#files.delete(name);
    }
    this.#makeSources();
    for (const files of this.#files.values()) files.handleMapChanged(nowMs);
    const replaced = [...this.#groups.values()].filter((group) => {
      const { spec, candidates } = group;
      const others = new Set(candidates.map(({ authority }) => authority));
      return (
        !sameAuthority(spec, [...others], before, map) ||
        candidates.some(({ source }) => this.source(source.name) !== source) ||
        // An alternative that could not be used may be allowed now.
        this.#pairs.has(group.id)
      );
    });
    for (const group of replaced) this.#replace(group, nowMs);
    for (const watched of this.#watches.values()) {
      const isRouted = watched.group ?? !map.authorities.has(watched.name.authority);
      if (isRouted || this.#lists.isOurs(watched.typeUrl, watched.name)) continue;
      this.#route(watched, nowMs);
    }
    this.#rulesChanged = true;
  }

  #replace(group: Group, nowMs: number): void {
    this.#groups.delete(group.id);
    this.#pairs.delete(group.id);
    const orphans = [...this.#watches.values()].filter((watched) => watched.group === group);
    group.close(nowMs);
    if (this.#map.authorities.has(group.spec.name)) {
      const heirs = new Set(orphans.flatMap(({ name }) => this.groupFor(name) ?? []));
      for (const heir of heirs) heir.adopt(group, (name) => this.groupFor(name) === heir);
    } else {
      // The right to all of it is lost.
      this.#lost.push(...group.servedResources());
    }
    for (const watched of orphans) {
      watched.group = undefined;
      this.#route(watched, nowMs);
    }
  }

  #makeSources(): void {
    for (const [name, spec] of this.#map.sources) {
      const mayServe = (authority: string): boolean =>
        this.#map.authorities.get(authority)?.sources.includes(name) ?? false;
      if (spec.kind === 'path') {
        if (!this.#files.has(name)) this.#files.set(name, new FileSource(name, mayServe));
      } else if (!this.#servers.has(name)) {
        const { maxResourcesPerResponse, random, nodeFor } = this.#options;
        const node = nodeFor(spec);
        const lastEpoch = this.#lastEpochs.get(name) ?? 0;
        const options = { spec, node, mayServe, maxResourcesPerResponse, random, lastEpoch };
        this.#servers.set(name, new ManagementServer(options));
      }
    }
  }

  // ---- routing ------------------------------------------------------------------------------

  #route(watched: Watched, nowMs: number): void {
    const { typeUrl, name } = watched;
    const route = this.#routeOf(name);
    if (!route) {
      this.#unrouted.add(watched);
      return;
    }
    this.#unrouted.delete(watched);
    const group = this.#groupOf(route);
    if (route.chain && watched.group !== group) this.#pairs.get(group.id)?.add(name, route.chain);
    watched.group = group;
    group.want(typeUrl, name, nowMs);
  }

  #leave({ typeUrl, name, group }: Watched, nowMs: number): void {
    if (!group) return;
    group.unwant(typeUrl, name, nowMs);
    this.#pairs.get(group.id)?.delete(name);
  }

  #routeOf(name: ResourceName): NameRoute | undefined {
    return routeOf(this.#map, name, this.#notes.alternativeOf(name.key));
  }

  #groupOf(route: NameRoute): Group {
    const id = route.groupId;
    let group = this.#groups.get(id);
    if (!group) {
      const source = (sourceName: string): Source | undefined => this.source(sourceName);
      const pairs = route.chain && new NamePairs(route.chain.length);
      if (pairs) this.#pairs.set(id, pairs);
      group = new Group(id, route.spec, candidatesOf(route, pairs, this.#map, source));
      this.#groups.set(id, group);
    }
    return group;
  }

  /** The alternative that references give to these names is another one now. */
  #reroute(names: readonly ResourceName[]): void {
    for (const name of names) {
      const watched = this.#watches.get(TYPE_URL_PREFIX + name.resourceType, name.key);
      const before = watched?.group;
      const route = this.#routeOf(name);
      if (!watched || !before || !route) continue;
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
        if (listener instanceof Group) listener.handleChange(source, change, nowMs);
      }
    }
    for (const group of this.#groups.values()) {
      if (group.candidates.some((candidate) => candidate.source === source)) {
        group.handleTimer(nowMs);
      }
    }
  }

  // ---- outputs ------------------------------------------------------------------------------

  /** Tells watchers, and returns what is left for shells and telemetry, in order. */
  flush(nowMs: number): readonly FederationEffect[] {
    this.#nowMs = nowMs;
    for (;;) {
      for (const server of this.#servers.values()) this.#takeServerEffects(server, nowMs);
      // A directory answers while it is asked.
      for (const files of this.#files.values()) this.#dispatch(files, nowMs);
      const told = this.#tellWatchers();
      if (!told) break;
    }
    const taken = this.#effects;
    this.#effects = [];
    return taken;
  }

  #takeServerEffects(server: ManagementServer, nowMs: number): void {
    for (const effect of server.takeEffects(nowMs)) {
      this.#effects.push({ kind: 'server', source: server.name, effect });
    }
  }

  #tellWatchers(): boolean {
    let told = this.#answerLists();
    for (const group of this.#groups.values()) {
      for (const event of group.takeEvents()) {
        told = true;
        this.#tell(group, event);
      }
    }
    const lost = this.#lost;
    this.#lost = [];
    for (const { typeUrl, name } of lost) {
      told = true;
      this.#tellGone('removed', typeUrl, name);
    }
    for (const watched of this.#unrouted) {
      told = true;
      this.#unrouted.delete(watched);
      const message = `no authority "${watched.name.authority}" in the authority map`;
      this.#tellError(watched.typeUrl, watched.name, STATUS_CODE.notFound, message);
    }
    return told;
  }

  #answerLists(): boolean {
    const asked = [...this.#askedOfLists];
    this.#askedOfLists.clear();
    for (const { typeUrl, name } of asked) this.#lists.handleWatched(typeUrl, name);
    const rulesChanged = this.#rulesChanged;
    this.#rulesChanged = false;
    if (rulesChanged) {
      this.#redirects.handleRulesChanged();
      this.#lists.handleRulesChanged();
    }
    return rulesChanged || asked.length > 0;
  }

  #tell(group: Group, event: GroupEvent): void {
    switch (event.kind) {
      case 'changed': {
        const { projection } = event;
        const { typeUrl, name } = projection;
        this.#reroute(this.#notes.handleChanged(projection));
        if (this.#redirects.handleChanged(projection)) return;
        for (const watcher of this.#watches.watchersOf(typeUrl, name)) {
          watcher.onChanged(projection);
        }
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
        for (const watcher of this.#watches.watchersOf(typeUrl, name)) {
          watcher.onComplete(typeUrl, name, isProof, status);
        }
        return;
      }
      case 'unavailable': {
        const { typeUrl, name } = event;
        const message = `no source of authority "${name.authority}" can be reached`;
        this.#tellError(typeUrl, name, STATUS_CODE.unavailable, message);
        return;
      }
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

  #tellError(typeUrl: string, name: ResourceName, code: number, message: string): void {
    for (const watcher of this.#watches.watchersOf(typeUrl, name)) {
      watcher.onResourceError(typeUrl, name, { code, message });
    }
  }
}
