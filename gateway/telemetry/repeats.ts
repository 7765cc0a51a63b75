/**
 * Problems that repeat: each distinct one is told once in an interval, and the next time with how
 * often it came meanwhile. Bounded, since peers choose the texts.
 */

import { createHash } from 'node:crypto';

const MAX_KEYS = 1_000;

interface Told {
  readonly atMs: number;
  withheld: number;
}

export class Repeats {
  readonly #intervalMs: number;
  readonly #told = new Map<string, Told>();
  #withheldTotal = 0;

  constructor(intervalMs: number) {
    this.#intervalMs = intervalMs;
  }

  get withheldTotal(): number {
    return this.#withheldTotal;
  }

  /** @returns how often it was withheld since it was last told, or undefined: not to be told now. */
  tell(problem: string, nowMs: number): number | undefined {
    // A peer's text may have megabytes; what is kept of it has not.
    const key = createHash('sha256').update(problem).digest('base64');
    const told = this.#told.get(key);
    if (told && nowMs < told.atMs + this.#intervalMs) {
      told.withheld++;
      this.#withheldTotal++;
      return undefined;
    }
    // Told last is kept last: when there are too many, the one that was quiet longest goes.
    this.#told.delete(key);
    this.#told.set(key, { atMs: nowMs, withheld: 0 });
    if (this.#told.size > MAX_KEYS) {
      const [oldest] = this.#told.keys();
      if (oldest !== undefined) this.#told.delete(oldest);
    }
    return told?.withheld ?? 0;
  }
}
