/** Stories about the health of a source. */
import {
  healthDeadlineMs,
  INITIAL_HEALTH,
  stepHealth,
  type HealthEffect,
  type HealthEvent,
  type SourceHealth,
  type StreamEnd,
} from '../../authorities/core/sources/source-health.js';
import { DEFAULT_TIMERS } from '../../config/defaults.js';
import { STATUS_CODE } from '../../protos/discovery.js';

const timers = DEFAULT_TIMERS;
export const NOW_MS = 10_000_000;

interface Setting {
  readonly nowMs?: number;
  readonly random?: number;
  readonly owesResponse?: boolean;
  readonly mayStart?: boolean;
}

export const input = ({
  nowMs = NOW_MS,
  random = 0.5,
  owesResponse = true,
  mayStart = true,
}: Setting = {}): Parameters<typeof stepHealth>[2] => ({
  timers,
  nowMs,
  random: () => random,
  owesResponse: () => owesResponse,
  hasSubscriptions: () => true,
  mayStart: () => mayStart,
});

export const ended = (change: Partial<StreamEnd> = {}): HealthEvent => ({
  kind: 'ended',
  end: { code: STATUS_CODE.unavailable, message: 'gone', detectedBy: 'stream', ...change },
});
export const WANT: HealthEvent = { kind: 'want', wanted: true };
export const UNWANT: HealthEvent = { kind: 'want', wanted: false };
export const FIRST: HealthEvent = { kind: 'first_response' };
export const TIMER: HealthEvent = { kind: 'timer' };

/** Words for effects, as the tables of the tests use them. */
export const words = (effects: readonly HealthEffect[]): string =>
  effects
    .map((effect) => (effect.kind === 'tripped' ? `tripped:${effect.reason}` : effect.kind))
    .join(' ');

/** A source and a clock, for stories. */
export class Story {
  state: SourceHealth = INITIAL_HEALTH;
  nowMs = NOW_MS;
  owesResponse = true;
  random = 0.5;
  readonly did: string[] = [];

  on(event: HealthEvent): this {
    const { state, effects } = stepHealth(this.state, event, input(this));
    this.state = state;
    if (effects.length > 0) this.did.push(words(effects));
    return this;
  }

  after(ms: number): this {
    this.nowMs += ms;
    return this.on(TIMER);
  }

  /** Waits out the backoff, however long it is. */
  redialled(): this {
    const dueMs = healthDeadlineMs(this.state, timers) ?? NOW_MS;
    return this.after(Math.max(0, dueMs - this.nowMs));
  }

  liveFor(ms: number): this {
    this.on(FIRST);
    this.nowMs += ms;
    return this.on(TIMER);
  }
}
export const wanted = (): Story => new Story().on(WANT);
