/** The value formats of settings, each with a description, a parser and a formatter. */
import { isObject } from '../protos/json-object.js';
import { formatDuration, formatSize, notAQuantity, parseDuration, parseSize } from './durations.js';
import { MAX_LIST_ENTRIES } from './limits.js';
import { nearestWord } from './nearest.js';

export type Reading =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly message: string; readonly remedy?: string };

export interface SettingFormat {
  /** Description in the reference, such as `duration (ms, s, m, h, d)`. */
  readonly words: string;
  /** Parses a value of the file (any type), or of a flag or the environment (text). */
  readonly read: (value: unknown) => Reading;
  /** The text that `read` parses to `value`. */
  readonly show: (value: unknown) => string;
}

function bad(message: string, remedy?: string): Reading {
  return remedy === undefined ? { ok: false, message } : { ok: false, message, remedy };
}

/** Not the whole of a long value. */
function shown(value: unknown): string {
  const text = typeof value === 'number' ? String(value) : JSON.stringify(value);
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}

function quantity(kind: 'duration' | 'size', zeroAllowed: boolean): SettingFormat {
  const parse = kind === 'duration' ? parseDuration : parseSize;
  const format = kind === 'duration' ? formatDuration : formatSize;
  return {
    words: kind === 'duration' ? 'duration (ms, s, m, h, d)' : 'size (B, KiB, MiB, GiB)',
    read: (value) => {
      if (typeof value !== 'string') return notAQuantity(value, kind);
      if (/^\d+$/.test(value)) return notAQuantity(Number(value), kind);
      const read = parse(value);
      return read.ok && read.value === 0 && !zeroAllowed ? bad('must be more than zero') : read;
    },
    show: (value) => format(Number(value)),
  };
}

function whole(words: string, min: number, max: number): SettingFormat {
  return {
    words,
    read: (value) => {
      const number = typeof value === 'string' && /^-?\d+$/.test(value) ? Number(value) : value;
      const fits =
        typeof number === 'number' &&
        Number.isSafeInteger(number) &&
        number >= min &&
        number <= max;
      const range = max === Number.MAX_SAFE_INTEGER ? `of ${min} or more` : `from ${min} to ${max}`;
      return fits
        ? { ok: true, value: number }
        : bad(`must be a whole number ${range}, not ${shown(number)}`);
    },
    show: String,
  };
}

function choice(choices: readonly string[]): SettingFormat {
  return {
    words: choices.map((value) => `\`${value}\``).join(' or '),
    read: (value) => {
      if (typeof value === 'string' && choices.includes(value)) return { ok: true, value };
      const nearest = typeof value === 'string' ? nearestWord(value, choices) : undefined;
      const remedy = nearest === undefined ? undefined : `did you mean ${JSON.stringify(nearest)}?`;
      return bad(`must be one of ${choices.join(', ')}, not ${shown(value)}`, remedy);
    },
    show: String,
  };
}

function text(words: string): SettingFormat {
  return {
    words,
    read: (value) =>
      typeof value === 'string' && value !== '' ? { ok: true, value } : bad(`must be ${words}`),
    show: (value) => (typeof value === 'string' ? value : ''),
  };
}

const jsonObject: SettingFormat = {
  words: 'JSON object',
  read: (value) => {
    let parsed = value;
    if (typeof value === 'string') {
      try {
        parsed = JSON.parse(value) as unknown;
      } catch {
        return bad('must be a JSON object');
      }
    }
    return isObject(parsed) ? { ok: true, value: parsed } : bad('must be a JSON object');
  },
  show: (value) => JSON.stringify(value),
};

const flag: SettingFormat = {
  words: '`true` or `false`',
  read: (value) => {
    if (value === true || value === 'true') return { ok: true, value: true };
    return value === false || value === 'false'
      ? { ok: true, value: false }
      : bad(`must be true or false, not ${shown(value)}`);
  },
  show: String,
};

const texts: SettingFormat = {
  words: 'comma-separated texts',
  read: (value) => {
    const list = typeof value === 'string' ? value.split(',').map((one) => one.trim()) : value;
    const isList =
      Array.isArray(list) && list.every((one) => typeof one === 'string' && one !== '');
    return isList && list.length > 0
      ? { ok: true, value: list as readonly string[] }
      : bad('must be a list of texts');
  },
  show: (value) => (Array.isArray(value) ? value.join(',') : ''),
};

function matching(words: string, form: RegExp): SettingFormat {
  return {
    words,
    read: (value) =>
      typeof value === 'string' && form.test(value) ? { ok: true, value } : bad(`must be ${words}`),
    show: String,
  };
}

/** The smallest limit with room for ordinary resources besides the fixed part of a message. */
const MIN_MESSAGE_BYTES = 65_536;

const size = quantity('size', false);

const maxMessage: SettingFormat = {
  words: '`auto`, `none` or size (B, KiB, MiB, GiB)',
  read: (value) => {
    if (value === 'auto' || value === 'none') return { ok: true, value };
    const read = size.read(value);
    if (!read.ok || Number(read.value) >= MIN_MESSAGE_BYTES) return read;
    return bad(`must be at least ${size.show(MIN_MESSAGE_BYTES)}`);
  },
  show: (value) => (typeof value === 'number' ? size.show(value) : String(value)),
};

/** Format name → format. The convict name adds the prefix `tributary-`. */
export const SETTING_FORMATS = {
  text: text('text'),
  path: text('a path'),
  texts,
  token: matching('a word of letters, digits, `-` and `_`', /^[\w-]{1,64}$/),
  subject: matching(
    'words of letters, digits, `-` and `_`, separated by dots',
    /^[\w-]+(\.[\w-]+){0,8}$/,
  ),
  'http-url': matching(
    'a URL, `http://host:port/path` or `https://…`, without a user',
    /^https?:\/\/[^\s/@?#]+(\/[^\s@#]*)?$/,
  ),
  flag,
  json: jsonObject,
  duration: quantity('duration', false),
  'duration-or-zero': quantity('duration', true),
  size,
  'max-message': maxMessage,
  count: whole('count', 1, Number.MAX_SAFE_INTEGER),
  percent: whole('percentage', 1, 100),
  hops: whole('count', 1, 16),
  'list-entries': whole('count', 1, MAX_LIST_ENTRIES),
  'tcp-port': whole('port', 0, 65_535),
  'port-offset': whole('number', 0, 65_535),
  'log-level': choice(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']),
  'absent-route-answer': choice(['removed', 'silence']),
  'missing-cluster-answer': choice(['silence', 'placeholder']),
  'unanswerable-stream': choice(['silence', 'end']),
} as const satisfies Readonly<Record<string, SettingFormat>>;

export type SettingFormatName = keyof typeof SETTING_FORMATS;
