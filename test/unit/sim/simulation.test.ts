/**
 * A fixed number of simulated worlds (docs/SIMULATION.md): the cores of both sides, with faults, on
 * a simulated clock, network and disk. `npm run sim` checks many more.
 */
import { availableParallelism } from 'node:os';
import t from 'tap';
import { runSeeds } from '../../sim/pool.js';
import { KEPT_SEEDS, replayOf, seedsFrom } from '../../sim/seeds.js';
import { runSeed } from '../../sim/simulation.js';

const RUNS = 150;

t.setTimeout(300_000);

t.test(
  'in simulated worlds with every fault, each step keeps the invariants, and the final state is correct (invariants 1 to 12, 16 to 19, 21, 22)',
  async (t) => {
    const seeds = [...KEPT_SEEDS, ...seedsFrom(1_000_000, RUNS)];
    const failures: string[] = [];
    const summary = await runSeeds(seeds, {
      workers: availableParallelism(),
      onFailure: ({ violation }, seed) => {
        failures.push(`${replayOf(seed)}: ${violation?.message ?? ''}`);
      },
    });
    t.strictSame(failures, []);
    t.equal(summary.runs, seeds.length);
    t.ok(summary.responses > 5_000, `${summary.responses} responses were checked`);
  },
);

t.test('the same seed gives the same effects, byte for byte (invariant 15)', (t) => {
  const [first, ...others] = seedsFrom(10, 3).map(({ seed }) => runSeed(seed).hash);
  t.equal(runSeed(10).hash, first);
  for (const other of others) t.not(other, first);
  t.end();
});
