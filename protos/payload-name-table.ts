/**
 * Where payloads refer to xDS resources: per message type, the fields with a reference, and the fields
 * whose messages contain one. All other fields are opaque.
 *
 * Deliberately omitted: clusters in a ConfigSource (Envoy requires these to be static), and types
 * without references.
 */

import { messageOf, TYPE_URL } from './type-urls.js';

/** The content of a field: a reference, a message, or an Any whose type may be in the table. */
export type FieldRule =
  | {
      readonly kind: 'reference';
      readonly resourceType: string;
      /** The field is a reference only if the message also has this field. */
      readonly onlyWith?: number;
    }
  | { readonly kind: 'message'; readonly shape: Shape }
  | { readonly kind: 'any' };

/** Field number → rule. */
export type Shape = ReadonlyMap<number, FieldRule>;

const typeOf = {
  cluster: 'envoy.config.cluster.v3.Cluster',
  assignment: 'envoy.config.endpoint.v3.ClusterLoadAssignment',
  endpoint: 'envoy.config.endpoint.v3.LbEndpoint',
  listener: 'envoy.config.listener.v3.Listener',
  route: 'envoy.config.route.v3.RouteConfiguration',
  scopedRoute: 'envoy.config.route.v3.ScopedRouteConfiguration',
  virtualHost: 'envoy.config.route.v3.VirtualHost',
  secret: 'envoy.extensions.transport_sockets.tls.v3.Secret',
  extension: 'envoy.config.core.v3.TypedExtensionConfig',
  runtime: 'envoy.service.runtime.v3.Runtime',
} as const;

export const clusterType = typeOf.cluster;

/** The types with their own name in field 1. Clients compare it with the name that they requested. */
export const ownNameTypes: ReadonlySet<string> = new Set([
  typeOf.assignment,
  typeOf.route,
  typeOf.scopedRoute,
  typeOf.listener,
  typeOf.cluster,
  typeOf.secret,
  typeOf.runtime,
  typeOf.virtualHost,
  typeOf.extension,
]);

/** Types outside the Envoy API with their own name in field 1. No client compares it with the name that it requested. */
export const otherNamedTypes: ReadonlySet<string> = new Set([messageOf(TYPE_URL.rateLimitConfig)]);

type Fields = Readonly<Record<number, FieldRule>>;

const shapeOf = (fields: Fields): Map<number, FieldRule> =>
  new Map(Object.entries(fields).map(([number, rule]) => [Number(number), rule]));
const message = (fields: Fields): FieldRule => ({ kind: 'message', shape: shapeOf(fields) });
const reference = (resourceType: string): FieldRule => ({ kind: 'reference', resourceType });
const any: FieldRule = { kind: 'any' };

const cluster = reference(typeOf.cluster);
const httpUri = message({ 2: cluster });
const grpcService = message({ 1: message({ 1: cluster }) });
const sdsSecret = message({ 1: reference(typeOf.secret) });
const transportSocket = message({ 3: any });
const typedExtension = message({ 2: any });
const accessLog = message({ 4: any });

/**
 * A filter is inline or discovered (ECDS, field 5). The name of a discovered filter is that of its
 * resource.
 */
const filter = (typedConfig: number): FieldRule =>
  message({
    1: { kind: 'reference', resourceType: typeOf.extension, onlyWith: 5 },
    [typedConfig]: any,
  });

/** xds.type.matcher.v3.Matcher. It is recursive, and its actions contain routes. */
const matcherShape = new Map<number, FieldRule>();
const matcher: FieldRule = { kind: 'message', shape: matcherShape };
const onMatch = message({ 1: matcher, 2: typedExtension });
const matchMap = message({ 1: message({ 2: onMatch }) });
matcherShape.set(1, message({ 1: message({ 2: onMatch }) }));
matcherShape.set(2, message({ 2: matchMap, 3: matchMap, 4: typedExtension }));
matcherShape.set(3, onMatch);

const weightedClusters = message({ 1: message({ 1: cluster }) });
const mirrorPolicy = message({ 1: cluster });
const route = shapeOf({ 2: message({ 1: cluster, 3: weightedClusters, 30: mirrorPolicy }) });
const routeRule: FieldRule = { kind: 'message', shape: route };
const virtualHost = shapeOf({ 3: routeRule, 21: matcher, 22: mirrorPolicy });
const routeConfiguration = shapeOf({
  2: { kind: 'message', shape: virtualHost },
  13: mirrorPolicy,
});
const scopedRoute = shapeOf({
  2: reference(typeOf.route),
  5: { kind: 'message', shape: routeConfiguration },
});

const httpConnectionManager = shapeOf({
  3: message({ 2: reference(typeOf.route) }),
  4: { kind: 'message', shape: routeConfiguration },
  5: filter(4),
  7: message({ 9: message({ 3: any }) }),
  13: accessLog,
  31: message({
    4: message({ 1: { kind: 'message', shape: scopedRoute } }),
    5: message({ 2: reference(typeOf.scopedRoute) }),
  }),
});
const filterChain = message({ 3: filter(4), 6: transportSocket });
const listener = shapeOf({
  3: filterChain,
  9: filter(3),
  // api_listener, which gRPC uses: an Any of HttpConnectionManager.
  19: message({ 1: any }),
  22: accessLog,
  25: filterChain,
});

