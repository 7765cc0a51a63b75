/**
 * One client's state-of-the-world ADS stream (docs/GRPC.md): requests in, responses out. It decides
 * what a nonce means, which type may speak, and in which order types and removals follow one another.
 * Bulk machine without IO, on the same cache as the delta sessions.
 *
 * The order of types and removals is that of push-order.ts. Besides, what went is left out only when
 * nothing was sent or accepted for a while: the client had time to ask for what replaces it.
 */
import type { Projection } from '../../../authorities/index.js';
import { STATUS_CODE, type RpcStatus, type SotwRequest } from '../../../protos/discovery.js';
import { hasClientFeature } from '../../../protos/node-codec.js';
import { bareResourceOf, wrappedResourceOf } from '../../../protos/resource-field.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import { encodeSotwResponse } from '../../../protos/sotw-codec.js';
import { TYPE_URL, typeRank } from '../../../protos/type-urls.js';
import { locatorText, NameReader, type ClientScope } from '../session/asked-name.js';
import { MessageLimit } from '../session/message-limit.js';
import { SelectiveSubscriptions } from './selective-subscriptions.js';
import { emptyAssignment } from './placeholder.js';
import { sotwTextsRefused } from '../session/request-checks.js';
import { contentWaitUntil, laterOf, removalsWaitUntil } from '../session/push-order.js';
import type { ResourceCache } from '../cache/resource-cache.js';
import { SetLosses, type SetLoss } from './set-losses.js';
import type { SotwAnswer, SotwSubscriptions } from './sotw-subscriptions.js';
import { UNANSWERABLE, type SessionEvent, type StreamSession } from '../session/stream-session.js';
import { AllRequiredSubscriptions } from './all-required-subscriptions.js';

export interface SotwOptions {
  readonly cache: ResourceCache;
  readonly maxNames: number;
  /** Responses are cut at about this size, but for listeners and clusters, which cannot be. */
  readonly chunkBytes: number;
  readonly ackDeadlineMs: number;
  /** A cluster that cannot be had for so long is answered by one without endpoints; undefined: never. */
  readonly placeholderAfterMs: number | undefined;
  /** A stream of which nothing could be said for so long ends; undefined: never. */
  readonly unanswerableAfterMs: number | undefined;
  /** The largest message that the client takes; default: no limit. */
  readonly maxMessageBytes?: () => number;
  /** The node group of the client, which its old-style names are told by. */
  readonly scopeOf: () => ClientScope;
  /** Called when there may be something to `poll`; at most once until the next `poll`. */
  readonly onReady: () => void;
}

/** Clients that want each resource in a `Resource` message (gRFC A27 and the xDS protocol, "TTL"). */
const WRAPPER_FEATURE = 'xds.config.resource-in-sotw';
/**
 * Between two types a client has to ask for what the first one names. What goes is left out when
 * nothing was sent or accepted for so long.
 */
const QUIET_MS = 1_000;
/** What a client would lose cannot be judged yet, and is looked at again after this time. */
const OPEN_LOSS_WAIT_MS = 1_000;
const ASSIGNMENT_RANK = typeRank(TYPE_URL.clusterLoadAssignment);
const WHOLE_TYPES: ReadonlySet<string> = new Set([TYPE_URL.listener, TYPE_URL.cluster]);

export class SotwSession implements StreamSession<SotwRequest> {
  readonly #options: SotwOptions;
  readonly #byType = new Map<string, SotwSubscriptions>();
  /** In push order. */
  #lanes: SotwSubscriptions[] = [];
  #wraps = false;
  #hasNode = false;
  #nonces = 0;
  #responses = 0;
  #nameCount = 0;
  #firstRequestMs: number | undefined;
  /** When content was sent or accepted last. */
  #busyMs = -Infinity;
  #ready = false;
  #waitUntilMs: number | undefined;
  readonly #losses: SetLosses;
  #events: SessionEvent[] = [];

  readonly #names: NameReader;
  readonly limit: MessageLimit;

