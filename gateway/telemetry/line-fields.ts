/**
 * Bounds the fields of a log line, since clients and sources choose many of their texts: a long text must
 * not fill the disk, and a control character must not reach a terminal (CWE-117, CWE-150).
 */

export type Fields = Readonly<Record<string, unknown>>;

const MAX_TEXT_CHARACTERS = 1_000;
const MAX_DEPTH = 6;

/** C0 except tab and line feed, which JSON escapes; DEL; C1; separators of lines; overrides of direction. */
// eslint-disable-next-line no-control-regex
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** The text with control characters as `\u{1b}`, and without the part after 1,000 characters. */
export function shownText(text: string, maxCharacters = MAX_TEXT_CHARACTERS): string {
  const start = text.length > maxCharacters ? text.slice(0, maxCharacters) : text;
  const shown = start.replace(
    CONTROLS,
    (control) => `\\u{${(control.codePointAt(0) ?? 0).toString(16)}}`,
  );
  return start === text ? shown : `${shown}… (${text.length} characters)`;
}

/** The same without tabs and line feeds, for text that is not encoded as JSON. */
export const oneLine = (text: string): string => shownText(text).replace(/\s+/g, ' ');

/**
 * The fields as JSON would have them, within a number of bytes. Fields come in their order; the last one
 * that does not fit is shortened, and `cut: true` tells of it.
 *
 * @param maxBytes of the encoded fields together; Infinity: only texts are bounded
 */
export function boundedFields(fields: Fields, maxBytes: number): Fields {
  const walk = new Walk(maxBytes);
  const bounded = walk.object(fields, 0);
  return walk.isCut ? { ...bounded, cut: true } : bounded;
}

class Walk {
  isCut = false;
  #left: number;

  constructor(maxBytes: number) {
    this.#left = maxBytes;
  }

  object(fields: Fields, depth: number): Record<string, unknown> {
    const bounded: Record<string, unknown> = {};
    for (const [key, value] of Object.entries(fields)) {
      if (value === undefined) continue;
      const shown = oneLine(key);
      if (!this.#take(shown)) break;
      bounded[shown] = this.#value(value, depth + 1);
    }
    return bounded;
  }

  #value(value: unknown, depth: number): unknown {
    if (typeof value === 'string') return this.#text(value);
    if (typeof value !== 'object' || value === null) {
      this.#left -= String(value).length + 1;
      return typeof value === 'bigint' ? String(value) : value;
    }
    if (depth > MAX_DEPTH) return this.#text('…');
    if (Array.isArray(value)) return this.#list(value, depth);
    if (value instanceof Error) {
      const { name: type, message, stack } = value;
      return this.object({ type, message, stack }, depth);
    }
    return this.object(value as Fields, depth);
  }

  #list(items: readonly unknown[], depth: number): readonly unknown[] {
    const bounded: unknown[] = [];
    for (const item of items) {
      if (this.#left <= 0) {
        this.isCut = true;
        break;
      }
      bounded.push(this.#value(item, depth + 1));
    }
    return bounded;
  }

  #text(text: string): string {
    const shown = shownText(text);
    if (this.#take(shown)) return shown;
    // A character has at most 6 bytes as JSON.
    const fitting = Math.max(0, Math.floor(this.#left / 6));
    this.#left = 0;
    return shownText(text, Math.min(fitting, MAX_TEXT_CHARACTERS));
  }

  /** @returns false if the text does not fit any more */
  #take(shown: string): boolean {
    // The quotes are in it; the comma or colon is the 1.
    const bytes = Buffer.byteLength(JSON.stringify(shown)) + 1;
    if (bytes > this.#left) {
      this.isCut = true;
      return false;
    }
    this.#left -= bytes;
    return true;
  }
}
