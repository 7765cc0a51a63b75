/**
 * The whole upstream side as one machine: sources, authorities, groups, and who watches what.
 * Inputs carry the time; `flush` tells watchers and hands out what shells have to do.
 *
 * No re-entrancy: watchers are called only from `flush`, after all state is settled, and may watch
 * and unwatch from there.
 */
import type { AuthorityMap, AuthoritySpec, SourceSpec } from '../../config/model.js';
import { STATUS_CODE } from '../../protos/discovery.js';
import { globKeyOf, type ResourceName } from '../../protos/resource-name.js';
import { TypedMap } from '../../protos/typed-map.js';
import { FileSource, type FileLoad } from './file-source.js';
import { Group, type GroupEvent } from './group.js';
import type { Projection } from './projection.js';
import { candidatesOf, groupIdOf, sameAuthority, sameSource } from './group-plan.js';
import { ManagementServer, type ServerEffect } from './management-server.js';
import type { StreamEnd } from './source-health.js';
import type { Source } from './source.js';
import type { ResourceWatcher } from './watcher.js';

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

interface Watched {
  readonly typeUrl: string;
  readonly name: ResourceName;
  readonly watchers: Set<ResourceWatcher>;
  group: Group | undefined;
}

export class Federation {
  readonly #options: FederationOptions;
  #map: AuthorityMap;
  readonly #servers = new Map<string, ManagementServer>();
  readonly #files = new Map<string, FileSource>();
  readonly #groups = new Map<string, Group>();
  readonly #watched = new TypedMap<Watched>();
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
    this.#makeSources();
  }

  get map(): AuthorityMap {
    return this.#map;
  }

  get groups(): readonly Group[] {
    return [...this.#groups.values()];
  }

  get servers(): readonly ManagementServer[] {
    return [...this.#servers.values()];
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
    let watched = this.#watched.get(typeUrl, name.key);
    if (!watched) {
      watched = { typeUrl, name, watchers: new Set(), group: undefined };
      this.#watched.set(typeUrl, name.key, watched);
    }
    watched.watchers.add(watcher);
    this.#route(watched, nowMs);
  }

  unwatch(typeUrl: string, name: ResourceName, watcher: ResourceWatcher, nowMs: number): void {
    const watched = this.#watched.get(typeUrl, name.key);
    if (!watched?.watchers.delete(watcher) || watched.watchers.size > 0) return;
    this.#watched.delete(typeUrl, name.key);
    this.#unrouted.delete(watched);
    watched.group?.unwant(typeUrl, name, nowMs);
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

  /** The groups that names of this authority fall into, whether watched yet or not. */
  groupsOf(authority: string): readonly Group[] {
    const spec = this.#map.authorities.get(authority);
    if (!spec) return [];
    const ids = new Set([undefined, ...spec.alternatives].map((one) => groupIdOf(spec, one)));
    return [...ids].flatMap((id) => this.#groups.get(id) ?? []);
  }

  groupFor(name: ResourceName): Group | undefined {
    const spec = this.#map.authorities.get(name.authority);
    return spec ? this.#groupOf(spec, name) : undefined;
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
    const replaced = [...this.#groups.values()].filter(
      ({ spec, candidates }) =>
        !sameAuthority(spec, map.authorities.get(spec.name), before, map) ||
        candidates.some(({ source }) => this.source(source.name) !== source),
    );
    for (const group of replaced) this.#replace(group, nowMs);
    for (const watched of this.#watched.values()) {
      if (!watched.group && map.authorities.has(watched.name.authority))
        this.#route(watched, nowMs);
    }
  }

  #replace(group: Group, nowMs: number): void {
    this.#groups.delete(group.id);
    const orphans = [...this.#watched.values()].filter((watched) => watched.group === group);
    group.close(nowMs);
    const spec = this.#map.authorities.get(group.spec.name);
    if (spec) {
      for (const heir of new Set(orphans.map(({ name }) => this.#groupOf(spec, name))))
        heir.adopt(group, (name) => this.#groupOf(spec, name) === heir);
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
    const spec = this.#map.authorities.get(name.authority);
    if (!spec) {
      this.#unrouted.add(watched);
      return;
    }
    this.#unrouted.delete(watched);
    watched.group = this.#groupOf(spec, name);
    watched.group.want(typeUrl, name, nowMs);
  }

  #groupOf(spec: AuthoritySpec, name: ResourceName): Group {
    const alternative = spec.alternatives
      .filter(({ fromPrefix }) => name.id.startsWith(fromPrefix))
      .reduce<AuthoritySpec['alternatives'][number] | undefined>(
        (best, one) => (!best || one.fromPrefix.length > best.fromPrefix.length ? one : best),
        undefined,
      );
    const id = groupIdOf(spec, alternative);
    let group = this.#groups.get(id);
    if (!group) {
      const source = (sourceName: string): Source | undefined => this.source(sourceName);
      group = new Group(id, spec, candidatesOf(spec, alternative, this.#map, source));
      this.#groups.set(id, group);
    }
    return group;
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
    let told = false;
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
      for (const watcher of this.#watchersOf(typeUrl, name)) watcher.onRemoved(typeUrl, name);
    }
    for (const watched of this.#unrouted) {
      told = true;
      this.#unrouted.delete(watched);
      const message = `no authority "${watched.name.authority}" in the authority map`;
      for (const watcher of watched.watchers) {
        watcher.onResourceError(watched.typeUrl, watched.name, {
          code: STATUS_CODE.notFound,
          message,
        });
      }
    }
    return told;
  }

  #tell(group: Group, event: GroupEvent): void {
    switch (event.kind) {
      case 'changed': {
        const { typeUrl, name } = event.projection;
        for (const watcher of this.#watchersOf(typeUrl, name)) watcher.onChanged(event.projection);
        return;
      }
      case 'removed':
        for (const watcher of this.#watchersOf(event.typeUrl, event.name)) {
          watcher.onRemoved(event.typeUrl, event.name);
        }
        return;
      case 'absent':
        for (const watcher of this.#watchersOf(event.typeUrl, event.name)) {
          watcher.onDoesNotExist(event.typeUrl, event.name);
        }
        return;
      case 'complete':
        for (const watcher of this.#watchersOf(event.typeUrl, event.name)) {
          watcher.onComplete(event.typeUrl, event.name);
        }
        return;
      case 'unavailable': {
        const message = `no source of authority "${event.name.authority}" can be reached`;
        for (const watcher of this.#watchersOf(event.typeUrl, event.name)) {
          watcher.onResourceError(event.typeUrl, event.name, {
            code: STATUS_CODE.unavailable,
            message,
          });
        }
        return;
      }
      default:
        this.#effects.push({ kind: 'group', group, event });
    }
  }

  #watchersOf(typeUrl: string, name: ResourceName): Iterable<ResourceWatcher> {
    const exact = this.#watched.get(typeUrl, name.key)?.watchers;
    const globKey = globKeyOf(name);
    const glob = globKey === name.key ? undefined : this.#watched.get(typeUrl, globKey)?.watchers;
    if (!exact || !glob) return [...(exact ?? glob ?? [])];
    return new Set([...exact, ...glob]);
  }
}
