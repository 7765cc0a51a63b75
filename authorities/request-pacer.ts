/**
 * `rate_limit_settings` of a ConfigSource: a token bucket in front of its requests, in order.
 *
 * What waits here is encoded already and no longer merges, so a small limit under much churn of names
 * makes a long queue, with acknowledgements behind it. Asking the machine only when there is a token
 * would merge; that is not done yet.
 */
import type { GrpcSourceSpec } from '../config/model.js';

export class RequestPacer {
  readonly #limit: GrpcSourceSpec['rateLimit'];
  readonly #write: (bytes: Uint8Array) => void;
  #waiting: Uint8Array[] = [];
  #tokens: number;
  #filledAtMs = performance.now();
  #timer: NodeJS.Timeout | undefined;

  constructor(limit: GrpcSourceSpec['rateLimit'], write: (bytes: Uint8Array) => void) {
    this.#limit = limit;
    this.#write = write;
    this.#tokens = limit?.maxTokens ?? Infinity;
  }

  send(bytes: Uint8Array): void {
    this.#waiting.push(bytes);
    this.#drain();
  }

  /** The stream is gone, and with it what was to be said on it. */
  clear(): void {
    this.#waiting = [];
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #drain(): void {
    if (this.#limit) this.#refill(this.#limit);
    while (this.#tokens >= 1) {
      const next = this.#waiting.shift();
      if (!next) return;
      this.#tokens--;
      this.#write(next);
    }
    if (!this.#limit || this.#waiting.length === 0 || this.#timer) return;
    const waitMs = Math.ceil(((1 - this.#tokens) / this.#limit.fillRatePerSecond) * 1000);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#drain();
    }, waitMs);
    this.#timer.unref();
  }

  #refill({ maxTokens, fillRatePerSecond }: NonNullable<GrpcSourceSpec['rateLimit']>): void {
    const nowMs = performance.now();
    const gained = ((nowMs - this.#filledAtMs) / 1000) * fillRatePerSecond;
    this.#tokens = Math.min(maxTokens, this.#tokens + gained);
    this.#filledAtMs = nowMs;
  }
}
