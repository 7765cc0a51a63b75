/** The log: one line per event, with a stable event name. */
import { pino, stdTimeFunctions, type Logger, type LoggerOptions } from 'pino';
import type { Settings } from '../../config/settings.js';
import { boundedFields, oneLine } from './line-fields.js';
import { jsonDestination, prettyDestination, type LostLines } from './log-destination.js';
import { EVENTS, type EventName, type LogLevel } from './event-names.js';

/** Times in ISO 8601 and levels as words. */
export const LOG_FORMAT: LoggerOptions = {
  timestamp: stdTimeFunctions.isoTime,
  formatters: { level: (label) => ({ level: label }) },
};

/**
 * Writes to stdout: JSON lines, or human-readable lines with `pretty`.
 *
 * @param lost counts the lines that could not be written
 */
export function createLog(settings: Settings['log'], lost: LostLines = { count: 0 }): Logger {
  const options = { ...LOG_FORMAT, level: settings.level };
  if (!settings.pretty) return pino(options, jsonDestination(lost));
  const isColoured = process.stdout.isTTY && !process.env['NO_COLOR'];
  return pino(
    options,
    prettyDestination(lost, (line) => prettyLine(line, isColoured)),
  );
}

/**
 * Resolves when all lines are written. A process that ends writes its waiting lines at once, before a line
 * whose write has begun: their order would be lost.
 */
export async function linesWritten(log: Logger): Promise<void> {
  await new Promise<void>((resolve) => {
    log.flush(() => {
      resolve();
    });
  });
}

/** A line of 4 KiB also has its level, time, process, host, event and message. Bytes. */
const MAX_FIELDS_BYTES = 3_400;

/** These list texts of the operator's own files, where each problem counts. */
const UNBOUNDED: ReadonlySet<EventName> = new Set<EventName>([
  'file_problems',
  'gateway_ready',
  'map_refused',
  'map_reloaded',
  'map_warning',
  'settings_warning',
]);

/**
 * Logs one event; fields must not be named `level`, `time` or `msg`. Texts are bounded and have no control
 * characters; a line has at most 4 KiB.
 *
 * @param level for an event that sometimes needs attention; default: the level of the event
 */
export function say(
  log: Logger,
  event: EventName,
  fields: Readonly<Record<string, unknown>>,
  message: string = EVENTS[event].meaning,
  level: LogLevel = EVENTS[event].level,
): void {
  if (!log.isLevelEnabled(level)) return;
  const maxBytes = UNBOUNDED.has(event) ? Number.POSITIVE_INFINITY : MAX_FIELDS_BYTES;
  log[level]({ event, ...boundedFields(fields, maxBytes) }, oneLine(message));
}

/** SGR codes of ECMA-48: dim, and a colour for each level that needs one. */
const DIM = 2;
const LEVEL_COLOURS: Readonly<Record<string, number>> = {
  info: 32,
  warn: 33,
  error: 31,
  fatal: 31,
};

/**
 * `2026-11-23T10:30:00.123Z INFO  source_up: a source sent the first response of a stream source=cloud`
 *
 * @param isColoured time and fields dim, the level in its colour (a terminal)
 */
export function prettyLine(line: string, isColoured = false): string {
  const { level, time, event, msg, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const rest = Object.entries(fields)
    .filter(([key]) => key !== 'pid' && key !== 'hostname')
    .map(([key, value]) => ` ${key}=${shown(value)}`);
  const paint = (text: string, code: number): string =>
    isColoured && text !== '' ? `\u001b[${code}m${text}\u001b[0m` : text;
  const word = String(level);
  const shownLevel = paint(word.toUpperCase().padEnd(5), LEVEL_COLOURS[word] ?? DIM);
  const head = `${paint(String(time), DIM)} ${shownLevel} ${String(event)}: ${String(msg)}`;
  return `${head}${paint(rest.join(''), DIM)}\n`;
}

function shown(value: unknown): string {
  const plain = typeof value === 'string' && /^\S+$/.test(value);
  return plain ? value : JSON.stringify(value);
}
