/** A state-of-the-world client's subscription to one name or one glob, and what was sent for it. */
import type { Projection } from '../../../authorities/index.js';
import {
  isDataError,
  STATUS_CODE,
  type ResourceError,
  type RpcStatus,
} from '../../../protos/discovery.js';
import { LOG_START } from '../cache/change-log.js';
import type { GlobEntry, NameEntry } from '../cache/entries.js';
import { NOT_HELD, type Held } from '../session/holdings.js';
import { TOO_LARGE } from '../session/message-limit.js';

/** Subscription to one name. */
export interface SotwName {
  /** The client's spelling, which errors use. */
  asked: string;
  entry: NameEntry;
  readonly sinceMs: number;
  /** The client may hold it from an earlier stream. */
  mayBeHeld: boolean;
  /** The content that was sent last and that the client is to hold; undefined: none. */
  sent: Projection | undefined;
  /** Real content was sent: no placeholder may follow. */
  hadContent: boolean;
  /** Replaces a cluster that no source has. */
  placeholder: Projection | undefined;
  /**
   * `MAYBE_HELD` although `sent` is set: the gateway has to send the content again, even unchanged.
   * For a listener or cluster: the client was not sent this content yet.
   */
  held: Held;
  /** The resource error sent last. */
  told: RpcStatus | undefined;
  /** Number of the last request that named it. */
  mark: number;
}

/** A resource that stays in responses until its removal may be sent. */
export interface LingeringResource {
  readonly projection: Projection;
  /** Was this content part of a response? Otherwise the client holds an earlier one. */
  wasSent: boolean;
}

/** Subscription to a glob: a sequence number, however many members it has. */
export interface SotwGlob {
  asked: string;
  entry: GlobEntry;
  /** The client may hold members from an earlier stream. */
  mayBeHeld: boolean;
  sentSeq: number;
  /** Its members were part of a response. */
  included: boolean;
  /** They were part of one at some time: the client knows the answer, even if its right to it ended since. */
  wasIncluded: boolean;
  /**
   * Resources that the client holds and the collection lacks (no longer a member, or not yet), kept
   * in responses until their removal may be sent.
   */
  readonly lingering: Map<string, LingeringResource>;
  told: RpcStatus | undefined;
  mark: number;
}

const NOT_FOUND: RpcStatus = { code: STATUS_CODE.notFound, message: 'the resource does not exist' };

/** A subscription to one name for which nothing was sent yet. */
export function newSotwName(
  entry: NameEntry,
  asked: string,
  nowMs: number,
  mayBeHeld: boolean,
): SotwName {
  // Use the strings of the entry, which all clients share.
  const { key } = entry.name;
  return {
    asked: asked === key ? key : asked,
    entry,
    sinceMs: nowMs,
    mayBeHeld,
    sent: undefined,
    hadContent: false,
    placeholder: undefined,
    held: NOT_HELD,
    told: undefined,
    mark: 0,
  };
}

/** A subscription to a glob for which nothing was sent yet. */
export function newSotwGlob(entry: GlobEntry, asked: string, mayBeHeld: boolean): SotwGlob {
  return {
    asked,
    entry,
    mayBeHeld,
    sentSeq: LOG_START,
    included: false,
    wasIncluded: false,
    lingering: new Map(),
    told: undefined,
    mark: 0,
  };
}

/** Adds the error of a name without content; once for each reason. */
export function explain(known: SotwName, errors: ResourceError[]): void {
  const { state } = known.entry;
  if (state.kind === 'waiting') return;
  const status = state.kind === 'present' ? TOO_LARGE : state.status;
  tellOnce(known, status ?? NOT_FOUND, errors);
}

/** Adds the error of a glob; once for each reason. */
export function explainGlob(glob: SotwGlob, errors: ResourceError[]): void {
  const { error } = glob.entry;
  if (!error) glob.told = undefined;
  // Do not report an unreachable source: the client would read the error as "empty".
  else if (isDataError(error)) tellOnce(glob, error, errors);
}

function tellOnce(to: SotwName | SotwGlob, status: RpcStatus, errors: ResourceError[]): void {
  if (to.told?.code === status.code && to.told.message === status.message) return;
  to.told = status;
  errors.push({ name: to.asked, status });
}
