/**
 * Load reports (LRS): adds up the loads that clients report, gives each source those of the clusters that
 * it serves, and tells clients which loads the sources ask for. Bulk machine without IO: inputs carry the
 * time, and `takeEffects` returns the work for the shell.
 */
import { isDeepStrictEqual } from 'node:util';
import type { ClusterLoad, LoadStatsResponse } from '../../../protos/load-stats.js';
import { COMMON_SCOPE } from '../../../protos/node-scope.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import { ManagementServer } from '../sources/management-server.js';
import { scopeOfSource } from '../sources/source-ids.js';
import type { StreamEnd } from '../sources/source-health.js';
import { Agenda } from '../agenda.js';
import type { Federation } from '../federation.js';
import { ClientGauges } from './client-gauges.js';
import { clientNamesOf, clusterOwner, type ServingView } from './cluster-owner.js';
import { SourceLoads, type LoadAsk, type LoadEffect } from './source-loads.js';

/** The part of the federation that load reports use. */
export type LoadReportsView = ServingView & Pick<Federation, 'servers' | 'source'>;

export interface LoadReportsOptions {
  readonly view: LoadReportsView;
  /** Entries of the sums for one source: see `LoadSums`. */
  readonly maxEntriesPerSource: number;
  /** In [0, 1). */
  readonly random: () => number;
}

/** One client, from the first request of its stream to its end. */
export interface LoadReporter {
  /** The scope of its old-style names; undefined: it has none. */
  readonly scope: string | undefined;
  /** `wanted` may have changed. */
  readonly onWanted: () => void;
}

/** The loads to ask of a client. `pending`: a source may answer soon; ask again at `untilMs`. */
export type WantedLoads =
  | { readonly kind: 'pending'; readonly untilMs: number }
  | { readonly kind: 'known'; readonly asked: LoadStatsResponse };

/** A cluster in a client's report. */
export interface ReportedCluster {
  readonly name: ResourceName;
  readonly load: ClusterLoad;
}

/** An effect, and the loads of the source that it belongs to. */
export interface SourceLoadEffect {
  readonly loads: SourceLoads;
  readonly effect: LoadEffect;
}

/**
 * The interval while no source asks for loads. grpc-go keeps the interval of the first response for ever,
 * so this interval also has to suit a source that asks later. Milliseconds.
 */
const IDLE_INTERVAL_MS = 60_000;

/**
 * If sources name more than this, clients are asked for all clusters, and the gateway drops the others:
 * gRPC clients refuse a response of 4 MiB. Characters.
 */
const MAX_NAMES_LENGTH = 500_000;

const NOTHING: LoadStatsResponse = {
  clusters: [],
  intervalMs: IDLE_INTERVAL_MS,
  byEndpoint: false,
};

/** What the sources of one scope ask for together. */
interface Merged {
  /** Until when a source may still answer first. */
  readonly untilMs: number;
  readonly asked: LoadStatsResponse;
}

export class LoadReports {
  readonly #options: LoadReportsOptions;
  readonly #sources = new Map<ManagementServer, SourceLoads>();
  readonly #agenda = new Agenda<SourceLoads>();
  readonly #clients = new Map<LoadReporter, ClientGauges>();
  /** Number of clients by scope. */
  readonly #scopes = new Map<string, number>();
  /** By scope of the clients. */
  readonly #merged = new Map<string | undefined, Merged>();
  /** Scopes in which a source may ask for something else than `#merged` says; common: in all. */
  readonly #stale = new Set<string>();

  constructor(options: LoadReportsOptions) {
    this.#options = options;
  }

  get clientCount(): number {
    return this.#clients.size;
  }

  /** Sources whose loads some client has been asked for or has reported. */
  get sources(): ReadonlyMap<ManagementServer, SourceLoads> {
    return this.#sources;
  }

