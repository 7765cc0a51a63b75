/**
 * The clocks of one machine. The monotonic one starts anew with each process and goes a little too
 * fast or too slow; the time of day is anybody's guess, and is set while we run.
 */
import type { EventQueue } from './heap.js';
import type { Random } from './random.js';

/** How far a monotonic clock is off at most: far more than any quartz. */
export const MOST_DRIFT = 0.01;
const HOUR_MS = 3_600_000;

export class MachineClock {
  readonly queue: EventQueue;
  /** Undefined: a clock that is right, of processes that started long ago. */
  readonly #dice: Random | undefined;
  readonly #rate: number;
  #wallAheadMs = 0;

  constructor(queue: EventQueue, dice: Random | undefined) {
    this.queue = queue;
    this.#dice = dice;
    this.#rate = dice ? 1 + MOST_DRIFT * (2 * dice.next() - 1) : 1;
    this.setWall();
  }

  /** Milliseconds since 1970, as far as this machine knows. */
  get wallMs(): number {
    return this.queue.nowMs + this.#wallAheadMs;
  }

  /** Somebody sets the time of day: it jumps, by up to an hour from what is right. */
  setWall(): void {
    if (this.#dice) this.#wallAheadMs = this.#dice.between(-HOUR_MS, HOUR_MS);
  }

  /** Of a process that starts now. */
  start(): ProcessClock {
    return new ProcessClock(this, this.#rate, this.#dice?.between(30, 3_000));
  }
}

export class ProcessClock {
  readonly machine: MachineClock;
  readonly #queue: EventQueue;
  readonly #rate: number;
  readonly #startedMs: number;
  readonly #startsAtMs: number;

  constructor(machine: MachineClock, rate: number, startsAtMs: number | undefined) {
    this.machine = machine;
    this.#queue = machine.queue;
    this.#rate = rate;
    this.#startedMs = machine.queue.nowMs;
    this.#startsAtMs = startsAtMs ?? machine.queue.nowMs;
  }

  /** Milliseconds, monotonic. */
  get nowMs(): number {
    return this.#startsAtMs + (this.#queue.nowMs - this.#startedMs) * this.#rate;
  }

  /** When that will be, or was, as everybody else counts. */
  toTrueMs(atMs: number): number {
    return this.#startedMs + (atMs - this.#startsAtMs) / this.#rate;
  }

  /** A timer: never early, late by up to a millisecond. */
  at(atMs: number, run: () => void): void {
    this.#queue.at(Math.ceil(this.toTrueMs(atMs) - 1e-6), run);
  }
}
