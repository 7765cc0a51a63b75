/**
 * Runs many seeds on all cores, or repeats one:
 *
 *   npm run sim -- [--runs 10000] [--from 1] [--workers n] [--most 20]
 *   npm run sim -- --seed 17 [--trace] [--without cut,crash]
 *
 * Prints each seed that failed with the command that replays it; exits with 1 if any failed.
 */
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { runSeeds } from './pool.js';
import { KEPT_SEEDS, replayOf, seedsFrom } from './seeds.js';
import { runSeed } from './simulation.js';

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '10000' },
    from: { type: 'string', default: '1' },
    workers: { type: 'string', default: String(availableParallelism()) },
    seed: { type: 'string' },
    trace: { type: 'boolean', default: false },
    without: { type: 'string', default: '' },
    most: { type: 'string', default: '20' },
  },
});

const without = values.without.split(',').filter((one) => one !== '');
if (values.seed !== undefined) replay(Number(values.seed));
else await search();

/** Runs twice, since the same seed must produce the same bytes. */
function replay(seed: number): void {
  const switchedOff = new Set(without);
  const onLine = (line: string): void => {
    console.log(line);
  };
  const first = runSeed(seed, values.trace ? { onLine, switchedOff } : { switchedOff });
  const second = runSeed(seed, { switchedOff });
  console.log(first);
  if (first.hash !== second.hash) console.log(`the second run differs: ${second.hash}`);
  process.exitCode = first.violation || first.hash !== second.hash ? 1 : 0;
}

async function search(): Promise<void> {
  const seeds = seedsFrom(Number(values.from), Number(values.runs));
  const startedMs = performance.now();
  const wanted = [...KEPT_SEEDS, ...seeds].map((seed) => ({
    ...seed,
    without: [...seed.without, ...without],
  }));
  const summary = await runSeeds(wanted, {
    workers: Number(values.workers),
    most: Number(values.most),
    onFailure: ({ violation }, seed) => {
      console.log(`seed ${seed.seed} breaks ${violation?.rule ?? ''}: ${violation?.message ?? ''}`);
      console.log(`  ${replayOf(seed)} --trace`);
    },
  });
  const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1);
  const { runs, failed, events, responses, cpuMs } = summary;
  console.log(
    `${runs} seeds, ${failed} failed, ${events} events, ${responses} responses, ` +
      `${seconds} s, ${(cpuMs / runs).toFixed(1)} ms of CPU per seed`,
  );
  process.exitCode = failed === 0 ? 0 : 1;
}
