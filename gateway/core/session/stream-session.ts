/**
 * The interface between a client's stream and its session, the same for both protocol flavours, and
 * the events that a session reports.
 */
import type { RpcStatus } from '../../../protos/discovery.js';
import type { ResourceCache } from '../cache/resource-cache.js';
import type { EncodedResponse } from '../cache/shared-responses.js';
import type { StreamNames } from '../quotas/stream-names.js';
import type { Judge } from '../rights/rights.js';
import type { ClientScope } from './asked-name.js';
import type { MessageLimit, Withheld } from './message-limit.js';
import type { SyncFacts } from './sync-state.js';

/** The size of the next response. Bytes. */
export const chunkBytesOf = ({ chunkBytes, isBufferFull }: StreamSessionOptions): number =>
  isBufferFull?.() === true ? Math.min(chunkBytes, SMALL_CHUNK_BYTES) : chunkBytes;

/** The size of responses while the peer has used up its share of all buffered bytes (`isBufferFull`). Bytes. */
const SMALL_CHUNK_BYTES = 16_384;

/** What each session needs, whatever its flavour. */
export interface StreamSessionOptions {
  readonly cache: ResourceCache;
  readonly maxNames: number;
  /** The quotas of the client's peer; default: none. */
  readonly nameQuota?: StreamNames | undefined;
  /** Larger responses are split at about this size; a set of listeners or clusters (state of the world) is not. */
  readonly chunkBytes: number;
  /**
   * True while the peer has used up its share of all buffered bytes. Then the next responses are
   * small, and sets that cannot be split wait. Default: never.
   */
  readonly isBufferFull?: () => boolean;
  readonly ackDeadlineMs: number;
  /** A request with more names is handled in portions of this size; default: in one step. A count. */
  readonly namesPerPortion?: number;
  /** A response of more members of collections is prepared in portions of this size; default: in one step. A count. */
  readonly membersPerPortion?: number;
  /** More subscriptions or collections without anything to send are passed over in portions of this size; default: at once. A count. */
  readonly looksPerPortion?: number;
  /** The client has a stream or polls for each type, and this is one of them. Default: false (ADS). */
  readonly isOfOneType?: boolean;
  /** A stream without any response ends after this time; undefined: never. */
  readonly unanswerableAfterMs?: number | undefined;
  /** The client's maximum message size; default: no limit. */
  readonly maxMessageBytes?: () => number;
  /** What the client may ask for; default: everything. */
  readonly judge?: Judge | undefined;
  /** The client's node group, which scopes its old-style names. */
  readonly scopeOf: () => ClientScope;
  /** Called when there may be something to `poll`; at most once until the next `poll`. */
  readonly onReady: () => void;
}

/**
 * Read-only view of a client's subscriptions to one type; in the delta flavour, of one authority
 * too.
 */
export interface SubscriptionsView extends SyncFacts {
  readonly typeUrl: string;
  readonly authority: string;
  /** All authorities of the names; the node group for old-style names. */
  readonly authorities: readonly string[];
  readonly nameCount: number;
}

export interface StreamSession<Request> {
  readonly allSubscriptions: readonly SubscriptionsView[];
  readonly nameCount: number;
  /** The client's maximum message size, and the resources withheld because of it. */
  readonly limit: Pick<MessageLimit, 'maxBytes' | 'withheld'>;
  /** The scope of the client's old-style names; undefined until the client requests one. */
  readonly scope: ClientScope | undefined;
  /**
   * Handles a request that is an ACK of the last response and nothing else, without decoding it.
   *
   * @returns false for every other request
   */
  handleAck?(bytes: Uint8Array, nowMs: number): boolean;
  /**
   * Handles a request, or the first portion of its names: see `isMidRequest`.
   *
   * @returns a status to end the stream with, or undefined.
   */
  handleRequest(request: Request, nowMs: number): RpcStatus | undefined;
  /**
   * Names of the last request are left. Until `continueRequest` has handled them, the session sends
   * nothing and must not get another request: the client sees the result of one step.
   */
  readonly isMidRequest: boolean;
  /** Handles the next portion of the request. @returns a status to end the stream with, or undefined. */
  continueRequest(nowMs: number): RpcStatus | undefined;
  /** The rules for clients, or what they say of this client, changed. */
  handleRightsChanged(): void;
  /** The next response, or undefined until something changes or `nextDeadlineMs`. */
  takeResponse(nowMs: number): EncodedResponse | undefined;
  /** The end of a wait: when to call `takeResponse` again if nothing changes before. */
  readonly nextDeadlineMs: number | undefined;
  /** Events since the last call. */
  takeEvents(): readonly SessionEvent[];
  /** @returns a status to end the stream with (unanswerable, or too far behind), or undefined. */
  endStatus(nowMs: number): RpcStatus | undefined;
  close(nowMs: number): void;
}

export type SessionEvent =
  | {
      readonly kind: 'ack';
      readonly typeUrl: string;
      readonly authority: string;
      readonly sinceMs: number;
    }
  | {
      readonly kind: 'nack';
      readonly typeUrl: string;
      readonly authority: string;
      readonly detail: RpcStatus;
    }
  | { readonly kind: 'stale_nonce'; readonly typeUrl: string }
  /** A resuming client has so many versions that the gateway does not keep them all. */
  | { readonly kind: 'versions_left_out'; readonly typeUrl: string; readonly versions: number }
  /** The deletion guard holds back removals of names that a resuming client claims to hold. */
  | {
      readonly kind: 'held_back';
      readonly authority: string;
      readonly names: number;
      readonly untilMs: number;
    }
  | {
      readonly kind: 'refused_name';
      readonly typeUrl: string;
      readonly name: string;
      readonly reason: string;
    }
  /** A response that cannot be split exceeds the chunk size, and was sent. */
  | {
      readonly kind: 'oversize';
      readonly typeUrl: string;
      readonly resources: number;
      readonly bytes: number;
    }
  | ({ readonly kind: 'withheld' } & Withheld)
  /** The result of one request of a polling client. */
  | { readonly kind: 'polled'; readonly result: 'sent' | 'unchanged' | 'unknown' }
  | {
      readonly kind: 'answer';
      readonly typeUrl: string;
      readonly authority: string;
      readonly resources: number;
      readonly removed: number;
      readonly errors: number;
      readonly bytes: number;
    };
