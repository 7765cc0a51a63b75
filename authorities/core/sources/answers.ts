/**
 * Is a subscription answered in full? The delta protocol does not say so: a response names no
 * request, and nothing marks the last part of a large response. So each subscription has a record
 * of the evidence on the present stream, and `EVIDENCE` says how each event changes it. Held
 * content is not affected: members count as soon as they come. Bulk machine of one stream.
 *
 * A single name is answered by its resource or its removal. The table matters for globs, and for
 * names whose version the stream sent.
 */
import type { RpcStatus } from '../../../protos/discovery.js';
import { globKeyOf, type ResourceName } from '../../../protos/resource-name.js';
import { DeadlineHeap } from './deadline-heap.js';
import { Fifo } from './fifo.js';
import type { SourceContents, SourceSubscription } from './source-contents.js';
import { soonestOf } from '../soonest.js';

export type Evidence =
  /** Nothing came that could answer it. */
  | 'none'
  /** The stream sent its versions: silence means "unchanged". */
  | 'resumed'
  /** A member came in a large response: more may follow. */
  | 'partial'
  /** A member came that is also subscribed by its own name, and may answer only that. */
  | 'doubtful'
  /** A name of its collection was unsubscribed a moment ago: that name's response may still come. */
  | 'expecting_late'
  /** A member came that may be such a late response. */
  | 'maybe_late'
  /** It is answered in full. */
  | 'definite';

export type AnswerEvent =
  /** A member of the glob came in a small response. */
  | 'member'
  /** A member came in a large response, or the gateway rejected it. */
  | 'part'
  /** A member came that may answer another subscription alone. */
  | 'shared'
  /** The source reported that the glob has no members. */
  | 'empty'
  /** Another name of the collection was unsubscribed. */
  | 'left'
  /** The response of the type is complete, or the source is silent about versions that it was sent. */
  | 'whole'
  /** The wait for a better answer is over. */
  | 'due';

type Row = Readonly<Record<AnswerEvent, Evidence>>;

const WAITS_FOR_WHOLE: Row = {
  member: 'definite',
  part: 'partial',
  shared: 'partial',
  empty: 'definite',
  left: 'partial',
  whole: 'definite',
  due: 'definite',
};
const MAYBE_LATE: Row = {
  member: 'maybe_late',
  part: 'maybe_late',
  shared: 'maybe_late',
  empty: 'maybe_late',
  left: 'maybe_late',
  whole: 'maybe_late',
  due: 'definite',
};

/** The evidence after each event (docs/SPEC.md, "When a collection is answered"). */
export const EVIDENCE: Readonly<Record<Evidence, Row>> = {
  none: {
    member: 'definite',
    part: 'partial',
    shared: 'doubtful',
    empty: 'definite',
    left: 'expecting_late',
    whole: 'none',
    due: 'none',
  },
  resumed: { ...WAITS_FOR_WHOLE, shared: 'resumed', left: 'resumed' },
  partial: WAITS_FOR_WHOLE,
  doubtful: {
    member: 'definite',
    part: 'partial',
    shared: 'doubtful',
    empty: 'definite',
    left: 'maybe_late',
    whole: 'doubtful',
    due: 'definite',
  },
  expecting_late: { ...MAYBE_LATE, left: 'expecting_late', whole: 'expecting_late' },
  maybe_late: MAYBE_LATE,
  definite: {
    member: 'definite',
    part: 'definite',
    shared: 'definite',
    empty: 'definite',
    left: 'definite',
    whole: 'definite',
    due: 'definite',
  },
};

/**
 * Servers split large responses into parts of about one to a few MiB. A response counts as whole
 * when a smaller one of its type follows, or none for this time.
 */
const PARTIAL_QUIET_MS = 500;

export interface AnswerWaits {
  /** A name without an answer for this long is timed out. A later response still counts. */
  readonly resourceTimeoutMs: number;
  /** Silence for this long, on a stream that has sent a response, means "unchanged". */
  readonly quietResumeMs: number;
}

/** A subscription, or a type whose response is awaited. */
interface Wait {
  readonly atMs: number;
  readonly of: SourceSubscription | string;
}

interface Unanswered {
  readonly subscription: SourceSubscription;
  readonly deadlineMs: number;
}

