/** A client's subscription to one name or one glob, and what was sent for it. */
import type { RpcStatus } from '../../../protos/discovery.js';
import type { ParameterConstraints } from '../../../protos/parameter-constraints.js';
import { isOldStyle, type ResourceName } from '../../../protos/resource-name.js';
import type { Draft } from '../session/response-draft.js';
import { LOG_START } from '../cache/change-log.js';
import type { CollectionPlace } from '../rights/past-collections.js';
import { mayHold, type RemovalReader } from '../cache/collection.js';
import { NOT_HELD, type Held } from '../session/holdings.js';
import { TOO_LARGE } from '../session/message-limit.js';
import type { GlobEntry, NameEntry } from '../cache/entries.js';

/** The constraints that name a variant (TP2) in its removal. */
export type SentConstraints = Pick<ParameterConstraints, 'text' | 'bytes'>;

/** Subscription to one name. */
export interface NameSubscription {
  /** The client's spelling, which `removed_resources` must repeat. */
  asked: string;
  entry: NameEntry;
  held: Held;
  /** The client claims `held` from an earlier stream, and nothing has confirmed it yet. */
  isClaim: boolean;
  /** The name was sent as removed. */
  toldAbsent: boolean;
  /** Code of the resource error sent last; the same error is not sent twice. */
  lastErrorCode: number | undefined;
  /** TP2: the constraints of the variant sent last. Absent: none was sent since the first name with parameters. */
  constraints?: SentConstraints | undefined;
}

/** Subscription to a glob: a few sequence numbers, however many members it has. */
export interface GlobSubscription extends RemovalReader {
  asked: string;
  entry: GlobEntry;
  sentSeq: number;
  /** Where `sentSeq` was before the client subscribed again: it may hold members up to here. */
  formerSeq: number;
  /** Where the current pass over the members began: the end of the last finished pass. */
  passFromSeq: number;
  /**
   * Members that joined up to here were certainly sent. A member that changes during a pass moves
   * behind it, and may not have been sent.
   */
  certainlySentSeq: number;
  removedSeq: number;
  toldEmpty: boolean;
  lastErrorCode: number | undefined;
}

/** A glob subscription for which nothing was sent yet. */
export function newGlobSubscription(entry: GlobEntry, asked: string): GlobSubscription {
  return {
    asked,
    entry,
    sentSeq: LOG_START,
    formerSeq: LOG_START,
    passFromSeq: LOG_START,
    certainlySentSeq: LOG_START,
    // Tombstones dropped before the subscription do not count as missed.
    removedSeq: entry.collection.droppedSeq,
    toldEmpty: false,
    lastErrorCode: undefined,
  };
}

/**
 * Was anything of the glob sent, or is the collection complete? Before that, a removal would end
 * Envoy's wait for its first clusters (ENVOY 13).
 */
export const isBegun = ({ entry, sentSeq }: GlobSubscription): boolean =>
  entry.collection.complete || sentSeq > LOG_START;

/** Did the collection change, or is its emptiness or its error still to be sent? */
export function hasNews({
  entry: { collection, error },
  sentSeq,
  toldEmpty,
  lastErrorCode,
}: GlobSubscription): boolean {
  const isEmptyUntold =
    collection.members.size === 0 && (!toldEmpty || lastErrorCode !== error?.code);
  return collection.members.lastSeq > sentSeq || isEmptyUntold;
}

/** Did members go after the last removal that the client was sent? */
export const hasLost = ({ entry, removedSeq }: GlobSubscription): boolean =>
  entry.collection.tombstones.lastSeq > removedSeq;

/** Is the removal of this member still to be read from the tombstones of its collection? */
export const isTombstoneDue = ({ entry, removedSeq }: GlobSubscription, key: string): boolean =>
  entry.collection.wentAfter(key, removedSeq);

/** How far the client has read the collection. */
export function placeOf({
  entry,
  sentSeq,
  formerSeq,
  removedSeq,
}: GlobSubscription): CollectionPlace {
  const { collection } = entry;
  return { collection, sentSeq: Math.max(sentSeq, formerSeq), removedSeq };
}

