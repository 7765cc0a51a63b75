/** Members of collections that a resuming client says it has, until their collection is answered. */
import { globKeyOf, type ResourceName } from '../../protos/resource-name.js';

export class ResumedMembers {
  /** By collection, then by name: the version. */
  readonly #byCollection = new Map<string, Map<string, string>>();

  get count(): number {
    let count = 0;
    for (const members of this.#byCollection.values()) count += members.size;
    return count;
  }

  note(name: ResourceName, version: string): void {
    const globKey = globKeyOf(name);
    let members = this.#byCollection.get(globKey);
    if (!members) this.#byCollection.set(globKey, (members = new Map<string, string>()));
    members.set(name.key, version);
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

  /**
   * Versions of members of a glob that was not asked with them are of no use.
   *
   * @param onlyListKey the one list that was asked, if it is one: its members may have any name, and
   * with two of them nothing would say whose they are
   */
  forgetUnasked(isAsked: (globKey: string) => boolean, onlyListKey: string | undefined): void {
    for (const [globKey, members] of this.#byCollection) {
      if (isAsked(globKey)) continue;
      this.#byCollection.delete(globKey);
      if (onlyListKey === undefined) continue;
      const known = this.#byCollection.get(onlyListKey) ?? [];
      this.#byCollection.set(onlyListKey, new Map([...known, ...members]));
    }
  }
}
