/** The delay of the event loop in the current window of 5 s and the one before it. */
import { monitorEventLoopDelay, type IntervalHistogram } from 'node:perf_hooks';

const RESOLUTION_MS = 20;
const WINDOW_MS = 5_000;
const NANOSECONDS_PER_MS = 1_000_000;

export interface Lag {
  readonly p99Ms: number;
  readonly maxMs: number;
}

const NONE: Lag = { p99Ms: 0, maxMs: 0 };

export class LoopLag {
  readonly #histogram: IntervalHistogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  #before: Lag = NONE;
  #timer: NodeJS.Timeout | undefined;

  start(): void {
    this.#histogram.enable();
    this.#timer = setInterval(() => {
      this.#before = this.#present();
      this.#histogram.reset();
    }, WINDOW_MS);
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#histogram.disable();
  }

  recent(): Lag {
    const now = this.#present();
    return {
      p99Ms: Math.max(now.p99Ms, this.#before.p99Ms),
      maxMs: Math.max(now.maxMs, this.#before.maxMs),
    };
  }

  /** The histogram measures from tick to tick, so a loop without delay shows the resolution. */
  #present(): Lag {
    if (this.#histogram.count === 0) return NONE;
    const late = (nanoseconds: number): number =>
      Math.max(0, nanoseconds / NANOSECONDS_PER_MS - RESOLUTION_MS);
    return { p99Ms: late(this.#histogram.percentile(99)), maxMs: late(this.#histogram.max) };
  }
}
