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
import { MAX_GUARDED_MS } from '../cache/missing-names.js';
import type { GrantedCache } from '../rights/granted-cache.js';

/** While a client's losses cannot be judged yet, they are examined again after this time. Milliseconds. */
const OPEN_LOSS_WAIT_MS = 1_000;

/** Resources that the first set of one type would delete from the client, for one authority. */
export interface SetLoss {
  readonly typeUrl: string;
  /** One of the names or collections; its authority stands for all of them. */
  readonly sample: ResourceName;
  /** Number of resources that the client holds, as far as known. */
  readonly held: number;
  readonly lost: number;
}

/** A name or collection that stands for its authority. */
export type Sample = Pick<SetLoss, 'typeUrl' | 'sample'>;

/** The listeners or the clusters of one client, as far as they concern the first set of its stream. */
export interface FirstSet {
  /** What the first set would delete; empty if that is unknown, or the set was sent. */
  readonly losses: readonly SetLoss[];
  /** May the client hold resources that no source has answered yet? */
  readonly isUndecided: boolean;
  /** What is unknown only because of the guard; empty while a source may still answer something else. */
  readonly doubted: readonly Sample[];
  /** What a source has answered. */
  readonly known: readonly Sample[];
  /** Unknown names and collections whose sources are unreachable. */
  readonly unreachable: readonly Sample[];
  /** `SetLosses` sets it: until when the set may not be sent; undefined: send now. */
  heldUntilMs: number | undefined;
  /** `SetLosses` sets it: the deletion guard holds the set back. */
  isGuarded: boolean;
}

/** What `SetLosses` found out about the sets of one client. */
export interface LossJudgement {
  /** When to judge again: each authority has a wait of its own. Undefined: no need. */
  readonly againMs: number | undefined;
  /** Authorities whose losses the guard has just begun to hold back. */
  readonly guarded: readonly {
    readonly authority: string;
    readonly names: number;
    readonly untilMs: number;
  }[];
}

const NOTHING_JUDGED: LossJudgement = { againMs: undefined, guarded: [] };

/** The state of one authority. */
interface Verdict {
  readonly policy: RemovalPolicy;
  /** Since when only names that the guard holds back for all clients are unknown. */
  doubtedSinceMs: number | undefined;
  /** When the first loss was found. */
  readonly sinceMs: number;
  untilMs: number;
  isGuarded: boolean;
  hasPassed: boolean;
}

export class SetLosses {
  readonly #cache: Pick<GrantedCache, 'isCurrent' | 'guardedUntilMs' | 'removalPolicyOf'>;
  readonly #verdicts = new Map<string, Verdict>();

  constructor(cache: Pick<GrantedCache, 'isCurrent' | 'guardedUntilMs' | 'removalPolicyOf'>) {
    this.#cache = cache;
  }

  /**
   * Sets `heldUntilMs` and `isGuarded` of each set: those that would delete too much have to wait.
   *
   * @param sets all first sets of one client
   */
  hold(sets: readonly FirstSet[], nowMs: number): LossJudgement {
    this.#findDoubts(sets, nowMs);
    const losing: FirstSet[] = [];
    const all: SetLoss[] = [];
    for (const set of sets) {
      const { losses } = set;
      all.push(...losses);
      set.heldUntilMs = undefined;
      set.isGuarded = false;
      if (losses.some(({ lost }) => lost > 0)) losing.push(set);
    }
    if (losing.length === 0) return NOTHING_JUDGED;
    const isOpen =
      sets.some(({ isUndecided }) => isUndecided) ||
      all.some((loss) => loss.lost > 0 && !this.#isCurrent(loss));
    if (isOpen) {
      // Types are judged together, and only by sources that answer now.
      for (const set of losing) set.heldUntilMs = nowMs + OPEN_LOSS_WAIT_MS;
      return NOTHING_JUDGED;
    }
    const { untilMs, isGuarded, ...judgement } = this.#judge(all, nowMs);
    for (const set of losing) {
      set.heldUntilMs = untilMs;
      set.isGuarded = isGuarded;
    }
    return judgement;
  }

  #isCurrent({ typeUrl, sample }: Sample): boolean {
    return this.#cache.isCurrent(typeUrl, sample);
  }

