/** So many a second on average, and a second's worth at once. */
export class RateBound {
  readonly #perSecond: number;
  #left: number;
  #atMs: number | undefined;

  constructor(perSecond: number) {
    this.#perSecond = perSecond;
    this.#left = perSecond;
  }

  /** @returns whether `count` more are within the bound. */
  take(nowMs: number, count = 1): boolean {
    const passedMs = nowMs - (this.#atMs ?? nowMs);
    this.#atMs = nowMs;
    this.#left = Math.min(this.#perSecond, this.#left + (passedMs * this.#perSecond) / 1_000);
    if (this.#left < count) return false;
    this.#left -= count;
    return true;
  }

  /** After a refusal: how long until one more is within the bound. */
  get waitMs(): number {
    return Math.max(1, ((1 - this.#left) * 1_000) / this.#perSecond);
  }
}
