/**
 * Every timer that is started from now on and may still fire, also those that do not keep the process
 * alive, which `process.getActiveResourcesInfo` leaves out. Node's own are not seen.
 */
export interface LiveTimers {
  /** How many there are, by the line of code that started them. */
  byPlace(): ReadonlyMap<string, number>;
  /** Timers are those of before again. */
  stop(): void;
}

type Start = typeof setTimeout | typeof setInterval;

export function watchTimers(): LiveTimers {
  const started = new Map<NodeJS.Timeout, Error>();
  const { setTimeout: startTimeout, setInterval: startInterval } = globalThis;
  const watched = <T extends Start>(start: T): T => {
    const watching = (...args: unknown[]): NodeJS.Timeout => {
      const timer = (start as (...args: unknown[]) => NodeJS.Timeout)(...args);
      started.set(timer, new Error());
      return timer;
    };
    // `promisify.custom`, which node:util looks for.
    return Object.defineProperties(watching, Object.getOwnPropertyDescriptors(start)) as T;
  };
  globalThis.setTimeout = watched(startTimeout);
  globalThis.setInterval = watched(startInterval);
  return {
    byPlace: () => {
      const counts = new Map<string, number>();
      for (const [timer, { stack = '' }] of started) {
        // Node's own mark of what was cleared or has fired.
        if ((timer as unknown as { readonly _destroyed: boolean })._destroyed) {
          started.delete(timer);
          continue;
        }
        const place = stack.split('\n')[2]?.trim() ?? '';
        counts.set(place, (counts.get(place) ?? 0) + 1);
      }
      return counts;
    },
    stop: () => {
      globalThis.setTimeout = startTimeout;
      globalThis.setInterval = startInterval;
    },
  };
}
