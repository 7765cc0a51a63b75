/**
 * The circuit breaker of one source: opossum around "dial → first response" of each attempt.
 *
 * It guards calls, and a stream is none, so only the part of an attempt that has a result is one.
 * When to trip is decided by source-health.ts, whose rules a failure rate cannot express (two in a
 * row, short-lived streams, a lost probe); a trip opens the breaker, the backoff paces the half-open
 * attempts, and a first response closes it. The breaker in turn ends an attempt whose first response
 * is overdue even if our own timer were lost.
 */
import { EventEmitter } from 'node:events';
import CircuitBreaker from 'opossum';

export type BreakerState = 'closed' | 'open' | 'half_open';

/** The pace of attempts is the backoff's; the breaker is half-open whenever that says "now". */
const RESET_TIMEOUT_MS = 1;
/** The backstop comes after the rule that it backs. */
const BACKSTOP_MS = 1_000;
/** Never by its own statistics: see above. */
const NEVER_BY_RATE = 1_000_000_000;

/** A controller that never rotates: without one, each breaker starts two timers for unused statistics. */
const rotateBucketController = new EventEmitter().setMaxListeners(0);

/** The two ends of one attempt. Whichever comes first counts, the other is ignored. */
export interface GuardedAttempt {
  succeeded(): void;
  failed(): void;
}

type Action = (
  settle: (resolve: () => void, reject: (reason: Error) => void) => void,
) => Promise<void>;

export class SourceBreaker {
  readonly #breaker: CircuitBreaker<Parameters<Action>, void>;

  /** @param timeoutMs longest time to a first response that any rule grants. */
  constructor(name: string, timeoutMs: number) {
    const action: Action = (settle) => new Promise(settle);
    this.#breaker = new CircuitBreaker(action, {
      name,
      timeout: timeoutMs + BACKSTOP_MS,
      resetTimeout: RESET_TIMEOUT_MS,
      errorThresholdPercentage: 100,
      volumeThreshold: NEVER_BY_RATE,
      rollingPercentilesEnabled: false,
      enableSnapshots: false,
      rotateBucketController,
    });
  }

  get state(): BreakerState {
    if (this.#breaker.halfOpen || this.#breaker.pendingClose) return 'half_open';
    return this.#breaker.opened ? 'open' : 'closed';
  }

  /** @param onRefused the breaker gave up: open still, or the backstop's time is over. */
  attempt(onRefused: (reason: string) => void): GuardedAttempt {
    let succeed: () => void = () => undefined;
    let fail: (reason: Error) => void = () => undefined;
    let settled = false;
    this.#breaker
      .fire((resolve, reject) => {
        succeed = resolve;
        fail = reject;
      })
      .catch((error: unknown) => {
        if (settled) return;
        onRefused(error instanceof Error ? error.message : String(error));
      });
    return {
      succeeded: () => {
        settled = true;
        succeed();
      },
      failed: () => {
        settled = true;
        fail(new Error('no first response'));
      },
    };
  }

  /** The rules say so. */
  trip(): void {
    this.#breaker.open();
  }

  close(): void {
    this.#breaker.shutdown();
  }
}
