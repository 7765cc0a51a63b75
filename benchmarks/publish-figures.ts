/** Puts figures into the repository: docs/performance-figures.json, the documents and the charts. */
import { readFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { svgOf, type Panel } from './chart.js';
import { figureText, type PublishedFigures } from './figures.js';
import { projectRoot } from './harness/paths.js';
import { SERVER_NAMES } from './harness/server.js';
import { withFigures } from './quotes.js';
import { TITLES } from './report.js';

const FIGURES_FILE = join(projectRoot, 'docs', 'performance-figures.json');

/** The captions of a chart, by the metric that each panel shows. */
interface ChartPlan {
  readonly id: string;
  readonly title: string;
  readonly panels: Readonly<Record<string, string>>;
}

const CHARTS: Readonly<Record<string, ChartPlan>> = {
  'performance-w2.svg': {
    id: 'W2',
    title: '1 change of 100,000 resources to 1,000 watchers (W2)',
    panels: {
      'CPU µs/delivery': 'CPU of the server, µs per delivery',
      'p50 ms': 'change → a client has read it, median in ms',
      'peak RSS MiB': 'peak of the resident memory, MiB',
    },
  },
  'performance-w5.svg': {
    id: 'W5',
    title: '1,000 changes a second to 200 wildcard clients (W5)',
    panels: {
      'CPU µs/(change × client)': 'CPU of the server, µs per change and client',
      'all exact after the last, ms': 'last change → all clients are exact, ms',
    },
  },
  'performance-memory.svg': {
    id: 'M',
    title: 'Resident memory at rest (M)',
    panels: {
      'KiB/resource': 'KiB per resource of 1 KiB',
      'bytes/(wildcard × resource)': 'bytes per wildcard client and resource',
      'KiB/client with 100 names': 'KiB per client with 100 names',
    },
  },
};

export async function readFigures(): Promise<PublishedFigures> {
  return JSON.parse(await readFile(FIGURES_FILE, 'utf8')) as PublishedFigures;
}

/** Throws, before it writes, when a document quotes a figure that does not exist. */
export async function publish(figures: PublishedFigures): Promise<void> {
  const documents = await documentsOf();
  const options = await resolveConfig(FIGURES_FILE);
  const json = await format(JSON.stringify(figures), { ...options, filepath: FIGURES_FILE });
  const files = new Map([[FIGURES_FILE, json]]);
  for (const [path, text] of documents) files.set(path, withFigures(text, figures));
  for (const [path, svg] of chartsOf(figures)) files.set(path, svg);
  for (const [path, text] of files) {
    if (documents.get(path) !== text) await writeFile(path, text);
  }
}

/** The documents that may quote figures, by path. */
export async function documentsOf(): Promise<ReadonlyMap<string, string>> {
  const docs = await readdir(join(projectRoot, 'docs'), { recursive: true });
  const names = ['README.md', ...docs.map((name) => join('docs', name))];
  const paths = names.filter((name) => name.endsWith('.md')).map((name) => join(projectRoot, name));
  const read = async (path: string) => [path, await readFile(path, 'utf8')] as const;
  return new Map(await Promise.all(paths.map(read)));
}

/** The charts, by path. */
export function chartsOf({ workloads }: PublishedFigures): ReadonlyMap<string, string> {
  const charts = Object.entries(CHARTS).map(([file, { id, title, panels }]) => {
    const metrics = workloads.find((workload) => workload.id === id)?.metrics ?? {};
    const drawn = Object.entries(panels).map(([metric, caption]): Panel => {
      const bars = SERVER_NAMES.flatMap((server) => {
        const value = metrics[metric]?.[server]?.value[0];
        if (value === undefined) return [];
        return [{ label: TITLES[server], value, text: figureText(value) }];
      });
      return { caption, bars };
    });
    const svg = svgOf({ title, panels: drawn, highlighted: TITLES.tributary });
    return [join(projectRoot, 'docs', file), svg] as const;
  });
  return new Map(charts);
}
