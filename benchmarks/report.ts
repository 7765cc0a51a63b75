import type { ServerName } from './harness/server.js';
import type { Figures, Scale, Workload } from './workloads/workload.js';

/** All runs of a workload, by server; `undefined` for a failed run. */
export type Outcomes = ReadonlyMap<ServerName, readonly (Figures | undefined)[]>;

/**
 * The figures as a markdown table. For each server: the median of all runs (min–max), and its ratio
 * to the grpc-js floor. Ratios use consecutive runs, so that a slow minute of the machine affects
 * both.
 */
export function markdownTable(
  workloads: readonly Workload[],
  servers: readonly ServerName[],
  outcomes: ReadonlyMap<string, Outcomes>,
  scale: Scale,
): string {
  const withRatio = servers.includes('floor');
  const header = servers.flatMap((server) =>
    withRatio && server !== 'floor' ? [TITLES[server], '÷ floor'] : [TITLES[server]],
  );
  const rows = workloads.flatMap((workload) => {
    const outcome = outcomes.get(workload.id);
    if (outcome === undefined) return [];
    return metricsOf(outcome).map((metric, row) => {
      const cells = servers.flatMap((server) => {
        const values = series(outcome, server, metric);
        if (!withRatio || server === 'floor') return [spread(values)];
        return [spread(values), ratio(values, series(outcome, 'floor', metric))];
      });
      const label = row === 0 ? `${workload.id} ${workload.title(scale)}` : '';
      return [label, metric, ...cells];
    });
  });
  const all = [
    ['workload', 'metric', ...header],
    ['---', '---', ...header.map(() => '---')],
    ...rows,
  ];
  return all.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

const TITLES: Readonly<Record<ServerName, string>> = {
  floor: 'grpc-js floor',
  'floor-http2': 'node:http2 floor',
  'floor-go': 'Go floor',
  linear: 'LinearCache',
  tributary: 'Tributary',
};

function metricsOf(outcome: Outcomes): readonly string[] {
  const metrics = new Set<string>();
  for (const runs of outcome.values()) {
    for (const figures of runs) for (const metric of figures?.keys() ?? []) metrics.add(metric);
  }
  return [...metrics];
}

function series(
  outcome: Outcomes,
  server: ServerName,
  metric: string,
): readonly (number | undefined)[] {
  return (outcome.get(server) ?? []).map((figures) => figures?.get(metric));
}

/**
 * The cost of a delivery with a catalogue of 100,000 relative to 100, with equally many clients and
 * without the floor's own increase. One line per server; none if a figure is missing.
 */
export function catalogueFactors(
  servers: readonly ServerName[],
  outcomes: ReadonlyMap<string, Outcomes>,
): readonly string[] {
  const rise = (server: ServerName): number | undefined => {
    const [small, large] = ['W3-100-20', 'W3-100k'].map((id) =>
      median(series(outcomes.get(id) ?? new Map(), server, 'CPU µs/delivery')),
    );
    return small === undefined || large === undefined || small <= 0 ? undefined : large / small;
  };
  const floor = rise('floor');
  if (floor === undefined || floor <= 0) return [];
  return servers.flatMap((server) => {
    const own = rise(server);
    if (server === 'floor' || own === undefined) return [];
    return [`Catalogue factor of ${TITLES[server]}: ${figure(own / floor)} ×`];
  });
}

function sorted(values: readonly (number | undefined)[]): readonly number[] {
  return values.filter((value) => value !== undefined).sort((a, b) => a - b);
}

function median(values: readonly (number | undefined)[]): number | undefined {
  const known = sorted(values);
  if (known.length === 0) return undefined;
  return (known[(known.length - 1) >> 1]! + known[known.length >> 1]!) / 2;
}

function spread(values: readonly (number | undefined)[], unit = ''): string {
  const known = sorted(values);
  const middle = median(known);
  if (middle === undefined) return '–';
  if (known.length === 1) return `${figure(middle)}${unit}`;
  return `${figure(middle)}${unit} (${figure(known[0]!)}–${figure(known.at(-1)!)})`;
}

function ratio(
  values: readonly (number | undefined)[],
  floor: readonly (number | undefined)[],
): string {
  const ratios = values.map((value, run) => {
    const base = floor[run];
    return value === undefined || base === undefined || base <= 0 ? undefined : value / base;
  });
  return spread(ratios, ' ×');
}

/** A shared machine cannot resolve more than three digits. */
function figure(value: number): string {
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en');
  return String(Number(value.toPrecision(Math.abs(value) < 1 ? 2 : 3)));
}
