/**
 * Bounds how long one kind of work may hold the event loop in one turn: what comes in a burst, as the
 * first requests of a thousand clients, is spread over several turns in its order. Without a burst the
 * work runs at once.
 */
import { Fifo } from './core/sources/fifo.js';

/** Longest turn, as in the fan-out: the maximum delay for other work of the event loop. */
const TURN_MS = 8;

/**
 * Work that may wait. Beyond that the burst is run at once, so that its sender is slowed down: the loop
 * reads no socket meanwhile. A count.
 */
const MAX_WAITING = 10_000;

export class Turns {
  readonly #waiting = new Fifo<() => void>();
  #waitingCount = 0;
  #usedMs = 0;
  #isScheduled = false;

  /** @param work must not throw. It runs now, or in a later turn after all work before it. */
  run(work: () => void): void {
    if (this.#waitingCount === 0 && this.#usedMs < TURN_MS) {
      this.#perform(work);
      return;
    }
    this.#waiting.push(work);
    this.#waitingCount++;
    if (this.#waitingCount > MAX_WAITING) this.#drain(Infinity);
    this.#schedule();
  }

  #perform(work: () => void): void {
    const startMs = performance.now();
    work();
    this.#usedMs += performance.now() - startMs;
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#usedMs = 0;
      this.#drain(TURN_MS);
    });
  }

  #drain(untilMs: number): void {
    while (this.#usedMs < untilMs) {
      const work = this.#waiting.shift();
      if (!work) return;
      this.#waitingCount--;
      this.#perform(work);
    }
  }
}
