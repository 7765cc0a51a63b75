/**
 * What instances of one cluster tell each other, and its form on the wire: one JSON object with a
 * format version. Names, versions (content hashes) and counts travel, never content. What cannot be
 * read is data: whoever may publish may publish anything.
 */
import { oldStyleName, type ResourceName } from '../../../protos/resource-name.js';
import { readAskedName } from '../session/asked-name.js';

/** One name and what its sender holds of it. */
export interface NameHint {
  readonly typeUrl: string;
  readonly name: ResourceName;
  /** Content hash; `null`: it went; `''`: it is there, and its version is nobody's business. */
  readonly version: string | null;
}

/** What an instance holds of one type and authority: how many, and the xor of their hashes. */
export interface DigestRow {
  readonly typeUrl: string;
  readonly authority: string;
  readonly count: number;
  readonly hash: string;
}

export type PeerMessage =
  /** These were seen to change, or to go. */
  | { readonly kind: 'changes'; readonly hints: readonly NameHint[] }
  /** A group is served from another source there. */
  | { readonly kind: 'switched'; readonly group: string; readonly to: string }
  /** An operator wants everybody to ask again. */
  | { readonly kind: 'invalidate'; readonly typeUrl: string; readonly name: ResourceName }
  | { readonly kind: 'invalidate_authority'; readonly authority: string }
  /** @see HeldDigest. To a `question` whoever differs answers. */
  | { readonly kind: 'digest'; readonly isQuestion: boolean; readonly rows: readonly DigestRow[] };

export type ReadMessage =
  | { readonly ok: true; readonly from: string; readonly message: PeerMessage }
  | { readonly ok: false; readonly reason: 'malformed' | 'oversize' | 'unknown_format' };

const FORMAT = 1;
/** Of a message. Names are told in as many messages as they need. */
export const MAX_MESSAGE_BYTES = 16 * 1_024;
/** What a message has besides names or rows: its format, and who says it. */
const ENVELOPE_BYTES = 256;
/** Whoever may publish may publish anything, and what is said of a name is remembered. */
const MAX_VERSION_CHARACTERS = 128;
const MAX_ID_CHARACTERS = 1_024;

/** @param from the instance that says it. */
export function encodePeerMessage(from: string, message: PeerMessage): Uint8Array {
  return Buffer.from(JSON.stringify({ v: FORMAT, from, ...wireForm(message) }));
}

/** @returns the hints in as few messages as their size allows; without those that fit in none. */
export function inMessages(hints: Iterable<NameHint>): readonly PeerMessage[] {
  return batches(hints, hintForm).map((some) => ({ kind: 'changes', hints: some }));
}

/** The same for a digest. */
export function digestMessages(
  isQuestion: boolean,
  rows: Iterable<DigestRow>,
): readonly PeerMessage[] {
  return batches(rows, rowForm).map((some) => ({ kind: 'digest', isQuestion, rows: some }));
}

/** Names may need several bytes for a character, and more within JSON: only the wire form tells. */
function batches<T>(items: Iterable<T>, toWire: (item: T) => unknown): readonly (readonly T[])[] {
  const all: T[][] = [];
  let leftBytes = 0;
  for (const item of items) {
    const bytes = Buffer.byteLength(JSON.stringify(toWire(item))) + 1;
    if (bytes > MAX_MESSAGE_BYTES - ENVELOPE_BYTES) continue;
    if (bytes > leftBytes) {
      all.push([]);
      leftBytes = MAX_MESSAGE_BYTES - ENVELOPE_BYTES;
    }
    all.at(-1)?.push(item);
    leftBytes -= bytes;
  }
  return all;
}

const hintForm = ({ typeUrl, name, version }: NameHint): readonly unknown[] => [
  typeUrl,
  name.key,
  version,
];
const rowForm = ({ typeUrl, authority, count, hash }: DigestRow): readonly unknown[] => [
  typeUrl,
  authority,
  count,
  hash,
];

