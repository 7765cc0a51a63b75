/**
 * Makes V8 collect the whole heap before too many header values are garbage. Node hands over each value as a string with its bytes
 * outside the heap. Only a collection of the whole heap frees such strings, all of them in one turn, at its end. V8 begins one late,
 * since each string seems small: after bursts of 36,000 polls this turn took 94 to 155 ms.
 */
import { getHeapStatistics } from 'node:v8';
import { clock } from '../clock.js';
import { watchFullCollections } from './full-collections.js';

/** Values after which a collection begins. With half or a quarter of them, the longest turn is no shorter. A count. */
const MOST_VALUES = 40_000;

/**
 * V8 begins a collection, in small steps, when the memory outside its heap has grown by 64 MiB since the last one. The operating
 * system gives this buffer no memory, since nothing is written to it.
 */
const ENOUGH_BYTES = 65 * 1_024 * 1_024;

/**
 * After one collection the next is not begun before this time: 0.3 s with a heap of 60 MiB, 5 s with 1 GiB, which takes longer to
 * collect. Clients that poll all the time would otherwise keep V8 busy. Milliseconds per byte.
 */
const PAUSE_MS_PER_BYTE = 5 / (1_024 * 1_024);

/** @returns garbage */
export const beginFullCollection = (): ArrayBuffer => new ArrayBuffer(ENOUGH_BYTES);

export class HeaderGarbage {
  #values = 0;
  #pausedUntilMs = -Infinity;
  readonly #clock: () => number;
  readonly #collect: () => unknown;
  readonly #stopWatching: () => void;

  /** @param collect makes V8 begin a collection */
  constructor(
    watch: typeof watchFullCollections = watchFullCollections,
    collect: () => unknown = beginFullCollection,
    now: () => number = clock,
  ) {
    this.#clock = now;
    this.#collect = collect;
    this.#stopWatching = watch(() => {
      this.#values = 0;
    });
  }

  /** @param values of the headers of one stream. A count */
  note(values: number): void {
    this.#values += values;
    if (this.#values < MOST_VALUES) return;
    const nowMs = this.#clock();
    if (nowMs < this.#pausedUntilMs) return;
    this.#pausedUntilMs = nowMs + getHeapStatistics().used_heap_size * PAUSE_MS_PER_BYTE;
    this.#values = 0;
    this.#collect();
  }

  close(): void {
    this.#stopWatching();
  }
}
