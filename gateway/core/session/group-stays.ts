/**
 * Which node group was a client in last? A client that restarts may be in another one then: with a new token, or another
 * text in its Node. Some control planes allow one stream for each node id (Kuma), and would refuse that of the
 * new group as long as the old group lingers. So a group ends at once when all of its clients are in others.
 */

/** Clients that are remembered, also after they left. A count. */
const MAX_CLIENTS = 10_000;

export class GroupStays {
  readonly #onDeserted: (scope: string) => void;
  /** By scope: its open streams. A count. */
  readonly #streams = new Map<string, number>();
  /** By client: the scope of its newest stream; the client that came last is the last. */
  readonly #newest = new Map<string, string>();

  /** @param onDeserted a node group without streams, whose last client is in another group */
  constructor(onDeserted: (scope: string) => void) {
    this.#onDeserted = onDeserted;
  }

  /**
   * A stream of the client is in this node group.
   *
   * @param client who it is, beside what the group depends on; undefined: it cannot be told from others
   * @returns call it when the stream ends
   */
  enter(client: string | undefined, scope: string): () => void {
    this.#streams.set(scope, (this.#streams.get(scope) ?? 0) + 1);
    if (client !== undefined) this.#move(client, scope);
    return () => {
      const left = (this.#streams.get(scope) ?? 1) - 1;
      if (left > 0) this.#streams.set(scope, left);
      else this.#streams.delete(scope);
      const newest = client === undefined ? undefined : this.#newest.get(client);
      if (left === 0 && newest !== undefined && newest !== scope) this.#onDeserted(scope);
    };
  }

  #move(client: string, scope: string): void {
    const before = this.#newest.get(client);
    this.#newest.delete(client);
    this.#newest.set(client, scope);
    const [oldest] = this.#newest.keys();
    if (oldest !== undefined && this.#newest.size > MAX_CLIENTS) this.#newest.delete(oldest);
    if (before !== undefined && before !== scope && !this.#streams.has(before)) {
      this.#onDeserted(before);
    }
  }
}
