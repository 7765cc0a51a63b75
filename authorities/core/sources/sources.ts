/**
 * The sources of a map: one machine for each directory, and one for each (management server, node
 * group).
 */
import { isDeepStrictEqual } from 'node:util';
import type { AuthorityMap, GrpcSourceSpec, SourceSpec } from '../../../config/model.js';
import { COMMON_SCOPE, type ScopeFields } from '../../../protos/node-scope.js';
import { Agenda } from '../agenda.js';
import { authorityOf } from '../resolution/name-route.js';
import { nodePartOf, type ClientIdentity } from './client-identity.js';
import type { ContentLimits, ContentTotal } from './content-budget.js';
import { FileSource } from './file-source.js';
import {
  ManagementServer,
  type ManagementServerOptions,
  type ServerEffect,
} from './management-server.js';
import {
  configOf,
  leadsOf,
  mayServeOldStyle,
  scopeAtSource,
  scopeOfSource,
  sourceIdOf,
} from './source-ids.js';
import type { PublishingRights } from './published-name.js';
import type { Source } from './source.js';
import { StartPace } from './start-pace.js';

export interface SourcesOptions {
  /** The gateway's encoded Node for a source, with these fields of a node group. */
  readonly nodeFor: (source: SourceSpec, group: ScopeFields) => Uint8Array;
  readonly maxResourcesPerResponse: number;
  /** The portions in which a large response is taken; default: `PORTION_BYTES`. */
  readonly portionBytes?: number;
  /** The bounds of what the gateway keeps of each source; default: none. Directories have none. */
  readonly contentLimits?: ContentLimits;
  readonly contentTotal?: ContentTotal;
  /** In [0, 1). */
  readonly random: () => number;
}

/** Work for the shells; `source` is a source id. */
export type SourceEffect =
  | { readonly kind: 'server'; readonly source: string; readonly effect: ServerEffect }
  /** The source of one node group is no longer needed. */
  | { readonly kind: 'closed'; readonly source: string }
  /** A resource of a directory cannot be served. */
  | {
      readonly kind: 'file_refused';
      readonly source: string;
      readonly name: string;
      readonly reason: string;
    };

type Inherited = Pick<ManagementServerOptions, 'lastEpoch' | 'lostSinceMs'>;
const NOTHING_INHERITED: Inherited = { lastEpoch: 0 };

function inheritedFrom(server: ManagementServer, nowMs: number): Inherited {
  const { live, lostSinceMs } = server.facts();
  return { lastEpoch: server.health.epoch, lostSinceMs: live ? nowMs : lostSinceMs };
}

export class Sources {
  readonly #options: SourcesOptions;
  #map: AuthorityMap;
  /** From each source name of the map to the name whose stream it shares; see `leadsOf`. */
  #leads: ReadonlyMap<string, string>;
  readonly #servers = new Map<string, ManagementServer>();
  readonly #files = new Map<string, FileSource>();
  /** Facts that a source inherits from the one it replaces. Epochs count on, so late IO of the old source is ignored. */
  readonly #replaced = new Map<string, Inherited>();
  /** One epoch for all sources of node groups. A map by source would only grow, since node groups come and go. */
  #lastGroupEpoch = 0;
  /** Of the sources of node groups that the last reload replaced, by id: when they were lost. */
  #lostOfGroups: ReadonlyMap<string, number | undefined> = new Map();
  #effects: SourceEffect[] = [];
  readonly #onInput: (source: Source) => void;
  readonly #agenda = new Agenda<ManagementServer>();
  readonly #touchedFiles = new Set<FileSource>();
  readonly #midResponse = new Set<ManagementServer | FileSource>();
  /** By source: the pace at which its streams start. */
  readonly #paces = new Map<string, StartPace<ManagementServer>>();
  /** The paces of sources with streams that wait for their turn. */
  readonly #crowded = new Set<StartPace<ManagementServer>>();

  /** @param onInput called after each input of a source, which may have changed its facts */
  constructor(options: SourcesOptions, map: AuthorityMap, onInput: (source: Source) => void) {
    this.#options = options;
    this.#onInput = onInput;
    this.#map = map;
    this.#leads = leadsOf(map);
    this.#make();
  }

  get servers(): IterableIterator<ManagementServer> {
    return this.#servers.values();
  }

