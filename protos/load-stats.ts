/**
 * The messages of the load reporting service (`envoy.service.load_stats.v3`), as far as the gateway adds
 * them up. Counts are whole numbers up to `MAX_COUNT`: larger ones on the wire count as `MAX_COUNT`.
 */

export const LOAD_STATS_PATH = '/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats';

/** A Node with this client feature understands `send_all_clusters` (lrs.proto). */
export const SEND_ALL_CLUSTERS_FEATURE = 'envoy.lrs.supports_send_all_clusters';

/** A sum that would exceed it stays at it. 2^53 - 1, the largest exact integer of a JavaScript number. */
export const MAX_COUNT = Number.MAX_SAFE_INTEGER;

/** Requests to an endpoint, or to all endpoints of a locality. */
export interface RequestCounts {
  successful: number;
  failed: number;
  issued: number;
  /** A gauge: requests in progress at the time of the report. */
  inProgress: number;
}

/** Connections to all endpoints of a locality. */
export interface ConnectionCounts {
  opened: number;
  failed: number;
  /** A gauge: established connections at the time of the report. */
  active: number;
}

/** `EndpointLoadMetricStats` and `UnnamedEndpointLoadMetricStats`. */
export interface MetricSum {
  /** Requests that finished with the metric. */
  finished: number;
  /** The sum of the metric's values over these requests. */
  total: number;
}

/** By metric name. */
export type Metrics = ReadonlyMap<string, MetricSum>;

/** The metrics that have a field of their own in `UpstreamLocalityStats`. */
export type Utilization = 'cpu' | 'memory' | 'application';

/** `UpstreamEndpointStats`. */
export interface EndpointLoad {
  /** The encoded `envoy.config.core.v3.Address`. */
  readonly address: Uint8Array;
  /** The encoded `google.protobuf.Struct`; absent: none. */
  readonly metadata?: Uint8Array;
  readonly requests: Readonly<RequestCounts>;
  readonly metrics: Metrics;
}

/** `envoy.config.core.v3.Locality`. */
export interface Locality {
  readonly region: string;
  readonly zone: string;
  readonly subZone: string;
}

/** `UpstreamLocalityStats`. */
export interface LocalityLoad {
  readonly locality: Locality;
  readonly priority: number;
  readonly requests: Readonly<RequestCounts>;
  readonly connections: Readonly<ConnectionCounts>;
  readonly metrics: Metrics;
  readonly utilizations: ReadonlyMap<Utilization, MetricSum>;
  readonly endpoints: readonly EndpointLoad[];
}

/** `ClusterStats`. */
export interface ClusterLoad {
  readonly clusterName: string;
  /** The name of the cluster's ClusterLoadAssignment, if it differs; else empty. */
  readonly serviceName: string;
  readonly localities: readonly LocalityLoad[];
  /** All dropped requests, with or without a category. */
  readonly dropped: number;
  /** Dropped requests by category. */
  readonly droppedBy: ReadonlyMap<string, number>;
  /** The time over which the loads were counted. Milliseconds. */
  readonly intervalMs: number;
}

/** `LoadStatsRequest`. */
export interface LoadStatsRequest {
  /** The encoded Node; in the first request at least. */
  readonly node: Uint8Array | undefined;
  readonly clusters: readonly ClusterLoad[];
}

/** `LoadStatsResponse`: the loads that a server asks for. */
export interface LoadStatsResponse {
  /** Names of clusters; `all`: every cluster (`send_all_clusters`). */
  readonly clusters: readonly string[] | 'all';
  /** Time between two reports. Milliseconds. */
  readonly intervalMs: number;
  /** Whether reports shall have loads of single endpoints (`report_endpoint_granularity`). */
  readonly byEndpoint: boolean;
}

/** Adds two counts. */
export const addCounts = (a: number, b: number): number => Math.min(MAX_COUNT, a + b);
