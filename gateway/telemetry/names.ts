/**
 * The stable names of what the gateway says of itself: events of the log and metrics. This table is
 * the source of docs/OPERATIONS.md (a test keeps them equal) and of the registry.
 */

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal';

export interface EventSpec {
  readonly level: LogLevel;
  /** Also the message of the line, where the code gives none. */
  readonly meaning: string;
}

/** Every log line carries one of these as `event`. */
export const EVENTS = {
  gateway_ready: { level: 'info', meaning: 'clients are served' },
  gateway_draining: { level: 'info', meaning: 'clients are let go' },
  gateway_stopped: { level: 'info', meaning: 'the process ends' },
  gateway_failed: { level: 'fatal', meaning: 'the gateway cannot start' },
  settings_warning: { level: 'warn', meaning: 'a setting is probably not what was meant' },
  map_warning: { level: 'warn', meaning: 'an entry of the map is probably not what was meant' },
  map_reloaded: { level: 'info', meaning: 'a new authority map is in force' },
  map_unchanged: { level: 'debug', meaning: 'the authority map was read again and says the same' },
  map_refused: { level: 'error', meaning: 'the new authority map is invalid, the old one stays' },
  source_dialing: { level: 'debug', meaning: 'a stream to a source is opened' },
  source_up: { level: 'info', meaning: 'a source gave its first response' },
  source_lost: { level: 'warn', meaning: 'a stream to a source ended, or an attempt failed' },
  source_tripped: { level: 'warn', meaning: 'a source counts as down; its names may move' },
  source_hung_up: { level: 'debug', meaning: 'the gateway closed a stream to a source' },
  source_received: { level: 'trace', meaning: 'a response of a source was taken in' },
  source_refused: { level: 'warn', meaning: 'resources of a source were refused (NACK)' },
  source_resource_errors: {
    level: 'warn',
    meaning: 'a source says that it can say nothing of names, and why (TP3)',
  },
  source_malformed: { level: 'error', meaning: 'a source sent what is no response' },
  file_problems: { level: 'error', meaning: 'files cannot be read, their last good content stays' },
  file_refused: { level: 'warn', meaning: 'a resource in a file cannot be served' },
  failover_state: { level: 'info', meaning: 'a group entered another state' },
  authority_switched: { level: 'warn', meaning: 'names moved from one source to another' },
  failover_forced: { level: 'warn', meaning: 'an operator forced a source' },
  failover_released: { level: 'warn', meaning: 'an operator ended a forced source' },
  name_shadowed: {
    level: 'info',
    meaning: 'an entry of old-style names has what one before it has: that one is served',
  },
  deletions_guarded: { level: 'warn', meaning: 'the deletion guard holds back removals' },
  resource_refused: { level: 'warn', meaning: 'content cannot be served under the asked name' },
  client_opened: { level: 'debug', meaning: 'a client stream opened' },
  client_closed: { level: 'debug', meaning: 'a client stream closed' },
  client_answer: { level: 'trace', meaning: 'a response went to a client' },
  client_ack: { level: 'trace', meaning: 'a client accepted a response' },
  client_nack: { level: 'warn', meaning: 'a client refused a response' },
  client_stale_nonce: { level: 'debug', meaning: 'a client answered a response that is past' },
  client_refused_name: { level: 'warn', meaning: 'a client asked for a name that is not served' },
  client_malformed: { level: 'warn', meaning: 'a client sent what is no request' },
  state_loaded: { level: 'info', meaning: 'names of collections were read from the state file' },
  state_refused: {
    level: 'warn',
    meaning: 'the state file cannot be used, serving starts without it',
  },
  state_write_failed: {
    level: 'error',
    meaning: 'the state file cannot be written, the old one stays',
  },
  state_written: { level: 'debug', meaning: 'the state file was written' },
  state_recovered: { level: 'info', meaning: 'the state file can be written again' },
  client_oversize: {
    level: 'warn',
    meaning: 'a response that cannot be split is larger than clients may take, and was sent',
  },
  client_withheld: {
    level: 'warn',
    meaning: 'a resource, or a whole set, is larger than a message that a client takes: not sent',
  },
  handler_error: { level: 'error', meaning: 'a bug: a handler threw, its stream was ended' },
  admin_error: { level: 'error', meaning: 'a bug: a request to the admin side threw' },
  invalidated: { level: 'warn', meaning: 'an operator had the sources asked again' },
  peers_connected: { level: 'info', meaning: 'other instances are heard' },
  peers_lost: { level: 'warn', meaning: 'other instances are not heard; serving goes on' },
  peers_refused: { level: 'error', meaning: 'the NATS server refuses what we publish or hear' },
  log_level_changed: { level: 'warn', meaning: 'an operator changed the log level' },
  tls_reloaded: { level: 'info', meaning: 'new certificates are used for new client connections' },
  tls_refused: { level: 'error', meaning: 'new certificates cannot be used, the old ones stay' },
} as const satisfies Readonly<Record<string, EventSpec>>;

export type EventName = keyof typeof EVENTS;

