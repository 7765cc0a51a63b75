/**
 * Which of many machines have something to do, and when the next one has, without a look at all of
 * them: a process may serve thousands of node groups, and one message concerns a few. A machine calls
 * `touch` whenever an input may have given it effects or another deadline. Bulk machine without IO.
 */
export interface Machine {
  /** When its `handleTimer` has to run next; undefined: not before another input. */
  nextDeadlineMs(nowMs: number): number | undefined;
}

export class Agenda<M extends Machine> {
  readonly #touched = new Set<M>();
  /** Machines whose deadline has to be computed again. */
  readonly #moved = new Set<M>();
  /** Of the machines that have one, as of their last input. */
  readonly #deadlinesMs = new Map<M, number>();

  touch(machine: M): void {
    this.#touched.add(machine);
    this.#moved.add(machine);
  }

  /** Another machine's input may have given this one another deadline, but no effects. */
  move(machine: M): void {
    this.#moved.add(machine);
  }

  delete(machine: M): void {
    this.#touched.delete(machine);
    this.#moved.delete(machine);
    this.#deadlinesMs.delete(machine);
  }

  /** The machines touched since the last call, in that order. Whoever takes effects moves a deadline. */
  takeTouched(): readonly M[] {
    if (this.#touched.size === 0) return [];
    const taken = [...this.#touched];
    this.#touched.clear();
    for (const machine of taken) this.#moved.add(machine);
    return taken;
  }

  takeDue(nowMs: number): readonly M[] {
    this.#refresh(nowMs);
    const due: M[] = [];
    for (const [machine, dueMs] of this.#deadlinesMs) if (dueMs <= nowMs) due.push(machine);
    for (const machine of due) this.#moved.add(machine);
    return due;
  }

  nextDeadlineMs(nowMs: number): number {
    this.#refresh(nowMs);
    let soonestMs = Infinity;
    for (const dueMs of this.#deadlinesMs.values()) if (dueMs < soonestMs) soonestMs = dueMs;
    return soonestMs;
  }

  #refresh(nowMs: number): void {
    for (const machine of this.#moved) {
      const dueMs = machine.nextDeadlineMs(nowMs);
      if (dueMs === undefined) this.#deadlinesMs.delete(machine);
      else this.#deadlinesMs.set(machine, dueMs);
    }
    this.#moved.clear();
  }
}
