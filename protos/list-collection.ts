/**
 * List collections (TP1, "List"). The list type of a type T is `<T>Collection`. Its field 1 is a
 * repeated `xds.core.v3.CollectionEntry`. An entry is an inline resource or a locator.
 */
import { readLocatorField } from './locator-codec.js';
import { FieldCursor, wireType } from './protobuf-fields.js';
import { locatorOfName, nameOfLocator, type ResourceLocator } from './resource-locator.js';
import type { ResourceName } from './resource-urn.js';
import { messageOf } from './type-urls.js';

const SUFFIX = 'Collection';

export type ListEntry =
  | { readonly kind: 'locator'; readonly locator: ResourceLocator }
  | {
      readonly kind: 'inline';
      /** Empty for an anonymous entry, which `#entry=` cannot address. */
      readonly name: string;
      readonly typeUrl: string;
      /** The value of its Any: a view of the list. */
      readonly body: Uint8Array;
    }
  /** An unusable entry with the reason, a verb phrase such as `is empty`. */
  | { readonly kind: 'refused'; readonly reason: string };

export type ReadList =
  | { readonly ok: true; readonly entries: ListEntries }
  | {
      readonly ok: false;
      readonly code: 'malformed' | 'too_long' | 'ambiguous';
      readonly reason: string;
    };

/** The entries of a list. The iterator decodes each one when it reaches it, since a list may have 10,000. */
export interface ListEntries extends Iterable<ListEntry> {
  readonly length: number;
}

/** The list type of a type. Both are type URLs or both are message names. */
export const listTypeOf = (type: string): string => type + SUFFIX;

/** Whether the name of the type is that of a list type. `Collection` alone is the list type of no type. */
export const isListType = (type: string): boolean =>
  type.endsWith(SUFFIX) && type.length > SUFFIX.length;

/** The inverse of `listTypeOf`. @returns undefined: this is not a list type */
export const elementTypeOf = (type: string): string | undefined =>
  isListType(type) ? type.slice(0, -SUFFIX.length) : undefined;

/** Whether a subscription to this name as `typeUrl` addresses a list of such resources. */
export function isListName(typeUrl: string, { resourceType }: ResourceName): boolean {
  return isListType(resourceType) && resourceType === listTypeOf(messageOf(typeUrl));
}

/**
 * Whether the name has `#entry=`, but is not the name of a list of `typeUrl` resources. Only lists
 * have entries.
 */
export function isEntryOfNoList(typeUrl: string, name: ResourceName): boolean {
  if (isListName(typeUrl, name) && !name.isGlob) return false;
  return (locatorOfName(name)?.entries.length ?? 0) > 0;
}

/**
 * For a list entry: its list, to which the gateway subscribes at the source. For any other name:
 * the name.
 */
export function withoutEntry(name: ResourceName): ResourceName {
  const locator = locatorOfName(name);
  return locator && locator.entries.length > 0 ? nameOfLocator({ ...locator, entries: [] }) : name;
}

/**
 * @param bytes the serialized `<T>Collection`
 * @param maxEntries most entries; more are refused before any of them is decoded
 */
export function readList(bytes: Uint8Array, maxEntries: number): ReadList {
  const spans: [start: number, end: number][] = [];
  const cursor = new FieldCursor(bytes, 0, bytes.length);
  while (cursor.next()) {
    if (cursor.number !== 1 || cursor.wire !== wireType.bytes) continue;
    if (spans.length === maxEntries) {
      return { ok: false, code: 'too_long', reason: `has more than ${maxEntries} entries` };
    }
    spans.push([cursor.valueStart, cursor.valueEnd]);
  }
  if (cursor.malformed) return { ok: false, code: 'malformed', reason: 'is not a list collection' };
  const names = new Set<string>();
  for (const [start, end] of spans) {
    const entry = isInline(bytes, start, end) ? readEntry(bytes, start, end) : undefined;
    if (entry?.kind !== 'inline' || entry.name === '') continue;
    // TP1: "When non-empty, this name must be unique in any given list collection."
    if (names.has(entry.name)) {
      const reason = `has two entries named "${entry.name}"`;
      return { ok: false, code: 'ambiguous', reason };
    }
    names.add(entry.name);
  }
  const entries = {
    length: spans.length,
    *[Symbol.iterator]() {
      for (const [start, end] of spans) yield readEntry(bytes, start, end);
    },
  };
  return { ok: true, entries };
}

/** Whether the entry is inline, if it is valid. Of both kinds in one entry, the last counts. */
function isInline(bytes: Uint8Array, start: number, end: number): boolean {
  const cursor = new FieldCursor(bytes, start, end);
  let kind = 0;
  while (cursor.next()) {
    if (cursor.wire === wireType.bytes && cursor.number <= 2) kind = cursor.number;
  }
  return kind === 2;
}

function readEntry(bytes: Uint8Array, start: number, end: number): ListEntry {
  const cursor = new FieldCursor(bytes, start, end);
  let entry: ListEntry = { kind: 'refused', reason: 'is empty' };
  while (cursor.next()) {
    if (cursor.wire !== wireType.bytes) continue;
    if (cursor.number === 1) {
      const read = readLocatorField(bytes, cursor.valueStart, cursor.valueEnd);
      entry = read.ok
        ? { kind: 'locator', locator: read.locator }
        : { kind: 'refused', reason: read.reason };
    }
    if (cursor.number === 2) entry = readInline(bytes, cursor.valueStart, cursor.valueEnd);
  }
  return cursor.malformed ? { kind: 'refused', reason: 'is not a collection entry' } : entry;
}

function readInline(bytes: Uint8Array, start: number, end: number): ListEntry {
  const cursor = new FieldCursor(bytes, start, end);
  let name = '';
  let typeUrl = '';
  let body: Uint8Array = new Uint8Array(0);
  while (cursor.next()) {
    if (cursor.wire !== wireType.bytes) continue;
    const value = bytes.subarray(cursor.valueStart, cursor.valueEnd);
    if (cursor.number === 1) name = Buffer.from(value).toString('utf8');
    if (cursor.number !== 3) continue;
    const any = new FieldCursor(value, 0, value.length);
    while (any.next()) {
      const part = value.subarray(any.valueStart, any.valueEnd);
      if (any.number === 1) typeUrl = Buffer.from(part).toString('utf8');
      if (any.number === 2) body = part;
    }
    if (any.malformed) return { kind: 'refused', reason: 'is not an inline entry' };
  }
  return cursor.malformed
    ? { kind: 'refused', reason: 'is not an inline entry' }
    : { kind: 'inline', name, typeUrl, body };
}
