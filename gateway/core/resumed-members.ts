import { globKeyOf, type ResourceName } from '../../protos/resource-name.js';
import type { LeftName } from './subscription.js';

/** By name the version; undefined: nobody knows whether the client has it. */
type HeldVersions = Map<string, string | undefined>;

/**
 * Members of collections that a resuming client says it has, that may still be on their way to it, or
 * that it asked for by name and left before the answer, until their collection is answered.
 */
export class ResumedMembers {
  readonly #byCollection = new Map<string, HeldVersions>();

  /** Names left while an answer was on its way, which may bring them; by key: their collection. */
  readonly #left = new Map<string, string>();
  /** And globs; only what was sent before, so that asking and leaving meanwhile adds nothing. */
  readonly #leftGlobs = new Set<string>();

  get count(): number {
    let count = 0;
    for (const members of this.#byCollection.values()) count += members.size;
    return count;
  }

  note(collectionKey: string, key: string, version: string | undefined): void {
    const members = this.of(collectionKey) ?? new Map<string, string | undefined>();
    this.#byCollection.set(collectionKey, members.set(key, version));
  }

  of(collectionKey: string): HeldVersions | undefined {
    return this.#byCollection.get(collectionKey);
  }

  /** The collection is asked for again: all of it is to be sent, and what is gone still to be named. */
  forgetVersions(collectionKey: string): void {
    const members = this.#byCollection.get(collectionKey);
    for (const [key, version] of members ?? []) {
      if (version !== undefined) members?.set(key, '');
    }
  }

  delete(collectionKey: string): void {
    this.#byCollection.delete(collectionKey);
  }

  /** @returns those of a collection, which are forgotten. */
  take(collectionKey: string): readonly string[] {
    const keys = [...(this.of(collectionKey)?.keys() ?? [])];
    this.delete(collectionKey);
    return keys;
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
      if (collection === collectionKey) this.note(collectionKey, key, '');
    }
  }

  /** All that was on its way was acknowledged. */
  forgetLeft(): void {
    this.#left.clear();
    this.#leftGlobs.clear();
  }
}
