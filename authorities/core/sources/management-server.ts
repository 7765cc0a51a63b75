/**
 * One ConfigSource with a stream: its health, the protocol of the stream and the received contents
 * as one machine. Inputs carry the time and the epoch of the connection attempt. The shell takes
 * the effects and performs them in order.
 */
import type { GrpcSourceSpec } from '../../../config/model.js';
import {
  isDataError,
  STATUS_CODE,
  type Decoded,
  type ResourceError,
  type RpcStatus,
} from '../../../protos/discovery.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import { ContentBudget, type ContentLimits, type ContentTotal } from './content-budget.js';
import { DeltaStream } from './delta-stream.js';
import { Fifo } from './fifo.js';
import { MAX_NAMES_PER_REQUEST } from './pending-names.js';
import {
  healthDeadlineMs,
  INITIAL_HEALTH,
  stepHealth,
  type HealthEffect,
  type HealthEvent,
  type SourceHealth,
  type StreamEnd,
} from './source-health.js';
import type { PublishingRights } from './published-name.js';
import { PORTION_BYTES } from './response-portions.js';
import { SourceContents, type Listener } from './source-contents.js';
import { SotwStream } from './sotw-stream.js';
import type { Source, SourceFacts } from './source.js';
import type {
  ReceivedResponse,
  ResponseTimes,
  ResponseOutcome,
  SourceStream,
  StreamRequest,
} from './source-stream.js';
import { isKnownType, TypeTrials } from './type-trials.js';
import { TokenBucket } from './token-bucket.js';
import { soonestOf } from '../soonest.js';

/** Requests that are taken together. The transport says after each one whether it takes more. A count. */
const MAX_REQUESTS_AT_ONCE = 32;

export type ServerEffect =
  | HealthEffect
  /** Write this request on the stream of the present epoch. */
  | ({ readonly kind: 'send' } & StreamRequest)
  /** A response was accepted, wholly or in part. */
  | {
      readonly kind: 'received';
      readonly typeUrl: string;
      readonly outcome: ResponseOutcome;
      /** Its resource errors that do not mean "absent" (see `isDataError`). */
      readonly errors: readonly ResourceError[];
    }
  | ({ readonly kind: 'type_unserved' } & UnservedType)
  /** The source sent a message that is not a response: the shell ends the stream. */
  | { readonly kind: 'malformed'; readonly reason: string }
  /** Read nothing from the source until `resume`: a response is taken in portions. */
  | { readonly kind: 'pause' | 'resume' }
  /** The source does not read its requests: the shell ends the stream. */
  | { readonly kind: 'unread'; readonly reason: string };

/**
 * ACKs that wait because the source does not read. With more, the gateway ends the stream. Names need no
 * such bound: their changes merge while they wait. Bytes.
 */
const MAX_WAITING_ACK_BYTES = 1_024 * 1_024;

/** A stream that the gateway replaces is at least this old. Milliseconds. */
const RESTART_AFTER_MS = 10_000;
/** The gateway replaces a stream that remembers more types without subscriptions. Clients may invent types. A count. */
const MAX_LEFT_TYPES = 1_000;

/** A source whose resources had no room gets a new stream no sooner than this after the last. Milliseconds. */
const ROOM_AFTER_MS = 60_000;

export interface UnservedType {
  readonly typeUrl: string;
  readonly reason: string;
}

/** What the transport reports of an attempt beside its messages. */
export type AttemptEvent =
  /** The transport takes requests: the source is connected, or has read what `blocked` reported. */
  | { readonly kind: 'writable' }
  /** The source has left so many requests unread that the transport takes no more until `writable`. */
  | { readonly kind: 'blocked' }
  /** The server answered that it has nothing new (REST): it is alive, and says nothing about any name. */
  | { readonly kind: 'alive' }
  /** A server with one stream per type has no service for this one. */
  | ({ readonly kind: 'type_unserved' } & UnservedType)
  | { readonly kind: 'ended'; readonly end: StreamEnd };

