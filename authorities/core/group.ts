/**
 * One (primary authority, alternative) group: the names that are wanted of it, what each candidate
 * says of them, and what is served. All of it moves from one candidate to another as one
 * (invariant 6). Bulk machine around the control machine in failover.ts.
 *
 * What the table in docs/FAILOVER.md says a client gets is decided here and only here.
 */
import type { AuthoritySpec } from '../../config/model.js';
import { globKeyOf, type ResourceName } from '../../protos/resource-name.js';
import { typeRank } from '../../protos/type-urls.js';
import {
  advance,
  failoverDeadlineMs,
  force,
  initialFailover,
  release,
  type CachedCause,
  type FailoverState,
  type GroupFacts,
} from './failover.js';
import type { NameMapping } from './name-mapping.js';
import { reproject, type Projection } from './projection.js';
import { RemovalHold, type HeldName } from './removal-hold.js';
import { ServedNames, type Served } from './served-names.js';
import type { SourceChange, SourceEntry, SubscriptionStatus } from './source-contents.js';
import type { Source } from './source.js';

export interface Candidate {
  readonly source: Source;
  /** The authority whose names are asked there. */
  readonly authority: string;
  readonly mapping: NameMapping;
}

interface Demand {
  readonly typeUrl: string;
  readonly name: ResourceName;
  /** Whoever waits was told that nothing can be said for now. */
  unavailableTold: boolean;
}

/** What those who watch, and those who look on, are told; `name` is always the asked one. */
export type GroupEvent =
  | { readonly kind: 'changed'; readonly projection: Projection }
  /** A served resource went. */
  | { readonly kind: 'removed'; readonly typeUrl: string; readonly name: ResourceName }
  /** An asked name does not exist. */
  | { readonly kind: 'absent'; readonly typeUrl: string; readonly name: ResourceName }
  /** An asked glob is answered: what it has was told, and if nothing was, it is empty. */
  | { readonly kind: 'complete'; readonly typeUrl: string; readonly name: ResourceName }
  /** Nothing is held under an asked name, and nobody can be asked. */
  | { readonly kind: 'unavailable'; readonly typeUrl: string; readonly name: ResourceName }
  | { readonly kind: 'state'; readonly from: FailoverState; readonly to: FailoverState }
  | {
      readonly kind: 'switched';
      readonly from: number;
      readonly to: number;
      readonly changed: number;
      readonly kept: number;
    }
  /** The deletion guard holds back so many removals. */
  | { readonly kind: 'guarded'; readonly names: number; readonly untilMs: number }
  /** Content of a candidate that cannot be served under the asked name. */
  | { readonly kind: 'refused'; readonly name: ResourceName; readonly reason: string };

export class Group {
  readonly id: string;
  readonly spec: AuthoritySpec;
  readonly candidates: readonly Candidate[];

  // The names: what is wanted, what is served, what waits to go.
  readonly #demands = new Map<string, Demand>();
  readonly #served = new ServedNames();
  readonly #removals: RemovalHold;

  // The candidates: who is served, and at whom every demand is subscribed.
  #failover: FailoverState;
  readonly #subscribed: boolean[];
  #lingerUntilMs: number | undefined;

  #events: GroupEvent[] = [];

  constructor(id: string, spec: AuthoritySpec, candidates: readonly Candidate[]) {
    this.id = id;
    this.spec = spec;
    this.candidates = candidates;
    this.#failover = initialFailover(spec.failover);
    this.#subscribed = candidates.map(() => false);
    this.#removals = new RemovalHold(spec.failover.deletionGuard);
  }

