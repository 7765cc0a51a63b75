/** The log: one line per event, with a stable event name. */
import { pino, stdTimeFunctions, type Logger, type LoggerOptions } from 'pino';
import type { Settings } from '../../config/settings.js';
import { EVENTS, type EventName, type LogLevel } from './names.js';

/** Times in ISO 8601 and levels as words. */
export const LOG_FORMAT: LoggerOptions = {
  timestamp: stdTimeFunctions.isoTime,
  formatters: { level: (label) => ({ level: label }) },
};

/** Writes to stdout: JSON lines, or human-readable lines with `pretty`. */
export function createLog(settings: Settings['log']): Logger {
  const options = { ...LOG_FORMAT, level: settings.level };
  if (!settings.pretty) return pino(options);
  return pino(options, {
    write: (line: string) => {
      process.stdout.write(prettyLine(line));
    },
  });
}

/**
 * Logs one event; fields must not be named `level`, `time` or `msg`.
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
  log[level]({ event, ...fields }, message);
}

const MAX_TEXT = 1_000;

/** Shortens a text of a client or source for a log line. */
export function clipped(text: string): string {
  return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT)}… (${text.length} characters)`;
}

/** `2026-11-23T10:30:00.123Z INFO  source_up: a source sent the first response of a stream source=cloud` */
export function prettyLine(line: string): string {
  const { level, time, event, msg, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const rest = Object.entries(fields)
    .filter(([key]) => key !== 'pid' && key !== 'hostname')
    .map(([key, value]) => ` ${key}=${shown(value)}`);
  const head = `${String(time)} ${String(level).toUpperCase().padEnd(5)} ${String(event)}: ${String(msg)}`;
  return `${head}${rest.join('')}\n`;
}

function shown(value: unknown): string {
  const plain = typeof value === 'string' && /^\S+$/.test(value);
  return plain ? value : JSON.stringify(value);
}
