/** One thread of the pool. */
import { parentPort } from 'node:worker_threads';
import type { Report, Share } from './pool.js';
import { runSeed } from './simulation.js';

parentPort?.on('message', ({ seeds, without }: Share) => {
  const switchedOff = new Set(without);
  for (const seed of seeds) {
    const startedMs = performance.now();
    const outcome = runSeed(seed, { switchedOff });
    const cpuMs = performance.now() - startedMs;
    parentPort?.postMessage({ outcome, cpuMs } satisfies Report);
  }
  parentPort?.postMessage('done');
});
