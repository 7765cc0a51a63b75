/**
 * Loaded into a gateway's process before the gateway (`node --import`), to tell the parent process
 * what is held there. The gateway itself knows nothing of it.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { watchTimers } from '../support/live-timers.js';
import type { ProbeAnswer } from './gateway-meter.js';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

const timers = watchTimers();

const warnings: string[] = [];
process.on('warning', ({ name, message }) => {
  warnings.push(`${name}: ${message}`);
});

process.on('message', () => {
  const timersByPlace = timers.byPlace();
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
      timers: [...timersByPlace.values()].reduce((sum, count) => sum + count, 0),
      timersByPlace: Object.fromEntries(timersByPlace),
      resources,
      listeners,
      warnings,
    };
    process.send!(answer);
  });
});
