/**
 * One client's state-of-the-world ADS stream (docs/GRPC.md): requests in, responses out. The
 * session interprets nonces and decides which type may send. It works on the same cache as delta
 * sessions. Pure core, no IO.
 *
 * push-order.ts orders types and removals. In addition, removed resources are dropped only after a
 * time in which nothing was sent or accepted, so that the client can request what replaces them.
 */
import type { Projection } from '../../../authorities/index.js';
import {
  STATUS_CODE,
  type ResourceError,
  type RpcStatus,
  type SotwRequest,
} from '../../../protos/discovery.js';
import { hasClientFeature } from '../../../protos/node-codec.js';
import { bareResourceOf, wrappedResourceOf } from '../../../protos/resource-field.js';
import { withParameters, type ResourceName } from '../../../protos/resource-name.js';
import { encodeSotwResponse } from '../../../protos/sotw-codec.js';
import { mayBeGlob } from '../../../protos/glob.js';
import { isPartialInSotw, isWholeInSotw, TYPE_URL } from '../../../protos/type-urls.js';
import { locatorText, NameReader, type ClientScope } from '../session/asked-name.js';
import { variantField, variantOf } from '../session/response-draft.js';
import { ClustersToCome, hasClusterMark, SOME_CLUSTERS } from '../session/clusters-to-come.js';
import { contentVersionOf } from '../session/holdings.js';
import type { EncodedResponse } from '../cache/shared-responses.js';
import { MessageLimit } from '../session/message-limit.js';
import { emptyAssignment } from './placeholder.js';
import { sotwTextsRefused, tooManyNames } from '../session/request-checks.js';
import { contentWaitUntil, laterOf, removalsWaitUntil } from '../session/push-order.js';
import { GrantedCache } from '../rights/granted-cache.js';
import { SetLosses } from './set-losses.js';
import { ToldWithoutRoom } from './refused-names.js';
import { SelectiveResponses } from './selective-responses.js';
import { countOf, type SotwContent } from './responses.js';
import { SotwSubscriptions } from './sotw-subscriptions.js';
import { SessionEvents } from '../session/session-events.js';
import {
  chunkBytesOf,
  type SessionEvent,
  type StreamSession,
  type StreamSessionOptions,
} from '../session/stream-session.js';
import { isUnanswerable, UNANSWERABLE } from '../session/unanswerable.js';
import { AllRequiredResponses } from './all-required-responses.js';

export interface SotwOptions extends StreamSessionOptions {
  /**
   * Milliseconds after which a cluster that no source has is replaced by one without endpoints;
   * undefined: never.
   */
  readonly placeholderAfterMs: number | undefined;
}

/**
 * Feature of clients that expect each resource in a `Resource` message (gRFC A27 and the xDS
 * protocol, "TTL").
 */
const WRAPPER_FEATURE = 'xds.config.resource-in-sotw';
/**
 * Removed resources are dropped only after this time without content sent or accepted: between two
 * types, the client first has to request what the earlier type names.
 */
const QUIET_MS = 1_000;
/** While the peer has used up its share of all buffered bytes, the session looks again after this time. Milliseconds. */
const ROOM_CHECK_MS = 100;
/** Each response looks at all collections: 9,000 take a turn of 130 ms. A count, for each type. */
const MAX_COLLECTIONS = 1_000;
/** Encoded names are kept up to this size per name, which is long for a name. Bytes. */
const MAX_KEPT_PER_NAME_BYTES = 256;

/** How a client acknowledges a response. */
export interface LastResponse {
  readonly nonce: string;
  readonly versionInfo: string;
}

interface SentResponse extends LastResponse {
  readonly typeUrl: string;
  readonly sender: SotwSubscriptions;
}

/** A request that is handled name by name. */
interface RequestUnderWay {
  readonly subscriptions: SotwSubscriptions;
  readonly remainingNames: Iterator<ResourceError | undefined, void>;
  readonly nameCountBefore: number;
  readonly encodedNames: Uint8Array | undefined;
}

