/**
 * The client side of one delta ADS stream to a management server: which requests to send, how to
 * read responses, which ones to ACK or NACK. Bulk machine over `SourceContents`. It outlives
 * streams and restarts with each one (`handleOpened`).
 *
 * Servers are assumed to follow the xDS protocol page; comments name the servers that differ. Names
 * to subscribe or unsubscribe are merged here until the shell polls a request.
 */
import {
  decodeDeltaResponse,
  decodingDeltaResponse,
  encodeDeltaRequest,
} from '../../../protos/delta-codec.js';
import type {
  Decoded,
  DeltaRequest,
  DeltaResponse,
  WireResource,
} from '../../../protos/discovery.js';
import { isDataError } from '../../../protos/discovery.js';
import {
  isXdstp,
  oldStyleName,
  parametersOfKey,
  wireText,
  type ParameterizedName,
  type ResourceName,
} from '../../../protos/resource-name.js';
import { typeRank } from '../../../protos/type-urls.js';
import { AckQueue } from './ack-queue.js';
import { Answers } from './answers.js';
import { FreshResume } from './fresh-resume.js';
import { PendingNames } from './pending-names.js';
import { MAX_REQUEST_BYTES, RequestRoom, SMALL_REQUEST_BYTES } from './request-room.js';
import {
  ResourceIntake,
  variantText,
  type ResponseContext,
  type Taken,
} from './resource-intake.js';
import {
  DECODED_AT_ONCE_BYTES,
  ENTRY_COST_BYTES,
  Portions,
  ResponseInPortions,
  type Reading,
} from './response-portions.js';
import type { SourceContents, SourceSubscription } from './source-contents.js';
import {
  DuplicateSearch,
  nackDetail,
  NodeSender,
  readable,
  type ReceivedResponse,
  type ResponseTimes,
  type Refusal,
  type SourceStream,
  type StreamOptions,
  type StreamRequest,
} from './source-stream.js';
import { soonestOf } from '../soonest.js';

export interface DeltaStreamOptions extends StreamOptions {
  /** `trusted`: the server reports what it deleted while no stream was open; `fresh`: it does not. */
  readonly resume: 'trusted' | 'fresh';
  /** Most new names in any one request. Infinity: all, because `rate_limit_settings` limits the number of requests. */
  readonly maxNamesPerRequest: number;
}

/** A response of this size may be a part of a larger one, and nothing marks the last part. */
const PARTIAL_RESPONSE_BYTES = 512 * 1_024;

/** The wildcard in its old-style spelling. */
const WILDCARD = '*';
const NO_VERSIONS: ReadonlyMap<string, string> = new Map();

type OneName = (name: ResourceName, context: ResponseContext) => void;

/** One removal of a response. */
interface Removal {
  /** The source's text of the name. */
  readonly text: string;
  /** For each requested name: before the resources of the response are taken, and after. */
  readonly note: OneName;
  readonly remove: OneName;
}

/** Takes the names of one entry of a response, in portions. */
type ByName = Generator<
  'taking',
  { readonly taken: Taken; readonly context: ResponseContext },
  number
>;

export class DeltaStream implements SourceStream {
  readonly #contents: SourceContents;
  readonly #options: DeltaStreamOptions;
  /** Number of streams opened so far. */
  #streams = 0;
  /** Smaller once the server found a request too large. */
  #maxRequestBytes = MAX_REQUEST_BYTES;

  // State of the present stream; `handleOpened` resets it.
  #isStuck = false;
  /** Wildcards that the stream left, and whose members it had sent. */
  readonly #leftWildcards = new Set<string>();
  readonly #node: NodeSender;
  readonly #acks = new AckQueue<DeltaRequest>();
  /** Types whose first request is due, in order. */
  readonly #initialTypes = new Set<string>();
  /** Types that may not be requested yet. */
  readonly #heldTypes = new Set<string>();
  /** Types whose first request is due or sent. */
  readonly #begunTypes = new Set<string>();
  /** Types of responses, requested or not: the ACK of one is the first request of its type, if none came before. */
  readonly #acknowledgedTypes = new Set<string>();
  /** Types with a response that was not refused as a whole. Later removals of these types are not a resync. */
  readonly #answeredTypes = new Set<string>();
  /**
   * Until then removals may be a part of the response to the resume: a server may send them apart
   * from the changes.
   */
  #resyncUntilMs = -Infinity;
  readonly #answers: Answers;
  readonly #intake: ResourceIntake;
  readonly #fresh: FreshResume;
  readonly inPortions = new ResponseInPortions();
  #largestSentBytes = 0;

