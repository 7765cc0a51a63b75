import { globKeyOf, type ResourceName } from '../../../protos/resource-name.js';
import type { LeftName } from './subscription.js';

/** A member that the client holds, or may hold, though this stream did not bring it. */
export interface PossiblyHeld {
  /** Undefined: nobody knows whether the client has it; empty: in an unknown version. */
  version: string | undefined;
  /** The client says so, of an earlier stream. Otherwise this process knows it. */
  readonly isClaim: boolean;
}

type HeldMembers = Map<string, PossiblyHeld>;

/**
 * Members of collections that a resuming client says it has, that may still be on their way to it, or
 * that it asked for by name and left before the answer, until their collection is answered.
 */
export class ResumedMembers {
  readonly #byCollection = new Map<string, HeldMembers>();

  /** Names left while an answer was on its way, which may bring them; by key: their collection. */
  readonly #left = new Map<string, string>();
  /** And globs; only what was sent before, so that asking and leaving meanwhile adds nothing. */
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

  /** The collection is asked for again: all of it is to be sent, and what is gone still to be named. */
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

  /** Perhaps: it was left, or its glob was. */
  isOnItsWay(name: ResourceName): boolean {
    return this.#left.has(name.key) || this.#leftGlobs.has(globKeyOf(name));
  }

  /** The collection is asked for now: what is still to come of the names left passes for its members. */
  takeLeft(collectionKey: string): void {
    for (const [key, collection] of this.#left) {
      if (collection === collectionKey) {
        this.note(collectionKey, key, { version: '', isClaim: false });
      }
    }
  }

  /** All that was on its way was acknowledged. */
  forgetLeft(): void {
    this.#left.clear();
    this.#leftGlobs.clear();
  }
}
