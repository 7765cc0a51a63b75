/**
 * The pace at which the streams of many node groups start at one source: a bounded number at once, and
 * the others in order. Streams that were live before go first, since their clients hold content that may
 * be outdated. Bulk machine without IO.
 */

/** Streams of one source that may start at once. It takes a control plane a few round trips for each. */
const MAX_STARTING = 100;
/**
 * A stream counts as starting until its first response, but no longer than this: a source owes no response
 * to a stream that resumes with current versions, and a source that hangs must be noticed by all groups.
 * So at least 400 streams start each second. Milliseconds.
 */
const COUNTS_FOR_MS = 250;

export class StartPace<T> {
  /** When each began, in that order. */
  readonly #startingSinceMs = new Map<T, number>();
  readonly #known = new Set<T>();
  readonly #fresh = new Set<T>();

  /**
   * A stream wants to start. If it may not, it is queued, and `takeAdmitted` returns it in its turn.
   *
   * @param isKnown it was live before
   */
  admit(one: T, isKnown: boolean, nowMs: number): boolean {
    if (!this.hasQueue && this.#hasRoom(nowMs)) {
      this.#startingSinceMs.set(one, nowMs);
      return true;
    }
    (isKnown ? this.#known : this.#fresh).add(one);
    return false;
  }

  /** It has started, failed, or is no longer wanted. */
  leave(one: T): void {
    this.#startingSinceMs.delete(one);
    this.#known.delete(one);
    this.#fresh.delete(one);
  }

  /** The queued streams that may start now. */
  takeAdmitted(nowMs: number): readonly T[] {
    const admitted: T[] = [];
    for (const queue of [this.#known, this.#fresh]) {
      for (const one of queue) {
        if (!this.#hasRoom(nowMs)) return admitted;
        queue.delete(one);
        this.#startingSinceMs.set(one, nowMs);
        admitted.push(one);
      }
    }
    return admitted;
  }

  /** When `takeAdmitted` may return a stream, unless `leave` makes room before. 0: now; Infinity: never. */
  get nextDeadlineMs(): number {
    if (!this.hasQueue) return Infinity;
    if (this.#startingSinceMs.size < MAX_STARTING) return 0;
    const [oldestMs = 0] = this.#startingSinceMs.values();
    return oldestMs + COUNTS_FOR_MS;
  }

  /** Do streams wait for their turn? */
  get hasQueue(): boolean {
    return this.#known.size > 0 || this.#fresh.size > 0;
  }

  #hasRoom(nowMs: number): boolean {
    for (const [one, sinceMs] of this.#startingSinceMs) {
      if (sinceMs + COUNTS_FOR_MS > nowMs) break;
      this.#startingSinceMs.delete(one);
    }
    return this.#startingSinceMs.size < MAX_STARTING;
  }
}
