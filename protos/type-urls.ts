/** Type URLs that the gateway treats in a way of their own. Every other type is served just the same, unordered. */
export const TYPE_URL_PREFIX = 'type.googleapis.com/';

export const TYPE_URL = {
  cluster: 'type.googleapis.com/envoy.config.cluster.v3.Cluster',
  clusterLoadAssignment: 'type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment',
  listener: 'type.googleapis.com/envoy.config.listener.v3.Listener',
  routeConfiguration: 'type.googleapis.com/envoy.config.route.v3.RouteConfiguration',
  secret: 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret',
  typedExtensionConfig: 'type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig',
  /** A redirect (TP1, "Server redirects"). */
  resourceLocator: 'type.googleapis.com/xds.core.v3.ResourceLocator',
} as const;

/**
 * Make-before-break order of types: clusters, their endpoints, listeners, routes, then the rest
 * (xDS protocol, "Eventual consistency considerations").
 */
const TYPE_ORDER: readonly string[] = [
  TYPE_URL.cluster,
  TYPE_URL.clusterLoadAssignment,
  TYPE_URL.listener,
  TYPE_URL.routeConfiguration,
];

/** The place of a type in the push order, 0 first; all types that have no place of their own share the last. */
export function typeRank(typeUrl: string): number {
  const rank = TYPE_ORDER.indexOf(typeUrl);
  return rank === -1 ? TYPE_ORDER.length : rank;
}