/** Keys of the members that the client holds, also of removed ones that it was not told of. */
export function sentMembersOf(glob: GlobSubscription): readonly string[] {
  const { collection, sentSeq, removedSeq } = placeOf(glob);
  const sent = [...collection.members.since(LOG_START)].filter((member) =>
    mayHold(member, sentSeq, removedSeq),
  );
  return [...sent, ...collection.tombstones.since(removedSeq)].map(({ key }) => key);
}

/** A name that the client unsubscribed while a glob still covers it. */
export interface UnsubscribedName {
  readonly name: ResourceName;
  readonly asked: string;
  /** It was sent to the client, and not removed since. */
  readonly isHeld: boolean;
  /** It was known not to exist. */
  readonly isGone: boolean;
  /** The client claims it, and no answer for it was sent: the deletion guard decides whether it goes. */
  readonly isClaim: boolean;
}

/** Call it before the name is unsubscribed, while its state is known. */
export function unsubscribedName({
  asked,
  entry,
  held,
  isClaim,
}: NameSubscription): UnsubscribedName {
  const { name, state } = entry;
  return { name, asked, isHeld: held !== NOT_HELD, isGone: state.kind === 'absent', isClaim };
}

/** A member to remove: the spelling to use, and the glob that sent it. */
export interface GoneMember {
  readonly asked: string;
  readonly glob: GlobSubscription;
}

/** Was this version of a resource sent to a client that subscribes to it? */
export type Standing = 'not_asked' | 'unsent' | 'sent';

/** The clusters of a client that get their endpoints from one assignment. */
export interface ClustersBehind {
  /**
   * Suffix of the assignment's version: a digest of the versions of the clusters sent so far; empty
   * if none.
   */
  readonly suffix: string;
  /** All of these clusters were sent. */
  readonly settled: boolean;
}

/** The contents due in one response: names, and globs up to a sequence in their change log. */
export interface Pass {
  readonly names: Set<NameSubscription>;
  readonly globs: Map<GlobSubscription, number>;
}

/** Shared and never filled. It is mutable only to fit the type of `Pass.globs`. */
const NO_GLOBS: Map<GlobSubscription, number> = new Map();

export function passOf(names: Set<NameSubscription>, globs: ReadonlySet<GlobSubscription>): Pass {
  if (globs.size === 0) return { names, globs: NO_GLOBS };
  const due = [...globs].map((glob) => {
    return [glob, glob.entry.collection.members.lastSeq] as const;
  });
  return { names, globs: new Map(due) };
}

/** Adds the resource error of a subscription, unless the same code was sent last. */
export function tellError(
  subscription: NameSubscription | GlobSubscription,
  status: RpcStatus | undefined,
  draft: Draft,
): void {
  if (!status || subscription.lastErrorCode === status.code) return;
  subscription.lastErrorCode = status.code;
  draft.fail({ name: subscription.asked, status });
}

/**
 * Adds the error and the removal of a name that does not exist and the client does not hold; each
 * once.
 *
 * @param remove adds the removal
 */
export function answerAbsent(
  name: NameSubscription,
  status: RpcStatus | undefined,
  silently: boolean,
  remove: (name: NameSubscription) => void,
  draft: Draft,
): void {
  tellError(name, status, draft);
  if (name.toldAbsent || silently) return;
  name.toldAbsent = true;
  remove(name);
}

/** Adds the error for a withheld resource. The client holds no version of it. */
export function answerWithheld(name: NameSubscription, draft: Draft): void {
  if (name.held === NOT_HELD) tellError(name, TOO_LARGE, draft);
}

/**
 * Adds the error and the removal of a glob without members; each once. Nothing is added for an
 * unreachable source: Envoy takes any response for the response to its wildcard, and would start
 * without a resource.
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
  // A wildcard cannot be named in `removed_resources`: its clients wait for a response, and accept
  // an empty one.
  if (isOldStyle(glob.entry.collection.glob)) draft.owe();
  else draft.remove(glob.asked);
}
