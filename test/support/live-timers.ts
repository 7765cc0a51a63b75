/**
 * All timers started from now on that may still fire, including unref'ed ones, which
 * `process.getActiveResourcesInfo` omits. Node's internal timers are not included.
 */
export interface LiveTimers {
  /** The number of timers, by the line of code that started them. */
  byPlace(): ReadonlyMap<string, number>;
  /** Restores the original timer functions. */
  stop(): void;
}

type Start = typeof setTimeout | typeof setInterval;

/** Of the helper, of `watching`, and of its caller; an Error keeps the objects of all its frames alive. */
const FRAMES = 3;

function placeOf(): Error {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = FRAMES;
  const place = new Error();
  Error.stackTraceLimit = stackTraceLimit;
  return place;
}

export function watchTimers(): LiveTimers {
  const started = new Map<NodeJS.Timeout, Error>();
  const { setTimeout: startTimeout, setInterval: startInterval } = globalThis;
  const watched = <T extends Start>(start: T): T => {
    const watching = (...args: unknown[]): NodeJS.Timeout => {
      const timer = (start as (...args: unknown[]) => NodeJS.Timeout)(...args);
      started.set(timer, placeOf());
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
        // Node's own mark for timers that were cleared or have fired.
        if ((timer as unknown as { readonly _destroyed: boolean })._destroyed) {
          started.delete(timer);
          continue;
        }
        const place = stack.split('\n')[3]?.trim() ?? '';
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
