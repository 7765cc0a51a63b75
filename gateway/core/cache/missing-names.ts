/**
 * Remembered names (of a state file or of earlier subscriptions) that the source does not have. Either
 * the source deleted them while no client subscribed, or it has just started and may still load them.
 * The deletion guard of the authority decides.
 */
import { Fifo, RemovalHold, TurnRoom, type HeldName } from '../../../authorities/index.js';
import type { RemovalPolicy } from '../../../config/model.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import type { Collection } from './collection.js';

/** A subscribed glob or list. */
interface Remembering {
  readonly typeUrl: string;
  readonly collection: Collection;
  /** Why its source cannot serve it; undefined: no reason is known. */
  readonly error?: unknown;
}

export interface MissingNamesOptions<Glob extends Remembering> {
  /** The subscribed globs and lists of an authority. */
  readonly globsOf: (authority: string) => Iterable<Glob>;
  readonly globOf: (typeUrl: string, glob: ResourceName) => Glob | undefined;
  /** Does the state of this glob come from sources that are connected now? */
  readonly isCurrent: (typeUrl: string, glob: ResourceName) => boolean;
  /** When the guard lets names of this glob go at the earliest. */
  readonly guardedUntilMs: (typeUrl: string, glob: ResourceName) => number;
  readonly onHeldBack: ((held: HeldBack) => void) | undefined;
  /** The collection removed a remembered name. */
  readonly onRemoved: (glob: Glob) => void;
  /** The collection is no longer doubted. */
  readonly onSettled: (glob: Glob) => void;
}

/** The deletion guard holds back the removals of this many names until `untilMs`. */
export interface HeldBack {
  readonly authority: string;
  readonly names: number;
  readonly untilMs: number;
}

interface MissingName {
  readonly key: string;
  readonly member: string;
  readonly glob: ResourceName;
}

/** A collection turned out to lack these names. */
interface Finding {
  readonly typeUrl: string;
  readonly glob: ResourceName;
  readonly members: Iterator<string>;
  readonly dueMs: number;
}

/** The missing names of an authority. */
interface Missing {
  /** Not held back yet: one collection may lack 100,000. */
  readonly findings: Fifo<Finding>;
  readonly hold: RemovalHold<MissingName>;
  /** `switch_wait`. */
  readonly waitMs: number;
  /** When the first of them was found to be missing. */
  readonly sinceMs: number;
  /** When a collection of the authority last got one more member. */
  grewMs: number;
}

/**
 * While an authority still gets new members, or a collection of it has had no answer, the gateway keeps the remembered names that
 * its source lacks, for at most this time. A control plane that has just started may answer that it has
 * nothing, and then send its content in pieces, type after type (seed 154231). But some collections are never answered, such as a
 * list that a state-of-the-world source lacks (seed 160622).
 */
const MAX_LOADING_MS = 60_000;

/**
 * If a source fails again and again, the guard's wait for names that this process never had starts anew, for at most this time.
 * First sets of state-of-the-world clients wait too, and with them the new resources in these sets.
 */
export const MAX_GUARDED_MS = 600_000;

/** A removal whose source was lost before the decision is examined again after this time. */
const AGAIN_MS = 2_000;
/** Removals in one turn of the event loop. A look at a name counts as a part of one. A count. */
const REMOVED_PER_TURN = 300;
/** To judge an authority, and to log that its names are held back, costs as much as to remove this many. */
const JUDGE = 8;
/** To hold back a name costs as much as to remove this many. */
const HOLD = 1 / 4;

export class MissingNames<Glob extends Remembering> {
  readonly #options: MissingNamesOptions<Glob>;
  readonly #byAuthority = new Map<string, Missing>();
  readonly #room = new TurnRoom(REMOVED_PER_TURN);

  constructor(options: MissingNamesOptions<Glob>) {
    this.#options = options;
  }

  /** A collection is complete. The remembered names that it lacks wait for the guard. */
  add(
    { typeUrl, collection: { glob } }: Glob,
    missing: readonly string[],
    policy: RemovalPolicy,
    nowMs: number,
  ): void {
    const { authority } = glob;
    let known = this.#byAuthority.get(authority);
    if (!known) {
      const hold = new RemovalHold<MissingName>(policy.deletionGuard);
      const times = { waitMs: policy.switchWaitMs, sinceMs: nowMs, grewMs: -Infinity };
      known = { findings: new Fifo(), hold, ...times };
      this.#byAuthority.set(authority, known);
    }
    const dueMs = nowMs + policy.switchWaitMs;
    known.findings.push({ typeUrl, glob, members: missing.values(), dueMs });
  }

