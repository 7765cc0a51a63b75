/**
 * The shell of load reports: performs the effects of their machine on the connections of the sources, and
 * passes IO events back with the number of their call. One timer. It decides nothing.
 */
import { STATUS_CODE } from '../protos/discovery.js';
import type { ResourceName } from '../protos/resource-name.js';
import {
  LoadReports,
  type LoadReporter,
  type LoadReportsView,
  type ReportedCluster,
  type SourceLoadEffect,
  type WantedLoads,
} from './core/load-reports/load-reports.js';
import type { LoadStreamEvent, SourceLoads } from './core/load-reports/source-loads.js';
import type { ManagementServer } from './core/sources/management-server.js';
import type { StreamEnd } from './core/sources/source-health.js';
import type { LoadCall, LoadCallHandlers } from './transport.js';

export interface LoadReportCallsOptions {
  readonly view: LoadReportsView;
  readonly maxEntriesPerSource: number;
  /** Opens a stream of load reports at a source. @returns undefined: it cannot. */
  readonly openCall: (source: string, handlers: LoadCallHandlers) => LoadCall | undefined;
  /** For logs and metrics, with the id of the source. Must not throw. */
  readonly onEvent: (source: string, event: LoadStreamEvent) => void;
  /** The gateway threw; the process continues. */
  readonly onError: (error: unknown) => void;
  /** Milliseconds, monotonic. */
  readonly clock: () => number;
}

/** A transport without load reports looks like a source without them. */
const NO_LOAD_REPORTS: StreamEnd = {
  code: STATUS_CODE.unimplemented,
  message: 'the transport has no load reports',
  detectedBy: 'stream',
};

