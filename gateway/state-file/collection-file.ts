/**
 * The format of the state file: names of collections as JSON, a few thousand to a line, so that
 * writing it never holds up the event loop for long. Times in it are of the wall clock, in
 * milliseconds, since no other outlives a process. A digest of the rest ends it: of a name in which a
 * disk flipped one bit, clients would be told that it was removed.
 */
import { createHash } from 'node:crypto';
import { isListName } from '../../protos/list-collection.js';
import { isMemberOf, nameOfKey } from '../../protos/resource-name.js';
import type { CollectionNames, RemovedName } from '../core/cache/collection.js';

const FORMAT_VERSION = 1;
const NAMES_PER_PIECE = 1_000;
const DIGEST_KEY = ',"sha256":';
/** How every state file begins, of whatever version. */
export const FILE_START = '{"version":';

/** Shifts a time from one clock to the other. */
export type ShiftTime = (atMs: number) => number;

/** From the clock of a process to the time of day, and back. Both times are of the same moment. */
export function shiftsAt(
  nowMs: number,
  wallMs: number,
): { readonly toWallClock: ShiftTime; readonly fromWallClock: ShiftTime } {
  const aheadMs = wallMs - nowMs;
  return {
    toWallClock: (atMs) => atMs + aheadMs,
    // A wall clock that was set back must not make a time of the future, which would last too long.
    fromWallClock: (atMs) => Math.min(nowMs, atMs - aheadMs),
  };
}

/** Pieces of the file, in order; each collection is taken when its turn comes. */
export function encodeCollections(
  collections: Iterable<CollectionNames>,
  toWallClock: ShiftTime,
): IterableIterator<string> {
  return withDigest(encodeAll(collections, toWallClock));
}

/** @param pieces of a JSON object that lacks its last brace */
export function* withDigest(pieces: Iterable<string>): IterableIterator<string> {
  const hash = createHash('sha256');
  for (const piece of pieces) {
    hash.update(piece);
    yield piece;
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
    yield* pieces(members, (key) => key);
    yield '],"removed":[';
    yield* pieces(removed, ({ key, removedAtMs }) => [key, Math.round(toWallClock(removedAtMs))]);
    yield ']}';
    separator = ',\n';
  }
  yield '\n]';
}

function* pieces<T>(items: readonly T[], toJson: (item: T) => unknown): IterableIterator<string> {
  for (let from = 0; from < items.length; from += NAMES_PER_PIECE) {
    const piece = items.slice(from, from + NAMES_PER_PIECE).map(toJson);
    yield `${from === 0 ? '' : ',\n'}${JSON.stringify(piece).slice(1, -1)}`;
  }
}

export type DecodedCollections =
  | { readonly ok: true; readonly collections: readonly CollectionNames[] }
  | { readonly ok: false; readonly reason: string };

/** All or nothing: who cannot read a part cannot trust the rest. Never throws. */
export function decodeCollections(text: string, fromWallClock: ShiftTime): DecodedCollections {
  try {
    const file = asObject(JSON.parse(text));
    if (file['version'] !== FORMAT_VERSION) {
      throw new TypeError(
        `is of version ${JSON.stringify(file['version'])}, not ${FORMAT_VERSION}`,
      );
    }
    const written = withDigest([text.slice(0, text.lastIndexOf(DIGEST_KEY))]);
    if (text !== [...written].join('')) throw new TypeError('is not as it was written');
    const collections = asList(file['collections']).map((one) => decodeOne(one, fromWallClock));
    return { ok: true, collections };
  } catch (error) {
    return { ok: false, reason: error instanceof Error ? error.message : String(error) };
  }
}

function decodeOne(value: unknown, fromWallClock: ShiftTime): CollectionNames {
  const { type, glob: globKey, known_at: knownAt, members, removed } = asObject(value);
  const typeUrl = asText(type);
  const named = nameOfKey(asText(globKey));
  const isList = named !== undefined && isListName(typeUrl, named);
  const glob = isList ? { ...named, isGlob: true } : named;
  if (!glob?.isGlob) throw new TypeError(`has a collection that is no glob: ${asText(globKey)}`);
  const memberKey = (key: unknown): string => {
    const name = nameOfKey(asText(key));
    // The members of a list may have any name.
    if (name && (isList || isMemberOf(name, glob))) return name.key;
    throw new TypeError(`has a name that is no member of ${glob.key}: ${asText(key)}`);
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
  throw new TypeError('has something else where an object should be');
}

function asList(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw new TypeError('has something else where a list should be');
}

function asText(value: unknown): string {
  if (typeof value === 'string') return value;
  throw new TypeError('has something else where a name should be');
}

function asTime(value: unknown): number {
  if (typeof value === 'number') return value;
  throw new TypeError('has something else where a time should be');
}
