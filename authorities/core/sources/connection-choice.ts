/**
 * Which connection to a source a new stream takes. Streams of several node groups share a connection; a
 * connection has room for a bounded number of streams.
 */

/** HTTP/2 streams of a connection: the bound of most proxies (RFC 9113, 6.5.2 recommends no less). */
const MAX_STREAMS = 100;
/** Each connection keeps this many streams free for its liveness probe. A probe that waits for room would pass for a dead source. */
const PROBE_STREAMS = 1;

export interface ConnectionRoom {
  /** HTTP/2 streams that its users may have open. */
  readonly reservedStreams: number;
  /** The peer's SETTINGS_MAX_CONCURRENT_STREAMS; undefined: not known yet, or without bound. */
  readonly peerMaxStreams: number | undefined;
}

/** HTTP/2 streams that the users of a connection may have open together, at least 1. */
export const capacityOf = ({ peerMaxStreams }: Pick<ConnectionRoom, 'peerMaxStreams'>): number =>
  Math.max(1, Math.min(MAX_STREAMS, peerMaxStreams ?? MAX_STREAMS) - PROBE_STREAMS);

/** A connection without users takes any: it has no room to lose. */
export const hasRoomFor = (connection: ConnectionRoom, streams: number): boolean =>
  connection.reservedStreams === 0 ||
  connection.reservedStreams + streams <= capacityOf(connection);

/**
 * The fullest connection that has room, so that the others become empty and are closed.
 *
 * @param streams HTTP/2 streams that the new user may open
 * @returns undefined: open another connection
 */
export function chooseConnection<C extends ConnectionRoom>(
  connections: Iterable<C>,
  streams: number,
): C | undefined {
  let chosen: C | undefined;
  for (const one of connections) {
    if (!hasRoomFor(one, streams)) continue;
    if (!chosen || one.reservedStreams > chosen.reservedStreams) chosen = one;
  }
  return chosen;
}

/**
 * Does the end of a stream make its connection doubtful, so that the next stream needs a new one? The
 * connection may have fallen into a black hole, or lead to a broken instance behind a balancer. A message
 * on another stream shows that it works, and a refusal concerns the client alone.
 */
export const makesDoubtful = (end: {
  readonly hadMessage: boolean;
  readonly othersHadMessage: boolean;
  readonly isRefusal: boolean;
}): boolean => !end.hadMessage && !end.othersHadMessage && !end.isRefusal;
