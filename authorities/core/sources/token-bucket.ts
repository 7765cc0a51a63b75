/**
 * `rate_limit_settings` of a ConfigSource: so many requests at once, then so many per second. Kept as
 * one time instead of a number of tokens, so that the next token is due exactly when it says.
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

  /** From when on there is a token; in the past if there is one. */
  get nextTokenMs(): number {
    return this.#fullAtMs - this.#burstMs;
  }

  take(nowMs: number): void {
    this.#fullAtMs = Math.max(this.#fullAtMs, nowMs) + this.#tokenMs;
  }
}
