/**
 * What instances of one cluster tell each other, and its form on the wire: one JSON object with a
 * format version. Names, versions (content hashes) and counts travel, never content. What cannot be
 * read is data: whoever may publish may publish anything.
 */
import { oldStyleName, type ResourceName } from '../../protos/resource-name.js';
import { readAskedName } from './asked-name.js';

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
/** So that a message of names stays below, whatever its last name. */
const FULL_AT_CHARACTERS = 8 * 1_024;

/** @param from the instance that says it. */
export function encodePeerMessage(from: string, message: PeerMessage): Uint8Array {
  return Buffer.from(JSON.stringify({ v: FORMAT, from, ...wireForm(message) }));
}

/** @returns the hints in as few messages as their size allows. */
export function inMessages(hints: Iterable<NameHint>): readonly PeerMessage[] {
  const messages: PeerMessage[] = [];
  let batch: NameHint[] = [];
  let characters = 0;
  const close = (): void => {
    if (batch.length > 0) messages.push({ kind: 'changes', hints: batch });
    batch = [];
    characters = 0;
  };
  for (const hint of hints) {
    batch.push(hint);
    characters += hint.typeUrl.length + hint.name.key.length;
    if (characters >= FULL_AT_CHARACTERS) close();
  }
  close();
  return messages;
}

function wireForm(message: PeerMessage): Readonly<Record<string, unknown>> {
  switch (message.kind) {
    case 'changes':
      return {
        changes: message.hints.map(({ typeUrl, name, version }) => [typeUrl, name.key, version]),
      };
    case 'switched':
      return { switched: [message.group, message.to] };
    case 'invalidate':
      return { invalidate: [message.typeUrl, message.name.key] };
    case 'invalidate_authority':
      return { authority: message.authority };
    case 'digest':
      return {
        digest: message.rows.map((row) => [row.typeUrl, row.authority, row.count, row.hash]),
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
    const isText = typeof group === 'string' && typeof to === 'string';
    return isText ? { kind: 'switched', group, to } : undefined;
  }
  if (Array.isArray(invalidate)) {
    const [typeUrl, key] = invalidate as readonly unknown[];
    const name = nameFromKey(typeUrl, key);
    return name && { kind: 'invalidate', typeUrl: String(typeUrl), name };
  }
  if (typeof authority === 'string') return { kind: 'invalidate_authority', authority };
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
  return version === null || typeof version === 'string' ? { typeUrl, name, version } : undefined;
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

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
