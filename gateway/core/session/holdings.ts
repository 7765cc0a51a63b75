/**
 * What may a client hold, and what is due to it? `DUTIES` is the whole answer for one resource: what
 * its sources say of it × what the client holds. Both flavours use it and differ only in how they
 * carry it out: delta names a removed resource, the state of the world leaves it out.
 *
 * Most holdings need no record. A client of a glob holds the members up to a place in the order of
 * change, and a subscription to one name stores one `Held`. `PossiblyHeld` has the exceptions.
 */
import { noMap, noSet, ownMap, ownSet } from '../../../protos/empty-collections.js';
import { globKeyOf, type ResourceName } from '../../../protos/resource-name.js';
import type { Projection } from '../../../authorities/index.js';
import type { Reported } from '../cache/entries.js';

/** The client does not hold the resource, or it is to be sent whatever the client holds. */
export const NOT_HELD = { held: 'no' } as const;
/** The client may hold it, in an unknown version. */
export const MAYBE_HELD = { held: 'maybe' } as const;
/** What a client holds of one resource; a string: this version. */
export type Held = typeof NOT_HELD | typeof MAYBE_HELD | string;

/** `this`: the version that the sources have. */
export type HeldKind = 'no' | 'maybe' | 'other' | 'this';

/** `deny`: say once that it does not exist. `wait`: the client keeps what it holds. */
export type Duty = 'send' | 'remove' | 'deny' | 'wait' | 'nothing';

/** docs/SPEC.md, "What a client is sent". */
export const DUTIES: Readonly<Record<Reported, Readonly<Record<HeldKind, Duty>>>> = {
  present: { no: 'send', maybe: 'send', other: 'send', this: 'nothing' },
  restored: { no: 'send', maybe: 'send', other: 'wait', this: 'nothing' },
  absent: { no: 'deny', maybe: 'remove', other: 'remove', this: 'remove' },
  unknown: { no: 'nothing', maybe: 'wait', other: 'wait', this: 'wait' },
};

/** @param version the version that the sources have, as the client would be sent it */
export function dutyOf(wanted: Reported, held: Held, version?: string): Duty {
  return DUTIES[wanted][heldKindOf(held, version)];
}

function heldKindOf(held: Held, version: string | undefined): HeldKind {
  if (held === NOT_HELD) return 'no';
  if (held === MAYBE_HELD) return 'maybe';
  return held === version ? 'this' : 'other';
}

/** The version of the content alone: that of an assignment has a suffix, the state of its clusters. */
export function contentVersionOf(version: string): string {
  const end = version.indexOf('.');
  return end === -1 ? version : version.slice(0, end);
}

/** Does the client hold this content, whatever the suffix of its version? */
export const isVersionOf = (held: Held, { version }: Projection): boolean =>
  typeof held === 'string' && contentVersionOf(held) === version;

/** A member of a collection that the client may hold although this stream has not sent it. */
export interface PossibleMember {
  readonly held: Held;
  /** True: the client claims it from an earlier stream. False: this process knows it. */
  readonly isClaim: boolean;
}

type PossibleMembers = Map<string, PossibleMember>;

/**
 * Possibly held members, until their collection is sent:
 * - members that a resuming client claims,
 * - members that may be in flight to the client,
 * - members subscribed by name and unsubscribed before their response.
 */
export class PossiblyHeld {
  #byCollection: Map<string, PossibleMembers> = noMap();

  /**
   * Names unsubscribed while a response was in flight that may contain them; value: their
   * collection key.
   */
  #namesInFlight: Map<string, string> = noMap();
  /**
   * Globs unsubscribed in the same way. A glob is kept only if members of it were sent: otherwise a
   * client could grow this set by subscribing and unsubscribing without an ACK.
   */
  #globsInFlight: Set<string> = noSet();

  get count(): number {
    let count = 0;
    for (const members of this.#byCollection.values()) count += members.size;
    return count;
  }

  note(collectionKey: string, key: string, member: PossibleMember): void {
    const members: PossibleMembers = this.of(collectionKey) ?? new Map<string, PossibleMember>();
    members.set(key, member);
    this.#byCollection = ownMap(this.#byCollection).set(collectionKey, members);
  }

  /** The client was sent these members of a collection, whose subscription now begins anew. */
  noteSent(collectionKey: string, keys: readonly string[]): void {
    for (const key of keys) this.note(collectionKey, key, { held: MAYBE_HELD, isClaim: false });
  }

  /** May the client hold any member of this collection? */
  hasAny(collectionKey: string): boolean {
    return (this.of(collectionKey)?.size ?? 0) > 0;
  }

  of(collectionKey: string): PossibleMembers | undefined {
    return this.#byCollection.get(collectionKey);
  }

  /**
   * The client subscribes to the collection again: every member has to be resent, and removals of
   * missing members are still due.
   */
  forgetVersions(collectionKey: string): void {
    const members = this.of(collectionKey);
    for (const [key, { held, isClaim }] of members ?? []) {
      if (held !== NOT_HELD) members?.set(key, { held: MAYBE_HELD, isClaim });
    }
  }

  /** A member is subscribed by its own name: what the client gets by that name may be another version. */
  forgetVersion(collectionKey: string, key: string): void {
    const members = this.of(collectionKey);
    const member = members?.get(key);
    if (typeof member?.held === 'string') members?.set(key, { ...member, held: MAYBE_HELD });
  }

  /** The client is told that the resource is gone: whatever collection brings it again has to send it. */
  forgetMember(key: string): void {
    for (const members of this.#byCollection.values()) members.delete(key);
  }

  delete(collectionKey: string): void {
    this.#byCollection.delete(collectionKey);
  }

  /** The client unsubscribed a name that it holds, or that is in flight. */
  noteInFlight(name: ResourceName): void {
    this.#namesInFlight = ownMap(this.#namesInFlight).set(name.key, globKeyOf(name));
  }

  noteGlobInFlight(globKey: string): void {
    this.#globsInFlight = ownSet(this.#globsInFlight).add(globKey);
  }

  /**
   * May the client still receive this name? True if it, or its glob, was unsubscribed in flight.
   */
  isOnItsWay(name: ResourceName): boolean {
    if (this.#namesInFlight.size + this.#globsInFlight.size === 0) return false;
    return this.#namesInFlight.has(name.key) || this.#globsInFlight.has(globKeyOf(name));
  }

  /**
   * The client subscribes to the collection. In-flight names that were just unsubscribed count as
   * possibly held members.
   */
  notePossiblyInFlight(collectionKey: string): void {
    for (const [key, collection] of this.#namesInFlight) {
      if (collection === collectionKey) {
        this.note(collectionKey, key, { held: MAYBE_HELD, isClaim: false });
      }
    }
  }

  /** Every response is acknowledged: nothing is in flight any more. */
  forgetInFlight(): void {
    this.#namesInFlight = noMap();
    this.#globsInFlight = noSet();
  }
}
