/** Is memory so short that the gateway refuses new clients, names or resources? It serves the others. */

export interface MemorySample {
  /** The JavaScript heap, garbage included. Bytes. */
  readonly heapUsedBytes: number;
  /** The heap right after the last full garbage collection; 0: there was none. Bytes. */
  readonly heapLiveBytes: number;
  /** Buffers, outside the heap. Bytes. */
  readonly externalBytes: number;
  /** What V8 may use (`heap_size_limit`). Bytes. */
  readonly heapLimitBytes: number;
}

/**
 * `enough`; `short`: no new streams, names and node groups; `critical`: no new resources of sources
 * either. These come last, because the served names depend on them.
 */
export const MEMORY_LEVELS = ['enough', 'short', 'critical'] as const;
export type MemoryLevel = (typeof MEMORY_LEVELS)[number];

/** A level ends when the use falls below this part of its bound, so that it does not come and go. */
const LEAVE_BELOW = 0.95;

/**
 * Garbage counts half: V8 collects it late while there is room, and a load may make it faster than it is
 * collected.
 */
const GARBAGE_WEIGHT = 0.5;

/** The part of the limit that is in use; may exceed 1, since buffers are outside the heap. */
export function memoryFullness(sample: MemorySample): number {
  const { heapUsedBytes, heapLiveBytes, externalBytes, heapLimitBytes } = sample;
  const garbageBytes = Math.max(0, heapUsedBytes - heapLiveBytes);
  const bytes = heapUsedBytes - garbageBytes * (1 - GARBAGE_WEIGHT) + externalBytes;
  return bytes / heapLimitBytes;
}

/**
 * @param before the level until now
 * @param share the part of the limit above which memory is short, from 0 to 1; it is critical at half of
 * the rest
 */
export function memoryLevel(sample: MemorySample, before: MemoryLevel, share: number): MemoryLevel {
  const fullness = memoryFullness(sample);
  const critical = (1 + share) / 2;
  if (fullness > critical * (before === 'critical' ? LEAVE_BELOW : 1)) return 'critical';
  return fullness > share * (before === 'enough' ? 1 : LEAVE_BELOW) ? 'short' : 'enough';
}
