/**
 * Globs of which members came that may not be the answer to the glob: each of them is asked for by its
 * own name, too, or something of the collection was left on this stream a moment ago, and what came was
 * on its way before. Nothing in the delta protocol tells such responses apart, so the members are taken,
 * but the collection counts as whole only when nothing more came for a while. Bulk machine of one stream.
 */
import { globKeyOf, type ResourceName } from '../../protos/resource-name.js';
import type { SourceSubscription } from './source-contents.js';

export class UnsureAnswers {
  /** So long that a server which hangs meanwhile was found out. */
  readonly #waitMs: number;
  /** So long that a server which is slow has answered. */
  readonly #leftWaitMs: number;
  /** By collection: when a name of it, or its glob, was left last; the oldest first. */
  readonly #left = new Map<string, number>();
  readonly #doubted = new Set<SourceSubscription>();
  /** When what came counts as all. */
  readonly #due = new Map<SourceSubscription, number>();

  /** @param leftWaitMs where something of the collection was left a moment ago */
  constructor(waitMs: number, leftWaitMs: number) {
    this.#waitMs = waitMs;
    this.#leftWaitMs = leftWaitMs;
  }

  get nextDeadlineMs(): number | undefined {
    return this.#due.size === 0 ? undefined : Math.min(...this.#due.values());
  }

  /** @param glob that still covers the name; what comes of it now may have been sent for the name. */
  handleLeft(
    subscription: SourceSubscription,
    glob: SourceSubscription | undefined,
    nowMs: number,
  ): void {
    const { typeUrl, name } = subscription;
    this.#doubted.delete(subscription);
    this.#due.delete(subscription);
    if (glob && glob.status !== 'present') this.#doubted.add(glob);
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

  /** May what comes now be the answer to something asked before? */
  isDoubted(glob: SourceSubscription | undefined): boolean {
    return glob !== undefined && this.#doubted.has(glob);
  }

  /** Something came that is not known to be its answer. */
  noteTold(glob: SourceSubscription, nowMs: number): void {
    const waitMs = this.#doubted.has(glob) ? this.#leftWaitMs : this.#waitMs;
    if (!this.#due.has(glob)) this.#due.set(glob, nowMs + waitMs);
  }

  /** @returns globs that have been waited for long enough. */
  takeDue(nowMs: number): readonly SourceSubscription[] {
    const due: SourceSubscription[] = [];
    for (const [glob, dueMs] of this.#due) {
      if (dueMs > nowMs) continue;
      this.#due.delete(glob);
      this.#doubted.delete(glob);
      due.push(glob);
    }
    return due;
  }

  clear(): void {
    this.#left.clear();
    this.#doubted.clear();
    this.#due.clear();
  }
}

const collectionOf = (typeUrl: string, name: ResourceName): string =>
  `${typeUrl} ${globKeyOf(name)}`;
