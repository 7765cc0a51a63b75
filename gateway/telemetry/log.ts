/** The log: one line per event, with a stable event name. */
import { pino, type Logger } from 'pino';
import type { Settings } from '../../config/settings.js';
import { EVENTS, type EventName } from './names.js';

/** Writes to stdout: JSON lines, or human-readable lines with `pretty`. */
export function createLog(settings: Settings['log']): Logger {
  const options = { level: settings.level };
  if (!settings.pretty) return pino(options);
  return pino(options, {
    write: (line: string) => {
      process.stdout.write(prettyLine(line));
    },
  });
}

/** Logs one event with its level; fields must not be named `level`, `time` or `msg`. */
export function say(
  log: Logger,
  event: EventName,
  fields: Readonly<Record<string, unknown>>,
  message: string = EVENTS[event].meaning,
): void {
  log[EVENTS[event].level]({ event, ...fields }, message);
}

const MAX_TEXT = 1_000;

/** Shortens a text of a client or source for a log line. */
export function clipped(text: string): string {
  return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT)}… (${text.length} characters)`;
}

const LEVEL_WORDS: ReadonlyMap<unknown, string> = new Map([
  [10, 'TRACE'],
  [20, 'DEBUG'],
  [30, 'INFO '],
  [40, 'WARN '],
  [50, 'ERROR'],
  [60, 'FATAL'],
]);

/** `10:30:00.123 INFO  source_up: a source sent the first response of a stream source=cloud` */
export function prettyLine(line: string): string {
  const { level, time, event, msg, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const clock = new Date(Number(time)).toISOString().slice(11, 23);
  const rest = Object.entries(fields)
    .filter(([key]) => key !== 'pid' && key !== 'hostname')
    .map(([key, value]) => ` ${key}=${shown(value)}`);
  const head = `${clock} ${LEVEL_WORDS.get(level) ?? ''} ${String(event)}: ${String(msg)}`;
  return `${head}${rest.join('')}\n`;
}

function shown(value: unknown): string {
  const plain = typeof value === 'string' && /^\S+$/.test(value);
  return plain ? value : JSON.stringify(value);
}
