/**
 * Examples of the authority map for docs/MAP.md, by definition of the schema. Each is a whole map, and together
 * the examples of a definition have each of its keys; a test checks both.
 */

const SOURCES = `sources:
  cloud:
    target: xds.cloud.example.com:443
    tls: { ca: ca.pem }
    initial_metadata: [{ key: x-tenant, value: shop }]
    call_credentials: { access_token_file: /run/secrets/token }
    channel_args: { grpc.max_reconnect_backoff_ms: 5000 }
    rate_limit: { max_tokens: 100, fill_rate: 10 }
    api_type: AGGREGATED_DELTA_GRPC
    resume: trusted
    dynamic_parameters: forward
    max_receive: 16MiB
    timers: { backoff_max: 10s }
    node: { id: tributary-1 }
    node_in: first_request
  onprem:
    target: 127.0.0.1:18001
    insecure: true
    forward_node: [id, cluster]
    forward_headers: [authorization]
  mesh:
    target: mesh.example.com:15012
    tls: { ca: ca.pem }
    client_identity: forward
    tls_by_identity: /etc/tributary/identities
  polled:
    target: rest.example.com:8080
    insecure: true
    api_type: REST
    refresh_delay: 5s
    request_timeout: 5s
  files:
    path: /etc/tributary/resources
    watched_directory: /etc/tributary
  pasted:
    config_source:
      path_config_source: { path: /etc/tributary/resources }
authorities:
  cloud.example.com: { sources: [cloud] }
  onprem.example.com: { sources: [polled, files, pasted] }
old_style_names:
  differ_by: all
  served_by: [{ sources: [mesh] }, { sources: [onprem] }]
`;

const TLS = `sources:
  cloud:
    target: 10.0.0.1:443
    tls:
      ca: ca.pem
      cert: client.pem
      key: client.key
      sans: [xds.cloud.example.com]
      server_name: xds.cloud.example.com
authorities:
  cloud.example.com: { sources: [cloud] }
`;

const TIMERS = `sources:
  cloud:
    target: xds.cloud.example.com:443
    timers:
      backoff_base: 500ms
      backoff_max: 30s
      keepalive_time: 30s
      keepalive_timeout: 10s
      probe_interval: 10s
      probe_timeout: 3s
      first_response_timeout: 15s
      resource_timeout: 30s
      min_stable: 30s
      short_stream_limit: 3
      short_stream_window: 5m
      failed_attempt_limit: 2
      refused_retry: 5m
      linger: 30s
authorities:
  cloud.example.com: { sources: [cloud] }
`;

const NODE = `sources:
  cloud:
    target: xds.cloud.example.com:443
    node:
      id: tributary-1
      cluster: edge
      locality: { region: europe, zone: a, sub_zone: a1 }
      metadata: { team: shop }
      dynamic_parameters: {}
authorities:
  cloud.example.com: { sources: [cloud] }
`;

const AUTHORITIES = `sources:
  cloud: { target: xds.cloud.example.com:443 }
  standby: { target: standby.cloud.example.com:443 }
  onprem: { path: ./onprem }
authorities:
  cloud.example.com:
    sources: [cloud, standby]
    alternative: onprem.example.com
    failover: { use_alternative_when: unreachable, hold: 30s }
    may_lead_to: [onprem.example.com]
    ignore_deletion: true
  edge.example.com:
    sources: [cloud]
    alternatives:
      - { match: edge/*, authority: onprem.example.com, path: dc1/edge/* }
  onprem.example.com: { sources: [onprem] }
`;

const FAILOVER = `sources:
  cloud: { target: xds.cloud.example.com:443 }
  onprem: { path: ./onprem }
authorities:
  cloud.example.com:
    sources: [cloud]
    alternative: onprem.example.com
    failover:
      use_alternative_when: { stale_after: 5m }
      hold: 30s
      hold_max: 10m
      hold_reset: 30m
      cold_wait: 10s
      switch_wait: 2s
      unavailable_after: 15s
      prewarm: subscribed
      linger: 30s
      deletion_guard: { share: 0.5, count: 10, wait: 60s, then: keep }
  onprem.example.com: { sources: [onprem] }
`;

