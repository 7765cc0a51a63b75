/**
 * The messages between the instances of one cluster, and their wire format: one JSON object with a
 * format version. They carry names, versions (content hashes) and counts, never content. An unreadable
 * message is a result and not an exception: every client of NATS with the permission may publish
 * anything.
 */
import { isObject } from '../../../protos/json-object.js';
import { nameOfKey, type ResourceName } from '../../../protos/resource-name.js';
import { readAskedName } from '../session/asked-name.js';

/** One name, and its version at the sender. */
export interface NameHint {
  readonly typeUrl: string;
  readonly name: ResourceName;
  /** Content hash; `null`: removed; `''`: present, but the version is secret. */
  readonly version: string | null;
}

/** The resources of one type and authority at an instance: their number, and the xor of their hashes. */
export interface DigestRow {
  readonly typeUrl: string;
  readonly authority: string;
  readonly count: number;
  readonly hash: string;
}

export type PeerMessage =
  /** Names that changed or were removed. */
  | { readonly kind: 'changes'; readonly hints: readonly NameHint[] }
  /** The sender serves a group from another source now. */
  | { readonly kind: 'switched'; readonly group: string; readonly to: string }
  /** An operator wants all instances to request the name again. */
  | { readonly kind: 'invalidate'; readonly typeUrl: string; readonly name: ResourceName }
  | { readonly kind: 'invalidate_authority'; readonly authority: string }
  /** @see HeldDigest. Instances with different rows reply if `isQuestion` is set. */
  | { readonly kind: 'digest'; readonly isQuestion: boolean; readonly rows: readonly DigestRow[] };

export type ReadMessage =
  | { readonly ok: true; readonly from: string; readonly message: PeerMessage }
  | { readonly ok: false; readonly reason: 'malformed' | 'oversize' | 'unknown_format' };

const FORMAT = 1;
/** Names that do not fit into one message go into several. */
export const MAX_MESSAGE_BYTES = 16 * 1_024;
/** Upper bound for the fields beside names or rows: format version and sender. */
const ENVELOPE_BYTES = 256;
/** The gateway remembers versions and ids from messages, and a forged one may have any length. */
const MAX_VERSION_CHARACTERS = 128;
const MAX_ID_CHARACTERS = 1_024;

/** @param from id of the sending instance */
export function encodePeerMessage(from: string, message: PeerMessage): Uint8Array {
  return Buffer.from(JSON.stringify({ v: FORMAT, from, ...wireForm(message) }));
}

/** @returns the hints in as few messages as possible; drops hints that are too large for a message. */
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

/** Measures the wire form, since UTF-8 and JSON escapes need several bytes for a character. */
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
  if (!isObject(value)) return { ok: false, reason: 'malformed' };
  // Not malformed: during an upgrade, newer instances run beside this one.
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
    // Skip names that only a newer instance understands, and take the others.
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

/** No parsed text yields the key of an old-style name, or of a name with dynamic parameters. */
function nameFromKey(typeUrl: unknown, key: unknown): ResourceName | undefined {
  if (typeof typeUrl !== 'string' || typeof key !== 'string') return undefined;
  if (/^[\n\t]/.test(key)) return nameOfKey(key);
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
