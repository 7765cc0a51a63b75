/** Mutations of protobuf bytes: most leave a valid message with one thing broken. */
import type { Random } from '../sim/random.js';
import { concat, fieldBytes, spansOf, splice, varint, WIRE, type Span } from './wire.js';

const bytesOf = (...values: readonly number[]): Uint8Array => Uint8Array.from(values);
const NOTHING = new Uint8Array(0);

/**
 * Ends of ranges, and lengths that lie. Among the last ones are 2^31 - 1, 2^32 - 1, 2^63 - 1,
 * 2^64 - 1 and an overlong varint.
 */
const ODD_VARINTS: readonly Uint8Array[] = [
  bytesOf(0),
  bytesOf(1),
  bytesOf(0x7f),
  bytesOf(0x80, 0x01),
  bytesOf(0x80, 0x00),
  bytesOf(0x81, 0x80, 0x80, 0x00),
  bytesOf(0xff, 0xff, 0x03),
  bytesOf(0xff, 0xff, 0xff, 0xff, 0x07),
  bytesOf(0x80, 0x80, 0x80, 0x80, 0x08),
  bytesOf(0xff, 0xff, 0xff, 0xff, 0x0f),
  bytesOf(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f),
  bytesOf(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01),
  bytesOf(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01),
  bytesOf(0xff),
];

const BAD_UTF8: readonly Uint8Array[] = [
  bytesOf(0xff),
  bytesOf(0xc0, 0xaf),
  bytesOf(0xe2, 0x82),
  bytesOf(0xed, 0xa0, 0x80),
  bytesOf(0xf5, 0x80, 0x80, 0x80),
  bytesOf(0xef, 0xbb, 0xbf),
  bytesOf(0x00),
];

/** The input of a mutation. */
interface Draft {
  readonly bytes: Uint8Array;
  readonly spans: readonly Span[];
  readonly random: Random;
  readonly source: WireSource;
}

export interface WireSource {
  readonly seeds: readonly Uint8Array[];
  /** Texts and payloads with a meaning for the reader. */
  readonly words: readonly Uint8Array[];
}

type Change = (draft: Draft, span: Span) => Uint8Array;

/** Replaces the field itself. */
const replaceField = ({ bytes, spans }: Draft, span: Span, field: Uint8Array): Uint8Array =>
  splice(bytes, spans, span.parent, span.start, span.end, field);

const replaceValue = (draft: Draft, span: Span, value: Uint8Array): Uint8Array =>
  replaceField(draft, span, retagged(draft, span, value));

function retagged({ bytes }: Draft, span: Span, value: Uint8Array): Uint8Array {
  const tag = bytes.subarray(span.start, span.tagEnd);
  if (span.wire !== WIRE.bytes) return concat(tag, value);
  return concat(tag, Uint8Array.from(varint(value.length)), value);
}

const whole = ({ bytes }: Draft, span: Span): Uint8Array => bytes.subarray(span.start, span.end);
const valueOf = ({ bytes }: Draft, span: Span): Uint8Array =>
  bytes.subarray(span.valueStart, span.end);

/** Mostly a few; sometimes so many that quadratic code shows. */
function howMany(random: Random): number {
  const dice = random.below(40_000);
  if (dice === 0) return 100_000;
  if (dice < 40) return random.between(200, 2_000);
  return random.between(2, 12);
}

function repeat(piece: Uint8Array, times: number): Uint8Array {
  const most = Math.max(1, Math.min(times, Math.floor(1_000_000 / Math.max(1, piece.length))));
  const out = Buffer.allocUnsafe(piece.length * most);
  for (let at = 0; at < out.length; at += piece.length) out.set(piece, at);
  return out;
}

function bitFlipped(bytes: Uint8Array, random: Random): Uint8Array {
  const out = Buffer.from(bytes);
  for (let flips = random.between(1, 3); flips > 0 && out.length > 0; flips--) {
    const at = random.below(out.length);
    out[at] = out[at]! ^ (1 << random.below(8));
  }
  return out;
}

