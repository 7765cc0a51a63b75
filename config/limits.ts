/**
 * Every bound of the process, with its unit. The gateway refuses or delays a peer that reaches a bound,
 * so memory stays bounded. Names end in their unit; a bare `max…` is a count.
 */

export interface Limits {
  /** Concurrent client streams, and clients that poll. An idle client that polls gives way to a further one. A count. */
  readonly maxClients: number;
  /**
   * Concurrent connections of clients. The open files of the process bound them, too (`gateway/open-files.ts`). The gateway
   * closes a further one at once. A count.
   */
  readonly maxConnections: number;
  /**
   * The part of the quotas of streams, connections, names, upstream names, node groups, first syncs and buffered bytes that one
   * peer (identity, else address) may take while no other peer has any. It is a part of what is free:
   * with 80, the second greedy peer gets 80 % of the rest. A percentage.
   */
  readonly maxPeerPercent: number;
  /**
   * Requests a second of one peer, after a burst of twice as many; 10 KB count as one more
   * request. The gateway reads the streams of a faster peer later, and refuses its polls. A count.
   */
  readonly peerRequestsPerSecond: number;
  /**
   * Subscriptions of all clients, over all types: a name counts once for each client. The gateway
   * refuses further names with RESOURCE_EXHAUSTED. A count.
   */
  readonly maxNames: number;
  /**
   * Names and globs that the gateway watches at its sources, each once for all clients. The gateway
   * refuses further ones with RESOURCE_EXHAUSTED. A count.
   */
  readonly maxUpstreamNames: number;
  /**
   * Clients whose first responses are under way at the same time. Others wait their turn; resuming
   * clients go first. A count.
   */
  readonly maxFirstSyncs: number;
  /**
   * Bytes of all clients: responses that they do not read (what they share counts once), and long requests that have not
   * arrived completely or wait for their turn. While a peer has used up its share, responses to its clients are small,
   * its polls are refused, its long requests are read later, and the streams of its clients that have not read for
   * 10 s end.
   */
  readonly maxBufferedBytes: number;
  /**
   * The age at which the gateway ends a client stream, less a random part of up to a tenth. 0: never.
   * Milliseconds.
   */
  readonly maxStreamAgeMs: number;
  /**
   * The part of the heap limit. With more in use by heap (garbage counts half) and buffers together, the gateway
   * refuses new streams and new names, and serves the existing ones. A percentage.
   */
  readonly maxHeapPercent: number;
  /** Resources that the gateway keeps of one source. It refuses further ones (NACK). A count. */
  readonly maxResourcesPerSource: number;
  /** Encoded resources of one source, with 1 KiB for each. The gateway refuses more (NACK). Bytes. */
  readonly maxContentPerSourceBytes: number;
  /** The same for all sources together. Bytes. */
  readonly maxContentBytes: number;
  /**
   * Concurrent streams of one client connection; a further stream waits. Envoy opens one for ADS, and one for load
   * reports. gRPC opens one per target; the C core opens all on one connection. A count.
   */
  readonly maxStreamsPerConnection: number;
  /**
   * Subscribed names of one client, over all types. With more, the gateway ends the stream with
   * RESOURCE_EXHAUSTED. A count.
   */
  readonly maxNamesPerClient: number;
  /**
   * Names in one request: subscriptions and unsubscriptions together. With more, the gateway ends the stream with
   * RESOURCE_EXHAUSTED. It reads as many versions, and leaves out further ones. A count.
   */
  readonly maxNamesPerRequest: number;
  /**
   * Names and globs that the cache keeps without a subscriber. With more, it drops the oldest at
   * once. A count.
   */
  readonly maxUnsubscribedNames: number;
  /**
   * How long the cache keeps a name or glob after the stream of its last client ended, for clients that
   * return. It keeps a name that a client unsubscribed for 2 s at most. Milliseconds.
   */
  readonly unsubscribedLingerMs: number;
  /**
   * The largest request that the gateway accepts. A resuming client sends all names with their
   * versions in one. Bytes.
   */
  readonly maxRequestBytes: number;
  /** Resources in one response of a source, counted before any of them is decoded. A count. */
  readonly maxResourcesPerResponse: number;
  /**
   * The gateway splits larger updates into responses of about this size, since gRPC clients refuse
   * more than 4 MiB. Listeners and clusters of the state of the world are not split. Bytes.
   */
  readonly responseChunkBytes: number;
  /** Tombstones (deleted members) per collection, for clients that resume. A count. */
  readonly tombstonesPerCollection: number;
  /** Lifetime of a tombstone. Milliseconds. */
  readonly tombstoneMaxAgeMs: number;
  /** Kept content is served for this long after the end of the process that last had it from a source. Milliseconds. */
  readonly contentMaxAgeMs: number;
  /**
   * A response without an ACK or NACK blocks responses of other types for at most this long. Longer
   * than the 15 s that Envoy may take to warm a cluster. Milliseconds.
   */
  readonly ackDeadlineMs: number;
  /**
   * With `missing_cluster_answer: placeholder`: how long a state-of-the-world client waits for a
   * cluster before it gets the placeholder. Milliseconds.
   */
  readonly missingClusterWaitMs: number;
  /**
   * With `unanswerable_stream: end`: the gateway ends a stream this long after its first request if
   * it could not send any response. Milliseconds.
   */
  readonly unanswerableWaitMs: number;
  /**
   * How long a request of a client that polls waits for its first content. Milliseconds. Envoy waits
   * 1 s by default (`request_timeout`).
   */
  readonly pollWaitMs: number;
  /**
   * How long the names of a client that polls stay subscribed after its last request. Milliseconds.
   */
  readonly pollLeaseMs: number;
  /**
   * Bytes written to one client that its connection has not taken yet, because the client does not
   * read. With more, the gateway stops writing until the connection has taken all of them.
   */
  readonly writeAheadBytes: number;
  /**
   * Concurrent node groups of old-style names, each with its own streams to the sources. The
   * gateway ends the stream of a client in a further group with RESOURCE_EXHAUSTED. A count.
   */
  readonly maxNodeGroups: number;
  /**
   * Clusters, localities, endpoints, metrics and categories in one load report of a client, counted
   * before they are kept. With more, the gateway ends the stream with RESOURCE_EXHAUSTED. A count.
   */
  readonly maxLoadEntriesPerReport: number;
  /**
   * The same in the sums for one source. The gateway drops and counts the loads of further entries. A
   * count.
   */
  readonly maxLoadEntriesPerSource: number;
  /** The gateway logs repeats of a NACK once per interval and counts all of them. Milliseconds. */
  readonly nackLogIntervalMs: number;
  /** How long clients have at shutdown to reconnect to another server. Milliseconds. */
  readonly drainGraceMs: number;
}

