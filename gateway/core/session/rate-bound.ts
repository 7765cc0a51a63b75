/** Token bucket: `perSecond` on average, with a burst of one second's worth. */
export class RateBound {
  readonly #perSecond: number;
  #left: number;
  #atMs: number | undefined;

  constructor(perSecond: number) {
    this.#perSecond = perSecond;
    this.#left = perSecond;
  }

  /** @returns whether the bucket had `count` tokens; if so, they are taken. */
  take(nowMs: number, count = 1): boolean {
    const passedMs = nowMs - (this.#atMs ?? nowMs);
    this.#atMs = nowMs;
    this.#left = Math.min(this.#perSecond, this.#left + (passedMs * this.#perSecond) / 1_000);
    if (this.#left < count) return false;
    this.#left -= count;
    return true;
  }

  /** Milliseconds until one token is available; call it after `take` returned false. */
  get waitMs(): number {
    return Math.max(1, ((1 - this.#left) * 1_000) / this.#perSecond);
  }
}