  get failover(): FailoverState {
    return this.#failover;
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

  served(typeUrl: string, name: ResourceName): Served | undefined {
    return this.#served.get(typeUrl, name);
  }

  *servedResources(): IterableIterator<Projection> {
    for (const { projection } of this.#served.all()) yield projection;
  }

  want(typeUrl: string, name: ResourceName, nowMs: number): void {
    const demand: Demand = { typeUrl, name, unavailableTold: false };
    this.#demands.set(demandKey(typeUrl, name), demand);
    this.#lingerUntilMs = undefined;
    this.candidates.forEach((candidate, index) => {
      if (this.#subscribed[index]) subscribeAt(candidate, demand, this, nowMs);
    });
    this.#advance(nowMs);
    this.#replay(demand);
  }

  unwant(typeUrl: string, name: ResourceName, nowMs: number): void {
    const key = demandKey(typeUrl, name);
    const demand = this.#demands.get(key);
    if (!demand) return;
    this.#demands.delete(key);
    this.candidates.forEach((candidate, index) => {
      if (this.#subscribed[index]) unsubscribeAt(candidate, demand, this, nowMs);
    });
    this.#forget(demand);
    if (this.#demands.size === 0) this.#lingerUntilMs = nowMs + this.spec.failover.lingerMs;
  }

  /** A source said something about a name that this group listens to. */
  handleChange(source: Source, change: SourceChange, nowMs: number): void {
    const { active } = this.#failover;
    const candidate = this.#candidate(active);
    if (candidate.source !== source || change.name.authority !== candidate.authority) return;
    const { typeUrl } = change;
    const name = candidate.mapping.toAsked(change.name);
    const demand = this.#demands.get(demandKey(typeUrl, name));
    switch (change.kind) {
      case 'present': {
        const entry = source.contents.entry(typeUrl, change.name);
        if (entry) this.#serve(active, entry);
        return;
      }
      case 'removed':
        this.#applyRemoval(typeUrl, name, change.resync, nowMs);
        return;
      case 'settled':
        if (demand?.name.isGlob) this.#tellComplete(demand);
        return;
      case 'timed_out':
        if (demand) this.#tellUnavailable(demand);
        return;
    }
  }

  /** Facts may have changed, or a deadline passed. */
  handleTimer(nowMs: number): void {
    this.#advance(nowMs);
    const { due, guarded } = this.#removals.takeDue(this.#served.count, nowMs);
    if (guarded) this.#events.push({ kind: 'guarded', ...guarded });
    for (const held of due) this.#removeIfGone(held, nowMs);
  }

  nextDeadlineMs(nowMs: number): number | undefined {
    const facts = this.#facts(nowMs);
    // A deadline that passed while another input was taken in is still to be met.
    if (advance(this.#failover, facts, this.spec.failover).length > 0) return nowMs;
    const { kind } = this.#failover;
    const deadlines = [
      failoverDeadlineMs(this.#failover, facts, this.spec.failover),
      this.#removals.nextDeadlineMs(),
      kind === 'idle' || kind === 'forced' ? undefined : this.#lingerUntilMs,
    ].filter((atMs) => atMs !== undefined);
    return deadlines.length === 0 ? undefined : Math.min(...deadlines);
  }

  force(target: number, nowMs: number, untilMs: number): void {
    this.#enter(force(this.#failover, target, nowMs, untilMs));
    this.handleTimer(nowMs);
  }

  release(nowMs: number): void {
    const released = release(this.#failover, this.#facts(nowMs));
    if (released !== this.#failover) this.#enter(released);
    this.handleTimer(nowMs);
  }

  takeEvents(): readonly GroupEvent[] {
    if (this.#events.length === 0) return [];
    const taken = this.#events;
    this.#events = [];
    return taken;
  }

  /**
   * Takes over what another group of the same authority served, after the map was changed: it is
   * kept until this group's primary says otherwise.
   */
  adopt(other: Group, isOurs: (name: ResourceName) => boolean): void {
    for (const projection of other.servedResources()) {
      if (isOurs(projection.name)) this.#served.set({ projection, from: ADOPTED });
    }
  }

  /** Leaves every source; nothing is told to anybody. */
  close(nowMs: number): void {
    this.candidates.forEach(({ source }, index) => {
      this.#setSubscribed(index, false, nowMs);
      source.setWarmed(false, this, nowMs);
    });
    this.#demands.clear();
  }

  // ---- which candidate ----------------------------------------------------------------------

  #facts(nowMs: number): GroupFacts {
    const lingering = this.#lingerUntilMs !== undefined && nowMs < this.#lingerUntilMs;
    return {
      nowMs,
      wanted: this.#demands.size > 0 || (lingering && this.#failover.kind !== 'idle'),
      uncached: () => this.#hasUncached(),
      candidates: this.candidates.map(({ source }, index) => ({
        ...source.facts(),
        complete: () => this.#subscribed[index] === true && this.#isComplete(index),
      })),
    };
  }

  #advance(nowMs: number): void {
    this.#subscribeNeeded(nowMs);
    for (;;) {
      const passed = advance(this.#failover, this.#facts(nowMs), this.spec.failover);
      for (const next of passed) {
        const from = this.#failover.active;
        this.#enter(next);
        if (next.kind !== 'idle' && next.active !== from) this.#switch(from, nowMs);
      }
      if (passed.length === 0) return;
      this.#subscribeNeeded(nowMs);
    }
  }

  #enter(next: FailoverState): void {
    const before = this.#failover.kind;
    this.#events.push({ kind: 'state', from: this.#failover, to: next });
    this.#failover = next;
    if (next.kind === 'primary' && before !== 'reconnecting') this.#questionKept(next.sinceMs);
    if (next.kind === 'cached') {
      for (const demand of this.#demands.values()) this.#tellUnavailable(demand);
    }
    if (next.kind === 'idle') {
      this.#served.clear();
      this.#removals.clear();
    }
  }

  /** Every candidate up to the one in use or in sight is asked, so that the way back up is known. */
  #subscribeNeeded(nowMs: number): void {
    const { kind, cause, active, target } = this.#failover;
    const { prewarm } = this.spec.failover;
    // With all of them down, whichever comes back is the one.
    const all = kind === 'cached' && cause === ALL_DOWN ? this.candidates.length : 0;
    const last = Math.max(active, target ?? 0, prewarm === 'subscribed' ? 1 : 0, all);
    this.candidates.forEach(({ source }, index) => {
      this.#setSubscribed(index, kind !== 'idle' && index <= last, nowMs);
      if (index === 1 && prewarm === 'connected') source.setWarmed(kind !== 'idle', this, nowMs);
    });
  }

  #setSubscribed(index: number, wanted: boolean, nowMs: number): void {
    if (this.#subscribed[index] === wanted) return;
    this.#subscribed[index] = wanted;
    const change = wanted ? subscribeAt : unsubscribeAt;
    for (const demand of this.#demands.values())
      change(this.#candidate(index), demand, this, nowMs);
  }

  #candidate(index: number): Candidate {
    const candidate = this.candidates[index];
    if (!candidate) throw new RangeError(`group ${this.id} has no candidate ${index}`);
    return candidate;
  }

  #status(index: number, { typeUrl, name }: Demand): SubscriptionStatus | undefined {
    const { source, mapping } = this.#candidate(index);
    return source.contents.subscription(typeUrl, mapping.toSource(name))?.status;
  }

  #isComplete(index: number): boolean {
    for (const demand of this.#demands.values()) {
      if (this.#status(index, demand) === 'requested') return false;
    }
    return true;
  }

  #hasUncached(): boolean {
    for (const { typeUrl, name } of this.#demands.values()) {
      if (!this.#served.holds(typeUrl, name)) return true;
    }
    return false;
  }

  // ---- what is served -----------------------------------------------------------------------

  /** The one moment at which a group changes sides: the difference is told once, removals later. */
  #switch(from: number, nowMs: number): void {
    const to = this.#failover.active;
    this.#removals.clear();
    let changed = 0;
    const inOrder = [...this.#demands.values()].sort(
      (a, b) => typeRank(a.typeUrl) - typeRank(b.typeUrl),
    );
    for (const demand of inOrder) {
      for (const entry of this.#entriesOf(to, demand)) {
        if (this.#serve(to, entry)) changed++;
      }
      // What it said of this name before it was in use was not told.
      this.#tellAnswer(demand);
    }
    let kept = 0;
    for (const served of this.#served.all()) if (!this.#isAt(to, served)) kept++;
    this.#events.push({ kind: 'switched', from, to, changed, kept });
    if (to === 0) this.#questionKept(nowMs);
  }

  /** Does this candidate hold it? One that came from there once may have been deleted since. */
  #isAt(index: number, { projection: { typeUrl, name } }: Served): boolean {
    const { source, mapping } = this.#candidate(index);
    return source.contents.entry(typeUrl, mapping.toSource(name)) !== undefined;
  }

  /**
   * What the primary does not have may have to go: an absent alternative is no proof, the primary's
   * word is. Not in the same breath, since members may still be on their way behind the answer that
   * completed the set.
   */
  #questionKept(nowMs: number): void {
    for (const served of this.#served.all()) {
      if (this.#isAt(0, served)) continue;
      this.#removals.add(served.projection, nowMs + this.spec.failover.switchWaitMs);
    }
  }

  *#entriesOf(index: number, { typeUrl, name }: Demand): IterableIterator<SourceEntry> {
    const { source, mapping } = this.#candidate(index);
    const asked = mapping.toSource(name);
    if (asked.isGlob) {
      yield* source.contents.members(typeUrl, asked);
      return;
    }
    const entry = source.contents.entry(typeUrl, asked);
    if (entry) yield entry;
  }

  /** @returns whether what clients see has changed. */
  #serve(index: number, entry: SourceEntry): boolean {
    const { mapping } = this.#candidate(index);
    const name = mapping.toAsked(entry.projection.name);
    const projected = mapping.identity
      ? ({ ok: true, projection: entry.projection } as const)
      : reproject(entry.projection, name, mapping.toAsked);
    if (!projected.ok) {
      this.#events.push({ kind: 'refused', name, reason: projected.reason });
      return false;
    }
    const { projection } = projected;
    const before = this.#served.get(projection.typeUrl, name);
    this.#served.set({ projection, from: index });
    this.#removals.cancel(projection.typeUrl, name);
    if (before?.projection.version === projection.version) return false;
    this.#events.push({ kind: 'changed', projection });
    return true;
  }

  /** The active candidate says that a name is not there. */
  #applyRemoval(typeUrl: string, name: ResourceName, resync: boolean, nowMs: number): void {
    const { active } = this.#failover;
    const served = this.#served.get(typeUrl, name);
    if (!served) {
      const demand = this.#demands.get(demandKey(typeUrl, name));
      // Of a name never had, only the primary may say that it does not exist.
      if (demand && active === 0) this.#events.push({ kind: 'absent', typeUrl, name });
      else if (demand) this.#tellUnavailable(demand);
      return;
    }
    // Kept from another candidate: this one's "absent" is no proof against it.
    if (served.from !== active && active !== 0) return;
    if (resync) this.#removals.add(served.projection, nowMs);
    else this.#remove(typeUrl, name);
  }

  #removeIfGone(held: HeldName, nowMs: number): void {
    const { typeUrl, name } = held;
    const { source, mapping } = this.#candidate(this.#failover.active);
    const asked = mapping.toSource(name);
    switch (source.contents.answerFor(typeUrl, asked)) {
      case 'absent':
        this.#remove(typeUrl, name);
        return;
      case 'requested':
        this.#removals.add(held, nowMs + this.spec.failover.switchWaitMs);
        return;
      case 'present':
      case 'timed_out':
        return; // Silence is no proof: it is kept.
    }
  }

  #remove(typeUrl: string, name: ResourceName): void {
    if (this.spec.ignoreDeletion || !this.#served.delete(typeUrl, name)) return;
    this.#events.push({ kind: 'removed', typeUrl, name });
  }

  /** Nobody wants it: it is not held, and nobody is told. */
  #forget(demand: Demand): void {
    for (const { projection } of this.#covered(demand)) {
      const { typeUrl, name } = projection;
      const wanted =
        this.#demands.has(demandKey(typeUrl, name)) ||
        this.#demands.has(`${typeUrl} ${globKeyOf(name)}`);
      if (!wanted) this.#served.delete(typeUrl, name);
    }
  }

  /** What is served of one demand: a resource, or the members of a glob. */
  #covered({ typeUrl, name }: Demand): readonly Served[] {
    if (name.isGlob) return [...this.#served.members(typeUrl, name).values()];
    const served = this.#served.get(typeUrl, name);
    return served ? [served] : [];
  }

  // ---- what is told -------------------------------------------------------------------------

  /** What a watcher gets at once of what is known already. */
  #replay(demand: Demand): void {
    const { active } = this.#failover;
    const known = this.#covered(demand);
    for (const entry of this.#entriesOf(active, demand)) this.#serve(active, entry);
    // Told again to those who know it: the new watcher does not.
    for (const { projection } of known) {
      const now = this.#served.get(projection.typeUrl, projection.name)?.projection;
      if (now?.version === projection.version) this.#events.push({ kind: 'changed', projection });
    }
    this.#tellAnswer(demand);
  }

  /** What the active candidate said of a demand, beside its content. */
  #tellAnswer(demand: Demand): void {
    const { typeUrl, name } = demand;
    const { active, kind } = this.#failover;
    const status = this.#status(active, demand);
    if (name.isGlob) this.#tellComplete(demand);
    if (status === 'absent' && active === 0) {
      // A deletion that is held back, or not passed on, leaves it there.
      if (!this.#served.holds(typeUrl, name)) this.#events.push({ kind: 'absent', typeUrl, name });
    } else if (kind === 'cached' || status === 'absent' || status === 'timed_out') {
      this.#tellUnavailable(demand);
    }
  }

  #tellComplete(demand: Demand): void {
    const { typeUrl, name } = demand;
    const { active } = this.#failover;
    if (this.#status(active, demand) !== 'present') return;
    // An alternative without members cannot say that the primary's collection is empty.
    if (active !== 0 && !this.#served.holds(typeUrl, name)) this.#tellUnavailable(demand);
    else this.#events.push({ kind: 'complete', typeUrl, name });
  }

  #tellUnavailable(demand: Demand): void {
    const { typeUrl, name } = demand;
    if (demand.unavailableTold || this.#served.holds(typeUrl, name)) return;
    demand.unavailableTold = true;
    this.#events.push({ kind: 'unavailable', typeUrl, name });
  }
}

/** Not the index of any candidate. */
const ADOPTED = -1;
const ALL_DOWN: CachedCause = 'all_sources_down';

const demandKey = (typeUrl: string, name: ResourceName): string => `${typeUrl} ${name.key}`;

function subscribeAt(at: Candidate, { typeUrl, name }: Demand, group: Group, nowMs: number): void {
  at.source.subscribe(typeUrl, at.mapping.toSource(name), group, nowMs);
}

function unsubscribeAt(
  at: Candidate,
  { typeUrl, name }: Demand,
  group: Group,
  nowMs: number,
): void {
  at.source.unsubscribe(typeUrl, at.mapping.toSource(name), group, nowMs);
}
