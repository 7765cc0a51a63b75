/**
 * Runs the benchmarks and prints one markdown table; writes the figures of every run as JSON to
 * `.provisioned/bench-results/`. docs/PERFORMANCE.md explains what is measured and how.
 *
 *   node benchmarks/provision.mjs && npm run build
 *   node build/benchmarks/run.js [--only W2,W3-100] [--servers floor,floor-go,tributary]
 *                                [--runs 3] [--quick]
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { pinning } from './harness/child.js';
import { resultsFolder } from './harness/paths.js';
import { SERVER_NAMES, type ServerName } from './harness/server.js';
import { catalogueFactors, markdownTable, type Outcomes } from './report.js';
import { WORKLOADS } from './workloads/index.js';
import type { Figures, Workload } from './workloads/workload.js';

/** `--quick` shows only that everything works; its figures mean nothing. */
const QUICK_SCALE = 25;

const { values: flags } = parseArgs({
  options: {
    only: { type: 'string' },
    servers: { type: 'string', default: SERVER_NAMES.join(',') },
    runs: { type: 'string' },
    quick: { type: 'boolean', default: false },
  },
});
const scale = flags.quick ? QUICK_SCALE : 1;
const runs = Number(flags.runs ?? (flags.quick ? 1 : 3));
const servers = serversOf(flags.servers);
const only = flags.only?.split(',');
const workloads = WORKLOADS.filter(({ id }) => only?.some((asked) => matches(id, asked)) ?? true);
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

async function once(workload: Workload, server: ServerName): Promise<Figures | undefined> {
  try {
    const figures = await workload.run(server, scale);
    const text = [...figures].map(([metric, value]) => `${metric} ${value.toPrecision(3)}`);
    say(`${workload.id} ${server}: ${text.join('; ')}`);
    return figures;
  } catch (error) {
    process.exitCode = 1;
    say(
      `${workload.id} ${server}: FAILED: ${error instanceof Error ? error.message : String(error)}`,
    );
    return undefined;
  }
}

/** Servers take turns, so that the runs of one ratio are close in time. */
async function runAll(workload: Workload): Promise<Outcomes> {
  const participants = servers.filter((name) => workload.servers?.includes(name) ?? true);
  const outcomes = new Map<ServerName, (Figures | undefined)[]>(
    participants.map((name) => [name, []]),
  );
  for (let run = 0; run < runs; run += 1) {
    for (const server of participants) outcomes.get(server)!.push(await once(workload, server));
  }
  return outcomes;
}

const all = new Map<string, Outcomes>();
for (const workload of workloads) all.set(workload.id, await runAll(workload));

const machine = `${cpus()[0]?.model ?? 'unknown CPU'}, ${cpus().length} cores; ${pinning}`;
const preface = `Node ${process.version}; ${machine}; ${runs} run(s): median (min–max)${flags.quick ? '; QUICK, of no value' : ''}`;
const table = markdownTable(workloads, servers, all, scale);
const factors = catalogueFactors(servers, all).map((line) => `\n${line}\n`);
process.stdout.write(`${preface}\n\n${table}\n${factors.join('')}`);

await mkdir(resultsFolder, { recursive: true });
const file = join(resultsFolder, `${new Date().toISOString().replaceAll(':', '-')}.json`);
const json = [...all].map(([id, outcomes]) => ({
  id,
  servers: Object.fromEntries(
    [...outcomes].map(([name, list]) => [
      name,
      list.map((figures) => (figures === undefined ? null : Object.fromEntries(figures))),
    ]),
  ),
}));
await writeFile(file, `${JSON.stringify({ preface, scale, workloads: json }, undefined, 2)}\n`);
say(`figures of every run: ${file}`);
