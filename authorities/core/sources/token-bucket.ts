/**
 * `rate_limit_settings` of a ConfigSource: a burst of requests, then a rate per second. The state
 * is one time instead of a number of tokens, so the time of the next token is exact.
 */
import type { GrpcSourceSpec } from '../../../config/model.js';

export class TokenBucket {
  readonly #tokenMs: number;
  readonly #burstMs: number;
  /** When the bucket is full again. */
  #fullAtMs = -Infinity;

  constructor({ maxTokens, fillRatePerSecond }: NonNullable<GrpcSourceSpec['rateLimit']>) {
    this.#tokenMs = 1_000 / fillRatePerSecond;
    this.#burstMs = (maxTokens - 1) * this.#tokenMs;
  }

  /** When the next token is available; in the past if there is one now. */
  get nextTokenMs(): number {
    return this.#fullAtMs - this.#burstMs;
  }

  take(nowMs: number): void {
    this.#fullAtMs = Math.max(this.#fullAtMs, nowMs) + this.#tokenMs;
  }
}