/** The only labels there are: none of them grows with names, nodes or peers. */
export const METRIC_LABELS = [
  'authority',
  'group',
  'source',
  'type',
  'state',
  'direction',
  'reason',
  'code',
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
      '1 for the state that the group is in, 0 for all others. Of an entry of old-style names: how many node groups are in the state.',
  },
  tributary_switches_total: {
    kind: 'counter',
    labels: ['authority', 'direction', 'reason'],
    meaning: 'Moves of a group to another source: `failover` or `failback`.',
  },
  tributary_stale_seconds: {
    kind: 'gauge',
    labels: ['authority', 'group'],
    meaning: 'For so long the source whose content is served has been lost; 0 while it lives.',
  },
  tributary_wanted_names: {
    kind: 'gauge',
    labels: ['authority', 'group'],
    meaning: 'Names and globs that clients ask for.',
  },
  tributary_served_names: {
    kind: 'gauge',
    labels: ['authority', 'group'],
    meaning: 'Resources that are held for clients.',
  },
  tributary_guarded_names: {
    kind: 'gauge',
    labels: ['authority', 'group'],
    meaning: 'Removals that the deletion guard holds back now.',
  },
  tributary_shadowed_names: {
    kind: 'gauge',
    labels: ['authority', 'group'],
    meaning:
      'Old-style resources that are not served, since an entry before this one has one of that name.',
  },
  tributary_guarded_removals_total: {
    kind: 'counter',
    labels: ['authority', 'group'],
    meaning: 'Removals that the deletion guard has held back.',
  },
  tributary_refused_resources_total: {
    kind: 'counter',
    labels: ['authority', 'group'],
    meaning: 'Resources that cannot be served under the asked name.',
  },
  tributary_source_connected: {
    kind: 'gauge',
    labels: ['source'],
    meaning:
      '1 after the first response of a stream, while it lives; for files: they were read. Where node groups have streams of their own: how many live.',
  },
  tributary_source_tripped: {
    kind: 'gauge',
    labels: ['source'],
    meaning:
      '1 while the source counts as down. Where node groups have streams of their own: how many do.',
  },
  tributary_source_breaker_state: {
    kind: 'gauge',
    labels: ['source', 'state'],
    meaning:
      '1 for the state that the circuit breaker is in: `closed`, `open`, `half_open`. Where node groups have streams of their own: how many are.',
  },
  tributary_source_trips_total: {
    kind: 'counter',
    labels: ['source', 'reason'],
    meaning: 'Times that the source came to count as down.',
  },
  tributary_source_attempts_total: {
    kind: 'counter',
    labels: ['source'],
    meaning: 'Streams that were opened, or tried to.',
  },
  tributary_source_stream_ends_total: {
    kind: 'counter',
    labels: ['source', 'reason', 'code'],
    meaning: 'Ends of streams and failed attempts: how detected, and the gRPC status code.',
  },
  tributary_source_stream_life_seconds: {
    kind: 'histogram',
    labels: ['source'],
    meaning: 'How long streams lived that had a response.',
  },
  tributary_source_requests_total: {
    kind: 'counter',
    labels: ['source'],
    meaning: 'Requests to the source, acknowledgements included.',
  },
  tributary_source_responses_total: {
    kind: 'counter',
    labels: ['source', 'type'],
    meaning: 'Responses of the source.',
  },
  tributary_source_acks_total: {
    kind: 'counter',
    labels: ['source', 'type'],
    meaning: 'Responses of the source that were accepted whole.',
  },
  tributary_source_nacks_total: {
    kind: 'counter',
    labels: ['source', 'type'],
    meaning: 'Responses of the source of which something was refused.',
  },
  tributary_source_resources_total: {
    kind: 'counter',
    labels: ['source', 'type'],
    meaning: 'Resources taken from the source.',
  },
  tributary_source_refused_resources_total: {
    kind: 'counter',
    labels: ['source', 'type'],
    meaning: 'Resources of the source that were refused.',
  },
  tributary_source_resource_errors_total: {
    kind: 'counter',
    labels: ['source', 'type', 'code'],
    meaning:
      'Resource errors of the source (TP3) that say nothing of the data, by gRPC status code: what is held stays.',
  },
  tributary_source_malformed_total: {
    kind: 'counter',
    labels: ['source'],
    meaning: 'Messages of the source that are no responses.',
  },
  tributary_source_file_problems: {
    kind: 'gauge',
    labels: ['source'],
    meaning: 'Problems in the files of the source, at the latest reading.',
  },
  tributary_clients: { kind: 'gauge', labels: [], meaning: 'Client streams that are open.' },
  tributary_sotw_clients: {
    kind: 'gauge',
    labels: [],
    meaning: 'Of the open client streams, those that speak state of the world.',
  },
  tributary_clients_paused: {
    kind: 'gauge',
    labels: [],
    meaning: 'Client streams that do not read what was written.',
  },
  tributary_client_streams_total: {
    kind: 'counter',
    labels: [],
    meaning: 'Client streams that were opened.',
  },
  tributary_client_requests_total: {
    kind: 'counter',
    labels: [],
    meaning: 'Requests of clients, acknowledgements included.',
  },
  tributary_client_responses_total: {
    kind: 'counter',
    labels: ['authority', 'type'],
    meaning: 'Responses to clients.',
  },
  tributary_client_resources_total: {
    kind: 'counter',
    labels: ['authority', 'type'],
    meaning: 'Resources delivered to clients.',
  },
  tributary_client_removals_total: {
    kind: 'counter',
    labels: ['authority', 'type'],
    meaning: 'Removals told to clients.',
  },
  tributary_client_errors_total: {
    kind: 'counter',
    labels: ['authority', 'type'],
    meaning: 'Errors of single names told to clients.',
  },
  tributary_client_bytes_total: {
    kind: 'counter',
    labels: ['authority', 'type'],
    meaning: 'Bytes of responses to clients.',
  },
  tributary_client_acks_total: {
    kind: 'counter',
    labels: ['authority', 'type'],
    meaning: 'Responses that clients accepted.',
  },
  tributary_client_nacks_total: {
    kind: 'counter',
    labels: ['authority', 'type'],
    meaning: 'Responses that clients refused.',
  },
  tributary_client_ack_seconds: {
    kind: 'histogram',
    labels: [],
    meaning: 'From a response to its acknowledgement by the client.',
  },
  tributary_client_stale_nonces_total: {
    kind: 'counter',
    labels: ['type'],
    meaning: 'Acknowledgements of responses that are past.',
  },
  tributary_client_refused_names_total: {
    kind: 'counter',
    labels: ['type'],
    meaning: 'Names of clients that are not served or no names.',
  },
  tributary_client_oversize_responses_total: {
    kind: 'counter',
    labels: ['type'],
    meaning: 'Responses that may not be split and are larger than `response_chunk_bytes`.',
  },
  tributary_client_withheld_total: {
    kind: 'counter',
    labels: ['type'],
    meaning:
      'Versions of a resource, and whole sets, not sent to a client since it takes no message that large.',
  },
  tributary_client_malformed_total: {
    kind: 'counter',
    labels: [],
    meaning: 'Messages of clients that are no requests.',
  },
  tributary_cache_names: {
    kind: 'gauge',
    labels: [],
    meaning: 'Single names that the client side holds.',
  },
  tributary_cache_globs: {
    kind: 'gauge',
    labels: [],
    meaning: 'Globs that the client side holds.',
  },
  tributary_peers_connected: {
    kind: 'gauge',
    labels: [],
    meaning: '1 while other instances are heard; absent for a lone instance.',
  },
  tributary_peer_messages_sent_total: {
    kind: 'counter',
    labels: [],
    meaning: 'Messages to other instances.',
  },
  tributary_peer_messages_received_total: {
    kind: 'counter',
    labels: [],
    meaning: 'Messages of other instances.',
  },
  tributary_peer_messages_dropped_total: {
    kind: 'counter',
    labels: [],
    meaning: 'Messages to other instances that could not leave: nobody is heard, or NATS is slow.',
  },
  tributary_peer_messages_ignored_total: {
    kind: 'counter',
    labels: ['reason'],
    meaning: 'Messages of other instances, or names in them, that were of no use, and why.',
  },
  tributary_peer_names_not_told_total: {
    kind: 'counter',
    labels: [],
    meaning: 'Changes that were not told: nobody is heard, or too many at once.',
  },
  tributary_revalidations_total: {
    kind: 'counter',
    labels: ['reason'],
    meaning: 'Names that sources were asked for again: for a `hint`, or an `invalidation`.',
  },
  tributary_map_reloads_total: {
    kind: 'counter',
    labels: ['reason'],
    meaning: 'Readings of a changed authority map: `applied` or `refused`.',
  },
  tributary_state_writes_total: {
    kind: 'counter',
    labels: ['reason'],
    meaning: 'Times that the state file was to be written: `written` or `failed`.',
  },
  tributary_handler_errors_total: {
    kind: 'counter',
    labels: [],
    meaning: 'Handlers that threw. Anything but 0 is a bug.',
  },
  tributary_log_lines_withheld_total: {
    kind: 'counter',
    labels: [],
    meaning: 'Repetitions of a problem that were counted and not logged.',
  },
  tributary_event_loop_lag_p99_seconds: {
    kind: 'gauge',
    labels: [],
    meaning: 'How late the event loop ran in the last seconds, 99th percentile.',
  },
  tributary_event_loop_lag_max_seconds: {
    kind: 'gauge',
    labels: [],
    meaning: 'How late the event loop ran in the last seconds, at most. Over 1: not ready.',
  },
  tributary_resident_memory_bytes: {
    kind: 'gauge',
    labels: [],
    meaning: 'Memory of the process.',
  },
  tributary_cpu_seconds_total: {
    kind: 'counter',
    labels: [],
    meaning: 'CPU time of the process, user and system.',
  },
  tributary_start_time_seconds: {
    kind: 'gauge',
    labels: [],
    meaning: 'When the process started, in Unix time.',
  },
} as const satisfies Readonly<Record<string, MetricSpec>>;

export type MetricName = keyof typeof METRICS;