function otherField({ random, source }: Draft): Uint8Array {
  const seed = random.pick(source.seeds);
  const spans = seedSpans(seed);
  if (spans.length === 0) return seed;
  const span = random.pick(spans);
  return seed.subarray(span.start, span.end);
}

function nested(draft: Draft, span: Span): Uint8Array {
  const depth = draft.random.chance(0.002) ? 2_000 : draft.random.between(1, 12);
  let value = whole(draft, span);
  for (let level = 0; level < depth && value.length < 200_000; level++) {
    value = fieldBytes(span.number, value);
  }
  return replaceField(draft, span, value);
}

/**
 * Puts an enclosing message in place of the field: a message inside itself, as deep as readers go.
 */
function inItself(draft: Draft, span: Span): Uint8Array {
  const { bytes, spans, random } = draft;
  const ancestors: Span[] = [];
  for (let at = span.parent; at !== -1; at = spans[at]!.parent) ancestors.push(spans[at]!);
  if (ancestors.length === 0) return nested(draft, span);
  const outer = random.pick(ancestors);
  const depth = random.chance(0.0005) ? 8_000 : random.between(1, 8);
  // The tags on the way down; lengths are recomputed.
  const way = [outer, ...ancestors.slice(0, ancestors.indexOf(outer)).reverse()];
  const tags = way.reverse().map(({ start, tagEnd }) => bytes.subarray(start, tagEnd));
  let value = whole(draft, span);
  const parts: Uint8Array[] = [value];
  let { length } = value;
  for (let level = 0; level < depth && length < 300_000; level++) {
    for (const tag of tags) {
      const head = concat(tag, Uint8Array.from(varint(length)));
      parts.push(head);
      length += head.length;
    }
  }
  value = concat(...parts.reverse());
  return replaceField(draft, outer, value);
}

function groups({ random }: Draft): Uint8Array {
  const depth = random.chance(0.003) ? 20_000 : random.between(1, 5);
  const number = random.between(1, 15);
  const open = repeat(bytesOf(number * 8 + 3), depth);
  const close = repeat(bytesOf(number * 8 + 4), depth - (random.chance(0.3) ? 1 : 0));
  return depth === 1 && close.length === 0 ? open : concat(open, close);
}

/** Beside the field, or at the other end of its message. */
function insertAt(draft: Draft, span: Span, field: Uint8Array): Uint8Array {
  const { bytes, spans, random } = draft;
  const parent = spans[span.parent];
  const [first, last] = parent ? [parent.valueStart, parent.end] : [0, bytes.length];
  const at = random.pick([span.start, span.end, first, last]);
  return splice(bytes, spans, span.parent, at, at, field);
}

/** One text or payload with a meaning, or several. */
const aWord = ({ random, source }: Draft): Uint8Array => random.pick(source.words);

