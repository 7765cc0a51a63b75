/**
 * The requests of one peer: a token bucket that may be overdrawn. A request that came is handled; the
 * gateway reads the next one after the delay.
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

  /** What is used of the burst stays used. @param perSecond as for the constructor */
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

  /** The part of the burst that is used, from 0 to 1. */
  fullness(nowMs: number): number {
    return Math.min(1, Math.max(0, (this.#fullAtMs - nowMs) / this.#burstMs));
  }
}
