/**
 * One client's stream of load reports: asks the client for the loads that the sources ask for, and passes
 * its reports on.
 */
import { isDeepStrictEqual } from 'node:util';
import type { LoadReporter, ReportedCluster, WantedLoads } from '../../../authorities/index.js';
import { encodeLoadStatsResponse } from '../../../protos/load-stats-codec.js';
import type { ClusterLoad, LoadStatsResponse } from '../../../protos/load-stats.js';
import { wireText, type ResourceName } from '../../../protos/resource-name.js';
import { TYPE_URL } from '../../../protos/type-urls.js';
import { NameReader, type ClientScope } from '../session/asked-name.js';

/** The load reports of all clients. */
export interface LoadReportsPort {
  open(reporter: LoadReporter): void;
  /**
   * @param goesOn these are further clusters of the report before
   * @returns the names of clusters that no source serves: their loads are dropped
   */
  report(
    reporter: LoadReporter,
    clusters: readonly ReportedCluster[],
    goesOn: boolean,
  ): readonly ResourceName[];
  leave(reporter: LoadReporter): void;
  wanted(scope: string | undefined): WantedLoads;
}

export interface LoadReportSessionOptions {
  readonly loads: LoadReportsPort;
  /** Of the client's old-style names. */
  readonly scope: ClientScope;
  /**
   * Whether the client may be asked for the loads of single endpoints. Not gRPC's libraries: they have
   * none, and old versions of grpc-go end the stream.
   */
  readonly mayAskByEndpoint: boolean;
  /** The parsed name with this key, if a client subscribes to it. */
  readonly knownName: (typeUrl: string, key: string) => ResourceName | undefined;
  /** Called when `poll` may have a response. */
  readonly onReady: () => void;
}

/** Handled in one step: some milliseconds. A count. */
const CLUSTERS_PER_PORTION = 500;

export class LoadReportSession {
  readonly #options: LoadReportSessionOptions;
  readonly #names: NameReader;
  readonly #reporter: LoadReporter;
  #asked: LoadStatsResponse | undefined;
  #untilMs: number | undefined;

  constructor(options: LoadReportSessionOptions) {
    this.#options = options;
    const { scope, knownName, onReady, loads } = options;
    this.#names = new NameReader(() => scope, knownName);
    const ownScope = scope.kind === 'scope' ? scope.scope : undefined;
    this.#reporter = { scope: ownScope, onWanted: onReady };
    loads.open(this.#reporter);
  }

  get scope(): ClientScope {
    return this.#options.scope;
  }

  /** When to call `poll` again if nothing changes before. */
  get nextDeadlineMs(): number | undefined {
    return this.#untilMs;
  }

  /**
   * Each step handles a portion of the clusters.
   *
   * @returns the names of reported clusters that no source serves
   */
  *handleReport(clusters: readonly ClusterLoad[]): Generator<unknown, readonly string[], unknown> {
    const unknown: string[] = [];
    for (let from = 0; from === 0 || from < clusters.length; from += CLUSTERS_PER_PORTION) {
      if (from > 0) yield;
      const known: ReportedCluster[] = [];
      for (const load of clusters.slice(from, from + CLUSTERS_PER_PORTION)) {
        const asked = this.#names.read(TYPE_URL.cluster, load.clusterName);
        if (asked.ok) known.push({ name: asked.name, load });
        else unknown.push(load.clusterName);
      }
      const unserved = this.#options.loads.report(this.#reporter, known, from > 0);
      for (const { key } of unserved) unknown.push(wireText(key));
    }
    return unknown;
  }

  /** The next response, or undefined until something changes or `nextDeadlineMs`. */
  poll(): Uint8Array | undefined {
    const { loads, mayAskByEndpoint } = this.#options;
    const wanted = loads.wanted(this.#reporter.scope);
    this.#untilMs = undefined;
    if (wanted.kind === 'pending') {
      this.#untilMs = wanted.untilMs;
      return undefined;
    }
    const byEndpoint = wanted.asked.byEndpoint && mayAskByEndpoint;
    const asked = { ...wanted.asked, byEndpoint };
    if (isDeepStrictEqual(asked, this.#asked)) return undefined;
    this.#asked = asked;
    return encodeLoadStatsResponse(asked);
  }

  close(): void {
    this.#options.loads.leave(this.#reporter);
  }
}
