/**
 * The character level of `xdstp://` names: which characters each component escapes, percent-decoding,
 * and errors.
 *
 * Sources: RFC 3986 sections 2 and 3. The escape sets are Envoy's plus space, non-ASCII and (in
 * parameters) `+`. So a canonical name is a valid URI, also for decoders that read `+` as a space.
 */

/** The longest name, in bytes of UTF-8, as written and in canonical form. */
export const maxNameBytes = 2048;

/** Reasons for refusing a text. */
export const nameErrorCodes = [
  'not-xdstp',
  'too-long',
  'missing-type',
  'bad-type',
  'missing-id',
  'not-a-glob',
  'bad-escape',
  'control-character',
  'empty-parameter-key',
  'duplicate-parameter',
  'fragment',
  'unknown-directive',
  'duplicate-directive',
  'bad-entry',
  'too-deep',
] as const;
export type NameErrorCode = (typeof nameErrorCodes)[number];

/** A refusal. `at` is the offset in the parsed text, in UTF-16 units. */
export interface NameError {
  readonly code: NameErrorCode;
  readonly message: string;
  readonly at: number;
}

/** Names come from clients and sources, so a bad name gives an error value, not an exception. */
export type Parsed<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: NameError };

/** Builds the error of a `Parsed`. */
export function refuse(
  code: NameErrorCode,
  at: number,
  message: string,
): { readonly ok: false; readonly error: NameError } {
  return { ok: false, error: { code, message, at } };
}

/** Bits of `asciiClass`: the kind of a character, or the components in which it is escaped. */
export const escapedInAuthority = 1;
export const escapedInId = 2;
export const escapedInParameter = 4;
export const allowedInType = 8;
const isControl = 16;
export const escapedInDirective = 32;

/** The bits above for each of the 128 ASCII characters. */
export const asciiClass: Uint8Array = buildAsciiClass();

function buildAsciiClass(): Uint8Array {
  const table = new Uint8Array(128);
  const mark = (characters: string, bit: number): void => {
    for (const character of characters) {
      const code = character.charCodeAt(0);
      table[code] = (table[code] ?? 0) | bit;
    }
  };
  const everywhere = escapedInAuthority | escapedInId | escapedInParameter | escapedInDirective;
  for (let code = 0; code < 0x20; code += 1) {
    table[code] = everywhere | isControl;
  }
  table[0x7f] = everywhere | isControl;
  mark('% #', everywhere);
  mark('/?', escapedInAuthority);
  mark('?[]', escapedInId);
  mark('[]&=+', escapedInParameter);
  mark('[],', escapedInDirective);
  mark('abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-', allowedInType);
  return table;
}

const hexEscapes: readonly string[] = Array.from(
  { length: 256 },
  (_, byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`,
);

/**
 * Percent-encodes a component.
 * @param decoded well-formed text (a lone surrogate would become U+FFFD)
 * @param escapedHere the `escapedIn…` bit of the component
 * @returns ASCII; `decoded` itself if no character needs an escape
 */
export function escapeComponent(decoded: string, escapedHere: number): string {
  let index = 0;
  while (index < decoded.length && isPlain(decoded.charCodeAt(index), escapedHere)) {
    index += 1;
  }
  if (index === decoded.length) {
    return decoded;
  }
  let escaped = decoded.slice(0, index);
  for (const byte of Buffer.from(decoded.slice(index), 'utf8')) {
    escaped += isPlain(byte, escapedHere) ? String.fromCharCode(byte) : (hexEscapes[byte] ?? '');
  }
  return escaped;
}

/** Whether the character stands for itself in the component. */
export function isPlain(code: number, escapedHere: number): boolean {
  return code < 128 && ((asciiClass[code] ?? 0) & escapedHere) === 0;
}

/**
 * Percent-decodes `text[start, end)` once.
 *
 * Refuses what RFC 3986 and UTF-8 forbid: overlong or truncated UTF-8, lone surrogates, and a `%`
 * without two hex digits. Envoy takes such a `%` literally and grpc-go refuses it, but all readers of a
 * key must agree. Also refuses control characters, raw or escaped: they could forge lines in logs.
 * @param plusIsSpace whether `+` means a space, which Envoy and gRPC apply to parameters
 */
export function unescapeComponent(
  text: string,
  start: number,
  end: number,
  plusIsSpace: boolean,
): Parsed<string> {
  let plain = true;
  for (let index = start; index < end; index += 1) {
    const code = text.charCodeAt(index);
    if (code === 0x25) {
      const byte = index + 2 < end ? hexByte(text, index + 1) : -1;
      if (byte < 0) {
        return refuse('bad-escape', index, 'a % is not followed by two hex digits');
      }
      if (byte < 128 && ((asciiClass[byte] ?? 0) & isControl) !== 0) {
        return refuse('control-character', index, 'an escaped control character');
      }
      index += 2;
      plain = false;
    } else if (code >= 128 || (code === 0x2b && plusIsSpace)) {
      plain = false;
    } else if (((asciiClass[code] ?? 0) & isControl) !== 0) {
      return refuse('control-character', index, 'a control character');
    }
  }
  const written = text.slice(start, end);
  return plain ? { ok: true, value: written } : decodeUtf8(written, start, plusIsSpace);
}

function decodeUtf8(written: string, start: number, plusIsSpace: boolean): Parsed<string> {
  const loneSurrogate = written.search(/\p{Surrogate}/u);
  if (loneSurrogate >= 0) {
    return refuse('bad-escape', start + loneSurrogate, 'a lone surrogate is not valid text');
  }
  try {
    const spaced = plusIsSpace ? written.replaceAll('+', ' ') : written;
    return { ok: true, value: decodeURIComponent(spaced) };
  } catch {
    return refuse('bad-escape', start + written.indexOf('%'), 'the escapes are not valid UTF-8');
  }
}

function hexByte(text: string, at: number): number {
  const high = hexDigit(text.charCodeAt(at));
  const low = hexDigit(text.charCodeAt(at + 1));
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

function hexDigit(code: number): number {
  if (code >= 0x30 && code <= 0x39) {
    return code - 0x30;
  }
  const lower = code | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}
