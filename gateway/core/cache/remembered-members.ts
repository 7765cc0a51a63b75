/** The former members of a collection, until it is known whether its source still has them. */

export interface RememberedMember {
  readonly key: string;
  /** As of `Tombstone`. */
  readonly joinedSeq: number;
  /** The guard has decided that it stays, although the source lacks it (`then: keep`). */
  isKept?: boolean;
  isDeleted?: boolean;
}

/**
 * There may be 100,000. A map of 50,000 takes 45 ms to build before V8 has compiled the code, so it grows with the look-ups: these
 * come in the order of the members, a portion in each turn of the event loop.
 */
export class RememberedMembers {
  readonly #all: readonly RememberedMember[];
  readonly #byKey = new Map<string, RememberedMember>();
  /** The place of the first that is not in the map. */
  #next = 0;
  #deleted = 0;

  constructor(all: readonly RememberedMember[] = []) {
    this.#all = all;
  }

  get size(): number {
    return this.#all.length - this.#deleted;
  }

  values(): readonly RememberedMember[] {
    return this.#deleted === 0 ? this.#all : this.#all.filter((one) => one.isDeleted !== true);
  }

  get(key: string): RememberedMember | undefined {
    let found = this.#byKey.get(key);
    while (!found && this.#next < this.#all.length) {
      // The place is below the length.
      const one = this.#all[this.#next++] as RememberedMember;
      this.#byKey.set(one.key, one);
      if (one.key === key) found = one;
    }
    return found?.isDeleted === true ? undefined : found;
  }

  /** @param one it is here */
  delete(one: RememberedMember): void {
    one.isDeleted = true;
    this.#deleted++;
  }
}
