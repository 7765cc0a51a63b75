/** Reads the bytes of a text file as UTF-8, and finds the place of the first byte that is not. */
import { isUtf8 } from 'node:buffer';

export type Utf8Text =
  | { readonly ok: true; readonly text: string }
  /** 1-based; the column is in bytes. */
  | { readonly ok: false; readonly line: number; readonly column: number };

/** The words of every file that is not UTF-8. */
export const NOT_UTF8 = 'is not UTF-8';
export const SAVE_AS_UTF8 = 'save the file as UTF-8';

const NEWLINE = 0x0a;

export function decodeUtf8(bytes: Buffer): Utf8Text {
  if (isUtf8(bytes)) return { ok: true, text: withoutMark(bytes.toString('utf8')) };
  let line = 1;
  for (let start = 0; ; line++) {
    const newline = bytes.indexOf(NEWLINE, start);
    const end = newline === -1 ? bytes.length : newline;
    const text = bytes.subarray(start, end);
    // No UTF-8 sequence contains a newline, so the lines can be checked one by one.
    if (!isUtf8(text)) return { ok: false, line, column: validBytes(text) + 1 };
    start = end + 1;
  }
}

/** Editors on Windows begin files with a byte order mark. */
const withoutMark = (text: string): string => (text.startsWith('\uFEFF') ? text.slice(1) : text);

/** The length of the longest valid beginning of an invalid text. */
function validBytes(bytes: Buffer): number {
  let length = 0;
  for (let end = 1; end <= bytes.length; end++) if (isUtf8(bytes.subarray(0, end))) length = end;
  return length;
}
