/** A thread of the pool. */
import { parentPort } from 'node:worker_threads';
import type { Report, Share } from './pool.js';
import { runSeed } from './simulation.js';

parentPort?.on('message', (share: Share) => {
  for (const seed of share) {
    const startedMs = performance.now();
    const outcome = runSeed(seed.seed, { switchedOff: new Set(seed.without) });
    const cpuMs = performance.now() - startedMs;
    parentPort?.postMessage({ seed, outcome, cpuMs } satisfies Report);
  }
  parentPort?.postMessage('done');
});
