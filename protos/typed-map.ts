import { noMap, ownMap } from './empty-collections.js';

/**
 * A map keyed by type URL and canonical name, which together identify a resource. It has two levels:
 * one combined key would cost building and hashing a long string per lookup.
 */
export class TypedMap<V> {
  #types: Map<string, Map<string, V>> = noMap();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(typeUrl: string, key: string): V | undefined {
    return this.#types.get(typeUrl)?.get(key);
  }

  /** The types that have values. */
  types(): IterableIterator<string> {
    return this.#types.keys();
  }

  get typeCount(): number {
    return this.#types.size;
  }

  /** All values of a type, by key. */
  ofType(typeUrl: string): ReadonlyMap<string, V> {
    return this.#types.get(typeUrl) ?? noMap();
  }

  has(typeUrl: string, key: string): boolean {
    return this.#types.get(typeUrl)?.has(key) === true;
  }

  set(typeUrl: string, key: string, value: V): void {
    let type = this.#types.get(typeUrl);
    if (!type) this.#types = ownMap(this.#types).set(typeUrl, (type = new Map<string, V>()));
    if (!type.has(key)) this.#size++;
    type.set(key, value);
  }

  delete(typeUrl: string, key: string): boolean {
    const type = this.#types.get(typeUrl);
    if (!type?.delete(key)) return false;
    this.#size--;
    if (type.size === 0) this.#types.delete(typeUrl);
    return true;
  }

  *values(): IterableIterator<V> {
    for (const type of this.#types.values()) yield* type.values();
  }

  clear(): void {
    this.#types = noMap();
    this.#size = 0;
  }
}
