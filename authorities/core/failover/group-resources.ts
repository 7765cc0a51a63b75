/**
 * The demands of one failover group, the resources that it serves for them, and the events that it
 * sends to watchers. failover-group.ts decides which candidate is in use; this file decides what
 * that means for each name (table "What a client sees" in docs/FAILOVER.md). Bulk machine without
 * IO.
 */
import type { AuthoritySpec } from '../../../config/model.js';
import { STATUS_CODE, type RpcStatus } from '../../../protos/discovery.js';
import { globKeyOf, type ResourceName } from '../../../protos/resource-name.js';
import { typeRank } from '../../../protos/type-urls.js';
import { TypedMap } from '../../../protos/typed-map.js';
import { AbsentNames } from './absent-names.js';
import type { Candidate } from './candidate.js';
import { entriesOf, projectedAs, statusAt, type Asked } from './candidate-content.js';
import type { Demand, InUse } from './demand.js';
import { absenceOf, answerOf, isIncomplete, mayAddMembers } from './demand-answer.js';
import { isSame, lacksEndpoints, withAlternatives, type Projection } from '../projection.js';
import { Move } from './move.js';
import type { HeldName } from './removal-hold.js';
import type { GroupLastKnown } from './last-known.js';
import { ADOPTED, ServedNames, type Served } from './served-names.js';
import type { SourceChange, SourceEntry } from '../sources/source-contents.js';
import { TtlLeases } from './ttl-leases.js';
import type { TurnRoom } from './turn-room.js';
import { UnansweredDemands } from './unanswered-demands.js';
import type { NameEvent, ResourceEvent } from './resource-events.js';
import { WholeWaits } from './whole-waits.js';
import { soonestOf } from '../soonest.js';

/** Content of the candidate in use. */
interface Sent {
  readonly entry: SourceEntry;
  /** The candidate may have lost a part of it: see `SourceChange`. */
  readonly isDoubtful?: boolean | undefined;
}

/** To tell that a collection is whole costs as much as to move this many names. */
const WHOLE = 1 / 2;

export class GroupResources {
  readonly #spec: AuthoritySpec;
  readonly #inUse: () => InUse;
  readonly #demands = new TypedMap<Demand>();
  readonly #served = new ServedNames();
  readonly #absent: AbsentNames;
  readonly #room: TurnRoom;
  readonly #leases = new TtlLeases(this.#served);
  readonly #unanswered: UnansweredDemands<Demand>;
  readonly #wholeWaits: WholeWaits<Demand>;
  readonly #lastKnown: GroupLastKnown<Demand> | undefined;
  /** The last one; undefined: none since the group was idle. */
  #move: Move<Demand> | undefined;
  #isWithheld = false;
  #events: ResourceEvent[] = [];

  /**
   * @param room of all groups
   * @param lastKnown undefined: no content is kept beyond the process
   */
  constructor(
    spec: AuthoritySpec,
    primary: Candidate,
    inUse: () => InUse,
    room: TurnRoom,
    lastKnown: GroupLastKnown<Demand> | undefined,
  ) {
    this.#spec = spec;
    this.#room = room;
    this.#lastKnown = lastKnown;
    this.#inUse = inUse;
    this.#wholeWaits = new WholeWaits(spec.failover.switchWaitMs);
    const { failover } = spec;
    const [served, wholeWaits] = [this.#served, this.#wholeWaits];
    this.#absent = new AbsentNames({ failover, primary, inUse, served, wholeWaits, room });
    this.#unanswered = new UnansweredDemands(spec.failover.unavailableAfterMs, (demand) =>
      this.#isUnanswered(demand),
    );
  }

  get demandCount(): number {
    return this.#demands.size;
  }

  get servedCount(): number {
    return this.#served.count;
  }

  /** Has no source sent any of what the group serves? It took all of it over (`ADOPTED`). */
  get isAllAdopted(): boolean {
    return this.#served.isAllAdopted;
  }

  get guardedCount(): number {
    return this.#absent.guardedCount;
  }

  /**
   * The group serves only what it took over from an earlier process or map: the source in use has confirmed none of it, and
   * lacks some. While removals of it are held back, nothing else counts as absent (seed 2980).
   */
  get isUnconfirmed(): boolean {
    return this.#served.isAllAdopted && this.#absent.size > 0;
  }

