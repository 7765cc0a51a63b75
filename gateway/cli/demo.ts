/** `demo`: shows failovers on the terminal, without any file or other service. */
import { parseDuration } from '../../config/durations.js';
import { findEnvoy } from '../demo/demo-envoy.js';
import {
  EXIT,
  UsageError,
  type Arguments,
  type Command,
  type ExitCode,
  type Shell,
} from './command.js';

/** Of a second Ctrl-C: 128 plus the number of SIGINT. */
const SIGNAL_EXIT = 130;
const KILL_EVERY_MS = 20_000;
/** A failover takes about a second, and the control plane is down for a part of this time. */
const MIN_KILL_EVERY_MS = 5_000;

export const demo: Command = {
  name: 'demo',
  positionals: [],
  flags: [
    {
      name: 'kill-every',
      value: 'DURATION',
      meaning: 'From one kill of the cloud control plane to the next. Default: 20s.',
    },
    { name: 'rounds', value: 'COUNT', meaning: 'Ends after this many kills. Default: at Ctrl-C.' },
    { name: 'no-envoy', meaning: 'Leaves out Envoy, even if there is one on PATH.' },
  ],
  meaning: 'Runs two control planes, a gateway and traffic, kills a control plane, and shows it.',
  run: show,
};

async function show(given: Arguments, shell: Shell): Promise<ExitCode> {
  const killEveryMs = killEvery(given.text('kill-every'));
  const rounds = countOf(given.text('rounds'));
  const envoy = given.isSet('no-envoy') ? undefined : findEnvoy(shell.env['PATH'] ?? '');
  const stop = new AbortController();
  const onSignal = (): void => {
    if (stop.signal.aborted) process.exit(SIGNAL_EXIT);
    stop.abort();
  };
  // SIGHUP: the terminal is closed.
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const signal of signals) process.on(signal, onSignal);
  const startedMs = performance.now();
  const say = (text: string): void => {
    const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1);
    shell.out(`${seconds.padStart(7)} s  ${text}\n`);
  };
  say(`a kill every ${killEveryMs / 1_000} s; Ctrl-C ends the demo`);
  // Other commands start without loading the gateway.
  const { runDemo } = await import('../demo/demo.js');
  try {
    const { kills, requests, failed } = await runDemo({
      killEveryMs,
      ...(rounds === undefined ? {} : { rounds }),
      ...(envoy === undefined ? {} : { envoy }),
      signal: stop.signal,
      say,
    });
    say(`end: ${kills} kills, ${requests} requests, ${failed} failed`);
    return failed === 0 ? EXIT.ok : EXIT.no;
  } catch (error) {
    shell.err(`the demo cannot run: ${error instanceof Error ? error.message : String(error)}\n`);
    return EXIT.cannotStart;
  } finally {
    for (const signal of signals) process.off(signal, onSignal);
  }
}

function killEvery(text: string | undefined): number {
  if (text === undefined) return KILL_EVERY_MS;
  const read = parseDuration(text);
  if (read.ok && read.value >= MIN_KILL_EVERY_MS) return read.value;
  throw new UsageError(`--kill-every "${text}" is not a duration of 5s or more (write e.g. 20s)`);
}

function countOf(text: string | undefined): number | undefined {
  if (text === undefined || /^[1-9]\d{0,5}$/.test(text)) {
    return text === undefined ? undefined : Number(text);
  }
  throw new UsageError(`--rounds "${text}" is not a number of 1 or more`);
}
