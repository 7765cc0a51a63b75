/** A client's interest in one name or one glob, and how far it has been answered. */
import type { RpcStatus } from '../../../protos/discovery.js';
import { isOldStyle, type ResourceName } from '../../../protos/resource-name.js';
import type { Draft } from '../session/answer.js';
import { LOG_START } from '../cache/change-log.js';
import type { RemovalReader } from '../cache/collection.js';
import { TOO_LARGE } from '../session/message-limit.js';
import type { GlobEntry, NameEntry } from '../cache/resource-cache.js';

/** Explicit interest in one name. */
export interface NameSubscription {
  /** Spelling of the client, which "removed" must repeat. */
  asked: string;
  readonly entry: NameEntry;
  /** Version that the client has or was sent; undefined: nothing, or to be sent whatever it has. */
  sentVersion: string | undefined;
  /** The client says that it has that version from an earlier stream; nothing confirmed it yet. */
  isClaim: boolean;
  /** It was told that there is nothing under this name. */
  toldAbsent: boolean;
  /** Code of the error that it was told; once is enough. */
  toldCode: number | undefined;
}

/** Interest in a glob: two numbers, however many members. */
export interface GlobSubscription extends RemovalReader {
  asked: string;
  readonly entry: GlobEntry;
  sentSeq: number;
  /** Where the pass over the members began that has not come to its end yet. */
  passFromSeq: number;
  /** Members that joined up to here were sent, whatever changed while they were. */
  surelySeq: number;
  removedSeq: number;
  toldEmpty: boolean;
  toldCode: number | undefined;
}

/** Nothing of it was said yet. */
export function unsaidGlob(entry: GlobEntry, asked: string): GlobSubscription {
  return {
    asked,
    entry,
    sentSeq: LOG_START,
    passFromSeq: LOG_START,
    surelySeq: LOG_START,
    // What is forgotten already cannot be missed.
    removedSeq: entry.collection.droppedSeq,
    toldEmpty: false,
    toldCode: undefined,
  };
}

/** A name left while a glob still covers it. */
export interface LeftName {
  readonly name: ResourceName;
  readonly asked: string;
  /** It was sent to the client, and no removal of it since. */
  readonly isHeld: boolean;
  /** It was known not to exist. */
  readonly isGone: boolean;
}

/** Of the state before it is left. */
export function leftName({ asked, entry, sentVersion }: NameSubscription): LeftName {
  const { name, state } = entry;
  return { name, asked, isHeld: sentVersion !== undefined, isGone: state.kind === 'absent' };
}

/** A member that went, with the spelling to use, and the glob that the client has it by. */
export interface GoneMember {
  readonly asked: string;
  readonly glob: GlobSubscription;
}

/** What a client knows of one version of a resource. */
export type Standing = 'not_asked' | 'unsent' | 'sent';

/** The clusters of a client that take their endpoints from one assignment. */
export interface ClustersBehind {
  /** Part of the assignment's version: those that were sent, in which version. */
  readonly suffix: string;
  /** None of them is yet to be sent. */
  readonly settled: boolean;
}

/** What is due in one answer: names, and globs up to a place in their order of change. */
export interface Pass {
  readonly names: Set<NameSubscription>;
  readonly globs: Map<GlobSubscription, number>;
}

/** Says why there is nothing, or why nothing can be said; each reason once. */
export function tellError(
  subscription: NameSubscription | GlobSubscription,
  status: RpcStatus | undefined,
  draft: Draft,
): void {
  if (!status || subscription.toldCode === status.code) return;
  subscription.toldCode = status.code;
  draft.fail({ name: subscription.asked, status });
}

/** Says that there is nothing under a name that the client does not hold, and why; each once. */
export function answerAbsent(
  name: NameSubscription,
  status: RpcStatus | undefined,
  silently: boolean,
  draft: Draft,
): void {
  tellError(name, status, draft);
  if (name.toldAbsent || silently) return;
  name.toldAbsent = true;
  draft.remove(name.asked);
}

/** Says why a client that has no version of a resource gets none. */
export function answerWithheld(name: NameSubscription, draft: Draft): void {
  if (name.sentVersion === undefined) tellError(name, TOO_LARGE, draft);
}

/**
 * Says that a glob has no members, and why; each once. That its source cannot be reached is never said:
 * an Envoy takes any response for the answer to its wildcard, and goes on without a resource.
 */
export function answerEmpty(
  glob: GlobSubscription,
  isProven: boolean,
  error: RpcStatus | undefined,
  draft: Draft,
): void {
  if (isProven) tellError(glob, error, draft);
  if (!isProven || glob.toldEmpty) return;
  glob.toldEmpty = true;
  // A wildcard is no name that could be removed: its clients wait for a response, and take an empty one.
  if (isOldStyle(glob.entry.collection.glob)) draft.owe();
  else draft.remove(glob.asked);
}