  /**
   * The candidate in use has content that it sent before it was lost, and the group serves what it took over instead: clients
   * may have moved on since (an edit of the map may replace the alternative during an outage).
   */
  get isWithheld(): boolean {
    return this.#isWithheld;
  }

  demands(): IterableIterator<Demand> {
    return this.#demands.values();
  }

  isDemanded(typeUrl: string, name: ResourceName): boolean {
    return this.#demands.has(typeUrl, name.key);
  }

  served(typeUrl: string, name: ResourceName): Served | undefined {
    return this.#served.get(typeUrl, name);
  }

  /** Does the group serve this name, or for a glob any member? */
  holds(typeUrl: string, name: ResourceName): boolean {
    return this.#served.holds(typeUrl, name);
  }

  *servedResources(): IterableIterator<Projection> {
    for (const { projection } of this.#served.all()) yield projection;
  }

  takeEvents(): readonly ResourceEvent[] {
    if (this.#events.length === 0) return [];
    const taken = this.#events;
    this.#events = [];
    return taken;
  }

  // ---- demand -------------------------------------------------------------------------------

  add(typeUrl: string, name: ResourceName, nowMs: number): Demand {
    const demand: Demand = {
      typeUrl,
      name,
      requestedAtMs: nowMs,
      lastErrorCode: undefined,
      isWhole: false,
      isAnswered: false,
      restored: 'no',
    };
    this.#demands.set(typeUrl, name.key, demand);
    this.#unanswered.push(demand);
    return demand;
  }

  /** The last watcher left: the group drops the resources without an event. */
  remove(typeUrl: string, name: ResourceName): Demand | undefined {
    const demand = this.#demands.get(typeUrl, name.key);
    if (!demand) return undefined;
    this.#demands.delete(typeUrl, name.key);
    this.#move?.leave(demand);
    this.#wholeWaits.end(demand);
    const others = this.#demands.ofType(typeUrl);
    const covered = this.#absent.size > 0 ? this.covered(demand) : [];
    if (name.isGlob) this.#served.dropMembers(typeUrl, name, others);
    else if (!others.has(globKeyOf(name))) this.#served.delete(typeUrl, name);
    for (const { projection } of covered)
      if (!this.#served.get(typeUrl, projection.name))
        this.#absent.forget(typeUrl, projection.name);
    return demand;
  }

  /** Is there a demand for which the group has neither content nor an answer? */
  hasUncached(): boolean {
    for (const { typeUrl, name, isAnswered } of this.#demands.values()) {
      if (!isAnswered && !this.#served.holds(typeUrl, name)) return true;
    }
    return false;
  }

  /** The candidate in use may have content or an answer for a new demand already. */
  handleWanted(demand: Demand, nowMs: number): void {
    // The guard of the group that served it before may have held back what the candidate has.
    const hasAdopted = this.#adopted(demand).length > 0;
    const { candidate } = this.#inUse();
    // A source that is away has what it sent before it was lost: see `isWithheld`.
    const isOlder = hasAdopted && !candidate.source.facts().live;
    for (const entry of entriesOf(candidate, demand)) {
      if (isOlder) this.#isWithheld = true;
      else this.#serveTo(demand, { entry, isDoubtful: hasAdopted }, nowMs);
    }
    if (hasAdopted) this.#judgeAdopted(demand, nowMs);
    this.#tellAnswer(demand, nowMs);
  }

  #adopted(demand: Demand): readonly Served[] {
    return this.covered(demand).filter(({ from }) => from === ADOPTED);
  }

  /**
   * Queues removals of adopted resources that the primary lacks. It may have lacked them long
   * before this group adopted them, so no event reports it. While the primary is away, nothing is
   * queued: its return compares all served resources.
   */
  #judgeAdopted(demand: Demand, nowMs: number): void {
    const adopted = this.#adopted(demand);
    const { index, candidate } = this.#inUse();
    const isJudge = adopted.length > 0 && index === 0 && candidate.source.facts().live;
    if (isJudge) this.#absent.search(adopted, nowMs);
  }

  /**
   * The events that tell a new watcher the whole state of a demanded name.
   *
   * @param isUnreachable no candidate of the group is reachable
   */
  replay(typeUrl: string, name: ResourceName, isUnreachable: boolean): readonly NameEvent[] {
    const demand = this.#demands.get(typeUrl, name.key);
    /* c8 ignore next -- a watched name with a group is a demand of this group */
    if (!demand) return [];
    const events: NameEvent[] = [];
    for (const { projection } of this.covered(demand)) events.push({ kind: 'changed', projection });
    const answer = this.#answerOf(demand);
    const failed = isUnreachable || demand.lastErrorCode !== undefined;
    if (answer) events.push(answer);
    else if (failed && !this.#served.holds(typeUrl, name)) {
      events.push({ kind: 'unavailable', typeUrl, name, status: undefined });
    }
    return events;
  }

  /**
   * Takes over what another group of the authority served, and keeps it until the primary
   * contradicts.
   */
  adopt(other: GroupResources, isOurs: (typeUrl: string, name: ResourceName) => boolean): void {
    for (const served of other.#served.all()) {
      const { typeUrl, name } = served.projection;
      if (isOurs(typeUrl, name)) this.adoptOne(served);
    }
  }

  adoptOne({ projection, endsMs, isKept = false }: Served): void {
    const { then } = this.#spec.failover.deletionGuard;
    const noted = projection.alternatives;
    this.#leases.keep({
      projection,
      from: ADOPTED,
      noted,
      endsMs,
      isKept: isKept && then === 'keep',
    });
  }

