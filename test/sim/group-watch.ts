/**
 * Checks state events of groups: no two switches within a hold, and no switch without a trip or its
 * end, unless an operator forced it (invariant 7).
 */
import type { FailoverGroup, GroupEvent } from '../../authorities/core/failover/failover-group.js';
import type { Instance } from './instance.js';
import { Violation } from './oracle.js';

type GroupStateEvent = Extract<GroupEvent, { kind: 'state' }>;

export class GroupWatch {
  readonly #switchedMs = new Map<string, number>();
  readonly #forced = new Set<string>();
  /** Groups with a state event since the start of their process, or the last map. */
  readonly #known = new Set<string>();
  /** Groups that began to move for an operator: they may complete the move after the release (seed 120511). */
  readonly #moving = new Set<string>();
  /** By instance and source. */
  readonly #trips = new Map<string, number>();
  readonly #lastTripMs = new Map<string, number>();
  readonly #failedMs = new Map<string, number>();
  /** By group: all its switches, and reasons other than trips. */
  readonly #switches = new Map<string, number>();
  readonly #excused = new Map<string, number>();

  /** A new process or map has new groups. */
  forget(instance: string): void {
    for (const key of [...this.#switchedMs.keys()]) {
      if (key.startsWith(`${instance} `)) this.#switchedMs.delete(key);
    }
    for (const keys of [this.#forced, this.#moving, this.#known]) {
      for (const key of [...keys]) if (key.startsWith(`${instance} `)) keys.delete(key);
    }
    for (const counts of [this.#switches, this.#failedMs]) {
      for (const key of [...counts.keys()]) {
        if (key.startsWith(`${instance} `)) counts.delete(key);
      }
    }
  }

  /** An attempt failed, or a stream ended for another reason than its age. */
  noteFailure(source: string, nowMs: number): void {
    this.#failedMs.set(source, nowMs);
  }

  noteTrip(source: string, nowMs: number): void {
    count(this.#trips, source);
    this.#lastTripMs.set(source, nowMs);
  }

  onEvent(
    { name, nowMs }: Instance,
    group: FailoverGroup,
    event: GroupEvent,
    log: (line: string) => void,
  ): void {
    const key = `${name} ${group.id}`;
    if (event.kind === 'state') {
      const { kind, cause } = event.to;
      log(`${key} ${event.from.kind} -> ${kind} (${cause})`);
      // It goes on from the state of a group that the last reload replaced, perhaps one with another id (seed 2173).
      if (!this.#known.has(key) && event.from.kind !== 'idle') count(this.#excused, key);
      this.#known.add(key);
      // A connecting group may be new, since groups of node groups go with their clients.
      if (kind === 'idle' || kind === 'connecting') this.#switchedMs.delete(key);
      // Its primary may have tripped for other groups.
      if (kind === 'connecting') count(this.#excused, key);
      if (kind === 'failing_back') this.#checkStable(key, name, group, nowMs);
      if (cause === 'primary_slow') this.#checkSlow(key, name, group, nowMs);
      if (cause === 'active_returned') this.#checkWell(key, group, event);
      if (kind === 'forced') count(this.#excused, key);
      if (cause === 'forced') this.#moving.add(key);
      if (kind === 'forced') this.#forced.add(key);
      else if (event.from.kind === 'forced') this.#forced.delete(key);
    } else if (event.kind === 'switched') {
      log(`${key} switched ${event.from} -> ${event.to}`);
      this.#checkHold(key, group.spec.failover.holdMs, event.atMs);
      this.#checkReason(key, name, group);
    } else log(`${key} ${event.kind}`);
  }

  /** A failback needs a primary that was live for the hold, and did not fail within it. */
  #checkStable(
    key: string,
    instance: string,
    { candidates, failover, spec }: FailoverGroup,
    nowMs: number,
  ): void {
    const { source } = candidates[failover.target ?? 0]!;
    const { live, lostSinceMs, wellSinceMs } = source.facts();
    const failedMs = this.#failedMs.get(`${instance} ${source.id}`) ?? -Infinity;
    // Its stream may have ended for its age since the event, in the same instant (seed 409490).
    const wellMs =
      live || lostSinceMs === nowMs ? nowMs - Math.max(wellSinceMs ?? nowMs, failedMs) : 0;
    // The group may have moved on since the event.
    if (failover.kind !== 'failing_back' || wellMs >= spec.failover.holdMs) return;
    throw new Violation('7', `${key} fails back to a source that is well for ${wellMs} ms`);
  }

  /** Only an attempt that was owed a response for `cold_wait` lets a group leave a primary that did not trip. */
  #checkSlow(key: string, instance: string, group: FailoverGroup, nowMs: number): void {
    const { candidates, failover, spec } = group;
    const { source } = candidates[0]!;
    const { attempt } = source.facts();
    // A process that stalled may see the attempt fail in the same instant, and its facts with it (seed 3569).
    if (!attempt && this.#lastTripMs.get(`${instance} ${source.id}`) === nowMs) return;
    const silentMs = attempt?.isOwed() === true ? nowMs - attempt.sinceMs : 0;
    // The group may have moved on since the event.
    if (failover.cause !== 'primary_slow' || failover.kind !== 'failing_over') return;
    if (silentMs >= spec.failover.coldWaitMs) return;
    throw new Violation('7', `${key} leaves a primary after ${silentMs} ms`);
  }

  /**
   * A source that is live for an instant again and again must not keep a group from failing over.
   */
  #checkWell(key: string, { candidates }: FailoverGroup, { from, to }: GroupStateEvent): void {
    if (from.kind !== 'failing_over' || !candidates[to.active]!.source.facts().tripped) return;
    throw new Violation('7', `${key} stays with a tripped source`);
  }

  #checkHold(key: string, holdMs: number, nowMs: number): void {
    const before = this.#switchedMs.get(key) ?? -Infinity;
    const isMoved = this.#moving.delete(key);
    const isForced = this.#forced.has(key);
    // It began at a forced source that turned out to be down, and has served nothing: its move to the primary starts no hold.
    if (isForced && !isMoved && before === -Infinity) return;
    this.#switchedMs.set(key, nowMs);
    if (isMoved || isForced || nowMs - before >= holdMs) return;
    throw new Violation('7', `${key} switches again after ${nowMs - before} ms`);
  }

  /**
   * Each trip allows one switch away and one back, and further ones over the candidates in between.
   */
  #checkReason(key: string, instance: string, { candidates }: FailoverGroup): void {
    const switches = count(this.#switches, key);
    const trips = candidates.map(({ source }) => this.#trips.get(`${instance} ${source.id}`) ?? 0);
    const reasons = trips.reduce((sum, one) => sum + one, this.#excused.get(key) ?? 0);
    if (switches <= candidates.length * reasons) return;
    throw new Violation('7', `${key} switches ${switches} times for ${reasons} trips`);
  }
}

function count(counts: Map<string, number>, key: string): number {
  const now = (counts.get(key) ?? 0) + 1;
  counts.set(key, now);
  return now;
}
