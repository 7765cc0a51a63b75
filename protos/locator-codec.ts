/**
 * Decodes `xds.core.v3.ResourceLocator` inside resources. Control planes use either of two forms: the
 * published message (structured), or the one in TP1's text (one string in field 1).
 */
import { FieldCursor, wireType } from './protobuf-fields.js';
import {
  formatResourceLocator,
  maxAlternativeDepth,
  parseResourceLocator,
} from './resource-locator.js';
import type { ResourceLocator } from './resource-locator.js';
import { makeResourceName, type ContextParam } from './resource-urn.js';

export type ReadLocator =
  | { readonly ok: true; readonly locator: ResourceLocator }
  | { readonly ok: false; readonly reason: string };

const refused = (reason: string): ReadLocator => ({ ok: false, reason });
const MALFORMED = 'is not a ResourceLocator';
const XDSTP_SCHEME = 0;

/** @param bytes the serialized ResourceLocator; of a redirect, the value of the resource's Any */
export function readResourceLocator(bytes: Uint8Array): ReadLocator {
  return withText(readAt(bytes, 0, bytes.length, 0));
}

/** Reads a field that is a URL (TP1's text) or a ResourceLocator (as published). */
export function readLocatorField(bytes: Uint8Array, start: number, end: number): ReadLocator {
  // A ResourceLocator cannot begin with 'x': as a tag, that is field 15, which it does not have.
  const text = textAt(bytes, start, end);
  return withText(text.startsWith('xdstp:') ? readText(text) : readAt(bytes, start, end, 0));
}

/**
 * The gateway subscribes to a locator by its canonical text. So it refuses a locator whose text is too
 * long, or whose entry name the text cannot express.
 */
function withText(read: ReadLocator): ReadLocator {
  if (!read.ok) return read;
  const { alternatives, entries } = read.locator;
  if (alternatives.length + entries.length === 0) return read;
  const text = formatResourceLocator(read.locator);
  const again = readText(text);
  if (!again.ok || formatResourceLocator(again.locator) === text) return again;
  return refused('has an entry name that a URL cannot express');
}

function readText(text: string): ReadLocator {
  const parsed = parseResourceLocator(text);
  return parsed.ok
    ? { ok: true, locator: parsed.value }
    : refused(`does not lead to a valid resource name: ${parsed.error.message}`);
}

function readAt(bytes: Uint8Array, start: number, end: number, depth: number): ReadLocator {
  if (depth > maxAlternativeDepth) return refused('nests alternatives too deeply');
  const cursor = new FieldCursor(bytes, start, end);
  const name = { authority: '', resourceType: '', id: '', contextParams: [] as ContextParam[] };
  const alternatives: ResourceLocator[] = [];
  const entries: string[] = [];
  while (cursor.next()) {
    const { number, wire, valueStart, valueEnd } = cursor;
    if (number === 1 && wire === wireType.bytes)
      return readText(textAt(bytes, valueStart, valueEnd));
    if (number === 1 && wire === wireType.varint && cursor.varint !== XDSTP_SCHEME) {
      return refused('leads to a file or an HTTP server, not to an xdstp: resource');
    }
    if (wire !== wireType.bytes) continue;
    if (number === 2) name.id = textAt(bytes, valueStart, valueEnd);
    if (number === 3) name.authority = textAt(bytes, valueStart, valueEnd);
    if (number === 4) name.resourceType = textAt(bytes, valueStart, valueEnd);
    if (number === 5 && !readParams(bytes, valueStart, valueEnd, name.contextParams)) {
      return refused(MALFORMED);
    }
    if (number === 6) {
      const problem = readDirective(bytes, valueStart, valueEnd, depth, { alternatives, entries });
      if (problem !== undefined) return refused(problem);
    }
  }
  if (cursor.malformed) return refused(MALFORMED);
  const made = makeResourceName(name);
  if (!made.ok) return refused(`does not lead to a valid resource name: ${made.error.message}`);
  return { ok: true, locator: { name: made.value, alternatives, entries } };
}

function readDirective(
  bytes: Uint8Array,
  start: number,
  end: number,
  depth: number,
  into: { readonly alternatives: ResourceLocator[]; readonly entries: string[] },
): string | undefined {
  const cursor = new FieldCursor(bytes, start, end);
  while (cursor.next()) {
    if (cursor.wire !== wireType.bytes) continue;
    if (cursor.number === 1) {
      const alternative = readAt(bytes, cursor.valueStart, cursor.valueEnd, depth + 1);
      if (!alternative.ok) return alternative.reason;
      into.alternatives.push(alternative.locator);
    }
    if (cursor.number === 2) into.entries.push(textAt(bytes, cursor.valueStart, cursor.valueEnd));
  }
  if (cursor.malformed) return MALFORMED;
  // TP1: "The same directive may not appear more than once".
  return into.alternatives.length > 1 || into.entries.length > 1
    ? 'has a duplicate directive'
    : undefined;
}

/** `ContextParams`: a map from string to string in field 1. */
function readParams(bytes: Uint8Array, start: number, end: number, into: ContextParam[]): boolean {
  const cursor = new FieldCursor(bytes, start, end);
  while (cursor.next()) {
    if (cursor.number !== 1 || cursor.wire !== wireType.bytes) continue;
    const entry = new FieldCursor(bytes, cursor.valueStart, cursor.valueEnd);
    let key = '';
    let value = '';
    while (entry.next()) {
      if (entry.wire !== wireType.bytes) continue;
      if (entry.number === 1) key = textAt(bytes, entry.valueStart, entry.valueEnd);
      if (entry.number === 2) value = textAt(bytes, entry.valueStart, entry.valueEnd);
    }
    if (entry.malformed) return false;
    into.push([key, value]);
  }
  return !cursor.malformed;
}

function textAt(bytes: Uint8Array, start: number, end: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('utf8');
}
