/**
 * The served names of one group that the candidate in use lacks: which ones these are, and when they may be removed. Silence and a
 * response in parts prove nothing, and the deletion guard judges all of them together (removal-hold.ts). Bulk machine without IO.
 */
import type { FailoverPolicy } from '../../../config/model.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import { isConfirmation } from '../projection.js';
import { AbsenceSearch } from './absence-search.js';
import type { Candidate } from './candidate.js';
import type { InUse } from './demand.js';
import { RemovalHold, type DueRemovals, type HeldName } from './removal-hold.js';
import type { Served, ServedNames } from './served-names.js';
import type { TurnRoom } from './turn-room.js';
import type { WholeWaits } from './whole-waits.js';
import type { Asked } from './candidate-content.js';

const NOTHING_DUE: DueRemovals = { due: [], guarded: undefined, kept: [] };

export interface AbsentNamesOptions {
  readonly failover: FailoverPolicy;
  readonly primary: Candidate;
  readonly inUse: () => InUse;
  readonly served: ServedNames;
  /** The collections of which further members may come. */
  readonly wholeWaits: WholeWaits<Asked>;
  /** Of all groups. */
  readonly room: TurnRoom;
}

export class AbsentNames {
  readonly #options: AbsentNamesOptions;
  readonly #removals: RemovalHold;
  /** For served resources that the primary lacks. */
  readonly #search: AbsenceSearch;

  constructor(options: AbsentNamesOptions) {
    this.#options = options;
    this.#search = new AbsenceSearch(options.primary);
    this.#removals = new RemovalHold(options.failover.deletionGuard);
  }

  /** How many removals are held back. */
  get size(): number {
    return this.#removals.size;
  }

  /** How many of them the guard holds back. */
  get guardedCount(): number {
    return this.#removals.guardedCount;
  }

  /** Names are still to be compared, judged or removed in the next turn of the event loop. */
  get isBusy(): boolean {
    return !this.#search.isOver || this.#removals.isBusy;
  }

  get nextMs(): number | undefined {
    return this.#removals.nextDeadlineMs();
  }

  /** Is the removal of this name held back? */
  has(typeUrl: string, name: ResourceName): boolean {
    return this.#removals.has(typeUrl, name);
  }

  /** Compares these resources with what the primary has, and holds back the removals of those that it lacks. */
  search(served: Iterable<Served>, nowMs: number): void {
    this.#search.add(served);
    this.continueSearch(nowMs);
  }

  continueSearch(nowMs: number): void {
    for (const absent of this.#search.continue(this.#options.room)) this.holdBack(absent, nowMs);
  }

  holdBack({ typeUrl, name }: HeldName, nowMs: number): void {
    this.#removals.add({ typeUrl, name }, nowMs + this.#options.failover.switchWaitMs);
  }

  /**
   * The candidate sent the name after all: it is still loading, so the others wait, too.
   *
   * @returns whether the name was held back
   */
  handleSent(typeUrl: string, name: ResourceName, nowMs: number): boolean {
    return this.#removals.cancel(typeUrl, name, nowMs + this.#options.failover.switchWaitMs);
  }

  /** The name is not served any more. */
  forget(typeUrl: string, name: ResourceName): void {
    this.#removals.cancel(typeUrl, name);
  }

  clear(): void {
    this.#removals.clear();
    this.#search.clear();
  }

  /**
   * Judges the due removals together with all names found absent meanwhile. A move or a search in progress uses up the room of
   * the turn, so the guard then waits.
   */
  takeDue(nowMs: number): DueRemovals {
    const { inUse, failover, served, room } = this.#options;
    const { source } = inUse().candidate;
    if (source.isMidResponse === true || source.isComparing === true) return NOTHING_DUE;
    const { wellSinceMs } = source.facts();
    const open = {
      isOpen: (held: HeldName) => this.#isOpen(held),
      undecided: (openCount: number) => Math.max(0, this.#lackingCount() - openCount),
      againAtMs: nowMs + failover.switchWaitMs,
      guardedUntilMs: () => (wellSinceMs ?? nowMs) + failover.deletionGuard.waitMs,
      confirmsNone: (typeUrl: string) => this.#confirmsNone(typeUrl),
    };
    return this.#removals.takeDue(() => served.count, nowMs, open, room);
  }

  /** The candidate in use may still send this resource. A candidate that was lost meanwhile answers on its next stream. */
  #isOpen({ typeUrl, name }: HeldName): boolean {
    const { source, mapping } = this.#options.inUse().candidate;
    if (!source.facts().live) return true;
    if (source.contents.answerFor(typeUrl, mapping.toSource(name)) === 'requested') return true;
    return this.#options.wholeWaits.covers(typeUrl, name);
  }

  /**
   * Number of served members that the source lacks, of collections that are not whole yet. The caller subtracts the open
   * names: the held-back ones among these members, and a few others.
   */
  #lackingCount(): number {
    const { source, mapping } = this.#options.inUse().candidate;
    let count = 0;
    for (const { typeUrl, name } of this.#options.wholeWaits.open()) {
      const sentCount = source.contents.memberCount(typeUrl, mapping.toSource(name));
      count += Math.max(0, this.#options.served.members(typeUrl, name).size - sentCount);
    }
    return count;
  }

  /**
   * Has the candidate in use confirmed, on its present stream, none of the type's served names that stay? go-control-plane
   * has a cache for each type, which may fill later than the others. It names what it lacks of the names whose versions it
   * got, and is silent about the one name of each type whose version the gateway leaves out (`DeltaStream`).
   */
  #confirmsNone(typeUrl: string): boolean {
    const { index, candidate } = this.#options.inUse();
    const { source, mapping } = candidate;
    const { contents } = source;
    for (const { projection, from } of this.#options.served.ofType(typeUrl)) {
      const { name } = projection;
      if (from !== index) continue;
      if (this.#removals.has(typeUrl, name) || !isConfirmation(projection)) continue;
      const sourceName = mapping.toSource(name);
      // What the gateway rejected says nothing: it still serves the content from before (seed 141083).
      if (contents.isRejected(typeUrl, sourceName)) continue;
      const asked =
        contents.subscription(typeUrl, sourceName) ?? contents.globOf(typeUrl, sourceName);
      if (asked?.status !== 'requested' && asked?.status !== 'timed_out') return false;
    }
    return true;
  }
}
