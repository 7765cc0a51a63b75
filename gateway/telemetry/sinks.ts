/** Where the parts of the telemetry write. */
import type { Logger } from 'pino';
import type { Metrics } from './metrics.js';
import type { Repeats } from './repeats.js';

export interface Sinks {
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Withholds log lines that say again what a recent line said. */
  readonly repeats: Repeats;
  /** Milliseconds, monotonic. */
  readonly clock: () => number;
}
