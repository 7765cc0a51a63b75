/**
 * One client's delta ADS stream: requests in, responses out. It decides what a request means, which
 * lane may speak, and in which order types and removals follow one another. Bulk machine without IO;
 * the shell writes what `poll` gives while the client reads.
 *
 * Order, per authority (make before break, xDS protocol "Eventual consistency considerations"):
 *  - clusters and their endpoints go at once: Envoy withholds the ACK of clusters until their
 *    endpoints are there, so endpoints never wait for that ACK;
 *  - listeners and routes wait while clusters that are new to the client are not acknowledged;
 *  - removals wait for all of that, and go in reverse order of types.
 * Every wait is bounded by `ackDeadlineMs`, longer than Envoy's 15 s of warming.
 */
import type { Projection } from '../../authorities/index.js';
import { encodeDeltaResponse } from '../../protos/delta-codec.js';
import {
  STATUS_CODE,
  type DeltaRequest,
  type ResourceError,
  type RpcStatus,
} from '../../protos/discovery.js';
import { globKeyOf } from '../../protos/resource-name.js';
import { TYPE_URL, typeRank } from '../../protos/type-urls.js';
import { NOTHING, type Answer } from './answer.js';
import { NameReader, type ClientScope } from './asked-name.js';
import { contentDigest } from './content-digest.js';
import { isPureAck, textsRefused } from './request-checks.js';
import { Lane } from './lane.js';
import type { LaneOwner } from './lane-owner.js';
import { MessageLimit } from './message-limit.js';
import type { ClustersBehind, Standing } from './subscription.js';
import type { ResourceCache } from './resource-cache.js';
import type { SessionEvent, StreamSession } from './stream-session.js';

export interface SessionOptions {
  readonly cache: ResourceCache;
  readonly maxNames: number;
  /** Responses are cut at about this size. */
  readonly chunkBytes: number;
  readonly ackDeadlineMs: number;
  /** Say nothing of routes and extension configs that do not exist, instead of "removed". */
  readonly silentAbsentRoutes: boolean;
  /** The largest message that the client takes; default: no limit. */
  readonly maxMessageBytes?: () => number;
  /** The node group of the client, which its old-style names are told by. */
  readonly scopeOf: () => ClientScope;
  /** Called when there may be something to `poll`; at most once until the next `poll`. */
  readonly onReady: () => void;
}

/** Resumed endpoints wait this long at most for the clusters that they belong to. */
const RESUME_WAIT_MS = 2_000;
const MAX_REMOVALS_PER_RESPONSE = 10_000;
const NOBODY = '(none)';
const CLUSTER_RANK = typeRank(TYPE_URL.cluster);
const ASSIGNMENT_RANK = typeRank(TYPE_URL.clusterLoadAssignment);
const LISTENER_RANK = typeRank(TYPE_URL.listener);
const ROUTE_RANK = typeRank(TYPE_URL.routeConfiguration);
const SILENT_TYPES: ReadonlySet<string> = new Set([
  TYPE_URL.routeConfiguration,
  TYPE_URL.typedExtensionConfig,
]);

/** The lanes of one authority, by type. */
type AuthorityLanes = Map<string, Lane>;

export class ClientSession implements LaneOwner, StreamSession<DeltaRequest> {
  readonly #options: SessionOptions;
  /** In push order. */
  #lanes: Lane[] = [];
  readonly #authorities = new Map<string, AuthorityLanes>();
  readonly #inFlight = new Map<string, Lane>();
  /** Per type, the nonce of its last answer that belongs to no lane. */
  readonly #sideNonces = new Map<string, { readonly nonce: string; readonly sentMs: number }>();
  readonly #typesSeen = new Set<string>();
  /** Names to refuse, each once, by type. */
  readonly #refusals = new Map<string, Map<string, RpcStatus>>();
  #nonces = 0;
  #nameCount = 0;
  #ready = false;
  #waitUntilMs: number | undefined;
  /** Types to which a request came on a stream that has had no response yet. */
  readonly #unanswered = new Set<string>();
  #responses = 0;
  #events: SessionEvent[] = [];
  readonly #names: NameReader;
  readonly limit: MessageLimit;

