/**
 * What a resuming client says that it holds of one authority, and the removals that rest on that
 * alone: the client names a resource, this process never saw it, and the source does not have it. A
 * source that has just started may not have it yet, so these removals wait, and go through the deletion
 * guard, which judges all types of the authority together.
 */
import type { RemovalPolicy } from '../../../config/model.js';
import { RemovalHold } from '../../../authorities/index.js';

/** What one client subscribes of one type and authority, as far as its claims go. */
export interface ClaimingLane {
  readonly typeUrl: string;
  readonly authority: string;
  /** Do the sources of this name, or of its collection, answer now? What they said before may be old. */
  isCurrent(key: string): boolean;
  /** The name was judged: the client is told that it is gone, if it is still missing. */
  settleDoubt(key: string): void;
}

/** A name that the client holds and the source seems not to have. */
export interface Doubt {
  readonly key: string;
  readonly lane: ClaimingLane;
}

export interface DueDoubts {
  readonly due: readonly Doubt[];
  /** The guard stepped in. */
  readonly guarded: { readonly names: number; readonly untilMs: number } | undefined;
}

export class Claims {
  readonly #policy: RemovalPolicy;
  readonly #hold: RemovalHold<Doubt>;
  /** Since the last `takeDue`, whose time they get. */
  #fresh: Doubt[] = [];
  #claimed = 0;

  constructor(policy: RemovalPolicy) {
    this.#policy = policy;
    this.#hold = new RemovalHold({ ...policy.deletionGuard, all: true });
  }

  /** The client says that it holds one more name. */
  handleClaimed(): void {
    this.#claimed++;
  }

  /** This one seems not to exist. Once is enough. */
  handleDoubt(doubt: Doubt): void {
    this.#fresh.push(doubt);
  }

  /**
   * @param isOpen is it still to be heard whether other names exist that the client claims? They are judged
   *   together: the first answers of a source that lost everything are not all.
   * @returns the doubts to look at again: the client is told of the names that are still missing.
   */
  takeDue(nowMs: number, isOpen: () => boolean = () => false): DueDoubts {
    for (const doubt of this.#fresh) {
      const removal = { typeUrl: doubt.lane.typeUrl, name: doubt };
      this.#hold.add(removal, nowMs + this.#policy.switchWaitMs);
    }
    this.#fresh = [];
    let areOthersOpen: boolean | undefined;
    const { due, guarded } = this.#hold.takeDue(this.#claimed, nowMs, {
      isOpen: ({ name: { lane, key } }) => (areOthersOpen ??= isOpen()) || !lane.isCurrent(key),
      againAtMs: nowMs + this.#policy.switchWaitMs,
    });
    return { due: due.map(({ name }) => name), guarded };
  }

  get nextDeadlineMs(): number | undefined {
    return this.#hold.nextDeadlineMs();
  }
}
