/**
 * Loaded into a gateway's process before the gateway (`node --import`). It measures the turns of the event
 * loop in CPU time, since wall time depends on other processes, and answers each message of the parent
 * process with its figures. The gateway itself knows nothing of it.
 */
import { openSync, readSync } from 'node:fs';

export interface TurnFigures {
  /** CPU time of the main thread in its longest turn. */
  readonly longestTurnCpuMs: number;
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
  rssBytes: 0,
  heapUsedBytes: 0,
  externalBytes: 0,
};

/** Its first number is the CPU time of the thread in ns (Documentation/scheduler/sched-stats of Linux). */
const schedstat = openSync(`/proc/self/task/${process.pid}/schedstat`, 'r');
const text = Buffer.alloc(64);
const cpuMs = (): number => {
  // The kernel counts the time of a running thread every 4 ms, and when it is asked for this.
  process.cpuUsage();
  const bytes = readSync(schedstat, text, 0, text.length, 0);
  return Number.parseInt(text.toString('latin1', 0, bytes), 10) / NANOSECONDS_PER_MS;
};

let figures = NOTHING;
let ticks = 0;
let lastCpuMs = cpuMs();

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
  const nowCpuMs = cpuMs();
  const turnCpuMs = nowCpuMs - lastCpuMs;
  lastCpuMs = nowCpuMs;
  if (turnCpuMs > figures.longestTurnCpuMs) figures = { ...figures, longestTurnCpuMs: turnCpuMs };
  if (++ticks % TICKS_PER_SAMPLE === 0) takeMemory();
}, TICK_MS).unref();

/** `reset` begins a new measurement; the answer has the figures of the last one. */
process.on('message', (question) => {
  takeMemory();
  process.send!(figures);
  if (question === 'reset') figures = NOTHING;
});
