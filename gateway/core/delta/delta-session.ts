/**
 * One client's delta ADS stream: requests in, responses out. The session interprets requests and
 * decides which subscriptions may send; push-order.ts orders types and removals within each
 * authority. Pure core, no IO: the stream writes what `poll` returns while the client reads.
 */
import { encodeDeltaResponse } from '../../../protos/delta-codec.js';
import { STATUS_CODE, type DeltaRequest, type RpcStatus } from '../../../protos/discovery.js';
import { noSet, ownSet } from '../../../protos/empty-collections.js';
import { isListName } from '../../../protos/list-collection.js';
import { authorityOfKey, type ResourceName } from '../../../protos/resource-name.js';
import { TYPE_URL, typeRank } from '../../../protos/type-urls.js';
import type { ResponseContent } from '../session/response-draft.js';
import { locatorText, NameReader, spokenName } from '../session/asked-name.js';
import type { ClientScope } from '../session/asked-name.js';
import { Asides, type Aside } from './asides.js';
import { ClientClaims, type ClaimingSubscriptions, type ClaimedName } from './claims.js';
import type { EncodedResponse } from '../cache/shared-responses.js';
import { contentDigest } from '../cache/content-digest.js';
import { isPureAck, textsRefused, tooManyNames } from '../session/request-checks.js';
import { DeltaSubscriptions } from './delta-subscriptions.js';
import { NackRetries } from './nack-retries.js';
import { isLackOfRoom } from './refusals.js';
import { ResumedVersions } from './resumed-versions.js';
import type { SubscriptionsOwner } from './subscriptions-owner.js';
import { MessageLimit } from '../session/message-limit.js';
import type { ClustersBehind } from './subscription.js';
import { SubscriptionTable } from './subscription-table.js';
import { ClustersToCome, SOME_CLUSTERS } from '../session/clusters-to-come.js';
import type { Held } from '../session/holdings.js';
import { contentWaitUntil, laterOf, removalsWaitUntil } from '../session/push-order.js';
import { GrantedCache, type RefusedNameEvent } from '../rights/granted-cache.js';
import type { ClientPast } from '../rights/past-collections.js';
import { SessionEvents } from '../session/session-events.js';
import {
  chunkBytesOf,
  type SessionEvent,
  type StreamSession,
  type StreamSessionOptions,
} from '../session/stream-session.js';
import { isUnanswerable, UNANSWERABLE } from '../session/unanswerable.js';
import type { NamePayer } from '../quotas/stream-names.js';

export interface SessionOptions extends StreamSessionOptions {
  /**
   * Send nothing for routes and extension configs that do not exist, instead of "removed"
   * (ENVOY 4).
   */
  readonly silentAbsentRoutes: boolean;
  /** What the client's earlier streams were sent; default: unknown. */
  readonly past?: (() => ClientPast | undefined) | undefined;
}

/** From a client's first request for clusters on, its endpoints wait at most this long for them. */
const RESUME_WAIT_MS = 2_000;
const MAX_REMOVALS_PER_RESPONSE = 2_000;
const NO_AUTHORITY = '(none)';
const ASSIGNMENT_RANK = typeRank(TYPE_URL.clusterLoadAssignment);
const SILENT_TYPES: ReadonlySet<string> = new Set([
  TYPE_URL.routeConfiguration,
  TYPE_URL.typedExtensionConfig,
]);

/** The locators of a request, among its names. */
const withLocators = (
  { subscribe, unsubscribe }: DeltaRequest,
  locators: NonNullable<DeltaRequest['locators']>,
): Pick<DeltaRequest, 'subscribe' | 'unsubscribe'> => ({
  subscribe: [...locators.subscribe.map(locatorText), ...subscribe],
  unsubscribe: [...locators.unsubscribe.map(locatorText), ...unsubscribe],
});

/** The last response of a stream. */
interface SentResponse extends Pick<EncodedResponse, 'number' | 'nonce'> {
  /** Undefined: it belongs to no subscriptions. */
  readonly sender: DeltaSubscriptions | undefined;
}

