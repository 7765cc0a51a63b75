/**
 * One (primary authority, alternative) group: its candidates, the candidates at which its names are
 * subscribed, and the one in use. All names move from one candidate to another together (invariant
 * 6). Connects the state machine of failover.ts and the content of group-resources.ts to the
 * sources and to time.
 */
import type { AuthoritySpec } from '../../../config/model.js';
import { VariantNames, type ResourceName } from '../../../protos/resource-name.js';
import { hasNamesOf, hasSameSource, type Candidate } from './candidate.js';
import { statusAt, type Asked } from './candidate-content.js';
import {
  advance,
  failoverDeadlineMs,
  force,
  inherited,
  initialFailover,
  NEVER_MS,
  release,
  type CachedCause,
  type FailoverState,
  type GroupFacts,
} from './failover.js';
import type { Demand, InUse } from './demand.js';
import type { ForceOrders } from './force-orders.js';
import { GroupResources } from './group-resources.js';
import { GroupLastKnown, type LastKnown } from './last-known.js';
import type { Move } from './move.js';
import type { Projection } from '../projection.js';
import type { Served } from './served-names.js';
import type { NameEvent, ResourceEvent } from './resource-events.js';
import { withEnd } from './ttl-leases.js';
import type { TurnRoom } from './turn-room.js';
import { withoutParameters } from '../resolution/name-mapping.js';
import type { SourceChange } from '../sources/source-contents.js';
import type { Source } from '../sources/source.js';
import { soonestOf } from '../soonest.js';

export type GroupEvent =
  | ResourceEvent
  | { readonly kind: 'state'; readonly from: FailoverState; readonly to: FailoverState }
  | {
      /** All names have moved, or another switch began first. */
      readonly kind: 'switched';
      readonly from: number;
      readonly to: number;
      /** When the group decided it. */
      readonly atMs: number;
      readonly changed: number;
      readonly kept: number;
    }
  /**
   * Old-style names only: this group has a resource that is not served, since the group of an
   * earlier entry has one of the same name.
   */
  | {
      readonly kind: 'shadowed';
      readonly group: FailoverGroup;
      readonly typeUrl: string;
      readonly name: ResourceName;
    };

type Switched = Extract<GroupEvent, { readonly kind: 'switched' }>;

interface Switching extends Pick<Switched, 'from' | 'to' | 'atMs'> {
  readonly move: Move<Demand>;
}

const ALL_DOWN: CachedCause = 'all_sources_down';

/** What a group needs beside its own settings. */
export interface GroupSurroundings {
  /** Called for each input that may give this group events or another deadline. */
  readonly onInput: () => void;
  /** Of all groups. */
  readonly room: TurnRoom;
  /** Undefined: no content is kept beyond the process. */
  readonly lastKnown?: LastKnown | undefined;
  /** Default: none. */
  readonly orders?: ForceOrders;
}

export class FailoverGroup {
  readonly id: string;
  readonly spec: AuthoritySpec;
  readonly candidates: readonly Candidate[];
  readonly #variants = new VariantNames();
  readonly #onInput: () => void;
  readonly #resources: GroupResources;
  #failover: FailoverState;
  /** Per candidate: are the group's names subscribed there? */
  readonly #subscribed: boolean[];
  #lingerUntilMs: number | undefined;
  /** When it took over the state of a group that a reload replaced. */
  #inheritedMs: number | undefined;
  readonly #room: TurnRoom;
  readonly #orders: ForceOrders | undefined;
  /** The last switch, while names have still to move. */
  #switching: Switching | undefined;
  #events: GroupEvent[] = [];

