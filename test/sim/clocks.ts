/**
 * The clocks of one machine. The monotonic one restarts with each process and is slightly fast or
 * slow. The time of day may be off by any amount and may be set at any time.
 */
import type { EventQueue } from './heap.js';
import type { Random } from './random.js';

/** Maximum error of a monotonic clock: far more than that of any quartz. */
export const MOST_DRIFT = 0.01;
const HOUR_MS = 3_600_000;

export class MachineClock {
  readonly queue: EventQueue;
  /** Undefined: an exact clock, of processes that started long ago. */
  readonly #dice: Random | undefined;
  readonly #rate: number;
  #wallAheadMs = 0;

  constructor(queue: EventQueue, dice: Random | undefined) {
    this.queue = queue;
    this.#dice = dice;
    this.#rate = dice ? 1 + MOST_DRIFT * (2 * dice.next() - 1) : 1;
    this.setWall();
  }

  /** Milliseconds since 1970 by this machine's clock. */
  get wallMs(): number {
    return this.queue.nowMs + this.#wallAheadMs;
  }

  /** Sets the time of day: it jumps to a time up to an hour off. */
  setWall(): void {
    if (this.#dice) this.#wallAheadMs = this.#dice.between(-HOUR_MS, HOUR_MS);
  }

  /** The clock of a process that starts now. */
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

  /** Converts a time of this clock to true time. */
  toTrueMs(atMs: number): number {
    return this.#startedMs + (atMs - this.#startsAtMs) / this.#rate;
  }

  /** A timer: never early, up to a millisecond late. */
  at(atMs: number, run: () => void): void {
    this.#queue.at(Math.ceil(this.toTrueMs(atMs) - 1e-6), run);
  }
}
