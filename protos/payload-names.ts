/**
 * Rewrites the names inside payloads: a resource's own name, and its references to other resources.
 *
 * Clients compare the own name with the requested name byte for byte, and look up references byte for
 * byte. So both must match when the gateway serves a resource under another name than its source's.
 * Works on the serialized message: all bytes outside names stay the same.
 */
import { isUtf8 } from 'node:buffer';
import {
  anyShapes,
  clusterType,
  otherNamedTypes,
  ownNameTypes,
  payloadShapes,
} from './payload-name-table.js';
import type { FieldRule, Shape } from './payload-name-table.js';
import { encodeVarint, FieldCursor, wireType } from './protobuf-fields.js';
import { canonicalPrefixOf } from './resource-name-parser.js';
import { escapedInId, isPlain } from './resource-name-text.js';
import { messageOf } from './type-urls.js';

/** The new names. */
export interface NameRewrite {
  /** `null` leaves the own name as it is. */
  readonly ownName: string | null;
  /**
   * The new text of a reference, or the same text.
   * @param text begins with `xdstp:`; old-style references stay and are never passed
   * @param resourceType the message name of the referenced resource
   */
  reference(text: string, resourceType: string): string;
  /** `reference` leaves each canonical name without parameters and directives as it is, and need not be asked for it. */
  readonly keepsCanonical?: boolean;
}

export interface RewrittenPayload {
  /** The same object that was passed in if nothing changed. */
  readonly value: Uint8Array;
  /**
   * The own name after rewriting; `''` if the field is absent; undefined for types without an own
   * name.
   */
  readonly ownName: string | undefined;
  /**
   * For clusters of type EDS: the name of the ClusterLoadAssignment after rewriting. Without a
   * `service_name`, it is the cluster's own name.
   */
  readonly edsName: string | undefined;
}

export interface PayloadError {
  readonly code: 'malformed' | 'too-deep' | 'too-many';
  readonly message: string;
}

export type PayloadResult =
  | { readonly ok: true; readonly value: RewrittenPayload }
  | { readonly ok: false; readonly error: PayloadError };

const maxDepth = 100;
/** The most TP1 names in one payload, beside its own: they are read at once, each in 2 µs. A count. */
const MAX_REFERENCES = 10_000;
const scheme = Buffer.from('xdstp:');
const noFields: Shape = new Map();
const NOWHERE: Span = { start: -1, end: -1 };
const NO_BYTES = new Uint8Array(0);

/**
 * Rewrites the names in a resource.
 * @param typeUrl of the resource's Any; resources of a type outside the table pass unchanged
 * @param value the serialized message (the value of the Any); not modified
 * @returns an error for invalid bytes, or too many names. Parts without a TP1 name are not checked.
 */
export function rewritePayloadNames(
  typeUrl: string,
  value: Uint8Array,
  rewrite: NameRewrite,
): PayloadResult {
  const type = messageOf(typeUrl);
  const shape = payloadShapes.get(type) ?? noFields;
  const hasOwnName = ownNameTypes.has(type);
  if (!hasOwnName && shape === noFields) {
    return { ok: true, value: { value, ownName: undefined, edsName: undefined } };
  }
  const own = hasOwnName ? spanOfField(value, 1) : undefined;
  const before =
    own && (expectedAt(value, own, rewrite.ownName) ?? textAt(value, own.start, own.end));
  if (hasOwnName && before === undefined) {
    return { ok: false, error: { code: 'malformed', message: `malformed ${type}` } };
  }
  const ownName = before === undefined ? undefined : (rewrite.ownName ?? before);
  const walk = new NameWalk(value, rewrite);
  const renamed = ownName === before ? undefined : ownName;
  if (renamed === undefined && !walk.hasNameBeside(own)) return finished(type, value, ownName);
  const changed = walk.message(0, value.length, shape, 0, renamed);
  if (walk.error !== undefined) {
    return { ok: false, error: { code: walk.error, message: MESSAGES[walk.error](type) } };
  }
  return finished(type, changed ?? value, ownName);
}

/**
 * The names by which a resource refers to resources of one type, in any spelling. Names of inline
 * resources count too. A cluster without a `service_name` refers to endpoints by its own name, which is
 * not among them.
 *
 * @param typeUrl of the resource's Any; resources of a type outside the table refer to nothing
 * @param value the serialized message (the value of the Any)
 * @param referredTypeUrl the type of the referenced resources
 * @returns the names; of malformed bytes, those before the mistake
 */
export function referencesIn(
  typeUrl: string,
  value: Uint8Array,
  referredTypeUrl: string,
): ReadonlySet<string> {
  const names = new Set<string>();
  const referredType = messageOf(referredTypeUrl);
  const note: NameRewrite = {
    ownName: null,
    reference: (text, resourceType) => {
      if (resourceType === referredType && text !== '') names.add(text);
      return text;
    },
  };
  const shape = payloadShapes.get(messageOf(typeUrl)) ?? noFields;
  new NameWalk(value, note, true).message(0, value.length, shape, 0);
  return names;
}

