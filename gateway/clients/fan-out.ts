/**
 * Serves the client streams that have responses to send, in portions of `PORTION_MS`, so that a
 * change for a thousand clients does not delay incoming messages. Changes between two portions merge in
 * the sessions at no cost. Streams in sync go before streams that get, or wait for, their first responses.
 *
 * Streams in sync are served in rounds, and the more streams a round has, the later the next one begins. So in a flood of
 * changes more of them merge, and the gateway does not spend all of its time on writing. After a quiet time a change waits for nothing.
 */
import { PORTION_MS } from '../../authorities/index.js';
import { FirstSyncs, type FirstSync } from '../core/quotas/first-syncs.js';
import { clock } from '../clock.js';

/** The next round begins so much later for each stream of the last one: about twice what serving it costs. Milliseconds. */
const ROUND_MS_PER_STREAM = 0.05;

/** A shorter time is not worth a timer. Milliseconds. */
const MIN_ROUND_MS = 1;

/** No change waits longer for the next round to begin. Milliseconds. */
const MAX_ROUND_MS = 10;

export interface Pumpable {
  /** Writes the pending responses. */
  pump(): void;
  /** Undefined: the stream is served without waiting. */
  readonly firstSync?: FirstSync | undefined;
  /** Whether the stream has had a response. */
  readonly hasWritten?: boolean;
}

export class FanOut {
  readonly #inSync = new Rounds();
  /** Streams whose first sync is under way. */
  readonly #syncing = new Set<Pumpable>();
  readonly #syncs = new FirstSyncs<Pumpable>();
  #scheduled = false;
  /** Until the next round may begin, or the first sync that is under way for the longest time counts as over. */
  #timer: NodeJS.Timeout | undefined;

  schedule(stream: Pumpable): void {
    const { firstSync } = stream;
    if (!firstSync || firstSync.state === 'over') this.#inSync.add(stream);
    else if (firstSync.state === 'under_way') this.#syncing.add(stream);
    else this.#syncs.wait(firstSync, stream);
    this.#scheduleTurn();
  }

  /** The client acknowledged its first response: the next client may get its first sync. */
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
    const isBusy = this.#inSync.pumpSome(performance.now());
    if (this.#sync() || isBusy) this.#scheduleTurn();
    else this.#armTimer();
  }

  /** @returns whether time was up while streams still wait for their first responses */
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
    const delayMs = Math.min(this.#inSync.delayMs(performance.now()), this.#syncDelayMs);
    if (delayMs === Infinity) return;
    this.#timer = setTimeout(
      () => {
        this.#scheduleTurn();
      },
      Math.max(1, delayMs),
    );
    this.#timer.unref();
  }

  /** Infinity: no stream waits for a first sync to end. */
  get #syncDelayMs(): number {
    const dueMs = this.#syncs.waitingCount > 0 ? this.#syncs.nextDeadlineMs : undefined;
    return dueMs === undefined ? Infinity : dueMs - clock();
  }
}

/** Streams in sync that have responses to send. */
class Rounds {
  /** The streams of the present round that have not been pumped yet. */
  #round = new Set<Pumpable>();
  /** Streams that became ready after the round had begun. */
  #waiting = new Set<Pumpable>();
  /** By `performance.now()`. */
  #nextRoundMs = 0;

  add(stream: Pumpable): void {
    if (!this.#round.has(stream)) this.#waiting.add(stream);
  }

  delete(stream: Pumpable): void {
    this.#round.delete(stream);
    this.#waiting.delete(stream);
  }

  /** @returns whether streams are left for the next turn */
  pumpSome(nowMs: number): boolean {
    if (this.#round.size === 0 && nowMs >= this.#nextRoundMs) this.#begin(nowMs);
    return pumpSome(this.#round, nowMs + PORTION_MS) || this.delayMs(nowMs) <= 0;
  }

  /** @returns how long it takes until the next round begins; Infinity: no stream waits for it */
  delayMs(nowMs: number): number {
    return this.#waiting.size > 0 ? this.#nextRoundMs - nowMs : Infinity;
  }

  #begin(nowMs: number): void {
    [this.#round, this.#waiting] = [this.#waiting, this.#round];
    const roundMs = Math.min(this.#round.size * ROUND_MS_PER_STREAM, MAX_ROUND_MS);
    this.#nextRoundMs = roundMs < MIN_ROUND_MS ? nowMs : nowMs + roundMs;
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
