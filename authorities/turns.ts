/**
 * Runs the work that clients and sources cause, in portions of `PORTION_MS` for each turn of the event loop. A thousand
 * connections may become readable in the same turn: Node would handle all of them before it comes to
 * anything else, such as an update for a client that is in sync. Without a burst the work runs at once. A source that
 * sends a thousand messages delays the message of another source by one message only.
 */
import { Fifo } from './core/sources/fifo.js';

/**
 * How long work of one kind goes on in one turn of the event loop, while more of it waits. Several kinds share a turn, and
 * Node reads the sockets of all connections in it: with 8 ms, a wave of 3,000 clients made turns of up to 66 ms, with 2 ms
 * up to 36, with 1 ms up to 29. A shorter portion costs no throughput. Milliseconds.
 */
export const PORTION_MS = 1;

/**
 * Less work than this is not worth a look at the end of the turn, which costs the event loop another round:
 * the messages of clients in sync come one by one, some microseconds each. Milliseconds.
 */
const NOTED_MS = 0.5;

/**
 * Pieces of work that may wait. Beyond that the burst runs at once, which slows its sender down: the loop
 * reads no socket meanwhile. A count.
 */
const MAX_WAITING = 10_000;

/** So many pieces of urgent work go before one of other work: clients in sync must not shut out those that connect. */
const URGENT_IN_A_ROW = 3;

/** Work that waits, by sender; the next sender first. */
class Lane {
  readonly #bySender = new Map<object | undefined, Fifo<() => void>>();

  push(work: () => void, sender: object | undefined): void {
    let works = this.#bySender.get(sender);
    if (!works) this.#bySender.set(sender, (works = new Fifo()));
    works.push(work);
  }

  /** The work of the sender that waits for the longest. */
  shift(): (() => void) | undefined {
    for (const [sender, works] of this.#bySender) {
      const work = works.shift();
      if (!works.first) this.#bySender.delete(sender);
      else if (this.#bySender.size > 1) {
        this.#bySender.delete(sender);
        this.#bySender.set(sender, works);
      }
      return work;
    }
    return undefined;
  }
}

export class Turns {
  readonly #onError: (error: unknown) => void;
  readonly #urgent = new Lane();
  readonly #others = new Lane();
  #urgentInARow = 0;
  #waitingCount = 0;
  /** How many of the waiting pieces are bounded in number by other limits. */
  #boundedCount = 0;
  /** Of the present turn, and up to `NOTED_MS` of those before. */
  #usedMs = 0;
  #isScheduled = false;
  /** Work of the present turn ran without waiting. */
  #hasRunAtOnce = false;
  /** The work that runs now called `countTicks`. */
  #countsTicks = false;

  /** @param onError a piece of work threw; the others go on */
  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  /**
   * Runs the work now if this turn has time left and nothing waits, else in a later turn.
   *
   * @param sender the client or source that causes the work: senders take turns, and the work of
   *   each keeps its order
   * @returns whether it ran
   */
  run(work: () => void, sender?: object): boolean {
    if (this.#runsNow(work)) return true;
    let hasRun = false;
    this.#others.push(() => {
      hasRun = true;
      work();
    }, sender);
    if (++this.#waitingCount - this.#boundedCount > MAX_WAITING) this.#performAll();
    return hasRun;
  }

  /**
   * The same for the message of a stream that is not read while its message waits: the number of streams bounds these.
   *
   * @param isUrgent it goes before most of the work that is not
   * @param sender of urgent work. Other work keeps its order with that of connections, so it has no sender
   */
  runForStream(work: () => void, isUrgent: boolean, sender: object): boolean {
    if (this.#runsNow(work)) return true;
    if (isUrgent) this.#pushBounded(this.#urgent, work, sender);
    else this.#pushBounded(this.#others, work, undefined);
    return false;
  }

  /**
   * Runs, as `run` does, what other limits bound in number: the beginnings and ends of connections, streams and polls.
   * Any number of these waits: ten thousand that ran at once would keep the event loop for a second.
   */
  runBounded(work: () => void): void {
    if (!this.#runsNow(work)) this.#pushBounded(this.#others, work, undefined);
  }

  #pushBounded(lane: Lane, work: () => void, sender: object | undefined): void {
    this.#waitingCount++;
    this.#boundedCount++;
    lane.push(() => {
      this.#boundedCount--;
      work();
    }, sender);
  }

  #runsNow(work: () => void): boolean {
    if (this.#waitingCount > 0 || this.#usedMs >= PORTION_MS) return false;
    this.#perform(work);
    this.#noteRunAtOnce();
    return true;
  }

  /** Without a turn that follows, nothing would run what waits from now on. */
  #noteRunAtOnce(): void {
    if (this.#usedMs < NOTED_MS) return;
    this.#hasRunAtOnce = true;
    this.#schedule();
  }

  #next(): (() => void) | undefined {
    const other = this.#urgentInARow >= URGENT_IN_A_ROW ? this.#others.shift() : undefined;
    const urgent = other ? undefined : this.#urgent.shift();
    this.#urgentInARow = urgent ? this.#urgentInARow + 1 : 0;
    return other ?? urgent ?? this.#others.shift();
  }

  /** Counts work of Node, in ms, that the work running now causes and that no turn measures. */
  charge(ms: number): void {
    this.#usedMs += ms;
  }

  /** Called by work while it runs: what Node does in the ticks that follow it counts for this turn, too. */
  countTicks(): void {
    this.#countsTicks = true;
  }

  /** A new turn begins after the present one. */
  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#usedMs = 0;
      // Immediates run in the same turn as the reading of the sockets that came before.
      if (this.#hasRunAtOnce) this.#endTurn();
      else this.#drain();
    });
  }

  #endTurn(): void {
    this.#hasRunAtOnce = false;
    if (this.#usedMs > 0 || this.#waitingCount > 0) this.#schedule();
  }

  /** Each piece runs after the ticks of the one before. */
  readonly #drain = (): void => {
    const hasTime = this.#usedMs < PORTION_MS;
    if (hasTime && this.#performNext()) process.nextTick(this.#drain);
    else this.#endTurn();
  };

  #performAll(): void {
    while (this.#performNext());
  }

  /** @returns false: nothing waits */
  #performNext(): boolean {
    const work = this.#next();
    if (!work) return false;
    this.#waitingCount--;
    this.#perform(work);
    return true;
  }

  #perform(work: () => void): void {
    const beganMs = performance.now();
    try {
      work();
    } catch (error) {
      this.#onError(error);
    }
    const endedMs = performance.now();
    this.#usedMs += endedMs - beganMs;
    if (this.#countsTicks) this.#countTicksSince(endedMs);
  }

  #countTicksSince(beganMs: number): void {
    this.#countsTicks = false;
    const usedMs = this.#usedMs;
    process.nextTick(() => {
      // Work that ran in the ticks is counted already.
      const countedMs = this.#usedMs - usedMs;
      this.#usedMs += Math.max(0, performance.now() - beganMs - countedMs);
      this.#noteRunAtOnce();
    });
  }
}
