/**
 * Tracks which of many machines have work, and when the next one is due, without polling all of
 * them: a process may serve thousands of node groups, and one message concerns a few. `touch` is
 * called whenever an input may have given a machine effects or another deadline. Bulk machine
 * without IO.
 */
import { DeadlineHeap } from './sources/deadline-heap.js';

export interface Machine {
  /** When `handleTimer` must run next; undefined: not before another input. */
  nextDeadlineMs(nowMs: number): number | undefined;
}

/** Machines in one turn of the event loop: groups that came together are due together. A count. */
const MAX_DUE = 25;
/** Deadlines that are computed in one turn: a source that ends concerns all of its groups. A count. */
const MAX_REFRESHED = 75;

/** Replaced entries that are kept however few machines there are. A count. */
const SPARE_ENTRIES = 64;

interface Due<M> {
  readonly machine: M;
  readonly atMs: number;
}

export class Agenda<M extends Machine> {
  readonly #touched = new Set<M>();
  /** Machines whose deadline has to be computed again. */
  readonly #stale = new Set<M>();
  /** As of each machine's last input. Machines without a deadline have no entry. */
  readonly #due = new Map<M, Due<M>>();
  /** All of `#due`, and entries that were replaced since. */
  readonly #heap = new DeadlineHeap<Due<M>>();
  /** In the present turn. */
  #dueLeft = MAX_DUE;
  #refreshedLeft = MAX_REFRESHED;

  touch(machine: M): void {
    this.#touched.add(machine);
    this.#stale.add(machine);
  }

  /** An input of another machine may have changed this one's deadline, but gave it no effects. */
  handleDeadlineChanged(machine: M): void {
    this.#stale.add(machine);
  }

  delete(machine: M): void {
    this.#touched.delete(machine);
    this.#stale.delete(machine);
    this.#due.delete(machine);
  }

  /** Has an input come since the last `takeTouched`? */
  get hasTouched(): boolean {
    return this.#touched.size > 0;
  }

  /**
   * The machines touched since the last call, in that order. The caller takes their effects, which
   * may change their deadlines, so these are computed again.
   */
  takeTouched(): readonly M[] {
    if (this.#touched.size === 0) return [];
    const taken = [...this.#touched];
    this.#touched.clear();
    for (const machine of taken) this.#stale.add(machine);
    return taken;
  }

  /** A turn of the event loop begins. */
  beginTurn(): void {
    this.#dueLeft = MAX_DUE;
    this.#refreshedLeft = MAX_REFRESHED;
  }

  /** Begins a turn. @returns the machines that are due, or some of them: the rest are due at once */
  beginTurnAndTakeDue(nowMs: number): readonly M[] {
    this.beginTurn();
    return this.takeDue(nowMs);
  }

  /** @returns the machines that are due, as far as the present turn has room */
  takeDue(nowMs: number): readonly M[] {
    this.#refresh(nowMs);
    const due: M[] = [];
    for (let first = this.#first(); first && first.atMs <= nowMs; first = this.#first()) {
      if (this.#dueLeft === 0) break;
      this.#dueLeft--;
      this.#heap.pop();
      this.#due.delete(first.machine);
      this.#stale.add(first.machine);
      due.push(first.machine);
    }
    return due;
  }

  nextDeadlineMs(nowMs: number): number {
    this.#refresh(nowMs);
    return this.#stale.size > 0 ? nowMs : (this.#first()?.atMs ?? Infinity);
  }

  #refresh(nowMs: number): void {
    for (const machine of this.#stale) {
      if (this.#refreshedLeft === 0) return;
      this.#refreshedLeft--;
      this.#stale.delete(machine);
      this.#schedule(machine, machine.nextDeadlineMs(nowMs));
    }
  }

  #schedule(machine: M, atMs: number | undefined): void {
    if (this.#due.get(machine)?.atMs === atMs) return;
    if (atMs === undefined) {
      this.#due.delete(machine);
      return;
    }
    const due = { machine, atMs };
    this.#due.set(machine, due);
    this.#heap.push(due);
    // Replaced entries are dropped once they are the majority.
    if (this.#heap.size > 2 * this.#due.size + SPARE_ENTRIES) this.#rebuild();
  }

  #rebuild(): void {
    this.#heap.clear();
    for (const due of this.#due.values()) this.#heap.push(due);
  }

  /** The machine that is due first. Drops the replaced entries before it. */
  #first(): Due<M> | undefined {
    for (let first = this.#heap.first; first; first = this.#heap.first) {
      if (this.#due.get(first.machine) === first) return first;
      this.#heap.pop();
    }
    return undefined;
  }
}
