/** Does a client hold what the gateway serves of one type? Pure; for the operator's view. */

/**
 * `NACK`: the client refused the last response. `NOT SENT`: no response went out, and the client
 * brought nothing. `STALE`: a response has no ACK yet, or waits to be sent. Times are of `clock`.
 */
export type SyncState =
  | { readonly kind: 'SYNCED' }
  | { readonly kind: 'NOT SENT' }
  | { readonly kind: 'STALE'; readonly sinceMs: number }
  | { readonly kind: 'NACK'; readonly sinceMs: number; readonly reason: string };

export interface SyncFacts {
  /** A response was sent, or the client brought content that is still served. */
  readonly wasSent: boolean;
  /** When the oldest unacknowledged response was sent; undefined: all are acknowledged. */
  readonly inFlightSinceMs: number | undefined;
  /** When content, or removals, began to wait for other types; undefined: nothing waits. */
  readonly waitingSinceMs: number | undefined;
  readonly removalsSinceMs: number | undefined;
}

/** The last rejected response of one type; `acceptedAtMs`: the client accepted a later one. */
export interface Rejection {
  readonly atMs: number;
  readonly detail: { readonly message: string };
  readonly acceptedAtMs?: number;
}

/**
 * @param rejection absent: the client rejected nothing
 * @param acknowledges false for a client that polls: it acknowledges only with its next poll
 */
export function syncStateOf(
  { wasSent, inFlightSinceMs, waitingSinceMs, removalsSinceMs }: SyncFacts,
  rejection: Rejection | undefined,
  acknowledges = true,
): SyncState {
  if (rejection && rejection.acceptedAtMs === undefined) {
    return { kind: 'NACK', sinceMs: rejection.atMs, reason: rejection.detail.message };
  }
  if (!wasSent) return { kind: 'NOT SENT' };
  const sinceMs = Math.min(
    (acknowledges ? inFlightSinceMs : undefined) ?? Infinity,
    waitingSinceMs ?? Infinity,
    removalsSinceMs ?? Infinity,
  );
  return sinceMs === Infinity ? { kind: 'SYNCED' } : { kind: 'STALE', sinceMs };
}