const MESSAGES: Readonly<Record<PayloadError['code'], (type: string) => string>> = {
  malformed: (type) => `malformed ${type}`,
  'too-deep': (type) => `too deeply nested ${type}`,
  'too-many': (type) => `more than ${MAX_REFERENCES} references to other resources in one ${type}`,
};

function finished(type: string, value: Uint8Array, ownName: string | undefined): PayloadResult {
  const edsName =
    type === clusterType && ownName !== undefined ? edsNameOf(value, ownName) : undefined;
  return { ok: true, value: { value, ownName, edsName } };
}

/**
 * The own name in a serialized resource: `''` if the field is absent, undefined for types without an own
 * name and for malformed bytes.
 */
export function ownNameOf(typeUrl: string, value: Uint8Array): string | undefined {
  const type = messageOf(typeUrl);
  const hasName = ownNameTypes.has(type) || otherNamedTypes.has(type);
  return hasName ? textOfField(value, 1) : undefined;
}

/** A string field of a whole message: `''` if it is absent, undefined if the bytes are malformed. */
function textOfField(message: Uint8Array, number: number): string | undefined {
  const span = spanOfField(message, number);
  return span && textAt(message, span.start, span.end);
}

interface Span {
  readonly start: number;
  readonly end: number;
}

/**
 * Where the value of a field is in a whole message. The last occurrence counts, as in every protobuf
 * reader.
 *
 * @returns an empty span if the field is absent, undefined if the bytes are malformed
 */
function spanOfField(message: Uint8Array, number: number): Span | undefined {
  const cursor = new FieldCursor(message, 0, message.length);
  let [start, end] = [0, 0];
  while (cursor.next()) {
    if (cursor.number !== number || cursor.wire !== wireType.bytes) continue;
    start = cursor.valueStart;
    end = cursor.valueEnd;
  }
  return cursor.malformed ? undefined : { start, end };
}

/** @returns this text if it is there, spelled in ASCII: nearly every own name is the expected one. Undefined: read what is there */
function expectedAt(
  bytes: Uint8Array,
  { start, end }: Span,
  text: string | null,
): string | undefined {
  if (text?.length !== end - start) return undefined;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code > 0x7f || code !== bytes[start + at]) return undefined;
  }
  return text;
}

function textAt(bytes: Uint8Array, start: number, end: number): string | undefined {
  const text = bytes.subarray(start, end);
  return isUtf8(text)
    ? Buffer.from(text.buffer, text.byteOffset, text.length).toString('utf8')
    : undefined;
}

function edsNameOf(value: Uint8Array, ownName: string): string | undefined {
  const cursor = new FieldCursor(value, 0, value.length);
  let isEds = false;
  let serviceName = '';
  while (cursor.next()) {
    if (cursor.number === 2 && cursor.wire === wireType.varint) {
      isEds = cursor.varint === 3;
    } else if (cursor.number === 3 && cursor.wire === wireType.bytes) {
      const config = value.subarray(cursor.valueStart, cursor.valueEnd);
      serviceName = textOfField(config, 2) || serviceName;
    }
  }
  return isEds ? serviceName || ownName : undefined;
}

/** The current message of the walk. */
interface Frame {
  readonly start: number;
  readonly end: number;
  readonly depth: number;
  /** Made when it is needed, which is rare. */
  hasField?: Map<number, boolean>;
}

/** One pass over one payload. */
class NameWalk {
  error: PayloadError['code'] | undefined;
  readonly #bytes: Uint8Array;
  readonly #buffer: Buffer;
  readonly #rewrite: NameRewrite;
  readonly #isEveryText: boolean;
  #nextName = -1;
  #references = 0;
  /** Of the last reference that was read. The next one mostly has the same. */
  #prefix = '';
  #prefixBytes: Uint8Array = NO_BYTES;

  /** @param isEveryText passes old-style references too */
  constructor(bytes: Uint8Array, rewrite: NameRewrite, isEveryText = false) {
    this.#bytes = bytes;
    this.#isEveryText = isEveryText;
    this.#buffer = Buffer.isBuffer(bytes)
      ? bytes
      : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    this.#rewrite = rewrite;
  }

  /**
   * The offset of the next `xdstp:` at or after `at`. The walk skips subtrees that end before it. Since
   * the walk only moves forward, all its searches together read the payload once.
   */
  nextName(at: number): number {
    if (this.#nextName < at) {
      const found = this.#buffer.indexOf(scheme, at);
      this.#nextName = found < 0 ? Infinity : found;
    }
    return this.#nextName;
  }

  /** May the payload have an `xdstp:` name outside its own name? @param own where its own name is; undefined: it has none */
  hasNameBeside({ start, end }: Span = NOWHERE): boolean {
    const first = this.nextName(0);
    return first !== Infinity && (first !== start || this.nextName(end) !== Infinity);
  }

