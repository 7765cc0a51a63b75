/** The tokens of protobuf text format, with their offsets, and the values that they stand for. */

export interface Token {
  readonly kind: 'word' | 'number' | 'string' | 'mark' | 'end';
  /** As written. */
  readonly text: string;
  /** In characters from the beginning of the text. */
  readonly offset: number;
}

/** A mistake in the text. */
export class TextFault extends Error {
  constructor(
    readonly offset: number,
    message: string,
  ) {
    super(message);
  }
}

const SPACE = /(?:[ \t\r\n\v\f]|#[^\n]*)*/y;
const FORMS = [
  ['word', /[A-Za-z_][A-Za-z0-9_]*/y],
  ['number', /0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?/y],
  ['string', /"(?:[^"\\\n]|\\[^])*"|'(?:[^'\\\n]|\\[^])*'/y],
  ['mark', /[-:,;{}<>[\]]/y],
] as const;

export class TextTokens {
  readonly #text: string;
  #offset = 0;
  #peeked: Token | undefined;

  constructor(text: string) {
    this.#text = text;
  }

  placeOf(offset: number): { readonly line: number; readonly column: number } {
    const before = this.#text.slice(0, offset).split('\n');
    return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 };
  }

  /** Where reading stopped. */
  get stoppedAt(): number {
    return this.#offset;
  }

  peek(): Token {
    return (this.#peeked ??= this.#read());
  }

  next(): Token {
    const token = this.peek();
    this.#peeked = undefined;
    return token;
  }

  /** Takes a mark if it is the next token. */
  take(mark: string): boolean {
    const { kind, text } = this.peek();
    if (kind !== 'mark' || text !== mark) return false;
    this.#peeked = undefined;
    return true;
  }

  expect(mark: string): void {
    const { offset, text } = this.peek();
    if (!this.take(mark))
      throw new TextFault(offset, `found ${quotable(text)}, expected "${mark}"`);
  }

  /** The text up to the bracket that closes this one, without white space. */
  bracketed({ offset }: Token): string {
    const end = this.#text.indexOf(']', offset);
    if (end < 0) throw new TextFault(offset, 'is not closed');
    this.#offset = end + 1;
    this.#peeked = undefined;
    return this.#text.slice(offset + 1, end).replace(/\s+/g, '');
  }

  /** The value of a whole number that begins with this token. */
  integer(token: Token): bigint {
    const { sign, digits } = this.#signed(token);
    if (/^0[0-7]+$/.test(digits)) return sign * BigInt(`0o${digits.slice(1)}`);
    if (/^(0[xX][0-9a-fA-F]+|0|[1-9]\d*)$/.test(digits)) return sign * BigInt(digits);
    throw new TextFault(token.offset, `${quotable(token.text)} is not a whole number`);
  }

  float(token: Token): number {
    const { sign, digits } = this.#signed(token);
    const factor = Number(sign);
    if (/^(inf|infinity)f?$/i.test(digits)) return factor * Infinity;
    if (/^nanf?$/i.test(digits)) return NaN;
    const value = /^0[xX]/.test(digits) ? NaN : Number(digits.replace(/[fF]$/, ''));
    if (Number.isNaN(value))
      throw new TextFault(token.offset, `${quotable(token.text)} is not a number`);
    return factor * value;
  }

  boolean({ text, offset }: Token): boolean {
    if (/^(true|True|t|1)$/.test(text)) return true;
    if (/^(false|False|f|0)$/.test(text)) return false;
    throw new TextFault(offset, `${quotable(text)} is not true or false`);
  }

  /** Adjacent strings are one. */
  string(token: Token): string {
    const bytes = this.bytes(token);
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      throw new TextFault(token.offset, 'is not valid UTF-8');
    }
  }

  bytes(token: Token): Uint8Array {
    if (token.kind !== 'string') {
      throw new TextFault(
        token.offset,
        `found ${token.text === '' ? 'the end' : quotable(token.text)}, expected text in quotes`,
      );
    }
    const parts = [unescaped(token)];
    while (this.peek().kind === 'string') parts.push(unescaped(this.next()));
    return Buffer.concat(parts);
  }

  #signed(token: Token): { readonly sign: bigint; readonly digits: string } {
    if (token.kind !== 'mark' || token.text !== '-') return { sign: 1n, digits: token.text };
    return { sign: -1n, digits: this.next().text };
  }

  #read(): Token {
    SPACE.lastIndex = this.#offset;
    SPACE.exec(this.#text);
    const offset = SPACE.lastIndex;
    if (offset >= this.#text.length) return { kind: 'end', text: '', offset };
    for (const [kind, form] of FORMS) {
      form.lastIndex = offset;
      const text = form.exec(this.#text)?.[0];
      if (text === undefined) continue;
      this.#offset = offset + text.length;
      return { kind, text, offset };
    }
    const [character = ''] = this.#text.slice(offset);
    const isOpen = character === '"' || character === "'";
    throw new TextFault(
      offset,
      isOpen ? 'the text in quotes does not end' : `unexpected ${character}`,
    );
  }
}

const SIMPLE: Readonly<Record<string, number>> = {
  ...{ a: 7, b: 8, f: 12, n: 10, r: 13, t: 9, v: 11 },
  ...{ '\\': 0x5c, "'": 0x27, '"': 0x22, '?': 0x3f },
};
const ESCAPE =
  /\\(?:[xX]([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([^]))/y;

function unescaped({ text, offset }: Token): Uint8Array {
  const parts: Uint8Array[] = [];
  const end = text.length - 1;
  for (let at = 1; at < end;) {
    const next = text.indexOf('\\', at);
    const plainEnd = next < 0 || next >= end ? end : next;
    parts.push(Buffer.from(text.slice(at, plainEnd)));
    if (plainEnd === end) break;
    ESCAPE.lastIndex = plainEnd;
    const found = ESCAPE.exec(text);
    const bytes = found && bytesOfEscape(found);
    if (!found || !bytes) throw new TextFault(offset + plainEnd, 'is not an escape');
    parts.push(bytes);
    at = plainEnd + found[0].length;
  }
  return Buffer.concat(parts);
}

function bytesOfEscape([, hex, octal, short, long, simple]: RegExpExecArray):
  Uint8Array | undefined {
  if (hex !== undefined) return Uint8Array.of(parseInt(hex, 16));
  if (octal !== undefined) return Uint8Array.of(parseInt(octal, 8));
  const point = short ?? long;
  if (point !== undefined) {
    const code = parseInt(point, 16);
    return code <= 0x10ffff ? Buffer.from(String.fromCodePoint(code)) : undefined;
  }
  const code = simple === undefined ? undefined : SIMPLE[simple];
  return code === undefined ? undefined : Uint8Array.of(code);
}

/** Text of the file for a message. A value at a wrong place may be a secret, so only words and marks are shown. */
export const quotable = (text: string): string =>
  /^(?:\W|[A-Za-z]{1,30}(?:_[A-Za-z0-9]{1,30}){0,8}|[-\d.]{1,12})$/.test(text)
    ? text
    : 'other text';

/** `type.googleapis.com/envoy.config.cluster.v3.Cluster`, also without its first part. */
const TYPE_FORM = /^([\w.-]+\/\w+|envoy|google|udpa|xds)(\.\w+)+$/;
const MAX_SHOWN_TYPE = 200;

/** The same for the name of a type: only what looks like one is shown. */
export const quotableType = (typeUrl: string): string =>
  TYPE_FORM.test(typeUrl) && typeUrl.length <= MAX_SHOWN_TYPE ? JSON.stringify(typeUrl) : 'this';
