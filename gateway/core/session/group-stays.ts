/**
 * Which node group was a client in last? A client that restarts may be in another one then: with a new token, or another
 * text in its Node. Some control planes allow one stream for each node id (Kuma), and would refuse that of the
 * new group as long as the old group lingers. So a group ends at once when all of its clients are in others.
 */

/** Clients that are remembered, also after they left. A count. */
const MAX_CLIENTS = 10_000;

/** A stream of a client that is in a node group. */
export interface StayingStream {
  /** A source goes on refusing the credentials of the group. */
  handleCredentialsRefused(): void;
}

/** What keeps a node group. */
interface Group {
  /** Those that are open. */
  readonly streams: Set<StayingStream>;
  /** Number of the clients whose newest stream was in it. */
  clients: number;
}

export class GroupStays {
  readonly #onDeserted: (scope: string) => void;
  readonly #groups = new Map<string, Group>();
  /** By client: the scope of its newest stream; the client that came last is the last. */
  readonly #newest = new Map<string, string>();

  /** @param onDeserted a node group without streams, whose clients are all in other groups */
  constructor(onDeserted: (scope: string) => void) {
    this.#onDeserted = onDeserted;
  }

  /**
   * A stream of the client is in this node group.
   *
   * @param client identifies the client, whatever its node group; undefined: nothing identifies it
   * @returns call it when the stream ends
   */
  enter(client: string | undefined, scope: string, stream: StayingStream): () => void {
    this.#groupOf(scope).streams.add(stream);
    if (client !== undefined) this.#move(client, scope);
    return () => {
      this.#groupOf(scope).streams.delete(stream);
      this.#leave(scope, client !== undefined);
    };
  }

  /** A source goes on refusing the credentials of this group. */
  handleCredentialsRefused(scope: string): void {
    for (const stream of [...(this.#groups.get(scope)?.streams ?? [])]) {
      stream.handleCredentialsRefused();
    }
  }

  #move(client: string, scope: string): void {
    const before = this.#newest.get(client);
    this.#newest.delete(client);
    this.#newest.set(client, scope);
    this.#groupOf(scope).clients++;
    if (before !== undefined) {
      this.#groupOf(before).clients--;
      this.#leave(before, true);
    }
    const [oldest] = this.#newest;
    if (!oldest || this.#newest.size <= MAX_CLIENTS) return;
    this.#newest.delete(oldest[0]);
    this.#groupOf(oldest[1]).clients--;
    this.#leave(oldest[1], false);
  }

  #groupOf(scope: string): Group {
    let group = this.#groups.get(scope);
    if (!group) this.#groups.set(scope, (group = { streams: new Set(), clients: 0 }));
    return group;
  }

  /** @param isKnown the client is tracked: if this group has no clients left, it is in another one */
  #leave(scope: string, isKnown: boolean): void {
    const { streams, clients } = this.#groupOf(scope);
    if (streams.size > 0 || clients > 0) return;
    this.#groups.delete(scope);
    if (isKnown) this.#onDeserted(scope);
  }
}