/**
 * HTTP/2 keepalive of client connections. Without it the stream of a vanished host would stay open
 * for ever.
 */
export interface Keepalive {
  readonly timeMs: number;
  readonly timeoutMs: number;
}

export const DEFAULT_KEEPALIVE: Keepalive = Object.freeze({ timeMs: 30_000, timeoutMs: 10_000 });

/** Bounds on following redirects and list collections. TP1 sets none. */
export interface ResolutionBounds {
  /** Consecutive redirects, or levels of nested lists. A count. */
  readonly maxHops: number;
  /** Entries of one list, including those of its nested lists. A count. */
  readonly maxListEntries: number;
  /** Nested lists of one list. A count. */
  readonly maxNestedLists: number;
}

/** Upper bound of `resolution.max_list_entries`: the gateway never reads more entries of a list. */
export const MAX_LIST_ENTRIES = 100_000;

export const DEFAULT_RESOLUTION: ResolutionBounds = Object.freeze({
  maxHops: 4,
  maxListEntries: 10_000,
  // A list is a directory of resources; a directory of lists is small.
  maxNestedLists: 100,
});

export const DEFAULT_LIMITS: Limits = Object.freeze({
  // 10,000 Envoys with a stream for ADS and one for load reports take 20,000.
  maxClients: 25_000,
  // One for each stream, and as many whose streams have ended.
  maxConnections: 50_000,
  // All 20,000 may come from one address: NAT, a load balancer, or loopback.
  maxPeerPercent: 80,
  // 10,000 clients that connect at once send some 5 requests each.
  peerRequestsPerSecond: 10_000,
  // 10,000 clients with 1,000 names each; a name takes about 150 bytes.
  maxNames: 10_000_000,
  // About 2.6 KB each.
  maxUpstreamNames: 100_000,
  maxFirstSyncs: 200,
  // A hundred different responses of `responseChunkBytes` on their way to slow clients.
  maxBufferedBytes: 256 * 1_024 * 1_024,
  maxStreamAgeMs: 0,
  maxHeapPercent: 70,
  maxResourcesPerSource: 200_000,
  maxContentPerSourceBytes: 512 * 1_024 * 1_024,
  maxContentBytes: 1_024 * 1_024 * 1_024,
  maxStreamsPerConnection: 100,
  maxNamesPerClient: 10_000,
  maxNamesPerRequest: 10_000,
  maxUnsubscribedNames: 100_000,
  unsubscribedLingerMs: 30_000,
  // 5,000 names of about 100 bytes, twice, with versions.
  maxRequestBytes: 1_024 * 1_024,
  maxResourcesPerResponse: 100_000,
  responseChunkBytes: 2 * 1_024 * 1_024,
  tombstonesPerCollection: 10_000,
  tombstoneMaxAgeMs: 86_400_000,
  contentMaxAgeMs: 86_400_000,
  ackDeadlineMs: 16_000,
  // Both well before clients give up a name, which is after 15 s.
  missingClusterWaitMs: 5_000,
  unanswerableWaitMs: 12_000,
  pollWaitMs: 5_000,
  // Longer than any common `refresh_delay` of Envoy.
  pollLeaseMs: 300_000,
  writeAheadBytes: 64 * 1_024,
  maxNodeGroups: 1_000,
  maxLoadEntriesPerReport: 20_000,
  // About 300 bytes each.
  maxLoadEntriesPerSource: 100_000,
  nackLogIntervalMs: 60_000,
  drainGraceMs: 10_000,
});
