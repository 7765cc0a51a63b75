/**
 * Serves the client streams that have responses to send, in portions of `PORTION_MS`, so that a
 * change for a thousand clients does not delay incoming messages. Changes between two portions merge in
 * the sessions at no cost. Streams in sync go before streams that get, or wait for, their first responses.
 */
import { PORTION_MS } from '../../authorities/index.js';
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

export class FanOut {
  readonly #inSync = new Set<Pumpable>();
  /** Streams whose first sync is under way. */
  readonly #syncing = new Set<Pumpable>();
  readonly #syncs = new FirstSyncs<Pumpable>();
  #scheduled = false;
  /** Until the first sync that is under way for the longest time counts as over. */
  #timer: NodeJS.Timeout | undefined;

  schedule(stream: Pumpable): void {
    const { firstSync } = stream;
    if (!firstSync || firstSync.state === 'over') this.#inSync.add(stream);
    else if (firstSync.state === 'under_way') this.#syncing.add(stream);
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
    this.#inSync.delete(stream);
    this.#syncing.delete(stream);
    this.endFirstSync(stream);
  }

  #scheduleTurn(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#turn();
    });
  }

  /** A portion for each kind of stream: neither waits until the other has nothing more to send. */
  #turn(): void {
    this.#scheduled = false;
    const isBusy = pumpSome(this.#inSync, performance.now() + PORTION_MS);
    if (this.#sync() || isBusy) this.#scheduleTurn();
    else this.#armTimer();
  }

  /** @returns whether the portion ended before all that may send their first responses have done so */
  #sync(): boolean {
    const untilMs = performance.now() + PORTION_MS;
    if (pumpSome(this.#syncing, untilMs)) return true;
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

/** @returns whether time was up before all were pumped */
function pumpSome(streams: Set<Pumpable>, untilMs: number): boolean {
  for (const stream of streams) {
    streams.delete(stream);
    stream.pump();
    if (performance.now() >= untilMs) return streams.size > 0;
  }
  return false;
}
