/**
 * Held resources that no version of the stream may contain, for the types that are sent in parts:
 * names that only a glob of the client covers, or that it resumed with. Until the glob or name is
 * answered, a response without them removes nothing (GRPC 10), and when the client then
 * unsubscribes, the gateway has nothing to remove (GRPC 6).
 */
export class MembersUntold {
  /** By name: the request since which only a glob covers it. It has not been sent since. */
  readonly #since = new Map<string, number>();
  /** Names that the accepted version may lack. */
  readonly #unsaid = new Set<string>();

  /** The name was subscribed itself, or on another stream, until this request. */
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

  /** An unchanged version means an unchanged set. */
  noteAccepted(readRequests: number, isSameVersion: boolean): void {
    for (const [name, request] of this.#since) {
      if (readRequests < request) continue;
      this.#since.delete(name);
      if (!isSameVersion) this.#unsaid.add(name);
    }
  }

  /**
   * @returns the first request after which the version may lack it; undefined: it may lack it now.
   */
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
