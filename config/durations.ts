/**
 * Parses and formats durations and sizes: one number and one unit (`30s`, `500ms`, `2MiB`). A bare
 * number is refused, since 30 may mean seconds or milliseconds.
 */

const MS_PER_UNIT = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const BYTES_PER_UNIT = { B: 1, KiB: 1_024, MiB: 1_048_576, GiB: 1_073_741_824 } as const;

/** The longest delay of a Node.js timer (2³¹ - 1 ms, about 24.8 days); a longer one fires at once. */
export const MAX_DURATION_MS = 2_147_483_647;

export type Quantity =
  | { readonly ok: true; readonly value: number }
  | { readonly ok: false; readonly message: string; readonly remedy?: string };

const DURATION_REMEDY = 'write a number and a unit: ms, s, m, h or d, such as "30s"';
const SIZE_REMEDY = 'write a number and a unit: B, KiB, MiB or GiB, such as "2MiB"';

/** `"30s"` → 30,000 (whole milliseconds, rounded), from 0 to `MAX_DURATION_MS`. */
export function parseDuration(text: string): Quantity {
  const read = parseQuantity(text, MS_PER_UNIT, 'duration', DURATION_REMEDY);
  if (!read.ok || read.value <= MAX_DURATION_MS) return read;
  const message = `"${text}" is longer than the longest timer, 24.8 days`;
  return { ok: false, message, remedy: 'write at most "24d"' };
}

/** `"2MiB"` → 2,097,152 (bytes). */
export function parseSize(text: string): Quantity {
  return parseQuantity(text, BYTES_PER_UNIT, 'size', SIZE_REMEDY);
}

/** The error for a value that is not a duration (or size) at all, such as a bare number. */
export function notAQuantity(value: unknown, kind: 'duration' | 'size'): Quantity & { ok: false } {
  if (typeof value === 'number' && value >= 0) {
    const units = kind === 'duration' ? (['s', 'ms'] as const) : (['B', 'KiB'] as const);
    const remedy = `write "${value}${units[0]}" or "${value}${units[1]}"`;
    return { ok: false, message: `${value} has no unit`, remedy };
  }
  const remedy = kind === 'duration' ? DURATION_REMEDY : SIZE_REMEDY;
  return { ok: false, message: `must be a ${kind}`, remedy };
}

/** The inverse of `parseDuration`, with the largest unit that gives a whole number: 90,000 → `"90s"`. */
export function formatDuration(ms: number): string {
  return formatQuantity(ms, MS_PER_UNIT, 'ms', ['h', 'm', 's']);
}

/** A measured duration for people: `0.4s`, `43.4s`, `12m 5s`, `3h 7m`, `2d 4h`. */
export function roundedDuration(ms: number): string {
  const tenths = Math.round(ms / 100) / 10;
  if (tenths < 60) return `${tenths.toFixed(1)}s`;
  const seconds = Math.round(ms / MS_PER_UNIT.s);
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m ${seconds % 60}s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 1_440) return `${Math.floor(minutes / 60)}h ${minutes % 60}m`;
  const hours = Math.round(minutes / 60);
  return `${Math.floor(hours / 24)}d ${hours % 24}h`;
}

/** The inverse of `parseSize`, with the largest unit that gives a whole number: 2,097,152 → `"2MiB"`. */
export function formatSize(bytes: number): string {
  return formatQuantity(bytes, BYTES_PER_UNIT, 'B', ['GiB', 'MiB', 'KiB']);
}

function parseQuantity(
  text: string,
  units: Readonly<Record<string, number>>,
  kind: string,
  remedy: string,
): Quantity {
  if (/^-\d/.test(text)) return { ok: false, message: `"${text}" is negative` };
  const match = /^(\d+(?:\.\d+)?)([A-Za-z]+)$/.exec(text);
  const factor = match?.[2] === undefined ? undefined : units[match[2]];
  if (match === null || factor === undefined) {
    return { ok: false, message: `"${text}" is not a ${kind}`, remedy };
  }
  const value = Math.round(Number(match[1]) * factor);
  if (Number.isSafeInteger(value)) return { ok: true, value };
  return { ok: false, message: `"${text}" is too large` };
}

function formatQuantity(
  value: number,
  units: Readonly<Record<string, number>>,
  smallest: string,
  larger: readonly string[],
): string {
  if (value === 0) return `0${larger.at(-1) === 's' ? 's' : smallest}`;
  for (const unit of larger) {
    const factor = units[unit] ?? 1;
    if (value % factor === 0) return `${value / factor}${unit}`;
  }
  return `${value}${smallest}`;
}