  // Changes of subscriptions. A change made while no stream is open is not kept here:
  // `handleOpened` subscribes all names anew.
  readonly #pending: PendingNames;
  #open = false;

  constructor(contents: SourceContents, options: DeltaStreamOptions) {
    this.#contents = contents;
    this.#options = options;
    this.#pending = new PendingNames(options.maxNamesPerRequest);
    this.#node = new NodeSender(options);
    this.#answers = new Answers(contents, options);
    this.#intake = new ResourceIntake(contents, this.#answers, options, (lapsed) => {
      this.#resend(lapsed);
    });
    this.#fresh = new FreshResume(contents);
  }

  /**
   * A wildcard was left and subscribed again. The contents forgot its members, and go-control-plane sends a member of a
   * wildcard again only on a new stream.
   */
  get mustRestart(): boolean {
    return this.#isStuck;
  }

  get typeCount(): number {
    return Math.max(this.#begunTypes.size, this.#acknowledgedTypes.size);
  }

  /** The contents have a new subscription. */
  handleSubscribed(subscription: SourceSubscription, nowMs: number): void {
    if (!this.#open) return;
    const { typeUrl } = subscription;
    if (isWildcard(subscription) && this.#leftWildcards.has(typeUrl)) this.#isStuck = true;
    if (!this.#begunTypes.has(typeUrl)) this.#beginType(typeUrl);
    else if (!this.#isDue(typeUrl)) this.#pending.subscribe(subscription);
    this.#answers.handleSubscribed(subscription, nowMs);
  }

  /** Its first request is still to be sent, with all names. */
  #isDue(typeUrl: string): boolean {
    return this.#initialTypes.has(typeUrl) || this.#heldTypes.has(typeUrl);
  }

  #mayRequest(typeUrl: string): boolean {
    return this.#options.mayRequest?.(typeUrl) ?? true;
  }

  #beginType(typeUrl: string): void {
    this.#begunTypes.add(typeUrl);
    (this.#mayRequest(typeUrl) ? this.#initialTypes : this.#heldTypes).add(typeUrl);
  }

  handleReleased(typeUrl: string): void {
    if (this.#heldTypes.delete(typeUrl)) this.#initialTypes.add(typeUrl);
  }

  handleUnsubscribed(subscription: SourceSubscription, nowMs: number): void {
    if (!this.#open) return;
    if (isWildcard(subscription) && subscription.membersLeft > 0)
      this.#leftWildcards.add(subscription.typeUrl);
    if (!this.#isDue(subscription.typeUrl)) this.#pending.unsubscribe(subscription);
    this.#answers.handleUnsubscribed(subscription, nowMs);
  }

  /**
   * Requests a name again, whatever its status. Held content stays, and no deadline moves. A name
   * that is not held is unsubscribed first, since go-control-plane responds only then. A held name
   * is not: if the server deleted it between the two requests, it would never send the removal.
   */
  handleAskedAgain(subscription: SourceSubscription): void {
    const { typeUrl, name, status } = subscription;
    if (status === 'requested' || this.#isDue(typeUrl)) return;
    const [held] = name.isGlob
      ? this.#contents.members(typeUrl, name)
      : [this.#contents.entry(typeUrl, name)];
    this.#pending.askAgain(subscription, !held);
  }

  handleOpened(): void {
    this.#open = true;
    this.#streams++;
    this.#largestSentBytes = 0;
    this.#node.restart();
    this.#acks.clear();
    this.#pending.clear();
    this.#initialTypes.clear();
    this.#heldTypes.clear();
    this.#begunTypes.clear();
    this.#acknowledgedTypes.clear();
    this.#answeredTypes.clear();
    this.#resyncUntilMs = -Infinity;
    this.#forgetWildcards();
    this.#answers.restart();
    this.#contents.restart();
    this.#contents.forgetParts();
    this.#fresh.restart();
    const inOrder = [...this.#contents.types()].sort((a, b) => typeRank(a) - typeRank(b));
    for (const typeUrl of inOrder) this.#beginType(typeUrl);
  }

  handleExhausted(): void {
    if (this.#largestSentBytes <= SMALL_REQUEST_BYTES) return;
    this.#maxRequestBytes = SMALL_REQUEST_BYTES;
  }

  #forgetWildcards(): void {
    this.#isStuck = false;
    this.#leftWildcards.clear();
  }

  handleEnded(): void {
    this.#open = false;
    this.#forgetWildcards();
    this.inPortions.drop();
    this.#answers.restart();
    this.#fresh.restart();
    this.#acks.clear();
    this.#initialTypes.clear();
    this.#heldTypes.clear();
    this.#pending.clear();
    this.#contents.stopTimers();
  }

  /** Nothing marks the last part of a collection. */
  readonly answersAtOnce = (): boolean => false;

  /**
   * Does the server owe a response on this stream? It does for any name whose version was not sent.
   */
  owesResponse(): boolean {
    for (const typeUrl of this.#contents.types()) {
      if (this.#heldTypes.has(typeUrl)) continue;
      for (const subscription of this.#contents.subscriptions(typeUrl)) {
        const isOwed = subscription.status === 'requested';
        if (isOwed && !this.#answers.isResumed(subscription)) return true;
      }
    }
    return false;
  }

  /** The server sent nothing, but is alive: all versions it was sent are current. */
  handleQuietResume(nowMs: number): void {
    this.#answers.handleQuiet(nowMs);
  }

  /** Is there a request to write? Changes are merged until it is polled. */
  get hasRequest(): boolean {
    return this.#acks.size + this.#initialTypes.size > 0 || !this.#pending.isEmpty;
  }

  get ackBytes(): number {
    return this.#acks.bytes;
  }

  /** Of the changes, the first request of each type goes first. */
  pollRequest(nowMs: number): StreamRequest | undefined {
    const change = (): DeltaRequest | undefined => this.#nameRequest(nowMs);
    const request = this.#acks.next(nowMs, change, (ack) => ack);
    if (!request) return undefined;
    const { typeUrl } = request;
    const node = this.#node.nodeFor(typeUrl);
    const bytes = encodeDeltaRequest(node ? { ...request, node } : request);
    this.#largestSentBytes = Math.max(this.#largestSentBytes, bytes.length);
    return { typeUrl, bytes };
  }

  handleMessage(bytes: Uint8Array, times: ResponseTimes): Decoded<ReceivedResponse> | undefined {
    if (bytes.length > DECODED_AT_ONCE_BYTES) {
      return this.inPortions.begin(this.#read(bytes, times));
    }
    const decoded = readable(decodeDeltaResponse(bytes, this.#options.maxResourcesPerResponse));
    return decoded.ok ? this.handleResponse(decoded.message, bytes.length, times) : decoded;
  }

  *#read(bytes: Uint8Array, times: ResponseTimes): Reading {
    const { maxResourcesPerResponse } = this.#options;
    const decoded = readable(yield* decodingDeltaResponse(bytes, maxResourcesPerResponse));
    return decoded.ok ? yield* this.#take(decoded.message, bytes.length, times) : decoded;
  }

  /** @param bytes size of the response; a large one may be a part */
  handleResponse(
    response: DeltaResponse,
    bytes: number,
    times: ResponseTimes,
  ): Decoded<ReceivedResponse> | undefined {
    return this.inPortions.begin(this.#take(response, bytes, times));
  }

  *#take(response: DeltaResponse, bytes: number, { nowMs, arrivedMs }: ResponseTimes): Reading {
    const { typeUrl, resources, errors } = response;
    const isLarge = bytes >= PARTIAL_RESPONSE_BYTES;
    const { portionBytes } = this.#options;
    const entries = this.#intake.entriesIn(response, portionBytes / ENTRY_COST_BYTES);
    const portions = new Portions(portionBytes, bytes, entries);
    // Decoding was the first portion.
    if (portions.areSeveral) nowMs = yield 'taking';
    const duplicates = new DuplicateSearch(namesOf(response));
    while (!duplicates.continue(portions.areSeveral)) nowMs = yield 'taking';
    if (duplicates.refusals.length > 0)
      return this.#finish(response, 0, duplicates.refusals, nowMs);
    // The last comparison was a portion of its own.
    if (portions.areSeveral) nowMs = yield 'taking';
    const isResync = !this.#answeredTypes.has(typeUrl) || arrivedMs < this.#resyncUntilMs;
    // After each portion but the last, more members follow.
    const partial = isLarge || portions.areSeveral;
    let context: ResponseContext = { typeUrl, nowMs, arrivedMs, isResync, partial };
    const refused: Refusal[] = [];
    let { entriesAnswered } = this.#contents;
    let accepted = 0;
    if (this.#contents.hasVariants)
      for (const { text, note } of this.#removalsIn(response))
        ({ context } = yield* this.#forEach(text, portions, context, note));
    for (const resource of resources) {
      if (portions.isFull(resource.body?.length ?? 0)) {
        this.#noteArrival(entriesAnswered, context);
        ({ entriesAnswered } = this.#contents);
        context = { ...context, nowMs: yield 'taking' };
      }
      let taken: Taken;
      if (this.#contents.hasVariants) {
        ({ taken, context } = yield* this.#takeVariant(resource, portions, context));
      } else taken = this.#intake.take(resource, context);
      this.#noteNamed(typeUrl, taken);
      if (taken.reason === undefined) accepted++;
      else refused.push({ name: resource.name, reason: taken.reason });
    }
    this.#noteArrival(entriesAnswered, context);
    const explained = new Set<string>();
    for (const { name: text, status } of errors) {
      if (isDataError(status)) explained.add(text);
      const remove: OneName = (name, at) => {
        this.#intake.remove(name, at, status);
      };
      const named = yield* this.#forEach(text, portions, context, remove);
      ({ context } = named);
      this.#noteNamed(typeUrl, named.taken);
    }
    for (const { text, remove } of this.#removalsIn(response)) {
      // The removal repeats a resource error, for clients without TP3.
      if (explained.has(text)) continue;
      const named = yield* this.#forEach(text, portions, context, remove);
      ({ context } = named);
      const { reason } = named.taken;
      if (reason !== undefined) refused.push({ name: text, reason });
    }
    ({ nowMs } = context);
    this.#answeredTypes.add(typeUrl);
    this.#answers.handleResponse(typeUrl, isLarge, nowMs);
    this.#fresh.handleResponse(typeUrl, nowMs);
    if (!isLarge) this.#settleWildcard(response, nowMs);
    return this.#finish(response, accepted, refused, context.nowMs);
  }

  /** Takes a resource for each requested name that it is for: a variant (TP2) may be for many sets of parameters. */
  *#takeVariant(resource: WireResource, portions: Portions, context: ResponseContext): ByName {
    const variant = this.#intake.read(resource, context);
    if ('reason' in variant) return { taken: variant, context };
    const names: ResourceName[] = [];
    let reason: string | undefined;
    for (const name of this.#intake.namesFor(variant)) {
      if (portions.isFull(resource.constraints?.length ?? 0))
        context = { ...context, nowMs: yield 'taking' };
      const taken = this.#intake.takeVariant(variant, name, names.at(-1), context);
      if (taken) names.push(name);
      reason ??= taken?.reason;
    }
    return { taken: { name: variant.name, names, reason }, context };
  }

  /** Does something for each requested name, with and without parameters, that a source calls by this text. */
  *#forEach(text: string, portions: Portions, context: ResponseContext, act: OneName): ByName {
    const named = this.#intake.named(text, context);
    const isFull = portions.isFull(text.length);
    if (isFull) context = { ...context, nowMs: yield 'taking' };
    if ('reason' in named) return { taken: named, context };
    for (const [at, name] of named.names.entries()) {
      if (at > 0 && portions.isFull(0)) context = { ...context, nowMs: yield 'taking' };
      act(name, context);
    }
    return { taken: named, context };
  }

  *#removalsIn({ removed, removedVariants = [] }: DeltaResponse): Iterable<Removal> {
    const ofVariant = (variant: string | undefined): Pick<Removal, 'note' | 'remove'> => ({
      note: (name, at) => {
        this.#intake.noteRemoval(name, variant, at);
      },
      remove: (name, at) => {
        this.#intake.removeVariant(name, variant, at);
      },
    });
    const plain = ofVariant('');
    for (const text of removed) yield { text, ...plain };
    for (const { name: text, constraints } of removedVariants)
      yield { text, ...ofVariant(variantText(constraints)) };
  }

  #noteNamed(typeUrl: string, { name, names }: Taken): void {
    if (names) for (const one of names) this.#fresh.handleNamed(typeUrl, one);
    else if (name) this.#fresh.handleNamed(typeUrl, name);
  }

  /** @param entriesAnswered before the resources of the response, or of its portion */
  #noteArrival(entriesAnswered: number, { typeUrl, nowMs }: ResponseContext): void {
    if (this.#contents.entriesAnswered > entriesAnswered)
      this.#contents.noteArrival(typeUrl, nowMs);
  }

  #finish(
    response: DeltaResponse,
    accepted: number,
    refused: readonly Refusal[],
    nowMs: number,
  ): Decoded<ReceivedResponse> {
    this.#acknowledge(response, refused, nowMs);
    const { typeUrl, errors } = response;
    return { ok: true, message: { typeUrl, outcome: { accepted, refused }, errors } };
  }

  /**
   * The delta protocol cannot report an empty wildcard. A response of the type without members of
   * the wildcard does.
   */
  #settleWildcard({ typeUrl, resources, removed, errors }: DeltaResponse, nowMs: number): void {
    const { oldStyle } = this.#options;
    if (!oldStyle || errors.length > 0 || removed.some(isXdstp)) return;
    const wildcard = this.#contents.subscription(typeUrl, oldStyleName(oldStyle.scope, WILDCARD));
    if (wildcard?.status !== 'requested' && wildcard?.status !== 'timed_out') return;
    // A response with xdstp names or with names that are subscribed singly does not answer the
    // wildcard.
    const isAsked = (text: string): boolean =>
      this.#contents
        .asVariants(oldStyleName(oldStyle.scope, text))
        .some((name) => this.#contents.subscription(typeUrl, name) !== undefined);
    if (resources.some(({ name }) => isXdstp(name) || isAsked(name))) return;
    // A removal may answer an earlier subscription that has since been unsubscribed.
    if (removed.length > 0) this.#answers.handleMember(wildcard, 'shared', nowMs);
    else this.#answers.handleEmpty(wildcard, nowMs);
  }

  /** A name or glob whose content expired here, but not at the server. */
  #resend(subscription: SourceSubscription): void {
    if (subscription.name.isGlob) this.handleAskedAgain(subscription);
    else {
      this.#pending.unsubscribe(subscription);
      this.#pending.subscribe(subscription);
    }
  }

  #acknowledge(response: DeltaResponse, refused: readonly Refusal[], nowMs: number): void {
    this.#acknowledgedTypes.add(response.typeUrl);
    const ack = {
      node: undefined,
      typeUrl: response.typeUrl,
      subscribe: [],
      unsubscribe: [],
      initialVersions: NO_VERSIONS,
      responseNonce: response.nonce,
      errorDetail: nackDetail(refused),
    };
    this.#acks.push(ack, nowMs);
  }

  #initialRequest(nowMs: number): DeltaRequest | undefined {
    for (;;) {
      const [typeUrl] = this.#initialTypes;
      if (typeUrl === undefined) return undefined;
      this.#initialTypes.delete(typeUrl);
      this.#pending.forget(typeUrl);
      const room = new RequestRoom(this.#maxRequestBytes);
      const { first: subscriptions, later } = this.#split(typeUrl, room);
      for (const one of later) this.#pending.subscribe(one);
      if (subscriptions.length === 0) {
        this.#begunTypes.delete(typeUrl);
        continue;
      }
      this.#answers.handleRequested(subscriptions, nowMs);
      const versions =
        this.#options.resume === 'trusted' ? this.#heldVersions(typeUrl, room) : null;
      if (!versions) {
        this.#fresh.handleRequested(typeUrl, new Set(later));
        this.#expectResync(nowMs);
      }
      const initialVersions = versions
        ? this.#resumeVersions(typeUrl, versions, subscriptions, nowMs)
        : NO_VERSIONS;
      const asked = subscriptions.map(({ name }) => name.key);
      // The first form of a wildcard in the protocol, which every server understands: no names. But only in the
      // first request of a type (seed 91253).
      const isFirst = !this.#acknowledgedTypes.has(typeUrl);
      const isWildcardAlone =
        isFirst && subscriptions.length === 1 && subscriptions.every(isWildcard);
      return requestFor(typeUrl, isWildcardAlone ? [] : asked, [], initialVersions);
    }
  }

  /**
   * @returns the subscriptions of the first request, and the others, for further ones. New names can wait for those;
   *   globs and held names cannot, since the first request has their versions.
   */
  #split(typeUrl: string, room: RequestRoom) {
    const all = [...this.#contents.subscriptions(typeUrl)];
    const isHeld = ({ name }: SourceSubscription): boolean =>
      this.#contents.entry(typeUrl, name) !== undefined;
    const singles = all.filter(isSingle);
    // Only a glob that is requested at once can be judged by the first answer (`FreshResume`).
    const known = [...all.filter(({ name }) => name.isGlob), ...singles.filter(isHeld)];
    const inOrder = [...known, ...singles.filter((one) => !isHeld(one))];
    const most = known.length + this.#options.maxNamesPerRequest;
    const end = inOrder.findIndex((one, at) => {
      return at >= most || !room.take(one.name.key, '', at === 0);
    });
    if (end < 0) return { first: all, later: [] };
    return { first: inOrder.slice(0, end), later: inOrder.slice(end) };
  }

  /**
   * @returns null: the versions do not fit into the request, or some of them are of variants (TP2), and `initial_resource_versions`
   *   has one version for each name. A part of the versions is of no use: a server does not report that it deleted a member whose
   *   version it does not know.
   */
  #heldVersions(typeUrl: string, room: RequestRoom): Map<string, string> | null {
    for (const { projection, upstreamVersion } of this.#contents.wholeEntries(typeUrl)) {
      if (projection.name.parameters !== undefined) return null;
      if (!room.take(wireText(projection.name.key), upstreamVersion)) return null;
    }
    // Apart, since a map of so many versions costs more than to find out that they do not fit.
    const versions = new Map<string, string>();
    for (const { projection, upstreamVersion } of this.#contents.wholeEntries(typeUrl)) {
      versions.set(wireText(projection.name.key), upstreamVersion);
    }
    return versions;
  }

  /**
   * The versions for `initial_resource_versions`: all but one per type. A server without news owes
   * no response, and its silence would look like a hung server; the omitted name forces a response.
   * That name must be a singleton outside of all subscribed globs. If it were a glob member that the
   * server has deleted, a server that does not know the client's version never reports the removal,
   * and the member would be held for ever. A singleton inside a glob becomes such a member when it is
   * unsubscribed (seed 105357).
   *
   * @param versions of all that is held
   * @returns the same map, without the omitted name
   */
  #resumeVersions(
    typeUrl: string,
    versions: Map<string, string>,
    subscriptions: readonly SourceSubscription[],
    nowMs: number,
  ): ReadonlyMap<string, string> {
    const known = new Set<SourceSubscription>();
    const singletons: SourceSubscription[] = [];
    for (const subscription of subscriptions) {
      const [member] = subscription.wasWhole
        ? this.#contents.members(typeUrl, subscription.name)
        : [];
      if (!versions.has(textOf(subscription)) && !member) continue;
      known.add(subscription);
      if (!this.#contents.globOf(typeUrl, subscription.name)) singletons.push(subscription);
    }
    // Omit another name on each stream: go-control-plane never answers for a name deleted
    // meanwhile.
    const provoking = singletons[this.#streams % singletons.length];
    if (provoking) known.delete(provoking);
    if (provoking) versions.delete(textOf(provoking));
    if (known.size === 0) return versions;
    this.#expectResync(nowMs);
    this.#answers.handleResumed(typeUrl, known, this.#resyncUntilMs);
    return versions;
  }

  /** The answers to what the stream begins with may come in several responses. */
  #expectResync(nowMs: number): void {
    if (this.#resyncUntilMs < nowMs) this.#resyncUntilMs = nowMs + this.#options.quietResumeMs;
  }

  #nameRequest(nowMs: number): DeltaRequest | undefined {
    return this.#initialRequest(nowMs) ?? this.#changeRequest(nowMs);
  }

  #changeRequest(nowMs: number): DeltaRequest | undefined {
    const names = this.#pending.take(this.#maxRequestBytes);
    if (!names) return undefined;
    this.#answers.handleRequested(names.added, nowMs);
    return requestFor(names.typeUrl, names.asked, names.left, NO_VERSIONS);
  }

  get isComparing(): boolean {
    return this.#fresh.isComparing;
  }

  nextDeadlineMs(): number | undefined {
    return soonestOf(
      this.#answers.nextDeadlineMs(),
      this.#fresh.nextDeadlineMs(),
      this.#acks.nextMs,
    );
  }

  handleTimer(nowMs: number): void {
    this.#acks.handleTimer(nowMs);
    this.#answers.handleTimer(nowMs, this.#answeredTypes.size > 0);
    this.#fresh.handleTimer(nowMs);
  }
}

const isWildcard = ({ name }: SourceSubscription): boolean =>
  name.isGlob && wireText(name.key) === WILDCARD;
const isSingle = ({ name }: SourceSubscription): boolean => !name.isGlob;
const textOf = ({ name }: { readonly name: ResourceName }): string => wireText(name.key);

/** @param subscribe keys of names; those with parameters become locators (TP2) */
function requestFor(
  typeUrl: string,
  subscribe: readonly string[],
  unsubscribe: readonly string[],
  initialVersions: ReadonlyMap<string, string>,
): DeltaRequest {
  const isVariant = (key: string): boolean => parametersOfKey(key) !== '';
  const hasVariants = subscribe.some(isVariant) || unsubscribe.some(isVariant);
  const isPlain = (key: string): boolean => !isVariant(key);
  return {
    node: undefined,
    typeUrl,
    subscribe: (hasVariants ? subscribe.filter(isPlain) : subscribe).map(wireText),
    unsubscribe: (hasVariants ? unsubscribe.filter(isPlain) : unsubscribe).map(wireText),
    ...(hasVariants && {
      locators: {
        subscribe: subscribe.filter(isVariant).map(locatorOfKey),
        unsubscribe: unsubscribe.filter(isVariant).map(locatorOfKey),
      },
    }),
    initialVersions,
    responseNonce: '',
    errorDetail: undefined,
  };
}

const locatorOfKey = (key: string): ParameterizedName => ({
  name: wireText(key),
  parameters: parametersOfKey(key),
});

/** Of variants, with their constraints: only together are they unique. */
function* namesOf(response: DeltaResponse): IterableIterator<string> {
  for (const { name, constraints } of response.resources)
    yield constraints ? variantId(name, constraints) : name;
  yield* response.removed;
  for (const { name, constraints } of response.removedVariants ?? [])
    yield variantId(name, constraints);
}

const variantId = (name: string, constraints: Uint8Array): string =>
  constraints.length === 0 ? name : `${name} (${Buffer.from(constraints).toString('base64')})`;