  constructor(options: SessionOptions) {
    this.#options = options;
    const { cache, maxMessageBytes } = options;
    this.limit = new MessageLimit({
      cache,
      maxBytesOf: maxMessageBytes,
      isAsked: ({ typeUrl, name }) => this.covers(typeUrl, name.key),
      onWithheld: (withheld) => {
        this.#events.push({ kind: 'withheld', ...withheld });
      },
    });
    this.#names = new NameReader(options.scopeOf);
  }

  /** Absent as long as it asked for no old-style name. */
  get scope(): ClientScope | undefined {
    return this.#names.scope;
  }

  get lanes(): readonly Lane[] {
    return this.#lanes;
  }

  get nameCount(): number {
    return this.#nameCount;
  }

  // ---- requests -----------------------------------------------------------------------------

  /** @returns a status to end the stream with, or undefined. */
  handleRequest(request: DeltaRequest, nowMs: number): RpcStatus | undefined {
    const { typeUrl } = request;
    const malformed = textsRefused(request);
    if (malformed) return { code: STATUS_CODE.invalidArgument, message: malformed };
    this.#handleNonce(request, nowMs);
    if (isPureAck(request) && this.#typesSeen.has(typeUrl)) {
      if (this.#hasWork()) this.handleLaneReady();
      return undefined;
    }
    const first = !this.#typesSeen.has(typeUrl);
    this.#typesSeen.add(typeUrl);
    if (this.#responses === 0) this.#unanswered.add(typeUrl);
    // An empty first request is a wildcard, as long as no name was ever sent for the type.
    if (first && request.subscribe.length === 0) this.#subscribe(typeUrl, '*', undefined, nowMs);
    for (const text of request.unsubscribe) this.#unsubscribe(typeUrl, text, nowMs);
    for (const text of request.subscribe) {
      this.#subscribe(typeUrl, text, request.initialVersions.get(text), nowMs);
    }
    // "Only in the first request of a type on a stream" (xDS protocol); later ones are not kept.
    if (first) this.#noteResumed(request);
    return this.scope?.kind === 'refused' ? this.scope.status : this.#boundsStatus();
  }

  /** @returns what to end the stream with if it asks for too much. */
  #boundsStatus(): RpcStatus | undefined {
    this.#nameCount = 0;
    let owed = 0;
    for (const lane of this.#lanes) {
      this.#nameCount += lane.nameCount;
      owed += lane.owedCount;
    }
    let refused = 0;
    for (const names of this.#refusals.values()) refused += names.size;
    // A client that does not read but goes on asking must not grow without end.
    const most = Math.max(this.#nameCount + refused, this.#typesSeen.size, owed);
    if (most > this.#options.maxNames) {
      const message = `more than ${this.#options.maxNames} names on one stream`;
      return { code: STATUS_CODE.resourceExhausted, message };
    }
    this.handleLaneReady();
    return undefined;
  }

  /** An ACK frees its lane; that matters only if something waited for it. */
  #hasWork(): boolean {
    for (const lane of this.#lanes) if (lane.hasAdditions || lane.hasRemovals) return true;
    return this.#refusals.size > 0;
  }

  #handleNonce(request: DeltaRequest, nowMs: number): void {
    const { typeUrl, responseNonce, errorDetail } = request;
    if (responseNonce === '') return;
    const lane = this.#inFlight.get(responseNonce);
    if (lane?.typeUrl !== typeUrl) {
      if (this.#handleSideNonce(request, nowMs)) return;
      // Subscription changes of such a request count all the same (xDS protocol).
      this.#events.push({ kind: 'stale_nonce', typeUrl });
      return;
    }
    this.#inFlight.delete(responseNonce);
    const sentAtMs = lane.handleAcknowledged(responseNonce);
    const { authority } = lane;
    // A refused answer is not sent again until the resource changes: the client would refuse it again.
    if (errorDetail) this.#events.push({ kind: 'nack', typeUrl, authority, detail: errorDetail });
    else this.#events.push({ kind: 'ack', typeUrl, authority, sinceMs: nowMs - sentAtMs });
    if (lane.isEmpty) this.#dropLane(lane);
  }

  /** @returns whether it is that of a refusal or a greeting. */
  #handleSideNonce(request: DeltaRequest, nowMs: number): boolean {
    const { typeUrl, responseNonce, errorDetail } = request;
    const side = this.#sideNonces.get(typeUrl);
    if (side?.nonce !== responseNonce) return false;
    this.#sideNonces.delete(typeUrl);
    const said = { typeUrl, authority: NOBODY };
    if (errorDetail) this.#events.push({ kind: 'nack', ...said, detail: errorDetail });
    else this.#events.push({ kind: 'ack', ...said, sinceMs: nowMs - side.sentMs });
    return true;
  }

  /** Versions of members of a glob that was not asked with them are of no use. */
  #noteResumed({ typeUrl, initialVersions, subscribe }: DeltaRequest): void {
    if (initialVersions.size === 0) return;
    const asked = new Set(subscribe);
    const lists = this.#listsOf(typeUrl);
    for (const [text, version] of initialVersions) {
      const held = asked.has(text) ? undefined : this.#names.read(typeUrl, text);
      if (!held?.ok) continue;
      const { key, authority } = held.name;
      const globKey = globKeyOf(held.name);
      const lane = this.#findLane(typeUrl, authority);
      if (lane?.hasCollection(globKey)) lane.noteResumedVersion(globKey, key, version);
      // Members of a list may have any name: with two lists nothing would say whose it is.
      else if (lists.length === 1) lists[0]?.lane.noteResumedVersion(lists[0].key, key, version);
    }
  }

  #listsOf(typeUrl: string): readonly { readonly lane: Lane; readonly key: string }[] {
    return this.#lanes
      .filter((lane) => lane.typeUrl === typeUrl)
      .flatMap((lane) => lane.listKeys.map((key) => ({ lane, key })));
  }

