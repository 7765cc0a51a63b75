/**
 * What one group wants, what it serves of that, and what those who watch are told of it. Which
 * candidate is in use is decided in failover-group.ts; what follows from that for each name is decided here:
 * the table "What a client sees" of docs/FAILOVER.md. Bulk machine without IO.
 */
import type { AuthoritySpec } from '../../../config/model.js';
import { STATUS_CODE, type RpcStatus } from '../../../protos/discovery.js';
import { globKeyOf, type ResourceName } from '../../../protos/resource-name.js';
import { typeRank } from '../../../protos/type-urls.js';
import { TypedMap } from '../../../protos/typed-map.js';
import type { Candidate } from './candidate.js';
import { Expiries } from '../sources/expiries.js';
import { Fifo } from '../sources/fifo.js';
import { isSame, reproject, withAlternatives, type Projection } from '../projection.js';
import { RemovalHold, type HeldName } from './removal-hold.js';
import { ServedNames, type Served } from './served-names.js';
import type { SourceChange, SourceEntry, SubscriptionStatus } from '../sources/source-contents.js';

export interface Demand {
  readonly typeUrl: string;
  readonly name: ResourceName;
  readonly askedAtMs: number;
  /** With this code whoever waits was told that nothing can be said for now. */
  toldCode: number | undefined;
  /** Of a glob: the candidate in use sent all of it. Before that, a missing member may be on its way. */
  isWhole: boolean;
}

/** That there is nothing (more) under a name, and why, if the source said so. */
interface Absence {
  readonly typeUrl: string;
  readonly name: ResourceName;
  readonly status: RpcStatus | undefined;
}

/** What watchers, and those who look on, are told; `name` is always the asked one. */
export type ViewEvent =
  | {
      readonly kind: 'changed';
      readonly projection: Projection;
      /** What was told of the name until now. */
      readonly before?: Projection;
    }
  /** What its references say of other names is new; its content is not. */
  | { readonly kind: 'noted'; readonly projection: Projection }
  /** A served resource went. */
  | ({ readonly kind: 'removed' } & Absence)
  /** An asked name does not exist. */
  | ({ readonly kind: 'absent' } & Absence)
  /** An asked glob is answered: what it has was told, and if nothing was, it is empty. */
  | ({ readonly kind: 'complete'; readonly isProof: boolean } & Absence)
  /**
   * Nothing is held under an asked name, and nobody can be asked; or the source in use answers with an
   * error that says nothing of it, which `status` is.
   */
  | ({ readonly kind: 'unavailable' } & Absence)
  /** The deletion guard holds back so many removals. */
  | { readonly kind: 'guarded'; readonly names: number; readonly untilMs: number }
  /** Content of a candidate that cannot be served under the asked name. */
  | { readonly kind: 'refused'; readonly name: ResourceName; readonly reason: string };

/** Of a glob that is answered and not whole yet. */
interface WholeWait {
  /** As it was asked last. */
  demand: Demand;
  /** When it is whole, unless more comes. */
  readonly wholeAtMs: number;
  /** When it counts as whole, though more comes. */
  readonly atMostMs: number;
}

/** The candidate in use. */
export interface InUse {
  readonly index: number;
  readonly candidate: Candidate;
}

/**
 * A server sends a collection in as many messages as it likes, up to `switch_wait` apart, and nothing
 * marks the last one. The collection is whole when none came for a moment more than that.
 */
const WHOLE_MARGIN_MS = 500;
/** Where members come and come, the collection counts as whole after this time all the same. */
const WHOLE_AT_MOST_MS = 30_000;
/** Not the index of any candidate. */
const ADOPTED = -1;

export class GroupResources {
  readonly #spec: AuthoritySpec;
  readonly #primary: Candidate;
  readonly #inUse: () => InUse;
  readonly #demands = new TypedMap<Demand>();
  readonly #served = new ServedNames();
  readonly #removals: RemovalHold;
  /** TTLs of what is kept that its source removed, or cannot say since it was left. */
  readonly #ends = new Expiries((typeUrl, name) => this.#served.get(typeUrl, name)?.endsMs);
  /** Demands in the order of asking, until they are answered or told to be unavailable. */
  readonly #unanswered = new Fifo<Demand>();
  /** By type and key of the glob; the soonest first. */
  readonly #wholeWaits = new Map<string, WholeWait>();
  #events: ViewEvent[] = [];

