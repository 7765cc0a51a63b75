/**
 * The latest versions of sets that went to state-of-the-world clients, each with its place in a collection. A client that returns
 * with such a version still holds what was a member at that place and was removed after it.
 */

/** Versions that are kept. A client that returns with an older one gets its set without the removed members. A count. */
const MOST = 32;

/** Places in the members and in the removals. */
export interface SentPlace {
  readonly sentSeq: number;
  readonly removedSeq: number;
}

export class SentVersions {
  /** By version, the latest last. */
  readonly #places = new Map<string, SentPlace>();

  note(version: string, place: SentPlace): void {
    this.#places.delete(version);
    this.#places.set(version, place);
    if (this.#places.size <= MOST) return;
    const [oldest] = this.#places.keys();
    if (oldest !== undefined) this.#places.delete(oldest);
  }

  /** @returns undefined: the version is not among the latest */
  placeOf(version: string): SentPlace | undefined {
    return this.#places.get(version);
  }
}
