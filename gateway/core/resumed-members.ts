import { globKeyOf } from '../../protos/resource-name.js';
import type { LeftName } from './subscription.js';

/**
 * Members of collections that a resuming client says it has, or that may still be on their way to it,
 * until their collection is answered.
 */
export class ResumedMembers {
  /** By collection, then by name: the version. */
  readonly #byCollection = new Map<string, Map<string, string>>();

  /** Names left while an answer was on its way, which may bring them; by key: their collection. */
  readonly #left = new Map<string, string>();

  get count(): number {
    let count = 0;
    for (const members of this.#byCollection.values()) count += members.size;
    return count;
  }

  note(collectionKey: string, key: string, version: string): void {
    let members = this.#byCollection.get(collectionKey);
    if (!members) this.#byCollection.set(collectionKey, (members = new Map<string, string>()));
    members.set(key, version);
  }

  of(collectionKey: string): Map<string, string> | undefined {
    return this.#byCollection.get(collectionKey);
  }

  /** The collection is asked for again: all of it is to be sent, and what is gone still to be named. */
  forgetVersions(collectionKey: string): void {
    const members = this.#byCollection.get(collectionKey);
    for (const key of members?.keys() ?? []) members?.set(key, '');
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

  /** The collection is asked for now: what is still to come of the names left passes for its members. */
  takeLeft(collectionKey: string): void {
    for (const [key, collection] of this.#left) {
      if (collection === collectionKey) this.note(collectionKey, key, '');
    }
  }

  /** All that was on its way was acknowledged. */
  forgetLeft(): void {
    this.#left.clear();
  }
}
