/**
 * Entries that lost their last subscriber, and how long the cache still keeps them subscribed at the
 * source.
 *
 * A client whose stream ended may return for the same names. A client that unsubscribed does not want the
 * name, and to go on requesting it would do harm: the source may have deleted it, and some servers answer
 * no name of a request that has an unknown one (java-control-plane for ADS). So such an entry lingers
 * for `UNSUBSCRIBED_MS` only: a client may move from a name to its glob, or subscribe again soon.
 */
import { soonestOf } from '../../../authorities/index.js';

/** Why the last subscriber left. */
export type Parting = 'disconnected' | 'unsubscribed';
const PARTINGS = ['unsubscribed', 'disconnected'] as const satisfies readonly Parting[];

/** An entry that lingers no longer. */
export interface Parted<Entry> {
  readonly entry: Entry;
  /** When its last subscriber left; -Infinity: the entry was retired, and no client returns to it. */
  readonly leftMs: number;
}

/** The longest time for an entry that a client unsubscribed. */
const UNSUBSCRIBED_MS = 2_000;

export interface LingerLimits {
  /** For entries of clients whose streams ended. */
  readonly lingerMs: number;
  /**
   * Without a bound, a client could fill the memory by subscribing to random names and unsubscribing.
   */
  readonly maxEntries: number;
}

export class Lingering<Entry> {
  /** When to drop each entry; in order of time. */
  readonly #dueMs: Readonly<Record<Parting, Map<Entry, number>>> = {
    disconnected: new Map(),
    unsubscribed: new Map(),
  };
  /** Entries to which no client returns. */
  readonly #retired = new Set<Entry>();
  readonly #lingerMs: Readonly<Record<Parting, number>>;
  readonly #maxEntries: number;

  constructor({ lingerMs, maxEntries }: LingerLimits) {
    this.#lingerMs = { disconnected: lingerMs, unsubscribed: Math.min(lingerMs, UNSUBSCRIBED_MS) };
    this.#maxEntries = maxEntries;
  }

  /** @returns entries above the bound, the oldest; they linger no longer. */
  add(entry: Entry, parting: Parting, nowMs: number): readonly Parted<Entry>[] {
    this.#dueMs[parting].set(entry, nowMs + this.#lingerMs[parting]);
    return this.#dueMs.disconnected.size + this.#dueMs.unsubscribed.size > this.#maxEntries
      ? this.#takeOldest()
      : [];
  }

  /** It has a subscriber again. */
  delete(entry: Entry): void {
    const { disconnected, unsubscribed } = this.#dueMs;
    if (disconnected.size > 0) disconnected.delete(entry);
    if (unsubscribed.size > 0) unsubscribed.delete(entry);
    if (this.#retired.size > 0) this.#retired.delete(entry);
  }

  /** It lingers no longer, if it does. */
  retire(entry: Entry): void {
    const { disconnected, unsubscribed } = this.#dueMs;
    if (disconnected.delete(entry) || unsubscribed.delete(entry)) this.#retired.add(entry);
  }

  get nextMs(): number | undefined {
    if (this.#retired.size > 0) return -Infinity;
    const [disconnectedMs] = this.#dueMs.disconnected.values();
    const [unsubscribedMs] = this.#dueMs.unsubscribed.values();
    return soonestOf(disconnectedMs, unsubscribedMs);
  }

  /** @param most the rest stays for the next call */
  takeDue(nowMs: number, most: number): readonly Parted<Entry>[] {
    const taken: Parted<Entry>[] = [];
    for (const entry of this.#retired) {
      if (taken.length === most) return taken;
      this.#retired.delete(entry);
      taken.push({ entry, leftMs: -Infinity });
    }
    for (const parting of PARTINGS) {
      const entries = this.#dueMs[parting];
      for (const [entry, dueMs] of entries) {
        if (dueMs > nowMs || taken.length === most) break;
        entries.delete(entry);
        taken.push({ entry, leftMs: dueMs - this.#lingerMs[parting] });
      }
    }
    return taken;
  }

  /**
   * Takes 1 % at once. To find the first key, a Map steps over all slots of deleted keys, so taking one
   * key at a time would cost as much as the Map is large.
   */
  #takeOldest(): readonly Parted<Entry>[] {
    const count = Math.ceil(this.#maxEntries / 100);
    const taken: Parted<Entry>[] = [];
    for (const parting of PARTINGS) {
      const entries = this.#dueMs[parting];
      for (const [entry, dueMs] of entries) {
        if (taken.length === count) break;
        entries.delete(entry);
        taken.push({ entry, leftMs: dueMs - this.#lingerMs[parting] });
      }
    }
    return taken;
  }
}
