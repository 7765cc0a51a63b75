/**
 * What a state-of-the-world client holds of the types that are told in parts, and only its globs ask for,
 * or that it resumes with. While the glob, or the name, is not answered, what was held of it before is in
 * no version: a response without it is no removal there (GRPC 10), and a client that then leaves it has
 * nothing to be told (GRPC 6).
 */
export class MembersUntold {
  /** By name, the request since which it is asked for as a member only; it did not come since. */
  readonly #since = new Map<string, number>();
  /** The version that was accepted since may be without them. */
  readonly #unsaid = new Set<string>();

  /** It was asked for by its name, or on another stream, until this request. */
  noteMoved(name: string, request: number): void {
    this.#since.set(name, request);
  }

  noteAsked(name: string): void {
    this.#since.delete(name);
  }

  noteArrived(name: string, readRequests: number): void {
    if (readRequests < (this.#since.get(name) ?? 0)) return;
    this.forget(name);
  }

  /** The same version is that of the same set. */
  noteAccepted(readRequests: number, isSameVersion: boolean): void {
    for (const [name, request] of this.#since) {
      if (readRequests < request) continue;
      this.#since.delete(name);
      if (!isSameVersion) this.#unsaid.add(name);
    }
  }

  /** @returns the first request after which the version may be without it; undefined: it may be now. */
  leave(name: string, request: number): number | undefined {
    const since = this.#unsaid.has(name) ? undefined : (this.#since.get(name) ?? request);
    this.forget(name);
    return since;
  }

  forget(name: string): void {
    this.#since.delete(name);
    this.#unsaid.delete(name);
  }

  clear(): void {
    this.#since.clear();
    this.#unsaid.clear();
  }
}
