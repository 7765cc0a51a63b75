/**
 * The client side of one state-of-the-world stream to a management server. Sibling of
 * `DeltaStream` over the same contents. Bulk machine.
 *
 * A request has all names of its type, and a response of listeners or clusters has all of its
 * resources: a held one that it lacks is deleted. A response of another type may have any part of
 * them: a missing resource is unknown, and never deleted (xDS protocol, "Deleting Resources"). A
 * name that never came is absent only after `resource_timeout`, never because a response lacks it:
 * the response may have been under way before the request.
 */
import type { Decoded, SotwResponse, WireResource } from '../../../protos/discovery.js';
import { wireText, type ResourceName } from '../../../protos/resource-name.js';
import {
  decodeSotwResponse,
  decodingSotwResponse,
  encodeSotwRequest,
} from '../../../protos/sotw-codec.js';
import { isWholeInSotw, TYPE_URL, typeRank } from '../../../protos/type-urls.js';
import { AckQueue, type Acknowledgement } from './ack-queue.js';
import { Answers } from './answers.js';
import { ResourceIntake, type ResponseContext } from './resource-intake.js';
import {
  DECODED_AT_ONCE_BYTES,
  Portions,
  ResponseInPortions,
  type Reading,
} from './response-portions.js';
import { Resubscriptions, textOf } from './resubscriptions.js';
import type { SourceContents, SourceSubscription } from './source-contents.js';
import { UnknownNames } from './unknown-names.js';
import {
  DuplicateSearch,
  nackDetail,
  NodeSender,
  readable,
  type ReceivedResponse,
  type ResponseTimes,
  type Refusal,
  type ResponseOutcome,
  type SourceStream,
  type StreamOptions,
  type StreamRequest,
} from './source-stream.js';
import { soonestOf } from '../soonest.js';

/** A response that comes sooner after a request may be older than the request: a round trip. */
const MAX_UNDER_WAY_MS = 1_000;

/** The wildcard in its explicit spelling. */
const WILDCARD = '*';

/** One type on the present stream. */
interface TypeState {
  /** The version of the last accepted response; empty: none (invariant 10). */
  version: string;
  /** The nonce of the last response; empty: none. */
  nonce: string;
  /** When the last request with this nonce was sent; undefined: none was. */
  requestedMs: number | undefined;
  /** A request had names. Before that, a request without names means the wildcard. */
  hadNames: boolean;
  /** The names of the last request. */
  names: ReadonlySet<string>;
  /** A response came that has more than heartbeats and was not refused as a whole. */
  isAnswered: boolean;
  /** The subscriptions of the first request: every response answers them. */
  readonly first: ReadonlySet<SourceSubscription>;
  readonly resubscriptions: Resubscriptions;
  /** Globs that the last response did not answer for certain. */
  readonly unanswered: Set<SourceSubscription>;
}

interface SotwAcknowledgement extends Acknowledgement {
  readonly version: string;
}

export class SotwStream implements SourceStream {
  readonly #contents: SourceContents;
  readonly #options: StreamOptions;
  readonly #node: NodeSender;
  readonly #answers: Answers;
  readonly #intake: ResourceIntake;
  readonly #unknown: UnknownNames;
  readonly inPortions = new ResponseInPortions();

  // State of the present stream; `handleOpened` resets it.
  #open = false;
  #isStuck = false;
  /** The types with a request on the stream. */
  readonly #types = new Map<string, TypeState>();
  readonly #acks = new AckQueue<SotwAcknowledgement>();
  /** Types whose names changed since their last request. */
  readonly #changed = new Set<string>();
  /** Types that may not be requested yet. */
  readonly #held = new Set<string>();
  /** When a name was subscribed after the first request of its type. */
  #addedMs = new WeakMap<SourceSubscription, number>();