export interface ManagementServerOptions extends PublishingRights {
  /** The bounds of the content that the gateway keeps of the source; default: none. */
  readonly contentLimits?: ContentLimits;
  /** The content of all sources together; default: a total of its own. */
  readonly contentTotal?: ContentTotal;
  readonly spec: GrpcSourceSpec;
  readonly id: string;
  readonly node: Uint8Array;
  readonly maxResourcesPerResponse: number;
  /** The portions in which a large response is taken; default: `PORTION_BYTES`. */
  readonly portionBytes?: number;
  /** In [0, 1). */
  readonly random: () => number;
  /**
   * The last epoch of the source that this one replaces; 0 without one. Late IO of the replaced
   * source then has an old epoch.
   */
  readonly lastEpoch: number;
  /** When the source that this one replaces was lost; undefined: there was none. */
  readonly lostSinceMs?: number | undefined;
  /** May its stream start now? If not, `handleAdmitted` follows. @param isKnown it was live before */
  readonly mayStart?: (isKnown: boolean, nowMs: number) => boolean;
  /** Its stream has started, failed, or is no longer wanted. */
  readonly onStartEnded?: () => void;
  /** Called after each input that may give this machine effects, new facts or a new deadline. */
  readonly onInput?: () => void;
}

export class ManagementServer implements Source {
  readonly contents: SourceContents;
  #options: ManagementServerOptions;
  readonly #stream: SourceStream;
  /** `rate_limit_settings`: one bucket for all successive streams, and ACKs take tokens too. */
  readonly #tokens: TokenBucket | undefined;
  readonly #trials: TypeTrials;
  #health: SourceHealth;
  #wasLive = false;
  #lostSinceMs: number | undefined;
  #effects: ServerEffect[] = [];
  #hasMore = false;
  /** Known types that have skipped a backoff without regard to the last nudge. */
  readonly #skipped = new Set<string>();
  /** The transport takes requests. */
  #isWritable = false;
  #isPaused = false;
  /** The stream takes no more requests: it ended, and its last messages are still being taken, or the shell ends it. */
  #isOver = false;
  /** What came from the source while portions of a response were left, in order. */
  readonly #behind = new Fifo<(nowMs: number) => void>();
  /** When to look for room for what was refused; undefined: nothing was refused for lack of room. */
  #lookForRoomMs: number | undefined;
  /** Groups that keep the source connected without subscriptions (`prewarm: connected`). */
  readonly #warmedFor = new Set<Listener>();

  constructor(options: ManagementServerOptions) {
    this.#options = options;
    this.#health = { ...INITIAL_HEALTH, epoch: options.lastEpoch };
    this.#lostSinceMs = options.lostSinceMs;
    const { rateLimit } = options.spec;
    this.#tokens = rateLimit && new TokenBucket(rateLimit);
    const { apiType, timers, resume, nodeIn } = options.spec;
    this.#trials = new TypeTrials(timers.refusedRetryMs);
    const isSotw = apiType !== 'AGGREGATED_DELTA_GRPC' && apiType !== 'DELTA_GRPC';
    const { contentLimits, contentTotal } = options;
    const budget = new ContentBudget(contentLimits, contentTotal);
    const flavour = isSotw ? 'state of the world' : 'delta';
    this.contents = new SourceContents(flavour, budget, this.takesParameters);
    const streamOptions = {
      portionBytes: PORTION_BYTES,
      mayRequest: (typeUrl: string) => this.#trials.mayRequest(typeUrl),
      ...options,
      isPerType: apiType === 'DELTA_GRPC' || apiType === 'GRPC',
      // A server without streams remembers no request.
      nodeInEveryRequest: nodeIn === 'every_request' || apiType === 'REST',
      resume,
      maxNamesPerRequest: rateLimit ? Infinity : MAX_NAMES_PER_REQUEST,
      resourceTimeoutMs: timers.resourceTimeoutMs,
      quietResumeMs: timers.firstResponseTimeoutMs,
    };
    const Stream = isSotw ? SotwStream : DeltaStream;
    this.#stream = new Stream(this.contents, streamOptions);
  }

  get name(): string {
    return this.#options.spec.name;
  }

  get id(): string {
    return this.#options.id;
  }

  /** A reload gave the source another name. @param spec equal except for the name */
  rename(spec: GrpcSourceSpec, id: string): void {
    this.#options = { ...this.#options, spec, id };
  }

  get spec(): GrpcSourceSpec {
    return this.#options.spec;
  }

  get takesParameters(): boolean {
    return this.spec.dynamicParameters === 'forward';
  }

  /** The encoded Node of its stream. */
  get node(): Uint8Array {
    return this.#options.node;
  }

