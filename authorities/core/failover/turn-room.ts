/**
 * Bounds the names that all groups together may move to another candidate, or remove, in one turn
 * of the event loop, so that a turn takes some milliseconds at most. Comparing or judging a name
 * costs a part of moving one.
 */

/** Some 8 ms. Groups with fewer names move in one turn. */
export const MOVED_NAMES_PER_TURN = 250;

export class TurnRoom {
  readonly #names: number;
  #left: number;

  constructor(names = MOVED_NAMES_PER_TURN) {
    this.#names = names;
    this.#left = names;
  }

  /** A turn begins. */
  refill(): void {
    this.#left = this.#names;
  }

  /**
   * @param names what the work costs, in moved names
   * @returns whether there is room for it in this turn
   */
  take(names = 1): boolean {
    if (this.#left <= 0) return false;
    this.#left -= names;
    return true;
  }
}
