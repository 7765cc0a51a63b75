/**
 * Loaded into a gateway's process before the gateway (`node --import`). It measures the turns of the event
 * loop in CPU time, since wall time depends on other processes, and answers each message of the parent
 * process with its figures. The gateway itself knows nothing of it.
 */
import { openSync, readSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { constants, PerformanceObserver, type PerformanceEntry } from 'node:perf_hooks';

export interface TurnFigures {
  /** CPU time of the main thread in its longest turn without a major collection, to about 5 ms. */
  readonly longestTurnCpuMs: number;
  /**
   * The same in the longest turn with a major garbage collection. When V8 marks the whole heap depends on all
   * garbage until then, so no single attack causes it.
   */
  readonly longestCollectionCpuMs: number;
  /** The highest samples, taken every 50 ms. */
  readonly rssBytes: number;
  readonly heapUsedBytes: number;
  /** Outside the heap, of objects in it: buffers. */
  readonly externalBytes: number;
}

const TICK_MS = 5;
const TICKS_PER_SAMPLE = 10;
const NANOSECONDS_PER_MS = 1_000_000;
const NOTHING: TurnFigures = {
  longestTurnCpuMs: 0,
  longestCollectionCpuMs: 0,
  rssBytes: 0,
  heapUsedBytes: 0,
  externalBytes: 0,
};

/** Its first number is the CPU time of the thread in ns (Documentation/scheduler/sched-stats of Linux). */
const schedstat = openSync(`/proc/self/task/${process.pid}/schedstat`, 'r');
const text = Buffer.alloc(64);
const cpuMs = (): number => {
  const bytes = readSync(schedstat, text, 0, text.length, 0);
  return Number.parseInt(text.toString('latin1', 0, bytes), 10) / NANOSECONDS_PER_MS;
};

interface Turn {
  readonly beganMs: number;
  readonly endedMs: number;
  readonly cpuMs: number;
}

/** Shorter turns are not noted. */
const NOTED_TURN_CPU_MS = 5;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

let figures = NOTHING;
let ticks = 0;
let lastCpuMs = cpuMs();
let lastTickMs = performance.now();
let turns: Turn[] = [];
let collections: PerformanceEntry[] = [];

// Its entries come some turns later.
const observer = new PerformanceObserver((list) => {
  noteCollections(list.getEntries());
});
observer.observe({ entryTypes: ['gc'] });

function noteCollections(entries: readonly PerformanceEntry[]): void {
  for (const entry of entries) {
    const { detail } = entry as PerformanceEntry & { readonly detail: { readonly kind: number } };
    if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) collections.push(entry);
  }
}

function takeTurns(): Pick<TurnFigures, 'longestTurnCpuMs' | 'longestCollectionCpuMs'> {
  noteCollections(observer.takeRecords());
  const longest = { longestTurnCpuMs: 0, longestCollectionCpuMs: 0 };
  for (const { beganMs, endedMs, cpuMs } of turns) {
    const isCollection = collections.some(
      ({ startTime, duration }) => startTime < endedMs && startTime + duration > beganMs,
    );
    const key = isCollection ? 'longestCollectionCpuMs' : 'longestTurnCpuMs';
    longest[key] = Math.max(longest[key], cpuMs);
  }
  turns = [];
  collections = [];
  return longest;
}

function takeMemory(): void {
  const { rss, heapUsed, external } = process.memoryUsage();
  figures = {
    ...figures,
    rssBytes: Math.max(figures.rssBytes, rss),
    heapUsedBytes: Math.max(figures.heapUsedBytes, heapUsed),
    externalBytes: Math.max(figures.externalBytes, external),
  };
}

// A timer fires at most once in each turn, so the CPU time between two ticks is that of one turn, or of
// several turns that together lasted for about a tick.
setInterval(() => {
  const turn = { beganMs: lastTickMs, endedMs: performance.now(), cpuMs: cpuMs() - lastCpuMs };
  lastCpuMs += turn.cpuMs;
  lastTickMs = turn.endedMs;
  if (turn.cpuMs > NOTED_TURN_CPU_MS) turns.push(turn);
  if (++ticks % TICKS_PER_SAMPLE === 0) takeMemory();
}, TICK_MS).unref();

/**
 * `reset` begins a new measurement; the answer has the figures of the last one. `held` collects all garbage
 * first; the answer is the resident memory then, in bytes.
 */
process.on('message', (question) => {
  if (question === 'held') {
    collectGarbage();
    process.send!(process.memoryUsage.rss());
    return;
  }
  takeMemory();
  process.send!({ ...figures, ...takeTurns() });
  if (question === 'reset') figures = NOTHING;
});
