/** The bootstraps of clients of the gateway. Pure: options in, JSON out. */

export interface ClientBootstrapOptions {
  /** `host:port` of the gateways: the first one is preferred. */
  readonly gateways: readonly [string, ...string[]];
  readonly nodeId: string;
  readonly nodeCluster: string;
  /** The client uses `xdstp://` names of this authority. Absent: old-style names. */
  readonly authority?: string;
  /** Further authorities that resources refer to. */
  readonly authorities: readonly string[];
  /** The path of the names of clusters and listeners; empty, or ends with `/`. */
  readonly path: string;
  /** PEM files on the machine of the client. Absent: plaintext. */
  readonly tls?: { readonly ca: string; readonly cert?: string; readonly key?: string };
}

const CLUSTER = 'envoy.config.cluster.v3.Cluster';
const LISTENER = 'envoy.config.listener.v3.Listener';
const HTTP_OPTIONS = 'envoy.extensions.upstreams.http.v3.HttpProtocolOptions';
const TLS_CONTEXT =
  'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext';
/** The name of the cluster of the gateways. */
const GATEWAY = 'tributary';

/** An Envoy bootstrap: one delta ADS stream to the first gateway that is up. */
export function envoyBootstrap(options: ClientBootstrapOptions): unknown {
  const { nodeId, nodeCluster, authority, path } = options;
  const backOff = { base_interval: '0.5s', max_interval: '5s' };
  const service = {
    envoy_grpc: { cluster_name: GATEWAY, retry_policy: { retry_back_off: backOff } },
  };
  const ads = { resource_api_version: 'V3', ads: {} };
  const locator = (type: string): string => `xdstp://${authority ?? ''}/${type}/${path}*`;
  return {
    node: { id: nodeId, cluster: nodeCluster },
    dynamic_resources: {
      ads_config: {
        api_type: 'DELTA_GRPC',
        transport_api_version: 'V3',
        // Without this, Envoy repeats 60 kB of Node in every request.
        set_node_on_first_message_only: true,
        grpc_services: [service],
      },
      ...(authority === undefined ? {} : { cds_resources_locator: locator(CLUSTER) }),
      cds_config: ads,
      ...(authority === undefined ? {} : { lds_resources_locator: locator(LISTENER) }),
      lds_config: ads,
    },
    static_resources: { clusters: [gatewayCluster(options)] },
  };
}

function gatewayCluster({ gateways, tls }: ClientBootstrapOptions): unknown {
  const keepalive = { connection_keepalive: { interval: '10s', timeout: '3s' } };
  const isStatic = gateways.every((gateway) => isIpAddress(hostOf(gateway)));
  return {
    name: GATEWAY,
    type: isStatic ? 'STATIC' : 'STRICT_DNS',
    // By default Envoy uses only the IPv6 addresses of a host that has any, and `client.host` is often 0.0.0.0.
    ...(isStatic ? {} : { dns_lookup_family: 'V4_PREFERRED' }),
    connect_timeout: '1s',
    typed_extension_protocol_options: {
      [HTTP_OPTIONS]: {
        '@type': `type.googleapis.com/${HTTP_OPTIONS}`,
        explicit_http_config: { http2_protocol_options: keepalive },
      },
    },
    ...(tls === undefined ? {} : { transport_socket: transportSocket(gateways, tls) }),
    // Only a health check makes Envoy leave a priority.
    ...(gateways.length > 1 ? { health_checks: [TCP_CHECK] } : {}),
    load_assignment: {
      cluster_name: GATEWAY,
      endpoints: gateways.map((gateway, priority) => ({
        ...(priority > 0 ? { priority } : {}),
        lb_endpoints: [
          {
            endpoint: {
              address: {
                socket_address: { address: hostOf(gateway), port_value: portOf(gateway) },
              },
            },
          },
        ],
      })),
    },
  };
}

const TCP_CHECK = {
  timeout: '1s',
  interval: '2s',
  no_traffic_interval: '2s',
  unhealthy_threshold: 2,
  healthy_threshold: 1,
  tcp_health_check: {},
};

function transportSocket(
  gateways: readonly string[],
  { ca, cert, key }: NonNullable<ClientBootstrapOptions['tls']>,
): unknown {
  const own =
    cert === undefined || key === undefined
      ? {}
      : {
          tls_certificates: [
            { certificate_chain: { filename: cert }, private_key: { filename: key } },
          ],
        };
  const hosts = [...new Set(gateways.map(hostOf))];
  const [sni] = hosts.filter((host) => !isIpAddress(host));
  return {
    name: 'envoy.transport_sockets.tls',
    typed_config: {
      '@type': TLS_CONTEXT,
      ...(sni === undefined ? {} : { sni }),
      common_tls_context: {
        alpn_protocols: ['h2'],
        ...own,
        validation_context: {
          trusted_ca: { filename: ca },
          match_typed_subject_alt_names: hosts.map((host) => ({
            san_type: isIpAddress(host) ? 'IP_ADDRESS' : 'DNS',
            matcher: { exact: host },
          })),
        },
      },
    },
  };
}

/** A gRPC bootstrap (gRFC A27). With several servers a client falls back in their order (gRFC A71). */
export function grpcBootstrap(options: ClientBootstrapOptions): unknown {
  const { gateways, nodeId, nodeCluster, authority, authorities, path, tls } = options;
  const credentials =
    tls === undefined
      ? { type: 'insecure' }
      : {
          type: 'tls',
          config: {
            ca_certificate_file: tls.ca,
            ...(tls.cert === undefined ? {} : { certificate_file: tls.cert }),
            ...(tls.key === undefined ? {} : { private_key_file: tls.key }),
          },
        };
  const all = [...new Set([...(authority === undefined ? [] : [authority]), ...authorities])];
  return {
    xds_servers: gateways.map((gateway) => ({
      server_uri: isIpAddress(hostOf(gateway)) ? gateway : `dns:///${gateway}`,
      channel_creds: [credentials],
      server_features: ['xds_v3'],
    })),
    node: { id: nodeId, cluster: nodeCluster, locality: {} },
    ...(authority === undefined
      ? {}
      : {
          client_default_listener_resource_name_template: `xdstp://${authority}/${LISTENER}/${path}%s`,
        }),
    ...(all.length > 0 ? { authorities: Object.fromEntries(all.map((name) => [name, {}])) } : {}),
  };
}

/** Without the brackets of an IPv6 address. */
const hostOf = (address: string): string =>
  address.slice(0, address.lastIndexOf(':')).replace(/^\[(.*)\]$/, '$1');
const portOf = (address: string): number => Number(address.slice(address.lastIndexOf(':') + 1));
const isIpAddress = (host: string): boolean =>
  /^\d{1,3}(\.\d{1,3}){3}$/.test(host) || host.includes(':');
