/** Places of a new ring, and of an empty ring that is kept. Counts. */
const LEAST = 4;
const KEPT = 1_024;

/**
 * A queue with amortized constant cost: `Array.shift` moves every item. It is a ring, and an item that is taken leaves no
 * reference behind: V8 would move what a long-lived array refers to, and all that this refers to, among the old objects,
 * which only a collection of the whole heap frees.
 */
export class Fifo<T> {
  /** Its length is a power of two, or 0. */
  #ring: (T | undefined)[] = [];
  #head = 0;
  #count = 0;

  get first(): T | undefined {
    return this.#ring[this.#head];
  }

  push(item: T): void {
    if (this.#count === this.#ring.length) this.#grow();
    this.#ring[this.#placeAt(this.#count++)] = item;
  }

  shift(): T | undefined {
    if (this.#count === 0) return undefined;
    const first = this.#ring[this.#head];
    this.#ring[this.#head] = undefined;
    this.#head = this.#placeAt(1);
    // A burst leaves no long ring behind.
    if (--this.#count === 0 && this.#ring.length > KEPT) this.clear();
    return first;
  }

  clear(): void {
    this.#ring = [];
    this.#head = 0;
    this.#count = 0;
  }

  /** @param offset from the first item */
  #placeAt(offset: number): number {
    return (this.#head + offset) & (this.#ring.length - 1);
  }

  #grow(): void {
    const ring = this.#ring;
    const { length } = ring;
    // The items before the first one are the last ones.
    for (let at = 0; at < this.#head; at++) ring.push(ring[at]);
    ring.fill(undefined, 0, this.#head);
    while (ring.length < Math.max(LEAST, 2 * length)) ring.push(undefined);
  }
}
