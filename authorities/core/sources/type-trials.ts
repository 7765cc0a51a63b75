/**
 * Which types may the gateway request from a source? Some control planes end the stream of a client that requests a type
 * which they do not serve (go-control-plane's MuxCache and LinearCache, istiod). Here one stream serves all clients, so any
 * of them could cut off the others. Bulk machine of one source.
 *
 *   new ──response──▶ trusted
 *    │                   ▲
 *    │                   └─────tried alone: the stream lives
 *    │                         │
 *    └──the stream ends soon──▶ doubted ──tried alone: the stream ends──▶ refused ──later──▶ doubted
 *
 * A trusted type is not doubted again. So the restart of a source delays nothing that the source serves.
 */
import type { RpcStatus } from '../../../protos/discovery.js';
import { STATUS_CODE } from '../../../protos/discovery.js';
import { TYPE_URL, typeRank } from '../../../protos/type-urls.js';
import { isRefusal, type StreamEnd } from './source-health.js';

/** A source that ends the stream for a request does so within a round trip and some work. */
const SOON_MS = 2_000;
/** A refused type is tried again after this time, which doubles with each verdict about it. */
const FIRST_RETRY_MS = 30_000;
/** Each trial may cost all clients the stream for a moment. After a verdict the next one waits; doubles with each verdict. */
const BETWEEN_TRIALS_MS = 10_000;
const BETWEEN_TRIALS_MAX_MS = 300_000;
/** In this time after a verdict, the gateway doubts each new type. */
const WARY_MS = 3_600_000;
/** Verdicts about types that no client requests any more, and trusted types. Clients may invent types. A count. */
const MAX_KEPT = 1_000;

/** Clients did not invent these. */
const KNOWN: ReadonlySet<string> = new Set(Object.values(TYPE_URL));

/** Whether the gateway knows the type, so that no client made it up. */
export const isKnownType = (typeUrl: string): boolean => KNOWN.has(typeUrl);

const OK = 0;

interface Doubt {
  /** The verdict; undefined: there is none. */
  readonly refusal: RpcStatus | undefined;
  readonly tryFromMs: number;
  readonly verdicts: number;
  /** Number of its trials without any response of the source. */
  silent: number;
}

interface Trial {
  readonly typeUrl: string;
  /** When it may be over. */
  readonly lookMs: number;
}

export class TypeTrials {
  readonly #retryMaxMs: number;
  /** Types that the source has answered, or that a stream survived; the newest last. */
  readonly #trusted = new Set<string>();
  /** By type: when the present stream requested it first, for types without any response so far. */
  readonly #requestedMs = new Map<string, number>();
  readonly #doubts = new Map<string, Doubt>();
  #trial: Trial | undefined;
  /** When a subscribed type may be due for its trial; -Infinity: look. */
  #lookMs = Infinity;
  /** First verdicts about a type, and the time of the last one. */
  #verdicts = 0;
  #lastVerdictMs = -Infinity;
  /** When a stream ended because of a type. */
  #lastEndMs = -Infinity;

  /** @param retryMaxMs the longest time until a refused type is tried again */
  constructor(retryMaxMs: number) {
    this.#retryMaxMs = retryMaxMs;
  }

  mayRequest(typeUrl: string): boolean {
    return !this.#doubts.has(typeUrl) || this.#trial?.typeUrl === typeUrl;
  }

  /** Why the source is not asked for a type; undefined: it is, or will be soon. */
  refusal(typeUrl: string): RpcStatus | undefined {
    return this.mayRequest(typeUrl) ? undefined : this.#doubts.get(typeUrl)?.refusal;
  }

  /** A stream begins. @param wanted the subscribed types */
  handleOpened(wanted: Iterable<string>, nowMs: number): void {
    const types = new Set(wanted);
    this.#forgetUnwanted(types);
    this.#requestedMs.clear();
    this.#trial = undefined;
    this.#lookMs = Infinity;
    for (const typeUrl of types) this.handleWanted(typeUrl, nowMs);
    // Otherwise nothing would show that the source responds.
    if ([...types].every((typeUrl) => !this.mayRequest(typeUrl))) this.#tryNext(types, nowMs);
  }

