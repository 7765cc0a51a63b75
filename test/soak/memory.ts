/**
 * `npm run memory`: 100 clients leave their sockets unread while a source publishes 10,000 updates.
 *
 *   npm run memory -- [--clients 100] [--updates 10000]
 *
 * Exits with 1 when the gateway's process grew by more than 32 MiB over its size while the clients read,
 * or a client that read on did not come to hold exactly what was published last.
 */
import { parseArgs } from 'node:util';
import { pauseClients } from './paused-clients.js';

const MAX_UNREAD_MIB = 32;

const { values: flags } = parseArgs({
  options: {
    clients: { type: 'string', default: '100' },
    updates: { type: 'string', default: '10000' },
  },
});
const figures = await pauseClients({
  clients: Number(flags.clients),
  updates: Number(flags.updates),
});
const mib = (value: number): string => `${value.toFixed(1)} MiB`;
const growthMiB = figures.peakMiB - figures.beforeMiB;
const aliveMiB = figures.aliveAfterMiB - figures.aliveBeforeMiB;
const rows: readonly (readonly [string, string])[] = [
  ['resident memory of the gateway while all read', mib(figures.beforeMiB)],
  ['the highest while no client read', mib(figures.peakMiB)],
  ['after the last update', mib(figures.afterMiB)],
  [`growth (at most ${mib(MAX_UNREAD_MIB)})`, mib(growthMiB)],
  ['alive in the heap and in buffers before', mib(figures.aliveBeforeMiB)],
  ['the same after the last update', mib(figures.aliveAfterMiB)],
  [`growth (at most ${mib(MAX_UNREAD_MIB)})`, mib(aliveMiB)],
  ['streams that the gateway counts as paused', String(figures.paused)],
  ['most responses unread by one client', String(figures.unreadResponses)],
  ['all exact after reading on', `${Math.round(figures.exactAfterMs)} ms`],
  ['clients that are not exact (none)', String(figures.wrong)],
];
for (const [what, value] of rows) console.log(`${what.padEnd(46)}${value}`);
const isBounded = Math.max(growthMiB, aliveMiB) <= MAX_UNREAD_MIB;
process.exit(isBounded && figures.wrong === 0 ? 0 : 1);
