/** Loads of clusters, short enough to read in a test. */
import type { ClusterLoad, LocalityLoad, RequestCounts } from '../../protos/load-stats.js';

export interface LoadSketch extends Partial<RequestCounts> {
  readonly zone?: string;
  readonly priority?: number;
  readonly more?: Partial<LocalityLoad>;
}

export function localityLoad(sketch: LoadSketch): LocalityLoad {
  const { zone = 'a', priority = 0, more = {}, ...requests } = sketch;
  return {
    locality: { region: 'r', zone, subZone: '' },
    priority,
    requests: { successful: 0, failed: 0, issued: 0, inProgress: 0, ...requests },
    connections: { opened: 0, failed: 0, active: 0 },
    metrics: new Map(),
    utilizations: new Map(),
    endpoints: [],
    ...more,
  };
}

/** The load of a cluster, by locality. */
export function clusterLoad(
  clusterName: string,
  localities: readonly LoadSketch[],
  more: Partial<ClusterLoad> = {},
): ClusterLoad {
  return {
    clusterName,
    serviceName: '',
    localities: localities.map(localityLoad),
    dropped: 0,
    droppedBy: new Map(),
    intervalMs: 0,
    ...more,
  };
}

/** All successful requests in a report. */
export const successfulIn = (clusters: readonly ClusterLoad[]): number =>
  clusters
    .flatMap(({ localities }) => localities)
    .reduce((sum, { requests }) => sum + requests.successful, 0);