  get health(): SourceHealth {
    return this.#health;
  }

  facts(): SourceFacts {
    const health = this.#health;
    const live = health.kind === 'live';
    const facts = {
      live,
      liveSinceMs: live ? health.sinceMs : 0,
      wellSinceMs: health.wellSinceMs,
      tripped: health.tripped !== null,
      ...(this.#lostSinceMs === undefined ? {} : { lostSinceMs: this.#lostSinceMs }),
    };
    if (health.kind === 'connecting') {
      const isOwed = (): boolean => this.#stream.owesResponse();
      return { ...facts, attempt: { sinceMs: health.sinceMs, isOwed } };
    }
    const isDue = health.kind === 'waiting' && health.wanted;
    return isDue ? { ...facts, retryAtMs: health.retryAtMs } : facts;
  }

  answersInParts(typeUrl: string, glob: ResourceName): boolean {
    const subscription = this.contents.subscription(typeUrl, glob);
    return subscription === undefined || !this.#stream.answersAtOnce(subscription);
  }

  subscribe(typeUrl: string, name: ResourceName, listener: Listener, nowMs: number): void {
    const added = this.contents.subscribe(typeUrl, name, listener);
    if (!added) return;
    if (this.#isOpen()) this.#trials.handleWanted(typeUrl, nowMs);
    this.#stream.handleSubscribed(added, nowMs);
    const refusal = this.#trials.refusal(typeUrl);
    if (refusal) this.contents.timeOut(added, refusal);
    this.#restartIfNeeded(nowMs);
    this.#noteInput();
    this.#updateWanted(nowMs);
    // The source may have ended its streams because of other types; their backoff must not delay this type.
    if (this.#isFirstUndoubted(typeUrl)) this.#skipBackoff(typeUrl, nowMs);
  }

  /** A made-up type may have used up the rate of nudges. So the first name of each known type skips the rate limit; further names do not. */
  #skipBackoff(typeUrl: string, nowMs: number): void {
    const skipsRateLimit = isKnownType(typeUrl) && !this.#skipped.has(typeUrl);
    if (skipsRateLimit) this.#skipped.add(typeUrl);
    this.#step({ kind: 'nudge', skipsRateLimit }, nowMs);
  }

  #isFirstUndoubted(typeUrl: string): boolean {
    if (this.#health.kind !== 'waiting' || !this.#trials.mayRequest(typeUrl)) return false;
    const others = [...this.contents.types()].filter((other) => other !== typeUrl);
    return others.length > 0 && others.every((other) => !this.#trials.mayRequest(other));
  }

  unsubscribe(typeUrl: string, name: ResourceName, listener: Listener, nowMs: number): void {
    const left = this.contents.unsubscribe(typeUrl, name, listener);
    if (!left) return;
    this.#stream.handleUnsubscribed(left, nowMs);
    this.#noteInput();
    this.#updateWanted(nowMs);
  }

  setWarmed(warmed: boolean, listener: Listener, nowMs: number): void {
    if (warmed) this.#warmedFor.add(listener);
    else this.#warmedFor.delete(listener);
    this.#updateWanted(nowMs);
  }

  askAgain(typeUrl: string, name: ResourceName, nowMs: number): void {
    const subscription = this.contents.subscription(typeUrl, name);
    if (!subscription) return;
    if (this.#health.kind === 'live') {
      this.#stream.handleAskedAgain(subscription);
      this.#noteInput();
    } else this.nudge(nowMs);
  }

  nudge(nowMs: number): void {
    this.#step({ kind: 'nudge' }, nowMs);
  }

  /** Its stream may start now. */
  handleAdmitted(nowMs: number): void {
    this.#step({ kind: 'admitted' }, nowMs);
  }

  /** The credential files of the source changed since the last attempt. */
  handleCredentialsChanged(nowMs: number): void {
    this.#step({ kind: 'credentials_changed' }, nowMs);
  }

  /** Ends the stream: the source is no longer used. */
  close(reason: string): void {
    if (this.#isOpen()) this.#effects.push({ kind: 'hang_up', reason });
    this.contents.budget.close();
    this.#health = { ...INITIAL_HEALTH, epoch: this.#health.epoch };
    this.#options.onStartEnded?.();
    this.#noteInput();
  }

  handleMessage(epoch: number, bytes: Uint8Array, nowMs: number): void {
    if (this.isMidResponse) {
      this.#behind.push((atMs) => {
        this.#takeMessage(epoch, bytes, { nowMs: atMs, arrivedMs: nowMs });
      });
    } else this.#takeMessage(epoch, bytes, { nowMs, arrivedMs: nowMs });
  }

  #takeMessage(epoch: number, bytes: Uint8Array, times: ResponseTimes): void {
    const { nowMs } = times;
    if (epoch !== this.#health.epoch || !this.#isOpen()) return;
    this.#noteRead(this.#stream.handleMessage(bytes, times), nowMs);
  }

  /** See `Source.isComparing`. */
  get isComparing(): boolean {
    return this.#stream.isComparing === true;
  }

  /** Portions of a response are left, or what came behind it. Call `continueResponse` soon. */
  get isMidResponse(): boolean {
    return this.#stream.inPortions.isMidResponse || this.#behind.first !== undefined;
  }

  /** Reads the next portion of a response, or what came behind it. */
  continueResponse(nowMs: number): void {
    if (!this.#stream.inPortions.isMidResponse) {
      this.#behind.shift()?.(nowMs);
      this.#updatePaused();
      return;
    }
    try {
      this.#noteRead(this.#stream.inPortions.continue(nowMs), nowMs);
    } catch (error) {
      // Without an ACK the source would wait for ever.
      this.#endStream({ kind: 'malformed', reason: 'internal error' });
      this.#noteInput();
      throw error;
    }
  }

  /** @param read a response, or why it is none; undefined: portions of it are left */
  #noteRead(read: Decoded<ReceivedResponse> | undefined, nowMs: number): void {
    if (read?.ok === false) {
      this.#endStream({ kind: 'malformed', reason: read.reason });
      this.#updatePaused();
      return;
    }
    if (read) {
      const { typeUrl, outcome } = read.message;
      const errors = read.message.errors.filter(({ status }) => !isDataError(status));
      this.#trials.handleAnswered(typeUrl);
      this.#effects.push({ kind: 'received', typeUrl, outcome, errors });
    }
    this.#updatePaused();
    if (!this.#stream.inPortions.isDecoded) return;
    this.#step({ kind: 'first_response' }, nowMs);
    if (this.contents.unroomed.resources > 0) this.#lookForRoomMs ??= nowMs + ROOM_AFTER_MS;
    this.#restartIfNeeded(nowMs);
    this.#endIfUnread();
  }

  /** The transport reads no more from the source while a response is read in portions. */
  #updatePaused(): void {
    const isPaused = this.isMidResponse;
    if (isPaused !== this.#isPaused) this.#effects.push({ kind: isPaused ? 'pause' : 'resume' });
    this.#isPaused = isPaused;
    this.#noteInput();
  }

  /** `rate_limit_settings` may hold back ACKs too, for a source that sends faster than it wants ACKs. */
  #endIfUnread(): void {
    if (this.#stream.ackBytes <= MAX_WAITING_ACK_BYTES) return;
    const reason = `over ${MAX_WAITING_ACK_BYTES} bytes of ACKs wait for the source to read them`;
    this.#endStream({ kind: 'unread', reason });
  }

  /** The shell ends the stream, and reports that it ended. */
  #endStream(effect: ServerEffect): void {
    this.#effects.push(effect);
    this.#isOver = true;
  }

  /** The transport reports something else than a message. */
  handleAttemptEvent(epoch: number, event: AttemptEvent, nowMs: number): void {
    if (epoch !== this.#health.epoch) return;
    switch (event.kind) {
      case 'writable':
        this.#isWritable = true;
        this.#noteInput();
        return;
      case 'blocked':
        this.#isWritable = false;
        return;
      case 'alive':
        if (this.#health.kind === 'connecting') this.#step({ kind: 'first_response' }, nowMs);
        return;
      case 'type_unserved':
        if (this.#isOpen()) this.#handleTypeUnserved(event);
        return;
      case 'ended':
        if (this.isMidResponse) {
          this.#isOver = true;
          this.#behind.push((atMs) => {
            this.#handleEnded(epoch, event.end, atMs);
          });
        } else this.#handleEnded(epoch, event.end, nowMs);
    }
  }

  #handleEnded(epoch: number, end: StreamEnd, nowMs: number): void {
    if (epoch !== this.#health.epoch || !this.#isOpen()) return;
    if (this.#health.kind === 'connecting' && isExhausted(end)) this.#stream.handleExhausted();
    const verdict = this.#trials.handleEnded(end, this.#health.kind === 'live', nowMs);
    this.#stream.handleEnded();
    const { code, message } = end;
    const seen: StreamEnd = verdict.isExplained ? { code, message, detectedBy: 'type' } : end;
    this.#step({ kind: 'ended', end: seen }, nowMs);
    const { refused } = verdict;
    if (refused === undefined) return;
    this.#effects.push({ kind: 'type_unserved', typeUrl: refused, reason: message });
    this.#timeOutRefused(refused);
  }

  /** The names of a refused type get no request, and so no other answer. */
  #timeOutRefused(typeUrl: string): void {
    const status = this.#trials.refusal(typeUrl);
    if (status) this.#timeOutAll(typeUrl, status);
  }

  #timeOutAll(typeUrl: string, status: RpcStatus): void {
    for (const one of [...this.contents.subscriptions(typeUrl)]) this.contents.timeOut(one, status);
    this.#noteInput();
  }

  #handleTypeUnserved({ typeUrl, reason }: UnservedType): void {
    this.#effects.push({ kind: 'type_unserved', typeUrl, reason });
    this.#timeOutAll(typeUrl, { code: STATUS_CODE.unimplemented, message: reason });
  }

