/**
 * Tracks which of many machines have work, and when the next one is due, without polling all of
 * them: a process may serve thousands of node groups, and one message concerns a few. `touch` is
 * called whenever an input may have given a machine effects or another deadline. Bulk machine
 * without IO.
 */
export interface Machine {
  /** When `handleTimer` must run next; undefined: not before another input. */
  nextDeadlineMs(nowMs: number): number | undefined;
}

export class Agenda<M extends Machine> {
  readonly #touched = new Set<M>();
  /** Machines whose deadline has to be computed again. */
  readonly #stale = new Set<M>();
  /** As of each machine's last input. Machines without a deadline have no entry. */
  readonly #deadlinesMs = new Map<M, number>();

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
    this.#deadlinesMs.delete(machine);
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

  takeDue(nowMs: number): readonly M[] {
    this.#refresh(nowMs);
    const due: M[] = [];
    for (const [machine, dueMs] of this.#deadlinesMs) if (dueMs <= nowMs) due.push(machine);
    for (const machine of due) this.#stale.add(machine);
    return due;
  }

  nextDeadlineMs(nowMs: number): number {
    this.#refresh(nowMs);
    let soonestMs = Infinity;
    for (const dueMs of this.#deadlinesMs.values()) if (dueMs < soonestMs) soonestMs = dueMs;
    return soonestMs;
  }

  #refresh(nowMs: number): void {
    for (const machine of this.#stale) {
      const dueMs = machine.nextDeadlineMs(nowMs);
      if (dueMs === undefined) this.#deadlinesMs.delete(machine);
      else this.#deadlinesMs.set(machine, dueMs);
    }
    this.#stale.clear();
  }
}
