/**
 * A client that polls one type: it sends a request again and again (Fetch, or REST), each with the
 * version that it holds, and each gets at most one response. Between two requests the names stay
 * subscribed, for the time of the lease, so that a request finds content that is already there.
 *
 * The contents are those of a state-of-the-world stream (`SotwSession`): a request that brings the
 * version of the last response is its ACK. Pure core, no IO.
 *
 * A request waits for its first content for a bounded time, because a response without it would say
 * that there is none. A request for known content that did not change is answered at once.
 */
import { STATUS_CODE, type RpcStatus, type SotwRequest } from '../../../protos/discovery.js';
import type { EncodedResponse } from '../cache/shared-responses.js';
import type { ClientScope } from '../session/asked-name.js';
import { SessionEvents } from '../session/session-events.js';
import type { SessionEvent, StreamSession, SubscriptionsView } from '../session/stream-session.js';
import type { SotwSession } from './sotw-session.js';

export interface PollSessionOptions {
  /** The session of the contents. It must not split responses. */
  readonly contents: SotwSession;
  /** How long a request waits for its first content. Milliseconds. */
  readonly waitMs: number;
  /** How long the names stay subscribed after the last request. Milliseconds. */
  readonly leaseMs: number;
  /** Called when there may be something to `poll`. */
  readonly onReady: () => void;
}

/**
 * The result of a request. `sent`: a response; `unchanged`: the client holds the latest content; `unknown`:
 * the gateway does not know the content yet.
 */
export type PollResult = 'sent' | 'unchanged' | 'unknown';

/** The request that waits for its result. */
interface Pending {
  readonly versionInfo: string;
  readonly untilMs: number;
}

const LEASE_ENDED: RpcStatus = { code: STATUS_CODE.cancelled, message: 'the client polls no more' };

export class PollSession implements StreamSession<SotwRequest> {
  readonly #options: PollSessionOptions;
  readonly #contents: SotwSession;
  #pending: Pending | undefined;
  #lastRequestMs = 0;
  /** The version that the client holds, if it got the last response; undefined before any request. */
  #clientVersion: string | undefined;
  #nonce = '';
  readonly #events = new SessionEvents();

  constructor(options: PollSessionOptions) {
    this.#options = options;
    this.#contents = options.contents;
  }

  get allSubscriptions(): readonly SubscriptionsView[] {
    return this.#contents.allSubscriptions;
  }

  get nameCount(): number {
    return this.#contents.nameCount;
  }

  get limit(): SotwSession['limit'] {
    return this.#contents.limit;
  }

  get scope(): ClientScope | undefined {
    return this.#contents.scope;
  }

  /**
   * May this session go on with a request for the same names? Not if the client holds another version
   * than was sent here: it lost or rejected the last response, or started anew.
   */
  goesOnWith(versionInfo: string): boolean {
    return this.#pending === undefined && versionInfo === this.#clientVersion;
  }

  handleRequest(request: SotwRequest, nowMs: number): RpcStatus | undefined {
    const { versionInfo } = request;
    this.#lastRequestMs = nowMs;
    this.#clientVersion ??= versionInfo;
    this.#pending = { versionInfo, untilMs: nowMs + this.#options.waitMs };
    // A polling client knows no nonces, since it has no stream.
    const own = { ...request, responseNonce: this.#nonce, errorDetail: undefined };
    const refusal = this.#contents.handleRequest(own, nowMs);
    this.#options.onReady();
    return refusal;
  }

  get isMidRequest(): boolean {
    return this.#contents.isMidRequest;
  }

  continueRequest(nowMs: number): RpcStatus | undefined {
    return this.#contents.continueRequest(nowMs);
  }

  handleRightsChanged(): void {
    this.#contents.handleRightsChanged();
  }

  /** The client does not wait for the response any more. Its next request goes on from here. */
  cancel(): void {
    this.#pending = undefined;
  }

  takeResponse(nowMs: number): EncodedResponse | undefined {
    const pending = this.#pending;
    if (!pending || this.isMidRequest) return undefined;
    const isOver = nowMs >= pending.untilMs;
    const isNew = this.#nonce === '';
    if (isNew && this.#contents.awaitsAnswers && !isOver) {
      this.#contents.putOff();
      return undefined;
    }
    const response = this.#contents.takeResponse(nowMs);
    const { lastResponse } = this.#contents;
    if (response && lastResponse) {
      this.#nonce = lastResponse.nonce;
      this.#clientVersion = lastResponse.versionInfo;
      const isSame = lastResponse.versionInfo === pending.versionInfo;
      this.#settle(isSame ? 'unchanged' : 'sent');
      return isSame ? undefined : response;
    }
    // A removal waits for a moment in which nothing is added, and a large set is prepared in portions.
    const isUnderWay = this.#contents.isPreparing || this.#contents.nextDeadlineMs !== undefined;
    if (!isOver && (isNew || isUnderWay)) return undefined;
    this.#settle(isNew ? 'unknown' : 'unchanged');
    return undefined;
  }

  #settle(result: PollResult): void {
    this.#pending = undefined;
    this.#events.add({ kind: 'polled', result });
  }

  get nextDeadlineMs(): number | undefined {
    if (!this.#pending || this.isMidRequest) return undefined;
    return Math.min(this.#contents.nextDeadlineMs ?? Infinity, this.#pending.untilMs);
  }

  /** Without ACKs: the time until the next request says nothing of how long the client took. */
  takeEvents(): readonly SessionEvent[] {
    const events = this.#contents.takeEvents().filter(({ kind }) => kind !== 'ack');
    const own = this.#events.take();
    return own.length === 0 ? events : [...events, ...own];
  }

  endStatus(nowMs: number): RpcStatus | undefined {
    if (this.#pending) return undefined;
    if (nowMs >= this.#lastRequestMs + this.#options.leaseMs) return LEASE_ENDED;
    // Names without room are asked for again by the next poll, which begins anew.
    return this.#contents.quotaEndStatus(nowMs);
  }

  close(nowMs: number): void {
    this.#pending = undefined;
    this.#contents.close(nowMs);
  }
}