export class SotwSession implements StreamSession<SotwRequest> {
  readonly #options: SotwOptions;
  readonly #cache: GrantedCache;
  readonly #byType = new Map<string, SotwSubscriptions>();
  /** In push order. */
  #allSubscriptions: SotwSubscriptions[] = [];
  readonly #clustersToCome: ClustersToCome;
  #wraps = false;
  /** The client requests names with parameters (TP2), and several of them may be for the same variant. */
  #hasVariants = false;
  #hasNode = false;
  /** Number of the last response's nonce. */
  #lastNumber = 0;
  #responses = 0;
  #lastResponse: SentResponse | undefined;
  #nameCount = 0;
  #firstRequestMs: number | undefined;
  /** When content was last sent or accepted. */
  #busyMs = -Infinity;
  #ready = false;
  #isPreparing = false;
  /** The rules for clients changed since the last response. */
  #areRightsNew = false;
  #waitUntilMs: number | undefined;
  readonly #losses: SetLosses;
  readonly #events = new SessionEvents();

  readonly #toldWithoutRoom = new ToldWithoutRoom();
  readonly #names: NameReader;
  readonly limit: MessageLimit;
  /** The last request, while names of it are left. */
  #request: RequestUnderWay | undefined;
  /** The time at which the present portion is handled. */
  #portionMs = 0;
  /** There may be something to send once it is handled. */
  #isReadyLater = false;

