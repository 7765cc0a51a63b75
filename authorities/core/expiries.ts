/**
 * When resources with a TTL expire (xDS protocol, "TTL"). A heap in which a new TTL of a resource
 * does not take out the old one: who is told of a name asks what its TTL is now.
 */
import type { ResourceName } from '../../protos/resource-name.js';

export interface Expiry {
  readonly atMs: number;
  readonly typeUrl: string;
  readonly name: ResourceName;
}

export class Expiries {
  /** Each item is due no later than those at twice its place, plus one and plus two. */
  readonly #heap: Expiry[] = [];

  get nextMs(): number | undefined {
    return this.#heap[0]?.atMs;
  }

  add(expiry: Expiry): void {
    let at = this.#heap.push(expiry) - 1;
    for (let above = (at - 1) >> 1; at > 0; above = (at - 1) >> 1) {
      const parent = this.#at(above);
      if (parent.atMs <= expiry.atMs) return;
      this.#heap[above] = expiry;
      this.#heap[at] = parent;
      at = above;
    }
  }

  /** Takes out the next that is due. */
  takeDue(nowMs: number): Expiry | undefined {
    const [first] = this.#heap;
    if (!first || first.atMs > nowMs) return undefined;
    const last = this.#heap.pop();
    if (last && this.#heap.length > 0) this.#sink(last);
    return first;
  }

  #sink(item: Expiry): void {
    let at = 0;
    for (let below = 1; below < this.#heap.length; below = 2 * at + 1) {
      const right = this.#heap[below + 1];
      if (right && right.atMs < this.#at(below).atMs) below++;
      const child = this.#at(below);
      if (child.atMs >= item.atMs) break;
      this.#heap[at] = child;
      at = below;
    }
    this.#heap[at] = item;
  }

  #at(index: number): Expiry {
    // Every caller stays below the length.
    return this.#heap[index] as Expiry;
  }
}
