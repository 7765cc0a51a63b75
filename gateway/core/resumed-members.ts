/** Members of collections that a resuming client says it has, until their collection is answered. */
export class ResumedMembers {
  /** By collection, then by name: the version. */
  readonly #byCollection = new Map<string, Map<string, string>>();

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
}
