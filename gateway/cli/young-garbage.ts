import { setFlagsFromString } from 'node:v8';

/**
 * Forbids V8 to guess which objects live long ("allocation-site pretenuring"). What a request allocates is dead before V8 collects the
 * young objects, which is cheap. But once many requests have waited together, in a burst, V8 allocates such objects among the
 * old ones. Each keeps all that it refers to until a collection of the whole heap, which then frees 100 MB in one turn
 * (ADR 0031). Nor does the guess help in calm (docs/PERFORMANCE.md).
 *
 * To be called before the first request. It holds for all threads of the process.
 */
export function keepGarbageYoung(): void {
  setFlagsFromString('--no-allocation-site-pretenuring');
}