  constructor(options: SotwOptions) {
    this.#options = options;
    const { cache, maxMessageBytes } = options;
    this.limit = new MessageLimit({
      cache,
      maxBytesOf: maxMessageBytes,
      isAsked: ({ typeUrl, name }) => this.#byType.get(typeUrl)?.covers(name) === true,
      onWithheld: (withheld) => {
        this.#events.push({ kind: 'withheld', ...withheld });
      },
    });
    this.#names = new NameReader(options.scopeOf);
    this.#losses = new SetLosses(options.cache.removalPolicyOf.bind(options.cache));
  }

  get scope(): ClientScope | undefined {
    return this.#names.scope;
  }

  get lanes(): readonly SotwSubscriptions[] {
    return this.#lanes;
  }

  get nameCount(): number {
    return this.#nameCount;
  }

  // ---- requests -----------------------------------------------------------------------------

  handleRequest(request: SotwRequest, nowMs: number): RpcStatus | undefined {
    const { typeUrl, locators, node } = request;
    const names = locators ? [...request.names, ...locators.map(locatorText)] : request.names;
    const malformed = sotwTextsRefused(request);
    if (malformed) return { code: STATUS_CODE.invalidArgument, message: malformed };
    this.#firstRequestMs ??= nowMs;
    if (node && !this.#hasNode) {
      this.#hasNode = true;
      this.#wraps = hasClientFeature(node, WRAPPER_FEATURE);
    }
    const lane = this.#byType.get(typeUrl) ?? this.#addLane(request, nowMs);
    this.#handleNonce(lane, request, nowMs);
    // Whatever its nonce: requests of a stream are in order, so that the last list is what is wanted.
    const before = lane.nameCount;
    for (const { name, status } of lane.ask(names, nowMs)) {
      this.#events.push({ kind: 'refused_name', typeUrl, name, reason: status.message });
    }
    if (this.scope?.kind === 'refused') return this.scope.status;
    this.#nameCount += lane.nameCount - before;
    if (Math.max(this.#nameCount, this.#lanes.length) > this.#options.maxNames) {
      const message = `more than ${this.#options.maxNames} names on one stream`;
      return { code: STATUS_CODE.resourceExhausted, message };
    }
    if (this.#lanes.some((one) => one.hasWork || one.hasRemovals)) this.#handleReady();
    return undefined;
  }

  #handleNonce(lane: SotwSubscriptions, request: SotwRequest, nowMs: number): void {
    const { typeUrl, responseNonce, errorDetail } = request;
    if (responseNonce === '') return;
    const answered = lane.handleNonce(responseNonce);
    if (answered === 'stale') this.#events.push({ kind: 'stale_nonce', typeUrl });
    if (typeof answered === 'string') return;
    this.#busyMs = nowMs;
    const { authority } = lane;
    // A refused answer is not sent again until something changes: it would be refused again.
    if (errorDetail) this.#events.push({ kind: 'nack', typeUrl, authority, detail: errorDetail });
    else this.#events.push({ kind: 'ack', typeUrl, authority, sinceMs: nowMs - answered });
  }

  #addLane({ typeUrl, versionInfo }: SotwRequest, nowMs: number): SotwSubscriptions {
    const { cache, placeholderAfterMs } = this.#options;
    const onReady = (): void => {
      this.#handleReady();
    };
    const options = {
      typeUrl,
      cache,
      nowMs,
      onReady,
      resumedVersion: versionInfo,
      names: this.#names,
      limit: this.limit,
    };
    const placeholderOf = (name: ResourceName): Projection | undefined => {
      if (lane.rank !== ASSIGNMENT_RANK) return undefined;
      const clusters = this.#byType.get(TYPE_URL.cluster);
      const isDue =
        clusters instanceof AllRequiredSubscriptions && clusters.isEmptyAssignment(name.key);
      return isDue ? emptyAssignment(name) : undefined;
    };
    const lane = WHOLE_TYPES.has(typeUrl)
      ? new AllRequiredSubscriptions({ ...options, placeholderAfterMs })
      : new SelectiveSubscriptions({ ...options, placeholderOf });
    this.#byType.set(typeUrl, lane);
    const before = this.#lanes.findLastIndex(({ rank }) => rank <= lane.rank);
    this.#lanes.splice(before + 1, 0, lane);
    return lane;
  }

