/**
 * Collections without a subscriber. The cache keeps only their names, for clients that return: it owes them a removal
 * of each member that went meanwhile. The first to end comes first.
 */
import type { ResourceName } from '../../../protos/resource-name.js';
import type { Collection } from './collection.js';

export interface Dormant {
  readonly typeUrl: string;
  readonly collection: Collection;
  /** When the cache forgets it. */
  readonly untilMs: number;
}

/**
 * Remembered names of all collections together, some 160 bytes each. Each pod of a fleet may be a node group with its own
 * collections, and pods come and go. A state file holds fewer names, so all of it can be restored. A count.
 */
const MAX_NAMES = 1_000_000;

export class DormantCollections {
  readonly #maxNames: number;
  readonly #byKey = new Map<string, Dormant>();
  #names = 0;

  constructor(maxNames = MAX_NAMES) {
    this.#maxNames = maxNames;
  }

  /** Number of remembered names. */
  get nameCount(): number {
    return this.#names;
  }

  values(): IterableIterator<Dormant> {
    return this.#byKey.values();
  }

  /** With too many names, it forgets the collections that ended first. */
  add(dormant: Dormant): void {
    const { typeUrl, collection } = dormant;
    this.take(typeUrl, collection.glob);
    this.#byKey.set(keyOf(typeUrl, collection.glob), dormant);
    this.#names += collection.rememberedCount;
    for (const oldest of this.#byKey.values()) {
      if (this.#names <= this.#maxNames || oldest === dormant) break;
      this.#forget(oldest);
    }
  }

  /** It gets a subscriber. */
  take(typeUrl: string, glob: ResourceName): Collection | undefined {
    const dormant = this.#byKey.get(keyOf(typeUrl, glob));
    if (!dormant) return undefined;
    this.#byKey.delete(keyOf(typeUrl, glob));
    this.#names -= dormant.collection.rememberedCount;
    return dormant.collection;
  }

  /** @returns the number of collections that it forgets, because their time is over */
  forgetDue(nowMs: number): number {
    let count = 0;
    for (const oldest of this.#byKey.values()) {
      if (oldest.untilMs > nowMs) break;
      this.#forget(oldest);
      count++;
    }
    return count;
  }

  #forget({ typeUrl, collection }: Dormant): void {
    this.take(typeUrl, collection.glob);
    // The past of a client may still refer to the collection.
    collection.forgetNames();
  }
}

const keyOf = (typeUrl: string, glob: ResourceName): string => `${typeUrl} ${glob.key}`;