export class DeltaSession implements SubscriptionsOwner, StreamSession<DeltaRequest> {
  readonly #options: SessionOptions;
  readonly #cache: GrantedCache;
  readonly #table = new SubscriptionTable();
  /** In push order. */
  readonly #allSubscriptions = this.#table.all;
  /** Undefined: the client claims nothing. */
  #claims: ClientClaims | undefined;
  readonly #asides = new Asides(this);
  /** Undefined: the client has rejected nothing (the usual case). */
  #retries: NackRetries | undefined;
  readonly #typesSeen = new Set<string>();
  readonly #clustersToCome: ClustersToCome;
  isResuming = false;
  /** Keys of the assignments of changed clusters, which a returning client was sent before it requested endpoints. */
  #changedClusters: Set<string> = noSet();
  #lastResponse: SentResponse | undefined;
  #nameCount = 0;
  #ready = false;
  /** Where the next poll goes on to look for something to send; undefined: at the start, since there was a change. */
  #nextLook: DeltaSubscriptions | undefined;
  /** The rules for clients changed since the last response. */
  #areRightsNew = false;
  #waitUntilMs: number | undefined;
  #responses = 0;
  #firstRequestMs: number | undefined;
  readonly #events = new SessionEvents();
  readonly #names: NameReader;
  readonly limit: MessageLimit;
  /** Handles one more portion of the last request with each step; undefined: all of it is handled. */
  #remainingNames: Iterator<void> | undefined;
  /** Names that the present portion may still handle. */
  #portionLeft = 0;
  /** The time at which the present portion is handled. */
  #portionMs = 0;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#clustersToCome = new ClustersToCome(options.ackDeadlineMs);
    const { maxMessageBytes } = options;
    const onDenied = (refused: RefusedNameEvent): void => {
      this.#events.add(refused);
    };
    const { judge, past } = options;
    const cache = (this.#cache = new GrantedCache(options.cache, judge, onDenied, past));
    this.limit = new MessageLimit({
      cache,
      maxBytesOf: maxMessageBytes,
      isAsked: ({ typeUrl, name }) => this.covers(typeUrl, name.key),
      onWithheld: (withheld) => {
        this.#events.add({ kind: 'withheld', ...withheld });
      },
    });
    this.#names = new NameReader(options.scopeOf, cache.nameOf.bind(cache));
  }

  get payer(): NamePayer | undefined {
    return this.#options.nameQuota;
  }

  /** Undefined until the client requests an old-style name. */
  get scope(): ClientScope | undefined {
    return this.#names.scope;
  }

  get allSubscriptions(): readonly DeltaSubscriptions[] {
    return this.#allSubscriptions;
  }

  get nameCount(): number {
    return this.#nameCount;
  }

  // ---- requests -----------------------------------------------------------------------------

