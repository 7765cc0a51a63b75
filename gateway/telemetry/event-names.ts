/**
 * The stable names of log events. The table of docs/OPERATIONS.md comes from here; reference.test.ts
 * compares the page with the code.
 */
export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal';

export interface EventSpec {
  readonly level: LogLevel;
  /** Another level, of the lines that need more or less attention than the rest. */
  readonly sometimes?: LogLevel;
  /** Also the message of the log line, unless the code passes another one. */
  readonly meaning: string;
}

/** Every log line carries one of these names as `event`. */
export const EVENTS = {
  gateway_ready: { level: 'info', meaning: 'the gateway serves clients' },
  gateway_draining: {
    level: 'info',
    meaning: 'the gateway refuses new client streams and ends open ones',
  },
  gateway_stopped: { level: 'info', meaning: 'the process ends' },
  gateway_failed: { level: 'fatal', meaning: 'the gateway cannot start' },
  node_unsafe: {
    level: 'warn',
    meaning: 'a client or a source that breaks the rules of HTTP/2 may end this version of Node.js',
  },
  settings_warning: { level: 'warn', meaning: 'a setting is probably a mistake' },
  map_warning: {
    level: 'warn',
    meaning: 'an entry of the authority map is probably a mistake, or its file cannot be watched',
  },
  map_reloaded: { level: 'info', meaning: 'a new authority map is in force' },
  map_unchanged: {
    level: 'debug',
    meaning: 'the gateway read the authority map again and found no change',
  },
  map_refused: {
    level: 'error',
    meaning: 'the new authority map is invalid, the old one stays in force',
  },
  source_dialing: { level: 'debug', meaning: 'the gateway opens a stream to a source' },
  source_up: { level: 'info', meaning: 'a source sent the first response of a stream' },
  source_lost: {
    level: 'warn',
    sometimes: 'info',
    meaning: 'a stream to a source ended, or a connection attempt failed',
  },
  source_tripped: {
    level: 'warn',
    meaning: 'a source counts as down, its resources may fail over',
  },
  source_hung_up: { level: 'debug', meaning: 'the gateway closed a stream to a source' },
  source_received: { level: 'trace', meaning: 'the gateway processed a response of a source' },
  source_refused: { level: 'warn', meaning: 'the gateway refused resources of a source (NACK)' },
  source_resource_errors: {
    level: 'warn',
    meaning: 'a source reported resource errors other than NOT_FOUND and PERMISSION_DENIED (TP3)',
  },
  source_type_unserved: {
    level: 'warn',
    meaning: 'a source does not serve this type: clients get none of it, until the next try',
  },
  source_unread: {
    level: 'warn',
    meaning: 'a source does not read its requests, the gateway ended its stream',
  },
  source_malformed: {
    level: 'error',
    meaning: 'a source sent a message that is not a DiscoveryResponse',
  },
  file_problems: {
    level: 'error',
    meaning: 'the gateway cannot read files of a source and keeps their last good content',
  },
  file_problems_mended: { level: 'info', meaning: 'all files of a source are readable again' },
  file_refused: { level: 'warn', meaning: 'the gateway cannot serve a resource of a file' },
  failover_state: {
    level: 'info',
    sometimes: 'warn',
    meaning: 'a group changed its failover state',
  },
  authority_switched: { level: 'warn', meaning: 'a group moved from one source to another' },
  failover_forced: { level: 'warn', meaning: 'an operator forced a source' },
  failover_released: { level: 'warn', meaning: 'an operator released a forced source' },
  name_shadowed: {
    level: 'info',
    meaning: 'several old-style entries have a resource of this name: the first one is served',
  },
  deletions_guarded: { level: 'warn', meaning: 'the deletion guard holds back removals' },
  resource_refused: {
    level: 'warn',
    meaning: 'a resource cannot be served under the requested name',
  },
  client_opened: { level: 'debug', meaning: 'a client opened a stream' },
  client_closed: { level: 'debug', meaning: 'a client stream ended' },
  client_limited: {
    level: 'warn',
    meaning:
      'the gateway ended the stream of a client that requested too much or left too much unread, the reason names the limit',
  },
  client_versions_left_out: {
    level: 'warn',
    meaning:
      'a client resumed with more versions than limits.max_names_per_request or limits.max_names_per_client, the gateway sends it these resources again, and removes those that it knows to be deleted',
  },
  client_answer: { level: 'trace', meaning: 'the gateway sent a response to a client' },
  client_ack: { level: 'trace', meaning: 'a client accepted a response (ACK)' },
  client_nack: { level: 'warn', meaning: 'a client refused a response (NACK)' },
  client_stale_nonce: {
    level: 'debug',
    meaning: 'a client sent an ACK or NACK with a stale nonce',
  },
  client_refused_name: {
    level: 'warn',
    meaning: 'a client requested a name that the gateway does not serve to this client',
  },
  client_unwritable: {
    level: 'error',
    meaning:
      'the gateway cannot write resources as JSON for clients that poll by REST, and sends them an error',
  },
  client_unknown_method: {
    level: 'warn',
    meaning: 'a client called a gRPC method that the gateway does not have (UNIMPLEMENTED)',
  },
  client_malformed: {
    level: 'warn',
    meaning: 'a client sent a message that the gateway cannot use, the reason says why',
  },
  client_load_report: { level: 'trace', meaning: 'a client reported its load (LRS)' },
  client_load_unknown: {
    level: 'warn',
    meaning: 'a client reported the load of a cluster that no source serves, the gateway drops it',
  },
  source_load_stream: {
    level: 'info',
    meaning:
      'the stream of load reports to a source changed its state: asked, ended, or unimplemented',
  },
  state_loaded: {
    level: 'info',
    meaning: 'the gateway read the names of collections from the state file',
  },
  state_refused: {
    level: 'warn',
    meaning: 'the gateway cannot use the state file and starts without it',
  },
  state_write_failed: {
    level: 'error',
    meaning: 'the gateway cannot write the state file, the old file stays',
  },
  state_written: { level: 'debug', meaning: 'the gateway wrote the state file' },
  state_recovered: {
    level: 'info',
    meaning: 'the gateway wrote the state file again after failures',
  },
  content_opened: {
    level: 'info',
    meaning: 'the gateway opened its content on disk, and serves it while no source can be reached',
  },
  content_refused: {
    level: 'error',
    meaning: 'the gateway cannot use the directory for content and goes on without it',
  },
  content_damaged: {
    level: 'error',
    meaning: 'the content on disk was damaged, the gateway begins anew with none',
  },
  content_write_failed: {
    level: 'error',
    meaning:
      'the gateway cannot write or read content on disk, a restart would serve older content',
  },
  content_recovered: {
    level: 'info',
    meaning: 'the gateway wrote content on disk again after failures',
  },
  quota_reached: {
    level: 'warn',
    meaning: 'a quota took effect, the gateway refuses what would exceed it',
  },
  memory_short: {
    level: 'error',
    meaning:
      'memory is short, the gateway refuses new streams and names and serves the existing ones',
  },
  memory_enough: { level: 'info', meaning: 'memory is no longer short' },
  client_oversize: {
    level: 'warn',
    meaning:
      'a response that cannot be split exceeds limits.response_chunk, the gateway sent it anyway',
  },
  client_withheld: {
    level: 'warn',
    meaning: 'a resource or a whole set exceeds the message limit of a client and was not sent',
  },
  handler_error: {
    level: 'error',
    meaning:
      'bug: code of the gateway threw an exception, or a listener failed; a stream that this code served has ended',
  },
  admin_error: { level: 'error', meaning: 'bug: a request to the admin API threw an exception' },
  invalidated: {
    level: 'warn',
    meaning: 'an operator invalidated names: the gateway requests them again from their sources',
  },
  peers_connected: { level: 'info', meaning: 'connected to NATS: peer instances exchange hints' },
  peers_lost: {
    level: 'warn',
    meaning: 'the connection to NATS is lost, the gateway serves without hints of peers',
  },
  peers_refused: { level: 'error', meaning: 'the NATS server denies publishing or subscribing' },
  traces_failed: { level: 'warn', meaning: 'traces did not reach the collector and are lost' },
  log_level_changed: { level: 'warn', meaning: 'an operator changed the log level' },
  jwks_reloaded: { level: 'info', meaning: 'tokens of clients are verified with the new keys' },
  jwks_refused: { level: 'error', meaning: 'the JWKS file cannot be used, the old keys stay' },
  admin_token_refused: {
    level: 'error',
    meaning: 'the token file of the admin server cannot be used, the last token stays',
  },
  clients_unrestricted: {
    level: 'warn',
    meaning:
      'every client may ask for everything, and the listener is open to other hosts without mutual TLS',
  },
  tls_reloaded: {
    level: 'info',
    meaning: 'new connections to this listener use the new certificates',
  },
  tls_refused: {
    level: 'error',
    meaning: 'the new certificates of this listener cannot be used, the old ones stay',
  },
} as const satisfies Readonly<Record<string, EventSpec>>;

export type EventName = keyof typeof EVENTS;
