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
  /** Names and globs that no client asks for any more are kept this long, for clients that return. Milliseconds. */
  readonly unsubscribedLingerMs: number;
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
  /** A state-of-the-world client that asks for a cluster gets the placeholder after this, if the settings want one. Milliseconds. */
  readonly missingClusterWaitMs: number;
  /** A state-of-the-world stream of which nothing can be said ends after this, if the settings want that. Milliseconds. */
  readonly unanswerableWaitMs: number;
  /** Bytes in large messages that are written to a client before it reads them; then the client is waited for. */
  readonly writeAheadBytes: number;
  /** Node groups that old-style names are held for at a time, each with streams of its own to the sources; a client of a further one has its stream ended with RESOURCE_EXHAUSTED. A count. */
  readonly maxNodeGroups: number;
  /** The same rejection is logged once in this time, and always counted. Milliseconds. */
  readonly nackLogIntervalMs: number;
  /** At shutdown clients have this long to go elsewhere. Milliseconds. */
  readonly drainGraceMs: number;
}

/** HTTP/2 keepalive of client connections. Without it a client whose host vanished would be a client for ever. */
export interface Keepalive {
  readonly timeMs: number;
  readonly timeoutMs: number;
}

export const DEFAULT_KEEPALIVE: Keepalive = Object.freeze({ timeMs: 30_000, timeoutMs: 10_000 });

/** How far redirects and list collections are followed. TP1 sets no bound. */
export interface ResolutionBounds {
  /** Redirects, or lists within lists, one after the other. A count. */
  readonly maxHops: number;
  /** Entries of one list and of all that it nests together. A count. */
  readonly maxListEntries: number;
  /** Lists that are entries of one list. A count. */
  readonly maxNestedLists: number;
}

/** The most that `resolution.max_list_entries` can be: as many are read of a list in any case. */
export const MOST_LIST_ENTRIES = 100_000;

export const DEFAULT_RESOLUTION: ResolutionBounds = Object.freeze({
  maxHops: 4,
  maxListEntries: 10_000,
  // Lists are for a directory of resources; a directory of lists is small.
  maxNestedLists: 100,
});

export const DEFAULT_LIMITS: Limits = Object.freeze({
  maxClients: 10_000,
  maxStreamsPerConnection: 100,
  maxNamesPerClient: 10_000,
  maxNamesPerRequest: 10_000,
  maxUnsubscribedNames: 100_000,
  unsubscribedLingerMs: 30_000,
  // 10,000 names of some 200 bytes with versions come to 2.5 MB.
  maxRequestBytes: 4 * 1_024 * 1_024,
  maxResourcesPerResponse: 100_000,
  responseChunkBytes: 2 * 1_024 * 1_024,
  tombstonesPerCollection: 10_000,
  tombstoneMaxAgeMs: 86_400_000,
  ackDeadlineMs: 16_000,
  // Both well before the 15 s after which clients give a name up.
  missingClusterWaitMs: 5_000,
  unanswerableWaitMs: 12_000,
  writeAheadBytes: 256 * 1_024,
  maxNodeGroups: 1_000,
  nackLogIntervalMs: 60_000,
  drainGraceMs: 10_000,
});
