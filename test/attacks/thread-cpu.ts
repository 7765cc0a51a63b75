/** The CPU time of this process's main thread, which neither other processes nor the threads of V8 lengthen. */
import { openSync, readSync } from 'node:fs';

const NANOSECONDS_PER_MS = 1_000_000;

/** Its first number is the CPU time of the thread in ns (Documentation/scheduler/sched-stats of Linux). */
const schedstat = openSync(`/proc/self/task/${process.pid}/schedstat`, 'r');
const text = Buffer.alloc(64);

/** @returns ms since the thread began. The kernel updates it every 4 ms or so while the thread runs. */
export function threadCpuMs(): number {
  const bytes = readSync(schedstat, text, 0, text.length, 0);
  return Number.parseInt(text.toString('latin1', 0, bytes), 10) / NANOSECONDS_PER_MS;
}
