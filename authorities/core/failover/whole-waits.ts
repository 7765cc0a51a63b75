/**
 * When does a collection count as whole? A server may split a collection into any number of
 * messages, up to `switch_wait` apart, and no message is marked as the last. So the collection
 * counts as whole once no member came for `switch_wait` plus a margin.
 */
import { globKeyOf, type ResourceName } from '../../../protos/resource-name.js';
import type { Asked } from './candidate-content.js';

/** A glob that the source answered, but whose members may not all have come. */
interface WholeWait<Demand> {
  readonly demand: Demand;
  /** The collection counts as whole at this time, unless a new member comes before. */
  readonly wholeAtMs: number;
  /** The collection counts as whole at this time even if members keep coming. */
  readonly atMostMs: number;
}

export const WHOLE_MARGIN_MS = 500;
/** Upper bound of the wait, for collections whose members keep coming. */
const WHOLE_AT_MOST_MS = 30_000;

export class WholeWaits<Demand extends Asked> {
  readonly #switchWaitMs: number;
  /** By type and glob key, in the order of the last restart. A later wait may be due earlier: it ends late, after those before it. */
  readonly #waits = new Map<string, WholeWait<Demand>>();

  constructor(switchWaitMs: number) {
    this.#switchWaitMs = switchWaitMs;
  }

  /** Undefined: nothing waits. */
  get nextMs(): number | undefined {
    const [first] = this.#waits.values();
    return first?.wholeAtMs;
  }

  /** The collections that wait. */
  *open(): IterableIterator<Demand> {
    for (const { demand } of this.#waits.values()) yield demand;
  }

  /** Does the collection of this name wait? */
  covers(typeUrl: string, name: ResourceName): boolean {
    return this.#waits.has(keyOf(typeUrl, name));
  }

  /** The source answered the glob. An open wait goes on. */
  begin(demand: Demand, nowMs: number): void {
    if (!this.covers(demand.typeUrl, demand.name)) this.#restart(demand, nowMs);
  }

  /** A new member came: others may follow, so an open wait starts again. */
  handleMember(typeUrl: string, member: ResourceName, nowMs: number): void {
    if (this.#waits.size === 0) return;
    const wait = this.#waits.get(keyOf(typeUrl, member));
    if (wait) this.#restart(wait.demand, nowMs);
  }

  end({ typeUrl, name }: Asked): void {
    // A member that is also demanded by its own name does not end the wait of its collection.
    if (name.isGlob) this.#waits.delete(keyOf(typeUrl, name));
  }

  clear(): void {
    this.#waits.clear();
  }

  /**
   * Ends the waits that are over, and returns their demands.
   *
   * @param lastArrivalMs when the source last sent a new resource of a type
   * @param mayEnd whether this turn has room for one more; the others are due in the next one
   */
  takeDue(
    nowMs: number,
    lastArrivalMs: (typeUrl: string) => number,
    mayEnd: () => boolean,
  ): readonly Demand[] {
    const due: Demand[] = [];
    for (const [key, { demand, wholeAtMs, atMostMs }] of this.#waits) {
      if (wholeAtMs > nowMs || !mayEnd()) break;
      this.#waits.delete(key);
      // Judge silence per type, not per collection: a server may split one response so that each
      // part has members of another collection.
      const quietAtMs = this.#quietAfter(lastArrivalMs(demand.typeUrl));
      if (quietAtMs <= nowMs || nowMs >= atMostMs) due.push(demand);
      else this.#waits.set(key, { demand, wholeAtMs: Math.min(quietAtMs, atMostMs), atMostMs });
    }
    return due;
  }

  #restart(demand: Demand, nowMs: number): void {
    const key = keyOf(demand.typeUrl, demand.name);
    const atMostMs = this.#waits.get(key)?.atMostMs ?? nowMs + WHOLE_AT_MOST_MS;
    const quietAtMs = this.#quietAfter(nowMs);
    this.#waits.delete(key);
    this.#waits.set(key, { demand, wholeAtMs: Math.min(quietAtMs, atMostMs), atMostMs });
  }

  #quietAfter(ms: number): number {
    return ms + this.#switchWaitMs + WHOLE_MARGIN_MS;
  }
}

const keyOf = (typeUrl: string, name: ResourceName): string => `${typeUrl} ${globKeyOf(name)}`;
