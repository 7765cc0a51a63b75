/**
 * What the shell of a client's stream needs of a session, whichever flavour of the protocol it speaks,
 * and what a session tells of what happened.
 */
import { STATUS_CODE, type RpcStatus } from '../../../protos/discovery.js';
import type { ClientScope } from './asked-name.js';
import type { MessageLimit, Withheld } from './message-limit.js';

/** With this a stream ends on which nothing could be said, so that its client tries another server. */
export const UNANSWERABLE: RpcStatus = {
  code: STATUS_CODE.unavailable,
  message: 'no source could answer any requested resource',
};

/** What may be looked at of one lane: a type, and in the delta flavour one authority of it. */
export interface LaneView {
  readonly typeUrl: string;
  readonly authority: string;
  readonly nameCount: number;
  /** Since when an answer has been on its way; undefined: none is. */
  readonly inFlightSinceMs: number | undefined;
}

export interface StreamSession<Request> {
  readonly lanes: readonly LaneView[];
  readonly nameCount: number;
  /** The largest message that the client takes, and what it is not sent for that. */
  readonly limit: Pick<MessageLimit, 'maxBytes' | 'withheld'>;
  /** The scope of the client's old-style names; absent as long as it asked for none. */
  readonly scope: ClientScope | undefined;
  /** @returns a status to end the stream with, or undefined. */
  handleRequest(request: Request, nowMs: number): RpcStatus | undefined;
  /** Bytes of the next response, or undefined until something changes or `nextDeadlineMs`. */
  poll(nowMs: number): Buffer | undefined;
  /** When to `poll` again though nothing happened: the end of a wait. */
  readonly nextDeadlineMs: number | undefined;
  /** What happened since it was asked last. */
  takeEvents(): readonly SessionEvent[];
  /** @returns a status to end the stream with because of what it has come to, or undefined. */
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
  /** The deletion guard holds back removals of names that the client says it holds. */
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
  /** A response that may not be split is larger than it should be, and was sent. */
  | {
      readonly kind: 'oversize';
      readonly typeUrl: string;
      readonly resources: number;
      readonly bytes: number;
    }
  | ({ readonly kind: 'withheld' } & Withheld)
  | {
      readonly kind: 'answer';
      readonly typeUrl: string;
      readonly authority: string;
      readonly resources: number;
      readonly removed: number;
      readonly errors: number;
      readonly bytes: number;
    };
