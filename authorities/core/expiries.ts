/**
 * When resources with a TTL expire (xDS protocol, "TTL"). A heap in which a new TTL of a resource
 * does not take out the old one: who is told of a name asks what its TTL is now, and adds it again if
 * that is later. So heartbeats cost nothing here, however many come and however long their TTL is.
 */
import type { ResourceName } from '../../protos/resource-name.js';
import { TypedMap } from '../../protos/typed-map.js';

export interface Expiry {
  readonly atMs: number;
  readonly typeUrl: string;
  readonly name: ResourceName;
}

export class Expiries {
  /** Each item is due no later than those at twice its place, plus one and plus two. */
  readonly #heap: Expiry[] = [];
  /** Of each name in the heap. */
  readonly #soonestMs = new TypedMap<number>();

  get size(): number {
    return this.#heap.length;
  }

  get nextMs(): number | undefined {
    return this.#heap[0]?.atMs;
  }

  /** Nothing is added if the name is in it for as soon, or sooner. */
  add(expiry: Expiry): void {
    const { typeUrl, name, atMs } = expiry;
    const soonestMs = this.#soonestMs.get(typeUrl, name.key);
    if (soonestMs !== undefined && soonestMs <= atMs) return;
    this.#soonestMs.set(typeUrl, name.key, atMs);
    let at = this.#heap.push(expiry) - 1;
    for (let above = (at - 1) >> 1; at > 0; above = (at - 1) >> 1) {
      const parent = this.#at(above);
      if (parent.atMs <= atMs) return;
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
    const { typeUrl, name, atMs } = first;
    if (this.#soonestMs.get(typeUrl, name.key) === atMs) this.#soonestMs.delete(typeUrl, name.key);
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
