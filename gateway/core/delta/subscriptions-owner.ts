import type { ResourceName } from '../../../protos/resource-name.js';
import type { ClaimingSubscriptions, ClaimedName } from './claims.js';
import type { GrantedCache } from '../rights/granted-cache.js';
import type { MessageLimit } from '../session/message-limit.js';
import type { NamePayer } from '../quotas/stream-names.js';
import type { ClustersBehind } from './subscription.js';

/** What `DeltaSubscriptions` need from the client stream that they belong to. */
export interface SubscriptionsOwner {
  /** The client's message limit. */
  readonly limit: MessageLimit;
  /** Pays for names that no other client subscribes to; undefined: no account. */
  readonly payer?: NamePayer | undefined;
  /** The client brought versions from an earlier stream, for any type. */
  readonly isResuming: boolean;
  /** These subscriptions may have something to send now. */
  handleReady(): void;
  /**
   * A cluster was sent: its endpoints have to follow, even unchanged (ENVOY 5).
   *
   * @param isNew the client did not have the cluster
   */
  handleClusterSent(edsKey: string, isNew: boolean): void;
  /** The client claims to hold one more name of these subscriptions. */
  handleClaimed(subscriptions: ClaimingSubscriptions, name: ResourceName): void;
  /** A name that the client claims is gone without doubt (its removal was observed, or it has a reason), or the client gave it up. */
  handleClaimGone(claim: ClaimedName): void;
  /**
   * A name that the client claims seems not to exist. `settleDoubt` follows once the deletion guard
   * has judged it.
   */
  handleDoubt(doubt: ClaimedName): void;
  /**
   * Does a wildcard of this type still wait for its first response? Until then the client must not
   * get a response without resources: Envoy would take it for the response to the wildcard.
   */
  awaitsWildcard(typeUrl: string): boolean;
  clustersBehind(edsKey: string): ClustersBehind;
  /** Does the client subscribe to this name, by itself, through a glob or through a list? */
  covers(typeUrl: string, key: string): boolean;
}

export interface DeltaSubscriptionsOptions {
  readonly typeUrl: string;
  readonly authority: string;
  readonly cache: GrantedCache;
  readonly owner: SubscriptionsOwner;
  readonly nowMs: number;
  /**
   * Send nothing for a name that never existed, instead of "removed": a starting Envoy hangs on a
   * removed route (ENVOY 4).
   */
  readonly silentAbsence: boolean;
}
