/** Messages with references in them: at least one for each type and field of the table. */
import { any } from './envoy-messages.js';
import type { Fields } from './envoy-messages.js';

export const type = {
  cluster: 'envoy.config.cluster.v3.Cluster',
  assignment: 'envoy.config.endpoint.v3.ClusterLoadAssignment',
  endpoint: 'envoy.config.endpoint.v3.LbEndpoint',
  listener: 'envoy.config.listener.v3.Listener',
  route: 'envoy.config.route.v3.RouteConfiguration',
  scopedRoute: 'envoy.config.route.v3.ScopedRouteConfiguration',
  virtualHost: 'envoy.config.route.v3.VirtualHost',
  secret: 'envoy.extensions.transport_sockets.tls.v3.Secret',
  extension: 'envoy.config.core.v3.TypedExtensionConfig',
};
const hcm = 'envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager';
const network = 'envoy.extensions.filters.network';
const http = 'envoy.extensions.filters.http';
export const sockets = 'envoy.extensions.transport_sockets';
const downstreamTls = `${sockets}.tls.v3.DownstreamTlsContext`;
const upstreamTls = `${sockets}.tls.v3.UpstreamTlsContext`;

/** A reference to a resource of a type; tests encode the same message with other authorities. */
export type Ref = (resourceType: string) => string;
export interface Case {
  readonly title: string;
  readonly type: string;
  readonly references: number;
  readonly fields: (ref: Ref) => Fields;
}

const action = (fields: Fields): Fields => ({ routes: [{ name: 'r', route: fields }] });
const inHost = (title: string, references: number, fields: (ref: Ref) => Fields): Case => ({
  title,
  type: type.route,
  references,
  fields: (ref) => ({ name: 'xdstp://own/x/y', virtual_hosts: [{ name: 'v', ...fields(ref) }] }),
});
const filterAny = (typeName: string, fields: Fields): Fields => ({
  name: 'filter',
  typed_config: any(typeName, fields),
});
/** A network filter in a listener. */
const inChain = (
  typeName: string,
  references: number,
  title: string,
  fields: (ref: Ref) => Fields,
): Case => ({
  title,
  type: type.listener,
  references,
  fields: (ref) => ({
    name: 'xdstp://own/x/y',
    filter_chains: [{ name: 'c', filters: [filterAny(typeName, fields(ref))] }],
    default_filter_chain: { filters: [filterAny(typeName, fields(ref))] },
    stat_prefix: 'xdstp://not/a/reference',
  }),
});
const inHcm = (title: string, references: number, fields: (ref: Ref) => Fields): Case =>
  inChain(hcm, 2 * references, title, (ref) => ({ stat_prefix: 'xdstp://no/T/x', ...fields(ref) }));
/** An HTTP filter as a resource (ECDS). */
const asExtension = (typeName: string, references: number, fields: (ref: Ref) => Fields): Case => ({
  title: typeName,
  type: type.extension,
  references,
  fields: (ref) => ({ name: 'xdstp://own/x/y', typed_config: any(typeName, fields(ref)) }),
});
const grpc = (ref: Ref): Fields => ({
  envoy_grpc: { cluster_name: ref(type.cluster), authority: 'xdstp://no/T/x' },
});
const uri = (ref: Ref): Fields => ({ uri: 'http://x', cluster: ref(type.cluster) });
const sds = (ref: Ref): Fields => ({ name: ref(type.secret), sds_config: { ads: {} } });
const tls = (ref: Ref): Fields => ({
  common_tls_context: {
    tls_certificate_sds_secret_configs: [sds(ref), sds(ref)],
    validation_context_sds_secret_config: sds(ref),
    alpn_protocols: ['h2'],
  },
});
const upstreamSocket = (ref: Ref): Fields => ({
  name: 'tls',
  typed_config: any(upstreamTls, { ...tls(ref), sni: 'xdstp://no/T/x' }),
});
const wrappedSocket = (name: string): Case => ({
  title: `the socket inside ${name}`,
  type: type.cluster,
  references: 3,
  fields: (ref) => ({
    name: 'c',
    transport_socket: {
      name: 's',
      typed_config: any(`${sockets}.${name}`, { transport_socket: upstreamSocket(ref) }),
    },
  }),
});
const route = (ref: Ref): Fields => ({ route: { cluster: ref(type.cluster) } });
const onMatch = (ref: Ref): Fields => ({
  action: { name: 'a', typed_config: any('envoy.config.route.v3.Route', route(ref)) },
});