const CHANGES: readonly Change[] = [
  (draft, span) => replaceField(draft, span, NOTHING),
  (draft, span) => insertAt(draft, span, whole(draft, span)),
  (draft, span) => replaceField(draft, span, repeat(whole(draft, span), howMany(draft.random))),
  (draft, span) => insertAt(draft, span, otherField(draft)),
  (draft, span) => replaceField(draft, span, otherField(draft)),
  (draft, span) => insertAt(draft, span, groups(draft)),
  nested,
  inItself,
  // Another number or wire type.
  (draft, span) => {
    const number = Math.max(0, span.number + draft.random.between(-2, 2));
    const tag = Uint8Array.from(varint(number * 8 + span.wire));
    return replaceField(draft, span, concat(tag, draft.bytes.subarray(span.tagEnd, span.end)));
  },
  (draft, span) => {
    const tag = Uint8Array.from(varint(span.number * 8 + draft.random.below(8)));
    return replaceField(draft, span, concat(tag, draft.bytes.subarray(span.tagEnd, span.end)));
  },
  // An odd number, or a length that lies, with correct lengths around it.
  (draft, span) => {
    const tag = draft.bytes.subarray(span.start, span.tagEnd);
    const odd = draft.random.pick(ODD_VARINTS);
    const rest = span.wire === WIRE.bytes ? valueOf(draft, span) : NOTHING;
    return replaceField(draft, span, concat(tag, odd, rest));
  },
  (draft, span) => {
    const { bytes } = draft;
    const tag = bytes.subarray(span.start, span.tagEnd - 1);
    const last = bytes[span.tagEnd - 1]! | 0x80;
    const zeros = repeat(bytesOf(0x80), draft.random.between(1, 9));
    const long = concat(tag, bytesOf(last), zeros, bytesOf(0));
    return replaceField(draft, span, concat(long, bytes.subarray(span.tagEnd, span.end)));
  },
  // Values.
  (draft, span) => replaceValue(draft, span, aWord(draft)),
  (draft, span) => replaceValue(draft, span, aWord(draft)),
  (draft, span) => replaceValue(draft, span, concat(valueOf(draft, span), aWord(draft))),
  (draft, span) => replaceValue(draft, span, bitFlipped(valueOf(draft, span), draft.random)),
  (draft, span) => replaceValue(draft, span, NOTHING),
  (draft, span) => {
    const value = valueOf(draft, span);
    const at = draft.random.below(value.length + 1);
    const bad = draft.random.pick(BAD_UTF8);
    return replaceValue(draft, span, concat(value.subarray(0, at), bad, value.subarray(at)));
  },
  (draft, span) => {
    const value = valueOf(draft, span);
    const piece = value.length === 0 ? bytesOf(0x61) : value;
    return replaceValue(draft, span, repeat(piece, howMany(draft.random)));
  },
  (draft, span) => {
    const end = span.valueStart + draft.random.below(span.end - span.valueStart + 1);
    return replaceValue(draft, span, draft.bytes.subarray(span.valueStart, end));
  },
];

/** Changes bytes without regard to fields. */
function roughly({ bytes, random, source }: Draft): Uint8Array {
  const at = random.below(bytes.length + 1);
  const to = Math.min(bytes.length, at + random.between(1, 8));
  switch (random.below(7)) {
    case 0:
      return bytes.subarray(0, at);
    case 1:
      return bytes.subarray(at);
    case 2: {
      const other = random.pick(source.seeds);
      return concat(bytes.subarray(0, at), other.subarray(random.below(other.length + 1)));
    }
    case 3:
      return concat(bytes.subarray(0, at), bytes.subarray(to));
    case 4: {
      const some = Array.from({ length: random.between(1, 8) }, () => random.below(256));
      return concat(bytes.subarray(0, at), Uint8Array.from(some), bytes.subarray(at));
    }
    case 5:
      return concat(bytes, random.pick(source.seeds));
    default:
      return bitFlipped(bytes, random);
  }
}

const spansOfSeeds = new WeakMap<Uint8Array, readonly Span[]>();

function seedSpans(seed: Uint8Array): readonly Span[] {
  let spans = spansOfSeeds.get(seed);
  if (!spans) spansOfSeeds.set(seed, (spans = spansOf(seed)));
  return spans;
}

/**
 * Derives a message from a seed by one to three changes.
 *
 * @param rough the share of changes without regard to fields; most of these make the message
 *   unreadable
 */
export function mutateWire(random: Random, source: WireSource, rough: number): Uint8Array {
  let bytes = random.pick(source.seeds);
  const changes = random.chance(0.6) ? 1 : random.between(2, 3);
  for (let done = 0; done < changes && bytes.length < 5_000; done++) {
    const spans = random.chance(rough) ? [] : done === 0 ? seedSpans(bytes) : spansOf(bytes);
    const draft = { bytes, spans, random, source };
    if (spans.length === 0) {
      bytes = roughly(draft);
      continue;
    }
    bytes = random.pick(CHANGES)(draft, random.pick(spans));
  }
  return bytes;
}
