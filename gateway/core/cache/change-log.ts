/**
 * Items in the order of their last change. A reader is one number: the last sequence that it has read.
 * So a client of a collection of 100,000 members costs one number, and one change costs one step.
 */

export interface Sequenced {
  /** Set by the log; -1 while the item is not in a log. */
  seq: number;
}

/** Below all sequences: a reader that has read nothing. */
export const LOG_START = -1;

/** Compacting small logs gains nothing. */
const MIN_COMPACTION = 64;

export class ChangeLog<T extends Sequenced> {
  /** In order of `seq`; an item that moved or was dropped leaves a hole. */
  #slots: (T | undefined)[] = [];
  #seqs: number[] = [];
  #nextSeq = 0;
  #size = 0;
  /** All slots before this index are holes. */
  #head = 0;

  /** Number of items. */
  get size(): number {
    return this.#size;
  }

  /** The sequence of the latest change, or LOG_START. */
  get lastSeq(): number {
    return this.#nextSeq - 1;
  }

  /** Makes this item the latest change. */
  append(item: T): void {
    this.drop(item);
    item.seq = this.#nextSeq++;
    this.#slots.push(item);
    this.#seqs.push(item.seq);
    this.#size++;
  }

  drop(item: T): void {
    if (item.seq === LOG_START) return;
    const at = this.#firstAfter(item.seq - 1);
    if (this.#slots[at] !== item) return;
    this.#slots[at] = undefined;
    item.seq = LOG_START;
    this.#size--;
    if (this.#slots.length > MIN_COMPACTION && this.#slots.length > 2 * this.#size) this.#compact();
  }

  /** Drops all items. */
  clear(): void {
    for (const item of this.#slots) if (item) item.seq = LOG_START;
    this.#slots = [];
    this.#seqs = [];
    this.#head = 0;
    this.#size = 0;
  }

  /** Items changed after `seq`, oldest first. Items must not be appended while iterating. */
  *since(seq: number): IterableIterator<T> {
    for (let at = this.#firstAfter(seq); at < this.#slots.length; at++) {
      const item = this.#slots[at];
      if (item) yield item;
    }
  }

  /** The item with the oldest change. */
  oldest(): T | undefined {
    while (this.#head < this.#slots.length && !this.#slots[this.#head]) this.#head++;
    return this.#slots[this.#head];
  }

  #firstAfter(seq: number): number {
    let low = 0;
    let high = this.#seqs.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      // The cast is safe: `middle` is below the length.
      if ((this.#seqs[middle] as number) > seq) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  #compact(): void {
    const items = this.#slots.filter((item) => item !== undefined);
    this.#slots = items;
    this.#seqs = items.map(({ seq }) => seq);
    this.#head = 0;
  }
}
