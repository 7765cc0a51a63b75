import { Fifo } from '../sources/fifo.js';

/** Demands that no source answered, in the order of their requests. One leaves when it is answered, or when it is due. */
export class UnansweredDemands<Demand extends { readonly requestedAtMs: number }> {
  readonly #queue = new Fifo<Demand>();
  readonly #afterMs: number;
  readonly #isOpen: (demand: Demand) => boolean;

  /**
   * @param afterMs how long after its request a demand is due. Milliseconds.
   * @param isOpen neither answered nor dropped meanwhile
   */
  constructor(afterMs: number, isOpen: (demand: Demand) => boolean) {
    this.#afterMs = afterMs;
    this.#isOpen = isOpen;
  }

  push(demand: Demand): void {
    this.#queue.push(demand);
  }

  /** When the next one is due. */
  get nextMs(): number | undefined {
    for (;;) {
      const { first } = this.#queue;
      if (!first) return undefined;
      if (this.#isOpen(first)) return first.requestedAtMs + this.#afterMs;
      this.#queue.shift();
    }
  }

  takeDue(nowMs: number): Demand | undefined {
    const { nextMs } = this;
    return nextMs === undefined || nextMs > nowMs ? undefined : this.#queue.shift();
  }
}