  /** Call this before the group unsubscribes at a candidate. */
  keepEnds(index: number, candidate: Candidate): void {
    this.#leases.takeAll(index, candidate);
  }

  /** See `TtlLeases.handOver`. */
  noteEnd(typeUrl: string, name: ResourceName, index: number, endsMs: number | undefined): void {
    this.#leases.noteEnd(typeUrl, name, index, endsMs);
  }

  clear(): void {
    this.#served.clear();
    this.#absent.clear();
    this.#leases.clear();
    this.#wholeWaits.clear();
    this.#lastKnown?.stopRestoration();
    this.#move = undefined;
    this.#isWithheld = false;
  }

  // ---- responses of the candidate in use ----------------------------------------------------

  handleChange(change: SourceChange, nowMs: number): void {
    const { candidate } = this.#inUse();
    const { entry, isDoubtful: hasAdopted } = change;
    if (entry) {
      this.#serve({ entry, isDoubtful: hasAdopted }, nowMs);
      return;
    }
    for (const name of this.#asked(change.typeUrl, candidate.mapping.toAsked(change.name))) {
      this.#handleAnswer(change, name, nowMs);
    }
  }

  #handleAnswer(change: SourceChange, name: ResourceName, nowMs: number): void {
    const { kind, typeUrl } = change;
    const demand = this.#demands.get(typeUrl, name.key);
    if (kind === 'removed') this.#handleRemoval(change, name, nowMs);
    else if (kind === 'settled' && demand?.name.isGlob) {
      this.#handleSettled(demand, nowMs);
    } else if (kind === 'timed_out' && demand) {
      // A later part of the same response may have answered the name.
      const isOpen = statusAt(this.#inUse().candidate, demand) === 'timed_out';
      if (isOpen) this.#tellAnswer(demand, nowMs);
    }
  }

