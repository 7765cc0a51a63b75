/**
 * Which type may speak, and which has to wait for another (make before break: xDS protocol, "Eventual
 * consistency considerations"). The same for both flavours; `lanes` are those of one authority (delta) or
 * of one client (state of the world).
 *
 *  - Clusters and endpoints go at once: Envoy withholds the ACK of clusters until their endpoints are
 *    there, so endpoints never wait for that ACK.
 *  - Listeners and routes wait for clusters and endpoints that are still to be sent, and for the ACK of
 *    clusters that are new to the client.
 *  - Removals go last, in reverse order of types.
 *
 * Every wait is bounded by `ackDeadlineMs`, longer than Envoy's 15 s of warming.
 */
import { TYPE_URL, typeRank } from '../../../protos/type-urls.js';
import type { Unacknowledged } from './unacknowledged.js';

export interface PushLane {
  /** Place of the type in the push order. */
  readonly rank: number;
  readonly unacknowledged: Unacknowledged;
  readonly hasRemovals: boolean;
  /** Removals wait for names that the client has asked for, since they may replace what goes. */
  readonly awaitsReplacement: boolean;
  /** Is there content that could go now, but for the order? */
  mayAdd(nowMs: number): boolean;
  /** Since when content, or removals, have been waiting for what has to go before them. */
  waitingSinceMs: number | undefined;
  removalsSinceMs: number | undefined;
}

interface Waiting {
  readonly lane: PushLane;
  readonly nowMs: number;
  readonly ackDeadlineMs: number;
}

const LISTENER_RANK = typeRank(TYPE_URL.listener);
const ROUTE_RANK = typeRank(TYPE_URL.routeConfiguration);
const ASSIGNMENT_RANK = typeRank(TYPE_URL.clusterLoadAssignment);
/**
 * A removal may be of what clusters that are not acknowledged replace: then routes to these follow within
 * this time, and wait for the ACK themselves. Otherwise a cluster that never warms would hold it back.
 */
const REPLACED_WAIT_MS = 1_000;

/** @returns the later of two waits; undefined: there is none. */
export function laterOf(
  oneMs: number | undefined,
  otherMs: number | undefined,
): number | undefined {
  return oneMs === undefined ? otherMs : Math.max(oneMs, otherMs ?? -Infinity);
}

/** @returns until when the content of this lane has to wait; undefined: it may go. */
export function contentWaitUntil({
  lane,
  clusters,
  endpoints,
  nowMs,
  ackDeadlineMs,
}: Waiting & {
  readonly clusters: PushLane | undefined;
  readonly endpoints: PushLane | undefined;
}): number | undefined {
  if (lane.rank !== LISTENER_RANK && lane.rank !== ROUTE_RANK) return undefined;
  const isUnsent = isAboutToAdd(clusters, nowMs) || isAboutToAdd(endpoints, nowMs);
  const newUntilMs = clusters?.unacknowledged.newUntilMs(ackDeadlineMs) ?? -Infinity;
  if (!isUnsent && newUntilMs <= nowMs) return undefined;
  lane.waitingSinceMs ??= nowMs;
  const deadlineMs = lane.waitingSinceMs + ackDeadlineMs;
  const untilMs = isUnsent ? deadlineMs : Math.min(newUntilMs, deadlineMs);
  return nowMs < untilMs ? untilMs : undefined;
}

/** @returns until when the removals of this lane have to wait; undefined: they may go. */
export function removalsWaitUntil({
  lane,
  lanes,
  nowMs,
  ackDeadlineMs,
}: Waiting & { readonly lanes: Iterable<PushLane> }): number | undefined {
  lane.removalsSinceMs ??= nowMs;
  const deadlineMs = lane.removalsSinceMs + ackDeadlineMs;
  let untilMs = -Infinity;
  for (const other of lanes) {
    const goesFirst = other.rank > lane.rank && other.hasRemovals;
    const isFirst = isAboutToAdd(other, nowMs) || other.awaitsReplacement || goesFirst;
    if (isFirst) untilMs = deadlineMs;
    untilMs = Math.max(untilMs, sentWaitUntil(other, ackDeadlineMs));
  }
  untilMs = Math.min(untilMs, deadlineMs);
  return nowMs < untilMs ? untilMs : undefined;
}

/** Not if only an ACK lets it go on: a client that acknowledges nothing of a type is to get the others. */
function isAboutToAdd(lane: PushLane | undefined, nowMs: number): boolean {
  return lane?.mayAdd(nowMs) === true && lane.unacknowledged.waitUntilMs(nowMs) !== Infinity;
}

/** What was sent may replace what goes, until the client has taken it. */
function sentWaitUntil({ rank, unacknowledged }: PushLane, ackDeadlineMs: number): number {
  if (rank <= ASSIGNMENT_RANK) return unacknowledged.newUntilMs(REPLACED_WAIT_MS) ?? -Infinity;
  return (unacknowledged.latestMs ?? -Infinity) + ackDeadlineMs;
}