  constructor(
    id: string,
    spec: AuthoritySpec,
    candidates: readonly Candidate[],
    { onInput, room, lastKnown, orders }: GroupSurroundings,
  ) {
    this.id = id;
    this.#onInput = onInput;
    this.#room = room;
    this.#orders = orders;
    this.spec = spec;
    this.candidates = candidates.map((candidate) => this.#withFittingMapping(candidate));
    this.#failover = initialFailover(spec.failover);
    this.#subscribed = candidates.map(() => false);
    const inUse = (): InUse => {
      const { active } = this.#failover;
      return { index: active, candidate: this.#candidate(active) };
    };
    const ofGroup = lastKnown && new GroupLastKnown<Demand>(lastKnown, candidates);
    this.#resources = new GroupResources(spec, this.#candidate(0), inUse, room, ofGroup);
  }

  /** A source that knows no dynamic parameters is asked for names without them (TP2). */
  #withFittingMapping(candidate: Candidate): Candidate {
    if (candidate.source.takesParameters === true) return candidate;
    return { ...candidate, mapping: withoutParameters(candidate.mapping, this.#variants) };
  }

  get failover(): FailoverState {
    return this.#failover;
  }

  /** The source whose content the group serves. Undefined: the group is idle, or serves only what it took over (`ADOPTED`). */
  get activeSource(): Source | undefined {
    const { kind, active } = this.#failover;
    if (kind === 'idle' || this.#resources.isAllAdopted) return undefined;
    return this.#candidate(active).source;
  }

  get demandCount(): number {
    return this.#resources.demandCount;
  }

  get servedCount(): number {
    return this.#resources.servedCount;
  }

  get guardedCount(): number {
    return this.#resources.guardedCount;
  }

  served(typeUrl: string, name: ResourceName): Served | undefined {
    return this.#resources.served(typeUrl, name);
  }

  servedResources(): IterableIterator<Projection> {
    return this.#resources.servedResources();
  }

  /** The names and globs that clients request. */
  demands(): IterableIterator<Asked> {
    return this.#resources.demands();
  }

  isDemanded(typeUrl: string, name: ResourceName): boolean {
    return this.#resources.isDemanded(typeUrl, name);
  }

  /** What the group serves for one demand. */
  *servedFor(demand: Asked): IterableIterator<Projection> {
    for (const { projection } of this.#resources.covered(demand)) yield projection;
  }

  /** Its first watcher came. The name must not be demanded yet. */
  want(typeUrl: string, name: ResourceName, nowMs: number): void {
    this.#onInput();
    const demand = this.#resources.add(typeUrl, name, nowMs);
    this.#variants.add(name);
    this.#lingerUntilMs = undefined;
    if (this.#failover.kind === 'idle') this.#followOrder(nowMs);
    this.candidates.forEach((candidate, index) => {
      if (this.#subscribed[index]) subscribeAt(candidate, demand, this, nowMs);
    });
    this.#advance(nowMs);
    this.#resources.handleWanted(demand, nowMs);
    if (this.#failover.kind === 'cached') this.#resources.serveFromCache(demand);
  }

  /** The events that tell a new watcher the whole state of a demanded name. Changes nothing. */
  replay(typeUrl: string, name: ResourceName): readonly NameEvent[] {
    return this.#resources.replay(typeUrl, name, this.#failover.kind === 'cached');
  }

  /** @param leftMs since when no client subscribes to the name */
  unwant(typeUrl: string, name: ResourceName, nowMs: number, leftMs = nowMs): void {
    this.#onInput();
    const demand = this.#resources.remove(typeUrl, name);
    if (!demand) return;
    this.candidates.forEach((candidate, index) => {
      if (this.#subscribed[index]) this.#unsubscribeAt(candidate, demand, nowMs);
    });
    this.#variants.delete(name);
    if (this.demandCount === 0) this.#lingerUntilMs = leftMs + this.spec.failover.lingerMs;
  }

  /** Unless the source is still needed for the name: see `#isNeeded`. */
  #unsubscribeAt(candidate: Candidate, demand: Demand, nowMs: number): void {
    if (!this.#isNeeded(candidate, demand)) unsubscribeAt(candidate, demand, this, nowMs);
  }

  /**
   * Does a subscribed candidate request the same name of the same source? Two names may share an `#alt=` target, and an
   * `#alt=` may lead to the alternative of the map.
   */
  #isNeeded({ source, mapping }: Candidate, { typeUrl, name }: Demand): boolean {
    if (this.candidates.length === 1 && mapping.identity) return false;
    const requested = mapping.toSource(name);
    return this.candidates.some((other, index) => {
      if (this.#subscribed[index] !== true || other.source !== source) return false;
      return other.mapping
        .toAsked(requested)
        .some(
          (one) =>
            this.#resources.isDemanded(typeUrl, one) &&
            other.mapping.toSource(one).key === requested.key,
        );
    });
  }

  /** Is the primary in use and live, has it answered this name on its present stream, and is that believed? */
  isCurrent(typeUrl: string, name: ResourceName): boolean {
    const { source, mapping } = this.#candidate(0);
    if (this.#resources.isUnconfirmed) return false;
    const isAnswered = source.contents.answerFor(typeUrl, mapping.toSource(name)) !== 'requested';
    return isAnswered && this.#isPrimaryLive(typeUrl, name);
  }

  /** Is the primary in use and live, and has it sent neither this name nor an error for it? */
  isSilentAbout(typeUrl: string, name: ResourceName): boolean {
    const { source, mapping } = this.#candidate(0);
    const isSilent = source.contents.isSilentAbout(typeUrl, mapping.toSource(name));
    return isSilent && this.#isPrimaryLive(typeUrl, name);
  }

  /** Since when the primary has been well; null: it is not. */
  get primaryWellSinceMs(): number | null {
    return this.#candidate(0).source.facts().wellSinceMs;
  }

  #isPrimaryLive(typeUrl: string, name: ResourceName): boolean {
    const isUsed = this.#failover.active === 0 && this.#resources.hasMoved(typeUrl, name);
    return isUsed && this.#candidate(0).source.facts().live;
  }

  /**
   * Requests a demanded name again at every candidate where it is subscribed. A candidate without a
   * stream tries to connect instead.
   */
  revalidate(typeUrl: string, name: ResourceName, nowMs: number): void {
    for (const { source, mapping } of this.#subscribedCandidates()) {
      source.askAgain(typeUrl, mapping.toSource(name), nowMs);
    }
  }

  /** Requests all demanded names and globs again. @returns their number. */
  revalidateAll(nowMs: number): number {
    for (const { typeUrl, name } of this.#resources.demands())
      this.revalidate(typeUrl, name, nowMs);
    return this.demandCount;
  }

  /** Its subscribed sources that are not connected try now, rate-limited. */
  nudge(nowMs: number): void {
    for (const { source } of this.#subscribedCandidates()) source.nudge(nowMs);
  }

  #subscribedCandidates(): readonly Candidate[] {
    return this.candidates.filter((_, index) => this.#subscribed[index]);
  }

  /** A source changed or answered a name that this group subscribes to. */
  handleChange(source: Source, change: SourceChange, nowMs: number): void {
    this.#onInput();
    if (change.kind === 'expired') {
      this.#noteEnd(source, change, nowMs);
      return;
    }
    const inUse = this.#candidate(this.#failover.active);
    const isInUse = inUse.source === source && hasNamesOf(inUse, change.name.authority);
    if (isInUse) this.#resources.handleChange(change, nowMs);
    const { kind, endsMs } = change;
    if (kind === 'removed' ? endsMs !== undefined : kind === 'present' && !isInUse) {
      this.#noteEnd(source, change, nowMs);
    }
  }

  /**
   * A resource kept from a candidate is kept no longer than the TTL of that candidate allows,
   * whether the candidate is in use or not.
   */
  #noteEnd(source: Source, change: SourceChange, nowMs: number): void {
    const { kind, typeUrl, name, endsMs } = change;
    this.candidates.forEach((candidate, index) => {
      if (candidate.source !== source || !hasNamesOf(candidate, name.authority)) return;
      for (const asked of candidate.mapping.toAsked(name)) {
        if (kind === 'expired') this.#resources.handleExpired(typeUrl, asked, index, nowMs);
        else this.#resources.noteEnd(typeUrl, asked, index, endsMs);
      }
    });
  }

  /** Facts of a source may have changed, or a deadline has passed. */
  handleTimer(nowMs: number): void {
    this.#onInput();
    this.#advance(nowMs);
    this.#continueMove(nowMs);
    this.#resources.handleTimer(nowMs);
  }

  nextDeadlineMs(nowMs: number): number | undefined {
    if (this.#switching || this.#resources.isBusy) return nowMs;
    const facts = this.#facts(nowMs);
    // A deadline may have passed while another input was handled.
    if (advance(this.#failover, facts, this.spec.failover).length > 0) return nowMs;
    const { kind } = this.#failover;
    return soonestOf(
      failoverDeadlineMs(this.#failover, facts, this.spec.failover),
      this.#resources.nextDeadlineMs(),
      this.#withheldUntilMs(),
      kind === 'idle' || kind === 'forced' ? undefined : this.#lingerUntilMs,
    );
  }

  /**
   * An operator has forced a source for the whole authority. This group holds nothing yet, so it begins there, unless that source is
   * down: then the primary serves until it is back. A node group's own stream to the source may not have begun yet.
   */
  #followOrder(nowMs: number): void {
    const order = this.#orders?.inForce(this.spec.name, nowMs);
    if (!order) return;
    const target = this.candidates.findIndex(({ source }) => source.name === order.source);
    if (target === -1) return;
    const forced = force(this.#failover, target, nowMs, order.untilMs);
    const { live, tripped } = this.#candidate(target).source.facts();
    this.#enter({ ...forced, active: live || !tripped ? target : forced.active });
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
    this.#takeResourceEvents();
    if (this.#events.length === 0) return [];
    const taken = this.#events;
    this.#events = [];
    return taken;
  }

  /** Takes over resources that another group served before a reload. */
  adopt(other: FailoverGroup, isOurs: (typeUrl: string, name: ResourceName) => boolean): void {
    this.#onInput();
    other.#keepEnds();
    this.#resources.adopt(other.#resources, isOurs);
  }

  /** If this group is new, it takes over the state of a group before the reload, as far as both have the same candidates. */
  inherit(other: FailoverGroup, nowMs: number): void {
    if (this.#failover.kind !== 'idle' || this.#inheritedMs !== undefined) return;
    this.#onInput();
    const placeOf = (index: number): number => {
      const before = other.#candidate(index);
      return this.candidates.findIndex(
        (one) => hasSameSource(one, before) && one.authority === before.authority,
      );
    };
    const replaced = { state: other.#failover, policy: other.spec.failover, placeOf };
    const state = inherited(replaced, this.spec.failover, nowMs);
    if (Object.keys(state).length === 0) return;
    this.#failover = { ...this.#failover, ...state };
    this.#inheritedMs = nowMs;
  }

  /** Resources that another group takes over keep the TTL deadlines that their sources gave them. */
  #keepEnds(): void {
    this.candidates.forEach((candidate, index) => {
      if (this.#subscribed[index] === true) this.#resources.keepEnds(index, candidate);
    });
  }

  /** What the group serves under this name, for another group to take over, with the TTL deadline that its source gave it. */
  servedWithEnd(typeUrl: string, name: ResourceName): Served | undefined {
    const served = this.#resources.served(typeUrl, name);
    const candidate = served && this.candidates[served.from];
    return candidate ? withEnd(served, candidate) : served;
  }

  /** Takes over one resource that another group serves for a name of this group. */
  adoptOne(served: Served): void {
    this.#onInput();
    this.#resources.adoptOne(served);
  }

  /** Unsubscribes at every source, without events for watchers. */
  close(nowMs: number): void {
    this.candidates.forEach(({ source }, index) => {
      this.#setSubscribed(index, false, nowMs);
      source.setWarmed(false, this, nowMs);
    });
  }

  #facts(nowMs: number): GroupFacts {
    const lingering = this.#lingerUntilMs !== undefined && nowMs < this.#lingerUntilMs;
    return {
      nowMs,
      wanted: this.demandCount > 0 || (lingering && this.#failover.kind !== 'idle'),
      uncached: () => this.#resources.hasUncached(),
      isEmpty: this.servedCount === 0,
      candidates: this.candidates.map((candidate, index) => {
        // Field by field: this runs for each group and each response, and a spread is slower.
        const {
          live,
          liveSinceMs,
          wellSinceMs,
          lostSinceMs = NEVER_MS,
          tripped,
          attempt,
        } = candidate.source.facts();
        const complete = (): boolean =>
          this.#subscribed[index] === true && this.#isComplete(candidate);
        return { live, liveSinceMs, wellSinceMs, lostSinceMs, tripped, attempt, complete };
      }),
    };
  }

  /**
   * Has the candidate answered each name that a switch could lose? Names without content do not count: their watchers get
   * the answer after the switch. If they counted, a name that the primary deleted before an outage, and whose absence it
   * never states, would delay the failback until it times out. Names requested since the group left that candidate do not
   * count either: clients that now and then request names that no server answers would block the failback for ever.
   */
  #isComplete(candidate: Candidate): boolean {
    // Nearly always so for a source that is subscribed before the failover: a group may have thousands of names.
    if (candidate.source.contents.isAnswered) return true;
    const { kind, sinceMs, lastSwitchMs } = this.#failover;
    const isAway = kind === 'alt' || kind === 'failing_back';
    // If the group took over from another one, its demands date from that reload.
    const leftMs = Math.max(isAway ? lastSwitchMs : sinceMs, this.#inheritedMs ?? NEVER_MS);
    for (const demand of this.#resources.demands()) {
      const { typeUrl, name, requestedAtMs } = demand;
      const isOpen = requestedAtMs <= leftMs && statusAt(candidate, demand) === 'requested';
      if (isOpen && this.#resources.holds(typeUrl, name)) return false;
    }
    return true;
  }

  #advance(nowMs: number): void {
    this.#subscribeNeeded(nowMs);
    for (;;) {
      const passed = advance(this.#failover, this.#facts(nowMs), this.spec.failover);
      for (const next of passed) {
        const from = this.#failover.active;
        this.#enter(next);
        if (next.kind !== 'idle' && next.active !== from) this.#beginMove(from, nowMs);
      }
      if (passed.length === 0) break;
      this.#subscribeNeeded(nowMs);
    }
    if (nowMs >= this.#withheldUntilMs()) this.#beginMove(this.#failover.active, nowMs);
  }

  #beginMove(from: number, nowMs: number): void {
    this.#noteSwitched();
    const move = this.#resources.handleSwitch();
    this.#switching = { from, to: this.#failover.active, atMs: nowMs, move };
    this.#continueMove(nowMs);
  }

  /**
   * When the source in use may replace what the group took over: once it is back and has answered, or `switch_wait` after its
   * return, since a resumed delta stream is silent about unchanged names.
   */
  #withheldUntilMs(): number {
    if (!this.#resources.isWithheld) return Infinity;
    const candidate = this.#candidate(this.#failover.active);
    const { live, liveSinceMs } = candidate.source.facts();
    if (!live) return Infinity;
    const waitMs = this.#isComplete(candidate) ? 0 : this.spec.failover.switchWaitMs;
    return liveSinceMs + waitMs;
  }

  #continueMove(nowMs: number): void {
    const move = this.#switching?.move;
    move?.continue(nowMs, this.#room);
    if (move?.isOver !== true) return;
    this.#noteSwitched();
    this.#subscribeNeeded(nowMs);
  }

  #noteSwitched(): void {
    if (!this.#switching) return;
    const { move, ...switched } = this.#switching;
    this.#switching = undefined;
    this.#takeResourceEvents();
    const isSwitch = switched.from !== switched.to;
    if (isSwitch) this.#events.push({ kind: 'switched', ...switched, ...move.moved });
  }

  #enter(next: FailoverState): void {
    const before = this.#failover;
    if (next.kind === 'idle') this.#noteSwitched();
    this.#takeResourceEvents();
    this.#events.push({ kind: 'state', from: before, to: next });
    this.#failover = next;
    if (next.kind === 'primary' && before.kind !== 'reconnecting') {
      this.#resources.queueAbsentRemovals(next.sinceMs);
    }
    if (next.kind === 'cached') this.#resources.handleCached();
    if (next.kind === 'idle') this.#resources.clear();
  }

  /** Keeps the events of the resources and those of this group in the order in which they happened. */
  #takeResourceEvents(): void {
    for (const event of this.#resources.takeEvents()) this.#events.push(event);
  }

  /**
   * Subscribes at every candidate up to the active one or the target, whichever is later: a group
   * can fail back only to a candidate that has answered.
   */
  #subscribeNeeded(nowMs: number): void {
    const { kind, cause, active, target } = this.#failover;
    const { prewarm } = this.spec.failover;
    // With all candidates down, any of them may be the first to come back.
    const all = kind === 'cached' && cause === ALL_DOWN ? this.candidates.length : 0;
    const last = Math.max(active, target ?? 0, prewarm === 'subscribed' ? 1 : 0, all);
    this.candidates.forEach(({ source }, index) => {
      // Names that have still to move have content of the candidate that the group left.
      const isNeeded =
        index <= last || (this.#switching !== undefined && this.#subscribed[index] === true);
      this.#setSubscribed(index, kind !== 'idle' && isNeeded, nowMs);
      if (index === 1 && prewarm === 'connected') source.setWarmed(kind !== 'idle', this, nowMs);
    });
  }

  #setSubscribed(index: number, wanted: boolean, nowMs: number): void {
    if (this.#subscribed[index] === wanted) return;
    this.#subscribed[index] = wanted;
    const candidate = this.#candidate(index);
    if (!wanted) this.#resources.keepEnds(index, candidate);
    for (const demand of this.#resources.demands()) {
      if (wanted) subscribeAt(candidate, demand, this, nowMs);
      else this.#unsubscribeAt(candidate, demand, nowMs);
    }
  }

  #candidate(index: number): Candidate {
    const candidate = this.candidates[index];
    /* c8 ignore next -- every index comes from the list of candidates */
    if (!candidate) throw new RangeError(`group ${this.id} has no candidate ${index}`);
    return candidate;
  }
}

function subscribeAt(
  at: Candidate,
  { typeUrl, name }: Demand,
  group: FailoverGroup,
  nowMs: number,
): void {
  at.source.subscribe(typeUrl, at.mapping.toSource(name), group, nowMs);
}

function unsubscribeAt(
  at: Candidate,
  { typeUrl, name }: Demand,
  group: FailoverGroup,
  nowMs: number,
): void {
  at.source.unsubscribe(typeUrl, at.mapping.toSource(name), group, nowMs);
}
