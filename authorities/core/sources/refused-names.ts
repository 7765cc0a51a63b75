/**
 * The names whose resources a source sent and the gateway rejected. They exist at the source, so they are not absent.
 * Bulk machine: mutable, without IO.
 */
import type { Unroomed } from './content-budget.js';

/** The rejected names of one collection. */
export interface Refused {
  /** By name: the bytes for which there was no room; 0: rejected for another reason. */
  readonly names: Map<string, number>;
  /** The gateway rejected further members and does not remember which: none is proven absent. */
  hasForgotten: boolean;
}

export const noneRefused = (): Refused => ({ names: new Map(), hasForgotten: false });

/**
 * Rejected names that a source may have, since each of them costs memory. The gateway forgets the names of
 * further members. A count.
 */
const MAX_REFUSED_NAMES = 10_000;

/** The rejected names of all collections of a source. */
export class RefusedNames {
  #count = 0;
  readonly #unroomed = { resources: 0, bytes: 0 };

  /** The resources that the gateway refused for lack of room, and that the source has still, as far as known. */
  get unroomed(): Unroomed {
    return this.#unroomed;
  }

  /**
   * @param unroomedBytes its size, if there was no room for it; else 0
   * @param isAsked the name is subscribed by itself. The gateway bounds such names, and the source invents others
   */
  add(refused: Refused, key: string, unroomedBytes: number, isAsked: boolean): void {
    this.forget(refused, key);
    if (isAsked || this.#count < MAX_REFUSED_NAMES) {
      refused.names.set(key, unroomedBytes);
      this.#countOne(1, unroomedBytes);
    } else refused.hasForgotten = true;
  }

  /** @returns whether the name was refused */
  forget({ names }: Refused, key: string): boolean {
    const unroomedBytes = names.get(key);
    if (unroomedBytes === undefined) return false;
    this.#countOne(-1, unroomedBytes);
    return names.delete(key);
  }

  clear(refused: Refused): void {
    for (const unroomedBytes of refused.names.values()) this.#countOne(-1, unroomedBytes);
    refused.names.clear();
    refused.hasForgotten = false;
  }

  #countOne(count: 1 | -1, unroomedBytes: number): void {
    this.#count += count;
    if (unroomedBytes === 0) return;
    this.#unroomed.resources += count;
    this.#unroomed.bytes += count * unroomedBytes;
  }
}
