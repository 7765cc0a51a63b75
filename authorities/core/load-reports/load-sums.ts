/**
 * The loads of all clients for one source, added up until they are reported. Counters start again at
 * zero with each report; gauges stay until their client reports again or leaves. Memory is bounded by a
 * number of entries, because clients choose the localities, endpoints, metrics and categories.
 */
import {
  addCounts,
  type ClusterLoad,
  type ConnectionCounts,
  type EndpointLoad,
  type Locality,
  type LocalityLoad,
  type Metrics,
  type MetricSum,
  type RequestCounts,
  type Utilization,
} from '../../../protos/load-stats.js';
import type { ClientGauges } from './client-gauges.js';

/** Characters of a text, or bytes of an address or metadata, that a client chooses. */
const MAX_TEXT_LENGTH = 1_024;

interface EndpointSum {
  readonly address: Uint8Array;
  metadata: Uint8Array | undefined;
  readonly requests: RequestCounts;
  readonly metrics: Map<string, MetricSum>;
}

interface LocalitySum {
  readonly locality: Locality;
  readonly priority: number;
  readonly requests: RequestCounts;
  readonly connections: ConnectionCounts;
  readonly metrics: Map<string, MetricSum>;
  readonly utilizations: Map<Utilization, MetricSum>;
  readonly endpoints: Map<string, EndpointSum>;
}

interface ClusterSum {
  readonly clusterName: string;
  readonly serviceName: string;
  readonly localities: Map<string, LocalitySum>;
  dropped: number;
  readonly droppedBy: Map<string, number>;
}

export interface LoadSumsOptions {
  /** Clusters, localities, endpoints, metrics and categories together. */
  readonly maxEntries: number;
}

/** The loads that a report shall have; all others are dropped. */
export interface Wanted {
  readonly isAsked: (clusterName: string) => boolean;
  readonly byEndpoint: boolean;
}

export class LoadSums {
  readonly #maxEntries: number;
  readonly #clusters = new Map<string, ClusterSum>();
  #entries = 0;
  #refused = 0;

  constructor({ maxEntries }: LoadSumsOptions) {
    this.#maxEntries = maxEntries;
  }

  /** There is nothing to report, now or later. */
  get isEmpty(): boolean {
    return this.#clusters.size === 0;
  }

  get entryCount(): number {
    return this.#entries;
  }

  /** Entries that were left out since the last call: above the bound, or with a text that is too long. */
  takeRefused(): number {
    const refused = this.#refused;
    this.#refused = 0;
    return refused;
  }

  /**
   * Adds a client's load of one cluster.
   *
   * @param load under the names of the source
   * @param gauges of the client; undefined: `load` is a report that the source did not get, and only
   * its counters count
   */
  add(load: ClusterLoad, byEndpoint: boolean, gauges: ClientGauges | undefined): void {
    const { dropped, droppedBy, localities } = load;
    const loaded = localities.filter((each) => hasLoad(each));
    if (loaded.length === 0 && dropped === 0 && droppedBy.size === 0) return;
    const sum = this.#clusterOf(load);
    if (!sum) return;
    sum.dropped = addCounts(sum.dropped, dropped);
    for (const [category, count] of droppedBy) {
      const before = sum.droppedBy.get(category);
      if (before === undefined && !this.#admit(category)) continue;
      sum.droppedBy.set(category, addCounts(before ?? 0, count));
    }
    for (const each of loaded) this.#addLocality(sum, each, byEndpoint, gauges);
  }

  /**
   * The loads since the last call. Counters start again at zero.
   *
   * @param intervalMs since the last call
   */
  take(intervalMs: number, { isAsked, byEndpoint }: Wanted): readonly ClusterLoad[] {
    const taken: ClusterLoad[] = [];
    for (const [key, sum] of this.#clusters) {
      const { clusterName, serviceName } = sum;
      const localities = [...sum.localities.values()]
        .filter(hasSum)
        .map((each) => copyOf(each, byEndpoint));
      const { dropped } = sum;
      const droppedBy = new Map(sum.droppedBy);
      this.#reset(key, sum);
      const isEmpty = localities.length === 0 && dropped === 0 && droppedBy.size === 0;
      if (isEmpty || !isAsked(clusterName)) continue;
      taken.push({ clusterName, serviceName, localities, dropped, droppedBy, intervalMs });
    }
    return taken;
  }

  /** Drops everything; no gauge of a client counts any more. */
  clear(): void {
    this.#clusters.clear();
    this.#entries = 0;
  }

  #clusterOf({ clusterName, serviceName }: ClusterLoad): ClusterSum | undefined {
    const key = JSON.stringify([clusterName, serviceName]);
    const known = this.#clusters.get(key);
    if (known) return known;
    if (!this.#admit(serviceName)) return undefined;
    const made: ClusterSum = {
      clusterName,
      serviceName,
      localities: new Map(),
      dropped: 0,
      droppedBy: new Map(),
    };
    this.#clusters.set(key, made);
    return made;
  }

  #addLocality(
    cluster: ClusterSum,
    load: LocalityLoad,
    byEndpoint: boolean,
    gauges: ClientGauges | undefined,
  ): void {
    const sum = this.#localityOf(cluster, load);
    if (!sum) return;
    addRequests(sum.requests, load.requests);
    sum.connections.opened = addCounts(sum.connections.opened, load.connections.opened);
    sum.connections.failed = addCounts(sum.connections.failed, load.connections.failed);
    gauges?.add(sum, load);
    this.#addMetrics(sum.metrics, load.metrics);
    for (const [name, metric] of load.utilizations) {
      sum.utilizations.set(name, addMetric(sum.utilizations.get(name), metric));
    }
    if (!byEndpoint) return;
    for (const endpoint of load.endpoints) this.#addEndpoint(sum, endpoint, gauges);
  }