  constructor(spec: AuthoritySpec, primary: Candidate, inUse: () => InUse) {
    this.#spec = spec;
    this.#primary = primary;
    this.#inUse = inUse;
    this.#removals = new RemovalHold(spec.failover.deletionGuard);
  }

  get demandCount(): number {
    return this.#demands.size;
  }

  get servedCount(): number {
    return this.#served.count;
  }

  get guardedCount(): number {
    return this.#removals.guardedCount;
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

  *servedResources(): IterableIterator<Projection> {
    for (const { projection } of this.#served.all()) yield projection;
  }

  takeEvents(): readonly ViewEvent[] {
    if (this.#events.length === 0) return [];
    const taken = this.#events;
    this.#events = [];
    return taken;
  }

  // ---- demand -------------------------------------------------------------------------------

  add(typeUrl: string, name: ResourceName, nowMs: number): Demand {
    const before = this.#demands.get(typeUrl, name.key);
    const demand: Demand = {
      typeUrl,
      name,
      askedAtMs: nowMs,
      toldCode: undefined,
      isWhole: before?.isWhole ?? false,
    };
    this.#demands.set(typeUrl, name.key, demand);
    // A new watcher brings no new member: it puts nothing off.
    const wait = this.#wholeWaits.get(keyOf(demand));
    if (wait) wait.demand = demand;
    this.#unanswered.push(demand);
    return demand;
  }

  /** Nobody wants it: it is not held, and nobody is told. */
  remove(typeUrl: string, name: ResourceName): Demand | undefined {
    const demand = this.#demands.get(typeUrl, name.key);
    if (!demand) return undefined;
    this.#demands.delete(typeUrl, name.key);
    this.#wholeWaits.delete(keyOf(demand));
    for (const { projection } of this.#covered(demand)) {
      const wanted =
        this.#demands.has(projection.typeUrl, projection.name.key) ||
        this.#demands.has(projection.typeUrl, globKeyOf(projection.name));
      if (!wanted) this.#served.delete(projection.typeUrl, projection.name);
    }
    return demand;
  }

  hasUncached(): boolean {
    for (const { typeUrl, name } of this.#demands.values()) {
      if (!this.#served.holds(typeUrl, name)) return true;
    }
    return false;
  }

  /** What a new watcher gets at once of what is known already. */
  replay(demand: Demand, nowMs: number): void {
    const known = this.#covered(demand);
    for (const entry of entriesOf(this.#inUse().candidate, demand)) {
      this.#serveTo(demand, entry, nowMs);
    }
    // Told again to those who know it: the new watcher does not.
    for (const { projection } of known) {
      const now = this.#served.get(projection.typeUrl, projection.name)?.projection;
      if (now?.version === projection.version) this.#events.push({ kind: 'changed', projection });
    }
    this.#tellAnswer(demand, nowMs);
  }

  /** Takes over what another group of the authority served: kept until the primary says otherwise. */
  adopt(other: GroupResources, isOurs: (name: ResourceName) => boolean): void {
    for (const { projection, endsMs } of other.#served.all()) {
      if (isOurs(projection.name)) this.adoptOne(projection, endsMs);
    }
  }

  adoptOne(projection: Projection, endsMs?: number): void {
    this.#keep({ projection, from: ADOPTED, noted: projection.alternatives, endsMs });
  }

  /** A candidate is about to be left: what is kept from it goes when it said. */
  keepEnds(index: number, { source, mapping }: Candidate): void {
    for (const served of this.#served.all()) {
      if (served.from !== index) continue;
      const { typeUrl, name } = served.projection;
      const entry = source.contents.entry(typeUrl, mapping.toSource(name));
      if (entry) this.#keep({ ...served, endsMs: entry.expiresAtMs });
    }
  }

  /** A candidate, in use or not, removed this (`endsMs`: within its TTL), or has it again. */
  noteEnd(typeUrl: string, name: ResourceName, index: number, endsMs: number | undefined): void {
    const served = this.#served.get(typeUrl, name);
    if (served?.from === index && served.endsMs !== endsMs) this.#keep({ ...served, endsMs });
  }

  #keep(served: Served): void {
    this.#served.set(served);
    const { projection, endsMs } = served;
    const { typeUrl, name } = projection;
    if (endsMs !== undefined) this.#ends.add({ atMs: endsMs, typeUrl, name });
  }

  clear(): void {
    this.#served.clear();
    this.#removals.clear();
    this.#ends.clear();
    this.#wholeWaits.clear();
  }

  // ---- what the candidate in use says -------------------------------------------------------

  handleChange(change: SourceChange, nowMs: number): void {
    const { candidate } = this.#inUse();
    if (change.kind === 'present') {
      const entry = candidate.source.contents.entry(change.typeUrl, change.name);
      if (entry) this.#serve(entry, nowMs);
      return;
    }
    for (const name of candidate.mapping.toAsked(change.name)) {
      this.#handleAnswer(change, name, nowMs);
    }
  }

  #handleAnswer(change: SourceChange, name: ResourceName, nowMs: number): void {
    const { kind, typeUrl } = change;
    const demand = this.#demands.get(typeUrl, name.key);
    if (kind === 'removed') this.#handleRemoval(typeUrl, name, change.resync, nowMs);
    else if (kind === 'settled' && demand?.name.isGlob) {
      this.#handleSettled(demand, nowMs);
    } else if (kind === 'timed_out' && demand) {
      // The same response may have said more of it.
      const isOpen = statusAt(this.#inUse().candidate, demand) === 'timed_out';
      if (isOpen) this.#tellAnswer(demand, nowMs);
    }
  }

  #handleSettled(demand: Demand, nowMs: number): void {
    const { index, candidate } = this.#inUse();
    // A new stream answers anew, so the wait for the rest begins again.
    this.#wholeWaits.delete(keyOf(demand));
    demand.isWhole = !candidate.source.answersInParts;
    if (demand.isWhole && index === 0) this.#question(this.#covered(demand), nowMs);
    this.#tellComplete(demand, nowMs);
  }

  /**
   * Another candidate is in use from now on: the difference is told once, removals later.
   *
   * @returns how many names changed, and how many are kept from the side that was left.
   */
  handleSwitch(nowMs: number): { readonly changed: number; readonly kept: number } {
    const { index, candidate } = this.#inUse();
    this.#removals.clear();
    this.#wholeWaits.clear();
    let changed = 0;
    const inOrder = [...this.#demands.values()].sort(
      (a, b) => typeRank(a.typeUrl) - typeRank(b.typeUrl),
    );
    for (const demand of inOrder) {
      demand.isWhole = false;
      for (const entry of entriesOf(candidate, demand)) {
        if (this.#serveTo(demand, entry, nowMs)) changed++;
      }
      // What it said of this name before it was in use was not told.
      this.#tellAnswer(demand, nowMs);
    }
    let kept = 0;
    for (const served of this.#served.all()) if (!isHeldBy(candidate, served)) kept++;
    if (index === 0) this.questionKept(nowMs);
    return { changed, kept };
  }

  /**
   * What the primary does not have may have to go: an absent alternative is no proof, the primary's
   * word is. Not in the same breath, since members may still be on their way behind the answer that
   * completed the set.
   */
  questionKept(nowMs: number): void {
    this.#question([...this.#served.all()], nowMs);
  }

  #question(all: readonly Served[], nowMs: number): void {
    for (const served of all) {
      if (isHeldBy(this.#primary, served)) continue;
      this.#removals.add(served.projection, nowMs + this.#spec.failover.switchWaitMs);
    }
  }

  /** No candidate can be asked. */
  handleAllDown(): void {
    for (const demand of this.#demands.values()) this.#tellUnavailable(demand);
  }

  /** The same, for one that is new. */
  handleUnreachable(demand: Demand): void {
    this.#tellUnavailable(demand);
  }

  handleTimer(nowMs: number): void {
    this.#noteWhole(nowMs);
    const { due, guarded } = this.#removals.takeDue(this.#served.count, nowMs, {
      isOpen: (held) => this.#isOpen(held),
      againAtMs: nowMs + this.#spec.failover.switchWaitMs,
    });
    if (guarded) this.#events.push({ kind: 'guarded', ...guarded });
    for (const held of due) this.#removeIfGone(held, nowMs);
    for (let end = this.#ends.takeDue(nowMs); end; end = this.#ends.takeDue(nowMs)) {
      this.#expire(end.typeUrl, end.name);
    }
    for (
      let dueMs = this.#unansweredDueMs();
      dueMs !== undefined;
      dueMs = this.#unansweredDueMs()
    ) {
      if (dueMs > nowMs) return;
      const demand = this.#unanswered.shift();
      // While the candidate in use answers, its own timer of this name decides.
      if (demand && !this.#inUse().candidate.source.facts().live) this.#tellUnavailable(demand);
    }
  }

  /** What is missing of a whole collection may have to go; an alternative's word is no proof of that. */
  #noteWhole(nowMs: number): void {
    const { index, candidate } = this.#inUse();
    const { contents } = candidate.source;
    for (const [key, { demand, wholeAtMs, atMostMs }] of this.#wholeWaits) {
      if (wholeAtMs > nowMs) return;
      this.#wholeWaits.delete(key);
      // One answer has members of several collections, and its parts may have those of one each.
      const quietAtMs = this.#quietAfter(contents.lastArrivalMs(demand.typeUrl));
      if (quietAtMs > nowMs && nowMs < atMostMs) {
        this.#wholeWaits.set(key, { demand, wholeAtMs: Math.min(quietAtMs, atMostMs), atMostMs });
        continue;
      }
      // If the stream was lost, the answer of the next one begins the wait again.
      if (!candidate.source.facts().live || statusAt(candidate, demand) !== 'present') continue;
      demand.isWhole = true;
      if (index === 0) this.#question(this.#covered(demand), nowMs);
      this.#tellComplete(demand, nowMs);
    }
  }

  /** The candidate in use may still send this. */
  #isOpen({ typeUrl, name }: HeldName): boolean {
    const { source, mapping } = this.#inUse().candidate;
    if (source.contents.answerFor(typeUrl, mapping.toSource(name)) === 'requested') return true;
    return this.#wholeWaits.has(waitKey(typeUrl, globKeyOf(name)));
  }

  nextDeadlineMs(): number | undefined {
    const [wait] = this.#wholeWaits.values();
    const atMs = Math.min(
      wait?.wholeAtMs ?? Infinity,
      this.#removals.nextDeadlineMs() ?? Infinity,
      this.#unansweredDueMs() ?? Infinity,
      this.#ends.nextMs ?? Infinity,
    );
    return atMs === Infinity ? undefined : atMs;
  }

  #unansweredDueMs(): number | undefined {
    for (;;) {
      const { first } = this.#unanswered;
      if (!first) return undefined;
      const { typeUrl, name } = first;
      const current = this.#demands.get(typeUrl, name.key) === first;
      const open = current && first.toldCode === undefined && !this.#served.holds(typeUrl, name);
      if (open) return first.askedAtMs + this.#spec.failover.unavailableAfterMs;
      this.#unanswered.shift();
    }
  }

  // ---- what is served -----------------------------------------------------------------------

  /** @returns whether what clients see has changed. */
  #serve(entry: SourceEntry, nowMs: number): boolean {
    let changed = false;
    for (const name of this.#inUse().candidate.mapping.toAsked(entry.projection.name)) {
      changed = this.#serveAs(name, entry, nowMs) || changed;
    }
    return changed;
  }

  /** The same for one demand: others may have the same alternative, and are served in their turn. */
  #serveTo({ name }: Demand, entry: SourceEntry, nowMs: number): boolean {
    return name.isGlob ? this.#serve(entry, nowMs) : this.#serveAs(name, entry, nowMs);
  }

  #serveAs(name: ResourceName, entry: SourceEntry, nowMs: number): boolean {
    const { index, candidate } = this.#inUse();
    const { mapping } = candidate;
    const asItIs = mapping.identity || name.key === entry.projection.name.key;
    const projected = asItIs
      ? ({ ok: true, projection: entry.projection } as const)
      : reproject(entry.projection, name, mapping.toReference);
    if (!projected.ok) {
      this.#events.push({ kind: 'refused', name, reason: projected.reason });
      return false;
    }
    const before = this.#served.get(projected.projection.typeUrl, name);
    const noted =
      candidate.authority === this.#spec.name ? projected.projection.alternatives : before?.noted;
    const projection = withAlternatives(projected.projection, noted);
    this.#served.set({ projection, from: index, noted });
    const seemedGone = this.#removals.cancel(projection.typeUrl, name);
    // Also what another candidate had: this one has just sent it.
    if (before?.from !== index || seemedGone) this.#awaitMore(projection.typeUrl, name, nowMs);
    const { version, mapEntry } = projection;
    // The entries of a list that did not change may lead elsewhere, from the other side.
    if (before?.projection.version !== version || before.projection.mapEntry !== mapEntry) {
      this.#events.push({
        kind: 'changed',
        projection,
        ...(before && { before: before.projection }),
      });
      return true;
    }
    if (!isSame(before.projection, projection)) this.#events.push({ kind: 'noted', projection });
    return false;
  }

  /** The candidate in use says that a name is not there. */
  #handleRemoval(typeUrl: string, name: ResourceName, resync: boolean, nowMs: number): void {
    const { index } = this.#inUse();
    const served = this.#served.get(typeUrl, name);
    if (!served) {
      const demand = this.#demands.get(typeUrl, name.key);
      // Of a name never had, only the primary may say that it does not exist.
      if (demand && index === 0)
        this.#events.push({ kind: 'absent', ...this.#absence(typeUrl, name) });
      else if (demand) this.#tellUnavailable(demand);
      return;
    }
    // Kept from another candidate: this one's "absent" is no proof against it.
    if (served.from !== index && index !== 0) return;
    // The first responses of the other types are still to come: the guard judges them together.
    if (resync) this.#removals.add(served.projection, nowMs + this.#spec.failover.switchWaitMs);
    else this.#remove(typeUrl, name);
  }

  /** The candidate in use sent a member anew: more may come, if the collection is not whole yet. */
  #awaitMore(typeUrl: string, member: ResourceName, nowMs: number): void {
    if (this.#wholeWaits.size === 0) return;
    const wait = this.#wholeWaits.get(waitKey(typeUrl, globKeyOf(member)));
    if (wait) this.#beginWait(wait.demand, nowMs);
  }

  #quietAfter(ms: number): number {
    return ms + this.#spec.failover.switchWaitMs + WHOLE_MARGIN_MS;
  }

  #beginWait(demand: Demand, nowMs: number): void {
    const key = keyOf(demand);
    const atMostMs = this.#wholeWaits.get(key)?.atMostMs ?? nowMs + WHOLE_AT_MOST_MS;
    const quietAtMs = this.#quietAfter(nowMs);
    // To the end, so that the soonest stays first.
    this.#wholeWaits.delete(key);
    this.#wholeWaits.set(key, { demand, wholeAtMs: Math.min(quietAtMs, atMostMs), atMostMs });
  }

  #removeIfGone(held: HeldName, nowMs: number): void {
    const { typeUrl, name } = held;
    const { source, mapping } = this.#inUse().candidate;
    const answer = source.contents.answerFor(typeUrl, mapping.toSource(name));
    if (answer === 'absent') this.#remove(typeUrl, name);
    if (answer === 'requested') {
      this.#removals.add(held, nowMs + this.#spec.failover.switchWaitMs);
    }
    // Timed out: silence is no proof, so it is kept.
  }

  #remove(typeUrl: string, name: ResourceName): void {
    if (this.#spec.ignoreDeletion || !this.#served.delete(typeUrl, name)) return;
    this.#events.push({ kind: 'removed', ...this.#absence(typeUrl, name) });
  }

  /** A candidate's content outlived its TTL. No deletion by anybody, so neither guarded nor ignored. */
  handleExpired(typeUrl: string, name: ResourceName, index: number): void {
    if (this.#served.get(typeUrl, name)?.from === index) this.#expire(typeUrl, name);
  }

  #expire(typeUrl: string, name: ResourceName): void {
    this.#served.delete(typeUrl, name);
    this.#removals.cancel(typeUrl, name);
    this.#events.push({ kind: 'removed', typeUrl, name, status: undefined });
  }

  /** What is served of one demand: a resource, or the members of a glob. */
  #covered({ typeUrl, name }: Demand): readonly Served[] {
    if (name.isGlob) return [...this.#served.members(typeUrl, name).values()];
    const served = this.#served.get(typeUrl, name);
    return served ? [served] : [];
  }

  // ---- what is told beside content ----------------------------------------------------------

  /** What the candidate in use has said of a demand. */
  #tellAnswer(demand: Demand, nowMs: number): void {
    const { typeUrl, name } = demand;
    const { index, candidate } = this.#inUse();
    const status = statusAt(candidate, demand);
    if (name.isGlob) this.#tellComplete(demand, nowMs);
    if (status === 'absent' && index === 0) {
      // A deletion that is held back, or not passed on, leaves it there.
      if (this.#served.holds(typeUrl, name)) return;
      this.#events.push({ kind: 'absent', ...this.#absence(typeUrl, name) });
    } else if (status === 'timed_out') {
      this.#tellUnavailable(demand, this.#absence(typeUrl, name).status);
    } else if (status === 'absent') this.#tellUnavailable(demand);
  }

  #tellComplete(demand: Demand, nowMs: number): void {
    const { typeUrl, name } = demand;
    const { index, candidate } = this.#inUse();
    if (statusAt(candidate, demand) !== 'present') return;
    if (!demand.isWhole && candidate.source.answersInParts) {
      if (!this.#wholeWaits.has(keyOf(demand))) this.#beginWait(demand, nowMs);
      return;
    }
    // An alternative without members cannot say that the primary's collection is empty.
    if (index !== 0 && !this.#served.holds(typeUrl, name)) this.#tellUnavailable(demand);
    else {
      const { source, mapping } = candidate;
      const isProof = index === 0 && source.contents.isWhole(typeUrl, mapping.toSource(name));
      this.#events.push({ kind: 'complete', isProof, ...this.#absence(typeUrl, name) });
    }
  }

  #absence(typeUrl: string, name: ResourceName): Absence {
    const { source, mapping } = this.#inUse().candidate;
    const subscription = source.contents.subscription(typeUrl, mapping.toSource(name));
    return { typeUrl, name, status: subscription?.absence };
  }

  #tellUnavailable(demand: Demand, status?: RpcStatus): void {
    const { typeUrl, name } = demand;
    const code = status?.code ?? STATUS_CODE.unavailable;
    if (demand.toldCode === code || this.#served.holds(typeUrl, name)) return;
    demand.toldCode = code;
    this.#events.push({ kind: 'unavailable', typeUrl, name, status });
  }
}

const waitKey = (typeUrl: string, globKey: string): string => `${typeUrl} ${globKey}`;
const keyOf = ({ typeUrl, name }: Demand): string => waitKey(typeUrl, name.key);

/** What a candidate has said of a demand on its present stream. */
export function statusAt(
  { source, mapping }: Candidate,
  { typeUrl, name }: Demand,
): SubscriptionStatus | undefined {
  return source.contents.subscription(typeUrl, mapping.toSource(name))?.status;
}

function* entriesOf(
  { source, mapping }: Candidate,
  { typeUrl, name }: Demand,
): IterableIterator<SourceEntry> {
  const asked = mapping.toSource(name);
  if (asked.isGlob) {
    yield* source.contents.members(typeUrl, asked);
    return;
  }
  const entry = source.contents.entry(typeUrl, asked);
  if (entry) yield entry;
}

/** Does the candidate hold it now? What came from there once may have been deleted since. */
function isHeldBy({ source, mapping }: Candidate, { projection }: Served): boolean {
  const { typeUrl, name } = projection;
  return source.contents.entry(typeUrl, mapping.toSource(name)) !== undefined;
}
