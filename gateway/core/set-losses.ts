/**
 * Guards a state-of-the-world client that resumes at a process which does not know what it holds. Where
 * the sources have fewer listeners or clusters than the client, they have perhaps just started, and a
 * smaller set would delete the rest at once. So it waits, and the deletion guard judges all such types of
 * the client together. After the guard's wait the set goes in any case: this process cannot keep what it
 * never saw, and silence would keep everything else of the type from the client, too.
 */
import { isTooMuch } from '../../authorities/index.js';
import type { RemovalPolicy } from '../../config/model.js';

/** What the first set of one type would take from the client. */
export interface SetLoss {
  /** Resources that the client holds, as far as is known. */
  readonly held: number;
  readonly lost: number;
}

export interface LossJudgement {
  /** Until when no set may be sent that loses something; undefined: it may. */
  readonly untilMs: number | undefined;
  /** The guard stepped in just now. */
  readonly guarded?: { readonly names: number; readonly untilMs: number };
}

const MAY_GO: LossJudgement = { untilMs: undefined };

export class SetLosses {
  readonly #policy: RemovalPolicy;
  #untilMs: number | undefined;
  #isGuarded = false;
  #hasPassed = false;

  constructor(policy: RemovalPolicy) {
    this.#policy = policy;
  }

  /** @param losses of all types whose set is known and was not sent on this stream yet */
  judge(losses: readonly SetLoss[], nowMs: number): LossJudgement {
    const { deletionGuard, switchWaitMs } = this.#policy;
    const lost = losses.reduce((sum, one) => sum + one.lost, 0);
    const held = losses.reduce((sum, one) => sum + one.held, 0);
    if (this.#hasPassed || lost === 0) return MAY_GO;
    this.#untilMs ??= nowMs + switchWaitMs;
    if (nowMs < this.#untilMs) return { untilMs: this.#untilMs };
    if (this.#isGuarded || !isTooMuch({ ...deletionGuard, all: true }, lost, held)) {
      this.#hasPassed = true;
      return MAY_GO;
    }
    const untilMs = nowMs + deletionGuard.waitMs;
    this.#untilMs = untilMs;
    this.#isGuarded = true;
    return { untilMs, guarded: { names: lost, untilMs } };
  }
}
