/**
 * Serves the client streams that have responses to send, in turns of a few milliseconds, so that a
 * change for a thousand clients does not delay incoming messages. Changes between two turns merge in
 * the sessions at no cost. Streams in sync go before streams that wait for their first responses.
 */
import { FirstSyncs, type FirstSync } from '../core/quotas/first-syncs.js';
import { clock } from '../clock.js';

export interface Pumpable {
  /** Writes the pending responses. */
  pump(): void;
  /** Undefined: the stream is served without waiting. */
  readonly firstSync?: FirstSync | undefined;
  /** Whether the stream has had a response. */
  readonly hasWritten?: boolean;
}

/** Longest turn: the maximum delay for other work of the event loop. */
const TURN_MS = 8;

export class FanOut {
  readonly #ready = new Set<Pumpable>();
  readonly #syncs = new FirstSyncs<Pumpable>();
  #scheduled = false;
  /** Until the first sync that is under way for the longest time counts as over. */
  #timer: NodeJS.Timeout | undefined;

  schedule(stream: Pumpable): void {
    const { firstSync } = stream;
    const mayGo = !firstSync || firstSync.state === 'under_way' || firstSync.state === 'over';
    if (mayGo) this.#ready.add(stream);
    else this.#syncs.wait(firstSync, stream);
    this.#scheduleTurn();
  }

  /** The client acknowledged its first response: the next one may have its own. */
  endFirstSync({ firstSync }: Pumpable): void {
    if (!firstSync || firstSync.state === 'over') return;
    this.#syncs.end(firstSync);
    if (this.#syncs.waitingCount > 0) this.#scheduleTurn();
  }

  forget(stream: Pumpable): void {
    this.#ready.delete(stream);
    this.endFirstSync(stream);
  }

  #scheduleTurn(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#turn();
    });
  }

  #turn(): void {
    this.#scheduled = false;
    const untilMs = performance.now() + TURN_MS;
    for (const stream of this.#ready) {
      this.#ready.delete(stream);
      stream.pump();
      if (performance.now() >= untilMs) break;
    }
    const isBusy = this.#ready.size > 0 || this.#beginSyncs(untilMs);
    if (isBusy) this.#scheduleTurn();
    else this.#armTimer();
  }

  /** @returns whether the turn ended before all that may begin have begun */
  #beginSyncs(untilMs: number): boolean {
    while (this.#syncs.waitingCount > 0) {
      if (performance.now() >= untilMs) return true;
      const stream = this.#syncs.next(clock());
      if (!stream) return false;
      stream.pump();
      // The sources have not answered yet: the place is free for another client.
      if (stream.firstSync && stream.hasWritten === false) this.#syncs.release(stream.firstSync);
    }
    return false;
  }

  #armTimer(): void {
    clearTimeout(this.#timer);
    const dueMs = this.#syncs.waitingCount > 0 ? this.#syncs.nextDeadlineMs : undefined;
    if (dueMs === undefined) return;
    this.#timer = setTimeout(
      () => {
        this.#scheduleTurn();
      },
      Math.max(1, dueMs - clock()),
    );
    this.#timer.unref();
  }
}