const locality = message({ 8: message({ 2: reference(typeOf.endpoint) }) });
const assignment = shapeOf({ 2: locality });
const clusterShape = shapeOf({
  3: message({ 2: reference(typeOf.assignment) }),
  24: transportSocket,
  33: { kind: 'message', shape: assignment },
  38: message({ 2: any }),
  40: message({ 2: any }),
  43: message({ 3: transportSocket }),
});

const commonTls = message({
  6: sdsSecret,
  7: sdsSecret,
  8: message({ 2: sdsSecret }),
});
const downstreamTls = shapeOf({ 1: commonTls, 5: sdsSecret });
const upstreamTls = shapeOf({ 1: commonTls });
const downstreamTlsRule: FieldRule = { kind: 'message', shape: downstreamTls };
const upstreamTlsRule: FieldRule = { kind: 'message', shape: upstreamTls };

const onDemand = (locatorField: number): FieldRule => message({ [locatorField]: cluster });
const grpcAccessLog = shapeOf({ 1: message({ 2: grpcService }) });
const rateLimitService = message({ 2: grpcService });
const network = 'envoy.extensions.filters.network';
const http = 'envoy.extensions.filters.http';
const sockets = 'envoy.extensions.transport_sockets';

/** Shapes by message name, of resources and of the messages in their Anys. */
export const payloadShapes: ReadonlyMap<string, Shape> = new Map<string, Shape>([
  [typeOf.cluster, clusterShape],
  [typeOf.assignment, assignment],
  [typeOf.listener, listener],
  [typeOf.route, routeConfiguration],
  [typeOf.scopedRoute, scopedRoute],
  [typeOf.virtualHost, virtualHost],
  [typeOf.extension, shapeOf({ 2: any })],
  ['envoy.config.route.v3.Route', route],
  ['envoy.config.route.v3.RouteList', shapeOf({ 1: routeRule })],
  ['envoy.config.trace.v3.OpenTelemetryConfig', shapeOf({ 1: grpcService })],
  ['envoy.config.trace.v3.ZipkinConfig', shapeOf({ 1: cluster })],
  ['envoy.extensions.clusters.aggregate.v3.ClusterConfig', shapeOf({ 1: cluster })],
  [`${network}.http_connection_manager.v3.HttpConnectionManager`, httpConnectionManager],
  [
    `${network}.tcp_proxy.v3.TcpProxy`,
    shapeOf({ 2: cluster, 5: accessLog, 10: weightedClusters, 14: onDemand(2) }),
  ],
  [`${network}.ext_authz.v3.ExtAuthz`, shapeOf({ 2: grpcService })],
  [`${network}.ratelimit.v3.RateLimit`, shapeOf({ 6: rateLimitService })],
  ['envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig', shapeOf({ 2: cluster })],
  [`${http}.ext_authz.v3.ExtAuthz`, shapeOf({ 1: grpcService, 3: message({ 1: httpUri }) })],
  [`${http}.ext_proc.v3.ExternalProcessor`, shapeOf({ 1: grpcService })],
  [`${http}.ratelimit.v3.RateLimit`, shapeOf({ 7: rateLimitService })],
  [`${http}.on_demand.v3.OnDemand`, shapeOf({ 1: onDemand(2) })],
  [
    `${http}.jwt_authn.v3.JwtAuthentication`,
    // A map entry is a message with the value in field 2.
    shapeOf({ 1: message({ 2: message({ 3: message({ 1: httpUri }) }) }) }),
  ],
  [
    `${http}.oauth2.v3.OAuth2`,
    shapeOf({ 1: message({ 1: httpUri, 3: message({ 2: sdsSecret, 3: sdsSecret }) }) }),
  ],
  ['envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig', grpcAccessLog],
  ['envoy.extensions.access_loggers.grpc.v3.TcpGrpcAccessLogConfig', grpcAccessLog],
  [`${sockets}.tls.v3.DownstreamTlsContext`, downstreamTls],
  [`${sockets}.tls.v3.UpstreamTlsContext`, upstreamTls],
  [`${sockets}.quic.v3.QuicDownstreamTransport`, shapeOf({ 1: downstreamTlsRule })],
  [`${sockets}.quic.v3.QuicUpstreamTransport`, shapeOf({ 1: upstreamTlsRule })],
  [`${sockets}.starttls.v3.StartTlsConfig`, shapeOf({ 2: downstreamTlsRule })],
  [`${sockets}.starttls.v3.UpstreamStartTlsConfig`, shapeOf({ 2: upstreamTlsRule })],
  [`${sockets}.proxy_protocol.v3.ProxyProtocolUpstreamTransport`, shapeOf({ 2: transportSocket })],
  [`${sockets}.tap.v3.Tap`, shapeOf({ 2: transportSocket })],
  [`${sockets}.tcp_stats.v3.Config`, shapeOf({ 1: transportSocket })],
  [`${sockets}.http_11_proxy.v3.Http11ProxyUpstreamTransport`, shapeOf({ 1: transportSocket })],
  [`${sockets}.internal_upstream.v3.InternalUpstreamTransport`, shapeOf({ 3: transportSocket })],
]);

/** Shapes of an Any by the name of the message inside. */
export const anyShapes: ReadonlyMap<string, Shape> = new Map(
  Array.from(payloadShapes, ([name, shape]) => [name, shapeOf({ 2: { kind: 'message', shape } })]),
);