  #subscribe(typeUrl: string, text: string, knownVersion: string | undefined, nowMs: number): void {
    const asked = this.#names.read(typeUrl, text);
    if (!asked.ok) {
      this.#refuse(typeUrl, text, asked.status);
      return;
    }
    const { name } = asked;
    this.#lane(typeUrl, name.authority, nowMs).subscribe(name, text, knownVersion);
  }

  #unsubscribe(typeUrl: string, text: string, nowMs: number): void {
    const asked = this.#names.read(typeUrl, text);
    if (!asked.ok) return;
    const { name } = asked;
    const lane = this.#findLane(typeUrl, name.authority);
    lane?.unsubscribe(name, nowMs);
    if (lane?.isEmpty) this.#dropLane(lane);
  }

  #refuse(typeUrl: string, name: string, status: RpcStatus): void {
    let refusals = this.#refusals.get(typeUrl);
    if (!refusals) this.#refusals.set(typeUrl, (refusals = new Map<string, RpcStatus>()));
    refusals.set(name, status);
    this.#events.push({ kind: 'refused_name', typeUrl, name, reason: status.message });
  }

  #findLane(typeUrl: string, authority: string): Lane | undefined {
    return this.#authorities.get(authority)?.get(typeUrl);
  }

  #lane(typeUrl: string, authority: string, nowMs: number): Lane {
    let siblings = this.#authorities.get(authority);
    if (!siblings) this.#authorities.set(authority, (siblings = new Map<string, Lane>()));
    const known = siblings.get(typeUrl);
    if (known) return known;
    const silentAbsence = this.#options.silentAbsentRoutes && SILENT_TYPES.has(typeUrl);
    const { cache } = this.#options;
    const lane = new Lane({ typeUrl, authority, cache, owner: this, nowMs, silentAbsence });
    siblings.set(typeUrl, lane);
    const before = this.#lanes.findLastIndex(({ rank }) => rank <= lane.rank);
    this.#lanes.splice(before + 1, 0, lane);
    return lane;
  }

  #dropLane(lane: Lane): void {
    const siblings = this.#authorities.get(lane.authority);
    siblings?.delete(lane.typeUrl);
    if (siblings?.size === 0) this.#authorities.delete(lane.authority);
    this.#lanes.splice(this.#lanes.indexOf(lane), 1);
  }

  close(nowMs: number): void {
    for (const lane of this.#lanes) lane.close(nowMs);
    this.#lanes = [];
    this.#authorities.clear();
    this.#inFlight.clear();
  }

  /** A client that missed removals which are forgotten can only start anew. */
  endStatus(): RpcStatus | undefined {
    if (!this.#lanes.some((lane) => lane.hasMissedRemovals)) return undefined;
    return { code: STATUS_CODE.resourceExhausted, message: 'too far behind to catch up' };
  }

  // ---- what lanes ask -----------------------------------------------------------------------

  handleLaneReady(): void {
    if (this.#ready) return;
    this.#ready = true;
    this.#options.onReady();
  }

  /** One that changed twice may be again what the version of the assignment says. */
  handleClusterSent(edsKey: string, isNew: boolean): void {
    for (const lane of this.#lanes) {
      if (lane.rank > ASSIGNMENT_RANK) return;
      if (lane.rank === ASSIGNMENT_RANK) lane.handleNameChanged(edsKey, !isNew);
    }
  }

  /**
   * A changed cluster needs its assignment again, and after it, or Envoy warms it for 15 s. So the
   * version of an assignment says for which versions of which clusters it was sent; then "changed"
   * covers both, and a client that resumes after a change of the cluster alone is told again, at any
   * instance. Only clusters that went out count: one that waits for an ACK brings it again.
   */
  clustersBehind(edsKey: string): ClustersBehind {
    const versions: string[] = [];
    let settled = true;
    for (const cluster of this.#options.cache.clustersOf(edsKey)) {
      const standing = this.#standingOf(cluster);
      if (standing === 'sent') versions.push(cluster.version);
      if (standing === 'unsent') settled = false;
    }
    return { suffix: versions.length === 0 ? '' : `.${contentDigest(versions)}`, settled };
  }

  /** A list of one authority may lead to clusters of another. */
  #standingOf(cluster: Projection): Standing {
    const own = this.#findLane(TYPE_URL.cluster, cluster.name.authority)?.standingOf(cluster);
    if (own !== undefined && own !== 'not_asked') return own;
    for (const lane of this.#lanes) {
      if (lane.rank > CLUSTER_RANK) break;
      const standing = lane.hasLists ? lane.standingOf(cluster) : 'not_asked';
      if (standing !== 'not_asked') return standing;
    }
    return 'not_asked';
  }

  covers(typeUrl: string, key: string): boolean {
    return this.#lanes.some((lane) => lane.typeUrl === typeUrl && lane.covers(key));
  }

  // ---- responses ----------------------------------------------------------------------------

  /** Bytes of the next response, or undefined until something changes or `nextDeadlineMs`. */
  poll(nowMs: number): Buffer | undefined {
    this.#ready = false;
    this.#waitUntilMs = undefined;
    return (
      this.#pollRefusals(nowMs) ??
      this.#pollAdditions(nowMs) ??
      this.#pollRemovals(nowMs) ??
      this.#pollGreeting(nowMs)
    );
  }

  /** When to `poll` again though nothing happened: the end of a wait. */
  get nextDeadlineMs(): number | undefined {
    return this.#waitUntilMs;
  }

  takeEvents(): readonly SessionEvent[] {
    if (this.#events.length === 0) return [];
    const taken = this.#events;
    this.#events = [];
    return taken;
  }

  #pollRefusals(nowMs: number): Buffer | undefined {
    const [refusals] = this.#refusals;
    if (!refusals) return undefined;
    const [typeUrl, names] = refusals;
    const errors: ResourceError[] = [];
    let bytes = 0;
    for (const [name, status] of names) {
      if (bytes >= this.#options.chunkBytes) break;
      names.delete(name);
      errors.push({ name, status });
      bytes += 2 * name.length + status.message.length;
    }
    if (names.size === 0) this.#refusals.delete(typeUrl);
    // A client without TP3 must not wait for it either.
    const removed = errors.map(({ name }) => name);
    return this.#sendAside(typeUrl, { ...NOTHING, errors, removed }, nowMs);
  }

  #sendAside(typeUrl: string, answer: Answer, nowMs: number): Buffer {
    const nonce = String(++this.#nonces);
    this.#sideNonces.set(typeUrl, { nonce, sentMs: nowMs });
    return this.#encode(typeUrl, NOBODY, nonce, answer);
  }

  #pollAdditions(nowMs: number): Buffer | undefined {
    for (const lane of this.#lanes) {
      if (!lane.hasAdditions) lane.waitingSinceMs = undefined;
      if ((lane.isInFlight && !lane.isMidAnswer) || !lane.hasAdditions) continue;
      const untilMs = lane.isMidAnswer ? undefined : this.#additionsWaitUntil(lane, nowMs);
      if (untilMs !== undefined) {
        this.#waitUntilMs = Math.min(this.#waitUntilMs ?? Infinity, untilMs);
        continue;
      }
      const answer = lane.takeAdditions(this.#options.chunkBytes);
      lane.waitingSinceMs = undefined;
      if (answer) return this.#send(lane, answer, nowMs);
    }
    return undefined;
  }

  #pollRemovals(nowMs: number): Buffer | undefined {
    for (let at = this.#lanes.length - 1; at >= 0; at--) {
      const lane = this.#lanes[at];
      if (!lane?.hasRemovals) {
        if (lane) lane.removalsSinceMs = undefined;
        continue;
      }
      if (lane.isInFlight) continue;
      const untilMs = this.#removalsWaitUntil(lane, nowMs);
      if (untilMs !== undefined) {
        this.#waitUntilMs = Math.min(this.#waitUntilMs ?? Infinity, untilMs);
        continue;
      }
      const answer = lane.takeRemovals(MAX_REMOVALS_PER_RESPONSE, this.#options.chunkBytes);
      lane.removalsSinceMs = undefined;
      if (answer) return this.#send(lane, answer, nowMs);
    }
    return undefined;
  }

  /**
   * Only a response resets an Envoy's reconnect backoff, so a resumed client that misses nothing
   * gets one empty response on its stream.
   */
  #pollGreeting(nowMs: number): Buffer | undefined {
    if (this.#responses > 0 || this.#lanes.some((lane) => lane.isWaiting)) return undefined;
    const [typeUrl] = this.#unanswered;
    if (typeUrl === undefined || this.#waitUntilMs !== undefined) return undefined;
    return this.#sendAside(typeUrl, NOTHING, nowMs);
  }

  /** @returns until when this lane's content has to wait, or undefined: it may go. */
  #additionsWaitUntil(lane: Lane, nowMs: number): number | undefined {
    const { rank } = lane;
    if (rank > ROUTE_RANK) return undefined;
    const siblings = this.#authorities.get(lane.authority);
    const clusters = siblings?.get(TYPE_URL.cluster);
    if (rank === ASSIGNMENT_RANK) {
      const untilMs = (clusters?.createdAtMs ?? 0) + RESUME_WAIT_MS;
      return nowMs < untilMs && clusters?.isWaiting ? untilMs : undefined;
    }
    if (rank < LISTENER_RANK) return undefined;
    const endpoints = siblings?.get(TYPE_URL.clusterLoadAssignment);
    const unsettled =
      clusters?.hasAdditions === true ||
      clusters?.inFlightBringsNew === true ||
      endpoints?.hasAdditions === true;
    if (!unsettled) return undefined;
    lane.waitingSinceMs ??= nowMs;
    const untilMs = lane.waitingSinceMs + this.#options.ackDeadlineMs;
    return nowMs < untilMs ? untilMs : undefined;
  }

  #removalsWaitUntil(lane: Lane, nowMs: number): number | undefined {
    lane.removalsSinceMs ??= nowMs;
    const blocked = this.#lanes.some((other) => {
      if (other.authority !== lane.authority) return false;
      const replaces =
        other.inFlightBringsNew || (other.isInFlight && other.rank > ASSIGNMENT_RANK);
      const goesFirst = other.rank > lane.rank && other.hasRemovals;
      return other.hasAdditions || replaces || goesFirst;
    });
    if (!blocked) return undefined;
    const untilMs = lane.removalsSinceMs + this.#options.ackDeadlineMs;
    return nowMs < untilMs ? untilMs : undefined;
  }

  #send(lane: Lane, answer: Answer, nowMs: number): Buffer {
    const nonce = String(++this.#nonces);
    const bytes = this.#encode(lane.typeUrl, lane.authority, nonce, answer);
    lane.handleSent(nonce, answer, nowMs);
    this.#inFlight.set(nonce, lane);
    return bytes;
  }

  #encode(typeUrl: string, authority: string, nonce: string, answer: Answer): Buffer {
    const { pieces, removed, errors, resourceCount } = answer;
    this.#responses++;
    this.#unanswered.clear();
    const bytes = encodeDeltaResponse({ typeUrl, nonce, resources: pieces, removed, errors });
    this.#events.push({
      kind: 'answer',
      typeUrl,
      authority,
      resources: resourceCount,
      removed: removed.length,
      errors: errors.length,
      bytes: bytes.length,
    });
    return bytes;
  }
}
