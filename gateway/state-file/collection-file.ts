/**
 * The format of the state file: names of collections as JSON, in pieces, so that encoding never blocks the event loop for
 * long. Times are wall-clock milliseconds, since no other clock survives a restart. The file ends with a digest of its content: without it, a flipped bit in a name would send
 * clients a removal.
 */
import { createHash } from 'node:crypto';
import { isListName } from '../../protos/list-collection.js';
import { isMemberOf, nameOfKey } from '../../protos/resource-name.js';
import type { CollectionNames, RemovedName } from '../core/cache/collection.js';

const FORMAT_VERSION = 1;
const NAMES_PER_PART = 250;
/** Each piece is a call to the file system: with one for each of 5,000 collections, a write takes seconds. */
const PIECE_CHARS = 32_768;
const DIGEST_KEY = ',"sha256":';
/** The start of every state file, for all format versions. */
export const FILE_START = '{"version":';

/** Converts a time from one clock to the other. */
export type ShiftTime = (atMs: number) => number;

/**
 * Conversions between the monotonic clock and the wall clock.
 *
 * @param nowMs, wallMs the same moment on both clocks
 */
export function shiftsAt(
  nowMs: number,
  wallMs: number,
): { readonly toWallClock: ShiftTime; readonly fromWallClock: ShiftTime } {
  const aheadMs = wallMs - nowMs;
  return {
    toWallClock: (atMs) => atMs + aheadMs,
    // Cap at now: after the wall clock was set back, times of the file lie in the future and would
    // expire too late.
    fromWallClock: (atMs) => Math.min(nowMs, atMs - aheadMs),
  };
}

/** The pieces of the file, in order, most of 30 to 60 KB; each collection is read when the iterator reaches it. */
export function encodeCollections(
  collections: Iterable<CollectionNames>,
  toWallClock: ShiftTime,
): IterableIterator<string> {
  return joined(withDigest(encodeAll(collections, toWallClock)));
}

function* joined(parts: Iterable<string>): IterableIterator<string> {
  let piece = '';
  for (const part of parts) {
    piece += part;
    if (piece.length < PIECE_CHARS) continue;
    yield piece;
    piece = '';
  }
  yield piece;
}

/** @param parts of a JSON object without its closing brace */
export function* withDigest(parts: Iterable<string>): IterableIterator<string> {
  const hash = createHash('sha256');
  for (const part of parts) {
    hash.update(part);
    yield part;
  }
  yield `${DIGEST_KEY}"${hash.digest('hex')}"}\n`;
}

function* encodeAll(
  collections: Iterable<CollectionNames>,
  toWallClock: ShiftTime,
): IterableIterator<string> {
  yield `${FILE_START}${FORMAT_VERSION},"collections":[`;
  let separator = '\n';
  for (const { typeUrl, glob, members, removed, knownAtMs } of collections) {
    if (members.length + removed.length === 0) continue;
    const head = { type: typeUrl, glob: glob.key, known_at: Math.round(toWallClock(knownAtMs)) };
    yield `${separator}${JSON.stringify(head).slice(0, -1)},"members":[`;
    yield* partsOf(members, (key) => key);
    yield '],"removed":[';
    yield* partsOf(removed, ({ key, removedAtMs }) => [key, Math.round(toWallClock(removedAtMs))]);
    yield ']}';
    separator = ',\n';
  }
  yield '\n]';
}

function* partsOf<T>(items: readonly T[], toJson: (item: T) => unknown): IterableIterator<string> {
  for (let from = 0; from < items.length; from += NAMES_PER_PART) {
    const part = items.slice(from, from + NAMES_PER_PART).map(toJson);
    yield `${from === 0 ? '' : ',\n'}${JSON.stringify(part).slice(1, -1)}`;
  }
}

export type DecodedCollections =
  | { readonly ok: true; readonly collections: readonly CollectionNames[] }
  | { readonly ok: false; readonly reason: string };

/** All or nothing: one invalid part makes the rest untrustworthy. Never throws. */
export function decodeCollections(text: string, fromWallClock: ShiftTime): DecodedCollections {
  try {
    const file = asObject(JSON.parse(text));
    if (file['version'] !== FORMAT_VERSION) {
      throw new TypeError(
        `has format version ${JSON.stringify(file['version'])} instead of ${FORMAT_VERSION}`,
      );
    }
    const written = withDigest([text.slice(0, text.lastIndexOf(DIGEST_KEY))]);
    if (text !== [...written].join('')) throw new TypeError('does not match its digest');
    const collections = asList(file['collections']).map((one) => decodeOne(one, fromWallClock));
    return { ok: true, collections };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { ok: false, reason: error instanceof SyntaxError ? `is damaged: ${reason}` : reason };
  }
}

function decodeOne(value: unknown, fromWallClock: ShiftTime): CollectionNames {
  const { type, glob: globKey, known_at: knownAt, members, removed } = asObject(value);
  const typeUrl = asText(type);
  const named = nameOfKey(asText(globKey));
  const isList = named !== undefined && isListName(typeUrl, named);
  const glob = isList ? { ...named, isGlob: true } : named;
  if (!glob?.isGlob) throw new TypeError(`has a collection that is not a glob: ${asText(globKey)}`);
  const memberKey = (key: unknown): string => {
    const name = nameOfKey(asText(key));
    // Members of a list may have any name.
    if (name && (isList || isMemberOf(name, glob))) return name.key;
    throw new TypeError(`has a name that is not a member of ${glob.key}: ${asText(key)}`);
  };
  return {
    typeUrl,
    glob,
    members: asList(members).map(memberKey),
    removed: asList(removed).map((one): RemovedName => {
      const [key, at] = asList(one);
      return { key: memberKey(key), removedAtMs: fromWallClock(asTime(at)) };
    }),
    knownAtMs: fromWallClock(asTime(knownAt)),
  };
}

function asObject(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
  throw new TypeError('has another value instead of an object');
}

function asList(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw new TypeError('has another value instead of a list');
}

function asText(value: unknown): string {
  if (typeof value === 'string') return value;
  throw new TypeError('has another value instead of a name');
}

function asTime(value: unknown): number {
  if (typeof value === 'number') return value;
  throw new TypeError('has another value instead of a time');
}
