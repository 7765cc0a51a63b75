/**
 * The dice of a simulation. Each purpose has its own, made from the seed and its name: one more
 * throw for faults leaves those of the network and the workload unchanged.
 */

export class Random {
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  constructor(seed: number, purpose: string) {
    let hash = 0x811c9dc5 ^ seed;
    for (let at = 0; at < purpose.length; at++) {
      hash = Math.imul(hash ^ purpose.charCodeAt(at), 0x01000193);
    }
    this.#a = hash | 0;
    this.#b = seed | 0;
    this.#c = Math.floor(seed / 2 ** 32) | 0;
    for (let round = 0; round < 12; round++) this.next();
  }

  /** In [0, 1); the generator is sfc32. */
  next(): number {
    const sum = (((this.#a + this.#b) | 0) + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0;
    return (sum >>> 0) / 2 ** 32;
  }

  /** An integer from 0 to `count` - 1. */
  below(count: number): number {
    return Math.floor(this.next() * count);
  }

  /** An integer, both ends included. */
  between(least: number, most: number): number {
    return least + this.below(most - least + 1);
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  pick<T>(from: readonly T[]): T {
    if (from.length === 0) throw new RangeError('nothing to pick from');
    return from[this.below(from.length)]!;
  }

  /** Selects each item with this probability; keeps the order. */
  some<T>(from: readonly T[], share: number): T[] {
    return from.filter(() => this.chance(share));
  }

  /** The same items in random order. */
  shuffled<T>(from: readonly T[]): T[] {
    const left = [...from];
    const out: T[] = [];
    while (left.length > 0) out.push(...left.splice(this.below(left.length), 1));
    return out;
  }
}
