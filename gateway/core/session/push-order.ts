/**
 * Decides which type may send, and which type waits for another (make before break: xDS protocol,
 * "Eventual consistency considerations"). The rules are the same for both flavours. Callers pass
 * the subscriptions of one authority (delta) or of one client (state of the world), one object for
 * each type.
 *
 * - Clusters and endpoints are sent at once. Envoy withholds the ACK of clusters until it has their
 *   endpoints, so endpoints never wait for that ACK (ENVOY 6).
 * - Listeners and routes wait for clusters and endpoints that are still to be sent, also while the set of clusters is
 *   incomplete, and for the ACK of clusters that are new to the client. If the client resumes while a cluster warms, they
 *   also wait for its request for clusters (ENVOY 24). Envoy withholds that request for ever if a secret never comes, so
 *   this wait exists only at the start of the stream.
 * - Removals go last, in reverse order of types. Those of clusters also wait for routes that may still come.
 *
 * Each wait lasts `ackDeadlineMs` at most, which is longer than Envoy's 15 s of warming. A returning client has two waits, one
 * after the other: until its clusters can be sent, and for their ACK. There is one exception: while the deletion guard holds back
 * its first set of clusters, its listeners and routes wait until that set goes, since they may name clusters that only the set has.
 */
import { TYPE_URL, typeRank } from '../../../protos/type-urls.js';
import type { Unacknowledged } from './unacknowledged.js';

export interface TypeSubscriptions {
  /** Position of the type in the push order. */
  readonly rank: number;
  readonly unacknowledged: Unacknowledged;
  readonly hasRemovals: boolean;
  /**
   * Removals wait while the client has requested names without content yet: these may replace what
   * is removed.
   */
  readonly awaitsReplacement: boolean;
  /** Is there content that could be sent now, apart from the push order? */
  mayAdd(nowMs: number): boolean;
  /** Is the first set of a resuming client held back, and may it contain clusters that its routes name? */
  holdsFirstSet(nowMs: number): boolean;
  /** Until when the deletion guard holds it back. Undefined: it does not. */
  readonly guardedUntilMs: number | undefined;
  /** When content began to wait for other types. Undefined: not waiting. */
  waitingSinceMs: number | undefined;
  /** When content began to wait for a first set that is held back. Undefined: it never did. */
  heldSinceMs: number | undefined;
  /** As `waitingSinceMs`, of removals. */
  removalsSinceMs: number | undefined;
}

interface Waiting {
  readonly subscriptions: TypeSubscriptions;
  readonly nowMs: number;
  readonly ackDeadlineMs: number;
}

interface WaitingForClusters extends Waiting {
  readonly clusters: TypeSubscriptions | undefined;
  readonly endpoints: TypeSubscriptions | undefined;
  /**
   * When to stop waiting for the request for clusters of a client that has, or may have, clusters from an earlier stream.
   * Undefined: the request came, or the client has none.
   */
  readonly clustersAwaitedUntilMs: number | undefined;
}

const CLUSTER_RANK = typeRank(TYPE_URL.cluster);
const LISTENER_RANK = typeRank(TYPE_URL.listener);
const ROUTE_RANK = typeRank(TYPE_URL.routeConfiguration);
const ASSIGNMENT_RANK = typeRank(TYPE_URL.clusterLoadAssignment);
/**
 * Unacknowledged clusters may replace a removed resource. Removals wait this long for the routes to
 * these clusters; the routes themselves wait for the ACK. If removals waited for the ACK too, a
 * cluster that never warms would hold them back until their deadline.
 */
const REPLACED_WAIT_MS = 1_000;
/**
 * A removed cluster waits this long for the routes that no longer name it: in one change, a control plane may send the
 * removal some milliseconds before the routes, and Envoy drops the cluster at once. A removal takes 100 ms at most.
 */
export const ROUTE_WAIT_MS = 50;

/** @returns the later of two deadlines; undefined if neither is set. */
export function laterOf(
  oneMs: number | undefined,
  otherMs: number | undefined,
): number | undefined {
  return oneMs === undefined ? otherMs : Math.max(oneMs, otherMs ?? -Infinity);
}

