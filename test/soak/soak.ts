/**
 * `npm run soak`: hours in the life of a gateway, in half of one. On demand; the integration tier runs
 * a few seconds of it.
 *
 *   npm run soak -- [--minutes 30] [--connects 100] [--nats]
 *
 * Exits with 1 when what is alive grows by 1 MiB a minute or more after the warm-up (5 minutes, or a
 * sixth), or when anything is left over after everybody has left.
 */
import { availableParallelism, cpus, loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { soak, type Sample, type SoakOutcome } from './soak-run.js';

const MAX_SLOPE_MIB_PER_MINUTE = 1;
const MAX_WARM_UP_MS = 300_000;
const SAMPLE_EVERY_MS = 5_000;
const SHOWN_EVERY = 6;

const { values: flags } = parseArgs({
  options: {
    minutes: { type: 'string', default: '30' },
    connects: { type: 'string', default: '100' },
    nats: { type: 'boolean', default: false },
  },
});
const durationMs = Number(flags.minutes) * 60_000;

const COLUMNS: readonly (readonly [title: string, value: (sample: Sample) => string])[] = [
  ['minute', ({ atMs }) => (atMs / 60_000).toFixed(1)],
  ['clients so far', ({ visits }) => String(visits)],
  ['now', ({ present }) => String(present)],
  ['alive MiB', ({ aliveMiB }) => aliveMiB.toFixed(1)],
  ['RSS MiB', ({ rssBytes }) => (rssBytes / 1_048_576).toFixed(0)],
  ['timers', ({ timers }) => String(timers)],
  ['sockets', ({ resources }) => String(resources['TCPSocketWrap'] ?? 0)],
  ['files', ({ openFiles }) => String(openFiles)],
  ['watches', ({ fileWatches }) => String(fileWatches)],
  ['load', () => loadavg()[0]!.toFixed(1)],
];
const row = (cells: readonly string[]): void => {
  console.log(`| ${cells.map((cell) => cell.padStart(9)).join(' | ')} |`);
};

let shown = 0;
row(COLUMNS.map(([title]) => title));
row(COLUMNS.map(() => '---:'));
const outcome = await soak({
  durationMs,
  warmUpMs: Math.min(MAX_WARM_UP_MS, durationMs / 6),
  sampleEveryMs: SAMPLE_EVERY_MS,
  connectsPerSecond: Number(flags.connects),
  pace: { restartEveryMs: 20_000, downMs: 6_000, reloadEveryMs: 30_000, pauseMs: 3_000 },
  withNats: flags.nats,
  onSample: (sample) => {
    if (shown++ % SHOWN_EVERY === 0) row(COLUMNS.map(([, value]) => value(sample)));
  },
});
process.exit(report(outcome) ? 0 : 1);

/** @returns whether every bar is met */
function report({ before, after, leftOver, ...run }: SoakOutcome): boolean {
  const slope = run.slopeMiBPerMinute;
  const { deaths, reloads, publications } = run.counts;
  const clients = [...run.visits].map(([kind, count]) => `${kind} ${count}`).join(', ');
  const mib = (bytes: number): string => (bytes / 1_048_576).toFixed(1);
  const ends = [...run.ended].map(([status, count]) => `${status}: ${count}`).join('; ');
  const bars: readonly (readonly [string, string, boolean])[] = [
    [
      'alive, slope after the warm-up',
      `${slope.toFixed(3)} MiB/min`,
      slope < MAX_SLOPE_MIB_PER_MINUTE,
    ],
    ...(['timers', 'listeners', 'fileWatches', 'openFiles'] as const).map(
      (what) => [what, `${before[what]} → ${after[what]}`, after[what] <= before[what]] as const,
    ),
    [
      'resources',
      `${JSON.stringify(before.resources)} → ${JSON.stringify(after.resources)}`,
      leftOver.length === 0,
    ],
    ['handler errors', String(run.handlerErrors), run.handlerErrors === 0],
    ['warnings of the process', after.warnings.join('; ') || 'none', after.warnings.length === 0],
    ['streams that the gateway ended', ends || 'none', run.ended.size === 0],
  ];
  console.log(`\nclients: ${clients}`);
  console.log(
    `clients that stayed for 5 s and heard nothing, as with sources down: ${run.unheard}`,
  );
  console.log(`sources killed ${deaths}, maps ${reloads}, publications ${publications}`);
  console.log(
    `heap before and after: ${mib(before.heapUsedBytes)} and ${mib(after.heapUsedBytes)} MiB`,
  );
  console.log(
    `Node ${process.version}, ${cpus()[0]?.model ?? 'CPU'}, ${availableParallelism()} cores\n`,
  );
  for (const [what, value, ok] of bars)
    console.log(`${ok ? 'ok    ' : 'MISSED'} ${what}: ${value}`);
  return bars.every(([, , ok]) => ok);
}
