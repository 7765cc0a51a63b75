/**
 * Every bound of the process, with its unit. A peer that reaches one is refused or delayed, never
 * served from unbounded memory. The names say the unit; a bare `max…` is a count.
 */

export interface Limits {
  /** Client streams at a time; a further one ends with RESOURCE_EXHAUSTED. A count. */
  readonly maxClients: number;
  /** Streams of one client connection at a time; a further one waits. Envoy opens one; gRPC one for each target, in the C core all on one connection. A count. */
  readonly maxStreamsPerConnection: number;
  /** Names that one client may be subscribed to, over all types; with more, its stream ends with RESOURCE_EXHAUSTED. A count. */
  readonly maxNamesPerClient: number;
  /** Names in one request, subscriptions, unsubscriptions and versions together; with more, the stream ends with RESOURCE_EXHAUSTED. A count. */
  readonly maxNamesPerRequest: number;
  /** Names and globs kept for a while that nobody asks for any more; with more, the oldest go at once. A count. */
  readonly maxUnsubscribedNames: number;
  /** Largest request taken. It must hold a resumption: `maxNamesPerRequest` names with their versions. Bytes. */
  readonly maxRequestBytes: number;
  /** Resources in one response of a source, counted before any is decoded. A count. */
  readonly maxResourcesPerResponse: number;
  /** A larger delta answer is split into responses of about this size; gRPC clients refuse more than 4 MiB. Bytes. */
  readonly responseChunkBytes: number;
  /** Deleted members that one collection remembers, for clients that resume. A count. */
  readonly tombstonesPerCollection: number;
  /** How long they are remembered. Milliseconds. */
  readonly tombstoneMaxAgeMs: number;
  /** A response unanswered this long no longer holds back those of other types. More than the 15 s that Envoy may take to warm a cluster. Milliseconds. */
  readonly ackDeadlineMs: number;
  /** Node groups that old-style names are held for at a time, each with streams of its own to the sources; a client of a further one has its stream ended with RESOURCE_EXHAUSTED. A count. */
  readonly maxNodeGroups: number;
  /** The same rejection is logged once in this time, and always counted. Milliseconds. */
  readonly nackLogIntervalMs: number;
  /** At shutdown clients have this long to go elsewhere. Milliseconds. */
  readonly drainGraceMs: number;
}

export const DEFAULT_LIMITS: Limits = Object.freeze({
  maxClients: 10_000,
  maxStreamsPerConnection: 100,
  maxNamesPerClient: 10_000,
  maxNamesPerRequest: 10_000,
  maxUnsubscribedNames: 100_000,
  // 10,000 names of some 200 bytes with versions come to 2.5 MB.
  maxRequestBytes: 4 * 1_024 * 1_024,
  maxResourcesPerResponse: 100_000,
  responseChunkBytes: 2 * 1_024 * 1_024,
  tombstonesPerCollection: 10_000,
  tombstoneMaxAgeMs: 86_400_000,
  ackDeadlineMs: 16_000,
  maxNodeGroups: 1_000,
  nackLogIntervalMs: 60_000,
  drainGraceMs: 10_000,
});
