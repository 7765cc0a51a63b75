/**
 * When to send again what a delta client has refused. Some reasons pass without a change at the source: the port of a listener
 * is taken, or a proxy cannot fetch an extension. A NACK does not name the resource, and Envoy keeps the good ones of the
 * same response. So all subscriptions of the type and authority are sent again, ever more rarely, until the client accepts.
 *
 * State of the world has no retry: each change of a listener or cluster repeats all of them.
 */
import type { DeltaSubscriptions } from './delta-subscriptions.js';

/** From the last NACK to the first retry. The NACK of a retry doubles it. Milliseconds. */
const FIRST_RETRY_MS = 60_000;
const MAX_RETRY_MS = 16 * FIRST_RETRY_MS;

interface Retry {
  readonly dueMs: number;
  readonly delayMs: number;
  /** It was sent again: the next ACK or NACK decides. */
  readonly isSent: boolean;
}

export class NackRetries {
  readonly #retries = new Map<DeltaSubscriptions, Retry>();

  noteRejected(subscriptions: DeltaSubscriptions, nowMs: number): void {
    const former = this.#retries.get(subscriptions);
    const growth = former?.isSent ? 2 : 1;
    const delayMs = Math.min(MAX_RETRY_MS, growth * (former?.delayMs ?? FIRST_RETRY_MS));
    this.#retries.set(subscriptions, { dueMs: nowMs + delayMs, delayMs, isSent: false });
  }

  noteAccepted(subscriptions: DeltaSubscriptions): void {
    const isOver = this.#retries.get(subscriptions)?.isSent && subscriptions.unacknowledged.isEmpty;
    if (isOver) this.forget(subscriptions);
  }

  /** The client has left them. */
  forget(subscriptions: DeltaSubscriptions): void {
    this.#retries.delete(subscriptions);
  }

  /** Those that wait for no ACK, since a retry must not repeat what is in flight. */
  *takeDue(nowMs: number): IterableIterator<DeltaSubscriptions> {
    for (const [subscriptions, retry] of this.#retries) {
      if (retry.isSent || nowMs < retry.dueMs || !subscriptions.unacknowledged.isEmpty) continue;
      this.#retries.set(subscriptions, { ...retry, isSent: true });
      yield subscriptions;
    }
  }

  /** When `takeDue` may return the next one, unless an ACK comes first; undefined: never. */
  nextDeadlineMs(nowMs: number): number | undefined {
    let nextMs = Infinity;
    for (const { dueMs, isSent } of this.#retries.values())
      if (!isSent && dueMs > nowMs) nextMs = Math.min(nextMs, dueMs);
    return nextMs === Infinity ? undefined : nextMs;
  }
}
