import { globKeyOf, type ResourceName } from '../../../protos/resource-name.js';
import type { LeftName } from './subscription.js';

/** A member that the client holds or may hold, although this stream has not sent it. */
export interface PossiblyHeld {
  /** Undefined: unknown whether the client has it. Empty: it has an unknown version. */
  version: string | undefined;
  /** True: the client claims it from an earlier stream. False: this process knows it. */
  readonly isClaim: boolean;
}

type HeldMembers = Map<string, PossiblyHeld>;

/**
 * Possibly held members, until their collection is sent:
 * - members that a resuming client claims,
 * - members that may be in flight to the client,
 * - members subscribed by name and unsubscribed before their response.
 */
export class ResumedMembers {
  readonly #byCollection = new Map<string, HeldMembers>();

  /**
   * Names unsubscribed while a response was in flight that may contain them; value: their
   * collection key.
   */
  readonly #left = new Map<string, string>();
  /**
   * Globs unsubscribed in the same way. A glob is kept only if members of it were sent: otherwise a
   * client could grow this set by subscribing and unsubscribing without an ACK.
   */
  readonly #leftGlobs = new Set<string>();

  get count(): number {
    let count = 0;
    for (const members of this.#byCollection.values()) count += members.size;
    return count;
  }

  note(collectionKey: string, key: string, held: PossiblyHeld): void {
    const members: HeldMembers = this.of(collectionKey) ?? new Map<string, PossiblyHeld>();
    this.#byCollection.set(collectionKey, members.set(key, held));
  }

  of(collectionKey: string): HeldMembers | undefined {
    return this.#byCollection.get(collectionKey);
  }

  /**
   * The client subscribes to the collection again: every member has to be resent, and removals of
   * missing members are still due.
   */
  forgetVersions(collectionKey: string): void {
    for (const held of this.of(collectionKey)?.values() ?? []) {
      if (held.version !== undefined) held.version = '';
    }
  }

  delete(collectionKey: string): void {
    this.#byCollection.delete(collectionKey);
  }

  noteLeft({ name, isHeld }: LeftName): void {
    if (isHeld) this.#left.set(name.key, globKeyOf(name));
  }

  noteGlobLeft(globKey: string): void {
    this.#leftGlobs.add(globKey);
  }

  /**
   * May the client still receive this name? True if it, or its glob, was unsubscribed in flight.
   */
  isOnItsWay(name: ResourceName): boolean {
    return this.#left.has(name.key) || this.#leftGlobs.has(globKeyOf(name));
  }

  /**
   * The client subscribes to the collection. In-flight names that were just unsubscribed count as
   * possibly held members.
   */
  takeLeft(collectionKey: string): void {
    for (const [key, collection] of this.#left) {
      if (collection === collectionKey) {
        this.note(collectionKey, key, { version: '', isClaim: false });
      }
    }
  }

  /** Every response is acknowledged: nothing is in flight any more. */
  forgetLeft(): void {
    this.#left.clear();
    this.#leftGlobs.clear();
  }
}