function wireForm(message: PeerMessage): Readonly<Record<string, unknown>> {
  switch (message.kind) {
    case 'changes':
      return { changes: message.hints.map(hintForm) };
    case 'switched':
      return { switched: [message.group, message.to] };
    case 'invalidate':
      return { invalidate: [message.typeUrl, message.name.key] };
    case 'invalidate_authority':
      return { authority: message.authority };
    case 'digest':
      return {
        digest: message.rows.map(rowForm),
        ...(message.isQuestion ? { question: true } : {}),
      };
  }
}

/** Never throws. */
export function readPeerMessage(bytes: Uint8Array): ReadMessage {
  if (bytes.length > MAX_MESSAGE_BYTES) return { ok: false, reason: 'oversize' };
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString());
  } catch {
    return { ok: false, reason: 'malformed' };
  }
  if (!isRecord(value)) return { ok: false, reason: 'malformed' };
  // A newer instance beside us, as during an upgrade: it is no fault of its.
  if (value['v'] !== FORMAT) return { ok: false, reason: 'unknown_format' };
  const { from } = value;
  const message = messageFrom(value);
  return typeof from === 'string' && message
    ? { ok: true, from, message }
    : { ok: false, reason: 'malformed' };
}

function messageFrom(value: Readonly<Record<string, unknown>>): PeerMessage | undefined {
  const { changes, switched, invalidate, authority, digest } = value;
  if (Array.isArray(changes)) {
    const hints = changes.flatMap((one) => hintFrom(one) ?? []);
    // A newer instance may know names that we do not: that is no reason to miss the others.
    return hints.length === 0 ? undefined : { kind: 'changes', hints };
  }
  if (Array.isArray(switched)) {
    const [group, to] = switched as readonly unknown[];
    return isId(group) && isId(to) ? { kind: 'switched', group, to } : undefined;
  }
  if (Array.isArray(invalidate)) {
    const [typeUrl, key] = invalidate as readonly unknown[];
    const name = nameFromKey(typeUrl, key);
    return name && { kind: 'invalidate', typeUrl: String(typeUrl), name };
  }
  if (isId(authority)) return { kind: 'invalidate_authority', authority };
  if (Array.isArray(digest)) {
    const rows = allOf(digest, rowFrom);
    return rows && { kind: 'digest', rows, isQuestion: value['question'] === true };
  }
  return undefined;
}

function hintFrom(value: unknown): NameHint | undefined {
  if (!Array.isArray(value)) return undefined;
  const [typeUrl, key, version] = value as readonly unknown[];
  const name = nameFromKey(typeUrl, key);
  if (typeof typeUrl !== 'string' || !name || name.isGlob) return undefined;
  const isVersion =
    version === null || (typeof version === 'string' && version.length <= MAX_VERSION_CHARACTERS);
  return isVersion ? { typeUrl, name, version } : undefined;
}

function rowFrom(value: unknown): DigestRow | undefined {
  if (!Array.isArray(value)) return undefined;
  const [typeUrl, authority, count, hash] = value as readonly unknown[];
  const isRow =
    typeof typeUrl === 'string' &&
    typeof authority === 'string' &&
    typeof count === 'number' &&
    typeof hash === 'string';
  return isRow ? { typeUrl, authority, count, hash } : undefined;
}

/** Old-style names have keys that no text is parsed to: see protos/old-style-name.ts. */
function nameFromKey(typeUrl: unknown, key: unknown): ResourceName | undefined {
  if (typeof typeUrl !== 'string' || typeof key !== 'string') return undefined;
  const scopeEnd = key.indexOf('\n', 1);
  if (key.startsWith('\n') && scopeEnd !== -1) {
    return oldStyleName(key.slice(1, scopeEnd), key.slice(scopeEnd + 1));
  }
  const asked = readAskedName(typeUrl, key);
  return asked.ok && asked.name.key === key ? asked.name : undefined;
}

function allOf<T>(
  values: readonly unknown[],
  read: (value: unknown) => T | undefined,
): readonly T[] | undefined {
  const all: T[] = [];
  for (const value of values) {
    const one = read(value);
    if (one === undefined) return undefined;
    all.push(one);
  }
  return all;
}

const isId = (value: unknown): value is string =>
  typeof value === 'string' && value.length <= MAX_ID_CHARACTERS;

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
