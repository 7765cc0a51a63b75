/** The last switches of all groups, in memory, so that an operator sees afterwards why clients moved. */

export interface Switch {
  /** Milliseconds, monotonic. */
  readonly atMs: number;
  readonly authority: string;
  /** Id of the failover group. */
  readonly group: string;
  readonly direction: 'failover' | 'failback';
  /** The cause of the state in which the group switched. */
  readonly reason: string;
  /** Names of the sources. */
  readonly from: string;
  readonly to: string;
  /** Number of names whose content changed for clients, and of names whose content stayed. */
  readonly changed: number;
  readonly kept: number;
  /** Failover: time from the loss of the source to the switch. Absent: the source was not lost. */
  readonly sinceLossMs?: number;
  /** Failover: how the lost source ended. */
  readonly detail?: string;
  /** Failback: time since the group left its primary. */
  readonly awayMs?: number;
}

/** Old-style names make a group for each node group: all of them switch at once. */
const KEPT_SWITCHES = 500;

export class Switches {
  /** Oldest first. */
  readonly #kept: Switch[] = [];
  readonly #listeners = new Set<() => void>();

  add(one: Switch): void {
    this.#kept.push(one);
    if (this.#kept.length > KEPT_SWITCHES) this.#kept.shift();
    for (const listener of this.#listeners) listener();
  }

  /** Newest first. */
  latest(count: number): readonly Switch[] {
    return this.#kept.slice(-count).reverse();
  }

  /** Oldest first. */
  of(authority: string): readonly Switch[] {
    return this.#kept.filter((one) => one.authority === authority);
  }

  /**
   * @param listener must not throw; called within the event of the group
   * @returns ends it
   */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
