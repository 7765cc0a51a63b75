import { BASES, figureText, type Cell, type PublishedFigures, type Spread } from './figures.js';
import { SERVER_NAMES, type ServerName } from './harness/server.js';

export const TITLES: Readonly<Record<ServerName, string>> = {
  floor: 'grpc-js floor',
  'floor-http2': 'node:http2 floor',
  'floor-go': 'Go floor',
  linear: 'LinearCache',
  tributary: 'Tributary',
};

interface Column {
  readonly title: string;
  readonly text: (cells: Readonly<Partial<Record<ServerName, Cell>>>) => string;
}

/**
 * The figures as a markdown table: for each server the median of all runs (lowest–highest), and for
 * those that are not floors the ratio to each floor.
 */
export function markdownTable({ workloads }: PublishedFigures): string {
  const allCells = workloads.flatMap(({ metrics }) => Object.values(metrics));
  const columns = SERVER_NAMES.flatMap((server): readonly Column[] => {
    const mine = allCells.flatMap((cells) => cells[server] ?? []);
    if (mine.length === 0) return [];
    const own: Column = { title: TITLES[server], text: (cells) => spread(cells[server]?.value) };
    const ratios = BASES.filter((base) => mine.some(({ ratios }) => ratios?.[base] !== undefined));
    return [own, ...ratios.map((base) => ratioColumn(server, base))];
  });
  const rows = workloads.flatMap(({ id, title, metrics }) =>
    Object.entries(metrics).map(([metric, cells], row) => {
      const label = row === 0 ? `${id} ${title}` : '';
      return [label, metric, ...columns.map(({ text }) => text(cells))];
    }),
  );
  const all = [
    ['workload', 'metric', ...columns.map(({ title }) => title)],
    ['---', '---', ...columns.map(() => '---')],
    ...rows,
  ];
  return all.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function ratioColumn(server: ServerName, base: ServerName): Column {
  return {
    title: `÷ ${TITLES[base]}`,
    text: (cells) => spread(cells[server]?.ratios?.[base], ' ×'),
  };
}

function spread(value: Spread | undefined, unit = ''): string {
  if (value === undefined) return '–';
  const [median, lowest, highest] = value.map(figureText);
  return `${median!}${unit}${lowest === highest ? '' : ` (${lowest!}–${highest!})`}`;
}
