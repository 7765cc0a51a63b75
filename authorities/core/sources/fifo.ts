/** First in, first out, at a cost that does not grow with what waits: `Array.shift` moves all of it. */
export class Fifo<T> {
  #items: T[] = [];
  /** Items before this place are out. */
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
    // Half of it is out: moving the rest costs no more than what went did.
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
