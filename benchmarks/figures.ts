import type { ServerName } from './harness/server.js';

/** The figures of every run, as run.ts writes them. */
export interface Results {
  readonly date: string;
  readonly preface: string;
  readonly scale: number;
  readonly workloads: readonly {
    readonly id: string;
    readonly title: string;
    /** By server: the metrics of each run; `null` for a failed run. */
    readonly servers: Readonly<Partial<Record<ServerName, readonly (Metrics | null)[]>>>;
  }[];
}

export type Metrics = Readonly<Record<string, number>>;

export type Spread = readonly [median: number, lowest: number, highest: number];

export interface Cell {
  readonly value: Spread;
  /** Relative to a floor, of consecutive runs: a slow minute of the machine affects both. */
  readonly ratios?: Readonly<Partial<Record<ServerName, Spread>>>;
}

export interface WorkloadFigures {
  readonly id: string;
  readonly title: string;
  /** By metric, then by server. */
  readonly metrics: Readonly<Record<string, Readonly<Partial<Record<ServerName, Cell>>>>>;
}

/** What docs/performance-figures.json contains: the source of every figure that a document quotes. */
export interface PublishedFigures {
  /** When, where and with how many runs. */
  readonly measured: string;
  readonly workloads: readonly WorkloadFigures[];
}

/** The floors that servers are compared with: of their own runtime, and of the peers'. */
export const BASES = ['floor', 'floor-go'] as const satisfies readonly ServerName[];

/** Floors have no ratios: a reader compares them with one another by their values. */
const COMPARED: readonly ServerName[] = ['linear', 'tributary'];

/** A workload of a later result replaces that of an earlier one. */
export function figuresOf(results: readonly Results[]): PublishedFigures {
  const latest = new Map(
    results.flatMap((result) => result.workloads.map((workload) => [workload.id, workload])),
  );
  const workloads = [...latest.values()].map(({ id, title, servers }) => ({
    id,
    title,
    metrics: metricsOf(servers),
  }));
  const measured = results.map(({ date, preface }) => `${date.slice(0, 10)}; ${preface}`);
  return {
    measured: [...new Set(measured)].join(' / '),
    workloads: withCatalogueFactor(workloads),
  };
}

type Runs = Results['workloads'][number]['servers'];

function metricsOf(servers: Runs): WorkloadFigures['metrics'] {
  const names = new Set(
    Object.values(servers).flatMap((runs) => runs.flatMap((run) => Object.keys(run ?? {}))),
  );
  return Object.fromEntries(
    [...names].map((metric) => {
      const cells = Object.keys(servers).flatMap((key) => {
        const server = key as ServerName;
        const cell = cellOf(servers, server, metric);
        return cell === undefined ? [] : [[server, cell] as const];
      });
      return [metric, Object.fromEntries(cells)];
    }),
  );
}

function cellOf(servers: Runs, server: ServerName, metric: string): Cell | undefined {
  const values = series(servers, server, metric);
  const value = spreadOf(values);
  if (value === undefined) return undefined;
  if (!COMPARED.includes(server)) return { value };
  const ratios = BASES.flatMap((base) => {
    const bases = series(servers, base, metric);
    const ratio = spreadOf(values.map((one, run) => quotient(one, bases[run])));
    return ratio === undefined ? [] : [[base, ratio] as const];
  });
  return ratios.length === 0 ? { value } : { value, ratios: Object.fromEntries(ratios) };
}

type Series = readonly (number | undefined)[];

function series(servers: Runs, server: ServerName, metric: string): Series {
  return (servers[server] ?? []).map((run) => run?.[metric]);
}

function quotient(value: number | undefined, base: number | undefined): number | undefined {
  return value === undefined || base === undefined || base <= 0 ? undefined : value / base;
}

function spreadOf(values: Series): Spread | undefined {
  const known = values.filter((value) => value !== undefined).sort((a, b) => a - b);
  const [lower, upper] = [known[(known.length - 1) >> 1], known[known.length >> 1]];
  if (lower === undefined || upper === undefined) return undefined;
  return [rounded((lower + upper) / 2), rounded(known[0]!), rounded(known.at(-1)!)];
}

/** Enough for three digits after one more division. */
const rounded = (value: number): number => Number(value.toPrecision(5));

const CATALOGUE_FACTOR = 'catalogue factor';

/**
 * The cost of a delivery with a catalogue of 100,000 relative to 100, with equally many clients and
 * without the grpc-js floor's own increase.
 */
function withCatalogueFactor(workloads: readonly WorkloadFigures[]): readonly WorkloadFigures[] {
  const rise = (server: ServerName): number | undefined => {
    const [small, large] = ['W3-100-20', 'W3-100k'].map((id) => {
      const found = workloads.find((workload) => workload.id === id);
      return found?.metrics['CPU µs/delivery']?.[server]?.value[0];
    });
    return quotient(large, small);
  };
  const floor = rise('floor');
  const cells = COMPARED.flatMap((server) => {
    const value = spreadOf([quotient(rise(server), floor)]);
    return value === undefined ? [] : [[server, { value }] as const];
  });
  if (cells.length === 0) return workloads;
  const at = workloads.findIndex(({ id }) => id === 'W3-100k') + 1;
  const factor: WorkloadFigures = {
    id: 'W3',
    title:
      'CPU per delivery, catalogue 100,000 ÷ catalogue 100, 20 clients, ÷ the same of the grpc-js floor',
    metrics: { [CATALOGUE_FACTOR]: Object.fromEntries(cells) },
  };
  return workloads.toSpliced(at, 0, factor);
}

/** A shared machine cannot resolve more than three digits. */
export function figureText(value: number): string {
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en');
  return String(Number(value.toPrecision(Math.abs(value) < 1 ? 2 : 3)));
}
