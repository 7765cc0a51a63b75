/**
 * Every setting of the process: meaning, default, and spelling in the settings file, the environment
 * and the command line. Parsing, `--help` and docs/SETTINGS.md all use this table.
 */
import { settingKey } from './defaults.js';
import { DEFAULT_KEEPALIVE, DEFAULT_LIMITS, DEFAULT_RESOLUTION, type Limits } from './limits.js';
import type { SettingFormatName } from './setting-formats.js';

export interface SettingOption {
  /** Path in the settings file, such as `client.tls.cert`. */
  readonly key: string;
  /** The meaning, as Markdown. The reference adds the unit and the default. */
  readonly doc: string;
  readonly format: SettingFormatName;
  /** `null`: no default. */
  readonly default: unknown;
  /** Describes a computed default; the reference shows it in place of `default`. */
  readonly defaultWords?: string;
}

const LIMIT_DOCS: Readonly<Record<keyof Limits, string>> = {
  maxClients:
    'Concurrent client streams, and clients that poll (one for each type and list of names). When all are taken, the gateway drops the client that polls and has been idle for the longest time. If there is none, it ends the new stream with RESOURCE_EXHAUSTED.',
  maxConnections:
    'Concurrent connections of clients. The open files of the process (`ulimit -n`) bound them, too: the gateway keeps 2,000 of them for itself, or half if they are fewer than 4,000. It closes a further connection at once.',
  maxPeerPercent:
    'Part of the quotas of streams, connections, names, upstream names, node groups, first syncs and buffered bytes that one peer (its identity, else its address) may take, in percent of the part that the other peers leave free. See SECURITY.md, "Quotas".',
  peerRequestsPerSecond:
    'Requests a second of one peer; a burst may have twice as many. Each 10 KB of a request count as one more request. The gateway reads the streams of a faster peer later, and refuses its polls (Fetch, REST) until then.',
  maxNames:
    'Subscriptions of all clients: a name counts once for each client. The gateway refuses further names with RESOURCE_EXHAUSTED.',
  maxUpstreamNames:
    'Names and globs that the gateway subscribes to at its sources, each once for all clients. It refuses further ones with RESOURCE_EXHAUSTED.',
  maxFirstSyncs:
    'Clients whose first responses are under way at the same time. Other new clients wait; resuming clients go first.',
  maxBufferedBytes:
    'Bytes of all clients: responses that they do not read (what they share counts once), long requests that have not arrived completely or wait for their turn, and 64 KiB for each Fetch and REST call whose request has not come. While a peer has used up its share, responses to its clients are small, its polls are refused, its long requests are read later, and the streams of its clients that have not read for 10s end. See SECURITY.md, "Quotas".',
  maxStreamAgeMs:
    'Age at which the gateway ends a client stream with UNAVAILABLE, less a random part of up to a tenth, so that clients spread over instances anew. 0: never.',
  maxHeapPercent:
    'Part of the heap limit of Node.js (`--max-old-space-size`) in percent. With more in use, the gateway refuses new streams and new names, and goes on serving the others.',
  maxResourcesPerSource:
    'Resources that the gateway keeps of one source. It refuses further ones (NACK).',
  maxContentPerSourceBytes:
    'Bytes of the resources that the gateway keeps of one source; each resource counts 1KiB more than its size. The gateway refuses further ones (NACK).',
  maxContentBytes: 'The same for all sources together.',
  maxStreamsPerConnection:
    'Concurrent streams of one client connection; a further stream waits. With a value above 100, a connection begins with 100, and gets 100 more whenever half of its streams are open, up to this value.',
  maxNamesPerClient:
    'Subscribed names of one client, over all types. With more, the gateway ends the stream with RESOURCE_EXHAUSTED.',
  maxNamesPerRequest:
    'Names in one request: subscriptions and unsubscriptions together. With more, the gateway ends the stream with RESOURCE_EXHAUSTED. It reads as many versions, and leaves out further ones (`client_versions_left_out`).',
  maxUnsubscribedNames:
    'Names and globs without a subscriber that the cache keeps for `limits.unsubscribed_linger`. With more, the cache drops the oldest at once.',
  unsubscribedLingerMs:
    'After the stream of its last client ended, the gateway keeps a name or glob cached and subscribed at its source for this long, for clients that return. It keeps a name that a client unsubscribed for at most 2s.',
  maxRequestBytes:
    'Largest request that the gateway accepts from a client. It ends the stream of a larger one with RESOURCE_EXHAUSTED.',
  maxResourcesPerResponse:
    'Resources in one response of a source, counted before any of them is decoded. With more, the gateway ends the stream and reconnects with backoff.',
  responseChunkBytes:
    'The gateway splits larger updates into responses of about this size; a delta response has 2,500 resources at most. gRPC clients refuse more than 4MiB.',
  tombstonesPerCollection: 'Tombstones (deleted members) per collection, for clients that resume.',
  tombstoneMaxAgeMs: 'Lifetime of a tombstone.',
  contentMaxAgeMs:
    'Content in `content_dir` is served for this long after the end of the process that last had it from a source.',
  ackDeadlineMs:
    'A response without an ACK or NACK blocks responses of other types for at most this long. Envoy may take 15s to warm a cluster. Of one type, the gateway sends up to four unacknowledged responses, one second apart.',
  missingClusterWaitMs:
    'With `missing_cluster_answer: placeholder`, the gateway sends the placeholder for a cluster that is still missing after this time. gRPC clients give up a cluster after 15s.',
  unanswerableWaitMs:
    'With `unanswerable_stream: end`, the gateway ends a stream this long after its first request if it could not send any response. gRPC clients give up names after 15s.',
  pollWaitMs:
    'How long a request of a client that polls (Fetch, REST) waits for content that the gateway does not know yet. Envoy waits for `request_timeout`, by default 1s.',
  pollLeaseMs:
    'How long the names of a client that polls stay subscribed after its last request. Set it longer than the `refresh_delay` of Envoy.',
  writeAheadBytes:
    'Bytes that wait for one client beyond its HTTP/2 window, because it does not read. With more, the gateway stops writing until the client has read all of them. One message may be larger.',
  maxNodeGroups:
    'Concurrent node groups of old-style names, each with its own streams to the sources. The gateway ends the stream of a client in a further group with RESOURCE_EXHAUSTED.',
  maxLoadEntriesPerReport:
    'Clusters, localities, endpoints, metrics and categories together in one load report of a client. With more, the gateway ends its stream of load reports with RESOURCE_EXHAUSTED.',
  maxLoadEntriesPerSource:
    'The same in the sums of all clients for one source. The gateway drops and counts the loads of further entries.',
  nackLogIntervalMs: 'The gateway logs repeats of a NACK once per interval and counts all of them.',
  drainGraceMs: 'How long clients have at shutdown to reconnect to another server.',
};

