/** Telemetry of quotas: refusals, and whether memory is short. */
import type { MemoryLevel } from '../core/quotas/memory-level.js';
import type { QuotaRefusal } from '../core/quotas/quotas.js';
import { say } from './log.js';
import type { Sinks } from './sinks.js';

export class QuotaTelemetry {
  readonly #sinks: Sinks;

  constructor(sinks: Sinks) {
    this.#sinks = sinks;
  }

  handleRefused({ quota, scope, peer }: QuotaRefusal): void {
    const { log, metrics, repeats, clock } = this.#sinks;
    metrics.tally('tributary_quota_refusals_total', quota, scope).count++;
    const repeated = repeats.tell(`quota_reached ${quota} ${scope}`, clock());
    if (repeated !== undefined) say(log, 'quota_reached', { quota, scope, peer, repeated });
  }

  handleLevel(level: MemoryLevel, fullness: number): void {
    say(this.#sinks.log, level === 'enough' ? 'memory_enough' : 'memory_short', {
      level,
      percent: Math.round(fullness * 100),
    });
  }
}