  constructor(options: SotwOptions) {
    this.#options = options;
    this.#clustersToCome = new ClustersToCome(options.ackDeadlineMs);
    const { maxMessageBytes } = options;
    const cache = (this.#cache = new GrantedCache(options.cache, options.judge, (refused) => {
      this.#events.add(refused);
    }));
    this.limit = new MessageLimit({
      cache,
      maxBytesOf: maxMessageBytes,
      isAsked: ({ typeUrl, name }) => this.#byType.get(typeUrl)?.covers(name) === true,
      onWithheld: (withheld) => {
        this.#events.add({ kind: 'withheld', ...withheld });
      },
    });
    this.#names = new NameReader(options.scopeOf, cache.nameOf.bind(cache));
    this.#losses = new SetLosses(cache);
  }

  get scope(): ClientScope | undefined {
    return this.#names.scope;
  }

  get allSubscriptions(): readonly SotwSubscriptions[] {
    return this.#allSubscriptions;
  }

  get nameCount(): number {
    return this.#nameCount;
  }

  /** The response that `poll` returned last; undefined: none. */
  get lastResponse(): LastResponse | undefined {
    return this.#lastResponse;
  }

  /** Is a subscription left that no source has answered, but that a source can still answer? */
  get awaitsAnswers(): boolean {
    return this.#allSubscriptions.some((subscriptions) => subscriptions.awaitsAnswers);
  }

  // ---- requests -----------------------------------------------------------------------------

  /**
   * Handles the ACK of the last response by comparing bytes: it repeats all names of the request before,
   * and changes nothing.
   *
   * @returns false for every other request, which has to be decoded
   */
  handleAck(bytes: Uint8Array, nowMs: number): boolean {
    const last = this.#lastResponse;
    const names = last?.sender.encodedNames;
    if (!last || !names) return false;
    if (!this.#cache.responses.isSotwAckOf(bytes, last, names, this.#hasNode)) return false;
    const { typeUrl, nonce, sender } = last;
    this.#handleNonce(sender, { typeUrl, responseNonce: nonce, errorDetail: undefined }, nowMs);
    if (this.#allSubscriptions.some((one) => one.hasWork)) this.#handleReady();
    return true;
  }

  handleRequest(request: SotwRequest, nowMs: number): RpcStatus | undefined {
    const { typeUrl, locators, node } = request;
    const names = locators ? [...request.names, ...locators.map(locatorText)] : request.names;
    const malformed = sotwTextsRefused(request);
    if (malformed) return { code: STATUS_CODE.invalidArgument, message: malformed };
    this.#firstRequestMs ??= nowMs;
    // TP2: "Clients that populate this field must be able to handle responses where resources are wrapped".
    if (locators) this.#hasVariants = this.#wraps = true;
    if (node && !this.#hasNode) {
      this.#hasNode = true;
      this.#wraps ||= hasClientFeature(node, WRAPPER_FEATURE);
    }
    const known = this.#byType.get(typeUrl);
    const types = this.#allSubscriptions.length;
    const full = known ? undefined : this.#options.nameQuota?.takeType(types, nowMs);
    if (full) return full;
    const subscriptions = known ?? this.#addSubscriptions(request, names, nowMs);
    subscriptions.encodedNames = undefined;
    this.#handleNonce(subscriptions, request, nowMs);
    // The names count whatever the nonce: requests of a stream are in order, so the last list is
    // the wanted one (GRPC 4).
    const remainingNames = subscriptions.ask(names, () => this.#portionMs);
    const nameCountBefore = subscriptions.nameCount;
    const { encodedNames } = request;
    this.#request = { subscriptions, remainingNames, nameCountBefore, encodedNames };
    return this.continueRequest(nowMs);
  }

  get isMidRequest(): boolean {
    return this.#request !== undefined;
  }

  continueRequest(nowMs: number): RpcStatus | undefined {
    this.#portionMs = nowMs;
    const request = this.#request;
    for (let left = this.#options.namesPerPortion ?? Infinity; request && left >= 0; left--) {
      const next = request.remainingNames.next();
      if (next.done === true) return this.#finishRequest(request);
      if (!next.value) continue;
      const { typeUrl } = request.subscriptions;
      const { name, status } = next.value;
      this.#events.add({ kind: 'refused_name', typeUrl, name, reason: status.message });
    }
    return undefined;
  }

  #finishRequest(request: RequestUnderWay): RpcStatus | undefined {
    const { subscriptions, nameCountBefore } = request;
    this.#request = undefined;
    subscriptions.encodedNames = this.#namesToKeep(request);
    if (this.scope?.kind === 'refused') return this.scope.status;
    this.#nameCount += subscriptions.nameCount - nameCountBefore;
    this.#options.nameQuota?.setCounts(this.#nameCount, this.#allSubscriptions.length);
    if (subscriptions.refused.endStatus) return subscriptions.refused.endStatus;
    if (Math.max(this.#nameCount, this.#allSubscriptions.length) > this.#options.maxNames) {
      return tooManyNames(this.#options.maxNames);
    }
    if (subscriptions.globs.size > MAX_COLLECTIONS) {
      const message = `more than ${MAX_COLLECTIONS} collections of one type: use the delta protocol`;
      return { code: STATUS_CODE.resourceExhausted, message };
    }
    const hasWork = this.#allSubscriptions.some((one) => one.hasWork);
    if (hasWork || this.#isReadyLater) this.#handleReady();
    return undefined;
  }

  /** Kept to recognize ACKs, up to a size per counted name: a request may repeat a name forever, or its names have no room. */
  #namesToKeep({ subscriptions, encodedNames }: RequestUnderWay): Uint8Array | undefined {
    const mostBytes = MAX_KEPT_PER_NAME_BYTES * subscriptions.nameCount;
    const isKept = encodedNames !== undefined && encodedNames.length <= mostBytes;
    return isKept ? this.#cache.responses.keepNames(encodedNames) : undefined;
  }

  #handleNonce(
    subscriptions: SotwSubscriptions,
    {
      typeUrl,
      responseNonce,
      errorDetail,
    }: Pick<SotwRequest, 'typeUrl' | 'responseNonce' | 'errorDetail'>,
    nowMs: number,
  ): void {
    if (responseNonce === '') return;
    const answered = subscriptions.handleNonce(responseNonce);
    if (answered === 'stale') this.#events.add({ kind: 'stale_nonce', typeUrl });
    if (typeof answered === 'string') return;
    this.#busyMs = nowMs;
    const { authority } = subscriptions;
    // A NACKed response is not sent again until something in it changes: the client would reject it
    // again.
    if (errorDetail) this.#events.add({ kind: 'nack', typeUrl, authority, detail: errorDetail });
    else this.#events.add({ kind: 'ack', typeUrl, authority, sinceMs: nowMs - answered });
  }

  #addSubscriptions(
    { typeUrl, versionInfo }: SotwRequest,
    names: readonly string[],
    nowMs: number,
  ): SotwSubscriptions {
    const { placeholderAfterMs } = this.#options;
    // Outside of the closures below, which live as long as the stream: they would keep all names.
    const isWhole = isWholeFor(typeUrl, names);
    const cache = this.#cache;
    const isAssignment = typeUrl === TYPE_URL.clusterLoadAssignment;
    const told = {
      isResumed: versionInfo !== '' && hasCollection(names),
      hasMark: isAssignment && hasClusterMark(versionInfo),
    };
    if (!this.#options.isOfOneType) this.#clustersToCome.handleFirst(typeUrl, told, nowMs);
    const subscriptions = new SotwSubscriptions({
      typeUrl,
      cache,
      nowMs,
      onReady: () => {
        this.#handleReady();
      },
      resumedVersion: isAssignment ? contentVersionOf(versionInfo) : versionInfo,
      names: this.#names,
      limit: this.limit,
      nameQuota: this.#options.nameQuota,
      toldWithoutRoom: this.#toldWithoutRoom,
      responsesOf: (of) =>
        isWhole
          ? new AllRequiredResponses(of, placeholderAfterMs)
          : new SelectiveResponses(of, (name) => this.#placeholderOf(typeUrl, name)),
    });
    this.#byType.set(typeUrl, subscriptions);
    const before = this.#allSubscriptions.findLastIndex(({ rank }) => rank <= subscriptions.rank);
    this.#allSubscriptions.splice(before + 1, 0, subscriptions);
    return subscriptions;
  }

  #placeholderOf(typeUrl: string, name: ResourceName): Projection | undefined {
    if (typeUrl !== TYPE_URL.clusterLoadAssignment) return undefined;
    const clusters = allRequiredOf(this.#byType.get(TYPE_URL.cluster));
    return clusters?.isEmptyAssignment(name.key) ? emptyAssignment(name) : undefined;
  }

  handleRightsChanged(): void {
    this.#areRightsNew = true;
    this.#handleReady();
  }

  #handleReady(): void {
    this.#isReadyLater = this.isMidRequest;
    if (this.#ready || this.isMidRequest) return;
    this.#ready = true;
    this.#options.onReady();
  }

  endStatus(nowMs: number): RpcStatus | undefined {
    const { unanswerableAfterMs } = this.#options;
    const silentSinceMs = this.#responses > 0 ? undefined : this.#firstRequestMs;
    if (isUnanswerable(silentSinceMs, unanswerableAfterMs, nowMs, this.#allSubscriptions))
      return UNANSWERABLE;
    return this.quotaEndStatus(nowMs);
  }

  /** @returns the status that ends the stream, once the quota has room for names that it refused */
  quotaEndStatus(nowMs: number): RpcStatus | undefined {
    return this.#options.nameQuota?.endStatus(nowMs);
  }

  close(nowMs: number): void {
    this.#request = undefined;
    this.#options.nameQuota?.setCounts(0, 0);
    for (const subscriptions of this.#allSubscriptions) subscriptions.close(nowMs);
    this.#allSubscriptions = [];
    this.#byType.clear();
  }

  // ---- responses ----------------------------------------------------------------------------

  takeResponse(nowMs: number): EncodedResponse | undefined {
    this.#ready = false;
    this.#isPreparing = false;
    this.#waitUntilMs = undefined;
    // A set between two portions would lack the names that are left.
    if (this.isMidRequest) return undefined;
    // Before any response: a revoked right must not bring content any more.
    if (this.#areRightsNew) {
      this.#areRightsNew = false;
      for (const subscriptions of this.#allSubscriptions) subscriptions.handleRightsChanged(nowMs);
      // This poll serves what they reported.
      this.#ready = false;
    }
    return this.#pollAdditions(nowMs) ?? this.#pollRemovals(nowMs);
  }

  /** A response is being prepared in portions: it comes in one of the next polls. */
  get isPreparing(): boolean {
    return this.#isPreparing;
  }

  /** The caller does not poll yet: it is told of the next change, as after a poll. */
  putOff(): void {
    this.#ready = false;
  }

  get nextDeadlineMs(): number | undefined {
    return this.#waitUntilMs;
  }

  takeEvents(): readonly SessionEvent[] {
    return this.#events.take();
  }

  #wait(untilMs: number | undefined): void {
    if (untilMs === undefined || untilMs === Infinity) return;
    this.#waitUntilMs = Math.min(this.#waitUntilMs ?? Infinity, untilMs);
  }

  /** @returns false if the session has to be polled again before it can take the response. */
  #prepare({ responses }: SotwSubscriptions): boolean {
    const isPrepared = responses.prepare(this.#wraps, this.#options.membersPerPortion ?? Infinity);
    if (!isPrepared) {
      this.#isPreparing = true;
      this.#handleReady();
    }
    return isPrepared;
  }

  #pollAdditions(nowMs: number): EncodedResponse | undefined {
    this.#holdFirstSets(nowMs);
    for (const subscriptions of this.#allSubscriptions) {
      this.#wait(allRequiredOf(subscriptions)?.ripen(nowMs));
      if (!subscriptions.hasAdditions) {
        subscriptions.waitingSinceMs = undefined;
        continue;
      }
      const untilMs =
        this.#roomUntilMs(subscriptions, nowMs) ??
        subscriptions.blockedUntilMs(nowMs) ??
        laterOf(
          this.#additionsWaitUntil(subscriptions, nowMs),
          subscriptions.unacknowledged.waitUntilMs(nowMs),
        );
      if (untilMs !== undefined) {
        this.#wait(untilMs);
        continue;
      }
      if (!this.#prepare(subscriptions)) continue;
      subscriptions.waitingSinceMs = undefined;
      const response =
        this.#take(subscriptions, false, nowMs) ?? this.#takeRipe(subscriptions, nowMs);
      if (response) return response;
    }
    return undefined;
  }

  /** @returns until when a set that cannot be split waits, because the peer has used up its share of all buffered bytes; undefined: send now. */
  #roomUntilMs({ responses }: SotwSubscriptions, nowMs: number): number | undefined {
    const isBufferFull = this.#options.isBufferFull?.() === true;
    return responses.isWhole && isBufferFull ? nowMs + ROOM_CHECK_MS : undefined;
  }

  /** `take` processed names that may need a placeholder: later, or now (seed 67443). */
  #takeRipe(subscriptions: SotwSubscriptions, nowMs: number): EncodedResponse | undefined {
    this.#wait(allRequiredOf(subscriptions)?.ripen(nowMs));
    return subscriptions.hasAdditions ? this.#take(subscriptions, false, nowMs) : undefined;
  }

  /** Holds back first sets that would delete too much from a resuming client. */
  #holdFirstSets(nowMs: number): void {
    const sets = this.#allSubscriptions.flatMap((one) => allRequiredOf(one) ?? []);
    const { againMs, guarded } = this.#losses.hold(sets, nowMs);
    this.#wait(againMs);
    for (const held of guarded) this.#events.add({ kind: 'held_back', ...held });
  }

  #pollRemovals(nowMs: number): EncodedResponse | undefined {
    for (const subscriptions of this.#allSubscriptions.toReversed()) {
      if (!subscriptions.hasRemovals) {
        subscriptions.removalsSinceMs = undefined;
        continue;
      }
      const untilMs =
        this.#roomUntilMs(subscriptions, nowMs) ??
        subscriptions.blockedUntilMs(nowMs, true) ??
        laterOf(
          this.#removalsWaitUntil(subscriptions, nowMs),
          subscriptions.unacknowledged.waitUntilMs(nowMs),
        );
      if (untilMs !== undefined) {
        this.#wait(untilMs);
        continue;
      }
      if (!this.#prepare(subscriptions)) continue;
      subscriptions.removalsSinceMs = undefined;
      const response = this.#take(subscriptions, true, nowMs);
      if (response) return response;
    }
    return undefined;
  }

  /** @returns until when content of this type has to wait; undefined: send now. */
  #additionsWaitUntil(subscriptions: SotwSubscriptions, nowMs: number): number | undefined {
    const clusters = this.#byType.get(TYPE_URL.cluster);
    const endpoints = this.#byType.get(TYPE_URL.clusterLoadAssignment);
    return contentWaitUntil({
      subscriptions,
      clusters,
      endpoints,
      clustersAwaitedUntilMs: this.#clustersToCome.untilMs,
      nowMs,
      ackDeadlineMs: this.#options.ackDeadlineMs,
    });
  }

  #removalsWaitUntil(subscriptions: SotwSubscriptions, nowMs: number): number | undefined {
    const { ackDeadlineMs } = this.#options;
    const allSubscriptions = this.#allSubscriptions;
    const deadlineMs = (subscriptions.removalsSinceMs ??= nowMs) + ackDeadlineMs;
    const untilMs = removalsWaitUntil({ subscriptions, allSubscriptions, nowMs, ackDeadlineMs });
    const quietMs = Math.min(this.#busyMs + QUIET_MS, deadlineMs);
    if (untilMs !== undefined) return Math.max(untilMs, quietMs);
    // The set without the removed resources also has what changed, and that may have to wait (seed 119730).
    const contentMs = subscriptions.hasAdditions
      ? this.#additionsWaitUntil(subscriptions, nowMs)
      : undefined;
    if (contentMs !== undefined) return contentMs;
    return nowMs < quietMs ? quietMs : undefined;
  }

  #take(
    subscriptions: SotwSubscriptions,
    release: boolean,
    nowMs: number,
  ): EncodedResponse | undefined {
    const greet = this.#responses === 0;
    const taken = subscriptions.responses.take({
      maxBytes: chunkBytesOf(this.#options),
      greet,
      release,
    });
    if (!taken) return undefined;
    const answer = this.#withMark(subscriptions, taken);
    const encoded = this.#encode(subscriptions, answer);
    if (!encoded) return undefined;
    const { nonce, number } = encoded;
    this.#lastNumber = number;
    this.#responses++;
    const { typeUrl } = subscriptions;
    const { versionInfo } = answer;
    this.#lastResponse = { typeUrl, versionInfo, nonce, sender: subscriptions };
    subscriptions.handleSent(nonce, answer, nowMs);
    if (countOf(answer) > 0 && !release) this.#busyMs = nowMs;
    this.#noteClusters(answer);
    return encoded;
  }

  /** Marks the version of endpoints: it tells the gateway to which the client returns that the client has clusters. */
  #withMark({ typeUrl }: SotwSubscriptions, answer: SotwContent): SotwContent {
    if (typeUrl !== TYPE_URL.clusterLoadAssignment || !this.#clustersToCome.areThere) return answer;
    return { ...answer, versionInfo: answer.versionInfo + SOME_CLUSTERS };
  }

  /** The endpoints of sent clusters have to follow (ENVOY 5). */
  #noteClusters({ clusters }: SotwContent): void {
    const endpoints = this.#byType.get(TYPE_URL.clusterLoadAssignment);
    for (const { edsKey } of clusters) {
      if (edsKey !== undefined) endpoints?.handleClusterSent(edsKey);
    }
  }

  /** @returns undefined for a set of listeners or clusters that is too large for the client. */
  #encode(subscriptions: SotwSubscriptions, answer: SotwContent): EncodedResponse | undefined {
    const { typeUrl, authority } = subscriptions;
    const { versionInfo, errors, removed } = answer;
    const segments = answer.segments.map((segment) => segment.encoded(this.#wraps));
    const all = answer.resources;
    const fields = this.#hasVariants
      ? distinctOf(all, subscriptions).map(variantField)
      : all.map(({ field }) => field);
    const kind = `${this.#wraps ? 'wrapped' : 'bare'} ${versionInfo}`;
    const encoded = this.#cache.responses.encode(
      { kind, parts: errors.length === 0 ? [...segments, ...fields] : [] },
      this.#lastNumber,
      (nonce) => {
        const own = fields.flatMap((field) =>
          this.#wraps ? wrappedResourceOf(field) : bareResourceOf(field),
        );
        const resources = [...segments, ...own];
        return encodeSotwResponse({ typeUrl, nonce, versionInfo, resources, errors });
      },
    );
    const { size } = encoded;
    const whole = allRequiredOf(subscriptions);
    if (whole && !this.limit.admitSet(typeUrl, size)) {
      whole.handleWithheld(answer);
      return undefined;
    }
    const counts = { resources: countOf(answer), bytes: size };
    if (whole && size > this.#options.chunkBytes) {
      this.#events.add({ kind: 'oversize', typeUrl, ...counts });
    }
    const told = { removed, errors: errors.length };
    this.#events.add({ kind: 'answer', typeUrl, authority, ...counts, ...told });
    return encoded;
  }
}

/** A client rejects a response that has one resource twice, also if it requested it with several sets of parameters (TP2). */
function distinctOf(
  resources: readonly Projection[],
  subscriptions: SotwSubscriptions,
): readonly Projection[] {
  const seen = new Set<string>();
  return resources.filter((projection) => {
    const { name, constraints } = projection;
    const isPlain = name.parameters === undefined;
    if (!isPlain && !constraints && subscriptions.coveringOf(withParameters(name, '')))
      return false;
    const variant = variantOf(projection);
    const isNew = !seen.has(variant);
    seen.add(variant);
    return isNew;
  });
}

/** A client of a type that the gateway does not know may delete what a response of its collection leaves out. */
function isWholeFor(typeUrl: string, names: readonly string[]): boolean {
  if (isWholeInSotw(typeUrl)) return true;
  return !isPartialInSotw(typeUrl) && hasCollection(names);
}

const hasCollection = (names: readonly string[]): boolean =>
  names.length === 0 || names.some(mayBeGlob);

function allRequiredOf(subscriptions: SotwSubscriptions | undefined) {
  const responses = subscriptions?.responses;
  return responses instanceof AllRequiredResponses ? responses : undefined;
}
