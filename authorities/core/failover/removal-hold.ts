/**
 * Removals that the gateway holds back. After a switch, a resync or a cold start, "absent" may mean
 * "not sent yet". And the deletion guard holds removals that would remove too much at once.
 */
import type { DeletionGuard } from '../../../config/model.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import { TypedMap } from '../../../protos/typed-map.js';
import { Fifo } from '../sources/fifo.js';

/** Type and key identify a name; the caller may carry more fields. */
export interface HeldName<Name extends { readonly key: string } = ResourceName> {
  readonly typeUrl: string;
  readonly name: Name;
}

interface Held<Name extends { readonly key: string }> extends HeldName<Name> {
  dueMs: number;
  /**
   * `fresh`: not judged yet. `guarded`: the guard holds it back until it is due. `released`: it waits for room in a turn
   * to be removed. `cancelled`: the name is present again.
   */
  state: 'fresh' | 'guarded' | 'released' | 'cancelled';
}

/** All held removals are looked at, in as many turns of the event loop as that takes, and then judged. */
interface Review<Name extends { readonly key: string }> {
  readonly left: Iterator<Held<Name>>;
  readonly fresh: Held<Name>[];
  readonly guarded: Held<Name>[];
  readonly kept: Held<Name>[];
  open: number;
  /** Lower bound of the deadlines of those that stay open or guarded. */
  soonestMs: number;
  /** Removals were added since it began. */
  hasGrown: boolean;
}

export interface DueRemovals<Name extends { readonly key: string } = ResourceName> {
  /** To be removed now, if the source still lacks them. With little room, others follow in the next turn. */
  readonly due: readonly HeldName<Name>[];
  /** The guard triggered: it holds back this many names until `untilMs`. */
  readonly guarded: { readonly names: number; readonly untilMs: number } | undefined;
  /** The guard held them back, and they stay (`then: keep`). */
  readonly kept: readonly HeldName<Name>[];
}

export interface StillOpen<Name extends { readonly key: string }> {
  /**
   * The source may still send this name, so it is neither judged nor removed yet. The other names wait for it if
   * the guard would trigger in case it is absent too.
   */
  readonly isOpen: (held: HeldName<Name>) => boolean;
  /**
   * Number of names that are not held back and that the source may lack, since it has not answered their collections in full.
   * They count in the total, and held names wait for them as for open names. Default: 0.
   *
   * @param open the number of open names
   */
  readonly undecided?: (open: number) => number;
  /** When to check open names again. */
  readonly againAtMs: number;
  /**
   * A name that the guard holds back is not removed before this time: its source may have failed and started again meanwhile.
   * Default: no such time.
   */
  readonly guardedUntilMs?: (held: HeldName<Name>) => number;
  /** Has the source confirmed no name of this type, apart from those held back? Then any removal triggers the guard. Default: no. */
  readonly confirmsNone?: (typeUrl: string) => boolean;
}

/** The work that a turn has room for: see `TurnRoom`. */
export interface Room {
  take(names?: number): boolean;
}

const UNLIMITED: Room = { take: () => true };
/** The source has answered all names. */
const NOTHING_OPEN = { isOpen: () => false, againAtMs: Infinity };
/** What a look at a held removal costs, in removed names. */
const LOOK = 1 / 8;

export class RemovalHold<Name extends { readonly key: string } = ResourceName> {
  readonly #guard: DeletionGuard;
  readonly #held = new TypedMap<Held<Name>>();
  /**
   * When to look at the held removals next. Too early if the first of them was cancelled. `cancel` moves it to a later time
   * while the source is loading.
   */
  #soonestMs = Infinity;
  /** A source that is still loading delays no judgement beyond this. */
  #latestMs = Infinity;
  #review: Review<Name> | undefined;
  readonly #released = new Fifo<Held<Name>>();

  constructor(guard: DeletionGuard) {
    this.#guard = guard;
  }

  get size(): number {
    return this.#held.size;
  }

