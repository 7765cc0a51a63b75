/** Clients that connect and leave in every way that a client can. */
import { encodeDeltaRequest } from '../../protos/delta-codec.js';
import { encodeNode } from '../../protos/node-codec.js';
import type { FaultProxy } from '../interop/peers/fault-proxy.js';
import type { StreamStatus } from '../support/ads-call.js';
import { DeltaClient } from '../support/delta-client.js';
import { SotwClient } from '../support/sotw-client.js';
import { openUnreadStream } from '../support/unread-stream.js';
import { CDS, LDS, xdstpName } from './content.js';

export const AUTHORITY = 'cloud.test';
export const PLAIN_NAMES = Array.from({ length: 10 }, (_, at) => `shop-${at}`);
export const ALL = xdstpName(CDS, AUTHORITY, 'all/*');
export const LISTENERS = xdstpName(LDS, AUTHORITY, 'all/*');
const BIG = xdstpName(CDS, AUTHORITY, 'big/*');

/** Upper bound of the number of node groups. */
const NODE_CLUSTERS = 8;
const MAX_PARKED = 50;
const GAP_MS = 10;
/** The churn counts clients without a response after this time. */
const PATIENCE_MS = 5_000;

interface Visit {
  readonly sinceMs: number;
  /** How long it stays, longest. */
  readonly stayMs: number;
  readonly leave: () => void;
  /** Absent for clients that read nothing. */
  readonly responses?: readonly unknown[];
  readonly status?: () => StreamStatus | undefined;
}

export interface ChurnOptions {
  readonly port: number;
  /** To the gateway; in mode `unread` now and then. */
  readonly slow: FaultProxy;
  readonly connectsPerSecond: number;
}

const some = <T>(all: readonly T[], count: number): readonly T[] =>
  Array.from({ length: count }, () => all[Math.floor(Math.random() * all.length)]!);

export function nodeOf(cluster: number): Uint8Array {
  const node = { id: `node-${cluster}`, cluster: `cluster-${cluster}` };
  return encodeNode({ ...node, userAgentName: 'soak', userAgentVersion: '1' });
}

export class Churn {
  readonly #options: ChurnOptions;
  /** Delta clients that left, and come back with what they hold. */
  readonly #parked: DeltaClient[] = [];
  readonly #visits = new Set<Visit>();
  readonly #counts = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #unheard = 0;

  /** Streams that the gateway ended, by status. */
  readonly ended = new Map<string, number>();

  readonly #kinds: readonly (readonly [kind: string, share: number, visit: () => Visit])[] = [
    ['delta', 0.3, () => this.#delta(this.#open())],
    ['delta that resumes', 0.25, () => this.#resumed()],
    ['state of the world', 0.2, () => this.#sotw()],
    ['old-style names', 0.1, () => this.#plain()],
    ['killed in a message', 0.12, () => this.#torn()],
    ['paused', 0.03, () => this.#paused()],
  ];

  constructor(options: ChurnOptions) {
    this.#options = options;
  }

  /** Visits so far by kind. */
  get counts(): ReadonlyMap<string, number> {
    return this.#counts;
  }

  get present(): number {
    return this.#visits.size;
  }

  /** Clients that waited long and were told nothing. */
  get unheard(): number {
    return this.#unheard;
  }

  start(): void {
    const startedMs = performance.now();
    let opened = 0;
    this.#timer = setInterval(() => {
      const due = ((performance.now() - startedMs) / 1_000) * this.#options.connectsPerSecond;
      for (; opened < due; opened++) this.#visit();
    }, GAP_MS);
  }

  /** No more clients come, and all leave. */
  stop(): void {
    clearInterval(this.#timer);
    for (const visit of [...this.#visits]) this.#end(visit);
  }

  #visit(): void {
    let dice = Math.random();
    const [kind, , begin] = this.#kinds.find(([, share]) => (dice -= share) < 0) ?? this.#kinds[0]!;
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + 1);
    const visit = begin();
    this.#visits.add(visit);
    setTimeout(
      () => {
        this.#end(visit);
      },
      visit.stayMs * (0.1 + 0.9 * Math.random()),
    );
  }

  #end(visit: Visit): void {
    if (!this.#visits.delete(visit)) return;
    const status = visit.status?.();
    const stayedMs = performance.now() - visit.sinceMs;
    if (status) {
      const what = `${status.code} ${status.details}`;
      this.ended.set(what, (this.ended.get(what) ?? 0) + 1);
    } else if (visit.responses?.length === 0 && stayedMs >= PATIENCE_MS) this.#unheard++;
    visit.leave();
  }

  #open(): DeltaClient {
    const client = new DeltaClient({
      port: this.#options.port,
      resumesMembers: Math.random() < 0.5,
    });
    const names = some(
      Array.from({ length: 20 }, (_, at) => xdstpName(CDS, AUTHORITY, `all/${at}`)),
      4,
    );
    client.subscribe(CDS, Math.random() < 0.5 ? [ALL] : names);
    client.subscribe(LDS, [LISTENERS]);
    return client;
  }

  #delta(client: DeltaClient): Visit {
    return {
      sinceMs: performance.now(),
      stayMs: Math.random() < 0.1 ? 8_000 : 1_500,
      get responses() {
        return client.responses;
      },
      status: () => client.status,
      leave: () => {
        client.close();
        if (this.#parked.length < MAX_PARKED) this.#parked.push(client);
      },
    };
  }

  #resumed(): Visit {
    const [client] = this.#parked.splice(Math.floor(Math.random() * this.#parked.length), 1);
    if (!client) return this.#delta(this.#open());
    client.reopen();
    return this.#delta(client);
  }

  #sotw(): Visit {
    const client = new SotwClient({ port: this.#options.port });
    client.subscribe(CDS, [xdstpName(CDS, AUTHORITY, 'all/1'), xdstpName(CDS, AUTHORITY, 'all/2')]);
    client.subscribe(LDS, [LISTENERS]);
    return this.#reading(client, 1_500);
  }

  #plain(): Visit {
    const node = nodeOf(Math.floor(Math.random() * NODE_CLUSTERS));
    const client = new SotwClient({ port: this.#options.port, node });
    client.subscribe(CDS, some(PLAIN_NAMES, 3));
    return this.#reading(client, 1_500);
  }

  #reading(client: SotwClient, stayMs: number): Visit {
    return {
      sinceMs: performance.now(),
      stayMs,
      responses: client.responses,
      status: () => client.status,
      leave: () => {
        client.close();
      },
    };
  }

  /** Its window takes a part of the first message; then its connection is gone. */
  #torn(): Visit {
    const request = encodeDeltaRequest({
      node: undefined,
      typeUrl: CDS,
      subscribe: [BIG],
      unsubscribe: [],
      initialVersions: new Map(),
      responseNonce: '',
      errorDetail: undefined,
    });
    const session = openUnreadStream(this.#options.port, request);
    return {
      sinceMs: performance.now(),
      stayMs: 500,
      leave: () => {
        session.destroy();
      },
    };
  }

  #paused(): Visit {
    const client = new DeltaClient({ port: this.#options.slow.port });
    client.subscribe(CDS, [BIG, ALL]);
    return {
      sinceMs: performance.now(),
      stayMs: 10_000,
      leave: () => {
        client.close();
      },
    };
  }
}
