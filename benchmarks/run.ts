/**
 * Runs the benchmarks and prints one markdown table; writes the figures of every run as JSON to
 * `.provisioned/bench-results/`. docs/PERFORMANCE.md explains what is measured and how.
 *
 *   node benchmarks/provision.mjs && npm run build
 *   node build/benchmarks/run.js [--only W2,W3-100] [--servers floor,floor-go,tributary]
 *                                [--runs 3] [--quick] [--publish]
 *
 * `--publish` puts the figures of a complete run into the documents (publish-figures.ts).
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { pinning } from './harness/child.js';
import { resultsFolder } from './harness/paths.js';
import { SERVER_NAMES, type ServerName } from './harness/server.js';
import { figuresOf, type Metrics, type Results } from './figures.js';
import { publish } from './publish-figures.js';
import { markdownTable } from './report.js';
import { WORKLOADS } from './workloads/index.js';
import type { Workload } from './workloads/workload.js';

/** `--quick` shows only that everything works; its figures mean nothing. */
const QUICK_SCALE = 25;

const { values: flags } = parseArgs({
  options: {
    only: { type: 'string' },
    servers: { type: 'string', default: SERVER_NAMES.join(',') },
    runs: { type: 'string' },
    quick: { type: 'boolean', default: false },
    publish: { type: 'boolean', default: false },
  },
});
const scale = flags.quick ? QUICK_SCALE : 1;
const runs = Number(flags.runs ?? (flags.quick ? 1 : 3));
const servers = serversOf(flags.servers);
const only = flags.only?.split(',');
const workloads = WORKLOADS.filter(({ id }) => only?.some((asked) => matches(id, asked)) ?? true);
if (flags.publish && (flags.quick || only !== undefined || servers.length < SERVER_NAMES.length)) {
  throw new Error('--publish needs all workloads, all servers and the full size');
}
const say = (text: string): boolean => process.stderr.write(`${text}\n`);

function serversOf(list: string): readonly ServerName[] {
  const asked = list.split(',');
  const unknown = asked.find((name) => !SERVER_NAMES.some((known) => known === name));
  if (unknown !== undefined)
    throw new Error(`no server ${unknown}: one of ${SERVER_NAMES.join(', ')}`);
  return SERVER_NAMES.filter((name) => asked.includes(name));
}

/** `W3` means all ids that start with `W3-`, unless one is exactly that. */
function matches(id: string, asked: string): boolean {
  const isId = WORKLOADS.some((workload) => workload.id === asked);
  return isId ? id === asked : id.startsWith(`${asked}-`);
}

async function once(workload: Workload, server: ServerName): Promise<Metrics | null> {
  try {
    const figures = await workload.run(server, scale);
    const text = [...figures].map(([metric, value]) => `${metric} ${value.toPrecision(3)}`);
    say(`${workload.id} ${server}: ${text.join('; ')}`);
    return Object.fromEntries(figures);
  } catch (error) {
    process.exitCode = 1;
    say(
      `${workload.id} ${server}: FAILED: ${error instanceof Error ? error.message : String(error)}`,
    );
    return null;
  }
}

/** Servers take turns, so that the runs of one ratio are close in time. */
async function runAll(workload: Workload): Promise<Results['workloads'][number]['servers']> {
  const participants = servers.filter((name) => workload.servers?.includes(name) ?? true);
  const outcomes = participants.map((name) => [name, [] as (Metrics | null)[]] as const);
  for (let run = 0; run < runs; run += 1) {
    for (const [server, list] of outcomes) list.push(await once(workload, server));
  }
  return Object.fromEntries(outcomes);
}

const measured: Results['workloads'][number][] = [];
for (const workload of workloads) {
  const outcomes = await runAll(workload);
  measured.push({ id: workload.id, title: workload.title(scale), servers: outcomes });
}
const machine = `${cpus()[0]?.model ?? 'unknown CPU'}, ${cpus().length} cores; ${pinning}`;
const results: Results = {
  date: new Date().toISOString(),
  preface: `Node ${process.version}; ${machine}; ${runs} run(s): median (lowest–highest)${flags.quick ? '; QUICK, of no value' : ''}`,
  scale,
  workloads: measured,
};
const figures = figuresOf([results]);
process.stdout.write(`${results.preface}\n\n${markdownTable(figures)}\n`);

await mkdir(resultsFolder, { recursive: true });
const file = join(resultsFolder, `${results.date.replaceAll(':', '-')}.json`);
await writeFile(file, `${JSON.stringify(results, undefined, 2)}\n`);
say(`figures of every run: ${file}`);
if (flags.publish && process.exitCode === undefined) await publish(figures);
else if (flags.publish)
  say(`not published, because a run failed: node build/benchmarks/publish.js`);