  get guardedCount(): number {
    let count = 0;
    for (const { state } of this.#held.values()) if (state === 'guarded') count++;
    return count;
  }

  /** The last turn had no room for all that is due: call `takeDue` again in the next one. */
  get isBusy(): boolean {
    return this.#review !== undefined || this.#released.first !== undefined;
  }

  add({ typeUrl, name }: HeldName<Name>, dueMs: number): void {
    if (this.#held.has(typeUrl, name.key)) return;
    if (this.#held.size === 0) this.#latestMs = dueMs + this.#guard.waitMs;
    this.#held.set(typeUrl, name.key, { typeUrl, name, dueMs, state: 'fresh' });
    this.#soonestMs = Math.min(this.#soonestMs, dueMs);
    if (this.#review) this.#review.hasGrown = true;
  }

  /** Is the removal of this name held back? */
  has(typeUrl: string, { key }: Name): boolean {
    return this.#held.has(typeUrl, key);
  }

  /**
   * The name is present again. A source that takes an absence back is still loading, and what else it lacks may come too.
   *
   * @param quietUntilMs the others are not judged before, unless that is longer than the guard may wait
   * @returns whether it was held
   */
  cancel(typeUrl: string, name: Name, quietUntilMs = 0): boolean {
    const held = this.#held.size > 0 ? this.#held.get(typeUrl, name.key) : undefined;
    if (!held) return false;
    held.state = 'cancelled';
    const soonestMs = Math.min(quietUntilMs, this.#latestMs);
    if (soonestMs > this.#soonestMs) {
      this.#soonestMs = soonestMs;
      this.#review = undefined;
    }
    return this.#held.delete(typeUrl, name.key);
  }

  clear(): void {
    this.#held.clear();
    this.#soonestMs = Infinity;
    this.#review = undefined;
    this.#released.clear();
  }

  /**
   * Judges all held removals together, due or not, and counts those that the guard holds already. A
   * server that lost everything sends one response per type, and no single type may reach the share
   * of the guard. Open names do not trigger the guard, since the source may still send them.
   *
   * @param total the number of served names, which the guard's share refers to. Like `undecided`, it is called when all
   *   have been looked at: to count may take long
   * @param room of this turn; default: unlimited. See `isBusy`
   */
  takeDue(
    total: () => number,
    nowMs: number,
    open: StillOpen<Name> = NOTHING_OPEN,
    room: Room = UNLIMITED,
  ): DueRemovals<Name> {
    let guarded: DueRemovals<Name>['guarded'];
    let kept: DueRemovals<Name>['kept'] = [];
    if (this.#review || nowMs >= this.#soonestMs) {
      this.#review ??= this.#begin();
      if (this.#look(this.#review, nowMs, open, room)) {
        kept = this.#keep(this.#review);
        guarded = this.#judge(this.#review, total(), nowMs, open);
        this.#review = undefined;
      }
    }
    return { due: this.#takeReleased(room), guarded, kept };
  }

  #begin(): Review<Name> {
    const left = this.#held.values();
    return {
      left,
      fresh: [],
      guarded: [],
      kept: [],
      open: 0,
      soonestMs: Infinity,
      hasGrown: false,
    };
  }

  /** @returns whether all have been looked at */
  #look(review: Review<Name>, nowMs: number, open: StillOpen<Name>, room: Room): boolean {
    while (room.take(LOOK)) {
      const next = review.left.next();
      if (next.done === true) return true;
      const held = next.value;
      if (held.state === 'guarded' && open.guardedUntilMs)
        held.dueMs = Math.max(held.dueMs, open.guardedUntilMs(held));
      const isDue = held.dueMs <= nowMs;
      // Also what the guard held back: its source may have been lost since.
      const isOpen = (held.state === 'fresh' || isDue) && open.isOpen(held);
      if (isOpen && isDue) held.dueMs = open.againAtMs;
      if (isOpen || !isDue) review.soonestMs = Math.min(review.soonestMs, held.dueMs);
      if (held.state === 'fresh' && isOpen) review.open++;
      else if (held.state === 'fresh') review.fresh.push(held);
      else if (held.state === 'guarded' && (!isDue || isOpen)) review.guarded.push(held);
      else if (held.state === 'guarded' && this.#guard.then === 'proceed') this.#release(held);
      else if (held.state === 'guarded') review.kept.push(held);
    }
    return false;
  }

  #keep({ kept }: Review<Name>): DueRemovals<Name>['kept'] {
    // Some may have come again since they were looked at.
    const stay = kept.filter(({ state }) => state === 'guarded');
    for (const { typeUrl, name } of stay) this.#held.delete(typeUrl, name.key);
    return stay;
  }

  #judge(
    review: Review<Name>,
    total: number,
    nowMs: number,
    open: StillOpen<Name>,
  ): DueRemovals<Name>['guarded'] {
    // Some may have come again since they were looked at.
    const fresh = review.fresh.filter(({ state }) => state === 'fresh');
    const going = fresh.length + review.guarded.filter(({ state }) => state === 'guarded').length;
    const isAnyDue = fresh.some(({ dueMs }) => dueMs <= nowMs);
    const isTriggered = triggersGuard(this.#guard, going, total);
    const mayBe = going + review.open + (open.undecided?.(review.open) ?? 0);
    const untilMs = nowMs + this.#guard.waitMs;
    const mayTrigger = !isTriggered && triggersGuard(this.#guard, mayBe, total);
    const isGuarded = isAnyDue && (isTriggered || (!mayTrigger && areTypesLost(fresh, open)));
    let { soonestMs } = review;
    for (const held of fresh) {
      const isDue = held.dueMs <= nowMs;
      if (isGuarded) {
        held.state = 'guarded';
        held.dueMs = untilMs;
      } else if (isDue && !mayTrigger) {
        this.#release(held);
        continue;
      } else if (isDue && mayTrigger) held.dueMs = open.againAtMs;
      soonestMs = Math.min(soonestMs, held.dueMs);
    }
    this.#soonestMs = review.hasGrown ? this.#soonestOfAll() : soonestMs;
    return isGuarded ? { names: fresh.length, untilMs } : undefined;
  }

  #soonestOfAll(): number {
    let soonestMs = Infinity;
    for (const { state, dueMs } of this.#held.values()) {
      if (state !== 'released') soonestMs = Math.min(soonestMs, dueMs);
    }
    return soonestMs;
  }

  #release(held: Held<Name>): void {
    held.state = 'released';
    this.#released.push(held);
  }

  #takeReleased(room: Room): readonly HeldName<Name>[] {
    const taken: HeldName<Name>[] = [];
    for (let held = this.#released.first; held && room.take(); held = this.#released.first) {
      this.#released.shift();
      if (held.state !== 'released') continue;
      this.#held.delete(held.typeUrl, held.name.key);
      taken.push(held);
    }
    return taken;
  }

  nextDeadlineMs(): number | undefined {
    return this.#held.size === 0 ? undefined : this.#soonestMs;
  }
}

/** Removals in which lost types are searched, since the search looks at each. With more, the share of the guard decides. A count. */
const FEW_REMOVALS = 1_000;

/** Has the source nothing any more of one of these types? */
function areTypesLost<Name extends { readonly key: string }>(
  removals: readonly HeldName<Name>[],
  { confirmsNone }: StillOpen<Name>,
): boolean {
  if (!confirmsNone || removals.length > FEW_REMOVALS) return false;
  const types = new Set(removals.map(({ typeUrl }) => typeUrl));
  return [...types].some(confirmsNone);
}

/**
 * Would removing `going` of `total` names trigger the guard? Removing all of them does, however few: a source without
 * resources has most likely just started.
 */
export function triggersGuard(
  { share, count }: DeletionGuard,
  going: number,
  total: number,
): boolean {
  return (going > count && going >= total * share) || going >= total;
}