  /** A collection of the authority has one more member. */
  handleGrowth(authority: string, nowMs: number): void {
    const missing = this.#byAuthority.get(authority);
    if (missing) missing.grewMs = nowMs;
  }

  /** @returns Infinity: no name waits */
  nextDeadlineMs(): number {
    let soonestMs = Infinity;
    for (const missing of this.#byAuthority.values())
      soonestMs = Math.min(soonestMs, deadlineMsOf(missing));
    return soonestMs;
  }

  /** @returns whether more is due: call it again in the next turn */
  handleTimer(nowMs: number): boolean {
    this.#room.refill();
    for (const [authority, missing] of this.#byAuthority) {
      if (deadlineMsOf(missing) > nowMs) continue;
      if (!this.#room.take(JUDGE) || !this.#holdFindings(missing)) return true;
      this.#removeDue(authority, missing, nowMs);
      if (missing.hold.isBusy) return true;
      if (missing.hold.size === 0) this.#endDoubts(authority);
    }
    return false;
  }

  /** @returns whether the hold has all of them: the guard judges all of an authority together */
  #holdFindings({ findings, hold }: Missing): boolean {
    for (let found = findings.first; found; found = findings.first) {
      const { typeUrl, glob, members, dueMs } = found;
      for (;;) {
        if (!this.#room.take(HOLD)) return false;
        const next = members.next();
        if (next.done === true) break;
        const member = next.value;
        hold.add({ typeUrl, name: { key: `${glob.key} ${member}`, member, glob } }, dueMs);
      }
      findings.shift();
    }
    return true;
  }

  #removeDue(authority: string, { hold, waitMs, sinceMs, grewMs }: Missing, nowMs: number): void {
    const { isCurrent, guardedUntilMs, globOf, globsOf, onHeldBack, onRemoved } = this.#options;
    const quietMs = grewMs + waitMs;
    const mayLoad = nowMs < sinceMs + MAX_LOADING_MS;
    const isGrowing = mayLoad && nowMs < quietMs;
    const undecided = (): number => (mayLoad ? sum(globsOf(authority), undecidedIn) : 0);
    const total = (): number => sum(globsOf(authority), knownIn) + undecided();
    const away = new Map<ResourceName, string>();
    const open = {
      isOpen: ({ typeUrl, name: { glob } }: HeldName<MissingName>): boolean => {
        if (isCurrent(typeUrl, glob)) return isGrowing;
        away.set(glob, typeUrl);
        return true;
      },
      undecided,
      againAtMs: isGrowing ? quietMs : nowMs + AGAIN_MS,
      guardedUntilMs: ({ typeUrl, name: { glob } }: HeldName<MissingName>) =>
        Math.min(guardedUntilMs(typeUrl, glob), sinceMs + MAX_GUARDED_MS),
    };
    const { due, guarded, kept } = hold.takeDue(total, nowMs, open, this.#room);
    // Whole sets do not wait for a source that is away.
    for (const [glob, typeUrl] of away) this.#endDoubt(globOf(typeUrl, glob));
    for (const { typeUrl, name } of kept) {
      globOf(typeUrl, name.glob)?.collection.keepRemembered(name.member);
    }
    if (guarded) onHeldBack?.({ authority, ...guarded });
    for (const { typeUrl, name } of due) {
      const entry = globOf(typeUrl, name.glob);
      if (entry?.collection.settleRemembered(name.member, nowMs) === true) onRemoved(entry);
    }
  }

  #endDoubts(authority: string): void {
    this.#byAuthority.delete(authority);
    for (const entry of this.#options.globsOf(authority)) this.#endDoubt(entry);
  }

  #endDoubt(entry: Glob | undefined): void {
    if (entry?.collection.isDoubted !== true) return;
    entry.collection.isDoubted = false;
    this.#options.onSettled(entry);
  }
}

function deadlineMsOf({ findings, hold }: Missing): number {
  if (hold.isBusy) return -Infinity;
  return Math.min(findings.first?.dueMs ?? Infinity, hold.nextDeadlineMs() ?? Infinity);
}

function sum<T>(all: Iterable<T>, count: (one: T) => number): number {
  let total = 0;
  for (const one of all) total += count(one);
  return total;
}

/**
 * Number of names of a collection that exist or that the source is known to lack. If the source can
 * never prove that the collection is whole, only the members count: the others stay in any case.
 */
const knownIn = ({ collection: { proven, nameCount, members } }: Remembering): number =>
  proven ? nameCount : members.size;

/** The remembered names of a collection that has had no answer yet. */
const undecidedIn = ({
  collection: { complete, nameCount, members },
  error,
}: Remembering): number => (complete || error !== undefined ? 0 : nameCount - members.size);