  #handleReady(): void {
    if (this.#ready) return;
    this.#ready = true;
    this.#options.onReady();
  }

  /**
   * Where nothing was said and nothing can be, an end lets a client that has another server go there
   * before it gives the names up after 15 s (gRFC A71). Who is about to be answered stays: a collection
   * in doubt takes longer, and a client that had to come again each time would never see it whole.
   */
  endStatus(nowMs: number): RpcStatus | undefined {
    const { unanswerableAfterMs } = this.#options;
    if (this.#responses > 0 || this.#firstRequestMs === undefined) return undefined;
    const isDue =
      unanswerableAfterMs !== undefined && nowMs >= this.#firstRequestMs + unanswerableAfterMs;
    if (!isDue || this.#lanes.some((lane) => lane.isUnderWay)) return undefined;
    return UNANSWERABLE;
  }

  close(nowMs: number): void {
    for (const lane of this.#lanes) lane.close(nowMs);
    this.#lanes = [];
    this.#byType.clear();
  }

  // ---- responses ----------------------------------------------------------------------------

  poll(nowMs: number): Buffer | undefined {
    this.#ready = false;
    this.#waitUntilMs = undefined;
    return this.#pollAdditions(nowMs) ?? this.#pollRemovals(nowMs);
  }

  get nextDeadlineMs(): number | undefined {
    return this.#waitUntilMs;
  }

  takeEvents(): readonly SessionEvent[] {
    if (this.#events.length === 0) return [];
    const taken = this.#events;
    this.#events = [];
    return taken;
  }

  #wait(untilMs: number | undefined): void {
    if (untilMs === undefined || untilMs === Infinity) return;
    this.#waitUntilMs = Math.min(this.#waitUntilMs ?? Infinity, untilMs);
  }

  #pollAdditions(nowMs: number): Buffer | undefined {
    this.#judgeLosses(nowMs);
    for (const lane of this.#lanes) {
      if (lane instanceof AllRequiredSubscriptions) this.#wait(lane.ripen(nowMs));
      if (!lane.hasWork) {
        lane.waitingSinceMs = undefined;
        continue;
      }
      const untilMs =
        lane.blockedUntilMs(nowMs) ??
        laterOf(this.#additionsWaitUntil(lane, nowMs), lane.unacknowledged.waitUntilMs(nowMs));
      if (untilMs !== undefined) {
        this.#wait(untilMs);
        continue;
      }
      lane.waitingSinceMs = undefined;
      const bytes = this.#take(lane, false, nowMs);
      if (bytes) return bytes;
      // It has looked at names now that may need a placeholder later.
      if (lane instanceof AllRequiredSubscriptions) this.#wait(lane.ripen(nowMs));
    }
    return undefined;
  }

  /** Holds back first sets that would take too much from a client that resumes. */
  #judgeLosses(nowMs: number): void {
    const losing: AllRequiredSubscriptions[] = [];
    const all: SetLoss[] = [];
    for (const lane of this.#lanes) {
      if (!(lane instanceof AllRequiredSubscriptions)) continue;
      const { losses } = lane;
      all.push(...losses);
      lane.heldUntilMs = undefined;
      if (losses.some(({ lost }) => lost > 0)) losing.push(lane);
    }
    if (losing.length === 0) return;
    const { cache } = this.#options;
    const isOpen =
      this.#lanes.some((lane) => lane instanceof AllRequiredSubscriptions && lane.isUndecided) ||
      all.some(({ lost, typeUrl, sample }) => lost > 0 && !cache.isCurrent(typeUrl, sample));
    if (isOpen) {
      // Types are judged together, and by what sources say that answer now.
      for (const lane of losing) lane.heldUntilMs = nowMs + OPEN_LOSS_WAIT_MS;
      return;
    }
    const { untilMs, guarded } = this.#losses.judge(all, nowMs);
    for (const lane of losing) lane.heldUntilMs = untilMs;
    for (const held of guarded) this.#events.push({ kind: 'held_back', ...held });
  }

  #pollRemovals(nowMs: number): Buffer | undefined {
    for (const lane of this.#lanes.toReversed()) {
      if (!lane.hasRemovals) {
        lane.removalsSinceMs = undefined;
        continue;
      }
      const untilMs =
        lane.blockedUntilMs(nowMs, true) ??
        laterOf(this.#removalsWaitUntil(lane, nowMs), lane.unacknowledged.waitUntilMs(nowMs));
      if (untilMs !== undefined) {
        this.#wait(untilMs);
        continue;
      }
      lane.removalsSinceMs = undefined;
      const bytes = this.#take(lane, true, nowMs);
      if (bytes) return bytes;
    }
    return undefined;
  }

  /** @returns until when this lane's content has to wait, or undefined: it may go. */
  #additionsWaitUntil(lane: SotwSubscriptions, nowMs: number): number | undefined {
    const clusters = this.#byType.get(TYPE_URL.cluster);
    const endpoints = this.#byType.get(TYPE_URL.clusterLoadAssignment);
    const { ackDeadlineMs } = this.#options;
    return contentWaitUntil({ lane, clusters, endpoints, nowMs, ackDeadlineMs });
  }

  #removalsWaitUntil(lane: SotwSubscriptions, nowMs: number): number | undefined {
    const { ackDeadlineMs } = this.#options;
    const lanes = this.#lanes;
    const deadlineMs = (lane.removalsSinceMs ??= nowMs) + ackDeadlineMs;
    const untilMs = removalsWaitUntil({ lane, lanes, nowMs, ackDeadlineMs });
    if (untilMs !== undefined) return untilMs;
    const quietMs = Math.min(this.#busyMs + QUIET_MS, deadlineMs);
    return nowMs < quietMs ? quietMs : undefined;
  }

  #take(lane: SotwSubscriptions, release: boolean, nowMs: number): Buffer | undefined {
    const greet = this.#responses === 0;
    const answer = lane.take({ maxBytes: this.#options.chunkBytes, greet, release });
    if (!answer) return undefined;
    const nonce = String(this.#nonces + 1);
    const bytes = this.#encode(lane, nonce, answer);
    if (!bytes) return undefined;
    this.#nonces++;
    this.#responses++;
    lane.handleSent(nonce, answer, nowMs);
    if (answer.resources.length > 0 && !release) this.#busyMs = nowMs;
    this.#noteClusters(answer);
    return bytes;
  }

  /** Their endpoints have to follow. */
  #noteClusters({ clusters }: SotwAnswer): void {
    const endpoints = this.#byType.get(TYPE_URL.clusterLoadAssignment);
    for (const { edsKey } of clusters) {
      if (edsKey !== undefined) endpoints?.handleClusterSent(edsKey);
    }
  }

  /** @returns undefined for a whole set that the client would refuse. */
  #encode(lane: SotwSubscriptions, nonce: string, answer: SotwAnswer): Buffer | undefined {
    const { typeUrl, authority } = lane;
    const { versionInfo, errors, removed } = answer;
    const resources = answer.resources.flatMap(({ field }) =>
      this.#wraps ? wrappedResourceOf(field) : bareResourceOf(field),
    );
    const bytes = encodeSotwResponse({ typeUrl, nonce, versionInfo, resources, errors });
    if (lane instanceof AllRequiredSubscriptions && !this.limit.admitSet(typeUrl, bytes.length)) {
      lane.handleWithheld(answer);
      return undefined;
    }
    const counts = { resources: answer.resources.length, bytes: bytes.length };
    if (lane instanceof AllRequiredSubscriptions && bytes.length > this.#options.chunkBytes) {
      this.#events.push({ kind: 'oversize', typeUrl, ...counts });
    }
    const told = { removed, errors: errors.length };
    this.#events.push({ kind: 'answer', typeUrl, authority, ...counts, ...told });
    return bytes;
  }
}
