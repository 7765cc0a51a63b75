/**
 * The circuit breaker of one source: opossum around "first request → first response" of each attempt.
 *
 * A breaker guards calls with a result. A stream has none, but an attempt up to its first response
 * has one. source-health.ts decides when to trip, since a failure rate cannot express its rules
 * (two failures in a row, short-lived streams, a lost probe). A trip opens the breaker, the backoff
 * paces the half-open attempts, and a first response closes it. As a backstop, the breaker ends an
 * attempt whose first response is overdue even if the gateway's own timer were lost.
 */
import { EventEmitter } from 'node:events';
import CircuitBreaker from 'opossum';

export type BreakerState = 'closed' | 'open' | 'half_open';

/** The backoff paces the attempts, so the breaker must be half-open whenever the backoff ends. */
const RESET_TIMEOUT_MS = 1;
/** The backstop fires after the timeout that it backs up. */
const BACKSTOP_MS = 1_000;
/** The breaker never trips by its own statistics: see above. */
const NEVER_BY_RATE = 1_000_000_000;

/**
 * Never rotates. By default each breaker starts two timers for statistics that the gateway does not
 * use.
 */
const rotateBucketController = new EventEmitter().setMaxListeners(0);

/** The two outcomes of one attempt: the first one counts, the other is ignored. */
export interface GuardedAttempt {
  succeeded(): void;
  failed(): void;
}

type Action = (
  settle: (resolve: () => void, reject: (reason: Error) => void) => void,
) => Promise<void>;

export class SourceBreaker {
  readonly #breaker: CircuitBreaker<Parameters<Action>, void>;

  /** @param timeoutMs the longest time that any rule allows for a first response. */
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

  /** @param onRefused the breaker rejects the attempt: it is still open, or the backstop fired. */
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

  /** Opens the breaker: source-health.ts tripped. */
  trip(): void {
    this.#breaker.open();
  }

  close(): void {
    this.#breaker.shutdown();
  }
}
