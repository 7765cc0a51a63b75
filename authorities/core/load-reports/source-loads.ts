/**
 * The load reports for one source: its sums, and the stream on which they are reported. The stream
 * exists while clients report loads, or loads wait for it, and the xDS stream of the source is live.
 *
 *   none ──needed, live──▶ open ──ended──▶ waiting ──retryAt──▶ open
 *                           └──UNIMPLEMENTED──▶ unimplemented, until the xDS stream reconnects
 *
 * A report counts as delivered when the transport has taken it: the protocol has no ACK, and a report that
 * is sent again may count twice. The counters of all other reports go back into the sums when the stream
 * breaks.
 */
import { STATUS_CODE } from '../../../protos/discovery.js';
import {
  decodeLoadStatsResponse,
  encodeLoadStatsRequest,
  withClientFeature,
} from '../../../protos/load-stats-codec.js';
import {
  SEND_ALL_CLUSTERS_FEATURE,
  type ClusterLoad,
  type LoadStatsResponse,
} from '../../../protos/load-stats.js';
import { backoffDelayMs } from '../sources/backoff.js';
import type { StreamEnd } from '../sources/source-health.js';
import type { ClientGauges } from './client-gauges.js';
import { LoadSums } from './load-sums.js';

/** The part of a management server that load reports use. */
export interface LoadSource {
  readonly id: string;
  /** The encoded Node of its stream. */
  readonly node: Uint8Array;
  readonly health: { readonly kind: string; readonly epoch: number };
}

export interface SourceLoadsOptions {
  readonly source: LoadSource;
  readonly maxEntries: number;
  /** In [0, 1). */
  readonly random: () => number;
}

/** Work for the shell, in order; `call` numbers the calls of one source. */
export type LoadEffect =
  | { readonly kind: 'open'; readonly call: number }
  | { readonly kind: 'send'; readonly call: number; readonly bytes: Uint8Array }
  /** End the call after all that was sent; it reports nothing from now on. */
  | { readonly kind: 'end'; readonly call: number }
  | LoadStreamEvent;

/** For telemetry. */
export type LoadStreamEvent =
  /** The source asks for loads, for the first time on this stream or anew. */
  | { readonly kind: 'asked'; readonly asked: LoadStatsResponse }
  | { readonly kind: 'reported'; readonly clusters: number }
  | { readonly kind: 'unimplemented' }
  | { readonly kind: 'ended'; readonly end: StreamEnd }
  /** Entries of clients that exceed a bound. */
  | { readonly kind: 'refused'; readonly entries: number };

type Call =
  | { readonly kind: 'none' }
  | { readonly kind: 'open'; readonly openedAtMs: number }
  | { readonly kind: 'waiting'; readonly retryAtMs: number }
  | { readonly kind: 'unimplemented' };

/** The loads that a source asked for. */
export interface LoadAsk {
  readonly response: LoadStatsResponse;
  /** Undefined: all. */
  readonly names: ReadonlySet<string> | undefined;
}

/** Bounds of the interval that a source asks for. gRPC's C core has the same minimum. Milliseconds. */
const MIN_INTERVAL_MS = 1_000;
const MAX_INTERVAL_MS = 3_600_000;

/** Names of clusters in one response of a source. */
const MAX_ASKED_CLUSTERS = 10_000;

/** Clients wait at most this long for the first response of a source. Milliseconds. */
const FIRST_ANSWER_WITHIN_MS = 2_000;

/** Before a new stream: the least delay, and the backoff that is added. Milliseconds. */
const RETRY_AFTER_MS = 500;
const RETRY_BASE_MS = 1_000;
const RETRY_MAX_MS = 30_000;

/** A stream that lived for less does not reset the backoff. Milliseconds. */
const MIN_STABLE_MS = 10_000;

/** Loads are split into messages of about this size: gRPC servers accept 4 MiB. Bytes. */
const MESSAGE_BYTES = 1_024 * 1_024;

export class SourceLoads {
  readonly source: LoadSource;
  readonly sums: LoadSums;
  readonly #random: () => number;
  /** The number of the latest call; IO of another one is late and ignored. */
  #callNumber = 0;
  #call: Call = { kind: 'none' };
  /**
   * The latest response. It outlives the stream: if a client were asked for less meanwhile, it would drop
   * its counts (Envoy).
   */
  #ask: LoadAsk | undefined;
  /** The source has responded on the present stream. */
  #isAnswered = false;
  #dueMs = 0;
  /** Of the xDS stream on which `#call` exists; undefined: the source is not live. */
  #epoch: number | undefined;
  #attempt = 0;
  /** Start of the time that the next report covers. */
  #sinceMs: number;
  /** Reports that the transport has not taken yet, and the start of the time that they cover. */
  #unwritten: { readonly sinceMs: number; readonly clusters: readonly ClusterLoad[] }[] = [];
  #hasClients = false;
  #effects: LoadEffect[] = [];

