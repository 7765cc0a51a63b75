/**
 * Removals that wait: those of a switch or a resync, for which "not there" may only mean "not there
 * yet", and those that the deletion guard holds back because they would take too much at once.
 */
import type { FailoverPolicy } from '../../config/model.js';
import type { ResourceName } from '../../protos/resource-name.js';

export interface HeldName {
  readonly typeUrl: string;
  readonly name: ResourceName;
}

interface Held extends HeldName {
  readonly dueMs: number;
  readonly guarded: boolean;
}

export interface DueRemovals {
  /** To be removed now, if they are still gone. */
  readonly due: readonly HeldName[];
  /** The guard stepped in: so many names wait until then. */
  readonly guarded: { readonly names: number; readonly untilMs: number } | undefined;
}

export class RemovalHold {
  readonly #guard: FailoverPolicy['deletionGuard'];
  readonly #held = new Map<string, Held>();

  constructor(guard: FailoverPolicy['deletionGuard']) {
    this.#guard = guard;
  }

  get guardedCount(): number {
    let count = 0;
    for (const { guarded } of this.#held.values()) if (guarded) count++;
    return count;
  }

  add({ typeUrl, name }: HeldName, dueMs: number): void {
    const key = heldKey(typeUrl, name);
    if (!this.#held.has(key)) this.#held.set(key, { typeUrl, name, dueMs, guarded: false });
  }

  /** The name is there again. */
  cancel(typeUrl: string, name: ResourceName): void {
    if (this.#held.size > 0) this.#held.delete(heldKey(typeUrl, name));
  }

  clear(): void {
    this.#held.clear();
  }

  /**
   * A server that lost everything says so in one response for each type, and neither the clusters nor
   * the one listener are half of what is served. So what waits is judged as a whole, due or not, and
   * with what is guarded already: a source that loses the rest a moment later has lost it all.
   *
   * @param servedCount how many names the group serves: the whole that the guard's share is of.
   */
  takeDue(servedCount: number, nowMs: number): DueRemovals {
    const due: HeldName[] = [];
    const fresh: Held[] = [];
    let guarded = 0;
    let freshDue = false;
    for (const [key, held] of this.#held) {
      const isDue = held.dueMs <= nowMs;
      if (!held.guarded) fresh.push(held);
      else if (isDue && this.#guard.then === 'proceed') due.push(held);
      if (isDue && held.guarded) this.#held.delete(key);
      else if (held.guarded) guarded++;
      freshDue ||= isDue && !held.guarded;
    }
    if (!freshDue) return { due, guarded: undefined };
    const going = fresh.length + guarded;
    const tooMany = going > this.#guard.count && going >= servedCount * this.#guard.share;
    if (!tooMany) {
      const freshDueNow = fresh.filter(({ dueMs }) => dueMs <= nowMs);
      for (const { typeUrl, name } of freshDueNow) this.#held.delete(heldKey(typeUrl, name));
      return { due: [...due, ...freshDueNow], guarded: undefined };
    }
    const untilMs = nowMs + this.#guard.waitMs;
    for (const held of fresh) {
      this.#held.set(heldKey(held.typeUrl, held.name), { ...held, dueMs: untilMs, guarded: true });
    }
    return { due, guarded: { names: fresh.length, untilMs } };
  }

  nextDeadlineMs(): number | undefined {
    let soonest: number | undefined;
    for (const { dueMs } of this.#held.values()) {
      if (soonest === undefined || dueMs < soonest) soonest = dueMs;
    }
    return soonest;
  }
}

const heldKey = (typeUrl: string, name: ResourceName): string => `${typeUrl} ${name.key}`;
