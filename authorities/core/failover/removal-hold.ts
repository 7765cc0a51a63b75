/**
 * Removals that the gateway holds back. After a switch, a resync or a cold start, "absent" may mean
 * "not sent yet". And the deletion guard holds removals that would remove too much at once.
 */
import type { DeletionGuard } from '../../../config/model.js';
import type { ResourceName } from '../../../protos/resource-name.js';

/** Type and key identify a name; the caller may carry more fields. */
export interface HeldName<Name extends { readonly key: string } = ResourceName> {
  readonly typeUrl: string;
  readonly name: Name;
}

interface Held<Name extends { readonly key: string }> extends HeldName<Name> {
  readonly dueMs: number;
  readonly guarded: boolean;
}

export interface DueRemovals<Name extends { readonly key: string } = ResourceName> {
  /** To be removed now, if the source still lacks them. */
  readonly due: readonly HeldName<Name>[];
  /** The guard triggered: it holds back this many names until `untilMs`. */
  readonly guarded: { readonly names: number; readonly untilMs: number } | undefined;
}

export interface StillOpen<Name extends { readonly key: string }> {
  /**
   * The source may still send this name, so it is not judged yet. The other names wait for it if
   * the guard would trigger in case it is absent too.
   */
  readonly isOpen: (held: HeldName<Name>) => boolean;
  /**
   * Names that are not held back, and whose collections the source has not answered yet: it may lack them.
   * They count in the total, and the held ones wait for them as for open names. Default: 0.
   */
  readonly undecided?: number;
  /** When to check open names again. */
  readonly againAtMs: number;
}

/** `all`: removing every name triggers the guard, however few names there are. */
export interface RemovalGuard extends DeletionGuard {
  readonly all?: boolean;
}

export class RemovalHold<Name extends { readonly key: string } = ResourceName> {
  readonly #guard: RemovalGuard;
  readonly #held = new Map<string, Held<Name>>();
  /** Lower bound of the next deadline. May be too early, since `cancel` does not update it. */
  #soonestMs = Infinity;

  constructor(guard: RemovalGuard) {
    this.#guard = guard;
  }

  get size(): number {
    return this.#held.size;
  }

  get guardedCount(): number {
    let count = 0;
    for (const { guarded } of this.#held.values()) if (guarded) count++;
    return count;
  }

  add({ typeUrl, name }: HeldName<Name>, dueMs: number): void {
    const key = heldKey(typeUrl, name);
    if (this.#held.has(key)) return;
    this.#held.set(key, { typeUrl, name, dueMs, guarded: false });
    this.#soonestMs = Math.min(this.#soonestMs, dueMs);
  }

  /** The name is present again. @returns whether it was held. */
  cancel(typeUrl: string, name: Name): boolean {
    return this.#held.size > 0 && this.#held.delete(heldKey(typeUrl, name));
  }

  clear(): void {
    this.#held.clear();
    this.#soonestMs = Infinity;
  }

  /**
   * Judges all held removals together, due or not, and counts those that the guard holds already. A
   * server that lost everything sends one response per type, and no single type may reach the share
   * of the guard. Open names do not trigger the guard, since the source may still send them.
   *
   * @param total the number of served names, which the guard's share refers to.
   */
  takeDue(total: number, nowMs: number, open?: StillOpen<Name>): DueRemovals<Name> {
    const due: HeldName<Name>[] = [];
    if (nowMs < this.#soonestMs) return { due, guarded: undefined };
    const fresh: Held<Name>[] = [];
    let guarded = 0;
    let openCount = 0;
    let freshDue = false;
    for (const [key, held] of this.#held) {
      const isDue = held.dueMs <= nowMs;
      if (!held.guarded && open?.isOpen(held)) {
        openCount++;
        if (isDue) this.#held.set(key, { ...held, dueMs: open.againAtMs });
        continue;
      }
      if (!held.guarded) fresh.push(held);
      else if (isDue && this.#guard.then === 'proceed') due.push(held);
      if (isDue && held.guarded) this.#held.delete(key);
      else if (held.guarded) guarded++;
      freshDue ||= isDue && !held.guarded;
    }
    const going = fresh.length + guarded;
    const waits =
      open !== undefined &&
      !triggersGuard(this.#guard, going, total) &&
      triggersGuard(this.#guard, going + openCount + (open.undecided ?? 0), total);
    if (waits) this.#postpone(fresh, open.againAtMs, nowMs);
    const judged = freshDue && !waits ? this.#judge(fresh, guarded, total, nowMs) : undefined;
    due.push(...(judged?.due ?? []));
    this.#soonestMs = Infinity;
    for (const { dueMs } of this.#held.values()) {
      this.#soonestMs = Math.min(this.#soonestMs, dueMs);
    }
    return { due, guarded: judged?.guarded };
  }

  #postpone(fresh: readonly Held<Name>[], againAtMs: number, nowMs: number): void {
    for (const held of fresh) {
      if (held.dueMs > nowMs) continue;
      this.#held.set(heldKey(held.typeUrl, held.name), { ...held, dueMs: againAtMs });
    }
  }

  #judge(
    fresh: readonly Held<Name>[],
    guardedAlready: number,
    total: number,
    nowMs: number,
  ): DueRemovals<Name> {
    if (!triggersGuard(this.#guard, fresh.length + guardedAlready, total)) {
      const due = fresh.filter(({ dueMs }) => dueMs <= nowMs);
      for (const { typeUrl, name } of due) this.#held.delete(heldKey(typeUrl, name));
      return { due, guarded: undefined };
    }
    const untilMs = nowMs + this.#guard.waitMs;
    for (const held of fresh) {
      this.#held.set(heldKey(held.typeUrl, held.name), { ...held, dueMs: untilMs, guarded: true });
    }
    return { due: [], guarded: { names: fresh.length, untilMs } };
  }

  nextDeadlineMs(): number | undefined {
    return this.#held.size === 0 ? undefined : this.#soonestMs;
  }
}

/** Would removing `going` of `total` names trigger the guard? */
export function triggersGuard(
  { share, count, all }: RemovalGuard,
  going: number,
  total: number,
): boolean {
  return (going > count && going >= total * share) || (all === true && going >= total);
}

const heldKey = (typeUrl: string, { key }: { readonly key: string }): string => `${typeUrl} ${key}`;
