/**
 * The latest versions of sets that went to state-of-the-world clients, each with a place in the removals of a collection. A client
 * that returns with such a version still holds what was removed after that place.
 */

/** A client that missed more changes than that gets its set without the removed members. A count. */
const MOST = 32;

export class SentVersions {
  /** By version, the latest last. */
  readonly #places = new Map<string, number>();

  note(version: string, removedSeq: number): void {
    this.#places.delete(version);
    this.#places.set(version, removedSeq);
    if (this.#places.size <= MOST) return;
    const [oldest] = this.#places.keys();
    if (oldest !== undefined) this.#places.delete(oldest);
  }

  /** @returns the place in the removals; undefined: the version is not among the latest */
  placeOf(version: string): number | undefined {
    return this.#places.get(version);
  }
}
