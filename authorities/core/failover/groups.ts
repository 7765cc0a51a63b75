/** All failover groups, including those of node groups: by id, by source, and by deadline. */
import type { AuthoritySpec } from '../../../config/model.js';
import { Agenda } from '../agenda.js';
import type { Source, SourceFacts } from '../sources/source.js';
import type { Candidate } from './candidate.js';
import { FailoverGroup } from './failover-group.js';
import { ForceOrders } from './force-orders.js';
import type { LastKnown } from './last-known.js';
import type { TurnRoom } from './turn-room.js';

export class Groups {
  /** Of operators, for whole authorities. */
  readonly orders = new ForceOrders();
  readonly #byId = new Map<string, FailoverGroup>();
  readonly #bySource = new Map<Source, Set<FailoverGroup>>();
  readonly #agenda = new Agenda<FailoverGroup>();
  readonly #room: TurnRoom;
  readonly #lastKnown: LastKnown | undefined;
  /** The facts of each source when its groups were last scheduled. */
  readonly #facts = new Map<Source, SourceFacts>();

  /**
   * @param room how many names may move in one turn
   * @param lastKnown undefined: no content is kept beyond the process
   */
  constructor(room: TurnRoom, lastKnown?: LastKnown) {
    this.#room = room;
    this.#lastKnown = lastKnown;
  }

  make(id: string, spec: AuthoritySpec, candidates: readonly Candidate[]): FailoverGroup {
    const onInput = (): void => {
      // A closed group still receives changes queued before it was closed. Were it touched, its
      // timer would run, and it would subscribe again.
      if (this.#byId.get(id) === group) this.#agenda.touch(group);
    };
    const group = new FailoverGroup(id, spec, candidates, {
      onInput,
      room: this.#room,
      lastKnown: this.#lastKnown,
      orders: this.orders,
    });
    this.#byId.set(id, group);
    for (const { source } of candidates) {
      let groups = this.#bySource.get(source);
      if (!groups) this.#bySource.set(source, (groups = new Set()));
      groups.add(group);
    }
    return group;
  }

  delete(group: FailoverGroup): void {
    this.#byId.delete(group.id);
    this.#agenda.delete(group);
    for (const { source } of group.candidates) {
      const groups = this.#bySource.get(source);
      groups?.delete(group);
      if (groups?.size !== 0) continue;
      this.#bySource.delete(source);
      this.#facts.delete(source);
    }
  }

  get(id: string): FailoverGroup | undefined {
    return this.#byId.get(id);
  }

  values(): IterableIterator<FailoverGroup> {
    return this.#byId.values();
  }

  /**
   * A source had an input. If that changed its facts, its groups may have to switch at once, so
   * their deadlines are computed again.
   */
  handleTouched(source: Source): void {
    const groups = this.#bySource.get(source);
    if (!groups) return;
    const before = this.#facts.get(source);
    const facts = source.facts();
    this.#facts.set(source, facts);
    if (before && isSame(before, facts)) return;
    for (const group of groups) this.#agenda.handleDeadlineChanged(group);
  }

  get hasTouched(): boolean {
    return this.#agenda.hasTouched;
  }

  takeTouched(): readonly FailoverGroup[] {
    return this.#agenda.takeTouched();
  }

  /** A turn of the event loop begins. */
  beginTurn(): void {
    this.#room.refill();
    this.#agenda.beginTurn();
  }

  /** @returns the groups that are due, and for which the turn still has room */
  takeDue(nowMs: number): readonly FailoverGroup[] {
    return this.#agenda.takeDue(nowMs);
  }

  nextDeadlineMs(nowMs: number): number {
    return this.#agenda.nextDeadlineMs(nowMs);
  }
}

const isSame = (a: SourceFacts, b: SourceFacts): boolean =>
  a.live === b.live &&
  a.liveSinceMs === b.liveSinceMs &&
  a.wellSinceMs === b.wellSinceMs &&
  a.tripped === b.tripped &&
  a.attempt?.sinceMs === b.attempt?.sinceMs;
