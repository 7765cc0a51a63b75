/** A binary heap: the children of index i are at 2i + 1 and 2i + 2, and are due no earlier. */
export class DeadlineHeap<T extends { readonly atMs: number }> {
  #items: T[] = [];

  get size(): number {
    return this.#items.length;
  }

  /** The item that is due first. */
  get first(): T | undefined {
    return this.#items[0];
  }

  clear(): void {
    this.#items = [];
  }

  /** Empties the heap. @returns its items, in no order. */
  takeAll(): readonly T[] {
    const all = this.#items;
    this.#items = [];
    return all;
  }

  push(item: T): void {
    const { atMs } = item;
    let at = this.#items.push(item) - 1;
    for (let above = (at - 1) >> 1; at > 0; above = (at - 1) >> 1) {
      const parent = this.#at(above);
      if (parent.atMs <= atMs) return;
      this.#items[above] = item;
      this.#items[at] = parent;
      at = above;
    }
  }

  /** Takes out the item that is due first. */
  pop(): T | undefined {
    const [first] = this.#items;
    const last = this.#items.pop();
    if (last && this.#items.length > 0) this.#sink(last);
    return first;
  }

  #sink(item: T): void {
    let at = 0;
    for (let below = 1; below < this.#items.length; below = 2 * at + 1) {
      const right = this.#items[below + 1];
      if (right && right.atMs < this.#at(below).atMs) below++;
      const child = this.#at(below);
      if (child.atMs >= item.atMs) break;
      this.#items[at] = child;
      at = below;
    }
    this.#items[at] = item;
  }

  #at(index: number): T {
    // Every caller passes an index below the length.
    return this.#items[index] as T;
  }
}