export class Answers {
  readonly #contents: SourceContents;
  readonly #waits: AnswerWaits;
  readonly #onTimeout: (subscription: SourceSubscription) => void;
  /** All subscriptions whose evidence is neither `none` nor `definite`. */
  readonly #evidence = new Map<SourceSubscription, Evidence>();
  /** By type: the subscriptions with the evidence `resumed` or `partial`. */
  readonly #awaitWhole = new Map<string, Set<SourceSubscription>>();
  /** When each wait ends. The heap also has obsolete ends. */
  readonly #endsMs = new Map<SourceSubscription | string, number>();
  readonly #heap = new DeadlineHeap<Wait>();
  /** By collection: when one of its names was last unsubscribed; the oldest first. */
  readonly #left = new Map<string, number>();
  /** In order of deadline, since every name has the same timeout. Answered names are skipped. */
  readonly #unanswered = new Fifo<Unanswered>();

  /** @param onTimeout a name or glob was not answered in time */
  constructor(
    contents: SourceContents,
    waits: AnswerWaits,
    onTimeout: (subscription: SourceSubscription) => void = (one) => {
      contents.timeOut(one);
    },
  ) {
    this.#contents = contents;
    this.#waits = waits;
    this.#onTimeout = onTimeout;
  }

  /** A stream begins or ends. Without a stream no name is late: its source is unreachable. */
  restart(): void {
    this.#evidence.clear();
    this.#awaitWhole.clear();
    this.#endsMs.clear();
    this.#heap.clear();
    this.#left.clear();
    this.#unanswered.clear();
  }

  /** The contents have a new subscription. */
  handleSubscribed(subscription: SourceSubscription, nowMs: number): void {
    const { typeUrl, name } = subscription;
    if (!name.isGlob) return;
    const leftMs = this.#left.get(collectionOf(typeUrl, name));
    const isRecent = leftMs !== undefined && nowMs < leftMs + this.#waits.resourceTimeoutMs;
    if (isRecent) this.#step(subscription, 'left', nowMs);
  }

