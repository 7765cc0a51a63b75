/**
 * The type URLs with special treatment. The gateway serves every other type too, without an order
 * between types.
 */
export const TYPE_URL_PREFIX = 'type.googleapis.com/';

export const TYPE_URL = {
  cluster: 'type.googleapis.com/envoy.config.cluster.v3.Cluster',
  clusterLoadAssignment: 'type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment',
  listener: 'type.googleapis.com/envoy.config.listener.v3.Listener',
  routeConfiguration: 'type.googleapis.com/envoy.config.route.v3.RouteConfiguration',
  scopedRouteConfiguration: 'type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration',
  runtime: 'type.googleapis.com/envoy.service.runtime.v3.Runtime',
  /** Of Istio's agent. Their only resource has no name. */
  nameTable: 'type.googleapis.com/istio.networking.nds.v1.NameTable',
  proxyConfig: 'type.googleapis.com/istio.mesh.v1alpha1.ProxyConfig',
  /** Of Envoy's rate limit service, which is an xDS client. */
  rateLimitConfig: 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig',
  secret: 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret',
  typedExtensionConfig: 'type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig',
  /** The wrapper of a resource in a state-of-the-world response. */
  resource: 'type.googleapis.com/envoy.service.discovery.v3.Resource',
  /** A redirect (TP1, "Server redirects"). */
  resourceLocator: 'type.googleapis.com/xds.core.v3.ResourceLocator',
} as const;

/**
 * The full message name: what follows the last slash (google/protobuf/any.proto).
 *
 * @param type a type URL or a message name
 */
export const messageOf = (type: string): string => type.slice(type.lastIndexOf('/') + 1);

/** `type.googleapis.com/envoy.config.cluster.v3.Cluster` or its message name → `Cluster`. */
export const shortTypeOf = (type: string): string =>
  type.slice(Math.max(type.lastIndexOf('.'), type.lastIndexOf('/')) + 1);

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

/**
 * The rank of a type in the push order; 0 goes first. All types outside `TYPE_ORDER` share the last
 * rank.
 */
export function typeRank(typeUrl: string): number {
  const rank = TYPE_ORDER.indexOf(typeUrl);
  return rank === -1 ? TYPE_ORDER.length : rank;
}

/**
 * State-of-the-world clients delete what a response of these types leaves out: listeners and clusters by the xDS
 * protocol ("Grouping Resources into Responses"), scoped routes in Envoy (ENVOY 22), rate limits in Envoy's rate limit
 * service (ENVOY 23). A response of the last two has their only resource.
 */
const WHOLE_IN_SOTW: ReadonlySet<string> = new Set([
  TYPE_URL.listener,
  TYPE_URL.cluster,
  TYPE_URL.scopedRouteConfiguration,
  TYPE_URL.rateLimitConfig,
  TYPE_URL.nameTable,
  TYPE_URL.proxyConfig,
]);

/** Clients request resources of these types one by one, and keep what a response leaves out (ADR 0029). */
const PARTIAL_IN_SOTW: ReadonlySet<string> = new Set([
  TYPE_URL.clusterLoadAssignment,
  TYPE_URL.routeConfiguration,
  TYPE_URL.runtime,
  TYPE_URL.secret,
  TYPE_URL.typedExtensionConfig,
]);

/** Does a state-of-the-world response of this type have all resources, so that one that it lacks is deleted? */
export const isWholeInSotw = (typeUrl: string): boolean => WHOLE_IN_SOTW.has(typeUrl);

/** Their only resource has no name. It is the member of the wildcard (Istio's agent), or is requested by the empty name (Kitex). */
const NAMELESS: ReadonlySet<string> = new Set([TYPE_URL.nameTable, TYPE_URL.proxyConfig]);

export const mayLackName = (typeUrl: string): boolean => NAMELESS.has(typeUrl);

/**
 * Do all clients keep what a state-of-the-world response of this type leaves out? Of a type that is neither whole nor
 * partial, nobody knows: the gateway sends its collections whole, and deletes nothing that a response lacks.
 */
export const isPartialInSotw = (typeUrl: string): boolean => PARTIAL_IN_SOTW.has(typeUrl);
