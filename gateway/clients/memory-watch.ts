/** Samples the memory of the process: once a second, and after each full collection of garbage. */
import { getHeapStatistics } from 'node:v8';
import {
  memoryFullness,
  memoryLevel,
  type MemoryLevel,
  type MemorySample,
} from '../core/quotas/memory-level.js';
import { watchFullCollections } from './full-collections.js';

export interface MemoryWatchOptions {
  /** The part of the heap limit above which memory is short, from 0 to 1. */
  readonly share: number;
  /** Called when the level changes. Must not throw. */
  readonly onLevel: (level: MemoryLevel, fullness: number) => void;
}

const SAMPLE_MS = 1_000;

/**
 * V8 counts the young generation (three semi-spaces of 16 MiB) to its limit, but ends the process when the old one
 * is full.
 */
const YOUNG_BYTES = 48 * 1_024 * 1_024;

export class MemoryWatch {
  readonly #options: MemoryWatchOptions;
  #stopWatching: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #heapLiveBytes = 0;
  #level: MemoryLevel = 'enough';

  constructor(options: MemoryWatchOptions) {
    this.#options = options;
  }

  get level(): MemoryLevel {
    return this.#level;
  }

  /** The part of the limit that is in use. */
  get fullness(): number {
    return memoryFullness(this.#sample());
  }

  start(): void {
    this.#stopWatching = watchFullCollections(() => {
      this.#noteCollected();
    });
    this.#timer = setInterval(() => {
      this.#judge();
    }, SAMPLE_MS).unref();
  }

  close(): void {
    this.#stopWatching?.();
    clearInterval(this.#timer);
  }

  #noteCollected(): void {
    this.#heapLiveBytes = getHeapStatistics().used_heap_size;
    this.#judge();
  }

  #judge(): void {
    const before = this.#level;
    const sample = this.#sample();
    this.#level = memoryLevel(sample, before, this.#options.share);
    if (this.#level !== before) this.#options.onLevel(this.#level, memoryFullness(sample));
  }

  #sample(): MemorySample {
    const { used_heap_size, external_memory, heap_size_limit } = getHeapStatistics();
    return {
      heapUsedBytes: used_heap_size,
      heapLiveBytes: Math.min(this.#heapLiveBytes, used_heap_size),
      externalBytes: external_memory,
      heapLimitBytes: Math.max(heap_size_limit - YOUNG_BYTES, heap_size_limit / 2),
    };
  }
}
