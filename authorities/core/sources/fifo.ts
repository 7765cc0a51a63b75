/** A queue with amortized constant cost: `Array.shift` moves every item. */
export class Fifo<T> {
  #items: T[] = [];
  /** Items before this index have been taken. */
  #head = 0;

  get first(): T | undefined {
    return this.#items[this.#head];
  }

  push(item: T): void {
    this.#items.push(item);
  }

  shift(): T | undefined {
    const first = this.#items[this.#head];
    if (this.#head < this.#items.length) this.#head++;
    // At least half is taken: the copy moves no more items than were taken since the last copy.
    if (2 * this.#head >= this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return first;
  }

  clear(): void {
    this.#items = [];
    this.#head = 0;
  }
}
