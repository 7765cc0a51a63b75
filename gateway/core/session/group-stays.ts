/**
 * Which node group was a client in last? A client that restarts may be in another one then: with a new token, or another
 * text in its Node. Some control planes allow one stream for each node id (Kuma), and would refuse that of the
 * new group as long as the old group lingers. So a group ends at once when all of its clients are in others.
 */

/** Clients that are remembered, also after they left. A count. */
const MAX_CLIENTS = 10_000;

export class GroupStays {
  readonly #onDeserted: (scope: string) => void;
  /** By scope, for those with open streams: their number. */
  readonly #streams = new Map<string, { count: number }>();
  /** By client: the scope of its newest stream; the client that came last is the last. */
  readonly #newest = new Map<string, string>();

  /** @param onDeserted a node group without streams, whose last client is in another group */
  constructor(onDeserted: (scope: string) => void) {
    this.#onDeserted = onDeserted;
  }

  /**
   * A stream of the client is in this node group.
   *
   * @param client tells it from other clients, whatever group it is in; undefined: nothing does
   * @returns call it when the stream ends
   */
  enter(client: string | undefined, scope: string): () => void {
    const streams = this.#streams.get(scope) ?? { count: 0 };
    this.#streams.set(scope, streams);
    streams.count++;
    if (client !== undefined) this.#move(client, scope);
    return () => {
      if (--streams.count > 0) return;
      this.#streams.delete(scope);
      const newest = client === undefined ? undefined : this.#newest.get(client);
      if (newest !== undefined && newest !== scope) this.#onDeserted(scope);
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
