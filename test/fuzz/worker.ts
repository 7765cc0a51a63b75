/** A thread of the pool. */
import { parentPort, workerData } from 'node:worker_threads';
import { runCase, type Failure } from './cases.js';
import { explore } from './explore.js';
import { PROGRESS, type Done, type Task } from './pool.js';
import type { Prepared } from './target.js';
import { targetOf } from './targets.js';

// Decoders refuse by exceptions, and a stack trace would cost more than everything else. Failures
// are replayed with one.
Error.stackTraceLimit = 0;
const progress = workerData as Int32Array;
const ready = new Map<string, Prepared>();
/** One bug breaks many cases. */
const MAX_FAILURES = 3;

async function perform({ target: name, found, from, to }: Task): Promise<Done> {
  const startedMs = performance.now();
  const target = targetOf(name);
  const prepared = ready.get(name) ?? (await target.prepare());
  ready.set(name, prepared);
  const onStep = (): void => {
    progress[PROGRESS.messages] = (progress[PROGRESS.messages]! + 1) | 0;
  };
  const counts = { mutated: 0, accepted: 0 };
  const failures: Failure[] = [];
  const reached = found ?? explore(target, prepared, onStep);
  const seeds = [...prepared.seeds, ...reached];
  for (let seed = from; seed < to && failures.length < MAX_FAILURES; seed++) {
    progress[PROGRESS.seed] = seed;
    const failure = runCase(target, prepared, seeds, seed, counts, onStep);
    if (failure) failures.push(failure);
  }
  const ms = performance.now() - startedMs;
  return { target: name, found: reached, seeds: prepared.seeds.length, ...counts, ms, failures };
}

parentPort?.on('message', (task: Task) => {
  void perform(task).then((done) => {
    parentPort?.postMessage(done);
  });
});
