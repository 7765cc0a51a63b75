/**
 * Globs whose received members may answer another request: the member is also subscribed by its own
 * name, or a name of the collection was unsubscribed on this stream a moment ago and the response
 * was already on its way. The delta protocol cannot tell these responses apart. So the members are
 * accepted, but the glob counts as answered only after a wait. Bulk machine of one stream.
 */
import { globKeyOf, type ResourceName } from '../../../protos/resource-name.js';
import type { SourceSubscription } from './source-contents.js';

export class UnsureAnswers {
  /** The wait; long enough to detect a server that hangs meanwhile. */
  readonly #waitMs: number;
  /**
   * The wait after an unsubscription in the collection; long enough for a slow server's response.
   */
  readonly #leftWaitMs: number;
  /** By collection: when one of its names or its glob was last unsubscribed; the oldest first. */
  readonly #left = new Map<string, number>();
  readonly #doubted = new Set<SourceSubscription>();
  /** When a glob counts as answered; the earliest first. Doubted globs wait longer. */
  readonly #due = new Map<SourceSubscription, number>();
  readonly #doubtedDue = new Map<SourceSubscription, number>();

  /**
   * @param waitMs the wait for a glob
   * @param leftWaitMs the wait after a recent unsubscription in its collection
   */
  constructor(waitMs: number, leftWaitMs: number) {
    this.#waitMs = waitMs;
    this.#leftWaitMs = leftWaitMs;
  }

  get nextDeadlineMs(): number | undefined {
    const [dueMs = Infinity] = this.#due.values();
    const [doubtedDueMs = Infinity] = this.#doubtedDue.values();
    const soonestMs = Math.min(dueMs, doubtedDueMs);
    return soonestMs === Infinity ? undefined : soonestMs;
  }

  /**
   * @param glob the glob that still covers the name: its next members may have been sent for the
   * name.
   */
  handleLeft(
    subscription: SourceSubscription,
    glob: SourceSubscription | undefined,
    nowMs: number,
  ): void {
    const { typeUrl, name } = subscription;
    this.#doubted.delete(subscription);
    this.#due.delete(subscription);
    this.#doubtedDue.delete(subscription);
    if (glob && glob.status !== 'present') this.#doubt(glob, nowMs);
    for (const [collection, leftMs] of this.#left) {
      if (leftMs + this.#leftWaitMs > nowMs) break;
      this.#left.delete(collection);
    }
    const collection = collectionOf(typeUrl, name);
    this.#left.delete(collection);
    this.#left.set(collection, nowMs);
  }

  handleAsked(subscription: SourceSubscription, nowMs: number): void {
    const { typeUrl, name } = subscription;
    if (!name.isGlob) return;
    const leftMs = this.#left.get(collectionOf(typeUrl, name));
    if (leftMs !== undefined && nowMs < leftMs + this.#leftWaitMs) this.#doubted.add(subscription);
  }

  #doubt(glob: SourceSubscription, nowMs: number): void {
    this.#doubted.add(glob);
    // The members received so far may not have answered the glob either.
    if (this.#due.delete(glob)) this.noteTold(glob, nowMs);
  }

  /** May the next response answer an earlier request? */
  isDoubted(glob: SourceSubscription | undefined): boolean {
    return glob !== undefined && this.#doubted.has(glob);
  }

  /** A member came that may not answer the glob. */
  noteTold(glob: SourceSubscription, nowMs: number): void {
    const isDoubted = this.#doubted.has(glob);
    const due = isDoubted ? this.#doubtedDue : this.#due;
    if (!due.has(glob)) due.set(glob, nowMs + (isDoubted ? this.#leftWaitMs : this.#waitMs));
  }

  /** @returns the globs whose wait is over. */
  takeDue(nowMs: number): readonly SourceSubscription[] {
    const taken: SourceSubscription[] = [];
    for (const due of [this.#due, this.#doubtedDue]) {
      for (const [glob, dueMs] of due) {
        if (dueMs > nowMs) break;
        due.delete(glob);
        this.#doubted.delete(glob);
        taken.push(glob);
      }
    }
    return taken;
  }

  clear(): void {
    this.#left.clear();
    this.#doubted.clear();
    this.#due.clear();
    this.#doubtedDue.clear();
  }
}

const collectionOf = (typeUrl: string, name: ResourceName): string =>
  `${typeUrl} ${globKeyOf(name)}`;
