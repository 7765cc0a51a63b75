/** The result of the latest reload of the authority map. */
import type { Metrics, PutGauge } from './metrics.js';

export type MapReload = 'applied' | 'unchanged' | 'refused';

export class MapReloads {
  readonly #metrics: Metrics;
  readonly #wallClock: () => number;
  #isSuccessful = true;
  #succeededAtMs: number;

  /**
   * The gateway starts with a valid map.
   *
   * @param wallClock Unix time in milliseconds
   */
  constructor(metrics: Metrics, wallClock: () => number) {
    this.#metrics = metrics;
    this.#wallClock = wallClock;
    this.#succeededAtMs = wallClock();
  }

  count(result: MapReload): void {
    this.#metrics.tally('tributary_map_reloads_total', result).count++;
    this.#isSuccessful = result !== 'refused';
    if (this.#isSuccessful) this.#succeededAtMs = this.#wallClock();
  }

  put(put: PutGauge): void {
    put('tributary_map_last_reload_successful', [], Number(this.#isSuccessful));
    const atSeconds = this.#succeededAtMs / 1_000;
    put('tributary_map_last_reload_success_timestamp_seconds', [], atSeconds);
  }
}