export const cases: readonly Case[] = [
  {
    title: 'eds_cluster_config.service_name',
    type: type.cluster,
    references: 1,
    fields: (ref) => ({
      name: 'xdstp://own/x/y',
      type: 3,
      eds_cluster_config: { eds_config: { ads: {} }, service_name: ref(type.assignment) },
      lb_policy: 1,
    }),
  },
  {
    title: 'clusters of an aggregate',
    type: type.cluster,
    references: 2,
    fields: (ref) => ({
      name: 'c',
      cluster_type: {
        name: 'envoy.clusters.aggregate',
        typed_config: any('envoy.extensions.clusters.aggregate.v3.ClusterConfig', {
          clusters: [ref(type.cluster), 'plain', ref(type.cluster)],
        }),
      },
    }),
  },
  {
    title: 'transport_socket, transport_socket_matches, and upstream filters',
    type: type.cluster,
    references: 10,
    fields: (ref) => ({
      name: 'c',
      filters: [filterAny(`${network}.ext_authz.v3.ExtAuthz`, { grpc_service: grpc(ref) })],
      transport_socket: upstreamSocket(ref),
      transport_socket_matches: [
        { name: 'a', transport_socket: upstreamSocket(ref) },
        { name: 'b', transport_socket: upstreamSocket(ref) },
      ],
    }),
  },
  {
    title: 'load_assignment, whose own name is left unchanged',
    type: type.cluster,
    references: 1,
    fields: (ref) => ({
      name: 'c',
      load_assignment: {
        cluster_name: 'xdstp://own/x/y',
        endpoints: [{ leds_cluster_locality_config: { leds_collection_name: ref(type.endpoint) } }],
      },
    }),
  },
  {
    title: 'leds_collection_name',
    type: type.assignment,
    references: 1,
    fields: (ref) => ({
      cluster_name: 'xdstp://own/x/y',
      endpoints: [
        {
          locality: { region: 'xdstp://no/T/x' },
          leds_cluster_locality_config: { leds_collection_name: ref(type.endpoint) },
          priority: 300,
        },
      ],
    }),
  },
  inHost('RouteAction.cluster', 1, (ref) => action({ cluster: ref(type.cluster) })),
  inHost('weighted_clusters', 2, (ref) =>
    action({
      weighted_clusters: {
        clusters: [
          { name: ref(type.cluster), weight: { value: 1 } },
          { name: ref(type.cluster), weight: { value: 2 } },
        ],
      },
    }),
  ),
  inHost('mirrors of a route and of a host', 2, (ref) => ({
    ...action({ cluster: 'plain', request_mirror_policies: [{ cluster: ref(type.cluster) }] }),
    request_mirror_policies: [{ cluster: ref(type.cluster) }],
  })),
  inHost('a route in a custom match', 1, (ref) => ({
    matcher: {
      matcher_tree: {
        custom_match: {
          name: 'm',
          typed_config: any('envoy.config.route.v3.Route', route(ref)),
        },
      },
    },
  })),
  inHost('routes in a matcher tree', 5, (ref) => ({
    matcher: {
      matcher_list: { matchers: [{ on_match: onMatch(ref) }] },
      on_no_match: {
        matcher: {
          matcher_tree: { exact_match_map: { map: { a: onMatch(ref) } } },
          on_no_match: {
            matcher: {
              matcher_tree: { prefix_match_map: { map: { b: onMatch(ref) } } },
              on_no_match: {
                action: {
                  name: 'a',
                  typed_config: any('envoy.config.route.v3.RouteList', {
                    routes: [route(ref), route(ref)],
                  }),
                },
              },
            },
          },
        },
      },
    },
  })),
  {
    title: 'mirrors of a route configuration',
    type: type.route,
    references: 1,
    fields: (ref) => ({ name: 'r', request_mirror_policies: [{ cluster: ref(type.cluster) }] }),
  },
  {
    title: 'a virtual host (VHDS)',
    type: type.virtualHost,
    references: 1,
    fields: (ref) => ({ name: 'xdstp://own/x/y', routes: [route(ref)] }),
  },
  {
    title: 'route_configuration_name and an inline route_configuration',
    type: type.scopedRoute,
    references: 2,
    fields: (ref) => ({
      name: 'xdstp://own/x/y',
      route_configuration_name: ref(type.route),
      route_configuration: {
        name: 'xdstp://own/x/y',
        virtual_hosts: [{ name: 'v', domains: ['xdstp://no/T/x'], routes: [route(ref)] }],
      },
    }),
  },
  inHcm('rds.route_config_name', 1, (ref) => ({
    rds: { config_source: { ads: {} }, route_config_name: ref(type.route) },
  })),
  inHcm('an inline route_config, whose own name is left unchanged', 1, (ref) => ({
    route_config: { name: 'xdstp://own/x/y', virtual_hosts: [{ name: 'v', routes: [route(ref)] }] },
  })),
  inHcm('scoped_routes by discovery', 1, (ref) => ({
    scoped_routes: { name: 's', scoped_rds: { srds_resources_locator: ref(type.scopedRoute) } },
  })),
  inHcm('scoped_routes inline', 1, (ref) => ({
    scoped_routes: {
      scoped_route_configurations_list: {
        scoped_route_configurations: [{ name: 's', route_configuration_name: ref(type.route) }],
      },
    },
  })),
  inHcm('an HTTP filter by discovery; not the name of an inline one', 1, (ref) => ({
    http_filters: [
      { name: ref(type.extension), config_discovery: { type_urls: ['a/b'] } },
      { name: 'xdstp://no/T/x', typed_config: any(`${http}.on_demand.v3.OnDemand`, {}) },
    ],
  })),
  inHcm('gRPC access loggers and tracers', 4, (ref) => ({
    access_log: ['HttpGrpcAccessLogConfig', 'TcpGrpcAccessLogConfig'].map((name) =>
      filterAny(`envoy.extensions.access_loggers.grpc.v3.${name}`, {
        common_config: { log_name: 'l', grpc_service: grpc(ref) },
      }),
    ),
    tracing: {
      provider: filterAny('envoy.config.trace.v3.ZipkinConfig', {
        collector_cluster: ref(type.cluster),
      }),
    },
    http_filters: [filterAny(`${http}.ext_proc.v3.ExternalProcessor`, { grpc_service: grpc(ref) })],
  })),
  inHcm('OpenTelemetry', 1, (ref) => ({
    tracing: {
      provider: filterAny('envoy.config.trace.v3.OpenTelemetryConfig', { grpc_service: grpc(ref) }),
    },
  })),
  {
    title: 'api_listener, as gRPC clients get it',
    type: type.listener,
    references: 1,
    fields: (ref) => ({
      name: 'l',
      api_listener: { api_listener: any(hcm, { rds: { route_config_name: ref(type.route) } }) },
    }),
  },
  {
    title: 'a listener filter by discovery, one inline, and the access log',
    type: type.listener,
    references: 3,
    fields: (ref) => ({
      listener_filters: [
        { name: ref(type.extension), config_discovery: { type_urls: ['a/b'] } },
        filterAny('envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig', {
          cluster: ref(type.cluster),
        }),
      ],
      access_log: [
        filterAny('envoy.extensions.access_loggers.grpc.v3.TcpGrpcAccessLogConfig', {
          common_config: { grpc_service: grpc(ref) },
        }),
      ],
    }),
  },
  inChain(`${network}.tcp_proxy.v3.TcpProxy`, 6, 'tcp_proxy', (ref) => ({
    stat_prefix: 's',
    cluster: ref(type.cluster),
    access_log: [
      filterAny('envoy.extensions.access_loggers.grpc.v3.TcpGrpcAccessLogConfig', {
        common_config: { grpc_service: grpc(ref) },
      }),
    ],
    on_demand: { resources_locator: ref(type.cluster) },
  })),
  inChain(`${network}.tcp_proxy.v3.TcpProxy`, 4, 'tcp_proxy weighted clusters', (ref) => ({
    weighted_clusters: { clusters: [{ name: ref(type.cluster) }, { name: ref(type.cluster) }] },
  })),
  inChain(`${network}.ext_authz.v3.ExtAuthz`, 2, 'network ext_authz', (ref) => ({
    grpc_service: grpc(ref),
  })),
  inChain(`${network}.ratelimit.v3.RateLimit`, 2, 'network ratelimit', (ref) => ({
    rate_limit_service: { grpc_service: grpc(ref) },
  })),
  {
    title: 'secrets of a filter chain',
    type: type.listener,
    references: 5,
    fields: (ref) => ({
      filter_chains: [
        {
          transport_socket: {
            name: 'tls',
            typed_config: any(downstreamTls, {
              common_tls_context: {
                tls_certificate_sds_secret_configs: [sds(ref)],
                combined_validation_context: {
                  default_validation_context: {},
                  validation_context_sds_secret_config: sds(ref),
                },
              },
              session_ticket_keys_sds_secret_config: sds(ref),
            }),
          },
        },
      ],
      default_filter_chain: {
        transport_socket: filterAny(`${sockets}.quic.v3.QuicDownstreamTransport`, {
          downstream_tls_context: { session_ticket_keys_sds_secret_config: sds(ref) },
        }),
        filters: [{ name: ref(type.extension), config_discovery: {} }],
      },
    }),
  },
  {
    title: 'sockets with a TLS context inside',
    type: type.listener,
    references: 3,
    fields: (ref) => ({
      filter_chains: [
        {
          transport_socket: filterAny(`${sockets}.starttls.v3.StartTlsConfig`, {
            tls_socket_config: tls(ref),
          }),
        },
      ],
    }),
  },
  ...[
    ['quic.v3.QuicUpstreamTransport', 'upstream_tls_context'],
    ['starttls.v3.UpstreamStartTlsConfig', 'tls_socket_config'],
  ].map(([name = '', field = '']): Case => ({
    title: name,
    type: type.cluster,
    references: 3,
    fields: (ref) => ({
      transport_socket: filterAny(`${sockets}.${name}`, { [field]: tls(ref) }),
    }),
  })),
  wrappedSocket('proxy_protocol.v3.ProxyProtocolUpstreamTransport'),
  wrappedSocket('tap.v3.Tap'),
  wrappedSocket('tcp_stats.v3.Config'),
  wrappedSocket('http_11_proxy.v3.Http11ProxyUpstreamTransport'),
  wrappedSocket('internal_upstream.v3.InternalUpstreamTransport'),
  asExtension(`${http}.ext_authz.v3.ExtAuthz`, 1, (ref) => ({ grpc_service: grpc(ref) })),
  asExtension(`${http}.ext_authz.v3.ExtAuthz`, 1, (ref) => ({
    http_service: { server_uri: uri(ref), path_prefix: 'xdstp://no/T/x' },
  })),
  asExtension(`${http}.ratelimit.v3.RateLimit`, 1, (ref) => ({
    rate_limit_service: { grpc_service: grpc(ref) },
  })),
  asExtension(`${http}.on_demand.v3.OnDemand`, 1, (ref) => ({
    odcds: { resources_locator: ref(type.cluster) },
  })),
  asExtension(`${http}.jwt_authn.v3.JwtAuthentication`, 1, (ref) => ({
    providers: { 'xdstp://no/T/x': { remote_jwks: { http_uri: uri(ref) } } },
  })),
  asExtension(`${http}.oauth2.v3.OAuth2`, 3, (ref) => ({
    config: {
      token_endpoint: uri(ref),
      credentials: { client_id: 'xdstp://no/T/x', token_secret: sds(ref), hmac_secret: sds(ref) },
    },
  })),
];