  open(reporter: LoadReporter, nowMs: number): void {
    this.#clients.set(reporter, new ClientGauges());
    const { scope } = reporter;
    const isNew = this.#clients.size === 1 || (scope !== undefined && !this.#scopes.has(scope));
    if (scope !== undefined) this.#scopes.set(scope, (this.#scopes.get(scope) ?? 0) + 1);
    if (isNew) this.#updateAll(nowMs);
  }

  close(reporter: LoadReporter, nowMs: number): void {
    const gauges = this.#clients.get(reporter);
    if (!gauges) return;
    gauges.clear();
    this.#clients.delete(reporter);
    const isLast = this.#clients.size === 0;
    if (this.#leaveScope(reporter.scope) || isLast) this.#updateAll(nowMs);
  }

  /**
   * Takes a client's report. It replaces the gauges of the client's report before.
   *
   * @returns the names of clusters that no source serves: their loads are dropped
   */
  report(
    reporter: LoadReporter,
    clusters: readonly ReportedCluster[],
    goesOn: boolean,
    nowMs: number,
  ): readonly ResourceName[] {
    const gauges = this.#clients.get(reporter);
    if (!gauges) return [];
    if (!goesOn) gauges.clear();
    const unknown: ResourceName[] = [];
    for (const { name, load } of clusters) {
      const owner = clusterOwner(this.#options.view, name, load.serviceName);
      if (!owner) unknown.push(name);
      // A directory takes no reports.
      else if (owner.source instanceof ManagementServer) {
        const { clusterName, serviceName } = owner;
        const loads = this.#loadsOf(owner.source, nowMs);
        loads.add({ ...load, clusterName, serviceName }, gauges);
        this.#agenda.touch(loads);
      }
    }
    return unknown;
  }

  /** The loads to ask of a client with this scope: the union of what the sources ask for. */
  wanted(scope: string | undefined, nowMs: number): WantedLoads {
    let merged = this.#merged.get(scope);
    if (!merged) this.#merged.set(scope, (merged = this.#merge(scope)));
    const { untilMs, asked } = merged;
    return untilMs > nowMs ? { kind: 'pending', untilMs } : { kind: 'known', asked };
  }

  /** The xDS stream of a source went up or down, or the source is gone. */
  handleSource(source: ManagementServer, nowMs: number): void {
    const known = this.#sources.get(source);
    if (this.#options.view.source(source.id) !== source) {
      if (known) this.#forget(source, known);
    } else if (known) {
      known.update(this.#hasClients(source), nowMs);
      this.#touch(known);
    } else if (this.#hasClients(source) && source.health.kind === 'live') {
      this.#loadsOf(source, nowMs);
    }
  }

  /** A new map: sources may be gone, and names may have other sources. */
  handleMapChanged(nowMs: number): void {
    this.#updateAll(nowMs);
    this.#stale.add(COMMON_SCOPE);
  }

  handleMessage(loads: SourceLoads, call: number, bytes: Uint8Array, nowMs: number): void {
    loads.handleMessage(call, bytes, nowMs);
    this.#touch(loads);
  }

  handleWritten(loads: SourceLoads, call: number, nowMs: number): void {
    loads.handleWritten(call, nowMs);
    this.#agenda.touch(loads);
  }

  handleEnded(loads: SourceLoads, call: number, end: StreamEnd, nowMs: number): void {
    loads.handleEnded(call, end, nowMs);
    this.#touch(loads);
  }

  handleTimer(nowMs: number): void {
    for (const loads of this.#agenda.beginTurnAndTakeDue(nowMs)) {
      const { ask, awaitedUntilMs } = loads;
      loads.handleTimer(nowMs);
      // Redirects may have changed the names under which clients hold the clusters that it names.
      const isSame = loads.ask === ask && loads.awaitedUntilMs === awaitedUntilMs && !ask?.names;
      if (isSame) this.#agenda.touch(loads);
      else this.#touch(loads);
    }
  }

  nextDeadlineMs(nowMs: number): number {
    return this.#agenda.nextDeadlineMs(nowMs);
  }

  /** The gateway stops: reports all waiting loads at once. */
  finish(nowMs: number): void {
    for (const loads of this.#sources.values()) {
      loads.finish(nowMs);
      this.#agenda.touch(loads);
    }
  }

  takeEffects(): readonly SourceLoadEffect[] {
    return this.#agenda
      .takeTouched()
      .flatMap((loads) => loads.takeEffects().map((effect) => ({ loads, effect })));
  }

  /** The clients for which `wanted` has changed. */
  takeNotified(): readonly LoadReporter[] {
    if (this.#stale.size === 0) return [];
    const stale = new Set(this.#stale);
    this.#stale.clear();
    const changed = new Set<string | undefined>();
    for (const [scope, before] of [...this.#merged]) {
      if (!stale.has(COMMON_SCOPE) && !stale.has(scope ?? COMMON_SCOPE)) continue;
      const now = this.#merge(scope);
      this.#merged.set(scope, now);
      if (!isDeepStrictEqual(now, before)) changed.add(scope);
    }
    if (changed.size === 0) return [];
    return [...this.#clients.keys()].filter(({ scope }) => changed.has(scope));
  }

  /** An input that may change what the source asks for. */
  #touch(loads: SourceLoads): void {
    this.#agenda.touch(loads);
    this.#stale.add(scopeOfSource(loads.source.id));
  }

  #updateAll(nowMs: number): void {
    const known = new Set([...this.#sources.keys(), ...this.#options.view.servers]);
    for (const source of known) this.handleSource(source, nowMs);
  }

  /** @returns whether the scope has no more clients */
  #leaveScope(scope: string | undefined): boolean {
    if (scope === undefined) return false;
    /* c8 ignore next -- a known client was counted in its scope */
    const left = (this.#scopes.get(scope) ?? 0) - 1;
    if (left > 0) this.#scopes.set(scope, left);
    else this.#scopes.delete(scope);
    if (left <= 0) this.#merged.delete(scope);
    return left <= 0;
  }

  /** Does a source's stream serve clients that report loads? */
  #hasClients(source: ManagementServer): boolean {
    const scope = scopeOfSource(source.id);
    return scope === COMMON_SCOPE ? this.#clients.size > 0 : this.#scopes.has(scope);
  }

  #loadsOf(source: ManagementServer, nowMs: number): SourceLoads {
    let loads = this.#sources.get(source);
    if (!loads) {
      const { maxEntriesPerSource: maxEntries, random } = this.#options;
      loads = new SourceLoads({ source, maxEntries, random }, nowMs);
      this.#sources.set(source, loads);
      loads.update(this.#hasClients(source), nowMs);
      this.#touch(loads);
    }
    return loads;
  }

  /** Loads that wait for a source that no longer exists are dropped. */
  #forget(source: ManagementServer, loads: SourceLoads): void {
    this.#sources.delete(source);
    this.#agenda.delete(loads);
    this.#stale.add(scopeOfSource(source.id));
  }

  #merge(scope: string | undefined): Merged {
    let untilMs = 0;
    const asks: LoadAsk[] = [];
    const names = new Set<string>();
    for (const [source, { ask, awaitedUntilMs }] of this.#sources) {
      const own = scopeOfSource(source.id);
      if (own !== COMMON_SCOPE && own !== scope) continue;
      untilMs = Math.max(untilMs, awaitedUntilMs ?? 0);
      if (!ask) continue;
      asks.push(ask);
      for (const name of clientNamesOf(this.#options.view, source, ask.names ?? [])) {
        names.add(name);
      }
    }
    if (asks.length === 0) return { untilMs, asked: NOTHING };
    const length = [...names].reduce((sum, name) => sum + name.length, 0);
    const isAll = length > MAX_NAMES_LENGTH || asks.some((ask) => ask.names === undefined);
    return {
      untilMs,
      asked: {
        clusters: isAll ? 'all' : [...names].sort(),
        intervalMs: Math.min(...asks.map(({ response }) => response.intervalMs)),
        byEndpoint: asks.some(({ response }) => response.byEndpoint),
      },
    };
  }
}
