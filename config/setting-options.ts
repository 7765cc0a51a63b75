/**
 * Every setting of the process: what it means, its default, and how it is written in the settings
 * file, in the environment and on the command line. The one table behind parsing, `--help` and docs/SETTINGS.md.
 */
import { settingKey } from './defaults.js';
import { DEFAULT_KEEPALIVE, DEFAULT_LIMITS, DEFAULT_RESOLUTION, type Limits } from './limits.js';
import type { SettingFormatName } from './setting-formats.js';

export interface SettingOption {
  /** Where it stands in the settings file, e.g. `client.tls.cert`. */
  readonly key: string;
  /** Without the unit and the default, which the reference adds. */
  readonly doc: string;
  readonly format: SettingFormatName;
  /** `null`: none. */
  readonly default: unknown;
  /** What the reference says instead of a default that is computed. */
  readonly defaultWords?: string;
}

const LIMIT_DOCS: Readonly<Record<keyof Limits, string>> = {
  maxClients: 'Client streams at a time; a further one ends with RESOURCE_EXHAUSTED.',
  maxStreamsPerConnection: 'Streams of one client connection at a time; a further one waits.',
  maxNamesPerClient:
    'Names that one client may be subscribed to, over all types; with more, its stream ends with RESOURCE_EXHAUSTED.',
  maxNamesPerRequest: 'Names in one request; with more, the stream ends with RESOURCE_EXHAUSTED.',
  maxUnsubscribedNames:
    'Names and globs that no client asks for any more, kept for `limits.unsubscribed_linger`; with more, the oldest go at once.',
  unsubscribedLingerMs:
    'A name or glob that no client asks for any more is kept this long, and stays subscribed at its source, for clients that return.',
  maxRequestBytes:
    'Largest request taken from a client; a larger one ends its stream with RESOURCE_EXHAUSTED.',
  maxResourcesPerResponse:
    'Resources in one response of a source, counted before any is decoded; with more, the stream to the source is given up and tried again.',
  responseChunkBytes:
    'A larger answer is split into responses of about this size. gRPC clients refuse more than 4MiB.',
  tombstonesPerCollection:
    'Deleted members that one collection remembers, for clients that resume.',
  tombstoneMaxAgeMs: 'How long deleted members are remembered.',
  ackDeadlineMs:
    'A response unanswered this long no longer holds back responses of other types; Envoy may take 15s to warm a cluster. Later responses of the same type follow a second apart, four at most.',
  missingClusterWaitMs:
    'With `missing_cluster_answer: placeholder`, a cluster that cannot be had for this long is answered by the placeholder. gRPC clients give a cluster up after 15s.',
  unanswerableWaitMs:
    'With `unanswerable_stream: end`, a stream of which nothing can be said for this long is ended. gRPC clients give names up after 15s.',
  writeAheadBytes:
    'Bytes in messages of 16KiB and more that are written to a client before it has read them; then its stream waits for it. Smaller messages are bounded by number: 16.',
  maxNodeGroups:
    'Node groups that old-style names are held for at a time, each with streams of its own to the sources; a client of a further one has its stream ended with RESOURCE_EXHAUSTED.',
  nackLogIntervalMs: 'The same rejection is logged once in this time, and always counted.',
  drainGraceMs: 'At shutdown clients have this long to go elsewhere.',
};

export const LIMIT_FIELDS = Object.keys(DEFAULT_LIMITS) as readonly (keyof Limits)[];

const MAY_BE_ZERO: ReadonlySet<keyof Limits> = new Set(['drainGraceMs', 'unsubscribedLingerMs']);

