/**
 * Publishes saved results: docs/performance-figures.json, and what documents and charts repeat of it.
 *
 *   node build/benchmarks/publish.js .provisioned/bench-results/….json […]   replaces all figures
 *   node build/benchmarks/publish.js                    only brings documents and charts up to date
 *
 * A workload of a later file replaces that of an earlier one.
 */
import { readFile } from 'node:fs/promises';
import { figuresOf, type Results } from './figures.js';
import { publish, readFigures } from './publish-figures.js';

const results = await Promise.all(
  process.argv.slice(2).map(async (path): Promise<Results> => {
    const read = JSON.parse(await readFile(path, 'utf8')) as Results;
    if (read.scale !== 1) throw new Error(`${path} is of a quick run, which measures nothing`);
    return read;
  }),
);
await publish(results.length === 0 ? await readFigures() : figuresOf(results));
