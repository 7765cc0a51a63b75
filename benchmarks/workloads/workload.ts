import { LoadGenerator, type Answer } from '../harness/load-generator.js';
import { AUTHORITY, type Server, type ServerName, type ServerOptions } from '../harness/server.js';
import { cpuMs } from '../harness/process-meter.js';
import { startServer } from '../harness/start-server.js';

/** The result of one run: metric → value. Metric names contain their units. */
export type Figures = ReadonlyMap<string, number>;

/** Sizes are divided by this; 1 is the published size. */
export type Scale = number;

export interface Workload {
  readonly id: string;
  readonly title: (scale: Scale) => string;
  /** Absent: all servers. */
  readonly servers?: readonly ServerName[];
  readonly run: (server: ServerName, scale: Scale) => Promise<Figures>;
}

export const TIMEOUT_MS = 60_000;
export const COMMON = { authority: AUTHORITY, timeoutMs: TIMEOUT_MS } as const;

export const down = (size: number, scale: Scale): number => Math.max(1, Math.round(size / scale));
export const count = (size: number): string => size.toLocaleString('en');
export const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

export interface Bench {
  readonly server: Server;
  readonly load: LoadGenerator;
  /** Starts a further set of clients, which ends with the others. */
  readonly another: () => LoadGenerator;
  /** CPU time of the server while `work` runs. */
  readonly measured: (work: () => Promise<Answer>) => Promise<{ answer: Answer; cpuMs: number }>;
}

export async function onServer(
  name: ServerName,
  options: ServerOptions,
  work: (bench: Bench) => Promise<Figures>,
): Promise<Figures> {
  const server = await startServer(name, options);
  const generators: LoadGenerator[] = [];
  const another = (): LoadGenerator => {
    const generator = new LoadGenerator();
    generators.push(generator);
    return generator;
  };
  try {
    return await work({
      server,
      load: another(),
      another,
      measured: async (run) => {
        const before = cpuMs(server.pid);
        const answer = await run();
        return { answer, cpuMs: cpuMs(server.pid) - before };
      },
    });
  } catch (error) {
    const obituary = server.obituary();
    throw obituary === undefined ? error : new Error(`${String(error)}; server: ${obituary}`);
  } finally {
    for (const generator of generators) await generator.stop();
    await server.stop();
  }
}

/** What each client subscribes. */
export type Demand =
  { readonly wildcardOf: number } | { readonly shared: number; readonly own: number };

export function asked(demand: Demand, server: Server) {
  return 'wildcardOf' in demand
    ? { wildcard: server.wildcard, members: demand.wildcardOf }
    : demand;
}

/** How the clients name the resources, and which flavour of the protocol they speak. */
export interface Variant {
  readonly oldStyle?: boolean;
  readonly sotw?: boolean;
}

/** The variants of a workload; each is a row of its own. */
export const VARIANTS: readonly { suffix: string; text: string; variant: Variant }[] = [
  { suffix: '', text: '', variant: {} },
  { suffix: '-old', text: ', old-style names', variant: { oldStyle: true } },
  { suffix: '-sotw', text: ', state of the world', variant: { sotw: true } },
];
