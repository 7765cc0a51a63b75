/** Connections: bytes arrive late, in order within a stream, or not at all. */
import type { EventQueue } from './heap.js';
import type { Random } from './random.js';

/** One direction of a stream: never reordered, sometimes stalled. */
export class Pipe {
  readonly #queue: EventQueue;
  readonly #dice: Random;
  readonly #latencyMs: number;
  #lastMs = 0;
  #stalledUntilMs = 0;
  #lost = false;

  constructor(queue: EventQueue, dice: Random, latencyMs: number) {
    this.#queue = queue;
    this.#dice = dice;
    this.#latencyMs = latencyMs;
  }

  send(delayMs: number, deliver: () => void): void {
    const arrivesMs = this.#queue.nowMs + delayMs + this.#dice.between(0, this.#latencyMs);
    this.#lastMs = Math.max(arrivesMs, this.#lastMs, this.#stalledUntilMs);
    this.#queue.at(this.#lastMs, () => {
      if (!this.#lost) deliver();
    });
  }

  /** Everything sent has arrived or is lost. */
  get isQuiet(): boolean {
    return this.#lastMs < this.#queue.nowMs;
  }

  get isStalled(): boolean {
    return this.#stalledUntilMs > this.#queue.nowMs;
  }

  /** Bytes sent from now on arrive only after the stall. */
  stall(ms: number): void {
    this.#stalledUntilMs = Math.max(this.#stalledUntilMs, this.#queue.nowMs + ms);
  }

  /** Nothing arrives any more, including bytes on their way. */
  lose(): void {
    this.#lost = true;
  }
}

/** Both directions. */
export class Connection {
  readonly there: Pipe;
  readonly back: Pipe;

  constructor(queue: EventQueue, dice: Random, latencyMs: number) {
    this.there = new Pipe(queue, dice, latencyMs);
    this.back = new Pipe(queue, dice, latencyMs);
  }

  get isQuiet(): boolean {
    return this.there.isQuiet && this.back.isQuiet;
  }

  get isStalled(): boolean {
    return this.there.isStalled || this.back.isStalled;
  }

  stall(ms: number): void {
    this.there.stall(ms);
    this.back.stall(ms);
  }

  lose(): void {
    this.there.lose();
    this.back.lose();
  }
}