function limitOption(field: keyof Limits): SettingOption {
  const format = field.endsWith('Ms') ? 'duration' : field.endsWith('Bytes') ? 'size' : 'count';
  const fitting = MAY_BE_ZERO.has(field) ? 'duration-or-zero' : format;
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
    doc: 'The authority map: which control plane owns which authority. Required.',
    format: 'path',
    default: null,
  },
  {
    key: 'client.host',
    doc: 'Address on which Envoy and gRPC clients are served.',
    format: 'text',
    default: '127.0.0.1',
  },
  { key: 'client.port', doc: 'Its port; 0 takes a free one.', format: 'tcp-port', default: 18_000 },
  {
    key: 'client.tls.cert',
    doc: 'Server certificate chain (PEM file), read again when it changes; needs the key.',
    format: 'path',
    default: null,
  },
  { key: 'client.tls.key', doc: 'Its private key (PEM file).', format: 'path', default: null },
  {
    key: 'client.tls.client_ca',
    doc: 'CA certificates (PEM file). When set, clients must show a certificate that one of them signed (mutual TLS).',
    format: 'path',
    default: null,
  },
  {
    key: 'client.insecure',
    doc: 'Serve clients in plaintext. Must be set when there is no certificate and the host is not a loopback address.',
    format: 'flag',
    default: false,
  },
  {
    key: 'client.max_message',
    doc: 'The largest message that a client takes; a resource that is larger is withheld from it, and its last version before is served. `auto`: 4MiB for gRPC clients, which refuse more, and no limit for others. A size: for every client.',
    format: 'max-message',
    default: 'auto',
  },
  {
    key: 'client.keepalive.time',
    doc: 'Each client connection is asked this often whether it lives (HTTP/2 PING).',
    format: 'duration',
    default: DEFAULT_KEEPALIVE.timeMs,
  },
  {
    key: 'client.keepalive.timeout',
    doc: 'A client connection that does not answer such a PING within this time is closed.',
    format: 'duration',
    default: DEFAULT_KEEPALIVE.timeoutMs,
  },
  {
    key: 'admin.host',
    doc: 'Address of the admin side (health, metrics, dumps). It has no authentication.',
    format: 'text',
    default: '127.0.0.1',
  },
  { key: 'admin.port', doc: 'Its port; 0 takes a free one.', format: 'tcp-port', default: 18_900 },
  {
    key: 'node.id',
    doc: 'Node id that the gateway gives to sources.',
    format: 'text',
    default: null,
    defaultWords: '`tributary-` and the host name',
  },
  {
    key: 'node.cluster',
    doc: 'Node cluster that the gateway gives to sources.',
    format: 'text',
    default: 'tributary',
  },
  {
    key: 'node.locality.region',
    doc: 'Region that the gateway gives to sources.',
    format: 'text',
    default: null,
  },
  {
    key: 'node.locality.zone',
    doc: 'Zone that the gateway gives to sources.',
    format: 'text',
    default: null,
  },
  {
    key: 'node.locality.sub_zone',
    doc: 'Part of the zone that the gateway gives to sources.',
    format: 'text',
    default: null,
  },
  {
    key: 'node.metadata',
    doc: 'Node metadata that the gateway gives to sources.',
    format: 'json',
    default: null,
  },
  {
    key: 'log.level',
    doc: 'Least severe level that is logged.',
    format: 'log-level',
    default: 'info',
  },
  {
    key: 'log.pretty',
    doc: 'Log lines for people instead of JSON.',
    format: 'flag',
    default: false,
  },
  {
    key: 'absent_route_answer',
    doc: 'What a client hears of a route configuration or extension (RDS, ECDS) that does not exist: `removed` keeps a running listener as it is, but holds up one that starts; `silence` lets Envoy start after 15s, and answer 404.',
    format: 'absent-route-answer',
    default: 'removed',
  },
  {
    key: 'state_file',
    doc: 'Where the names of collections (never content) are written, for clients that return after a restart of the gateway and have to hear what was deleted meanwhile. One file for each gateway, in a directory that it may write to.',
    format: 'path',
    default: null,
  },
  {
    key: 'nats.servers',
    doc: 'NATS servers over which the instances of a cluster hear each other, as `nats://host:4222` or `tls://host:4222`. Without them an instance is on its own. See INSTANCES.md.',
    format: 'texts',
    default: null,
  },
  {
    key: 'nats.cluster',
    doc: 'Instances with the same name hear each other.',
    format: 'token',
    default: 'default',
  },
  {
    key: 'nats.subject_prefix',
    doc: 'Messages have the subject `PREFIX.CLUSTER.hint`.',
    format: 'subject',
    default: 'tributary',
  },
  {
    key: 'nats.tls.ca',
    doc: 'CA certificates of the NATS servers (PEM file); by default those of the system.',
    format: 'path',
    default: null,
  },
  {
    key: 'nats.tls.cert',
    doc: 'Our certificate for NATS (PEM file); needs the key.',
    format: 'path',
    default: null,
  },
  { key: 'nats.tls.key', doc: 'Its private key (PEM file).', format: 'path', default: null },
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
    doc: 'User name for NATS; needs the password.',
    format: 'text',
    default: null,
  },
  {
    key: 'nats.password_file',
    doc: 'File with the password of that user.',
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
    doc: 'How long our own sources have to bring by themselves what another instance has seen; then they are asked.',
    format: 'duration',
    default: 1_000,
  },
  {
    key: 'missing_cluster_answer',
    doc: 'What a state-of-the-world client (every gRPC client) hears of a cluster that it asks for and that cannot be had within `limits.missing_cluster_wait`: `placeholder` is a cluster of that name without endpoints, so that only calls to it fail; with `silence` a gRPC channel that needs it starts, or takes changes, after 15s.',
    format: 'missing-cluster-answer',
    default: 'silence',
  },
  {
    key: 'unanswerable_stream',
    doc: 'What becomes of a stream while no source can answer anything that its client asks for: with `silence` it stays open; with `end` it ends with UNAVAILABLE after `limits.unanswerable_wait`, before a gRPC client gives up the names (at 15s), so that a client with another server goes there.',
    format: 'unanswerable-stream',
    default: 'silence',
  },
  {
    key: 'resolution.max_hops',
    doc: 'Redirects, or lists within lists, that are followed one after the other; a longer way is an error on that name. See RESOLUTION.md.',
    format: 'hops',
    default: DEFAULT_RESOLUTION.maxHops,
  },
  {
    key: 'resolution.max_list_entries',
    doc: 'Entries of a list collection and of all lists within it together; a longer list is an error on that list.',
    format: 'list-entries',
    default: DEFAULT_RESOLUTION.maxListEntries,
  },
  {
    key: 'resolution.max_nested_lists',
    doc: 'Lists that are entries of one list; further ones are left out.',
    format: 'list-entries',
    default: DEFAULT_RESOLUTION.maxNestedLists,
  },
  ...LIMIT_FIELDS.map(limitOption),
];

/** `client.tls.client_ca` → `TRIBUTARY_CLIENT_TLS_CLIENT_CA`. */
export function environmentName(key: string): string {
  return `TRIBUTARY_${key.replaceAll('.', '_').toUpperCase()}`;
}

/** `client.tls.client_ca` → `client-tls-client-ca`; limits go without their section, `drain-grace`. */
export function flagName(key: string): string {
  return key.replace(/^limits\./, '').replace(/[._]/g, '-');
}
