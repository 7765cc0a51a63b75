/** Targets on worker threads: each target is explored first, then its cases run in shares. */
import { Worker } from 'node:worker_threads';
import type { Failure } from './cases.js';

/** A task for a worker. */
export interface Task {
  readonly target: string;
  /** Messages found by exploring; absent: explore. */
  readonly found?: readonly Uint8Array[];
  /** Cases by seed; the last one is exclusive. */
  readonly from: number;
  readonly to: number;
}

export interface Done {
  readonly target: string;
  readonly found: readonly Uint8Array[];
  readonly seeds: number;
  readonly mutated: number;
  readonly accepted: number;
  readonly ms: number;
  readonly failures: readonly Failure[];
}

/** In shared memory: the case that a worker runs, and the number of its messages so far. */
export const PROGRESS = { seed: 0, messages: 1, length: 2 } as const;

const WATCH_INTERVAL_MS = 1_000;
/** For one message, on a machine that is busy otherwise. */
const HANG_MS = 60_000;

/** Garbage of a message dies young. */
const YOUNG_MIB = 64;
/** Like the main thread; workers have more by default. */
const STACK_MIB = 1;

export interface PoolOptions {
  readonly workers: number;
  readonly onDone: (done: Done) => void;
  /** Called for a message that takes more than a minute. */
  readonly onHang: (target: string, seed: number) => void;
}

/** Runs all tasks in order, as workers become free. */
export async function runTasks(tasks: readonly Task[], options: PoolOptions): Promise<void> {
  let next = 0;
  const work = (): Promise<void> =>
    new Promise((resolve, reject) => {
      if (next >= tasks.length) {
        resolve();
        return;
      }
      const progress = new Int32Array(new SharedArrayBuffer(4 * PROGRESS.length));
      const worker = new Worker(new URL('./worker.js', import.meta.url), {
        workerData: progress,
        resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MIB, stackSizeMb: STACK_MIB },
      });
      let task: Task | undefined;
      let messages = -1;
      // Counted, not measured: a process that is paused does not hang.
      let unchangedMs = 0;
      const give = (): void => {
        task = tasks[next++];
        unchangedMs = 0;
        if (task) worker.postMessage(task);
        else void worker.terminate();
      };
      const watch = setInterval(() => {
        const isUnchanged = progress[PROGRESS.messages] === messages;
        unchangedMs = isUnchanged ? unchangedMs + WATCH_INTERVAL_MS : 0;
        messages = progress[PROGRESS.messages]!;
        if (!task || unchangedMs < HANG_MS) return;
        options.onHang(task.target, progress[PROGRESS.seed]!);
        void worker.terminate();
      }, WATCH_INTERVAL_MS);
      worker.on('message', (done: Done) => {
        options.onDone(done);
        give();
      });
      worker.on('error', reject);
      worker.on('exit', () => {
        clearInterval(watch);
        // After a hang another worker takes the remaining tasks.
        resolve(work());
      });
      give();
    });
  await Promise.all(Array.from({ length: options.workers }, work));
}
