/**
 * Loaded into the gateway's process before the gateway (`node --import`): measures the turns of its event
 * loop and its memory, and answers each line on stdin with a JSON line, or exits at the line `"exit"`. The gateway itself
 * knows nothing of it.
 *
 * A turn is all that the loop does between two calls of its check phase. Its CPU time is that of the main
 * thread, from `/proc/self/schedstat`, so neither other processes nor the threads of the garbage collector
 * count.
 */
import { openSync, readSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

export interface TurnReport {
  readonly event: 'turns';
  /** CPU milliseconds of the longest turn since the last report. */
  readonly longestMs: number;
  /** Turns over 50 ms of CPU since the last report. */
  readonly longTurns: number;
  /** After a full collection of garbage. */
  readonly rssBytes: number;
  readonly liveBytes: number;
}

const LONG_TURN_MS = 50;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

const schedstat = openSync('/proc/self/schedstat', 'r');
const text = Buffer.alloc(64);

function cpuMs(): number {
  const length = readSync(schedstat, text, 0, text.length, 0);
  return Number(text.toString('latin1', 0, length).split(' ')[0]) / 1e6;
}

let longestMs = 0;
let longTurns = 0;
let beforeMs = cpuMs();

function turn(): void {
  const nowMs = cpuMs();
  const tookMs = nowMs - beforeMs;
  beforeMs = nowMs;
  if (tookMs > longestMs) longestMs = tookMs;
  if (tookMs > LONG_TURN_MS) longTurns += 1;
  setImmediate(turn).unref();
}
turn();

function report(): void {
  const turns = { longestMs, longTurns };
  collectGarbage();
  // Finalizers of what the first collection freed run between the two.
  setTimeout(() => {
    collectGarbage();
    const { rss, heapUsed, external } = process.memoryUsage();
    const answer: TurnReport = {
      event: 'turns',
      ...turns,
      rssBytes: rss,
      liveBytes: heapUsed + external,
    };
    process.stdout.write(`${JSON.stringify(answer)}\n`);
    // The collections are not work of the gateway.
    beforeMs = cpuMs();
    longestMs = 0;
    longTurns = 0;
  }, 100);
}

createInterface({ input: process.stdin }).on('line', (command) => {
  // `--cpu-prof` writes its profile at the exit.
  if (JSON.parse(command) === 'exit') process.exit();
  report();
});