  constructor(contents: SourceContents, options: StreamOptions) {
    this.#contents = contents;
    this.#options = options;
    this.#node = new NodeSender(options);
    this.#unknown = new UnknownNames(contents);
    this.#answers = new Answers(contents, options, (one) => {
      this.#timeOut(one);
    });
    this.#intake = new ResourceIntake(contents, this.#answers, options, (lapsed) => {
      // Only a new stream makes the server send the members of a collection again. A request
      // without the collection, and then one with it, would delete the held listeners and clusters
      // in between.
      if (lapsed.name.isGlob) this.#isStuck = true;
      else this.#requestAgain(lapsed);
    });
  }

  handleSubscribed(subscription: SourceSubscription, nowMs: number): void {
    if (!this.#open) return;
    const { typeUrl } = subscription;
    const state = this.#types.get(typeUrl);
    if (state) this.#addedMs.set(subscription, nowMs);
    const text = textOf(subscription);
    state?.resubscriptions.handleSubscribed(subscription, state.names.has(text), nowMs);
    if (state?.hadNames === false && text === WILDCARD) this.#isStuck = true;
    this.#noteChanged(typeUrl);
    this.#answers.handleSubscribed(subscription, nowMs);
  }

  /**
   * The server will not send what the contents forgot: only a new stream makes it. A name was
   * unsubscribed and subscribed again, and the server does not know: it ignores requests with an old
   * nonce, and a wildcard that was requested without names cannot be left. Or a member of a
   * collection expired here, and not at the server.
   */
  get mustRestart(): boolean {
    return this.#isStuck;
  }

  get typeCount(): number {
    return this.#types.size;
  }

  handleUnsubscribed(subscription: SourceSubscription, nowMs: number): void {
    if (!this.#open) return;
    const state = this.#types.get(subscription.typeUrl);
    state?.resubscriptions.handleUnsubscribed(subscription, state.names.has(textOf(subscription)));
    state?.unanswered.delete(subscription);
    this.#noteChanged(subscription.typeUrl);
    // A late response of a whole type answers its collections too.
    if (isWholeInSotw(subscription.typeUrl)) this.#answers.forget(subscription);
    else this.#answers.handleUnsubscribed(subscription, nowMs);
  }

  /**
   * The next request leaves the name out, and the one after it has it again: the server must then
   * send it. Not a held listener or cluster, which the response to the first of these requests would
   * delete.
   */
  handleAskedAgain(subscription: SourceSubscription): void {
    const { typeUrl, name, status } = subscription;
    if (status === 'requested') return;
    const isHeld = this.#contents.entry(typeUrl, name) !== undefined;
    if (!isHeld || !isWholeInSotw(typeUrl)) this.#requestAgain(subscription);
  }

  #requestAgain(subscription: SourceSubscription): void {
    const { typeUrl, name } = subscription;
    if (!name.isGlob) this.#types.get(typeUrl)?.resubscriptions.leaveOut(subscription);
    this.#unknown.handleAskedAgain(subscription);
    this.#noteChanged(typeUrl);
  }

  handleOpened(): void {
    this.#reset();
    this.#open = true;
    this.#contents.restart();
    const inOrder = [...this.#contents.types()].sort((a, b) => typeRank(a) - typeRank(b));
    for (const typeUrl of inOrder) this.#noteChanged(typeUrl);
  }

  handleExhausted(): void {
    // A request has all names of its type: a smaller one would unsubscribe some.
  }

  handleEnded(): void {
    this.#reset();
    this.#contents.stopTimers();
  }

  #reset(): void {
    this.#open = false;
    this.inPortions.drop();
    this.#isStuck = false;
    this.#node.restart();
    this.#answers.restart();
    this.#unknown.restart();
    this.#types.clear();
    this.#acks.clear();
    this.#changed.clear();
    this.#held.clear();
    this.#addedMs = new WeakMap();
  }

  /**
   * Servers answer each request for listeners or clusters. A server need not answer a request for names of another type
   * that it lacks, even if it had them before: if it hangs then, only the liveness probe finds that.
   */
  owesResponse(): boolean {
    return [...this.#contents.types()].some(
      (typeUrl) => ALWAYS_ANSWERED.has(typeUrl) && !this.#held.has(typeUrl),
    );
  }

  /** If the first request of the type had this glob, each set of listeners or clusters has all of its members (`#answerGlobs`). */
  answersAtOnce(glob: SourceSubscription): boolean {
    const { typeUrl } = glob;
    return isWholeInSotw(typeUrl) && this.#types.get(typeUrl)?.first.has(glob) === true;
  }

  handleQuietResume(): void {
    // No versions were sent, so silence says nothing about any name.
  }

  get hasRequest(): boolean {
    return this.#acks.size + this.#changed.size > 0;
  }

  get ackBytes(): number {
    return this.#acks.bytes;
  }

  pollRequest(nowMs: number): StreamRequest | undefined {
    // A request with the new names would be the ACK of a response whose NACK is delayed.
    for (const typeUrl of this.#changed) this.#acks.release(typeUrl, nowMs);
    return this.#acks.next(
      nowMs,
      () => this.#change(nowMs),
      (ack) => this.#request(ack, nowMs),
    );
  }

  /**
   * A request of a type whose names changed. While the type's last response waits for its ACK or NACK, that one carries the
   * names, after the ACKs before it.
   */
  #change(nowMs: number): StreamRequest | undefined {
    for (const typeUrl of this.#changed) {
      const { version, nonce, requestedMs } = this.#types.get(typeUrl) ?? FIRST;
      if (nonce !== '' && requestedMs === undefined) continue;
      this.#changed.delete(typeUrl);
      if (!this.#canSay(typeUrl)) continue;
      const change = { typeUrl, version, responseNonce: nonce, errorDetail: undefined };
      return this.#request(change, nowMs);
    }
    return undefined;
  }

  #noteChanged(typeUrl: string): void {
    // A type that the stream has begun with is not held back later.
    const mayRequest = this.#types.has(typeUrl) || (this.#options.mayRequest?.(typeUrl) ?? true);
    (mayRequest ? this.#changed : this.#held).add(typeUrl);
  }

  handleReleased(typeUrl: string): void {
    if (this.#held.delete(typeUrl)) this.#changed.add(typeUrl);
  }

  /**
   * Without names a first request would subscribe the wildcard, and a later one cannot leave it:
   * what the server goes on sending is ignored.
   */
  #canSay(typeUrl: string): boolean {
    const [any] = this.#contents.subscriptions(typeUrl);
    return any !== undefined || this.#types.get(typeUrl)?.hadNames === true;
  }

  /** A request has all names of its type, so an ACK sends every change too. */
  #request(
    { typeUrl, version, responseNonce, errorDetail }: SotwAcknowledgement,
    nowMs: number,
  ): StreamRequest {
    const subscriptions = [...this.#contents.subscriptions(typeUrl)];
    const state = this.#types.get(typeUrl) ?? this.#begin(typeUrl, subscriptions);
    const leftOut = state.resubscriptions.takeLeftOut();
    const due = subscriptions.filter((one) => !leftOut.has(one));
    const sent = this.#unknown.requested(typeUrl, due);
    this.#changed.delete(typeUrl);
    if (leftOut.size > 0) this.#noteChanged(typeUrl);
    // A name that is left out as unknown is not answered in time either.
    this.#answers.handleRequested(due, nowMs);
    this.#unknown.handleRequested(typeUrl, sent, nowMs);
    if (responseNonce === state.nonce) {
      state.requestedMs = nowMs;
      for (const one of state.unanswered) this.#answers.handleMember(one, 'shared', nowMs);
      state.unanswered.clear();
    }
    const parts = { typeUrl, versionInfo: version, responseNonce, errorDetail };
    const names = namesIn(state, sent);
    const node = this.#node.nodeFor(typeUrl);
    return { typeUrl, bytes: encodeSotwRequest({ ...parts, node, names }) };
  }

  #begin(typeUrl: string, first: readonly SourceSubscription[]): TypeState {
    const state: TypeState = {
      ...FIRST,
      first: new Set(first),
      resubscriptions: new Resubscriptions(),
      unanswered: new Set(),
    };
    this.#types.set(typeUrl, state);
    return state;
  }

  handleMessage(bytes: Uint8Array, times: ResponseTimes): Decoded<ReceivedResponse> | undefined {
    if (bytes.length > DECODED_AT_ONCE_BYTES) {
      return this.inPortions.begin(this.#read(bytes, times));
    }
    const decoded = readable(decodeSotwResponse(bytes, this.#options.maxResourcesPerResponse));
    if (!decoded.ok) return decoded;
    return this.inPortions.begin(this.#take(decoded.message, bytes.length, times));
  }

  *#read(bytes: Uint8Array, times: ResponseTimes): Reading {
    const { maxResourcesPerResponse } = this.#options;
    const decoded = readable(yield* decodingSotwResponse(bytes, maxResourcesPerResponse));
    return decoded.ok ? yield* this.#take(decoded.message, bytes.length, times) : decoded;
  }

  *#take(response: SotwResponse, bytes: number, { nowMs, arrivedMs }: ResponseTimes): Reading {
    const { typeUrl, errors } = response;
    const state = this.#types.get(typeUrl);
    // An ACK of a type that was not requested would subscribe its wildcard.
    if (!state) return { ok: true, message: { typeUrl, outcome: NOTHING, errors } };
    const resources = this.#named(response);
    const portions = new Portions(
      this.#options.portionBytes,
      bytes,
      resources.length + errors.length,
    );
    // Decoding was the first portion.
    if (portions.areSeveral) nowMs = yield 'taking';
    const duplicates = new DuplicateSearch(namesOf(resources));
    while (!duplicates.continue(portions.areSeveral)) nowMs = yield 'taking';
    if (duplicates.refusals.length > 0)
      return this.#finish(response, state, { accepted: 0, refused: duplicates.refusals }, nowMs);
    // The last comparison was a portion of its own.
    if (portions.areSeveral) nowMs = yield 'taking';
    let context: ResponseContext = {
      typeUrl,
      nowMs,
      arrivedMs,
      isResync: !state.isAnswered,
      // The end of the first set answers its globs, since only the set is whole.
      partial: portions.areSeveral || (isWholeInSotw(typeUrl) && !state.isAnswered),
    };
    const refused: Refusal[] = [];
    const sent = new Set<string>();
    let { entriesAdded } = this.#contents;
    for (const resource of resources) {
      if (portions.isFull(resource.body?.length ?? 0)) {
        this.#noteArrival(entriesAdded, context);
        ({ entriesAdded } = this.#contents);
        context = { ...context, nowMs: yield 'taking' };
      }
      const { name, reason } = this.#intake.take(resource, context);
      if (name) sent.add(name.key);
      if (name && !this.#isSubscribed(typeUrl, name))
        state.resubscriptions.handleSentUnsubscribed(name);
      if (reason !== undefined) refused.push({ name: resource.name, reason });
    }
    for (const { name: text, status } of errors) {
      if (portions.isFull(text.length)) context = { ...context, nowMs: yield 'taking' };
      const named = this.#intake.named(text, context);
      if ('reason' in named) continue;
      this.#intake.remove(named.name, context, status);
      sent.add(named.name.key);
    }
    this.#noteArrival(entriesAdded, context);
    if (isWholeInSotw(typeUrl) && !isHeartbeat(response)) {
      // A nameless resource may be any of them.
      const others = resources.every(({ name }) => name !== '') ? this.#others(typeUrl, sent) : [];
      // A small response too may lack many of the held resources.
      const removals = new Portions(this.#options.portionBytes, 0, others.length);
      for (const name of others) {
        if (removals.isFull(0)) context = { ...context, nowMs: yield 'taking' };
        this.#removeOther(name, context);
      }
      this.#answerGlobs(state, context);
      if (!state.isAnswered) this.#awaitMissing(sent, context);
    }
    ({ nowMs } = context);
    this.#answers.handleResponse(typeUrl, false, nowMs);
    this.#settleResubscribed(response, sent, arrivedMs);
    state.isAnswered ||= !isHeartbeat(response);
    for (const other of this.#unknown.handleResponse(typeUrl, sent, nowMs))
      this.#noteChanged(other);
    const outcome = { accepted: resources.length - refused.length, refused };
    return this.#finish(response, state, outcome, nowMs);
  }

  #settleResubscribed(response: SotwResponse, sent: ReadonlySet<string>, arrivedMs: number): void {
    const isStuck = this.#types.get(response.typeUrl)?.resubscriptions.handleResponse({
      isHeartbeat: isHeartbeat(response),
      sent,
      arrivedMs,
      countMembers: (glob) => this.#countMembers(sent, glob),
    });
    if (isStuck === true) this.#isStuck = true;
  }

  #countMembers(sent: ReadonlySet<string>, { typeUrl, name: glob }: SourceSubscription): number {
    const members = [...this.#contents.members(typeUrl, glob)];
    return members.filter(({ projection: { name } }) => sent.has(name.key)).length;
  }

  /** False: the name was unsubscribed while the response was under way. */
  #isSubscribed(typeUrl: string, name: ResourceName): boolean {
    const contents = this.#contents;
    return (contents.subscription(typeUrl, name) ?? contents.globOf(typeUrl, name)) !== undefined;
  }

  /** @param entriesAdded before the resources of the response, or of its portion */
  #noteArrival(entriesAdded: number, { typeUrl, nowMs }: ResponseContext): void {
    if (this.#contents.entriesAdded > entriesAdded) this.#contents.noteArrival(typeUrl, nowMs);
  }

  #finish(
    { typeUrl, nonce, versionInfo, errors }: SotwResponse,
    state: TypeState,
    outcome: ResponseOutcome,
    nowMs: number,
  ): Decoded<ReceivedResponse> {
    const errorDetail = nackDetail(outcome.refused);
    state.nonce = nonce;
    state.requestedMs = undefined;
    if (!errorDetail) state.version = versionInfo;
    const ack = { typeUrl, version: state.version, responseNonce: nonce, errorDetail };
    this.#acks.push(ack, nowMs);
    return { ok: true, message: { typeUrl, outcome, errors } };
  }

  /**
   * Names the resource of a type whose messages have no name (Istio's name table), if one name is
   * subscribed. Fills in the version of a resource that has none of its own.
   */
  #named({ typeUrl, versionInfo, resources }: SotwResponse): readonly WireResource[] {
    const [only, ...others] = this.#contents.subscriptions(typeUrl);
    const isOnly = only && !only.name.isGlob && others.length === 0 && resources.length === 1;
    return resources.map((resource) => {
      const name = resource.name === '' && isOnly ? wireText(only.name.key) : resource.name;
      const isBare = resource.version === '' && resource.body !== undefined;
      return { ...resource, name, version: isBare ? versionInfo : resource.version };
    });
  }

  /** The names, held or rejected, that the source had and that a whole response lacks. */
  #others(typeUrl: string, sent: ReadonlySet<string>): readonly ResourceName[] {
    const held = [...this.#contents.entries(typeUrl)].map(({ projection: { name } }) => name);
    const had = [...held, ...this.#contents.rejectedOnly(typeUrl)];
    return had.filter(({ key }) => !sent.has(key));
  }

  #removeOther(name: ResourceName, { typeUrl, isResync, nowMs }: ResponseContext): void {
    // It may have been unsubscribed, or have expired, since the response began.
    const isHeld = this.#contents.entry(typeUrl, name) !== undefined;
    if (!isHeld && !this.#contents.isRejected(typeUrl, name)) return;
    this.#contents.remove(typeUrl, name, isResync || this.#isLate(typeUrl, name, nowMs));
  }

  /**
   * The name was subscribed a moment ago, perhaps not for the first time: the response may have been
   * under way before that, so its lack of the name is less certain than a deletion.
   */
  #isLate(typeUrl: string, name: ResourceName, nowMs: number): boolean {
    const of = [this.#contents.subscription(typeUrl, name), this.#contents.globOf(typeUrl, name)];
    return of.some((one) => {
      const addedMs = one && this.#addedMs.get(one);
      return addedMs !== undefined && nowMs < addedMs + this.#options.resourceTimeoutMs;
    });
  }

  /**
   * A whole response answers the globs of the first request, even if it has no members. It may not answer a later
   * one: it may have been under way before the request, and then the server ignored that request, since its nonce was
   * old. The ACK requests the glob again, and a server that learns of it only now responds to the ACK. So a glob has
   * no members if the server is silent for a while after the ACK (seed 48086). Nor does it answer a glob whose first part is
   * lost: a new stream will, which may take a while (seed 301796).
   */
  #answerGlobs(state: TypeState, { typeUrl, nowMs, arrivedMs }: ResponseContext): void {
    const { first, resubscriptions, requestedMs, unanswered } = state;
    const mayBeOlder = requestedMs === undefined || arrivedMs < requestedMs + MAX_UNDER_WAY_MS;
    for (const subscription of [...this.#contents.subscriptions(typeUrl)]) {
      if (!subscription.name.isGlob || subscription.status === 'present') continue;
      if (resubscriptions.lacksFirstPart(subscription, arrivedMs)) {
        this.#answers.forget(subscription);
        continue;
      }
      if (first.has(subscription)) {
        this.#answers.handleEmpty(subscription, nowMs);
        continue;
      }
      // The server has heard of a glob if members of it came: the end of the response answers it.
      if (this.#answers.isPartial(subscription)) continue;
      if (mayBeOlder) this.#answers.forget(subscription);
      unanswered.add(subscription);
    }
  }

  /**
   * Names that timed out before the first set came get the same time again. The set lacks them, so they may be absent
   * (seed 6005252).
   */
  #awaitMissing(sent: ReadonlySet<string>, { typeUrl, nowMs }: ResponseContext): void {
    this.#contents.reopen(typeUrl, sent);
    this.#answers.handleRequested([...this.#contents.subscriptions(typeUrl)], nowMs);
  }

  /** By then, a server that sends whole sets would have sent the name: it is absent. */
  #timeOut(subscription: SourceSubscription): void {
    const { typeUrl, name } = subscription;
    const isHeld = this.#contents.entry(typeUrl, name) !== undefined;
    const hasSet = isWholeInSotw(typeUrl) && this.#types.get(typeUrl)?.isAnswered === true;
    // The last set has it, as a member of a collection: go-control-plane does not send that again.
    if (isHeld && hasSet) this.#contents.settle(subscription);
    // The source sent it, so it is not absent.
    else if (this.#contents.isRejected(typeUrl, name)) this.#contents.timeOut(subscription);
    else if (!isHeld && this.#wasSentBefore(subscription)) this.#isStuck = true;
    else if (hasSet && !name.isGlob) this.#contents.remove(typeUrl, name, true);
    else this.#contents.timeOut(subscription);
  }

  #wasSentBefore(subscription: SourceSubscription): boolean {
    const { typeUrl } = subscription;
    return this.#types.get(typeUrl)?.resubscriptions.wasSentBefore(subscription) === true;
  }

  nextDeadlineMs(): number | undefined {
    return soonestOf(this.#answers.nextDeadlineMs(), this.#unknown.nextMs, this.#acks.nextMs);
  }

  handleTimer(nowMs: number): void {
    const isHeard = [...this.#types.values()].some(({ isAnswered }) => isAnswered);
    this.#acks.handleTimer(nowMs);
    this.#answers.handleTimer(nowMs, isHeard);
    const isAnswered = (typeUrl: string): boolean => this.#types.get(typeUrl)?.isAnswered === true;
    for (const typeUrl of this.#unknown.handleTimer(nowMs, isAnswered)) this.#noteChanged(typeUrl);
  }
}

/** go-control-plane is silent about the scoped routes of a snapshot without any. */
const ALWAYS_ANSWERED: ReadonlySet<string> = new Set([TYPE_URL.listener, TYPE_URL.cluster]);

const NOTHING: ReceivedResponse['outcome'] = { accepted: 0, refused: [] };
/** A type before its first request. */
const FIRST = {
  version: '',
  nonce: '',
  requestedMs: undefined,
  hadNames: false,
  names: new Set<string>(),
  isAnswered: false,
} as const;

/** The names of a request, in their wire form. */
function namesIn(state: TypeState, sent: readonly SourceSubscription[]): readonly string[] {
  const names = sent.map(textOf);
  // The first form of a wildcard in the protocol, which every server understands: no names.
  if (!state.hadNames && names.length === 1 && names[0] === WILDCARD) return [];
  state.hadNames ||= names.length > 0;
  state.names = new Set(names);
  return names;
}

/** Resources without a name are not compared. */
const namesOf = (resources: readonly WireResource[]): readonly string[] =>
  resources.flatMap(({ name }) => (name === '' ? [] : [name]));

/** Only heartbeats: such a response is not a set of resources (xDS protocol, "TTL"). */
const isHeartbeat = ({ resources }: SotwResponse): boolean =>
  resources.length > 0 && resources.every(({ body }) => body === undefined);