  constructor({ source, maxEntries, random }: SourceLoadsOptions, nowMs: number) {
    this.source = source;
    this.sums = new LoadSums({ maxEntries });
    this.#random = random;
    this.#sinceMs = nowMs;
  }

  /** The last request of the source for loads. */
  get ask(): LoadAsk | undefined {
    return this.#ask;
  }

  /** Whether it asks for loads on a stream that exists now. */
  get isAsking(): boolean {
    return this.#isAnswered;
  }

  /** Until when clients wait for the first response of the source; undefined: they do not. */
  get awaitedUntilMs(): number | undefined {
    if (this.#call.kind !== 'open' || this.#ask) return undefined;
    return this.#call.openedAtMs + FIRST_ANSWER_WITHIN_MS;
  }

  /** Nothing is left to do or to report. */
  get isIdle(): boolean {
    return !this.#hasClients && this.sums.isEmpty && this.#unwritten.length === 0;
  }

  /** Facts outside have changed: the source's xDS stream, or the presence of clients. */
  update(hasClients: boolean, nowMs: number): void {
    // The sums of a source without clients cover no time.
    if (hasClients && this.isIdle) this.#sinceMs = nowMs;
    this.#hasClients = hasClients;
    const { kind, epoch } = this.source.health;
    const live = kind === 'live' ? epoch : undefined;
    if (live !== this.#epoch) {
      // The end of the xDS stream took the call with it.
      this.#leave();
      this.#epoch = live;
      this.#attempt = 0;
    }
    this.#settle(nowMs);
  }

  /** Adds a client's load, under the names of this source. */
  add(load: ClusterLoad, gauges: ClientGauges): void {
    if (this.#call.kind === 'unimplemented' || !this.#isAsked(load.clusterName)) return;
    this.sums.add(load, this.#ask?.response.byEndpoint ?? true, gauges);
    const entries = this.sums.takeRefused();
    if (entries > 0) this.#effects.push({ kind: 'refused', entries });
  }

  handleMessage(call: number, bytes: Uint8Array, nowMs: number): void {
    if (!this.#isPresent(call)) return;
    const decoded = decodeLoadStatsResponse(bytes, MAX_ASKED_CLUSTERS);
    if (!decoded.ok) {
      const message = `unreadable response: ${decoded.reason}`;
      this.#effects.push({ kind: 'end', call });
      this.handleEnded(call, { code: STATUS_CODE.internal, message, detectedBy: 'stream' }, nowMs);
      return;
    }
    const { clusters, intervalMs: statedMs } = decoded.message;
    const intervalMs = Math.min(MAX_INTERVAL_MS, Math.max(MIN_INTERVAL_MS, statedMs));
    const response = { ...decoded.message, intervalMs };
    const isFirst = !this.#isAnswered;
    const names = clusters === 'all' ? undefined : new Set(clusters);
    this.#ask = { response, names };
    this.#isAnswered = true;
    this.#dueMs = isFirst ? nowMs + intervalMs : Math.min(this.#dueMs, nowMs + intervalMs);
    this.#effects.push({ kind: 'asked', asked: response });
  }

  /** The transport has taken the oldest message of the call. */
  handleWritten(call: number, nowMs: number): void {
    if (!this.#isPresent(call)) return;
    this.#unwritten.shift();
    this.#settle(nowMs);
  }

  handleEnded(call: number, end: StreamEnd, nowMs: number): void {
    if (!this.#isPresent(call) || this.#call.kind !== 'open') return;
    const livedMs = nowMs - this.#call.openedAtMs;
    const wasAnswered = this.#isAnswered;
    this.#leave();
    if (end.detectedBy === 'stream' && end.code === STATUS_CODE.unimplemented) {
      this.#call = { kind: 'unimplemented' };
      this.#ask = undefined;
      this.sums.clear();
      this.#effects.push({ kind: 'unimplemented' });
      return;
    }
    if (wasAnswered && livedMs >= MIN_STABLE_MS) this.#attempt = 0;
    const delayMs = backoffDelayMs(this.#attempt++, RETRY_BASE_MS, RETRY_MAX_MS, this.#random());
    this.#call = { kind: 'waiting', retryAtMs: nowMs + RETRY_AFTER_MS + delayMs };
    this.#effects.push({ kind: 'ended', end });
  }

  handleTimer(nowMs: number): void {
    if (this.#call.kind === 'waiting' && this.#call.retryAtMs <= nowMs) {
      this.#call = { kind: 'none' };
    }
    if (this.#isDue(nowMs)) this.#report(nowMs);
    this.#settle(nowMs);
  }

  nextDeadlineMs(): number | undefined {
    if (this.#call.kind === 'waiting') return this.#call.retryAtMs;
    // The next written message makes it due.
    return this.#call.kind === 'open' && this.#isAnswered && this.#unwritten.length === 0
      ? this.#dueMs
      : undefined;
  }

  /** The gateway stops: reports all waiting loads at once, and ends the call. */
  finish(nowMs: number): void {
    if (this.#call.kind !== 'open') return;
    if (this.#isAnswered && this.#unwritten.length === 0) this.#report(nowMs);
    this.#effects.push({ kind: 'end', call: this.#callNumber });
    this.#call = { kind: 'none' };
  }

  takeEffects(): readonly LoadEffect[] {
    if (this.#effects.length === 0) return [];
    const taken = this.#effects;
    this.#effects = [];
    return taken;
  }

  #isPresent(call: number): boolean {
    return this.#call.kind === 'open' && call === this.#callNumber;
  }

  /** Before its first response, the source may want any cluster. */
  #isAsked(clusterName: string): boolean {
    return this.#ask?.names?.has(clusterName) ?? true;
  }

  #isDue(nowMs: number): boolean {
    const isReady = this.#isAnswered && this.#unwritten.length === 0;
    return this.#call.kind === 'open' && isReady && this.#dueMs <= nowMs;
  }

  /** Opens a call that is needed, and ends one that is not. */
  #settle(nowMs: number): void {
    const isNeeded = !this.isIdle;
    if (this.#call.kind === 'none' && isNeeded && this.#epoch !== undefined) {
      this.#open(nowMs);
    } else if (this.#call.kind === 'open' && !isNeeded) {
      this.#effects.push({ kind: 'end', call: this.#callNumber });
      this.#leave();
    }
  }

  #open(nowMs: number): void {
    this.#callNumber++;
    this.#call = { kind: 'open', openedAtMs: nowMs };
    this.#effects.push({ kind: 'open', call: this.#callNumber });
    const node = withClientFeature(this.source.node, SEND_ALL_CLUSTERS_FEATURE);
    this.#send(encodeLoadStatsRequest({ node, clusters: [] }), nowMs, []);
  }

  #report(nowMs: number): void {
    /* c8 ignore next -- nothing is reported before the source has responded */
    if (!this.#ask) return;
    const { byEndpoint, intervalMs } = this.#ask.response;
    const sinceMs = this.#sinceMs;
    const isAsked = (name: string): boolean => this.#isAsked(name);
    const clusters = this.sums.take(nowMs - sinceMs, { isAsked, byEndpoint });
    this.#sinceMs = nowMs;
    this.#dueMs = nowMs + intervalMs;
    for (const { bytes, loads } of messagesOf(clusters)) this.#send(bytes, sinceMs, loads);
    this.#effects.push({ kind: 'reported', clusters: clusters.length });
  }

  #send(bytes: Uint8Array, sinceMs: number, clusters: readonly ClusterLoad[]): void {
    this.#unwritten.push({ sinceMs, clusters });
    this.#effects.push({ kind: 'send', call: this.#callNumber, bytes });
  }

  /** The call is over: counters that were not written wait for the next one. */
  #leave(): void {
    for (const { sinceMs, clusters } of this.#unwritten) {
      if (clusters.length > 0) this.#sinceMs = Math.min(this.#sinceMs, sinceMs);
      for (const load of clusters) this.sums.add(load, true, undefined);
    }
    this.#unwritten = [];
    this.#isAnswered = false;
    this.#call = { kind: 'none' };
  }
}

/** A report, split into messages; at least one, since an empty report also tells that time has passed. */
function messagesOf(
  clusters: readonly ClusterLoad[],
): readonly { readonly bytes: Uint8Array; readonly loads: readonly ClusterLoad[] }[] {
  const whole = encodeLoadStatsRequest({ node: undefined, clusters });
  if (whole.length <= MESSAGE_BYTES || clusters.length < 2) {
    return [{ bytes: whole, loads: clusters }];
  }
  const half = Math.ceil(clusters.length / 2);
  return [...messagesOf(clusters.slice(0, half)), ...messagesOf(clusters.slice(half))];
}
