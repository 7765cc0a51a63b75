/**
 * Globs of which members came that may not be the answer to the glob: each of them is asked for by its
 * own name, too, or something of the collection was left on this stream a moment ago, and what came was
 * on its way before. Nothing in the delta protocol tells such responses apart, so the members are taken,
 * but the collection counts as whole only when nothing more came for a while. Bulk machine of one stream.
 */
import { globKeyOf, type ResourceName } from '../../../protos/resource-name.js';
import type { SourceSubscription } from './source-contents.js';

export class UnsureAnswers {
  /** So long that a server which hangs meanwhile was found out. */
  readonly #waitMs: number;
  /** So long that a server which is slow has answered. */
  readonly #leftWaitMs: number;
  /** By collection: when a name of it, or its glob, was left last; the oldest first. */
  readonly #left = new Map<string, number>();
  readonly #doubted = new Set<SourceSubscription>();
  /** When what came counts as all, in order of time: those that are doubted wait longer. */
  readonly #due = new Map<SourceSubscription, number>();
  readonly #doubtedDue = new Map<SourceSubscription, number>();

  /** @param leftWaitMs where something of the collection was left a moment ago */
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

  /** @param glob that still covers the name; what comes of it now may have been sent for the name. */
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
    // What came so far was perhaps not its answer, either.
    if (this.#due.delete(glob)) this.noteTold(glob, nowMs);
  }

  /** May what comes now be the answer to something asked before? */
  isDoubted(glob: SourceSubscription | undefined): boolean {
    return glob !== undefined && this.#doubted.has(glob);
  }

  /** Something came that is not known to be its answer. */
  noteTold(glob: SourceSubscription, nowMs: number): void {
    const isDoubted = this.#doubted.has(glob);
    const due = isDoubted ? this.#doubtedDue : this.#due;
    if (!due.has(glob)) due.set(glob, nowMs + (isDoubted ? this.#leftWaitMs : this.#waitMs));
  }

  /** @returns globs that have been waited for long enough. */
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
