/**
 * The gauges of one client: what its latest report added to the sums of the sources. A report is complete
 * (a locality that it leaves out has no requests in progress), so the next one replaces all of them.
 */
import type { ConnectionCounts, RequestCounts } from '../../../protos/load-stats.js';

interface Held {
  readonly requests: RequestCounts;
  readonly inProgress: number;
  readonly connections: ConnectionCounts | undefined;
  readonly active: number;
}

/** Of one client in one locality. It keeps the sum over all clients exact, whatever a client reports. */
const MAX_GAUGE = 2 ** 32;

export class ClientGauges {
  #held: Held[] = [];

  /** Adds the gauges of a report to sums, and remembers them. */
  add(
    sum: { readonly requests: RequestCounts; readonly connections?: ConnectionCounts },
    load: {
      readonly requests: Readonly<RequestCounts>;
      readonly connections?: Readonly<ConnectionCounts>;
    },
  ): void {
    const { requests, connections } = sum;
    const inProgress = Math.min(MAX_GAUGE, load.requests.inProgress);
    const active = Math.min(MAX_GAUGE, load.connections?.active ?? 0);
    if (inProgress === 0 && active === 0) return;
    requests.inProgress += inProgress;
    if (connections) connections.active += active;
    this.#held.push({ requests, inProgress, connections, active });
  }

  /** Takes the gauges out of the sums again. */
  clear(): void {
    for (const { requests, inProgress, connections, active } of this.#held) {
      requests.inProgress -= inProgress;
      if (connections) connections.active -= active;
    }
    this.#held = [];
  }
}
