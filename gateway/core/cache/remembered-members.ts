/** The former members of a collection, until it is known whether its source still has them. */

import { LOG_START } from './change-log.js';

export interface RememberedMember {
  readonly key: string;
  /** As of `Tombstone`. */
  readonly joinedSeq: number;
  /** The guard has decided that it stays, although the source lacks it (`then: keep`). */
  isKept?: boolean;
  isDeleted?: boolean;
}

/** A count. */
const MOST_SEARCHED = 1_000;

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
    const found = this.#find(key, Infinity);
    return found?.isDeleted === true ? undefined : found;
  }

  /**
   * The `joinedSeq` of a member, without a long search.
   *
   * @returns Infinity: no client was sent it; LOG_START: clients may have been
   */
  joinedSeqOf(key: string): number {
    const found = this.#find(key, MOST_SEARCHED);
    if (found) return found.joinedSeq;
    return this.#next < this.#all.length ? LOG_START : Infinity;
  }

  #find(key: string, most: number): RememberedMember | undefined {
    let found = this.#byKey.get(key);
    for (let left = most; !found && left > 0 && this.#next < this.#all.length; left--) {
      // The place is below the length.
      const one = this.#all[this.#next++] as RememberedMember;
      this.#byKey.set(one.key, one);
      if (one.key === key) found = one;
    }
    return found;
  }

  /** @param one it is here */
  delete(one: RememberedMember): void {
    one.isDeleted = true;
    this.#deleted++;
  }
}