/** @returns until when content of this type has to wait; undefined: send now. */
export function contentWaitUntil(waiting: WaitingForClusters): number | undefined {
  const { subscriptions, clusters, endpoints, nowMs, ackDeadlineMs } = waiting;
  if (!namesClusters(subscriptions)) return undefined;
  const heldUntilMs = startWaitUntil(waiting) ?? -Infinity;
  if (nowMs < heldUntilMs) {
    subscriptions.waitingSinceMs = undefined;
    return heldUntilMs;
  }
  const isUnsent = isAboutToAdd(clusters, nowMs) || isAboutToAdd(endpoints, nowMs);
  const newUntilMs = clusters?.unacknowledged.newUntilMs(ackDeadlineMs) ?? -Infinity;
  if (!isUnsent && newUntilMs <= nowMs) return undefined;
  subscriptions.waitingSinceMs ??= nowMs;
  const deadlineMs = subscriptions.waitingSinceMs + ackDeadlineMs;
  const untilMs = isUnsent ? deadlineMs : Math.min(newUntilMs, deadlineMs);
  return nowMs < untilMs ? untilMs : undefined;
}

/**
 * @returns when listeners and routes of a returning client stop waiting for its clusters to be sent. The wait for the ACK of
 * the clusters begins after that (seed 5003452).
 */
function startWaitUntil({
  subscriptions,
  clusters,
  clustersAwaitedUntilMs,
  nowMs,
  ackDeadlineMs,
}: WaitingForClusters): number | undefined {
  const guardedUntilMs = clusters?.guardedUntilMs ?? -Infinity;
  if (nowMs < guardedUntilMs) return guardedUntilMs;
  if (clusters?.holdsFirstSet(nowMs) !== true) return clustersAwaitedUntilMs;
  subscriptions.heldSinceMs ??= nowMs;
  return subscriptions.heldSinceMs + ackDeadlineMs;
}

/** @returns until when removals of this type have to wait; undefined: send now. */
export function removalsWaitUntil({
  subscriptions,
  allSubscriptions,
  nowMs,
  ackDeadlineMs,
}: Waiting & { readonly allSubscriptions: Iterable<TypeSubscriptions> }): number | undefined {
  const sinceMs = (subscriptions.removalsSinceMs ??= nowMs);
  const deadlineMs = sinceMs + ackDeadlineMs;
  let untilMs = -Infinity;
  for (const other of allSubscriptions) {
    const goesFirst = other.rank > subscriptions.rank && other.hasRemovals;
    const isFirst = isAboutToAdd(other, nowMs) || other.awaitsReplacement || goesFirst;
    if (isFirst) untilMs = deadlineMs;
    untilMs = Math.max(untilMs, sentWaitUntil(other, ackDeadlineMs));
    if (subscriptions.rank === CLUSTER_RANK && namesClusters(other))
      untilMs = Math.max(untilMs, sinceMs + ROUTE_WAIT_MS);
  }
  untilMs = Math.min(untilMs, deadlineMs);
  return nowMs < untilMs ? untilMs : undefined;
}

function namesClusters({ rank }: TypeSubscriptions): boolean {
  return rank === LISTENER_RANK || rank === ROUTE_RANK;
}

/**
 * False if only an ACK unblocks it: a client that acknowledges nothing of one type must still get
 * the others.
 */
function isAboutToAdd(subscriptions: TypeSubscriptions | undefined, nowMs: number): boolean {
  return (
    subscriptions?.mayAdd(nowMs) === true &&
    subscriptions.unacknowledged.waitUntilMs(nowMs) !== Infinity
  );
}

/**
 * Resources that were sent may replace the removed ones, but only once the client has accepted
 * them.
 */
function sentWaitUntil({ rank, unacknowledged }: TypeSubscriptions, ackDeadlineMs: number): number {
  if (rank <= ASSIGNMENT_RANK) return unacknowledged.newUntilMs(REPLACED_WAIT_MS) ?? -Infinity;
  return (unacknowledged.latestMs ?? -Infinity) + ackDeadlineMs;
}
