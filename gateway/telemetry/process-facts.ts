/**
 * The standard metrics of a process (prometheus.io, "Writing client libraries", process metrics). prom-client's own
 * collection adds some thirty more series and an observer of each garbage collection.
 */
import { readdir, readFile } from 'node:fs/promises';
import type { GaugeName, Metrics, PutGauge } from './metrics.js';

const MICROSECONDS_PER_SECOND = 1_000_000;
const BYTES_PER_KIB = 1_024;
const STARTED_AT_SECONDS = performance.timeOrigin / 1_000;

/** One gauge and its value; undefined: this system does not tell it. */
type Fact = readonly [GaugeName, number | undefined];

export class ProcessFacts {
  #facts: readonly Fact[] = [];

  /** Reads the facts for the next scrape. Never rejects. */
  async read(metrics: Metrics): Promise<void> {
    const { user, system } = process.cpuUsage();
    metrics.tally('process_cpu_seconds_total').count = (user + system) / MICROSECONDS_PER_SECOND;
    const [status, limits, descriptors] = await Promise.all([
      textOf('/proc/self/status'),
      textOf('/proc/self/limits'),
      readdir('/proc/self/fd').catch(() => undefined),
    ]);
    const virtualKib = numberIn(status, /^VmSize:\s+(\d+) kB$/m);
    this.#facts = [
      ['process_virtual_memory_bytes', virtualKib && virtualKib * BYTES_PER_KIB],
      ['process_threads', numberIn(status, /^Threads:\s+(\d+)$/m)],
      // The reading itself has one open.
      ['process_open_fds', descriptors && descriptors.length - 1],
      ['process_max_fds', numberIn(limits, /^Max open files\s+(\d+)/m)],
    ];
  }

  put(put: PutGauge): void {
    put('process_resident_memory_bytes', [], process.memoryUsage.rss());
    put('process_start_time_seconds', [], STARTED_AT_SECONDS);
    for (const [name, value] of this.#facts) if (value !== undefined) put(name, [], value);
  }
}

/** Other systems than Linux have no /proc. */
const textOf = (path: string): Promise<string> => readFile(path, 'utf8').catch(() => '');

function numberIn(text: string, pattern: RegExp): number | undefined {
  const found = pattern.exec(text)?.[1];
  return found === undefined ? undefined : Number(found);
}