/** Node.js fires longer timers at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export class LoadReportCalls {
  readonly #options: LoadReportCallsOptions;
  readonly #reports: LoadReports;
  /** The latest call of each source. */
  readonly #calls = new WeakMap<
    SourceLoads,
    { readonly number: number; readonly call: LoadCall }
  >();
  #timer: NodeJS.Timeout | undefined;
  #timerAtMs = Infinity;
  #pumping = false;
  #isClosed = false;
  /** Ended calls whose source has not ended them yet. */
  readonly #ending = new Set<LoadCall>();
  #onAllEnded: () => void = () => undefined;

  constructor(options: LoadReportCallsOptions) {
    this.#options = options;
    this.#reports = new LoadReports({ ...options, random: Math.random });
  }

  /** Number of clients with a stream of load reports. */
  get clientCount(): number {
    return this.#reports.clientCount;
  }

  /** Ids of the sources that ask for loads now, on a stream that exists. */
  get askingSources(): readonly string[] {
    return [...this.#reports.sources.values()].flatMap(({ isAsking, source }) =>
      isAsking ? [source.id] : [],
    );
  }

  open(reporter: LoadReporter): void {
    this.#guard((nowMs) => {
      this.#reports.open(reporter, nowMs);
    });
  }

  /**
   * @param goesOn these are further clusters of the report before; otherwise the report replaces the gauges of the last one
   * @returns the names of clusters that no source serves: their loads are dropped
   */
  report(
    reporter: LoadReporter,
    clusters: readonly ReportedCluster[],
    goesOn: boolean,
  ): readonly ResourceName[] {
    let unknown: readonly ResourceName[] = [];
    this.#guard((nowMs) => {
      unknown = this.#reports.report(reporter, clusters, goesOn, nowMs);
    });
    return unknown;
  }

  leave(reporter: LoadReporter): void {
    this.#guard((nowMs) => {
      this.#reports.close(reporter, nowMs);
    });
  }

  wanted(scope: string | undefined): WantedLoads {
    return this.#reports.wanted(scope, this.#options.clock());
  }

  /** The xDS stream of a source went up or down, or the source is gone. */
  handleSource(source: ManagementServer): void {
    // Without clients and loads there is nothing to do, and that is the usual case.
    if (this.#reports.clientCount === 0 && this.#reports.sources.size === 0) return;
    this.#guard((nowMs) => {
      this.#reports.handleSource(source, nowMs);
    });
  }

  handleMapChanged(): void {
    if (this.#reports.clientCount === 0 && this.#reports.sources.size === 0) return;
    this.#guard((nowMs) => {
      this.#reports.handleMapChanged(nowMs);
    });
  }

  /** Reports all waiting loads, ends all calls, and waits until the sources have ended them too. */
  async finish(withinMs: number): Promise<void> {
    this.#guard((nowMs) => {
      this.#reports.finish(nowMs);
    });
    clearTimeout(this.#timer);
    if (this.#ending.size === 0) return;
    await new Promise<void>((resolve) => {
      const late = setTimeout(resolve, withinMs);
      this.#onAllEnded = () => {
        clearTimeout(late);
        resolve();
      };
    });
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#isClosed = true;
  }

  /**
   * Runs an input: an exception in the gateway must not end the process, nor a client's stream or a
   * source's.
   */
  #guard(work: (nowMs: number) => void): void {
    try {
      work(this.#options.clock());
    } catch (error) {
      this.#options.onError(error);
    }
    this.#pump();
  }

  #pump(): void {
    // Performing an effect may produce the next input at once; the loop below handles it.
    if (this.#pumping || this.#isClosed) return;
    this.#pumping = true;
    try {
      for (;;) {
        const effects = this.#reports.takeEffects();
        for (const effect of effects) this.#perform(effect);
        const notified = this.#reports.takeNotified();
        for (const { onWanted } of notified) onWanted();
        if (effects.length === 0 && notified.length === 0) break;
      }
    } catch (error) {
      this.#options.onError(error);
    } finally {
      this.#pumping = false;
    }
    this.#armTimer();
  }

  #perform({ loads, effect }: SourceLoadEffect): void {
    switch (effect.kind) {
      case 'open':
        this.#open(loads, effect.call);
        return;
      case 'send':
        this.#callOf(loads, effect.call)?.send(effect.bytes, () => {
          this.#guard((nowMs) => {
            this.#reports.handleWritten(loads, effect.call, nowMs);
          });
        });
        return;
      case 'end':
        this.#end(loads, effect.call);
        return;
      case 'ended':
      case 'unimplemented':
        this.#calls.delete(loads);
        this.#options.onEvent(loads.source.id, effect);
        return;
      case 'asked':
      case 'reported':
      case 'refused':
        this.#options.onEvent(loads.source.id, effect);
    }
  }

  #open(loads: SourceLoads, number: number): void {
    const ended = (end: StreamEnd): void => {
      this.#guard((nowMs) => {
        this.#reports.handleEnded(loads, number, end, nowMs);
      });
    };
    const call = this.#options.openCall(loads.source.id, {
      onMessage: (bytes) => {
        this.#guard((nowMs) => {
          this.#reports.handleMessage(loads, number, bytes, nowMs);
        });
      },
      onEnd: ended,
    });
    if (call) this.#calls.set(loads, { number, call });
    else ended(NO_LOAD_REPORTS);
  }

  #end(loads: SourceLoads, number: number): void {
    const call = this.#callOf(loads, number);
    this.#calls.delete(loads);
    if (!call) return;
    this.#ending.add(call);
    call.end(() => {
      this.#ending.delete(call);
      if (this.#ending.size === 0) this.#onAllEnded();
    });
  }

  #callOf(loads: SourceLoads, number: number): LoadCall | undefined {
    const open = this.#calls.get(loads);
    return open?.number === number ? open.call : undefined;
  }

  #armTimer(): void {
    const nowMs = this.#options.clock();
    const dueMs = this.#reports.nextDeadlineMs(nowMs);
    if (dueMs === this.#timerAtMs) return;
    clearTimeout(this.#timer);
    this.#timerAtMs = dueMs;
    if (dueMs === Infinity) return;
    this.#timer = setTimeout(
      () => {
        this.#timerAtMs = Infinity;
        this.#guard((atMs) => {
          this.#reports.handleTimer(atMs);
        });
      },
      Math.min(Math.max(0, dueMs - nowMs) + 1, MAX_TIMER_MS),
    );
    this.#timer.unref();
  }
}
