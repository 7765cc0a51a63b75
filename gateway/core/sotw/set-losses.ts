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
  readonly answered: readonly Sample[];
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

/** How long the sets that lose names of one authority wait, and for what. */
interface AuthorityWait {
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
  readonly #waits = new Map<string, AuthorityWait>();

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
    const { untilMs, isGuarded, ...judgement } = this.#judgeAuthorities(all, nowMs);
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
    const answered = sets.flatMap((set) => set.answered);
    const open = sets.flatMap((set) => set.unreachable);
    open.push(...answered.filter((one) => !this.#isCurrent(one)));
    const openAuthorities = new Set(open.map(({ sample }) => sample.authority));
    const isSettled = ({ sample }: Sample): boolean => !openAuthorities.has(sample.authority);
    this.#noteDoubts([...doubted, ...answered].filter(isSettled), nowMs);
  }

  /**
   * Only names that the guard holds back for all clients (`MissingNames`) are still unknown. The guard's wait counts for this
   * client too, so that the client does not wait twice, for the same source or for another (seed 72527).
   *
   * @param doubted of all authorities whose sources answer now. An authority with a source that is away waits by itself
   */
  #noteDoubts(doubted: readonly Sample[], nowMs: number): void {
    const authorities = new Set(doubted.map(({ sample }) => sample.authority));
    for (const [authority, wait] of this.#waits) {
      if (!authorities.has(authority)) wait.doubtedSinceMs = undefined;
    }
    for (const { typeUrl, sample } of doubted) {
      this.#waitOf(typeUrl, sample, nowMs).doubtedSinceMs ??= nowMs;
    }
  }

  /**
   * @param losses of all types whose set is known and was not sent on this stream yet
   * @returns also until when no set that loses something may be sent (undefined: send now), and whether the guard holds back any
   */
  #judgeAuthorities(
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
      const wait = this.#waitOf(typeUrl, sample, nowMs);
      const wasGuarded = wait.isGuarded;
      if (wasGuarded) waitAnew(wait, this.#cache.guardedUntilMs(typeUrl, sample));
      advance(wait, names, held, nowMs);
      if (wait.hasPassed) continue;
      isGuarded ||= wait.isGuarded;
      untilMs = Math.max(untilMs ?? 0, wait.untilMs);
      againMs = Math.min(againMs ?? Infinity, wait.untilMs);
      if (wait.isGuarded && !wasGuarded) {
        guarded.push({ authority, names, untilMs: wait.untilMs });
      }
    }
    return { untilMs, isGuarded, againMs, guarded };
  }

  #waitOf(typeUrl: string, sample: ResourceName, nowMs: number): AuthorityWait {
    let wait = this.#waits.get(sample.authority);
    if (!wait) {
      const policy = this.#cache.removalPolicyOf(typeUrl, sample);
      const untilMs = nowMs + policy.switchWaitMs;
      wait = {
        policy,
        doubtedSinceMs: undefined,
        sinceMs: nowMs,
        untilMs,
        isGuarded: false,
        hasPassed: false,
      };
      this.#waits.set(sample.authority, wait);
    }
    return wait;
  }
}

/** @param untilMs later than before if its source has failed and started again meanwhile */
function waitAnew(wait: AuthorityWait, untilMs: number): void {
  if (wait.hasPassed) return;
  const latestMs = wait.sinceMs + MAX_GUARDED_MS;
  wait.untilMs = Math.max(wait.untilMs, Math.min(untilMs, latestMs));
}

/** Ends a wait that is over, `switchWaitMs` for the other types or the guard's, or begins the guard's. */
function advance(wait: AuthorityWait, lost: number, held: number, nowMs: number): void {
  if (wait.hasPassed || nowMs < wait.untilMs) return;
  const { deletionGuard } = wait.policy;
  if (wait.isGuarded || !triggersGuard(deletionGuard, lost, held)) {
    wait.hasPassed = true;
    return;
  }
  wait.isGuarded = true;
  wait.untilMs = (wait.doubtedSinceMs ?? nowMs) + deletionGuard.waitMs;
  wait.hasPassed = wait.untilMs <= nowMs;
}