  handleTimer(nowMs: number): void {
    // A heartbeat, or the answer of a name, may wait behind the response (seed 21026).
    if (!this.isMidResponse) {
      this.contents.expire(nowMs);
      this.#stream.handleTimer(nowMs);
    }
    this.#restartIfNeeded(nowMs);
    this.#restartIfRoom(nowMs);
    const isLive = this.#health.kind === 'live';
    const tried = this.#trials.handleTimer(this.contents.types(), isLive, nowMs);
    if (tried !== undefined) {
      this.contents.reopen(tried);
      this.#stream.handleReleased(tried);
    }
    this.#step({ kind: 'timer' }, nowMs);
  }

  nextDeadlineMs(): number | undefined {
    return soonestOf(
      healthDeadlineMs(this.#health, this.#options.spec.timers),
      ...(this.isMidResponse ? [] : this.#contentDeadlines()),
      this.#tokenDeadlineMs(),
    );
  }

  #contentDeadlines(): readonly (number | undefined)[] {
    const { nextExpiryMs } = this.contents;
    if (!this.#isOpen()) return [nextExpiryMs];
    const streamMs = this.#stream.nextDeadlineMs();
    const isLive = this.#health.kind === 'live';
    const trialMs = isLive ? this.#trials.nextDeadlineMs : undefined;
    return [nextExpiryMs, streamMs, this.#lookForRoomMs, this.#mayRestartFromMs(), trialMs];
  }

  get #mayWrite(): boolean {
    return this.#isWritable && !this.#isOver && this.#isOpen();
  }

  #tokenDeadlineMs(): number | undefined {
    return this.#mayWrite && this.#stream.hasRequest ? this.#tokens?.nextTokenMs : undefined;
  }

  /** After `takeEffects`: it left requests, which wait until the others are performed: the transport may take no more. */
  get hasMore(): boolean {
    return this.#hasMore;
  }

  /**
   * The effects to perform now, including requests; empty when none are left. Without a token, or while
   * the transport takes none, no request is polled, so the names that come meanwhile merge into one
   * request. An attempt that does not connect costs none: with the versions of 20,000 names, one takes
   * some 30 ms.
   */
  takeEffects(nowMs: number): readonly ServerEffect[] {
    const mayWrite = this.#mayWrite;
    let room = MAX_REQUESTS_AT_ONCE;
    while (mayWrite && room-- > 0 && (this.#tokens?.nextTokenMs ?? nowMs) <= nowMs) {
      const request = this.#stream.pollRequest(nowMs);
      if (!request) break;
      this.#tokens?.take(nowMs);
      this.#trials.handleRequested(request.typeUrl, nowMs);
      this.#effects.push({ kind: 'send', ...request });
    }
    this.#hasMore = room < 0;
    if (this.#effects.length === 0) return [];
    const taken = this.#effects;
    this.#effects = [];
    return taken;
  }

  #restartIfNeeded(nowMs: number): void {
    const reason = this.#restartReason();
    if (reason !== undefined && nowMs >= (this.#mayRestartFromMs() ?? Infinity)) {
      this.#restart(reason, nowMs);
    }
  }

  /** Why the stream must be replaced; undefined: it need not. */
  #restartReason(): string | undefined {
    if (this.#stream.mustRestart) return 'only a new stream makes the source send a name again';
    const left = this.#stream.typeCount - this.contents.typeCount;
    return left > MAX_LEFT_TYPES
      ? `the source remembers ${left} types without subscriptions`
      : undefined;
  }

  /**
   * The earliest time at which the gateway may replace the stream. Undefined: it need not, or the first
   * response has not come (the deadline of the stream covers that). The delay keeps a client that toggles a wildcard from
   * causing many streams.
   */
  #mayRestartFromMs(): number | undefined {
    if (this.#restartReason() === undefined || this.#health.kind !== 'live') return undefined;
    return this.#health.sinceMs + RESTART_AFTER_MS;
  }

  /** A source does not repeat what was refused, as long as it does not change. On a new stream it does. */
  #restartIfRoom(nowMs: number): void {
    const lookMs = this.#lookForRoomMs;
    if (lookMs === undefined || nowMs < lookMs || this.isMidResponse) return;
    const { unroomed, budget } = this.contents;
    this.#lookForRoomMs = unroomed.resources > 0 ? nowMs + ROOM_AFTER_MS : undefined;
    if (this.#lookForRoomMs === undefined || this.#health.kind !== 'live') return;
    if (budget.hasRoomFor(unroomed))
      this.#restart('resources were refused, and there is room', nowMs);
  }

  #restart(reason: string, nowMs: number): void {
    this.#effects.push({ kind: 'hang_up', reason });
    this.#stream.handleEnded();
    this.#step({ kind: 'ended', end: { code: 0, message: reason, detectedBy: 'gateway' } }, nowMs);
  }

  #isOpen(): boolean {
    return this.#health.kind === 'connecting' || this.#health.kind === 'live';
  }

  #updateWanted(nowMs: number): void {
    const wanted = this.#warmedFor.size > 0 || this.contents.subscriptionCount > 0;
    if (wanted !== this.#health.wanted) this.#step({ kind: 'want', wanted }, nowMs);
  }

  #step(event: HealthEvent, nowMs: number): void {
    const wasConnecting = this.#health.kind === 'connecting';
    const wasStarting = isStarting(this.#health);
    const { state, effects } = stepHealth(this.#health, event, {
      timers: this.#options.spec.timers,
      nowMs,
      random: this.#options.random,
      owesResponse: () => this.#stream.owesResponse(),
      hasSubscriptions: () => this.contents.subscriptionCount > 0,
      mayStart: () => this.#options.mayStart?.(this.#wasLive, nowMs) ?? true,
    });
    this.#health = state;
    if (state.kind === 'live') this.#wasLive = true;
    if (wasStarting && !isStarting(state)) this.#options.onStartEnded?.();
    for (const effect of effects) {
      this.#effects.push(effect);
      if (effect.kind === 'up') this.#lostSinceMs = undefined;
      if (effect.kind === 'lost') this.#lostSinceMs ??= effect.livedMs === null ? undefined : nowMs;
      if (effect.kind === 'hang_up') this.#stream.handleEnded();
      if (effect.kind === 'dial') {
        this.#isWritable = false;
        this.#isPaused = false;
        this.#isOver = false;
        this.#behind.clear();
        this.#trials.handleOpened(this.contents.types(), nowMs);
        this.#stream.handleOpened();
        for (const typeUrl of this.contents.types()) this.#timeOutRefused(typeUrl);
      }
    }
    const quietResume = event.kind === 'timer' && wasConnecting && state.kind === 'live';
    if (quietResume) this.#stream.handleQuietResume(nowMs);
    this.#noteInput();
  }

  #noteInput(): void {
    this.#options.onInput?.();
  }
}

/** gRPC servers report a request over their limit so. */
const isExhausted = ({ code, detectedBy }: StreamEnd): boolean =>
  code === STATUS_CODE.resourceExhausted && detectedBy === 'stream';

const isStarting = ({ kind }: SourceHealth): boolean => kind === 'queued' || kind === 'connecting';