  #forgetUnwanted(wanted: ReadonlySet<string>): void {
    const unwanted = [...this.#doubts].filter(([typeUrl]) => !wanted.has(typeUrl));
    const verdicts = unwanted.filter(([, { refusal }]) => refusal !== undefined);
    const kept = new Set(verdicts.slice(-MAX_KEPT).map(([typeUrl]) => typeUrl));
    for (const [typeUrl] of unwanted) if (!kept.has(typeUrl)) this.#doubts.delete(typeUrl);
  }

  /** A name of this type is subscribed. */
  handleWanted(typeUrl: string, nowMs: number): void {
    const isWary = nowMs < this.#lastVerdictMs + WARY_MS;
    const isNew = !this.#trusted.has(typeUrl) && !this.#requestedMs.has(typeUrl);
    if (isWary && isNew) this.#doubt(typeUrl, nowMs);
    const doubt = this.#doubts.get(typeUrl);
    if (doubt) this.#lookMs = Math.min(this.#lookMs, doubt.tryFromMs);
  }

  handleRequested(typeUrl: string, nowMs: number): void {
    if (this.#trusted.has(typeUrl) || this.#requestedMs.has(typeUrl)) return;
    this.#requestedMs.set(typeUrl, nowMs);
  }

  /** A response of this type came. */
  handleAnswered(typeUrl: string): void {
    if (!this.#requestedMs.delete(typeUrl)) return;
    this.#acquit(typeUrl);
  }

  /**
   * @param isLive the stream has had a response
   * @returns whether a type explains the end, so that it says nothing about the health of the source; and the type that is
   *   refused from now on
   */
  handleEnded(
    end: StreamEnd,
    isLive: boolean,
    nowMs: number,
  ): { isExplained: boolean; refused?: string } {
    // Its trial had no response. If another type has one, the source is well.
    const doubt = this.#doubts.get(this.#trial?.typeUrl ?? '');
    if (!isLive && doubt) doubt.silent++;
    if (!this.#mayBlameType(end, isLive)) return { isExplained: false };
    const soon = [...this.#requestedMs].filter(([, atMs]) => nowMs < atMs + SOON_MS);
    const [only, ...more] = soon.map(([typeUrl]) => typeUrl);
    if (only === undefined) return { isExplained: false };
    // A source that goes away ends its streams with UNAVAILABLE too, so that explains nothing, unless it comes a second time.
    const isCertain = end.code !== STATUS_CODE.unavailable || this.#trial?.typeUrl === only;
    if (isLive && isCertain && more.length === 0) {
      this.#convict(only, end, nowMs);
      return { isExplained: true, refused: only };
    }
    const before = this.#doubts.size;
    const inOrder = [only, ...more].sort((a, b) => typeRank(a) - typeRank(b));
    for (const typeUrl of inOrder) this.#doubt(typeUrl, nowMs);
    return { isExplained: isCertain && this.#doubts.size > before };
  }

  /**
   * A source that ends its streams in good order refuses nothing. An attempt without a response ends with UNAVAILABLE also if
   * the source cannot be reached, and with a refusal if it refuses the gateway.
   */
  #mayBlameType(end: StreamEnd, isLive: boolean): boolean {
    if (end.detectedBy !== 'stream' || end.code === OK) return false;
    if (isLive) return true;
    return end.code !== STATUS_CODE.unavailable && (!isRefusal(end) || this.#trusted.size > 0);
  }

  #doubt(typeUrl: string, nowMs: number): void {
    if (this.#doubts.has(typeUrl)) return;
    this.#doubts.set(typeUrl, { refusal: undefined, tryFromMs: nowMs, verdicts: 0, silent: 0 });
  }

  #convict(typeUrl: string, { code, message }: StreamEnd, nowMs: number): void {
    const verdicts = (this.#doubts.get(typeUrl)?.verdicts ?? 0) + 1;
    const retryMs = Math.min(FIRST_RETRY_MS * 2 ** (verdicts - 1), this.#retryMaxMs);
    const refusal = {
      code: STATUS_CODE.unavailable,
      message: `the source ends each stream that requests this type, with status ${code}: ${message}`,
    };
    this.#doubts.delete(typeUrl);
    this.#doubts.set(typeUrl, { refusal, tryFromMs: nowMs + retryMs, verdicts, silent: 0 });
    this.#lastEndMs = nowMs;
    // The next verdict about the same type shows nothing about other types.
    if (verdicts > 1) return;
    this.#verdicts = nowMs < this.#lastVerdictMs + WARY_MS ? this.#verdicts + 1 : 1;
    this.#lastVerdictMs = nowMs;
  }

  #acquit(typeUrl: string): void {
    this.#trusted.add(typeUrl);
    this.#forgetTrusted();
    this.#doubts.delete(typeUrl);
    if (this.#trial?.typeUrl === typeUrl) this.#trial = undefined;
  }

  #forgetTrusted(): void {
    for (const typeUrl of this.#trusted) {
      if (this.#trusted.size <= MAX_KEPT) break;
      if (!KNOWN.has(typeUrl)) this.#trusted.delete(typeUrl);
    }
  }

  /**
   * @param wanted the subscribed types
   * @param isLive the stream has had a response
   * @returns a type that may be requested from now on
   */
  handleTimer(wanted: Iterable<string>, isLive: boolean, nowMs: number): string | undefined {
    if (!isLive) return undefined;
    const types = new Set(wanted);
    if (this.#trial) this.#judge(this.#trial, types, nowMs);
    const isDue = !this.#trial && nowMs >= Math.max(this.#nextTrialMs, this.#lookMs);
    return isDue ? this.#tryNext(types, nowMs) : undefined;
  }

  /** A trial runs from the request, which may have to wait: for a token (`rate_limit_settings`), or until the source reads. */
  #judge({ typeUrl, lookMs }: Trial, wanted: ReadonlySet<string>, nowMs: number): void {
    if (nowMs < lookMs) return;
    const requestedMs = this.#requestedMs.get(typeUrl);
    if (requestedMs !== undefined && nowMs >= requestedMs + SOON_MS) this.#acquit(typeUrl);
    else if (requestedMs === undefined && !wanted.has(typeUrl)) this.#trial = undefined;
    else this.#trial = { typeUrl, lookMs: (requestedMs ?? nowMs) + SOON_MS };
  }

  /** Tries a type without a verdict first, and types that the gateway knows before invented ones. */
  #tryNext(wanted: ReadonlySet<string>, nowMs: number): string | undefined {
    const doubts = [...this.#doubts].filter(([typeUrl]) => wanted.has(typeUrl));
    const due = doubts.filter(([, { tryFromMs }]) => nowMs >= tryFromMs);
    const later = doubts.map(([, { tryFromMs }]) => tryFromMs).filter((atMs) => atMs > nowMs);
    this.#lookMs = Math.min(...later, Infinity);
    const [next] = due.sort(
      ([aType, a], [bType, b]) =>
        Number(a.verdicts > 0) - Number(b.verdicts > 0) ||
        a.silent - b.silent ||
        typeRank(aType) - typeRank(bType) ||
        Number(!KNOWN.has(aType)) - Number(!KNOWN.has(bType)),
    );
    if (!next) return undefined;
    this.#trial = { typeUrl: next[0], lookMs: nowMs + SOON_MS };
    this.#lookMs = -Infinity;
    return next[0];
  }

  get #nextTrialMs(): number {
    if (this.#verdicts === 0) return -Infinity;
    const waitMs = Math.min(BETWEEN_TRIALS_MS * 2 ** (this.#verdicts - 1), BETWEEN_TRIALS_MAX_MS);
    return this.#lastEndMs + waitMs;
  }

  /** When `handleTimer` is due on a live stream; undefined: no subscribed type is doubted. */
  get nextDeadlineMs(): number | undefined {
    if (this.#trial) return this.#trial.lookMs;
    const atMs = Math.max(this.#nextTrialMs, this.#lookMs);
    return this.#doubts.size === 0 || atMs === Infinity ? undefined : atMs;
  }
}