  #localityOf(cluster: ClusterSum, { locality, priority }: LocalityLoad): LocalitySum | undefined {
    const { region, zone, subZone } = locality;
    const key = JSON.stringify([region, zone, subZone, priority]);
    const known = cluster.localities.get(key);
    if (known) return known;
    if (!this.#admit(region, zone, subZone)) return undefined;
    const made: LocalitySum = {
      locality,
      priority,
      requests: { successful: 0, failed: 0, issued: 0, inProgress: 0 },
      connections: { opened: 0, failed: 0, active: 0 },
      metrics: new Map(),
      utilizations: new Map(),
      endpoints: new Map(),
    };
    cluster.localities.set(key, made);
    return made;
  }

  #addEndpoint(
    locality: LocalitySum,
    { address, metadata, requests, metrics }: EndpointLoad,
    gauges: ClientGauges | undefined,
  ): void {
    const key = Buffer.from(address).toString('latin1');
    let sum = locality.endpoints.get(key);
    if (!sum) {
      if (!this.#admit(address, metadata ?? '')) return;
      sum = {
        address,
        metadata,
        requests: { successful: 0, failed: 0, issued: 0, inProgress: 0 },
        metrics: new Map(),
      };
      locality.endpoints.set(key, sum);
    } else if (metadata && metadata.length <= MAX_TEXT_LENGTH) sum.metadata = metadata;
    addRequests(sum.requests, requests);
    gauges?.add(sum, { requests });
    this.#addMetrics(sum.metrics, metrics);
  }

  #addMetrics(sums: Map<string, MetricSum>, metrics: Metrics): void {
    for (const [name, metric] of metrics) {
      const before = sums.get(name);
      if (!before && !this.#admit(name)) continue;
      sums.set(name, addMetric(before, metric));
    }
  }

  /** May another entry with these texts be added? If so, it is counted. */
  #admit(...texts: readonly { readonly length: number }[]): boolean {
    const isShort = texts.every(({ length }) => length <= MAX_TEXT_LENGTH);
    if (isShort && this.#entries < this.#maxEntries) {
      this.#entries++;
      return true;
    }
    this.#refused++;
    return false;
  }

  /** Sets the counters of a cluster to zero, and drops entries without a gauge. */
  #reset(key: string, cluster: ClusterSum): void {
    cluster.dropped = 0;
    this.#entries -= cluster.droppedBy.size;
    cluster.droppedBy.clear();
    for (const [localityKey, locality] of cluster.localities) {
      this.#resetLocality(locality);
      const { requests, connections, endpoints } = locality;
      if (requests.inProgress > 0 || connections.active > 0 || endpoints.size > 0) continue;
      cluster.localities.delete(localityKey);
      this.#entries--;
    }
    if (cluster.localities.size > 0) return;
    this.#clusters.delete(key);
    this.#entries--;
  }

  #resetLocality(locality: LocalitySum): void {
    const { requests, connections, metrics, utilizations, endpoints } = locality;
    resetRequests(requests);
    connections.opened = 0;
    connections.failed = 0;
    this.#entries -= metrics.size;
    metrics.clear();
    utilizations.clear();
    for (const [key, endpoint] of endpoints) {
      resetRequests(endpoint.requests);
      this.#entries -= endpoint.metrics.size;
      endpoint.metrics.clear();
      if (endpoint.requests.inProgress > 0) continue;
      endpoints.delete(key);
      this.#entries--;
    }
  }
}

function addRequests(sum: RequestCounts, requests: Readonly<RequestCounts>): void {
  sum.successful = addCounts(sum.successful, requests.successful);
  sum.failed = addCounts(sum.failed, requests.failed);
  sum.issued = addCounts(sum.issued, requests.issued);
}

function resetRequests(sum: RequestCounts): void {
  sum.successful = 0;
  sum.failed = 0;
  sum.issued = 0;
}

function addMetric(before: MetricSum | undefined, { finished, total }: MetricSum): MetricSum {
  // NaN or an infinity of one client would replace the sum of all.
  const finite = Number.isFinite(total) ? total : 0;
  return {
    finished: addCounts(before?.finished ?? 0, finished),
    total: (before?.total ?? 0) + finite,
  };
}

const hasRequests = ({ successful, failed, issued, inProgress }: RequestCounts): boolean =>
  successful > 0 || failed > 0 || issued > 0 || inProgress > 0;

const hasEndpointLoad = ({ requests, metrics }: EndpointSum): boolean =>
  hasRequests(requests) || metrics.size > 0;

/** Clients also report localities without any load; they need no entry. */
const hasLoad = (load: LocalityLoad): boolean => hasSum(load) || load.endpoints.length > 0;

function hasSum(load: Omit<LocalityLoad, 'endpoints'>): boolean {
  const { requests, connections, metrics, utilizations } = load;
  return (
    hasRequests(requests) ||
    connections.opened > 0 ||
    connections.failed > 0 ||
    connections.active > 0 ||
    metrics.size > 0 ||
    utilizations.size > 0
  );
}

function copyOf(sum: LocalitySum, byEndpoint: boolean): LocalityLoad {
  const endpoints = byEndpoint ? [...sum.endpoints.values()].filter(hasEndpointLoad) : [];
  return {
    locality: sum.locality,
    priority: sum.priority,
    requests: { ...sum.requests },
    connections: { ...sum.connections },
    metrics: new Map(sum.metrics),
    utilizations: new Map(sum.utilizations),
    endpoints: endpoints.map((endpoint) => ({
      address: endpoint.address,
      ...(endpoint.metadata ? { metadata: endpoint.metadata } : {}),
      requests: { ...endpoint.requests },
      metrics: new Map(endpoint.metrics),
    })),
  };
}
