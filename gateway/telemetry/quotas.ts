/** Telemetry of quotas: refusals, and whether memory is short. */
import type { Logger } from 'pino';
import type { MemoryLevel } from '../core/quotas/memory-level.js';
import type { QuotaRefusal } from '../core/quotas/quotas.js';
import { say } from './log.js';
import type { Metrics } from './metrics.js';

/** A client can cause many refusals, so the gateway logs each kind once in this time. Milliseconds. */
const LOG_INTERVAL_MS = 60_000;

interface Told {
  readonly atMs: number;
  /** Refusals of this kind since then. */
  repeated: number;
}

export class QuotaTelemetry {
  readonly #log: Logger;
  readonly #metrics: Metrics;
  readonly #clock: () => number;
  /** By quota and scope: a fixed number of keys. */
  readonly #told = new Map<string, Told>();

  constructor(log: Logger, metrics: Metrics, clock: () => number) {
    this.#log = log;
    this.#metrics = metrics;
    this.#clock = clock;
  }

  handleRefused({ quota, scope, peer }: QuotaRefusal): void {
    this.#metrics.tally('tributary_quota_refusals_total', quota, scope).count++;
    const key = `${quota} ${scope}`;
    const told = this.#told.get(key);
    const nowMs = this.#clock();
    if (told && nowMs < told.atMs + LOG_INTERVAL_MS) {
      told.repeated++;
      return;
    }
    this.#told.set(key, { atMs: nowMs, repeated: 0 });
    const repeated = told?.repeated ?? 0;
    say(this.#log, 'quota_reached', { quota, scope, peer: peer, repeated });
  }

  handleLevel(level: MemoryLevel, fullness: number): void {
    say(this.#log, level === 'enough' ? 'memory_enough' : 'memory_short', {
      level,
      percent: Math.round(fullness * 100),
    });
  }
}