  #handleSettled(demand: Demand, nowMs: number): void {
    const { index, candidate } = this.#inUse();
    // A new stream sends the collection again, so the wait for all members starts again.
    this.#wholeWaits.end(demand);
    demand.isWhole = !mayAddMembers(candidate, demand);
    if (demand.isWhole && index === 0) this.#absent.search(this.covered(demand), nowMs);
    this.#tellAnswer(demand, nowMs);
  }

  /**
   * Another candidate is in use now, or the content of the one in use is no longer withheld.
   *
   * @returns the move to it, which the caller continues
   */
  handleSwitch(): Move<Demand> {
    this.#isWithheld = false;
    this.#absent.clear();
    this.#wholeWaits.clear();
    const inOrder = this.#demandsInOrder();
    for (const demand of inOrder) {
      demand.isWhole = false;
      demand.isAnswered = false;
    }
    const { index, candidate } = this.#inUse();
    const move = new Move({
      candidate,
      demands: inOrder,
      served: this.#served,
      // Changed content is sent at once, removals only later.
      serve: (demand, entry, nowMs) => this.#serveTo(demand, { entry, isDoubtful: true }, nowMs),
      // Watchers did not get the answers that the candidate gave before it was in use.
      onMoved: (demand, nowMs) => {
        this.#tellAnswer(demand, nowMs);
      },
      onKept: (kept, nowMs) => {
        if (index === 0) this.#absent.holdBack(kept, nowMs);
      },
    });
    this.#move = move;
    return move;
  }

  #demandsInOrder(): readonly Demand[] {
    return [...this.#demands.values()].sort((a, b) => typeRank(a.typeUrl) - typeRank(b.typeUrl));
  }

  /** Do its watchers have the content and the answer of the candidate in use? */
  hasMoved(typeUrl: string, name: ResourceName): boolean {
    const demand = this.#demands.get(typeUrl, name.key);
    return demand === undefined || this.#move?.isWaiting(demand) !== true;
  }

  /**
   * Queues removals of the served resources that the primary lacks: the primary's absence is proof,
   * an alternative's is not. They wait `switch_wait`, since further members may follow the response
   * that completed the set.
   */
  queueAbsentRemovals(nowMs: number): void {
    this.#absent.search(this.#served.all(), nowMs);
  }

  /** Served resources are still to be compared, judged or removed in the next turn of the event loop. */
  get isBusy(): boolean {
    const isRestoring = this.#lastKnown?.isRestoring === true;
    return this.#absent.isBusy || isRestoring;
  }

  /** The group is in the state `cached`: no candidate can be used, or the policy prefers the cache. */
  handleCached(): void {
    this.#lastKnown?.stopRestoration();
    for (const demand of this.#demandsInOrder()) this.serveFromCache(demand);
  }

  /** Serves one demand from what an earlier process kept, or tells its watchers that it is unavailable. */
  serveFromCache(demand: Demand): void {
    // What a source of this process has answered is newer than what an earlier process kept.
    const isOpen = demand.restored === 'no' && !demand.isAnswered;
    if (this.#lastKnown && isOpen) this.#lastKnown.restore(demand);
    else this.#tellUnavailable(demand);
  }

  /** Serves what an earlier process kept, in portions, until a candidate responds. */
  #continueRestoration(): void {
    const lastKnown = this.#lastKnown;
    if (lastKnown?.isRestoring !== true) return;
    if (this.#inUse().candidate.source.facts().live) lastKnown.stopRestoration();
    for (const { demand, projection } of lastKnown.continueRestoration(this.#room)) {
      if (!this.#isCurrent(demand)) continue;
      if (projection) this.#restore(projection);
      else this.#endRestoration(demand, lastKnown.isWhole(demand));
    }
  }

  #restore(kept: Projection): void {
    if (this.#served.get(kept.typeUrl, kept.name)) return;
    const projection: Projection = { ...kept, isRestored: true };
    this.adoptOne({ projection, from: ADOPTED });
    this.#events.push({ kind: 'changed', projection });
  }

  /** A source has answered, and what the disk had stays: from now on it counts like content that a source sent. */
  #confirm(typeUrl: string, name: ResourceName): void {
    const served = this.#served.get(typeUrl, name);
    if (served?.projection.isRestored !== true) return;
    const projection = { ...served.projection, isRestored: false };
    this.#served.set({ ...served, projection });
    this.#events.push({ kind: 'confirmed', projection });
  }

  #endRestoration(demand: Demand, isWhole: boolean): void {
    demand.restored = isWhole ? 'whole' : 'some';
    const answer = this.#answerOf(demand);
    if (answer) this.#events.push(answer);
    this.#tellUnavailable(demand);
  }

  handleTimer(nowMs: number): void {
    this.#continueRestoration();
    this.#noteWhole(nowMs);
    this.#absent.continueSearch(nowMs);
    this.#takeDueRemovals(nowMs);
    for (let end = this.#leases.takeDue(nowMs); end; end = this.#leases.takeDue(nowMs)) {
      this.#expire(end.typeUrl, end.name, nowMs);
    }
    for (let one = this.#unanswered.takeDue(nowMs); one; one = this.#unanswered.takeDue(nowMs)) {
      // While the stream of the candidate in use is live, the per-name timeout of that source
      // decides.
      if (!this.#inUse().candidate.source.facts().live) this.#tellUnavailable(one);
    }
  }

  #takeDueRemovals(nowMs: number): void {
    const { due, guarded, kept } = this.#absent.takeDue(nowMs);
    for (const { typeUrl, name } of kept) {
      this.#served.keep(typeUrl, name);
      this.#confirm(typeUrl, name);
    }
    if (guarded) this.#events.push({ kind: 'guarded', ...guarded });
    for (const held of due) this.#settleHeld(held, nowMs);
  }

  /**
   * Ends the wait of whole collections. Queues removals of missing members if the primary is in
   * use; absence at an alternative proves nothing.
   */
  #noteWhole(nowMs: number): void {
    const { index, candidate } = this.#inUse();
    const { contents, isMidResponse = false } = candidate.source;
    // What the source sent may still have members.
    const lastArrivalMs = (typeUrl: string): number =>
      isMidResponse ? nowMs : contents.lastArrivalMs(typeUrl);
    const mayEnd = (): boolean => this.#room.take(WHOLE);
    for (const demand of this.#wholeWaits.takeDue(nowMs, lastArrivalMs, mayEnd)) {
      // If the stream was lost, the next stream's response restarts the wait.
      if (!candidate.source.facts().live || statusAt(candidate, demand) !== 'present') continue;
      demand.isWhole = true;
      if (index === 0) this.#absent.search(this.covered(demand), nowMs);
      this.#tellAnswer(demand, nowMs);
    }
  }

  nextDeadlineMs(): number | undefined {
    return soonestOf(
      this.#wholeWaits.nextMs,
      this.#absent.nextMs,
      this.#unanswered.nextMs,
      this.#leases.nextMs,
    );
  }

  #isUnanswered(demand: Demand): boolean {
    const { typeUrl, name, lastErrorCode } = demand;
    const isOpen = lastErrorCode === undefined && !this.#served.holds(typeUrl, name);
    return isOpen && this.#isCurrent(demand);
  }

  /** Does a client still request it? */
  #isCurrent(demand: Demand): boolean {
    return this.#demands.get(demand.typeUrl, demand.name.key) === demand;
  }

  // ---- served resources ---------------------------------------------------------------------

  /** @returns whether what clients see has changed. */
  #serve(sent: Sent, nowMs: number): boolean {
    let changed = false;
    const { typeUrl, name: published } = sent.entry.projection;
    const { mapping } = this.#inUse().candidate;
    for (const name of this.#asked(typeUrl, mapping.toAsked(published))) {
      changed = this.#serveAs(name, sent, nowMs) || changed;
    }
    return changed;
  }

  /**
   * The names among these that clients request as this type. One resource of a source may be for several: with and without
   * parameters (TP2).
   */
  #asked(typeUrl: string, names: readonly ResourceName[]): readonly ResourceName[] {
    if (names.length < 2) return names;
    const demands = this.#demands.ofType(typeUrl);
    return names.filter((name) => demands.has(name.key) || demands.has(globKeyOf(name)));
  }

  /** Serves one demand only: names with the same alternative are served by their own demands. */
  #serveTo({ name }: Demand, sent: Sent, nowMs: number): boolean {
    return name.isGlob ? this.#serve(sent, nowMs) : this.#serveAs(name, sent, nowMs);
  }

  #serveAs(name: ResourceName, { entry, isDoubtful = false }: Sent, nowMs: number): boolean {
    const { index, candidate } = this.#inUse();
    const projected = projectedAs(candidate, name, entry);
    if (!projected.ok) {
      this.#events.push({ kind: 'refused', name, reason: projected.reason });
      return false;
    }
    // Clients keep what the disk had until a redirect leads to content.
    if (projected.projection.redirect) this.#confirm(projected.projection.typeUrl, name);
    const before = this.#served.get(projected.projection.typeUrl, name);
    const noted =
      candidate.authority === this.#spec.name ? projected.projection.alternatives : before?.noted;
    const projection = withAlternatives(projected.projection, noted);
    if (lacksEndpoints(projection) && this.#keepsEndpoints(projection, isDoubtful, nowMs)) {
      return false;
    }
    this.#served.set({ projection, from: index, noted });
    if (this.#lastKnown && (before?.from !== index || !isSame(before.projection, projection)))
      this.#lastKnown.handleServed(projection, entry, candidate.source.id);
    const seemedGone = this.#absent.handleSent(projection.typeUrl, name, nowMs);
    // A member that another candidate sent before extends the wait too: this candidate has just
    // sent it.
    if (before?.from !== index || seemedGone) {
      this.#wholeWaits.handleMember(projection.typeUrl, name, nowMs);
    }
    const { version, mapEntry } = projection;
    // After a switch the entries of an unchanged list may lead to other names.
    if (before?.projection.version !== version || before.projection.mapEntry !== mapEntry) {
      this.#events.push({
        kind: 'changed',
        projection,
        ...(before && { before: before.projection }),
      });
      if (!before && index !== 0) this.#noteFirstMember(projection, nowMs);
      return true;
    }
    if (before.projection.isRestored === true) this.#events.push({ kind: 'confirmed', projection });
    if (!isSame(before.projection, projection)) this.#events.push({ kind: 'noted', projection });
    return false;
  }

  /** Watchers were told that a collection without members at the alternative is unavailable: now it has an answer. */
  #noteFirstMember({ typeUrl, name }: Projection, nowMs: number): void {
    const glob = this.#demands.get(typeUrl, globKeyOf(name));
    if (glob?.isWhole !== true || glob.lastErrorCode === undefined) return;
    glob.lastErrorCode = undefined;
    this.#tellAnswer(glob, nowMs);
  }

  /**
   * An assignment without endpoints is a removal to clients, and the deletion guard judges it as one.
   *
   * @returns whether clients keep the endpoints that they have
   */
  #keepsEndpoints(empty: Projection, isDoubtful: boolean, nowMs: number): boolean {
    const { typeUrl, name } = empty;
    // A process that has just started does not know them, but an earlier one may have kept them.
    const isUnknown = isDoubtful && !this.#served.get(typeUrl, name) && !this.#isAnswered(empty);
    const kept = isUnknown ? this.#lastKnown?.kept(typeUrl, name) : undefined;
    if (kept && !lacksEndpoints(kept)) this.#restore(kept);
    const served = this.#served.get(typeUrl, name);
    if (!served || served.projection.redirect || lacksEndpoints(served.projection)) return false;
    if (isDoubtful || this.#absent.has(typeUrl, name)) this.#absent.holdBack(empty, nowMs);
    return served.isKept === true || this.#absent.has(typeUrl, name);
  }

  /** Has the source in use said that it lacks the name, or sent all of its collection? */
  #isAnswered({ typeUrl, name }: Asked): boolean {
    const keys = [name.key, globKeyOf(name)];
    return keys.some((key) => this.#demands.get(typeUrl, key)?.isAnswered === true);
  }

  /** The candidate in use removed a name or reported it absent. */
  #handleRemoval({ typeUrl, isDoubtful }: SourceChange, name: ResourceName, nowMs: number): void {
    const { index } = this.#inUse();
    const served = this.#served.get(typeUrl, name);
    if (!served) {
      const demand = this.#demands.get(typeUrl, name.key);
      // For a name never served, only the primary can prove absence.
      if (demand && index === 0) {
        demand.isAnswered = true;
        this.#events.push({
          kind: 'absent',
          ...absenceOf(this.#inUse().candidate, { typeUrl, name }),
        });
        this.#lastKnown?.handleAbsent(typeUrl, name);
      } else if (demand) this.#tellUnavailable(demand);
      return;
    }
    // Kept from another candidate: absence at an alternative proves nothing.
    if (served.from !== index && index !== 0) return;
    // Wait: the first responses of the other types are still to come, and the deletion guard must
    // judge all removals together.
    if (isDoubtful) this.#absent.holdBack(served.projection, nowMs);
    else this.#remove(typeUrl, name);
  }

  /**
   * Silence proves no absence: what a new stream lacks is queued again once it has answered. If the source has content without
   * endpoints that was held back, the group serves it now.
   */
  #settleHeld({ typeUrl, name }: HeldName, nowMs: number): void {
    if (this.#serveHeld(typeUrl, name, nowMs)) return;
    const { source, mapping } = this.#inUse().candidate;
    const isAbsent = source.contents.answerFor(typeUrl, mapping.toSource(name)) === 'absent';
    if (isAbsent) this.#remove(typeUrl, name);
  }

  /** @returns whether the candidate in use has content for the name */
  #serveHeld(typeUrl: string, name: ResourceName, nowMs: number): boolean {
    const { source, mapping } = this.#inUse().candidate;
    const entry = source.contents.entry(typeUrl, mapping.toSource(name));
    if (entry) this.#serveAs(name, { entry }, nowMs);
    return entry !== undefined;
  }

  #remove(typeUrl: string, name: ResourceName): void {
    const stays = this.#spec.ignoreDeletion || this.#served.get(typeUrl, name)?.isKept === true;
    if (stays) this.#confirm(typeUrl, name);
    if (stays || !this.#served.delete(typeUrl, name)) return;
    // An assignment may be deleted while its loss of endpoints is held back.
    this.#absent.forget(typeUrl, name);
    this.#lastKnown?.drop(typeUrl, name);
    this.#noteAnswered(typeUrl, name, true);
    this.#events.push({
      kind: 'removed',
      ...absenceOf(this.#inUse().candidate, { typeUrl, name }),
    });
  }

  #noteAnswered(typeUrl: string, name: ResourceName, isAnswered: boolean): void {
    const demand = this.#demands.get(typeUrl, name.key);
    if (demand) demand.isAnswered = isAnswered;
  }

  /** A TTL ran out. This is not a deletion: the deletion guard and `ignore_deletion` do not apply. */
  handleExpired(typeUrl: string, name: ResourceName, index: number, nowMs: number): void {
    if (this.#served.get(typeUrl, name)?.from === index) this.#expire(typeUrl, name, nowMs);
  }

  #expire(typeUrl: string, name: ResourceName, nowMs: number): void {
    this.#served.delete(typeUrl, name);
    this.#absent.forget(typeUrl, name);
    // Serve content that was held back because it has no endpoints.
    this.#serveHeld(typeUrl, name, nowMs);
    if (this.#served.get(typeUrl, name)) return;
    this.#noteAnswered(typeUrl, name, false);
    this.#events.push({ kind: 'removed', typeUrl, name, status: undefined });
  }

  /** The served resources of one demand: one resource, or the members of a glob. */
  covered({ typeUrl, name }: Asked): readonly Served[] {
    if (name.isGlob) return [...this.#served.members(typeUrl, name).values()];
    const served = this.#served.get(typeUrl, name);
    return served ? [served] : [];
  }

  // ---- events beside content ----------------------------------------------------------------

  /** Sends the answer of the candidate in use for a demand. */
  #tellAnswer(demand: Demand, nowMs: number): void {
    if (statusAt(this.#inUse().candidate, demand) === 'timed_out')
      this.#confirm(demand.typeUrl, demand.name);
    const answer = this.#answerOf(demand);
    if (answer?.kind === 'unavailable') this.#tellUnavailable(demand, answer.status);
    else if (answer) {
      demand.isAnswered = true;
      this.#events.push(answer);
    }
    if (answer?.kind === 'absent') this.#lastKnown?.handleAbsent(demand.typeUrl, demand.name);
    const { candidate } = this.#inUse();
    if (answer?.kind === 'complete' && candidate.source.facts().live)
      this.#lastKnown?.handleWhole(demand, candidate.source.id, answer.isProof);
    const isOpen = isIncomplete(candidate, demand) && statusAt(candidate, demand) === 'present';
    if (isOpen) this.#wholeWaits.begin(demand, nowMs);
  }

  /** The answer of the candidate in use for a demand, without content. */
  #answerOf(demand: Demand): NameEvent | undefined {
    // Its content comes first.
    if (this.#move?.isWaiting(demand) === true) return undefined;
    const { typeUrl, name } = demand;
    return answerOf(this.#inUse(), demand, this.#served.holds(typeUrl, name));
  }

  #tellUnavailable(demand: Demand, status?: RpcStatus): void {
    const { typeUrl, name } = demand;
    const code = status?.code ?? STATUS_CODE.unavailable;
    if (demand.lastErrorCode === code || this.#served.holds(typeUrl, name)) return;
    demand.lastErrorCode = code;
    this.#events.push({ kind: 'unavailable', typeUrl, name, status });
  }
}