  /** Notes each authority whose only unknown names are those that the guard holds back for all clients. */
  #findDoubts(sets: readonly FirstSet[], nowMs: number): void {
    // Nothing is undecided now: keep the noted doubts, because no source sent anything new.
    if (!sets.some(({ isUndecided }) => isUndecided)) return;
    const isOpen = sets.some(({ isUndecided, doubted }) => isUndecided && doubted.length === 0);
    const doubted = sets.flatMap((set) => set.doubted);
    if (isOpen || !doubted.every((one) => this.#isCurrent(one))) {
      this.#noteDoubts([], nowMs);
      return;
    }
    const known = sets.flatMap((set) => set.known);
    const open = sets.flatMap((set) => set.unreachable);
    open.push(...known.filter((one) => !this.#isCurrent(one)));
    const openAuthorities = new Set(open.map(({ sample }) => sample.authority));
    const isSettled = ({ sample }: Sample): boolean => !openAuthorities.has(sample.authority);
    this.#noteDoubts([...doubted, ...known].filter(isSettled), nowMs);
  }

  /**
   * Only names that the guard holds back for all clients (`MissingNames`) are still unknown. The guard's wait counts for this
   * client too, so that the client does not wait twice, for the same source or for another (seed 72527).
   *
   * @param doubted of all authorities whose sources answer now. An authority with a source that is away waits by itself
   */
  #noteDoubts(doubted: readonly Sample[], nowMs: number): void {
    const authorities = new Set(doubted.map(({ sample }) => sample.authority));
    for (const [authority, verdict] of this.#verdicts) {
      if (!authorities.has(authority)) verdict.doubtedSinceMs = undefined;
    }
    for (const { typeUrl, sample } of doubted) {
      this.#verdictOf(typeUrl, sample, nowMs).doubtedSinceMs ??= nowMs;
    }
  }

  /**
   * @param losses of all types whose set is known and was not sent on this stream yet
   * @returns also until when no set that loses something may be sent (undefined: send now), and whether the guard holds back any
   */
  #judge(
    losses: readonly SetLoss[],
    nowMs: number,
  ): LossJudgement & { readonly untilMs: number | undefined; readonly isGuarded: boolean } {
    const byAuthority = new Map<string, SetLoss>();
    for (const loss of losses) {
      const { authority } = loss.sample;
      const sum = byAuthority.get(authority);
      const held = loss.held + (sum?.held ?? 0);
      byAuthority.set(authority, { ...loss, held, lost: loss.lost + (sum?.lost ?? 0) });
    }
    let untilMs: number | undefined;
    let againMs: number | undefined;
    let isGuarded = false;
    const guarded: LossJudgement['guarded'][number][] = [];
    for (const [authority, { typeUrl, sample, held, lost: names }] of byAuthority) {
      if (names === 0) continue;
      const verdict = this.#verdictOf(typeUrl, sample, nowMs);
      const wasGuarded = verdict.isGuarded;
      if (wasGuarded) waitAnew(verdict, this.#cache.guardedUntilMs(typeUrl, sample));
      judge(verdict, names, held, nowMs);
      if (verdict.hasPassed) continue;
      isGuarded ||= verdict.isGuarded;
      untilMs = Math.max(untilMs ?? 0, verdict.untilMs);
      againMs = Math.min(againMs ?? Infinity, verdict.untilMs);
      if (verdict.isGuarded && !wasGuarded) {
        guarded.push({ authority, names, untilMs: verdict.untilMs });
      }
    }
    return { untilMs, isGuarded, againMs, guarded };
  }

  #verdictOf(typeUrl: string, sample: ResourceName, nowMs: number): Verdict {
    let verdict = this.#verdicts.get(sample.authority);
    if (!verdict) {
      const policy = this.#cache.removalPolicyOf(typeUrl, sample);
      const untilMs = nowMs + policy.switchWaitMs;
      verdict = {
        policy,
        doubtedSinceMs: undefined,
        sinceMs: nowMs,
        untilMs,
        isGuarded: false,
        hasPassed: false,
      };
      this.#verdicts.set(sample.authority, verdict);
    }
    return verdict;
  }
}

/** @param untilMs later than before if its source has failed and started again meanwhile */
function waitAnew(verdict: Verdict, untilMs: number): void {
  if (verdict.hasPassed) return;
  const latestMs = verdict.sinceMs + MAX_GUARDED_MS;
  verdict.untilMs = Math.max(verdict.untilMs, Math.min(untilMs, latestMs));
}

/**
 * Advances the verdict when a wait is over: `switchWaitMs` for the other types, or the wait of the
 * guard.
 */
function judge(verdict: Verdict, lost: number, held: number, nowMs: number): void {
  if (verdict.hasPassed || nowMs < verdict.untilMs) return;
  const { deletionGuard } = verdict.policy;
  if (verdict.isGuarded || !triggersGuard(deletionGuard, lost, held)) {
    verdict.hasPassed = true;
    return;
  }
  verdict.isGuarded = true;
  verdict.untilMs = (verdict.doubtedSinceMs ?? nowMs) + deletionGuard.waitMs;
  verdict.hasPassed = verdict.untilMs <= nowMs;
}
