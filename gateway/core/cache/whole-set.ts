/**
 * The members of a collection as state-of-the-world responses of listeners and clusters have them: all of them in each
 * response. They are encoded in segments, which all clients and responses share. A change encodes its own segment
 * again, and a response costs one step for each segment, not for each member.
 */
import type { Projection } from '../../../authorities/index.js';
import { wholeOf } from '../../../protos/discovery-fields.js';
import {
  bareResourceOf,
  wrappedResourceOf,
  type ResourceField,
} from '../../../protos/resource-field.js';
import { LOG_START, type ChangeLog, type Sequenced } from './change-log.js';
import { sizeInMessage } from './message-size.js';

/** A segment takes no further member above this size. Bytes. */
const SEGMENT_BYTES = 65_536;
/** The members of a smaller segment move to another one. Bytes. */
const SPARSE_BYTES = SEGMENT_BYTES / 4;

/** Some members, encoded as `resources` fields. Their order means nothing. */
export class Segment {
  readonly #members = new Map<string, Projection>();
  #bytes = 0;
  /** Undefined: a member has gone since it was computed. */
  #largest: number | undefined = 0;
  // Weak: a node group of its own for each client would double their content. Recent responses hold what they share.
  #bare: WeakRef<Buffer> | undefined;
  #wrapped: WeakRef<Buffer> | undefined;

  get size(): number {
    return this.#members.size;
  }

  get members(): Iterable<Projection> {
    return this.#members.values();
  }

  /** An upper bound for the size in a message. Bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The size of the largest member in a message. Bytes. */
  get largest(): number {
    return (this.#largest ??= Math.max(0, ...Array.from(this.#members.values(), sizeInMessage)));
  }

  get isSparse(): boolean {
    return this.#bytes < SPARSE_BYTES;
  }

  hasRoomFor(projection: Projection): boolean {
    return this.size === 0 || this.#bytes + sizeInMessage(projection) <= SEGMENT_BYTES;
  }

  add(projection: Projection): void {
    const bytes = sizeInMessage(projection);
    this.#members.set(projection.name.key, projection);
    if (this.#largest !== undefined) this.#largest = Math.max(this.#largest, bytes);
    this.#note(bytes);
  }

  /** @param key of a member */
  delete(key: string): void {
    // The cast is safe: it is a member.
    this.#note(-sizeInMessage(this.#members.get(key) as Projection));
    this.#members.delete(key);
    this.#largest = undefined;
  }

  #note(bytes: number): void {
    this.#bytes += bytes;
    this.#bare = undefined;
    this.#wrapped = undefined;
  }

  isEncoded(wraps: boolean): boolean {
    return (wraps ? this.#wrapped : this.#bare)?.deref() !== undefined;
  }

  /**
   * The same buffer until a member changes, as long as anyone holds it. A large resource, alone in its segment, is not
   * copied.
   *
   * @param wraps each member is in a `Resource` (`wrappedResourceOf`)
   */
  encoded(wraps: boolean): Buffer {
    const known = (wraps ? this.#wrapped : this.#bare)?.deref();
    if (known) return known;
    const encoded = wholeOf(
      wraps ? this.#fields().flatMap(wrappedResourceOf) : this.#fields().map(bareResourceOf),
    );
    if (wraps) this.#wrapped = new WeakRef(encoded);
    else this.#bare = new WeakRef(encoded);
    return encoded;
  }

  #fields(): readonly ResourceField[] {
    return Array.from(this.#members.values(), ({ field }) => field);
  }
}

interface Member extends Sequenced {
  readonly projection: Projection;
}

export class WholeSet {
  readonly #members: Pick<ChangeLog<Member>, 'since'>;
  /** The members up to this place in the order of change are in their segments. */
  #seq = LOG_START;
  readonly #segments = new Set<Segment>();
  readonly #segmentOf = new Map<string, Segment>();
  /** Takes the next new member, if it has room. */
  #latest: Segment | undefined;

  constructor(members: Pick<ChangeLog<Member>, 'since'>) {
    this.#members = members;
  }

  /** The segments of all members, to be used before the next change. */
  get segments(): Iterable<Segment> {
    this.#place(Infinity);
    return this.#segments;
  }

  segmentOf(key: string): Segment | undefined {
    this.#place(Infinity);
    return this.#segmentOf.get(key);
  }

  /**
   * Does a portion of the work that `segments` and `encoded` would otherwise do at once.
   *
   * @param wraps see `Segment.encoded`
   * @param most members to place or to encode, about
   * @returns whether nothing is left to do
   */
  prepare(wraps: boolean, most: number): boolean {
    let left = this.#place(most);
    for (const segment of this.#segments) {
      if (left <= 0) return false;
      if (segment.isEncoded(wraps)) continue;
      left -= segment.size;
      segment.encoded(wraps);
    }
    return left > 0;
  }

  /** The collection has lost a member. */
  delete(key: string): void {
    const segment = this.#segmentOf.get(key);
    if (!segment) return;
    this.#segmentOf.delete(key);
    segment.delete(key);
    this.#dissolveSparse(segment);
  }

  /** @returns how many more may be placed */
  #place(most: number): number {
    let left = most;
    for (const { projection, seq } of this.#members.since(this.#seq)) {
      if (left-- <= 0) break;
      this.#put(projection);
      this.#seq = seq;
    }
    return left;
  }

  #put(projection: Projection): void {
    const { key } = projection.name;
    const segment = this.#segmentOf.get(key);
    segment?.delete(key);
    if (segment?.hasRoomFor(projection)) {
      segment.add(projection);
      return;
    }
    this.#add(projection);
    if (segment) this.#dissolveSparse(segment);
  }

  #dissolveSparse(segment: Segment): void {
    if (!segment.isSparse || segment === this.#latest) return;
    this.#segments.delete(segment);
    for (const projection of segment.members) this.#add(projection);
  }

  #add(projection: Projection): void {
    let segment = this.#latest;
    if (!segment?.hasRoomFor(projection)) {
      segment = this.#latest = new Segment();
      this.#segments.add(segment);
    }
    segment.add(projection);
    this.#segmentOf.set(projection.name.key, segment);
  }
}
