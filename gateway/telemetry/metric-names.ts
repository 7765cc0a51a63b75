/**
 * The stable names of metrics. The metrics registry and the table of docs/OPERATIONS.md come from
 * here; reference.test.ts compares the page with the code.
 */
import { PROCESS_METRICS } from './process-metrics.js';

/** All labels. The number of their values does not grow with resource names, Nodes or clients. */
export const METRIC_LABELS = [
  'authority',
  'group',
  'source',
  'type',
  'state',
  'direction',
  'reason',
  'code',
  'quota',
  'scope',
  'certificate',
  'version',
  'node_version',
] as const;
export type MetricLabel = (typeof METRIC_LABELS)[number];

export interface MetricSpec {
  readonly kind: 'gauge' | 'counter' | 'histogram';
  readonly labels: readonly MetricLabel[];
  readonly meaning: string;
}

export const METRICS = {
  tributary_failover_state: {
    kind: 'gauge',
    labels: ['authority', 'group', 'state'],
    meaning:
      '1 for the current failover state of the group, 0 for all others. For an entry of old-style names: number of node groups in the state.',
  },
  tributary_degraded_groups: {
    kind: 'gauge',
    labels: [],
    meaning: 'Groups in the state `cached`: clients keep what the gateway holds.',
  },
  tributary_active_source: {
    kind: 'gauge',
    labels: ['authority', 'group', 'source'],
    meaning:
      '1 for the source whose content the group serves, 0 for its other sources, and for all of them while the group is idle. For an entry of old-style names: number of node groups.',
  },
  tributary_switches_total: {
    kind: 'counter',
    labels: ['authority', 'direction', 'reason'],
    meaning: 'Moves of a group to another source: `failover` or `failback`.',
  },
  tributary_stale_seconds: {
    kind: 'gauge',
    labels: ['authority', 'group'],
    meaning: 'Seconds since the served source was lost; 0 while it is connected.',
  },
  tributary_wanted_names: {
    kind: 'gauge',
    labels: ['authority', 'group'],
    meaning: 'Names and globs that clients subscribe to.',
  },
  tributary_served_names: {
    kind: 'gauge',
    labels: ['authority', 'group'],
    meaning: 'Resources that the gateway holds for clients.',
  },
  tributary_guarded_names: {
    kind: 'gauge',
    labels: ['authority', 'group'],
    meaning: 'Removals that the deletion guard currently holds back.',
  },
  tributary_shadowed_names: {
    kind: 'gauge',
    labels: ['authority', 'group'],
    meaning: 'Old-style resources of this entry that an earlier entry serves instead.',
  },
  tributary_guarded_removals_total: {
    kind: 'counter',
    labels: ['authority', 'group'],
    meaning: 'Removals that the deletion guard has held back.',
  },
  tributary_refused_resources_total: {
    kind: 'counter',
    labels: ['authority', 'group'],
    meaning: 'Resources that cannot be served under the requested name.',
  },
  tributary_source_connected: {
    kind: 'gauge',
    labels: ['source'],
    meaning:
      '1 from the first response of the stream until its end; for files: 1 once they were read. For sources with one stream per node group: number of live streams.',
  },
  tributary_source_tripped: {
    kind: 'gauge',
    labels: ['source'],
    meaning:
      '1 while the source counts as down. For sources with one stream per node group: number of streams that count as down.',
  },
  tributary_source_breaker_state: {
    kind: 'gauge',
    labels: ['source', 'state'],
    meaning:
      '1 for the current state of the circuit breaker: `closed`, `open`, `half_open`. For sources with one stream per node group: number of breakers in the state.',
  },
  tributary_source_trips_total: {
    kind: 'counter',
    labels: ['source', 'reason'],
    meaning: 'Times that the source started to count as down.',
  },
  tributary_source_attempts_total: {
    kind: 'counter',
    labels: ['source'],
    meaning: 'Attempts to open a stream to the source.',
  },
  tributary_source_stream_ends_total: {
    kind: 'counter',
    labels: ['source', 'reason', 'code'],
    meaning:
      'Ended streams and failed attempts, by how the gateway detected the end and by gRPC status code.',
  },
  tributary_source_stream_life_seconds: {
    kind: 'histogram',
    labels: ['source'],
    meaning: 'Lifetime of streams that received at least one response.',
  },
  tributary_source_requests_total: {
    kind: 'counter',
    labels: ['source'],
    meaning: 'Requests to the source, including ACKs and NACKs.',
  },
  tributary_source_responses_total: {
    kind: 'counter',
    labels: ['source', 'type'],
    meaning: 'Responses of the source.',
  },
  tributary_source_acks_total: {
    kind: 'counter',
    labels: ['source', 'type'],
    meaning: 'Responses of the source that the gateway accepted completely.',
  },
  tributary_source_nacks_total: {
    kind: 'counter',
    labels: ['source', 'type'],
    meaning: 'Responses of the source with at least one refused resource.',
  },
  tributary_source_resources_total: {
    kind: 'counter',
    labels: ['source', 'type'],
    meaning: 'Resources that the gateway accepted from the source.',
  },
  tributary_source_refused_resources_total: {
    kind: 'counter',
    labels: ['source', 'type'],
    meaning: 'Resources of the source that the gateway refused.',
  },
  tributary_source_resource_errors_total: {
    kind: 'counter',
    labels: ['source', 'type', 'code'],
    meaning:
      'Resource errors of the source (TP3) other than NOT_FOUND and PERMISSION_DENIED, by gRPC status code. The gateway keeps the resources that it holds.',
  },
  tributary_source_malformed_total: {
    kind: 'counter',
    labels: ['source'],
    meaning: 'Messages of the source that are not a DiscoveryResponse.',
  },
  tributary_source_file_problems: {
    kind: 'gauge',
    labels: ['source'],
    meaning: 'Problems in the files of the source at the latest reading.',
  },
  tributary_clients: { kind: 'gauge', labels: [], meaning: 'Open client streams.' },
  tributary_polling_clients: {
    kind: 'gauge',
    labels: [],
    meaning:
      'Clients that poll (Fetch, REST), one for each type and list of names, until their lease ends.',
  },
  tributary_sotw_clients: {
    kind: 'gauge',
    labels: [],
    meaning: 'Open client streams that use state of the world.',
  },
  tributary_clients_paused: {
    kind: 'gauge',
    labels: [],
    meaning: 'Client streams that do not read what the gateway wrote.',
  },
  tributary_client_streams_total: {
    kind: 'counter',
    labels: [],
    meaning: 'Client streams that were opened.',
  },
  tributary_client_requests_total: {
    kind: 'counter',
    labels: [],
    meaning: 'Requests of clients, including ACKs and NACKs.',
  },
  tributary_client_responses_total: {
    kind: 'counter',
    labels: ['authority', 'type'],
    meaning: 'Responses to clients.',
  },
  tributary_client_resources_total: {
    kind: 'counter',
    labels: ['authority', 'type'],
    meaning: 'Resources sent to clients.',
  },
  tributary_client_removals_total: {
    kind: 'counter',
    labels: ['authority', 'type'],
    meaning: 'Removals sent to clients.',
  },
  tributary_client_errors_total: {
    kind: 'counter',
    labels: ['authority', 'type'],
    meaning: 'Errors for single names sent to clients.',
  },
  tributary_client_bytes_total: {
    kind: 'counter',
    labels: ['authority', 'type'],
    meaning: 'Bytes of responses to clients.',
  },
  tributary_client_acks_total: {
    kind: 'counter',
    labels: ['authority', 'type'],
    meaning: 'Responses that clients accepted (ACK).',
  },
  tributary_client_nacks_total: {
    kind: 'counter',
    labels: ['authority', 'type'],
    meaning: 'Responses that clients refused (NACK).',
  },
  tributary_client_ack_seconds: {
    kind: 'histogram',
    labels: [],
    meaning: 'Time from a response to its ACK by the client.',
  },
  tributary_client_stale_nonces_total: {
    kind: 'counter',
    labels: ['type'],
    meaning: 'ACKs and NACKs with a stale nonce.',
  },
  tributary_client_refused_names_total: {
    kind: 'counter',
    labels: ['type'],
    meaning: 'Requested names that are invalid or that the gateway does not serve.',
  },
  tributary_client_oversize_responses_total: {
    kind: 'counter',
    labels: ['type'],
    meaning: 'Responses that cannot be split and are larger than `limits.response_chunk`.',
  },
  tributary_client_withheld_total: {
    kind: 'counter',
    labels: ['type'],
    meaning:
      'Resource versions and whole sets that were not sent because they exceed the message limit of a client.',
  },
  tributary_client_polls_total: {
    kind: 'counter',
    labels: ['reason'],
    meaning:
      'Requests of clients that poll (Fetch, REST), by result: `sent`, `unchanged`, or `unknown` (not known yet, no response in time).',
  },
  tributary_client_unknown_methods_total: {
    kind: 'counter',
    labels: [],
    meaning:
      'Calls of gRPC methods that the gateway does not have, counted once per connection and method.',
  },
  tributary_client_malformed_total: {
    kind: 'counter',
    labels: [],
    meaning: 'Messages of clients that are not a DiscoveryRequest, or not a LoadStatsRequest.',
  },
  tributary_load_clients: {
    kind: 'gauge',
    labels: [],
    meaning: 'Open client streams of load reports.',
  },
  tributary_load_reports_total: {
    kind: 'counter',
    labels: [],
    meaning: 'Load reports of clients that have at least one cluster.',
  },
  tributary_load_dropped_total: {
    kind: 'counter',
    labels: ['reason'],
    meaning:
      'Loads of clients that reach no source: clusters that no source serves (`unknown`), entries above `limits.max_load_entries_per_source` or with a text of more than 1,024 characters (`limit`).',
  },
  tributary_source_load_asked: {
    kind: 'gauge',
    labels: ['source'],
    meaning:
      '1 while the source asks for loads. For sources with one stream per node group: number of streams that ask.',
  },
  tributary_source_load_reports_total: {
    kind: 'counter',
    labels: ['source'],
    meaning: 'Load reports to the source, with or without clusters.',
  },
  tributary_cache_names: {
    kind: 'gauge',
    labels: [],
    meaning: 'Single names in the cache of the client side.',
  },
  tributary_cache_globs: {
    kind: 'gauge',
    labels: [],
    meaning: 'Globs in the cache of the client side.',
  },
  tributary_quota_used_ratio: {
    kind: 'gauge',
    labels: ['quota', 'scope'],
    meaning:
      'The used part of a quota, from 0 to 1: by all peers together (`global`), by the peer that is nearest to its bound (`peer`), or by the source that is nearest to its bound (`source`). SECURITY.md lists the quotas.',
  },
  tributary_quota_refusals_total: {
    kind: 'counter',
    labels: ['quota', 'scope'],
    meaning:
      'Streams, connections, names, node groups and polls that a quota refused, and ended streams of clients that did not read (`buffered`). The scope is the quota of all peers (`global`), the quota of the peer (`peer`), or short memory (`memory`).',
  },
  tributary_source_content_used_ratio: {
    kind: 'gauge',
    labels: ['source'],
    meaning:
      'The used part of the budget of the source, from 0 to 1: of its resources or of its bytes, whichever is fuller. At 1 the gateway refuses its further resources (NACK). For sources with one stream per node group: of the fullest stream.',
  },
  tributary_memory_state: {
    kind: 'gauge',
    labels: ['state'],
    meaning:
      '1 for the current state of memory. `short`: the gateway refuses new streams, names and node groups. `critical`: it also refuses new resources of sources. Otherwise `enough`.',
  },
  tributary_peers_connected: {
    kind: 'gauge',
    labels: [],
    meaning: '1 while connected to NATS; absent for a lone instance.',
  },
  tributary_peer_messages_sent_total: {
    kind: 'counter',
    labels: [],
    meaning: 'Messages to peer instances.',
  },
  tributary_peer_messages_received_total: {
    kind: 'counter',
    labels: [],
    meaning: 'Messages from peer instances.',
  },
  tributary_peer_messages_dropped_total: {
    kind: 'counter',
    labels: [],
    meaning: 'Messages to peer instances that were dropped: NATS is not connected or slow.',
  },
  tributary_peer_messages_ignored_total: {
    kind: 'counter',
    labels: ['reason'],
    meaning: 'Messages from peer instances, or names in them, that were ignored, by reason.',
  },
  tributary_peer_names_not_told_total: {
    kind: 'counter',
    labels: [],
    meaning:
      'Changes that were not published: NATS is not connected, or there were too many at once.',
  },
  tributary_revalidations_total: {
    kind: 'counter',
    labels: ['reason'],
    meaning:
      'Names that the gateway requested again from sources, because of a `hint` or an `invalidation`.',
  },
  tributary_map_reloads_total: {
    kind: 'counter',
    labels: ['reason'],
    meaning:
      'Reloads of the authority map, by result: `applied`, `unchanged` (as the one in force), `refused`.',
  },
  tributary_map_last_reload_successful: {
    kind: 'gauge',
    labels: [],
    meaning:
      '1 after the start and after each valid authority map, 0 after a refused one: then the file differs from the map in force.',
  },
  tributary_map_last_reload_success_timestamp_seconds: {
    kind: 'gauge',
    labels: [],
    meaning: 'Unix time of the latest reading of a valid authority map, at start or at a reload.',
  },
  tributary_certificate_expiry_timestamp_seconds: {
    kind: 'gauge',
    labels: ['certificate', 'source'],
    meaning:
      'Unix time at which a certificate expires, by use: for `listener` and `client_ca` the certificates in use, for `admin`, `admin_ca`, `source`, `source_ca`, `nats` and `nats_ca` those in the files. The earliest end in a chain, the latest end in a CA bundle. Certificates of `tls_by_identity` are not included.',
  },
  tributary_state_writes_total: {
    kind: 'counter',
    labels: ['reason'],
    meaning: 'Attempts to write the state file: `written` or `failed`.',
  },
  tributary_traces_total: {
    kind: 'counter',
    labels: ['reason'],
    meaning:
      'Traces of changes: `sent`, `failed` (the collector did not take them), `dropped` (more than 50 changes in 10 s).',
  },
  tributary_handler_errors_total: {
    kind: 'counter',
    labels: [],
    meaning: 'Handlers that threw an exception. Any value but 0 is a bug.',
  },
  tributary_log_lines_withheld_total: {
    kind: 'counter',
    labels: [],
    meaning: 'Repeated problems that were counted but not logged.',
  },
  tributary_log_lines_lost_total: {
    kind: 'counter',
    labels: [],
    meaning: 'Log lines that were lost: the disk behind stdout is full, or its terminal is closed.',
  },
  ...PROCESS_METRICS,
} as const satisfies Readonly<Record<string, MetricSpec>>;

export type MetricName = keyof typeof METRICS;
