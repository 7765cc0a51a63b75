/**
 * Finds the served resources that a candidate lacks. It compares a bounded number of resources in
 * each turn of the event loop, because a collection may have 100,000 members.
 */
import { Fifo } from '../sources/fifo.js';
import type { Candidate } from './candidate.js';
import { isHeldBy } from './candidate-content.js';
import type { Projection } from '../projection.js';
import type { Served } from './served-names.js';
import type { TurnRoom } from './turn-room.js';

/** What one comparison costs, in moved names. */
const COMPARISON = 1 / 8;

export class AbsenceSearch {
  readonly #candidate: Candidate;
  readonly #waiting = new Fifo<Served>();

  constructor(candidate: Candidate) {
    this.#candidate = candidate;
  }

  /** Every resource has been compared. */
  get isOver(): boolean {
    return this.#waiting.first === undefined;
  }

  add(served: Iterable<Served>): void {
    for (const one of served) this.#waiting.push(one);
  }

  /** Compares as many resources as the turn has room for. */
  *continue(room: TurnRoom): IterableIterator<Projection> {
    for (let one = this.#waiting.first; one && room.take(COMPARISON); one = this.#waiting.first) {
      this.#waiting.shift();
      if (!isHeldBy(this.#candidate, one.projection)) yield one.projection;
    }
  }

  clear(): void {
    this.#waiting.clear();
  }
}
