/** Runs the gateway as a process and handles its signals. */
import { loadAuthorityMap } from '../../config/authority-map.js';
import type { AuthorityMap } from '../../config/model.js';
import { formatProblem, type Problem } from '../../config/problems.js';
import { loadSettings, type Settings } from '../../config/settings.js';
import { helpText } from '../../config/settings-reference.js';
import { createGateway, type Gateway } from '../compose.js';
import { ListenError } from '../listen-error.js';
import { createLog, linesWritten } from '../telemetry/log.js';
import { Telemetry } from '../telemetry/telemetry.js';
import { VERSION } from '../version.js';
import { EXIT, type ExitCode, type Shell } from './command.js';
import { MapFile, stampOf, type MapStamp } from './map-file.js';
import { sayLostNames, sayMapWarnings } from './map-warnings.js';
import { saferNode } from './node-version.js';
import { keepGarbageYoung } from './young-garbage.js';

/** Shell convention for a process that a signal ended: 128 plus the number of the signal. */
const SIGNAL_EXIT = { SIGINT: 130, SIGTERM: 143 } as const;

/** Returns after a signal, when the gateway is drained, or when the gateway could not start. */
export async function serve(argv: readonly string[], shell: Shell): Promise<ExitCode> {
  if (argv.includes('--version')) {
    shell.out(`${VERSION}\n`);
    return EXIT.ok;
  }
  if (argv.includes('--help') || argv.includes('-h')) {
    shell.out(helpText().replace('tributary ', 'tributary serve '));
    return EXIT.ok;
  }
  const read = loadSettings({ argv, env: shell.env, isTerminal: process.stdout.isTTY });
  if (!read.ok) {
    refuse(read.problems, shell);
    return read.areFilesWrong ? EXIT.cannotStart : EXIT.usage;
  }
  const { settings } = read;
  const stamp = stampOf(settings.authorityMap);
  const loaded = loadAuthorityMap(settings.authorityMap);
  if (!loaded.ok) return refuse(loaded.problems, shell);
  const repeatIntervalMs = settings.limits.nackLogIntervalMs;
  const lostLines = { count: 0 };
  const log = createLog(settings.log, lostLines);
  const telemetry = new Telemetry(log, { repeatIntervalMs, lostLines });
  for (const warning of read.warnings) {
    telemetry.say('settings_warning', { warning: formatProblem(warning) });
  }
  const { node } = process.versions;
  const safer = saferNode(node);
  if (safer !== undefined)
    telemetry.say('node_unsafe', { node, remedy: `run Node.js ${safer} or newer` });
  sayMapWarnings(loaded.map, loaded.warnings.map(formatProblem), settings, telemetry);
  const code = await runGateway(settings, { map: loaded.map, stamp }, telemetry, shell);
  await linesWritten(log);
  return code;
}

async function runGateway(
  settings: Settings,
  { map, stamp }: { readonly map: AuthorityMap; readonly stamp: MapStamp },
  telemetry: Telemetry,
  shell: Shell,
): Promise<ExitCode> {
  const stopped = signalToStop();
  keepGarbageYoung();
  const gateway = createGateway({ settings, map, telemetry });
  let port: number;
  try {
    port = await gateway.start();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const known = error instanceof ListenError ? { code: error.code, address: error.address } : {};
    telemetry.say('gateway_failed', { ...known, reason });
    shell.err(`the gateway cannot start: ${reason}\n`);
    return EXIT.cannotStart;
  }
  const mapFile = new MapFile({
    file: settings.authorityMap,
    stamp,
    map,
    apply: (next) => {
      gateway.reload(next);
    },
    warn: (next, warnings) => {
      sayMapWarnings(next, warnings, settings, telemetry);
      sayLostNames(gateway.upstream.view, next, settings.authorityMap, telemetry);
    },
    telemetry,
  });
  mapFile.watch();
  // Log the exception too: it ends the process with the stack on stderr only.
  process.on('uncaughtExceptionMonitor', (error) => {
    telemetry.onHandlerError(error);
  });
  process.on('SIGHUP', () => {
    void mapFile.reload();
    gateway.server.refreshCertificates();
  });
  const ready = sayReady(telemetry, { gateway, settings, map, port });
  if (process.stderr.isTTY) shell.err(ready);
  const signal = await stopped;
  mapFile.close();
  telemetry.say('gateway_draining', {
    signal,
    clients: gateway.server.streams.size,
    graceMs: settings.limits.drainGraceMs,
  });
  await gateway.stop();
  telemetry.say('gateway_stopped');
  return EXIT.ok;
}

/** Resolves with the first signal. The second one ends the process at once. */
async function signalToStop(): Promise<keyof typeof SIGNAL_EXIT> {
  return new Promise((resolve) => {
    let asked = false;
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.on(signal, () => {
        if (asked) process.exit(SIGNAL_EXIT[signal]);
        asked = true;
        resolve(signal);
      });
    }
  });
}

/** A gateway that has started. */
interface Started {
  readonly gateway: Gateway;
  readonly settings: Settings;
  readonly map: AuthorityMap;
  /** The port for clients. */
  readonly port: number;
}

/** Logs that the gateway is ready. @returns the same for a person at a terminal; several lines */
function sayReady(telemetry: Telemetry, { gateway, settings, map, port }: Started): string {
  const { client } = settings;
  const host = client.host.includes(':') ? `[${client.host}]` : client.host;
  const listen = `${host}:${port}`;
  const admin = gateway.admin.address;
  const serves = Object.fromEntries(
    [
      ...map.authorities.values(),
      ...(map.oldStyle?.servedBy ?? []),
      ...(map.defaultSource ? [map.defaultSource] : []),
    ].map(({ name, sources }) => [name, sources]),
  );
  const next = nextCommand(settings.admin, admin);
  telemetry.say('gateway_ready', {
    listen,
    admin,
    probes: gateway.probes.address,
    tls: client.tls !== null,
    version: VERSION,
    serves,
    next,
  });
  const lines = Object.entries(serves).map(
    ([name, sources]) =>
      `  ${map.authorities.has(name) ? `xdstp://${name}/…` : name}  from ${sources.join(', then ')}`,
  );
  return `Clients: ${listen}, admin: ${admin}\n${lines.join('\n')}\nTry: ${next}\n`;
}

/** A command that shows the state. */
function nextCommand({ tokenFile, tls }: Settings['admin'], address: string): string {
  const token = tokenFile === null ? '' : ` -H "authorization: Bearer $(cat '${tokenFile}')"`;
  return `curl${token} ${tls === null ? 'http' : 'https'}://${address}/authorities`;
}

function refuse(problems: readonly Problem[], shell: Shell): ExitCode {
  for (const problem of problems) shell.err(`${formatProblem(problem)}\n`);
  return EXIT.usage;
}
