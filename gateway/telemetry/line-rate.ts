/** Limits how many log lines one peer may cause in a second. */

const SECOND_MS = 1_000;

export class LineRate {
  readonly #mostPerSecond: number;
  /** Of the current second, by peer: so its size is bounded by the events of one second. */
  readonly #lines = new Map<string, number>();
  #second = Number.NEGATIVE_INFINITY;

  constructor(mostPerSecond: number) {
    this.#mostPerSecond = mostPerSecond;
  }

  /** Whether this peer may cause no further line in this second. */
  isSpent(peer: string, nowMs: number): boolean {
    const second = Math.floor(nowMs / SECOND_MS);
    if (second !== this.#second) this.#lines.clear();
    this.#second = second;
    return (this.#lines.get(peer) ?? 0) >= this.#mostPerSecond;
  }

  /** @returns whether one more line about this peer may be written now; it then counts. */
  take(peer: string, nowMs: number): boolean {
    if (this.isSpent(peer, nowMs)) return false;
    this.#lines.set(peer, (this.#lines.get(peer) ?? 0) + 1);
    return true;
  }
}

/** The host of `host:port`: a client with many connections is one peer. */
export const hostOf = (peer: string): string => {
  const colon = peer.lastIndexOf(':');
  return colon === -1 ? peer : peer.slice(0, colon);
};