  /**
   * Directories with an input since the last call. A directory answers within `subscribe`, not by
   * an input of its own.
   */
  takeTouchedFiles(): readonly FileSource[] {
    const taken = [...this.#touchedFiles];
    this.#touchedFiles.clear();
    // A reload may have replaced some.
    return taken.filter((files) => this.#files.get(files.name) === files);
  }

  takeDue(nowMs: number): readonly ManagementServer[] {
    return this.#agenda.beginTurnAndTakeDue(nowMs);
  }

  /** The source that takes the next portion of its response: they take turns. */
  takeMidResponse(): ManagementServer | FileSource | undefined {
    for (const source of this.#midResponse) {
      this.#midResponse.delete(source);
      const { id } = source;
      if ((this.#servers.get(id) ?? this.#files.get(id)) === source) return source;
    }
    return undefined;
  }

  nextDeadlineMs(nowMs: number): number {
    if (this.#midResponse.size > 0) return nowMs;
    let soonestMs = this.#agenda.nextDeadlineMs(nowMs);
    for (const pace of this.#crowded) soonestMs = Math.min(soonestMs, pace.nextDeadlineMs);
    return soonestMs;
  }

  /** @param id the name of a source in the map, or an id from `sourceIdOf` */
  get(id: string): Source | undefined {
    return this.server(id) ?? this.file(id);
  }

  server(id: string): ManagementServer | undefined {
    return this.#servers.get(id) ?? this.#servers.get(this.#leads.get(id) ?? '');
  }

  file(id: string): FileSource | undefined {
    return this.#files.get(id);
  }

  /**
   * The source that serves a node group, and the scope of the names on its stream.
   *
   * @param identity of the clients of the group; undefined: all clients
   */
  forNodeGroup(
    name: string,
    scope: string,
    identity: ClientIdentity | undefined,
  ): { readonly source: Source; readonly scope: string } | undefined {
    const spec = this.#map.sources.get(this.#leads.get(name) ?? name);
    const at = spec ? scopeAtSource(spec, scope) : COMMON_SCOPE;
    const source =
      spec?.kind === 'grpc' ? this.#serverOf(spec, at, identity) : this.#files.get(name);
    return source && { source, scope: at };
  }

  /** @returns the names of either map whose source is replaced, gone or new. */
  reload(map: AuthorityMap, nowMs: number): ReadonlySet<string> {
    const names = new Set([...this.#map.sources.keys(), ...map.sources.keys()]);
    const before = new Map([...names].map((name) => [name, this.get(name)]));
    const specs = this.#map.sources;
    this.#map = map;
    this.#leads = leadsOf(map);
    this.#keep(nowMs);
    for (const name of this.#files.keys()) {
      if (!isDeepStrictEqual(specs.get(name), map.sources.get(name))) this.#files.delete(name);
    }
    this.#make();
    for (const name of this.#paces.keys()) if (!map.sources.has(name)) this.#paces.delete(name);
    for (const [source, files] of this.#files) {
      for (const { name, reason } of files.handleMapChanged(nowMs))
        this.#effects.push({ kind: 'file_refused', source, name, reason });
    }
    return new Set([...names].filter((name) => this.get(name) !== before.get(name)));
  }

  /** Closes the servers that the map no longer has, and gives the others their names in the map. */
  #keep(nowMs: number): void {
    const byConfig = new Map<string, GrpcSourceSpec>();
    for (const name of new Set(this.#leads.values())) {
      const spec = this.#map.sources.get(name);
      if (spec?.kind === 'grpc') byConfig.set(configOf(spec), spec);
    }
    const kept = new Map<string, { server: ManagementServer; spec: GrpcSourceSpec }>();
    const left: ManagementServer[] = [];
    for (const server of this.#servers.values()) {
      if (server.id === server.name) this.#replaced.set(server.id, inheritedFrom(server, nowMs));
      const spec = byConfig.get(configOf(server.spec));
      if (!spec) left.push(server);
      else kept.set(sourceIdOf(spec.name, scopeOfSource(server.id)), { server, spec });
    }
    this.#lostOfGroups = new Map(
      left.map((server) => [server.id, inheritedFrom(server, nowMs).lostSinceMs]),
    );
    for (const server of left) {
      // A kept server takes over this id, so effects of the closed one would reach the wrong shell.
      // They are dropped: on a reload the shell of a replaced machine closes anyway.
      if (kept.has(server.id)) {
        server.close('removed from the map');
        this.#agenda.delete(server);
      } else this.close(server.id, 'removed from the map', nowMs);
    }
    this.#servers.clear();
    for (const [id, { server, spec }] of kept) {
      server.rename(spec, id);
      this.#servers.set(id, server);
    }
  }

  close(id: string, reason: string, nowMs: number): void {
    const server = this.#servers.get(id);
    if (!server) return;
    server.close(reason);
    this.#take(server, nowMs);
    this.#agenda.delete(server);
    this.#servers.delete(id);
    if (id === server.name) return;
    this.#lastGroupEpoch = Math.max(this.#lastGroupEpoch, server.health.epoch);
    this.#effects.push({ kind: 'closed', source: id });
  }

  takeEffects(nowMs: number): readonly SourceEffect[] {
    for (const pace of this.#crowded) {
      for (const server of pace.takeAdmitted(nowMs)) server.handleAdmitted(nowMs);
      if (!pace.hasQueue) this.#crowded.delete(pace);
    }
    for (const server of this.#agenda.takeTouched()) this.#take(server, nowMs);
    if (this.#effects.length === 0) return [];
    const taken = this.#effects;
    this.#effects = [];
    return taken;
  }

  #take(server: ManagementServer, nowMs: number): void {
    for (const effect of server.takeEffects(nowMs)) {
      this.#effects.push({ kind: 'server', source: server.id, effect });
    }
    if (server.hasMore) this.#agenda.touch(server);
  }

  #make(): void {
    for (const [name, spec] of this.#map.sources) {
      if (spec.kind === 'path') {
        if (this.#files.has(name)) continue;
        this.#files.set(name, this.#fileOf(name));
      } else if (this.#leads.get(name) === name) this.#serverOf(spec, COMMON_SCOPE, undefined);
    }
  }

  #fileOf(name: string): FileSource {
    const rights = this.#rightsOf(() => name, COMMON_SCOPE);
    const onInput = (): void => {
      this.#touchedFiles.add(made);
      if (made.isMidResponse) this.#midResponse.add(made);
      this.#onInput(made);
    };
    const made: FileSource = new FileSource(name, rights, onInput, this.#options.portionBytes);
    return made;
  }

  /**
   * One stream for each source and node group (invariant 8). The stream of the common scope carries
   * the xdstp names.
   */
  #serverOf(
    spec: GrpcSourceSpec,
    scope: string,
    identity: ClientIdentity | undefined,
  ): ManagementServer {
    const id = sourceIdOf(spec.name, scope);
    const known = this.#servers.get(id);
    if (known) return known;
    const options = this.#options;
    const isCommon = scope === COMMON_SCOPE;
    const pace = this.#paceOf(spec.name);
    const made: ManagementServer = new ManagementServer({
      ...options,
      ...this.#rightsOf(() => made.name, scope),
      spec,
      id,
      node: this.#nodeOf(spec, isCommon ? undefined : identity),
      mayStart: (isKnown, nowMs) => {
        const isAdmitted = pace.admit(made, isKnown, nowMs);
        if (!isAdmitted) this.#crowded.add(pace);
        return isAdmitted;
      },
      onStartEnded: () => {
        pace.leave(made);
      },
      onInput: () => {
        // A closed server still receives unsubscribes, when another one may have its id.
        if (this.#servers.get(made.id) !== made) return;
        this.#agenda.touch(made);
        if (made.isMidResponse) this.#midResponse.add(made);
        this.#onInput(made);
      },
      ...(isCommon
        ? (this.#replaced.get(id) ?? NOTHING_INHERITED)
        : { lastEpoch: this.#lastGroupEpoch, lostSinceMs: this.#lostOfGroups.get(id) }),
    });
    this.#servers.set(id, made);
    return made;
  }

  #paceOf(name: string): StartPace<ManagementServer> {
    const pace = this.#paces.get(name) ?? new StartPace();
    this.#paces.set(name, pace);
    return pace;
  }

  /** @param identity undefined: the stream serves no particular group */
  #nodeOf(spec: GrpcSourceSpec, identity: ClientIdentity | undefined): Uint8Array {
    const { nodeFor } = this.#options;
    if (!identity) return nodeFor(spec, {});
    /* c8 ignore next -- only maps that serve old-style names have node groups */
    const part = nodePartOf(spec, identity, this.#map.oldStyle?.differBy ?? []);
    return 'whole' in part ? part.whole : nodeFor(spec, part.fields);
  }

  /**
   * The rights of all names of a source together.
   *
   * @param lead the first of these names, in the map at the time of the call
   */
  #rightsOf(lead: () => string, scope: string): PublishingRights {
    const isOne = (name: string): boolean => this.#leads.get(name) === lead();
    return {
      mayServe: (authority) => authorityOf(this.#map, authority)?.sources.some(isOne) ?? false,
      oldStyle: {
        scope,
        mayServe: (typeUrl) => mayServeOldStyle(this.#map.oldStyle, isOne, typeUrl),
      },
    };
  }
}