export const LIMIT_FIELDS = Object.keys(DEFAULT_LIMITS) as readonly (keyof Limits)[];

const MAY_BE_ZERO: ReadonlySet<keyof Limits> = new Set([
  'drainGraceMs',
  'maxStreamAgeMs',
  'unsubscribedLingerMs',
]);

function limitOption(field: keyof Limits): SettingOption {
  const format = field.endsWith('Ms') ? 'duration' : field.endsWith('Bytes') ? 'size' : 'count';
  const named = field.endsWith('Percent') ? 'percent' : format;
  const fitting = MAY_BE_ZERO.has(field) ? 'duration-or-zero' : named;
  return {
    key: `limits.${settingKey(field)}`,
    doc: LIMIT_DOCS[field],
    format: fitting,
    default: DEFAULT_LIMITS[field],
  };
}

export const SETTING_OPTIONS: readonly SettingOption[] = [
  {
    key: 'authority_map',
    doc: 'The authority map, which assigns authorities to control planes. Required.',
    format: 'path',
    default: null,
  },
  {
    key: 'port_offset',
    doc: 'Number that the gateway adds to the ports of clients, admin and probes, so that a second gateway on the same host needs one flag only. The commands read the variable as well. A port 0 stays 0.',
    format: 'port-offset',
    default: 0,
  },
  {
    key: 'client.host',
    doc: 'Listen address for Envoy and gRPC clients.',
    format: 'text',
    default: '127.0.0.1',
  },
  {
    key: 'client.port',
    doc: 'Listen port for clients; 0 picks a free port.',
    format: 'tcp-port',
    default: 18_000,
  },
  {
    key: 'client.tls.cert',
    doc: 'Server certificate chain (PEM file). Needs `client.tls.key`. The gateway rereads both files when they change.',
    format: 'path',
    default: null,
  },
  {
    key: 'client.tls.key',
    doc: 'Private key of the server certificate (PEM file).',
    format: 'path',
    default: null,
  },
  {
    key: 'client.tls.client_ca',
    doc: 'CA certificates (PEM file) for mutual TLS. When set, a client must present a certificate signed by one of them.',
    format: 'path',
    default: null,
  },
  {
    key: 'client.jwt.jwks',
    doc: 'Public keys (JSON Web Key Set file) for the tokens of clients: `authorization: Bearer` with a JWT. When set, the gateway ends streams with an invalid token (UNAUTHENTICATED), and a stream when its token expires. Needs `client.jwt.issuer` and `client.jwt.audience`. The gateway rereads the file when it changes.',
    format: 'path',
    default: null,
  },
  {
    key: 'client.jwt.issuer',
    doc: 'The claim `iss` that a token must have.',
    format: 'text',
    default: null,
  },
  {
    key: 'client.jwt.audience',
    doc: 'A value that the claim `aud` of a token must have.',
    format: 'text',
    default: null,
  },
  {
    key: 'client.jwt.clock_skew',
    doc: 'By how much the clock of the issuer may differ from that of the gateway.',
    format: 'duration-or-zero',
    default: 60_000,
  },
  {
    key: 'client.insecure',
    doc: 'Allow plaintext for clients. Required without a certificate if `client.host` is not a loopback address.',
    format: 'flag',
    default: false,
  },
  {
    key: 'client.max_message',
    doc: 'Largest message that clients accept. The gateway withholds larger resources; a client keeps the last version that fits. `auto`: 4MiB for gRPC clients, which refuse more, and no limit for others. A size applies to every client.',
    format: 'max-message',
    default: 'auto',
  },
  {
    key: 'client.keepalive.time',
    doc: 'Interval of HTTP/2 PINGs on client connections.',
    format: 'duration',
    default: DEFAULT_KEEPALIVE.timeMs,
  },
  {
    key: 'client.keepalive.timeout',
    doc: 'The gateway closes a client connection that does not acknowledge a PING within this time.',
    format: 'duration',
    default: DEFAULT_KEEPALIVE.timeoutMs,
  },
  {
    key: 'admin.host',
    doc: 'Listen address of the admin server (state, metrics, dumps, orders). An address that is not on loopback needs `admin.token_file`, or mutual TLS (`admin.tls.client_ca`).',
    format: 'text',
    default: '127.0.0.1',
  },
  {
    key: 'admin.port',
    doc: 'Listen port of the admin server; 0 picks a free port.',
    format: 'tcp-port',
    default: 18_900,
  },
  {
    key: 'admin.token_file',
    doc: 'File with a token that each request to the admin server must carry (`authorization: Bearer TOKEN`). The gateway rereads the file.',
    format: 'path',
    default: null,
  },
  {
    key: 'admin.tls.cert',
    doc: 'Server certificate chain of the admin server (PEM file). Needs `admin.tls.key`. The gateway rereads both files when they change.',
    format: 'path',
    default: null,
  },
  {
    key: 'admin.tls.key',
    doc: 'Private key of this certificate (PEM file).',
    format: 'path',
    default: null,
  },
  {
    key: 'admin.tls.client_ca',
    doc: 'CA certificates (PEM file) for mutual TLS: only clients with a certificate that one of them signed may use the admin server.',
    format: 'path',
    default: null,
  },
  {
    key: 'probe.host',
    doc: 'Listen address of the probe server (`/live` and `/ready`, nothing else). It needs no authentication.',
    format: 'text',
    default: '127.0.0.1',
  },
  {
    key: 'probe.port',
    doc: 'Listen port of the probe server; 0 picks a free port.',
    format: 'tcp-port',
    default: null,
    defaultWords: '`admin.port` plus 100, or 0 if that is 0 or the sum is above 65535',
  },
  {
    key: 'node.id',
    doc: 'Node id that the gateway sends to sources.',
    format: 'text',
    default: null,
    defaultWords: '`tributary-` and the host name',
  },
  {
    key: 'node.cluster',
    doc: 'Node cluster that the gateway sends to sources.',
    format: 'text',
    default: 'tributary',
  },
  {
    key: 'node.locality.region',
    doc: 'Region that the gateway sends to sources.',
    format: 'text',
    default: null,
  },
  {
    key: 'node.locality.zone',
    doc: 'Zone that the gateway sends to sources.',
    format: 'text',
    default: null,
  },
  {
    key: 'node.locality.sub_zone',
    doc: 'Sub-zone that the gateway sends to sources.',
    format: 'text',
    default: null,
  },
  {
    key: 'node.metadata',
    doc: 'Node metadata that the gateway sends to sources.',
    format: 'json',
    default: null,
  },
  {
    key: 'log.level',
    doc: 'Lowest level that the gateway logs.',
    format: 'log-level',
    default: 'info',
  },
  {
    key: 'log.pretty',
    doc: 'Human-readable log lines instead of JSON; coloured on a terminal, unless `NO_COLOR` is set.',
    format: 'flag',
    default: null,
    defaultWords: '`true` if stdout is a terminal',
  },
  {
    key: 'traces.endpoint',
    doc: 'URL of an OpenTelemetry collector (OTLP/HTTP, JSON), such as `http://127.0.0.1:4318/v1/traces`. The gateway sends it a trace of each change, from the response of the source to the ACKs of the clients. Without it, the gateway makes no traces.',
    format: 'http-url',
    default: null,
  },
  {
    key: 'absent_route_answer',
    doc: 'What the gateway sends for an absent route configuration or extension (RDS, ECDS). `removed` sends a removal: a running listener keeps its routes, but a starting listener hangs. `silence` sends nothing: Envoy starts the listener after 15s and serves 404.',
    format: 'absent-route-answer',
    default: 'removed',
  },
  {
    key: 'state_file',
    doc: 'File for the member names of collections (never content). After a restart, the gateway uses them to send returning clients the removals that they missed. Each gateway needs its own file in a writable directory.',
    format: 'path',
    default: null,
  },
  {
    key: 'content_dir',
    doc: 'Directory for the last content of the sources, except secrets. After a restart, the gateway serves it while all sources of an authority are unreachable. Each gateway needs its own directory. See OPERATIONS.md.',
    format: 'path',
    default: null,
  },
  {
    key: 'nats.servers',
    doc: 'NATS servers through which the instances of a cluster exchange hints, as `nats://host:4222` or `tls://host:4222`. Without servers, an instance works alone. See INSTANCES.md.',
    format: 'texts',
    default: null,
  },
  {
    key: 'nats.cluster',
    doc: 'Cluster name. Instances with the same name exchange hints.',
    format: 'token',
    default: 'default',
  },
  {
    key: 'nats.subject_prefix',
    doc: 'Prefix of the message subject, `PREFIX.CLUSTER.hint`.',
    format: 'subject',
    default: 'tributary',
  },
  {
    key: 'nats.tls.ca',
    doc: 'CA certificates of the NATS servers (PEM file). Without them, the default root certificates of Node.js apply.',
    format: 'path',
    default: null,
  },
  {
    key: 'nats.tls.cert',
    doc: 'Client certificate for NATS (PEM file). Needs `nats.tls.key`.',
    format: 'path',
    default: null,
  },
  {
    key: 'nats.tls.key',
    doc: 'Private key of the client certificate (PEM file).',
    format: 'path',
    default: null,
  },
  {
    key: 'nats.insecure',
    doc: 'Allow plaintext to NATS servers that are not on loopback.',
    format: 'flag',
    default: false,
  },
  {
    key: 'nats.credentials_file',
    doc: 'Credentials (`.creds`: JWT and seed) for NATS.',
    format: 'path',
    default: null,
  },
  {
    key: 'nats.user',
    doc: 'User name for NATS. Needs `nats.password_file`.',
    format: 'text',
    default: null,
  },
  {
    key: 'nats.password_file',
    doc: 'File with the password of `nats.user`.',
    format: 'path',
    default: null,
  },
  {
    key: 'nats.token_file',
    doc: 'File with a token for NATS.',
    format: 'path',
    default: null,
  },
  {
    key: 'nats.grace',
    doc: 'How long an instance waits for its own sources to deliver a change that a peer instance announced. After that, it sends its sources a new request.',
    format: 'duration',
    default: 1_000,
  },
  {
    key: 'missing_cluster_answer',
    doc: 'What the gateway sends a state-of-the-world client (every gRPC client) for a requested cluster that is still missing after `limits.missing_cluster_wait`. `placeholder` sends a cluster of that name without endpoints: only calls to it fail. `silence` sends nothing: a gRPC channel that needs the cluster neither starts nor applies changes for 15s.',
    format: 'missing-cluster-answer',
    default: 'silence',
  },
  {
    key: 'unanswerable_stream',
    doc: 'What the gateway does with a stream when no source could answer any requested resource. `silence` keeps it open. `end` ends it with UNAVAILABLE after `limits.unanswerable_wait`, so that a gRPC client fails over to its next server before it gives up the names (after 15s).',
    format: 'unanswerable-stream',
    default: 'silence',
  },
  {
    key: 'resolution.max_hops',
    doc: 'Consecutive redirects, or levels of nested lists, that the gateway follows. A longer chain is an error of that name. See RESOLUTION.md.',
    format: 'hops',
    default: DEFAULT_RESOLUTION.maxHops,
  },
  {
    key: 'resolution.max_list_entries',
    doc: 'Entries of a list collection, including those of its nested lists. A longer list is an error of that list.',
    format: 'list-entries',
    default: DEFAULT_RESOLUTION.maxListEntries,
  },
  {
    key: 'resolution.max_nested_lists',
    doc: 'Nested lists of one list. The gateway skips further ones.',
    format: 'list-entries',
    default: DEFAULT_RESOLUTION.maxNestedLists,
  },
  ...LIMIT_FIELDS.map(limitOption),
];

/** `client.tls.client_ca` → `TRIBUTARY_CLIENT_TLS_CLIENT_CA`. */
export function environmentName(key: string): string {
  return `TRIBUTARY_${key.replaceAll('.', '_').toUpperCase()}`;
}

/**
 * `client.tls.client_ca` → `client-tls-client-ca`; limits drop their section: `limits.drain_grace`
 * → `drain-grace`.
 */
export function flagName(key: string): string {
  return key.replace(/^limits\./, '').replace(/[._]/g, '-');
}
