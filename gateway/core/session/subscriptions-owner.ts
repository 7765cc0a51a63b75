import type { ResourceName } from '../../../protos/resource-name.js';
import type { ClaimingLane, Doubt } from '../delta/claims.js';
import type { MessageLimit } from './message-limit.js';
import type { ResourceCache } from '../cache/resource-cache.js';
import type { ClustersBehind } from '../delta/subscription.js';

/** What a lane may ask of the client stream that it belongs to. */
export interface SubscriptionsOwner {
  /** What this client can be sent. */
  readonly limit: MessageLimit;
  /** This lane has something to send now, or may have. */
  handleLaneReady(): void;
  /**
   * A cluster went out: the endpoints behind it have to follow, though unchanged.
   *
   * @param isNew the client did not have it
   */
  handleClusterSent(edsKey: string, isNew: boolean): void;
  /** The client says that it holds one more name of this lane. */
  handleClaimed(lane: ClaimingLane, name: ResourceName): void;
  /** A name that the client claims seems not to exist; `settleDoubt` follows when that is judged. */
  handleDoubt(doubt: Doubt): void;
  /** Is a wildcard of this type still to be answered? Until then no response may come without resources. */
  awaitsWildcard(typeUrl: string): boolean;
  clustersBehind(edsKey: string): ClustersBehind;
  /** Does the client ask for this, by itself or as a member, also of a list that leads here? */
  covers(typeUrl: string, key: string): boolean;
}

export interface DeltaSubscriptionsOptions {
  readonly typeUrl: string;
  readonly authority: string;
  readonly cache: ResourceCache;
  readonly owner: SubscriptionsOwner;
  readonly nowMs: number;
  /** Say nothing of a name that never was there, instead of "removed" (an Envoy that starts hangs on some). */
  readonly silentAbsence: boolean;
}