  /**
   * @param ownName the new text of field 1; undefined: unchanged
   * @returns the new message, or undefined if nothing in it changes
   */
  message(
    start: number,
    end: number,
    shape: Shape,
    depth: number,
    ownName?: string,
  ): Uint8Array | undefined {
    if (depth > maxDepth) {
      this.error = 'too-deep';
      return undefined;
    }
    const cursor = new FieldCursor(this.#bytes, start, end);
    const frame: Frame = { start, end, depth };
    const parts: Uint8Array[] = [];
    let copied = start;
    let named = false;
    while (this.error === undefined && cursor.next()) {
      const isOwnName =
        ownName !== undefined && cursor.number === 1 && cursor.wire === wireType.bytes;
      named ||= isOwnName;
      const changed = isOwnName
        ? Buffer.from(ownName)
        : this.#field(cursor, shape.get(cursor.number), frame);
      if (changed !== undefined) {
        const before = this.#bytes.subarray(copied, cursor.tagEnd);
        parts.push(before, encodeVarint(changed.length), changed);
        copied = cursor.valueEnd;
      }
    }
    if (cursor.malformed) {
      this.error = 'malformed';
    }
    if (ownName !== undefined && !named) {
      const text = Buffer.from(ownName);
      parts.unshift(Uint8Array.of(0x0a), encodeVarint(text.length), text);
    }
    if (this.error !== undefined || parts.length === 0) {
      return undefined;
    }
    parts.push(this.#bytes.subarray(copied, end));
    return Buffer.concat(parts);
  }

  #field(cursor: FieldCursor, rule: FieldRule | undefined, frame: Frame): Uint8Array | undefined {
    const { valueStart, valueEnd } = cursor;
    if (
      rule === undefined ||
      cursor.wire !== wireType.bytes ||
      !this.#mayHaveName(valueStart, valueEnd)
    ) {
      return undefined;
    }
    switch (rule.kind) {
      case 'message':
        return this.message(valueStart, valueEnd, rule.shape, frame.depth + 1);
      case 'any': {
        const shape = this.#anyShape(valueStart, valueEnd);
        return shape && this.message(valueStart, valueEnd, shape, frame.depth + 1);
      }
      case 'reference': {
        const applies =
          (this.#isEveryText || this.nextName(valueStart) === valueStart) &&
          (rule.onlyWith === undefined || this.#has(frame, rule.onlyWith));
        return applies ? this.#reference(valueStart, valueEnd, rule.resourceType) : undefined;
      }
    }
  }

  #mayHaveName(start: number, end: number): boolean {
    return this.#isEveryText || this.nextName(start) + scheme.length <= end;
  }

  #reference(start: number, end: number, resourceType: string): Uint8Array | undefined {
    if (!this.#isEveryText && ++this.#references > MAX_REFERENCES) {
      this.error = 'too-many';
      return undefined;
    }
    const { keepsCanonical = false } = this.#rewrite;
    if (keepsCanonical && this.#isCanonical(start, end)) return undefined;
    const text = textAt(this.#bytes, start, end);
    if (text === undefined) {
      this.error = 'malformed';
      return undefined;
    }
    if (keepsCanonical) this.#notePrefix(text);
    const changed = this.#rewrite.reference(text, resourceType);
    return changed === text ? undefined : Buffer.from(changed);
  }

  #notePrefix(text: string): void {
    const prefix = canonicalPrefixOf(text);
    if (prefix === undefined || prefix === this.#prefix) return;
    this.#prefix = prefix;
    this.#prefixBytes = Buffer.from(prefix);
  }

  /** By its bytes: to parse 10,000 names takes 50 ms before V8 has compiled the parser. */
  #isCanonical(start: number, end: number): boolean {
    const prefix = this.#prefixBytes;
    const idStart = start + prefix.length;
    if (prefix.length === 0 || idStart >= end) return false;
    for (let at = 0; at < prefix.length; at++) {
      if (this.#bytes[start + at] !== prefix[at]) return false;
    }
    for (let at = idStart; at < end; at++) {
      if (!isPlain(this.#buffer.readUInt8(at), escapedInId)) return false;
    }
    return true;
  }

  /**
   * Whether the message has this field. Cached: otherwise a message with many names would take
   * quadratic time.
   */
  #has(frame: Frame, number: number): boolean {
    const hasField = (frame.hasField ??= new Map<number, boolean>());
    let found = hasField.get(number);
    if (found === undefined) {
      found = false;
      const cursor = new FieldCursor(this.#bytes, frame.start, frame.end);
      while (cursor.next()) {
        found ||= cursor.number === number;
      }
      hasField.set(number, found);
    }
    return found;
  }

  #anyShape(start: number, end: number): Shape | undefined {
    const typeUrl = textOfField(this.#bytes.subarray(start, end), 1);
    if (typeUrl === undefined) {
      this.error = 'malformed';
    }
    return typeUrl === undefined ? undefined : anyShapes.get(messageOf(typeUrl));
  }
}