  /** A name or glob was unsubscribed: its response may be in flight. */
  handleUnsubscribed(subscription: SourceSubscription, nowMs: number): void {
    const { typeUrl, name } = subscription;
    this.forget(subscription);
    const glob = this.#contents.globOf(typeUrl, name);
    if (glob) this.#step(glob, 'left', nowMs);
    for (const [collection, leftMs] of this.#left) {
      if (leftMs + this.#waits.resourceTimeoutMs > nowMs) break;
      this.#left.delete(collection);
    }
    const collection = collectionOf(typeUrl, name);
    this.#left.delete(collection);
    this.#left.set(collection, nowMs);
  }

  /** A request with these names was sent. The timeout of a name runs from the first one. */
  handleRequested(subscriptions: readonly SourceSubscription[], nowMs: number): void {
    const deadlineMs = nowMs + this.#waits.resourceTimeoutMs;
    for (const subscription of subscriptions) {
      if (subscription.status !== 'requested' || subscription.deadlineMs !== undefined) continue;
      subscription.deadlineMs = deadlineMs;
      this.#unanswered.push({ subscription, deadlineMs });
    }
  }

  /** The request sent the versions of these subscriptions, which are of one type. */
  handleResumed(typeUrl: string, subscriptions: Iterable<SourceSubscription>, untilMs: number) {
    for (const subscription of subscriptions) this.#set(subscription, 'resumed');
    this.#wait(typeUrl, untilMs);
  }

  isResumed(subscription: SourceSubscription): boolean {
    return this.#evidence.get(subscription) === 'resumed';
  }

  isPartial(subscription: SourceSubscription): boolean {
    return this.#evidence.get(subscription) === 'partial';
  }

  /** @param event of a member that came */
  handleMember(glob: SourceSubscription, event: 'member' | 'part' | 'shared', nowMs: number): void {
    this.#step(glob, event, nowMs);
  }

  /** @param absence the source's reason, if it sent one */
  handleEmpty(glob: SourceSubscription, nowMs: number, absence?: RpcStatus): void {
    this.#step(glob, 'empty', nowMs, absence);
  }

  /** A response of the type ended. @param isLarge more parts may follow */
  handleResponse(typeUrl: string, isLarge: boolean, nowMs: number): void {
    if (!isLarge) this.#handleWhole(typeUrl, nowMs);
    else if (this.#awaitWhole.has(typeUrl)) this.#wait(typeUrl, nowMs + PARTIAL_QUIET_MS);
  }

  /** The server sent nothing, but is alive: all versions that it was sent are current. */
  handleQuiet(nowMs: number): void {
    for (const typeUrl of [...this.#awaitWhole.keys()]) this.#handleWhole(typeUrl, nowMs);
  }

  #handleWhole(typeUrl: string, nowMs: number): void {
    for (const subscription of this.#awaitWhole.get(typeUrl) ?? []) {
      this.#step(subscription, 'whole', nowMs);
    }
    this.#endsMs.delete(typeUrl);
  }

  nextDeadlineMs(): number | undefined {
    return soonestOf(this.#nextWait()?.atMs, this.#timeoutMs());
  }

  /** @param isHeard the stream has had a response: silence about the rest means "unchanged" */
  handleTimer(nowMs: number, isHeard: boolean): void {
    for (let wait = this.#nextWait(); wait && wait.atMs <= nowMs; wait = this.#nextWait()) {
      this.#heap.pop();
      this.#endsMs.delete(wait.of);
      if (typeof wait.of !== 'string') this.#step(wait.of, 'due', nowMs);
      // On a stream without any response, source-health.ts decides what silence means.
      else if (isHeard) this.#handleWhole(wait.of, nowMs);
    }
    for (let dueMs = this.#timeoutMs(); dueMs !== undefined; dueMs = this.#timeoutMs()) {
      if (dueMs > nowMs) return;
      const due = this.#unanswered.shift();
      if (due) this.#onTimeout(due.subscription);
    }
  }

  /** Deadline of the oldest unanswered name. */
  #timeoutMs(): number | undefined {
    for (;;) {
      const { first } = this.#unanswered;
      if (!first) return undefined;
      if (first.subscription.deadlineMs === first.deadlineMs) return first.deadlineMs;
      this.#unanswered.shift();
    }
  }

  #nextWait(): Wait | undefined {
    for (;;) {
      const { first } = this.#heap;
      if (!first || this.#endsMs.get(first.of) === first.atMs) return first;
      this.#heap.pop();
    }
  }

  #wait(of: SourceSubscription | string, atMs: number): void {
    this.#endsMs.set(of, atMs);
    this.#heap.push({ atMs, of });
  }

  #evidenceOf(subscription: SourceSubscription): Evidence {
    const known = this.#evidence.get(subscription);
    return known ?? (subscription.status === 'present' ? 'definite' : 'none');
  }

  #step(subscription: SourceSubscription, event: AnswerEvent, nowMs: number, absence?: RpcStatus) {
    const before = this.#evidenceOf(subscription);
    const after = EVIDENCE[before][event];
    if (after !== before) this.forget(subscription);
    if (after === 'definite') this.#settle(subscription, event, absence);
    else if (after !== before) {
      this.#set(subscription, after);
      const { quietResumeMs, resourceTimeoutMs } = this.#waits;
      if (after === 'doubtful') this.#wait(subscription, nowMs + quietResumeMs);
      if (after === 'maybe_late') this.#wait(subscription, nowMs + resourceTimeoutMs);
    }
  }

  #settle(subscription: SourceSubscription, event: AnswerEvent, absence?: RpcStatus): void {
    if (event === 'left') return;
    // A name whose version was sent may have been answered, or failed, by its own response.
    const isAnswered = !subscription.name.isGlob && subscription.status !== 'requested';
    if (!isAnswered) this.#contents.settle(subscription, absence);
  }

  #set(subscription: SourceSubscription, evidence: Evidence): void {
    this.#evidence.set(subscription, evidence);
    if (evidence !== 'resumed' && evidence !== 'partial') return;
    const { typeUrl } = subscription;
    let waiting = this.#awaitWhole.get(typeUrl);
    if (!waiting) this.#awaitWhole.set(typeUrl, (waiting = new Set()));
    waiting.add(subscription);
  }

  /** The evidence no longer counts. */
  forget(subscription: SourceSubscription): void {
    this.#evidence.delete(subscription);
    this.#endsMs.delete(subscription);
    const waiting = this.#awaitWhole.get(subscription.typeUrl);
    if (waiting?.delete(subscription) && waiting.size === 0) {
      this.#awaitWhole.delete(subscription.typeUrl);
    }
  }
}

const collectionOf = (typeUrl: string, name: ResourceName): string =>
  `${typeUrl} ${globKeyOf(name)}`;
