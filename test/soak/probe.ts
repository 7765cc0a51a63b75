/**
 * Loaded into a gateway's process before the gateway (`node --import`), to tell the parent process
 * what is held there. The gateway itself knows nothing of it.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { ProbeAnswer } from './gateway-meter.js';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/**
 * Every timer of the gateway and its libraries that may still fire, also those that do not keep the
 * process alive, which `process.getActiveResourcesInfo` leaves out. Node's own are not seen here.
 */
const timers = new Set<NodeJS.Timeout>();

function watched<T extends typeof setTimeout | typeof setInterval>(start: T): T {
  const starting = start as (...args: unknown[]) => NodeJS.Timeout;
  const watching = (...args: unknown[]): NodeJS.Timeout => {
    const timer = starting(...args);
    timers.add(timer);
    return timer;
  };
  // `promisify.custom`, which node:util looks for.
  return Object.defineProperties(watching, Object.getOwnPropertyDescriptors(start)) as T;
}
globalThis.setTimeout = watched(globalThis.setTimeout);
globalThis.setInterval = watched(globalThis.setInterval);

const warnings: string[] = [];
process.on('warning', ({ name, message }) => {
  warnings.push(`${name}: ${message}`);
});

function countTimers(): number {
  for (const timer of timers) {
    // Node's own mark of what was cleared or has fired.
    if ((timer as unknown as { readonly _destroyed: boolean })._destroyed) timers.delete(timer);
  }
  return timers.size;
}

process.on('message', () => {
  const timerCount = countTimers();
  collectGarbage();
  // What the first collection let go, finalizers are told of between the two.
  setImmediate(() => {
    collectGarbage();
    const { heapUsed, external, rss } = process.memoryUsage();
    const resources: Record<string, number> = {};
    for (const kind of process.getActiveResourcesInfo()) {
      resources[kind] = (resources[kind] ?? 0) + 1;
    }
    const listeners = process
      .eventNames()
      .reduce((sum, event) => sum + process.listenerCount(event), 0);
    const answer: ProbeAnswer = {
      heapUsedBytes: heapUsed,
      externalBytes: external,
      rssBytes: rss,
      timers: timerCount,
      resources,
      listeners,
      warnings,
    };
    process.send!(answer);
  });
});