  /**
   * Handles the ACK of the last response by comparing bytes: most requests are such ACKs.
   *
   * @returns false for every other request, which has to be decoded
   */
  handleAck(bytes: Uint8Array, nowMs: number): boolean {
    const last = this.#lastResponse;
    if (!last?.sender) return false;
    const { sender, nonce } = last;
    if (!this.#cache.responses.isAckOf(bytes, sender.typeUrl, nonce)) return false;
    const sentMs = sender.handleAcknowledged(nonce);
    if (sentMs === undefined) return false;
    this.#handleAcknowledged(sender.typeUrl, sender, { sentMs, nowMs }, undefined);
    if (this.#hasWork()) this.handleReady();
    return true;
  }

  #handleAcknowledged(
    typeUrl: string,
    sender: DeltaSubscriptions | undefined,
    { sentMs, nowMs }: { readonly sentMs: number; readonly nowMs: number },
    detail: RpcStatus | undefined,
  ): void {
    const authority = sender?.authority ?? NO_AUTHORITY;
    if (detail) this.#events.add({ kind: 'nack', typeUrl, authority, detail });
    else this.#events.add({ kind: 'ack', typeUrl, authority, sinceMs: nowMs - sentMs });
    if (sender && detail) (this.#retries ??= new NackRetries()).noteRejected(sender, nowMs);
    else if (sender) this.#retries?.noteAccepted(sender);
    // The next poll says when to retry.
    if (this.#retries) this.handleReady();
    if (sender?.isEmpty) this.#drop(sender);
  }

  /** @returns a status to end the stream with, or undefined. */
  handleRequest(request: DeltaRequest, nowMs: number): RpcStatus | undefined {
    const { typeUrl } = request;
    const malformed = textsRefused(request);
    if (malformed) return { code: STATUS_CODE.invalidArgument, message: malformed };
    this.#firstRequestMs ??= nowMs;
    this.#handleNonce(request, nowMs);
    if (isPureAck(request) && this.#typesSeen.has(typeUrl)) {
      if (this.#hasWork()) this.handleReady();
      return undefined;
    }
    const isFirst = !this.#typesSeen.has(typeUrl);
    const full = isFirst
      ? this.#options.nameQuota?.takeType(this.#typesSeen.size, nowMs)
      : undefined;
    if (full) return full;
    this.#typesSeen.add(typeUrl);
    if (this.#responses === 0) this.#asides.noteUnanswered(typeUrl);
    this.#remainingNames = this.#changeSubscriptions(request, isFirst);
    return this.continueRequest(nowMs);
  }

  get isMidRequest(): boolean {
    return this.#remainingNames !== undefined;
  }

  continueRequest(nowMs: number): RpcStatus | undefined {
    this.#portionMs = nowMs;
    this.#portionLeft = this.#options.namesPerPortion ?? Infinity;
    if (this.#remainingNames?.next().done === false) return undefined;
    this.#remainingNames = undefined;
    return this.scope?.kind === 'refused' ? this.scope.status : this.#finishRequest();
  }

  /** Stops after each portion of names, where `continueRequest` goes on. */
  *#changeSubscriptions(request: DeltaRequest, isFirst: boolean): IterableIterator<void> {
    const { typeUrl, locators } = request;
    const { subscribe, unsubscribe } = locators ? withLocators(request, locators) : request;
    // An empty first request is a wildcard, unless the stream named a resource of the type before.
    if (isFirst && subscribe.length === 0 && !locators) {
      this.#subscribe(typeUrl, '*', undefined);
    }
    for (const text of unsubscribe) {
      this.#unsubscribe(typeUrl, text);
      if (this.#portionLeft-- <= 0) yield;
    }
    const isOfOneType = this.#options.isOfOneType === true;
    const resumed = isFirst ? new ResumedVersions(request, isOfOneType) : undefined;
    if (resumed && !isOfOneType) {
      const { told } = resumed;
      this.isResuming ||= told.isResumed;
      this.#clustersToCome.handleFirst(typeUrl, told, this.#portionMs);
    }
    for (const text of subscribe) {
      this.#subscribe(typeUrl, text, resumed?.claimOf(spokenName(text)));
      if (this.#portionLeft-- <= 0) yield;
    }
    if (typeUrl === TYPE_URL.clusterLoadAssignment) {
      for (const edsKey of this.#changedClusters) this.handleClusterSent(edsKey, false);
      this.#changedClusters = noSet();
    }
    if (!resumed) return;
    const notes = resumed.noteMembers(this.#table, this.#names, {
      isPortionOver: () => this.#portionLeft-- <= 0,
      mostVersions: this.#options.maxNames - this.#owedCount,
    });
    const versions = (request.versionsLeftOut ?? 0) + (yield* notes);
    if (versions > 0) this.#events.add({ kind: 'versions_left_out', typeUrl, versions });
  }

  get #owedCount(): number {
    return this.#allSubscriptions.reduce((sum, { owedCount }) => sum + owedCount, 0);
  }

  /** @returns a status to end the stream with if the client exceeds its bounds. */
  #finishRequest(): RpcStatus | undefined {
    this.#nameCount = this.#allSubscriptions.reduce((sum, { nameCount }) => sum + nameCount, 0);
    this.#countNames();
    // A client that requests without reading, or claims names and leaves them, must not grow without bound.
    const counts = [
      this.#nameCount + this.#asides.refusedCount,
      this.#typesSeen.size,
      this.#owedCount,
      this.#allSubscriptions.length,
      this.#claims?.authorityCount ?? 0,
    ];
    if (Math.max(...counts) > this.#options.maxNames) {
      return tooManyNames(this.#options.maxNames);
    }
    this.handleReady();
    return undefined;
  }

  #countNames(): void {
    this.#options.nameQuota?.setCounts(
      this.#nameCount + this.#asides.refusedCount,
      this.#typesSeen.size,
    );
  }

  /** Is anything pending that an ACK could release? */
  #hasWork(): boolean {
    for (const subscriptions of this.#allSubscriptions) if (subscriptions.hasWork) return true;
    return this.#asides.hasErrors;
  }

  #handleNonce(request: DeltaRequest, nowMs: number): void {
    const { typeUrl, responseNonce, errorDetail } = request;
    if (responseNonce === '') return;
    let sentMs = this.#asides.handleAcknowledged(typeUrl, responseNonce);
    let sender: DeltaSubscriptions | undefined;
    for (const subscriptions of this.#allSubscriptions) {
      if (sentMs !== undefined) break;
      if (subscriptions.typeUrl !== typeUrl) continue;
      sentMs = subscriptions.handleAcknowledged(responseNonce);
      sender = subscriptions;
    }
    if (sentMs === undefined) {
      // A request with a stale nonce still changes subscriptions (xDS protocol).
      this.#events.add({ kind: 'stale_nonce', typeUrl });
      return;
    }
    this.#handleAcknowledged(typeUrl, sender, { sentMs, nowMs }, errorDetail);
  }

  #subscribe(typeUrl: string, text: string, claim: Held | undefined): void {
    const asked = this.#names.read(typeUrl, text);
    if (!asked.ok) {
      this.#refuse(typeUrl, text, asked.status);
      return;
    }
    const { name } = asked;
    const known = this.#table.find(typeUrl, name.authority);
    const isNew = known?.subscribed.has(name) !== true;
    const full = isNew
      ? (known?.refusalOf(name) ??
        this.#cache.variantRefusal(typeUrl, name) ??
        this.#roomRefusal(typeUrl, name))
      : undefined;
    if (full) this.#refuse(typeUrl, text, full);
    else {
      const subscriptions = this.#subscriptions(typeUrl, name.authority);
      if (isListName(typeUrl, name)) this.#table.handleList(subscriptions);
      subscriptions.subscribe(name, spokenName(text), claim);
    }
  }

  #roomRefusal(typeUrl: string, name: ResourceName): RpcStatus | undefined {
    const { nameQuota, cache } = this.#options;
    return nameQuota?.take(cache.isWatched(typeUrl, name), this.#portionMs);
  }

  #unsubscribe(typeUrl: string, text: string): void {
    const asked = this.#names.read(typeUrl, text);
    if (!asked.ok) return;
    const { name } = asked;
    const subscriptions = this.#table.find(typeUrl, name.authority);
    if (subscriptions?.subscribed.has(name) === true) this.#options.nameQuota?.leave(1);
    subscriptions?.unsubscribe(name, this.#portionMs);
    if (subscriptions?.isEmpty) this.#drop(subscriptions);
  }

  #drop(subscriptions: DeltaSubscriptions): void {
    this.#table.delete(subscriptions);
    this.#retries?.forget(subscriptions);
  }

  #refuse(typeUrl: string, text: string, status: RpcStatus): void {
    // The account reports a lack of room, in one line for all names.
    if (!isLackOfRoom(status)) {
      // The error takes memory until the client reads it, so it counts as a name. Without room the client gets none.
      if (this.#options.nameQuota?.take(true, this.#portionMs)) return;
      const name = spokenName(text);
      this.#events.add({ kind: 'refused_name', typeUrl, name, reason: status.message });
    }
    this.#asides.refuse(typeUrl, text, status);
  }

  #subscriptions(typeUrl: string, authority: string): DeltaSubscriptions {
    const known = this.#table.find(typeUrl, authority);
    if (known) return known;
    const silentAbsence = this.#options.silentAbsentRoutes && SILENT_TYPES.has(typeUrl);
    const cache = this.#cache;
    const nowMs = this.#portionMs;
    const options = { typeUrl, authority, cache, owner: this, nowMs, silentAbsence };
    return this.#table.add(new DeltaSubscriptions(options));
  }

  close(nowMs: number): void {
    this.#remainingNames = undefined;
    this.#options.nameQuota?.setCounts(0, 0);
    for (const subscriptions of this.#allSubscriptions) subscriptions.close(nowMs);
    this.#table.clear();
  }

  /**
   * Ends an unanswerable stream, and the stream of a client that missed dropped tombstones and has
   * to start over.
   */
  endStatus(nowMs: number): RpcStatus | undefined {
    const { unanswerableAfterMs } = this.#options;
    const silentSinceMs = this.#responses > 0 ? undefined : this.#firstRequestMs;
    if (isUnanswerable(silentSinceMs, unanswerableAfterMs, nowMs, this.#allSubscriptions))
      return UNANSWERABLE;
    if (!this.#allSubscriptions.some((subscriptions) => subscriptions.subscribed.hasMissedRemovals))
      return this.#options.nameQuota?.endStatus(nowMs);
    const message = 'the client did not read removals that the gateway has dropped: reconnect';
    return { code: STATUS_CODE.resourceExhausted, message };
  }

  // ---- for the subscriptions ----------------------------------------------------------------

  handleReady(): void {
    this.#nextLook = undefined;
    this.#askForTurn();
  }

  #askForTurn(): void {
    if (this.#ready || this.isMidRequest) return;
    this.#ready = true;
    this.#options.onReady();
  }

  handleRightsChanged(): void {
    this.#areRightsNew = true;
    this.handleReady();
  }

  /**
   * A cluster that the client had may have changed twice and be back at the version that the
   * assignment's suffix encodes. So its assignment is sent again unconditionally, also if the client requests it later
   * (seed 45350).
   */
  handleClusterSent(edsKey: string, isNew: boolean): void {
    const { clusterLoadAssignment } = TYPE_URL;
    const assignments = this.#table.find(clusterLoadAssignment, authorityOfKey(edsKey));
    assignments?.handleNameChanged(edsKey, !isNew);
    if (!isNew && this.isResuming && !this.#typesSeen.has(clusterLoadAssignment))
      this.#changedClusters = ownSet(this.#changedClusters).add(edsKey);
  }

  /**
   * Envoy needs the assignment again after each changed cluster, or it warms that cluster for 15 s
   * (ENVOY 5). So the version of an assignment encodes the cluster versions it was sent for. It
   * changes when the endpoints or a cluster change: a client that resumes after a change of the cluster
   * alone gets the assignment again, at any instance. Only clusters that were sent count. If a cluster
   * still waits for an earlier ACK, the session sends the assignment after it has sent the cluster.
   */
  clustersBehind(edsKey: string): ClustersBehind {
    if (this.#clustersToCome.areOwed) return { suffix: SOME_CLUSTERS, settled: true };
    const versions: string[] = [];
    let settled = true;
    for (const cluster of this.#cache.clustersOf(edsKey)) {
      const standing = this.#table.standingOf(cluster);
      if (standing === 'sent') versions.push(cluster.version);
      if (standing === 'unsent') settled = false;
    }
    return { suffix: versions.length === 0 ? '' : `.${contentDigest(versions)}`, settled };
  }

  handleClaimed(subscriptions: ClaimingSubscriptions, name: ResourceName): void {
    this.#claims ??= new ClientClaims(this.#cache.removalPolicyOf.bind(this.#cache));
    this.#claims.handleClaimed(subscriptions, name);
  }

  handleClaimGone(claim: ClaimedName): void {
    this.#claims?.handleGone(claim);
  }

  handleDoubt(doubt: ClaimedName): void {
    this.#claims?.handleDoubt(doubt);
    this.handleReady();
  }

  #settleDoubts(claims: ClientClaims, nowMs: number): void {
    const isOpen = (authority: string): boolean =>
      this.#table.allOf(authority).some((one) => one.hasOpenClaims);
    for (const { authority, due, guarded } of claims.takeDue(nowMs, isOpen)) {
      if (guarded) this.#events.add({ kind: 'held_back', authority, ...guarded });
      for (const { key, subscriptions } of due) subscriptions.settleDoubt(key);
    }
    this.#wait(claims.nextDeadlineMs);
  }

  awaitsWildcard(typeUrl: string): boolean {
    const { scope } = this;
    if (scope?.kind !== 'scope') return false;
    return this.#table.find(typeUrl, scope.scope)?.subscribed.awaitsWildcard === true;
  }

  covers(typeUrl: string, key: string): boolean {
    return this.#table.covers(typeUrl, key);
  }

  // ---- responses ----------------------------------------------------------------------------

  /** Bytes of the next response, or undefined until something changes or `nextDeadlineMs`. */
  takeResponse(nowMs: number): EncodedResponse | undefined {
    this.#ready = false;
    this.#waitUntilMs = undefined;
    // A response between two portions could contradict the names and versions that are left.
    if (this.isMidRequest) return undefined;
    // Before any response: a revoked right must not bring content any more.
    if (this.#areRightsNew) {
      this.#areRightsNew = false;
      for (const subscriptions of this.#allSubscriptions) subscriptions.handleRightsChanged(nowMs);
      // This poll serves what they reported.
      this.#ready = false;
    }
    if (this.#retries) this.#sendRejectedAgain(this.#retries, nowMs);
    const errors = this.#pollErrors(nowMs);
    if (errors) return errors;
    const additions = this.#pollAdditions(nowMs);
    if (additions !== 'in_next_turn')
      return additions ?? this.#pollRemovals(nowMs) ?? this.#pollGreeting(nowMs);
    this.#askForTurn();
    return undefined;
  }

  #sendRejectedAgain(retries: NackRetries, nowMs: number): void {
    for (const subscriptions of retries.takeDue(nowMs)) {
      subscriptions.sendAgain();
      // This poll serves it.
      this.#ready = false;
    }
    this.#wait(retries.nextDeadlineMs(nowMs));
  }

  /** @param untilMs Infinity: wait for an event, not for a time */
  #wait(untilMs: number | undefined): void {
    if (untilMs === undefined || untilMs === Infinity) return;
    this.#waitUntilMs = Math.min(this.#waitUntilMs ?? Infinity, untilMs);
  }

  /** The end of a wait: when to call `takeResponse` again if nothing changes before. */
  get nextDeadlineMs(): number | undefined {
    return this.#waitUntilMs;
  }

  takeEvents(): readonly SessionEvent[] {
    return this.#events.take();
  }

  #pollErrors(nowMs: number): EncodedResponse | undefined {
    if (!this.#asides.hasErrors) return undefined;
    const { aside, untilMs } = this.#asides.takeErrors(this.#options.chunkBytes, nowMs);
    this.#wait(untilMs);
    if (!aside) return undefined;
    this.#countNames();
    return this.#sendAside(aside, nowMs);
  }

  #sendAside(aside: Aside, nowMs: number): EncodedResponse {
    const encoded = this.#encode(aside.typeUrl, undefined, aside.content);
    this.#asides.handleSent(aside, encoded.nonce, nowMs);
    return encoded;
  }

  /** @returns `in_next_turn`: subscriptions are left to look at */
  #pollAdditions(nowMs: number): EncodedResponse | 'in_next_turn' | undefined {
    const { looksPerPortion = Infinity } = this.#options;
    let looksLeft = looksPerPortion;
    const all = this.#allSubscriptions;
    const first = this.#nextLook ? Math.max(0, all.indexOf(this.#nextLook)) : 0;
    this.#nextLook = undefined;
    for (let at = first; at < all.length; at++) {
      // The index is below the length.
      const subscriptions = all[at] as DeltaSubscriptions;
      if (subscriptions.isIdle) continue;
      if (!subscriptions.hasAdditions) {
        subscriptions.waitingSinceMs = undefined;
        continue;
      }
      const untilMs = subscriptions.answerGoesOn
        ? undefined
        : laterOf(
            this.#additionsWaitUntil(subscriptions, nowMs),
            subscriptions.unacknowledged.waitUntilMs(nowMs),
          );
      if (untilMs !== undefined) {
        this.#wait(untilMs);
        continue;
      }
      const answer = subscriptions.takeAdditions(chunkBytesOf(this.#options), looksPerPortion);
      subscriptions.waitingSinceMs = undefined;
      if (answer) return this.#send(subscriptions, answer, nowMs);
      if (subscriptions.isMidAnswer || --looksLeft === 0) {
        // Not from the start: some may wait for what a later one sends.
        this.#nextLook = subscriptions.isMidAnswer ? subscriptions : all[at + 1];
        if (this.#nextLook) return 'in_next_turn';
      }
    }
    return undefined;
  }

  #pollRemovals(nowMs: number): EncodedResponse | undefined {
    if (this.#claims) this.#settleDoubts(this.#claims, nowMs);
    const all = this.#allSubscriptions;
    for (let at = all.length - 1; at >= 0; at--) {
      // The index is below the length.
      const subscriptions = all[at] as DeltaSubscriptions;
      if (subscriptions.isIdle) continue;
      if (!subscriptions.hasRemovals) {
        subscriptions.removalsSinceMs = undefined;
        subscriptions.noteIdle();
        continue;
      }
      const untilMs = laterOf(
        this.#removalsWaitUntil(subscriptions, nowMs),
        subscriptions.unacknowledged.waitUntilMs(nowMs),
      );
      if (untilMs !== undefined) {
        this.#wait(untilMs);
        continue;
      }
      const answer = subscriptions.takeRemovals(
        MAX_REMOVALS_PER_RESPONSE,
        chunkBytesOf(this.#options),
      );
      subscriptions.removalsSinceMs = undefined;
      if (answer) return this.#send(subscriptions, answer, nowMs);
    }
    return undefined;
  }

  /**
   * Sends one empty response to a resumed client that misses nothing: only a response resets
   * Envoy's reconnect backoff (ENVOY 13).
   */
  #pollGreeting(nowMs: number): EncodedResponse | undefined {
    if (
      this.#responses > 0 ||
      // The wait for the request for clusters is no reason for silence.
      (this.#waitUntilMs !== undefined && this.#waitUntilMs !== this.#clustersToCome.untilMs) ||
      this.#allSubscriptions.some((subscriptions) => subscriptions.subscribed.isWaiting)
    )
      return undefined;
    const { greeting } = this.#asides;
    return greeting && this.#sendAside(greeting, nowMs);
  }

  /** @returns until when content of this type has to wait; undefined: send now. */
  #additionsWaitUntil(subscriptions: DeltaSubscriptions, nowMs: number): number | undefined {
    const { rank, authority } = subscriptions;
    const siblings = this.#table.ofAuthority(authority);
    const clusters = siblings?.get(TYPE_URL.cluster);
    if (rank === ASSIGNMENT_RANK) {
      const untilMs = (clusters?.createdAtMs ?? 0) + RESUME_WAIT_MS;
      return nowMs < untilMs && clusters?.subscribed.isWaiting ? untilMs : undefined;
    }
    const endpoints = siblings?.get(TYPE_URL.clusterLoadAssignment);
    return contentWaitUntil({
      subscriptions,
      clusters,
      endpoints,
      clustersAwaitedUntilMs: this.#clustersToCome.untilMs,
      nowMs,
      ackDeadlineMs: this.#options.ackDeadlineMs,
    });
  }

  #removalsWaitUntil(subscriptions: DeltaSubscriptions, nowMs: number): number | undefined {
    const allSubscriptions = this.#table.allOf(subscriptions.authority);
    const { ackDeadlineMs } = this.#options;
    return removalsWaitUntil({ subscriptions, allSubscriptions, nowMs, ackDeadlineMs });
  }

  #send(
    subscriptions: DeltaSubscriptions,
    answer: ResponseContent,
    nowMs: number,
  ): EncodedResponse {
    const encoded = this.#encode(subscriptions.typeUrl, subscriptions, answer);
    subscriptions.handleSent(encoded.nonce, answer, nowMs);
    return encoded;
  }

  /** @param sender undefined: the response belongs to no subscriptions */
  #encode(
    typeUrl: string,
    sender: DeltaSubscriptions | undefined,
    { pieces, removed, removedVariants, errors, resourceCount }: ResponseContent,
  ): EncodedResponse {
    this.#responses++;
    this.#asides.noteAnswered();
    const removals = removed.length + (removedVariants?.length ?? 0);
    const isShared = removals + errors.length === 0;
    const parts = { kind: 'delta', parts: isShared ? pieces : [] };
    const encoded = this.#cache.responses.encode(parts, this.#lastResponse?.number ?? 0, (nonce) =>
      encodeDeltaResponse({
        typeUrl,
        nonce,
        resources: pieces,
        removed,
        ...(removedVariants && { removedVariants }),
        errors,
      }),
    );
    this.#lastResponse = { number: encoded.number, nonce: encoded.nonce, sender };
    this.#events.add({
      kind: 'answer',
      typeUrl,
      authority: sender?.authority ?? NO_AUTHORITY,
      resources: resourceCount,
      removed: removals,
      errors: errors.length,
      bytes: encoded.size,
    });
    return encoded;
  }
}
