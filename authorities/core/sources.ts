/** The sources of a map: one machine for each directory, and for each (management server, node group). */
import type { AuthorityMap, GrpcSourceSpec, SourceSpec } from '../../config/model.js';
import { COMMON_SCOPE, fieldsOfScope, type ScopeFields } from '../../protos/node-scope.js';
import { FileSource } from './file-source.js';
import { sameSource } from './group-plan.js';
import { ManagementServer, type ServerEffect } from './management-server.js';
import { mayServeOldStyle, scopeAtSource, sourceIdOf } from './node-group.js';
import type { PublishingRights } from './published-name.js';
import type { Source } from './source.js';

export interface SourcesOptions {
  /** The encoded Node for a source, on a stream of its own for this node group. */
  readonly nodeFor: (source: SourceSpec, group: ScopeFields) => Uint8Array;
  readonly maxResourcesPerResponse: number;
  /** In [0, 1). */
  readonly random: () => number;
}

/** What shells do; `source` is the id of one. */
export type SourceEffect =
  | { readonly kind: 'server'; readonly source: string; readonly effect: ServerEffect }
  /** A source of one node group that is not needed any more. */
  | { readonly kind: 'closed'; readonly source: string };

export class Sources {
  readonly #options: SourcesOptions;
  #map: AuthorityMap;
  readonly #servers = new Map<string, ManagementServer>();
  readonly #files = new Map<string, FileSource>();
  /** Of sources that were replaced: late IO of the old one must not pass for the new one's. */
  readonly #lastEpochs = new Map<string, number>();
  /** The same for all sources of node groups, which come and go. */
  #lastGroupEpoch = 0;
  #effects: SourceEffect[] = [];

  constructor(options: SourcesOptions, map: AuthorityMap) {
    this.#options = options;
    this.#map = map;
    this.#make();
  }

  get servers(): IterableIterator<ManagementServer> {
    return this.#servers.values();
  }

  get files(): IterableIterator<FileSource> {
    return this.#files.values();
  }

  /** By id: the name of a source, or what `sourceIdOf` gives. */
  get(id: string): Source | undefined {
    return this.server(id) ?? this.file(id);
  }

  server(id: string): ManagementServer | undefined {
    return this.#servers.get(id);
  }

  file(id: string): FileSource | undefined {
    return this.#files.get(id);
  }

  /** The source that answers a node group, and the scope of the names on its stream. */
  forNodeGroup(
    name: string,
    scope: string,
  ): { readonly source: Source; readonly scope: string } | undefined {
    const spec = this.#map.sources.get(name);
    const at = spec ? scopeAtSource(spec, scope) : COMMON_SCOPE;
    const source = spec?.kind === 'grpc' ? this.#serverOf(spec, at) : this.#files.get(name);
    return source && { source, scope: at };
  }

  reload(map: AuthorityMap, nowMs: number): void {
    const before = this.#map;
    this.#map = map;
    const isSame = (name: string): boolean =>
      sameSource(before.sources.get(name), map.sources.get(name));
    for (const { id, name, health } of [...this.#servers.values()]) {
      if (isSame(name)) continue;
      if (id === name) this.#lastEpochs.set(id, health.epoch);
      this.close(id, 'removed from the map', nowMs);
    }
    for (const name of this.#files.keys()) if (!isSame(name)) this.#files.delete(name);
    this.#make();
    for (const files of this.#files.values()) files.handleMapChanged(nowMs);
  }

  close(id: string, reason: string, nowMs: number): void {
    const server = this.#servers.get(id);
    if (!server) return;
    server.close(reason);
    this.#take(server, nowMs);
    this.#servers.delete(id);
    if (id === server.name) return;
    this.#lastGroupEpoch = Math.max(this.#lastGroupEpoch, server.health.epoch);
    this.#effects.push({ kind: 'closed', source: id });
  }

  takeEffects(nowMs: number): readonly SourceEffect[] {
    for (const server of this.#servers.values()) this.#take(server, nowMs);
    if (this.#effects.length === 0) return [];
    const taken = this.#effects;
    this.#effects = [];
    return taken;
  }

  #take(server: ManagementServer, nowMs: number): void {
    for (const effect of server.takeEffects(nowMs)) {
      this.#effects.push({ kind: 'server', source: server.id, effect });
    }
  }

  #make(): void {
    for (const [name, spec] of this.#map.sources) {
      if (spec.kind === 'grpc') this.#serverOf(spec, COMMON_SCOPE);
      else if (!this.#files.has(name)) {
        this.#files.set(name, new FileSource(name, this.#rightsOf(name, COMMON_SCOPE)));
      }
    }
  }

  /** One stream for each source and node group (invariant 8); the common one is that of xdstp names. */
  #serverOf(spec: GrpcSourceSpec, scope: string): ManagementServer {
    const id = sourceIdOf(spec.name, scope);
    const known = this.#servers.get(id);
    if (known) return known;
    const { nodeFor, ...options } = this.#options;
    const isCommon = scope === COMMON_SCOPE;
    const made = new ManagementServer({
      ...options,
      ...this.#rightsOf(spec.name, scope),
      spec,
      id,
      node: nodeFor(spec, fieldsOfScope(scope)),
      lastEpoch: isCommon ? (this.#lastEpochs.get(id) ?? 0) : this.#lastGroupEpoch,
    });
    this.#servers.set(id, made);
    return made;
  }

  #rightsOf(source: string, scope: string): PublishingRights {
    return {
      mayServe: (authority) =>
        this.#map.authorities.get(authority)?.sources.includes(source) ?? false,
      oldStyle: {
        scope,
        mayServe: (typeUrl) => mayServeOldStyle(this.#map.oldStyle, source, typeUrl),
      },
    };
  }
}
