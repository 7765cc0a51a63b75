/**
 * A fixed number of simulated worlds (docs/SIMULATION.md): the cores of both sides, with faults, on a
 * simulated clock, network and disk. `npm run sim` looks at many more.
 */
import { availableParallelism } from 'node:os';
import t from 'tap';
import { runSeeds } from '../../sim/pool.js';
import { SEEDS } from '../../sim/seeds.js';
import { runSeed } from '../../sim/simulation.js';

const RUNS = 150;

t.setTimeout(300_000);

t.test(
  'in simulated worlds of every fault, each step keeps the rules, and all is well in the end (invariants 1 to 12, 16 to 19, 21, 22)',
  async (t) => {
    const seeds = Array.from({ length: RUNS }, (_, index) => 1_000_000 + index);
    const failures: string[] = [];
    const summary = await runSeeds([...SEEDS, ...seeds], {
      workers: availableParallelism(),
      onFailure: ({ seed, violation }) => {
        failures.push(`npm run sim -- --seed ${seed}: ${violation?.message ?? ''}`);
      },
    });
    t.strictSame(failures, []);
    t.equal(summary.runs, seeds.length + SEEDS.length);
    t.ok(summary.responses > 5_000, `${summary.responses} responses were looked at`);
  },
);

t.test('the same seed gives the same effects, byte for byte (invariant 15)', (t) => {
  for (const seed of SEEDS.slice(0, 3))
    t.equal(runSeed(seed).hash, runSeed(seed).hash, `seed ${seed}`);
  t.not(runSeed(SEEDS[0]!).hash, runSeed(SEEDS[1]!).hash);
  t.end();
});
