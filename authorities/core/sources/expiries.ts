/**
 * When resources with a TTL expire (xDS protocol, "TTL"). A heap that keeps the old deadline when a
 * TTL is renewed: when a deadline is due, the owner is asked for the present one. So a heartbeat
 * costs nothing here, however many come and however long the TTL is.
 */
import type { ResourceName } from '../../../protos/resource-name.js';
import { TypedMap } from '../../../protos/typed-map.js';
import { DeadlineHeap } from './deadline-heap.js';

export interface Expiry {
  readonly atMs: number;
  readonly typeUrl: string;
  readonly name: ResourceName;
}

/** A heap of this size is not worth cleaning up. */
const FEW = 100;

export class Expiries {
  readonly #endOf: (typeUrl: string, name: ResourceName) => number | undefined;
  readonly #heap = new DeadlineHeap<Expiry>();
  /** The earliest deadline in the heap, by name. */
  #soonestMs = new TypedMap<number>();
  #most = FEW;

  /** @param endOf the present deadline of a name; undefined: it has none. */
  constructor(endOf: (typeUrl: string, name: ResourceName) => number | undefined) {
    this.#endOf = endOf;
  }

  get size(): number {
    return this.#heap.size;
  }

  get nextMs(): number | undefined {
    return this.#heap.first?.atMs;
  }

  /** Does nothing if the heap has an equal or earlier deadline for the name. */
  add(expiry: Expiry): void {
    const { typeUrl, name, atMs } = expiry;
    const soonestMs = this.#soonestMs.get(typeUrl, name.key);
    if (soonestMs !== undefined && soonestMs <= atMs) return;
    this.#soonestMs.set(typeUrl, name.key, atMs);
    this.#heap.push(expiry);
    if (this.size > this.#most) this.#tidy();
  }

  clear(): void {
    this.#heap.clear();
    this.#soonestMs = new TypedMap();
  }

  /** Takes out the next expired name. */
  takeDue(nowMs: number): Expiry | undefined {
    for (let due = this.#pop(nowMs); due; due = this.#pop(nowMs)) {
      const atMs = this.#endOf(due.typeUrl, due.name);
      if (atMs === undefined) continue;
      if (atMs <= nowMs) return due;
      this.add({ ...due, atMs });
    }
    return undefined;
  }

  /**
   * Rebuilds the heap from present deadlines. Obsolete ones would otherwise stay until they are
   * due, which a source may set to 10,000 years.
   */
  #tidy(): void {
    const all = this.#heap.takeAll();
    this.clear();
    this.#most = Infinity;
    for (const expiry of all) {
      const atMs = this.#endOf(expiry.typeUrl, expiry.name);
      if (atMs !== undefined) this.add({ ...expiry, atMs });
    }
    this.#most = FEW + 2 * this.size;
  }

  #pop(nowMs: number): Expiry | undefined {
    const { first } = this.#heap;
    if (!first || first.atMs > nowMs) return undefined;
    this.#heap.pop();
    const { typeUrl, name, atMs } = first;
    if (this.#soonestMs.get(typeUrl, name.key) === atMs) this.#soonestMs.delete(typeUrl, name.key);
    return first;
  }
}
