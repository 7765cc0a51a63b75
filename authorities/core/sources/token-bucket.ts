/**
 * A burst of tokens, then a rate per second. The state is one time instead of a number of tokens, so
 * the time of the next token is exact.
 */
export interface TokenRate {
  /** The burst. */
  readonly maxTokens: number;
  readonly fillRatePerSecond: number;
}

export class TokenBucket {
  readonly #tokenMs: number;
  readonly #burstMs: number;
  /** When the bucket is full again. */
  #fullAtMs = -Infinity;

  constructor({ maxTokens, fillRatePerSecond }: TokenRate) {
    this.#tokenMs = 1_000 / fillRatePerSecond;
    this.#burstMs = maxTokens * this.#tokenMs;
  }

  /** When the next token is available; in the past if there is one now. */
  get nextTokenMs(): number {
    return this.#fullAtMs + this.#tokenMs - this.#burstMs;
  }

  /** @returns whether there were `count` tokens; if so they are taken. */
  take(nowMs: number, count = 1): boolean {
    const fullAtMs = Math.max(this.#fullAtMs, nowMs) + count * this.#tokenMs;
    if (fullAtMs - this.#burstMs > nowMs) return false;
    this.#fullAtMs = fullAtMs;
    return true;
  }
}
