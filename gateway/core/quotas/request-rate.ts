/**
 * The requests of one peer: a token bucket that may be overdrawn. A request on a stream is handled, and the
 * gateway reads the next one after the delay. A poll is a request by itself: while the bucket is overdrawn, it
 * is refused.
 */

/** The burst, in seconds of the rate. */
const BURST_SECONDS = 2;

export class RequestRate {
  #tokenMs = 0;
  #burstMs = 0;
  /** When the bucket is full again. */
  #fullAtMs = -Infinity;

  /** @param perSecond a count; Infinity: no bound */
  constructor(perSecond: number) {
    this.perSecond = perSecond;
  }

  /** The used part of the burst stays used. @param perSecond as for the constructor */
  set perSecond(perSecond: number) {
    this.#tokenMs = 1_000 / perSecond;
    this.#burstMs = perSecond === Infinity ? Infinity : BURST_SECONDS * 1_000;
  }

  /**
   * @param cost of a request that came, in tokens
   * @returns for how long the gateway reads nothing more of the peer. Milliseconds.
   */
  delayMs(nowMs: number, cost: number): number {
    this.#fullAtMs = Math.max(this.#fullAtMs, nowMs) + cost * this.#tokenMs;
    return Math.max(0, this.#fullAtMs - this.#burstMs - nowMs);
  }

  /**
   * Takes a poll, unless the bucket is overdrawn. A refused poll costs nothing.
   *
   * @param cost in tokens
   * @returns after how long the peer may poll again; 0: the poll was taken. Milliseconds.
   */
  takeOrWaitMs(nowMs: number, cost: number): number {
    const waitMs = this.delayMs(nowMs, 0);
    if (waitMs === 0) this.delayMs(nowMs, cost);
    return waitMs;
  }

  /** The part of the burst that is used, from 0 to 1. */
  fullness(nowMs: number): number {
    return Math.min(1, Math.max(0, (this.#fullAtMs - nowMs) / this.#burstMs));
  }
}