const OLD_STYLE = `sources:
  cloud: { target: xds.cloud.example.com:443 }
  onprem: { target: xds.onprem.example.com:443 }
old_style_names:
  differ_by: [id, cluster]
  served_by:
    - sources: [cloud, onprem]
      types: [Listener, Cluster]
      for: { cluster: edge }
      failover: { hold: 30s }
      ignore_deletion: true
    - sources: [cloud]
`;

const DEFAULT_SOURCE = `sources:
  cloud: { target: xds.cloud.example.com:443 }
  onprem: { target: xds.onprem.example.com:443 }
default_config_source:
  sources: [cloud, onprem]
  failover: { hold: 30s }
  ignore_deletion: false
`;

const CLIENTS = `sources:
  cloud: { target: xds.cloud.example.com:443 }
authorities:
  cloud.example.com: { sources: [cloud] }
old_style_names: { served_by: [{ sources: [cloud] }] }
clients:
  - match: { spiffe: spiffe://prod.example.com/ns/edge/*, address: 10.0.0.0/8 }
    node_id_must_match: edge-*
    allow: [{ authority: cloud.example.com, paths: [edge/*], types: [Listener, Cluster] }]
    limits: { streams: 4, names: 10000, requests_per_second: 50 }
    hide_existence: true
  - match: { dns: edge.example.com }
    allow: [{ old_style: true }]
  - match: { jwt: { sub: batch } }
    allow: [{ authority: cloud.example.com }]
  - match: { anonymous: true }
    allow: []
`;

const CLUSTERS = `sources:
  cloud:
    config_source:
      api_config_source:
        api_type: DELTA_GRPC
        transport_api_version: V3
        grpc_services: [{ envoy_grpc: { cluster_name: xds } }]
clusters:
  xds:
    endpoints: [10.0.0.1:443, 10.0.0.2:443]
    tls: { ca: ca.pem }
  plain:
    endpoints: [127.0.0.1:18001]
    insecure: true
authorities:
  cloud.example.com: { sources: [cloud] }
`;

const CREDENTIALS = `sources:
  cloud:
    target: xds.cloud.example.com:443
    call_credentials: { access_token_file: /run/secrets/token }
  signed:
    target: xds.signed.example.com:443
    call_credentials: { jwt_file: /run/secrets/jwt }
  google:
    target: trafficdirector.googleapis.com:443
    call_credentials: { google_default: {} }
  engine:
    target: xds.engine.example.com:443
    call_credentials: { google_compute_engine: {} }
authorities:
  cloud.example.com: { sources: [cloud, signed, google, engine] }
`;

const HEADERS = `sources:
  cloud:
    target: xds.cloud.example.com:443
    initial_metadata:
      - { key: x-tenant, value: shop }
      - { key: authorization, value_file: /run/secrets/authorization }
authorities:
  cloud.example.com: { sources: [cloud] }
`;

/** Definition of the schema → examples, in the order of docs/MAP.md. */
export const MAP_EXAMPLES: Readonly<Record<string, string>> = {
  Source: SOURCES,
  Tls: TLS,
  Timers: TIMERS,
  Node: NODE,
  RateLimitSettings: SOURCES,
  CallCredentials: CREDENTIALS,
  HeaderValue: HEADERS,
  Authority: AUTHORITIES,
  Alternative: AUTHORITIES,
  Failover: FAILOVER,
  DeletionGuard: FAILOVER,
  OldStyleNames: OLD_STYLE,
  OldStyleEntry: OLD_STYLE,
  DefaultConfigSource: DEFAULT_SOURCE,
  ClientRule: CLIENTS,
  ClientMatch: CLIENTS,
  ClientGrant: CLIENTS,
  ClientLimits: CLIENTS,
  Cluster: CLUSTERS,
};
