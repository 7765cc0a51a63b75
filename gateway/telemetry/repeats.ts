/**
 * Limits the logging of repeated problems: each distinct problem is logged once per interval, with the
 * number of repetitions since the last line. Memory is bounded, since clients and sources choose the
 * texts.
 */

import { createHash } from 'node:crypto';
import { LineRate } from './line-rate.js';

/** Distinct problems of one peer. Beyond them its problems are only counted. */
const LINES_PER_PEER_AND_SECOND = 10;
const MAX_KEYS = 1_000;

interface Told {
  readonly atMs: number;
  withheld: number;
}

export class Repeats {
  readonly #intervalMs: number;
  readonly #told = new Map<string, Told>();
  readonly #rate = new LineRate(LINES_PER_PEER_AND_SECOND);
  #withheldTotal = 0;

  constructor(intervalMs: number) {
    this.#intervalMs = intervalMs;
  }

  get withheldTotal(): number {
    return this.#withheldTotal;
  }

  /** A line that something else withheld. */
  withhold(): void {
    this.#withheldTotal++;
  }

  /**
   * @param peer the client or source that caused the problem; absent: no peer can cause it
   * @returns undefined: do not log it now; else the number of repetitions since it was last logged.
   */
  tell(problem: string, nowMs: number, peer?: string): number | undefined {
    // Before the hash, which costs more than the rest.
    if (peer !== undefined && this.#rate.isSpent(peer, nowMs)) {
      this.#withheldTotal++;
      return undefined;
    }
    // Keep a hash: the text of a client or source may have megabytes.
    const key = createHash('sha256').update(problem).digest('base64');
    const told = this.#told.get(key);
    if (told && nowMs < told.atMs + this.#intervalMs) {
      told.withheld++;
      this.#withheldTotal++;
      return undefined;
    }
    if (peer !== undefined) this.#rate.take(peer, nowMs);
    // Keep the order of logging: above the bound, the problem that was logged longest ago goes.
    this.#told.delete(key);
    this.#told.set(key, { atMs: nowMs, withheld: 0 });
    if (this.#told.size > MAX_KEYS) {
      const [oldest] = this.#told.keys();
      if (oldest !== undefined) this.#told.delete(oldest);
    }
    return told?.withheld ?? 0;
  }
}
