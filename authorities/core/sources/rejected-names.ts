/**
 * The names whose resources a source sent and the gateway rejected. They exist at the source, so they are not absent.
 * Bulk machine: mutable, without IO.
 */
import type { ResourceName } from '../../../protos/resource-name.js';
import type { Unroomed } from './content-budget.js';

interface RejectedName {
  readonly name: ResourceName;
  /** The bytes for which there was no room; 0: rejected for another reason. */
  readonly unroomedBytes: number;
}

/** The rejected names of one collection. */
export interface Rejected {
  /** By key. */
  readonly names: Map<string, RejectedName>;
  /** The gateway rejected further members and does not remember which: none is proven absent. */
  hasForgotten: boolean;
}

export const noneRejected = (): Rejected => ({ names: new Map(), hasForgotten: false });

/**
 * Rejected names that a source may have, since each of them costs memory. The gateway forgets the names of
 * further members. A count.
 */
const MAX_REJECTED_NAMES = 10_000;

/** The rejected names of all collections of a source. */
export class RejectedNames {
  #count = 0;
  readonly #unroomed = { resources: 0, bytes: 0 };

  /** The resources that the gateway rejected for lack of room, and that the source has still, as far as known. */
  get unroomed(): Unroomed {
    return this.#unroomed;
  }

  /**
   * @param unroomedBytes its size, if there was no room for it; else 0
   * @param isAsked the name is subscribed by itself. The gateway bounds such names, and the source invents others
   */
  add(rejected: Rejected, name: ResourceName, unroomedBytes: number, isAsked: boolean): void {
    this.forget(rejected, name.key);
    if (isAsked || this.#count < MAX_REJECTED_NAMES) {
      rejected.names.set(name.key, { name, unroomedBytes });
      this.#countOne(1, unroomedBytes);
    } else rejected.hasForgotten = true;
  }

  /** @returns whether the name was rejected */
  forget({ names }: Rejected, key: string): boolean {
    const known = names.get(key);
    if (!known) return false;
    this.#countOne(-1, known.unroomedBytes);
    return names.delete(key);
  }

  /** @param asked names that stay, by key. Default: none */
  clear(rejected: Rejected, asked?: { has: (key: string) => boolean }): void {
    for (const key of rejected.names.keys()) {
      if (asked?.has(key) !== true) this.forget(rejected, key);
    }
    rejected.hasForgotten = false;
  }

  #countOne(count: 1 | -1, unroomedBytes: number): void {
    this.#count += count;
    if (unroomedBytes === 0) return;
    this.#unroomed.resources += count;
    this.#unroomed.bytes += count * unroomedBytes;
  }
}
