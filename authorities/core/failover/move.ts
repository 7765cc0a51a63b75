/**
 * Moves the names of a group to another candidate, in each turn of the event loop as many as
 * `TurnRoom` allows. A name that has not moved yet has the content that it had before the switch.
 */
import { AbsenceSearch } from './absence-search.js';
import type { Candidate } from './candidate.js';
import { entriesOf, type Asked } from './candidate-content.js';
import type { ServedNames } from './served-names.js';
import type { TurnRoom } from './turn-room.js';
import type { Projection } from '../projection.js';
import type { SourceEntry } from '../sources/source-contents.js';

/** Counts of names. */
export interface Moved {
  /** Clients see other content. */
  readonly changed: number;
  /** The candidate lacks them, so they keep the content of the candidate that the group left. */
  readonly kept: number;
}

export interface MoveOptions<Demand extends Asked> {
  readonly candidate: Candidate;
  /** In the order in which they move. */
  readonly demands: readonly Demand[];
  readonly served: ServedNames;
  /** @returns whether what clients see has changed */
  readonly serve: (demand: Demand, entry: SourceEntry, nowMs: number) => boolean;
  /** All names of the demand have moved. */
  readonly onMoved: (demand: Demand, nowMs: number) => void;
  /** All demands have moved, and the candidate lacks this resource. */
  readonly onKept: (kept: Projection, nowMs: number) => void;
}

interface Turn {
  readonly nowMs: number;
  readonly room: TurnRoom;
}

export class Move<Demand extends Asked> {
  readonly #waiting: Set<Demand>;
  readonly #turns: Generator<undefined, void, Turn>;
  #changed = 0;
  #kept = 0;
  #isOver = false;

  constructor(options: MoveOptions<Demand>) {
    this.#waiting = new Set(options.demands);
    this.#turns = this.#run(options);
    this.#turns.next();
  }

  /** All names have moved. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** The names that have moved by now. */
  get moved(): Moved {
    return { changed: this.#changed, kept: this.#kept };
  }

  /** Do names of this demand have still to move? */
  isWaiting(demand: Demand): boolean {
    return this.#waiting.has(demand);
  }

  /** The demand has no watcher any more: its names do not move. */
  leave(demand: Demand): void {
    this.#waiting.delete(demand);
  }

  /** Moves as many names as the turn has room for. */
  continue(nowMs: number, room: TurnRoom): void {
    this.#isOver = this.#turns.next({ nowMs, room }).done === true;
  }

  /** Each `yield` ends a turn. */
  *#run({
    candidate,
    served,
    serve,
    onMoved,
    onKept,
  }: MoveOptions<Demand>): Generator<undefined, void, Turn> {
    let { nowMs, room } = yield;
    for (const demand of this.#waiting) {
      const { typeUrl } = demand;
      const names = [...entriesOf(candidate, demand)].map(({ projection }) => projection.name);
      for (const name of names) {
        while (!room.take()) ({ nowMs, room } = yield);
        // It may have changed or gone since the last turn, and the demand too.
        const entry = candidate.source.contents.entry(typeUrl, name);
        if (!entry || !this.#waiting.has(demand)) continue;
        if (serve(demand, entry, nowMs)) this.#changed++;
      }
      if (this.#waiting.delete(demand)) onMoved(demand, nowMs);
    }
    const search = new AbsenceSearch(candidate);
    search.add(served.all());
    for (;;) {
      for (const kept of search.continue(room)) {
        this.#kept++;
        onKept(kept, nowMs);
      }
      if (search.isOver) return;
      ({ nowMs, room } = yield);
    }
  }
}
