/** The simulated clock: events in order of time, and of scheduling for equal times. */

interface Scheduled {
  readonly atMs: number;
  readonly sequence: number;
  readonly run: () => void;
}

export class EventQueue {
  nowMs: number;
  readonly #heap: Scheduled[] = [];
  #sequence = 0;

  constructor(startMs: number) {
    this.nowMs = startMs;
  }

  /** A time in the past means now. */
  at(atMs: number, run: () => void): void {
    const heap = this.#heap;
    const added = { atMs: Math.max(atMs, this.nowMs), sequence: this.#sequence++, run };
    let at = heap.length;
    while (at > 0) {
      const above = (at - 1) >>> 1;
      const parent = heap[above]!;
      if (!isBefore(added, parent)) break;
      heap[at] = parent;
      at = above;
    }
    heap[at] = added;
  }

  after(ms: number, run: () => void): void {
    this.at(this.nowMs + ms, run);
  }

  /** @returns whether there was an event until then. */
  step(untilMs: number): boolean {
    const next = this.#heap[0];
    if (!next || next.atMs > untilMs) return false;
    this.#removeFirst();
    this.nowMs = next.atMs;
    next.run();
    return true;
  }

  #removeFirst(): void {
    const heap = this.#heap;
    const last = heap.pop()!;
    if (heap.length === 0) return;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= heap.length) break;
      if (below + 1 < heap.length && isBefore(heap[below + 1]!, heap[below]!)) below++;
      const child = heap[below]!;
      if (!isBefore(child, last)) break;
      heap[at] = child;
      at = below;
    }
    heap[at] = last;
  }
}

function isBefore(a: Scheduled, b: Scheduled): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.sequence < b.sequence);
}
