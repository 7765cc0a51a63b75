/**
 * The resources that a group serves, by requested name. Members of a collection are found without a
 * scan.
 */
import { globKeyOf, type ResourceName } from '../../../protos/resource-name.js';
import { TypedMap } from '../../../protos/typed-map.js';
import type { Projection } from '../projection.js';

export interface Served {
  readonly projection: Projection;
  /** Index of the candidate that sent it, or {@link ADOPTED}. */
  readonly from: number;
  /**
   * The alternatives that the primary authority gave in its references. They stay during a
   * failover, since the content of an alternative may lack them.
   */
  readonly noted?: Projection['alternatives'] | undefined;
  /** End of its TTL if the group owns it, not the source (`TtlLeases`). */
  readonly endsMs?: number | undefined;
  /** The source lacks it, and the deletion guard keeps it (`then: keep`) until a source sends it again. */
  readonly isKept?: boolean;
}

/** The group took it over from a group that a reload of the map replaced, or from content on disk. Not the index of any candidate. */
export const ADOPTED = -1;

const NONE: ReadonlyMap<string, Served> = new Map();

export class ServedNames {
  readonly #collections = new TypedMap<Map<string, Served>>();
  #count = 0;
  #adoptedCount = 0;

  get count(): number {
    return this.#count;
  }

  get isAllAdopted(): boolean {
    return this.#count > 0 && this.#adoptedCount === this.#count;
  }

  get(typeUrl: string, name: ResourceName): Served | undefined {
    return this.#collections.get(typeUrl, globKeyOf(name))?.get(name.key);
  }

  set(served: Served): void {
    const { typeUrl, name } = served.projection;
    const globKey = globKeyOf(name);
    let collection = this.#collections.get(typeUrl, globKey);
    if (!collection) {
      collection = new Map();
      this.#collections.set(typeUrl, globKey, collection);
    }
    const before = collection.get(name.key);
    if (!before) this.#count++;
    this.#adoptedCount += adopted(served) - adopted(before);
    collection.set(name.key, served);
  }

  keep(typeUrl: string, name: ResourceName): void {
    const served = this.get(typeUrl, name);
    if (served) this.set({ ...served, isKept: true });
  }

  delete(typeUrl: string, name: ResourceName): boolean {
    const globKey = globKeyOf(name);
    const collection = this.#collections.get(typeUrl, globKey);
    const before = collection?.get(name.key);
    if (!collection || !before) return false;
    collection.delete(name.key);
    this.#count--;
    this.#adoptedCount -= adopted(before);
    if (collection.size === 0) this.#collections.delete(typeUrl, globKey);
    return true;
  }

  /** Drops the members of a glob, except those with a key in `kept`. */
  dropMembers(typeUrl: string, glob: ResourceName, kept: ReadonlyMap<string, unknown>): void {
    const all = this.members(typeUrl, glob);
    const left = new Map<string, Served>();
    // One of them may have 100,000 keys, and the other none.
    const keys = all.size < kept.size ? all.keys() : kept.keys();
    for (const key of keys) {
      const served = all.get(key);
      if (served && kept.has(key)) left.set(key, served);
    }
    this.#count += left.size - all.size;
    // Few groups have adopted anything, and the others need not visit 100,000 members.
    if (this.#adoptedCount > 0) this.#adoptedCount += countAdopted(left) - countAdopted(all);
    if (left.size === 0) this.#collections.delete(typeUrl, glob.key);
    else this.#collections.set(typeUrl, glob.key, left);
  }

  members(typeUrl: string, glob: ResourceName): ReadonlyMap<string, Served> {
    return this.#collections.get(typeUrl, glob.key) ?? NONE;
  }

  /** Does the group serve this name, or for a glob any member? */
  holds(typeUrl: string, name: ResourceName): boolean {
    return name.isGlob
      ? this.members(typeUrl, name).size > 0
      : this.get(typeUrl, name) !== undefined;
  }

  *all(): IterableIterator<Served> {
    for (const collection of this.#collections.values()) yield* collection.values();
  }

  *ofType(typeUrl: string): IterableIterator<Served> {
    for (const collection of this.#collections.ofType(typeUrl).values()) yield* collection.values();
  }

  clear(): void {
    this.#collections.clear();
    this.#count = 0;
    this.#adoptedCount = 0;
  }
}

const adopted = (served: Served | undefined): number => Number(served?.from === ADOPTED);

function countAdopted(collection: ReadonlyMap<string, Served>): number {
  let count = 0;
  for (const served of collection.values()) count += adopted(served);
  return count;
}
