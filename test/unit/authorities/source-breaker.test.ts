/**
 * Goal: the opossum breaker and source-health.ts never disagree about a source.
 * Method: the health machine and the breaker side by side over seeded histories, with opossum's
 * timers under a fake clock.
 */
import fc from 'fast-check';
import t from 'tap';
import {
  INITIAL_HEALTH,
  stepHealth,
  type HealthEvent,
  type SourceHealth,
} from '../../../authorities/core/sources/source-health.js';
import { SourceBreaker, type GuardedAttempt } from '../../../authorities/source-breaker.js';
import { DEFAULT_TIMERS } from '../../../config/defaults.js';

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

type Move = 'answer' | 'refuse' | 'lose' | 'probe_lost' | 'wait';

const endOf = (move: Move): HealthEvent => ({
  kind: 'ended',
  end: { code: 14, message: move, detectedBy: move === 'probe_lost' ? 'probe' : 'stream' },
});

t.test(
  'the breaker is open or half-open exactly while the source counts as tripped and does not answer',
  async (t) => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom<Move>('answer', 'refuse', 'lose', 'probe_lost', 'wait'), {
          maxLength: 30,
        }),
        async (moves) => {
          const breaker = new SourceBreaker('cloud', DEFAULT_TIMERS.firstResponseTimeoutMs);
          let nowMs = 0;
          let state: SourceHealth = INITIAL_HEALTH;
          let attempt: GuardedAttempt | undefined;
          const step = (event: HealthEvent): void => {
            const input = {
              timers: DEFAULT_TIMERS,
              nowMs,
              random: () => 0.5,
              owesResponse: () => true,
              hasSubscriptions: () => true,
              mayStart: () => true,
            };
            const next = stepHealth(state, event, input);
            state = next.state;
            for (const effect of next.effects) {
              if (effect.kind === 'dial')
                attempt = breaker.attempt(() => t.fail('the breaker refused'));
              if (effect.kind === 'up') attempt?.succeeded();
              if (effect.kind === 'lost') attempt?.failed();
              if (effect.kind === 'tripped') breaker.trip();
            }
          };
          step({ kind: 'want', wanted: true });
          for (const move of moves) {
            if (move === 'answer') step({ kind: 'first_response' });
            else if (move === 'wait') {
              // Real time: opossum's reset timer of 1 ms must have passed; any backoff is longer.
              await new Promise((resolve) => setTimeout(resolve, 2));
              nowMs += DEFAULT_TIMERS.refusedRetryMs;
              step({ kind: 'timer' });
            } else step(endOf(move));
            await settled();
            const answering = state.kind === 'live';
            const expected = answering || state.tripped === null ? 'closed' : 'not closed';
            const actual = breaker.state === 'closed' ? 'closed' : 'not closed';
            // A trip of a stream that got a response (`unstable`) leaves the breaker open until the
            // next response.
            if (actual !== expected)
              throw new Error(
                `${state.kind}, tripped ${String(state.tripped)}, but the breaker is ${breaker.state}`,
              );
          }
          attempt?.failed();
          breaker.close();
        },
      ),
      { numRuns: 50 },
    );
    t.end();
  },
);

t.test(
  'an overdue first response ends the attempt even without the gateway’s own timer',
  async (t) => {
    const breaker = new SourceBreaker('cloud', -980);
    const reason = await new Promise<string>((resolve) => breaker.attempt(resolve));
    t.match(reason, /timed out/i);
    breaker.close();
  },
);
