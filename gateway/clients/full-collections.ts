/** Tells when V8 has collected the garbage of the whole heap. */
import { constants, PerformanceObserver, type PerformanceEntry } from 'node:perf_hooks';

/**
 * @param onCollected called in a later turn; must not throw
 * @returns ends the calls
 */
export function watchFullCollections(onCollected: () => void): () => void {
  const observer = new PerformanceObserver((list) => {
    if (list.getEntries().some(isFullCollection)) onCollected();
  });
  observer.observe({ entryTypes: ['gc'] });
  return () => {
    observer.disconnect();
  };
}

/** The types of Node lack `detail`. */
function isFullCollection(entry: PerformanceEntry): boolean {
  const { detail } = entry as { readonly detail?: { readonly kind?: number } };
  return detail?.kind === constants.NODE_PERFORMANCE_GC_MAJOR;
}
