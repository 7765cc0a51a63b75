/**
 * Guards a state-of-the-world client that resumes at a process which does not know what the client
 * holds.
 *
 * If the sources have fewer listeners or clusters than the client, they may have just started, and
 * a smaller set would delete the rest at once. So the set waits, and the deletion guard judges both
 * types of the client together, for each authority. After the guard's wait the gateway sends the set
 * in any case: it never saw the missing resources, so it cannot send them, and without a set the
 * client would get no other change of the type either.
 */
import { triggersGuard } from '../../../authorities/index.js';
import type { RemovalPolicy } from '../../../config/model.js';
import type { ResourceName } from '../../../protos/resource-name.js';

/** Resources that the first set of one type would delete from the client, for one authority. */
export interface SetLoss {
  readonly typeUrl: string;
  /** One of the names or collections; its authority stands for all of them. */
  readonly sample: ResourceName;
  /** Number of resources that the client holds, as far as known. */
  readonly held: number;
  readonly lost: number;
}

/** A name or collection of an authority about which all is known but what the guard holds back for all clients. */
export type Doubted = Pick<SetLoss, 'typeUrl' | 'sample'>;

export interface LossJudgement {
  /** Until when no set that loses something may be sent; undefined: send now. */
  readonly untilMs: number | undefined;
  /** When to judge again: each authority has a wait of its own. Undefined: no need. */
  readonly againMs: number | undefined;
  /** Authorities whose losses the guard has just begun to hold back. */
  readonly guarded: readonly {
    readonly authority: string;
    readonly names: number;
    readonly untilMs: number;
  }[];
}

/** The state of one authority. */
interface Verdict {
  readonly policy: RemovalPolicy;
  /** Since when only names that the guard holds back for all clients are unknown. */
  doubtedSinceMs: number | undefined;
  untilMs: number;
  isGuarded: boolean;
  hasPassed: boolean;
}

export class SetLosses {
  readonly #policyOf: (typeUrl: string, name: ResourceName) => RemovalPolicy;
  readonly #verdicts = new Map<string, Verdict>();

  constructor(policyOf: (typeUrl: string, name: ResourceName) => RemovalPolicy) {
    this.#policyOf = policyOf;
  }

  /**
   * Everything is known but names that the guard holds back for all clients (`MissingNames`): its wait counts for
   * this client too, so that the client does not wait twice, for the same source or for another (seed 72527).
   *
   * @param doubted of all authorities whose sources answer now; an authority with a source that is away has a wait of its own
   */
  noteDoubts(doubted: readonly Doubted[], nowMs: number): void {
    const authorities = new Set(doubted.map(({ sample }) => sample.authority));
    for (const [authority, verdict] of this.#verdicts) {
      if (!authorities.has(authority)) verdict.doubtedSinceMs = undefined;
    }
    for (const { typeUrl, sample } of doubted) {
      this.#verdictOf(typeUrl, sample, nowMs).doubtedSinceMs ??= nowMs;
    }
  }

  /** @param losses of all types whose set is known and was not sent on this stream yet */
  judge(losses: readonly SetLoss[], nowMs: number): LossJudgement {
    const byAuthority = new Map<string, SetLoss>();
    for (const loss of losses) {
      const { authority } = loss.sample;
      const sum = byAuthority.get(authority);
      const held = loss.held + (sum?.held ?? 0);
      byAuthority.set(authority, { ...loss, held, lost: loss.lost + (sum?.lost ?? 0) });
    }
    let untilMs: number | undefined;
    let againMs: number | undefined;
    const guarded: LossJudgement['guarded'][number][] = [];
    for (const [authority, { typeUrl, sample, held, lost: names }] of byAuthority) {
      if (names === 0) continue;
      const verdict = this.#verdictOf(typeUrl, sample, nowMs);
      const wasGuarded = verdict.isGuarded;
      judge(verdict, names, held, nowMs);
      if (verdict.hasPassed) continue;
      untilMs = Math.max(untilMs ?? 0, verdict.untilMs);
      againMs = Math.min(againMs ?? Infinity, verdict.untilMs);
      if (verdict.isGuarded && !wasGuarded) {
        guarded.push({ authority, names, untilMs: verdict.untilMs });
      }
    }
    return { untilMs, againMs, guarded };
  }

  #verdictOf(typeUrl: string, sample: ResourceName, nowMs: number): Verdict {
    let verdict = this.#verdicts.get(sample.authority);
    if (!verdict) {
      const policy = this.#policyOf(typeUrl, sample);
      const untilMs = nowMs + policy.switchWaitMs;
      verdict = { policy, doubtedSinceMs: undefined, untilMs, isGuarded: false, hasPassed: false };
      this.#verdicts.set(sample.authority, verdict);
    }
    return verdict;
  }
}

/**
 * Advances the verdict when a wait is over: `switchWaitMs` for the other types, or the wait of the
 * guard.
 */
function judge(verdict: Verdict, lost: number, held: number, nowMs: number): void {
  if (verdict.hasPassed || nowMs < verdict.untilMs) return;
  const { deletionGuard } = verdict.policy;
  if (verdict.isGuarded || !triggersGuard({ ...deletionGuard, all: true }, lost, held)) {
    verdict.hasPassed = true;
    return;
  }
  verdict.isGuarded = true;
  verdict.untilMs = (verdict.doubtedSinceMs ?? nowMs) + deletionGuard.waitMs;
  verdict.hasPassed = verdict.untilMs <= nowMs;
}
