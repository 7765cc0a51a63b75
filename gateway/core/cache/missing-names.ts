/**
 * Remembered names (of a state file or of earlier subscriptions) that the source does not have. Either
 * the source deleted them while no client subscribed, or it has just started and may still load them.
 * The deletion guard of the authority decides.
 */
import { RemovalHold } from '../../../authorities/index.js';
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
  /** All subscribed globs and lists. */
  readonly globs: () => Iterable<Glob>;
  readonly globOf: (typeUrl: string, glob: ResourceName) => Glob | undefined;
  /** Does the state of this glob come from sources that are connected now? */
  readonly isCurrent: (typeUrl: string, glob: ResourceName) => boolean;
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

/** The missing names of an authority. */
interface Missing {
  readonly hold: RemovalHold<MissingName>;
  /** `switch_wait`. */
  readonly waitMs: number;
  /** When the first of them was found to be missing. */
  readonly sinceMs: number;
  /** When a collection of the authority last got one more member. */
  grewMs: number;
}

/**
 * How long a growing authority keeps what it lacks. A control plane that has just started may answer that it has nothing,
 * and then sends its content in pieces, type after type (seed 154231).
 */
const MAX_GROWTH_MS = 60_000;

/** A removal whose source was lost before the decision is examined again after this time. */
const AGAIN_MS = 2_000;

export class MissingNames<Glob extends Remembering> {
  readonly #options: MissingNamesOptions<Glob>;
  readonly #byAuthority = new Map<string, Missing>();

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
      const hold = new RemovalHold<MissingName>({ ...policy.deletionGuard, all: true });
      known = { hold, waitMs: policy.switchWaitMs, sinceMs: nowMs, grewMs: -Infinity };
      this.#byAuthority.set(authority, known);
    }
    for (const member of missing) {
      const name = { key: `${glob.key} ${member}`, member, glob };
      known.hold.add({ typeUrl, name }, nowMs + policy.switchWaitMs);
    }
  }

  /** A collection of the authority has one more member. */
  handleGrowth(authority: string, nowMs: number): void {
    const missing = this.#byAuthority.get(authority);
    if (missing) missing.grewMs = nowMs;
  }

  /** @returns Infinity: no name waits */
  nextDeadlineMs(): number {
    const allMs = [...this.#byAuthority.values()].map(({ hold }) => hold.nextDeadlineMs());
    return Math.min(...allMs.filter((ms) => ms !== undefined));
  }

  handleTimer(nowMs: number): void {
    const { isCurrent, globOf, onHeldBack, onRemoved } = this.#options;
    for (const [authority, missing] of this.#byAuthority) {
      const { hold, waitMs, sinceMs, grewMs } = missing;
      const { known, undecided } = this.#nameCountsOf(authority);
      const quietMs = grewMs + waitMs;
      const isGrowing = nowMs < Math.min(quietMs, sinceMs + MAX_GROWTH_MS);
      const { due, guarded } = hold.takeDue(known + undecided, nowMs, {
        isOpen: ({ typeUrl, name }) => isGrowing || !isCurrent(typeUrl, name.glob),
        undecided,
        againAtMs: isGrowing ? quietMs : nowMs + AGAIN_MS,
      });
      if (guarded) onHeldBack?.({ authority, ...guarded });
      for (const { typeUrl, name } of due) {
        const entry = globOf(typeUrl, name.glob);
        if (entry?.collection.settleRemembered(name.member, nowMs) === true) onRemoved(entry);
      }
      if (hold.size === 0) this.#endDoubts(authority);
    }
  }

  #endDoubts(authority: string): void {
    this.#byAuthority.delete(authority);
    for (const entry of this.#options.globs()) {
      const { collection } = entry;
      if (collection.glob.authority !== authority || !collection.isDoubted) continue;
      collection.isDoubted = false;
      this.#options.onSettled(entry);
    }
  }

  /**
   * The names in all collections of an authority. `known`: members, and remembered names that it is known to lack or not.
   * `undecided`: remembered names whose collection has had no answer yet. Names of a collection that its source can never
   * prove to be whole do not count: whatever the source lost, they stay.
   */
  #nameCountsOf(authority: string): { readonly known: number; readonly undecided: number } {
    let known = 0;
    let undecided = 0;
    for (const { collection, error } of this.#options.globs()) {
      if (collection.glob.authority !== authority) continue;
      const { complete, proven, nameCount, members } = collection;
      known += proven ? nameCount : members.size;
      if (!complete && error === undefined) undecided += nameCount - members.size;
    }
    return { known, undecided };
  }
}
