/**
 * TP2 dynamic parameter constraints (`xds.core.v3.DynamicParameterConstraints`): which parameters a variant of a resource is for.
 * They are part of the variant's identity, and are passed on as they came.
 */
import {
  closeAt,
  maxFieldsFor,
  readerOf,
  readTag,
  readText,
  subReader,
  wireTypeOf,
} from './discovery-fields.js';
import type { Reader } from './discovery-fields.js';

type Expression =
  | { readonly kind: 'value'; readonly key: string; readonly value: string }
  | { readonly kind: 'exists'; readonly key: string }
  | { readonly kind: 'and' | 'or'; readonly of: readonly Expression[] }
  | { readonly kind: 'not'; readonly of: Expression };

export interface ParameterConstraints {
  /** For people, and the same for the same constraints as they were written: `env=prod and not (version)`. */
  readonly text: string;
  /** As the source encoded them, in their own memory. */
  readonly bytes: Uint8Array;
  readonly matches: (parameters: ReadonlyMap<string, string>) => boolean;
}

/** Deeper constraints are unreadable. Levels. */
const MAX_DEPTH = 16;
/** Larger constraints are unreadable, since they are evaluated for each name and kept with each variant. Bytes. */
const MAX_BYTES = 4_096;

class Unreadable extends Error {}

/**
 * @returns undefined: without constraints, every client matches; or why the gateway cannot judge them, which may be a kind of
 *   constraint from a later version of TP2. Words for `the constraints …`
 */
export function readConstraints(bytes: Uint8Array): ParameterConstraints | string | undefined {
  if (bytes.length > MAX_BYTES)
    return `have ${bytes.length} bytes, at most ${MAX_BYTES} are allowed`;
  try {
    const reader = Object.assign(readerOf(bytes), { fieldsLeft: maxFieldsFor(MAX_BYTES) });
    const expression = readExpression(reader, reader.len, 0);
    if (expression === ALWAYS) return undefined;
    const text = textOf(expression);
    return {
      text,
      bytes: Uint8Array.from(bytes),
      matches: (parameters) => holds(expression, parameters),
    };
  } catch (error) {
    if (error instanceof Unreadable) return error.message;
    return `cannot be read: ${error instanceof Error ? error.message : String(error)}`;
  }
}

/** What a message without any field says. */
const ALWAYS: Expression = { kind: 'and', of: [] };

function readExpression(reader: Reader, end: number, depth: number): Expression {
  if (depth > MAX_DEPTH) throw new Unreadable(`are nested more than ${MAX_DEPTH} deep`);
  let expression = ALWAYS;
  while (reader.pos < end) {
    const tag = readTag(reader);
    if (tag === 0x0a) expression = readSingle(reader);
    else if (tag === 0x12) expression = { kind: 'or', of: readList(reader, depth + 1) };
    else if (tag === 0x1a) expression = { kind: 'and', of: readList(reader, depth + 1) };
    else if (tag === 0x22) {
      const { end: innerEnd } = subReader(reader);
      expression = { kind: 'not', of: readExpression(reader, innerEnd, depth + 1) };
    } else throw new Unreadable(`have the unknown field ${tag >>> 3}`);
  }
  closeAt(reader, end);
  return expression;
}

function readList(reader: Reader, depth: number): readonly Expression[] {
  const { end } = subReader(reader);
  const of: Expression[] = [];
  while (reader.pos < end) {
    const tag = readTag(reader);
    if (tag !== 0x0a) throw new Unreadable(`have the unknown field ${tag >>> 3} in a list`);
    const { end: innerEnd } = subReader(reader);
    of.push(readExpression(reader, innerEnd, depth));
  }
  closeAt(reader, end);
  return of;
}

function readSingle(reader: Reader): Expression {
  const { end } = subReader(reader);
  let key = '';
  let value: string | undefined;
  let isExists = false;
  while (reader.pos < end) {
    const tag = readTag(reader);
    if (tag === 0x0a) key = readText(reader);
    else if (tag === 0x12) [value, isExists] = [readText(reader), false];
    else if (tag === 0x1a) {
      reader.skipType(wireTypeOf(tag));
      [value, isExists] = [undefined, true];
    } else throw new Unreadable(`have the unknown field ${tag >>> 3} for the key "${key}"`);
  }
  closeAt(reader, end);
  if (value !== undefined) return { kind: 'value', key, value };
  if (isExists) return { kind: 'exists', key };
  throw new Unreadable(`do not say how the key "${key}" is matched`);
}

/** An empty `or` matches nobody, and an empty `and` everybody. */
function holds(expression: Expression, parameters: ReadonlyMap<string, string>): boolean {
  switch (expression.kind) {
    case 'value':
      return parameters.get(expression.key) === expression.value;
    case 'exists':
      return parameters.has(expression.key);
    case 'and':
      return expression.of.every((one) => holds(one, parameters));
    case 'or':
      return expression.of.some((one) => holds(one, parameters));
    case 'not':
      return !holds(expression.of, parameters);
  }
}

/** Without the parentheses and spaces of {@link textOf}, so that different constraints have different texts. */
const escaped = (text: string): string =>
  encodeURIComponent(text).replaceAll('(', '%28').replaceAll(')', '%29');

function textOf(expression: Expression): string {
  switch (expression.kind) {
    case 'value':
      return `${escaped(expression.key)}=${escaped(expression.value)}`;
    case 'exists':
      return escaped(expression.key);
    case 'not':
      return `not (${textOf(expression.of)})`;
    case 'and':
    case 'or': {
      const { kind, of } = expression;
      if (of.length === 0) return kind === 'and' ? '(all)' : '(none)';
      return of.map((one) => `(${textOf(one)})`).join(` ${kind} `);
    }
  }
}
