/** Runs seeds on worker threads; each takes shares of them and reports its results. */
import { Worker } from 'node:worker_threads';
import type { SeedSpec } from './seeds.js';
import type { Outcome } from './simulation.js';

export interface PoolOptions {
  readonly workers: number;
  readonly onFailure: (outcome: Outcome, seed: SeedSpec) => void;
  /** Stops after this many failures. */
  readonly most?: number;
}

export interface Summary {
  readonly runs: number;
  readonly failed: number;
  readonly events: number;
  readonly responses: number;
  readonly cpuMs: number;
}

/** The seeds for a worker. */
export type Share = readonly SeedSpec[];

/** A worker's report about one seed. */
export interface Report {
  readonly seed: SeedSpec;
  readonly outcome: Outcome;
  readonly cpuMs: number;
}

/** A world produces much young garbage; a larger young generation collects it faster. */
const YOUNG_MB = 64;
/** Small, so that the slow seeds do not all end at one worker. */
const SHARE = 25;
/** A search for the first failure runs no more seeds than this after it. */
const SHARE_FOR_FIRST = 2;

export async function runSeeds(
  seeds: readonly SeedSpec[],
  { workers, onFailure, most = 20 }: PoolOptions,
): Promise<Summary> {
  const share = most === 1 ? SHARE_FOR_FIRST : SHARE;
  const total = { runs: 0, failed: 0, events: 0, responses: 0, cpuMs: 0 };
  let next = 0;
  const take = ({ seed, outcome, cpuMs }: Report): void => {
    total.runs++;
    total.events += outcome.events;
    total.responses += outcome.responses;
    total.cpuMs += cpuMs;
    if (!outcome.violation) return;
    total.failed++;
    onFailure(outcome, seed);
  };
  const work = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const worker = new Worker(new URL('./worker.js', import.meta.url), {
        resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
      });
      const give = (): void => {
        const given: Share = total.failed >= most ? [] : seeds.slice(next, next + share);
        next += given.length;
        if (given.length > 0) worker.postMessage(given);
        else void worker.terminate();
      };
      worker.on('message', (message: Report | 'done') => {
        if (message === 'done') give();
        else take(message);
      });
      worker.on('error', reject);
      worker.on('exit', () => {
        resolve();
      });
      give();
    });
  await Promise.all(Array.from({ length: workers }, work));
  return total;
}
