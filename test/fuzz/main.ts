/**
 * Sends mutated messages to every reader of external input (docs/FUZZING.md):
 *
 *   npm run fuzz -- [--target delta-request,…] [--messages n] [--workers n] [--from 1]
 *   npm run fuzz -- --target delta-request --seed 17
 *   npm run fuzz -- --target delta-request --steps '[["<base64>",17],…]'
 *   npm run fuzz -- --linear
 *
 * `--messages` is the maximum per target. Each failure is printed with the command that replays it;
 * exits with 1 if there was one.
 */
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { replay, runCase, type Failure } from './cases.js';
import { explore } from './explore.js';
import { findSuperlinear } from './linear.js';
import { runTasks, type Done, type Task } from './pool.js';
import type { Target } from './target.js';
import { targetOf, TARGETS } from './targets.js';

const { values } = parseArgs({
  options: {
    target: { type: 'string', default: '' },
    messages: { type: 'string' },
    workers: { type: 'string', default: String(availableParallelism()) },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
    steps: { type: 'string' },
    linear: { type: 'boolean', default: false },
    most: { type: 'string', default: String(Infinity) },
  },
});

/**
 * Long enough that the start does not matter, short enough that all workers end at about the same
 * time.
 */
const SHARE_MICROSECONDS = 4_000_000;

const names = values.target.split(',').filter((one) => one !== '');
const chosen = names.length === 0 ? TARGETS : names.map(targetOf);
if (values.linear) tellSuperlinear();
else if (values.steps !== undefined) await replaySteps(values.steps);
else if (values.seed !== undefined) await replayCase(Number(values.seed));
else await runAll();

async function replaySteps(text: string): Promise<void> {
  const [target] = chosen;
  if (!target) return;
  const steps = (JSON.parse(text) as Failure['steps']).map(([message, dice]) => ({
    message: Buffer.from(message, 'base64'),
    dice,
    isMutated: true,
  }));
  const error = replay(await target.prepare(), steps);
  console.log(error ?? 'no failure');
  process.exitCode = error === undefined ? 0 : 1;
}

async function replayCase(seed: number): Promise<void> {
  for (const target of chosen) {
    const prepared = await target.prepare();
    const seeds = [...prepared.seeds, ...explore(target, prepared)];
    const failure = runCase(target, prepared, seeds, seed, { mutated: 0, accepted: 0 });
    if (failure) tell(failure);
    else console.log('no failure');
  }
}

async function runAll(): Promise<void> {
  const startedMs = performance.now();
  const done = new Map<string, Done>();
  let failed = 0;
  const options = {
    workers: Number(values.workers),
    onDone: (part: Done): void => {
      part.failures.forEach(tell);
      failed += part.failures.length;
      if (failed >= Number(values.most)) process.exit(1);
      done.set(part.target, added(done.get(part.target), part));
    },
    onHang: (target: string, seed: number): void => {
      console.log(`${target}: a message of seed ${seed} takes more than a minute`);
      console.log(`  npm run fuzz -- --target ${target} --seed ${seed}`);
      process.exitCode = 1;
    },
  };
  const longestFirst = [...chosen].sort((a, b) => costOf(b) - costOf(a));
  const first = longestFirst.map(({ name }): Task => ({ target: name, from: 0, to: 0 }));
  await runTasks(first, options);
  const shares = longestFirst.flatMap((target) =>
    sharesOf(target, done.get(target.name)?.found ?? []),
  );
  await runTasks(shares, options);
  table([...done.values()]);
  if (names.length === 0) tellSuperlinear();
  console.log(`${((performance.now() - startedMs) / 1_000).toFixed(0)} s`);
}

function messagesOf(target: Target): number {
  return Math.min(target.messages, Number(values.messages ?? Infinity));
}

function costOf(target: Target): number {
  return target.cost * messagesOf(target);
}

function sharesOf(target: Target, found: readonly Uint8Array[]): readonly Task[] {
  const cases = Math.ceil(messagesOf(target) / target.perCase);
  const size = Math.ceil(cases / Math.ceil(costOf(target) / SHARE_MICROSECONDS));
  const first = Number(values.from);
  const tasks: Task[] = [];
  for (let from = first; from < first + cases; from += size) {
    tasks.push({ target: target.name, found, from, to: Math.min(from + size, first + cases) });
  }
  return tasks;
}

function added(sum: Done | undefined, part: Done): Done {
  if (!sum) return part;
  return {
    ...sum,
    mutated: sum.mutated + part.mutated,
    accepted: sum.accepted + part.accepted,
    ms: sum.ms + part.ms,
    failures: [...sum.failures, ...part.failures],
  };
}

function tell({ target, seed, error, steps }: Failure): void {
  process.exitCode = 1;
  const text = JSON.stringify(steps);
  console.log(`\n${target}, seed ${seed}: ${error}`);
  console.log(`  npm run fuzz -- --target ${target} --seed ${seed}`);
  if (text.length < 4_000) console.log(`  npm run fuzz -- --target ${target} --steps '${text}'`);
}

function tellSuperlinear(): void {
  const { looked, found } = findSuperlinear();
  for (const words of found) console.log(words);
  if (found.length > 0) process.exitCode = 1;
  console.log(`${looked} pairs of sizes, ${found.length} slower than their size allows`);
}

function table(rows: readonly Done[]): void {
  const line = (...cells: readonly (string | number)[]): string =>
    cells
      .map((cell, at) => (at === 0 ? String(cell).padEnd(34) : String(cell).padStart(12)))
      .join('');
  console.log(line('target', 'messages', 'accepted', 'refused', 'per second', 'seeds', 'new code'));
  for (const { target, mutated, accepted, ms, seeds, found } of rows) {
    const perSecond = Math.round((mutated / ms) * 1_000);
    console.log(
      line(target, mutated, accepted, mutated - accepted, perSecond, seeds, found.length),
    );
  }
  const sum = (of: (done: Done) => number): number => rows.reduce((all, row) => all + of(row), 0);
  const { user, system } = process.cpuUsage();
  const cpuSeconds = Math.round((user + system) / 1e6);
  console.log(`${sum(({ mutated }) => mutated)} messages, ${cpuSeconds} s of CPU`);
}
