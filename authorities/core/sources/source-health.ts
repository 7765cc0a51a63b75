/**
 * The life of the one stream to a management server: when to connect, when to give up an attempt,
 * and when the circuit breaker trips. Control machine: immutable states, one `step`.
 *
 *   idle ──want──▶ [queued ──admitted──▶] connecting ──first response──▶ live ──unwanted, linger──▶ idle
 *   connecting ──ended/deadline──▶ waiting
 *   live ──ended──▶ waiting
 *   waiting ──retryAt──▶ [queued ──admitted──▶] connecting
 *
 * These trip (docs/FAILOVER.md): `failedAttemptLimit` attempts in a row without a first response;
 * silence on a stream with unanswered names; a lost probe followed by one failed attempt; too many
 * short-lived streams; a refusal of the gateway (`isRefusal`). This does not: the end of a stream that
 * responded and lived for `minStableMs` (gRFC A57: rotation is not an error).
 */
import type { SourceTimers } from '../../../config/model.js';
import { STATUS_CODE } from '../../../protos/discovery.js';
import { backoffDelayMs } from './backoff.js';
import { soonestOf } from '../soonest.js';

export const TRIP_REASONS = ['unreachable', 'silent', 'unstable', 'refused'] as const;
export type TripReason = (typeof TRIP_REASONS)[number];

/**
 * Why a stream ended. `stream`: its own gRPC status; `probe`: keepalive or the liveness probe
 * failed; `deadline`: no first response in time; `oversize`: a message exceeded the size limit;
 * `gateway`: the gateway wants a new stream; `type`: the source ended it for a type that was requested (`TypeTrials`). The
 * last two say nothing about the health of the source.
 */
export interface StreamEnd {
  readonly code: number;
  readonly message: string;
  readonly detectedBy: 'stream' | 'probe' | 'deadline' | 'oversize' | 'gateway' | 'type';
}

interface Memory {
  /** Number of the latest attempt; IO with another epoch is late and ignored. */
  readonly epoch: number;
  readonly wanted: boolean;
  /** Attempts since the last stable stream; the exponent of the backoff. */
  readonly attempt: number;
  /** Attempts in a row without a first response. A short-lived stream does not reset it. */
  readonly failures: number;
  /** Attempts in a row whose credentials the source refused. */
  readonly refusals: number;
  /** The last stream or attempt lost its keepalive or probe: one more failure trips. */
  readonly suspect: boolean;
  /** When short-lived streams ended, within the window. */
  readonly shortStreamEndsMs: readonly number[];
  readonly tripped: TripReason | null;
  /**
   * When the source first responded after its last failure; null: it has not responded since. No failures: the end of a
   * stable stream, and a stream that the gateway ends, or that ends because of a type.
   */
  readonly wellSinceMs: number | null;
  /** When a nudge last skipped the rest of a backoff. */
  readonly nudgedAtMs: number | null;
}

export type SourceHealth = Memory &
  (
    | { readonly kind: 'idle' }
    /** Other streams of the source start first (start-pace.ts). */
    | { readonly kind: 'queued' }
    | { readonly kind: 'connecting'; readonly sinceMs: number; readonly deadlineMs: number }
    | { readonly kind: 'live'; readonly sinceMs: number; readonly closeAtMs: number | null }
    | { readonly kind: 'waiting'; readonly retryAtMs: number; readonly closeAtMs: number | null }
  );

export type HealthEvent =
  | { readonly kind: 'want'; readonly wanted: boolean }
  /** A queued stream may start now. */
  | { readonly kind: 'admitted' }
  | { readonly kind: 'first_response' }
  | { readonly kind: 'ended'; readonly end: StreamEnd }
  /** A hint that the source may be reachable again. `skipsRateLimit`: the caller bounds how many of these come. */
  | { readonly kind: 'nudge'; readonly skipsRateLimit?: boolean }
  /** The credential files of the connection changed since the last attempt. */
  | { readonly kind: 'credentials_changed' }
  | { readonly kind: 'timer' };

export type HealthEffect =
  | { readonly kind: 'dial'; readonly epoch: number; readonly timeoutMs: number }
  | { readonly kind: 'hang_up'; readonly reason: string }
  | { readonly kind: 'up' }
  | { readonly kind: 'lost'; readonly end: StreamEnd; readonly livedMs: number | null }
  | { readonly kind: 'tripped'; readonly reason: TripReason; readonly end: StreamEnd }
  /** The source goes on refusing the credentials. */
  | { readonly kind: 'refused' };

export interface HealthInput {
  readonly timers: SourceTimers;
  readonly nowMs: number;
  /** In [0, 1). */
  readonly random: () => number;
  /** Does the server owe a response for any name? Only then is its silence a failure. */
  readonly owesResponse: () => boolean;
  /** Without subscriptions the stream is only kept warm: it requests nothing. */
  readonly hasSubscriptions: () => boolean;
  /** May the stream start now? If not, `admitted` follows. */
  readonly mayStart: () => boolean;
}

interface Step {
  readonly state: SourceHealth;
  readonly effects: readonly HealthEffect[];
}

type KindOf<K extends SourceHealth['kind']> = Extract<SourceHealth, { kind: K }>;
type EventOf<K extends HealthEvent['kind']> = Extract<HealthEvent, { kind: K }>;
type Table = {
  readonly [S in SourceHealth['kind']]: {
    readonly [E in HealthEvent['kind']]: (
      state: KindOf<S>,
      event: EventOf<E>,
      input: HealthInput,
    ) => Step;
  };
};

export const INITIAL_HEALTH: SourceHealth = {
  kind: 'idle',
  epoch: 0,
  wanted: false,
  attempt: 0,
  failures: 0,
  refusals: 0,
  suspect: false,
  shortStreamEndsMs: [],
  tripped: null,
  wellSinceMs: null,
  nudgedAtMs: null,
};

/**
 * A server that has just started may refuse good credentials, and a token may be made known to it a moment later. So these
 * attempts after a refusal follow the usual backoff: some two minutes. A count.
 */
const QUICK_RETRIES = 15;
/** After so many refusals in a row, some 20 s after the first, the credentials of clients count as expired. A count. */
const LASTING_REFUSALS = 8;

/**
 * A source that answers RESOURCE_EXHAUSTED is alive, and often only bounds how many streams may open in a second (istiod: some 25).
 * So these attempts since the last stable stream are no failures: some 7 s. Later ones are. A count.
 */
const BUSY_ATTEMPTS = 6;

/** A nudge may be mistaken or malicious, so it skips a backoff at most this often, unless it is a rare one. */
const NUDGE_INTERVAL_MS = 5_000;

/** The first attempt after a loss starts within this time, however long the backoff was. */
const AFTER_LOSS_MS = 1_000;

const stay = (state: SourceHealth): Step => ({ state, effects: [] });

const memoryOf = (state: SourceHealth): Memory => ({
  epoch: state.epoch,
  wanted: state.wanted,
  attempt: state.attempt,
  failures: state.failures,
  refusals: state.refusals,
  suspect: state.suspect,
  shortStreamEndsMs: state.shortStreamEndsMs,
  tripped: state.tripped,
  wellSinceMs: state.wellSinceMs,
  nudgedAtMs: state.nudgedAtMs,
});

const REFUSALS: ReadonlySet<number> = new Set([
  STATUS_CODE.unimplemented,
  STATUS_CODE.unauthenticated,
  STATUS_CODE.permissionDenied,
]);

/** Did the server refuse the gateway with a status that a retry seldom mends? */
export const isRefusal = ({ detectedBy, code }: StreamEnd): boolean =>
  detectedBy === 'stream' && REFUSALS.has(code);

const isBusy = ({ detectedBy, code }: StreamEnd): boolean =>
  detectedBy === 'stream' && code === STATUS_CODE.resourceExhausted;

/** Something that a stable stream puts right. New credentials reset the attempts alone. */
const hasTrouble = ({ attempt, failures, tripped }: Memory): boolean =>
  attempt > 0 || failures > 0 || tripped !== null;

function start(memory: Memory, input: HealthInput): Step {
  return input.mayStart() ? dial(memory, input) : stay({ ...memory, kind: 'queued' });
}

function dial(memory: Memory, { timers, nowMs }: HealthInput): Step {
  const epoch = memory.epoch + 1;
  // After a lost probe a black hole would swallow this attempt too, so it gets the shorter timeout.
  const timeoutMs = memory.suspect ? timers.probeTimeoutMs : timers.firstResponseTimeoutMs;
  return {
    state: { ...memory, kind: 'connecting', epoch, sinceMs: nowMs, deadlineMs: nowMs + timeoutMs },
    effects: [{ kind: 'dial', epoch, timeoutMs }],
  };
}

/** The next subscription, perhaps hours later, starts without failures. */
function idle(memory: Memory): SourceHealth {
  return {
    ...memory,
    kind: 'idle',
    attempt: 0,
    failures: 0,
    suspect: false,
    tripped: null,
    wellSinceMs: null,
  };
}

function retryLater(memory: Memory, delayMs: number, input: HealthInput): SourceHealth {
  if (!memory.wanted) return idle(memory);
  return { ...memory, kind: 'waiting', retryAtMs: input.nowMs + delayMs, closeAtMs: null };
}

/**
 * The next attempt would meet the same message: retry at the maximum backoff, and count no failure.
 */
function oversize(
  state: SourceHealth,
  end: StreamEnd,
  livedMs: number | null,
  input: HealthInput,
): Step {
  const memory = { ...memoryOf(state), wellSinceMs: null };
  const waiting = retryLater(memory, input.timers.backoffMaxMs, input);
  return { state: waiting, effects: [{ kind: 'lost', end, livedMs }] };
}

/** An attempt ended before its first response. */
function attemptFailed(state: SourceHealth, end: StreamEnd, input: HealthInput): Step {
  const { timers } = input;
  // An oversize response proves that the server is alive: it has an alarm of its own and does not
  // trip.
  if (end.detectedBy === 'oversize') return oversize(state, end, null, input);
  const isOfType = end.detectedBy === 'type';
  const isOfLoad = isBusy(end) && state.attempt < BUSY_ATTEMPTS;
  const failures = state.failures + (isOfType || isOfLoad ? 0 : 1);
  const refused = isRefusal(end);
  const isOfCredentials = refused && end.code !== STATUS_CODE.unimplemented;
  const refusals = isOfCredentials ? state.refusals + 1 : 0;
  const isFinal = refused && (!isOfCredentials || refusals > QUICK_RETRIES);
  const silent = end.detectedBy === 'deadline' && !state.suspect;
  const reason: TripReason | null = refused
    ? 'refused'
    : silent
      ? 'silent'
      : (state.suspect && !isOfLoad) || failures >= timers.failedAttemptLimit
        ? 'unreachable'
        : null;
  // A lost probe has already cost seconds: the attempt that decides is short, and starts at once.
  const suspect = end.detectedBy === 'probe' && reason === null && state.tripped === null;
  const delayMs = suspect
    ? 0
    : isFinal
      ? timers.refusedRetryMs
      : backoffDelayMs(
          // A source that refuses is there again, however long it was away.
          isOfCredentials ? refusals - 1 : state.attempt,
          timers.backoffBaseMs,
          timers.backoffMaxMs,
          input.random(),
        );
  const memory: Memory = {
    ...memoryOf(state),
    attempt: state.attempt + 1,
    failures,
    refusals,
    suspect,
    tripped: state.tripped ?? reason,
    wellSinceMs: isOfType ? state.wellSinceMs : null,
  };
  const lost: HealthEffect = { kind: 'lost', end, livedMs: null };
  const trips = reason !== null && state.tripped === null;
  return {
    state: retryLater(memory, delayMs, input),
    effects: [
      lost,
      ...(trips ? [{ kind: 'tripped', reason, end } as const] : []),
      ...(refusals >= LASTING_REFUSALS ? [{ kind: 'refused' } as const] : []),
    ],
  };
}

/** A stream ended after its first response. */
function liveEnded(state: KindOf<'live'>, end: StreamEnd, input: HealthInput): Step {
  const { timers, nowMs } = input;
  const livedMs = nowMs - state.sinceMs;
  if (end.detectedBy === 'oversize') return oversize(state, end, livedMs, input);
  const stable = livedMs >= timers.minStableMs;
  const isShort = !stable && end.detectedBy !== 'gateway' && end.detectedBy !== 'type';
  const suspect = end.detectedBy === 'probe';
  const windowStartMs = nowMs - timers.shortStreamWindowMs;
  const recent = state.shortStreamEndsMs.filter((endMs) => endMs > windowStartMs);
  const shortStreamEndsMs = isShort ? [...recent, nowMs] : recent;
  const unstable = isShort && shortStreamEndsMs.length >= timers.shortStreamLimit;
  const attempt = stable ? 0 : state.attempt;
  const memory: Memory = {
    ...memoryOf(state),
    attempt: attempt + 1,
    failures: stable ? 0 : state.failures,
    suspect,
    shortStreamEndsMs,
    tripped: stable ? null : (state.tripped ?? (unstable ? 'unstable' : null)),
    wellSinceMs: isShort || suspect ? null : state.wellSinceMs,
  };
  // The server just responded, so the backoff grown before does not apply. Recent short streams
  // still raise it: a server that responds once and dies, again and again, must be retried ever
  // more slowly.
  const delayMs = backoffDelayMs(
    Math.min(attempt, recent.length),
    timers.backoffBaseMs,
    // Until the source counts as down, its alternative waits for the attempts that decide.
    memory.tripped === null ? Math.min(timers.backoffMaxMs, AFTER_LOSS_MS) : timers.backoffMaxMs,
    input.random(),
  );
  const lost: HealthEffect = { kind: 'lost', end, livedMs };
  const trips = unstable && state.tripped === null;
  return {
    // A lost probe has already cost seconds: the attempt that decides starts at once.
    state: retryLater(memory, suspect ? 0 : delayMs, input),
    effects: trips ? [lost, { kind: 'tripped', reason: 'unstable', end }] : [lost],
  };
}

function wantWhileOpen(
  state: KindOf<'live'> | KindOf<'waiting'>,
  wanted: boolean,
  { timers, nowMs }: HealthInput,
): Step {
  if (wanted === state.wanted) return stay(state);
  return stay({ ...state, wanted, closeAtMs: wanted ? null : nowMs + timers.lingerMs });
}

const DEADLINE: StreamEnd = {
  code: STATUS_CODE.deadlineExceeded,
  message: 'no first response in time',
  detectedBy: 'deadline',
};

const TABLE: Table = {
  idle: {
    want: (state, { wanted }, input) =>
      wanted ? start({ ...memoryOf(state), wanted }, input) : stay(state),
    admitted: stay,
    first_response: stay,
    ended: stay,
    nudge: stay,
    credentials_changed: stay,
    timer: stay,
  },
  queued: {
    want: (state, { wanted }) => stay(wanted ? state : idle({ ...memoryOf(state), wanted })),
    admitted: (state, _event, input) => dial(memoryOf(state), input),
    first_response: stay,
    ended: stay,
    nudge: stay,
    credentials_changed: stay,
    timer: stay,
  },
  connecting: {
    want: (state, { wanted }) =>
      wanted
        ? stay({ ...state, wanted })
        : {
            state: idle({ ...memoryOf(state), wanted }),
            effects: [{ kind: 'hang_up', reason: 'nothing subscribed' }],
          },
    admitted: stay,
    first_response: (state, _event, { nowMs }) => ({
      state: {
        ...memoryOf(state),
        kind: 'live',
        refusals: 0,
        suspect: false,
        tripped: state.tripped === 'unstable' ? 'unstable' : null,
        sinceMs: nowMs,
        wellSinceMs: state.wellSinceMs ?? nowMs,
        closeAtMs: null,
      },
      effects: [{ kind: 'up' }],
    }),
    ended: (state, { end }, input) => attemptFailed(state, end, input),
    nudge: stay,
    credentials_changed: stay,
    timer: (state, event, input) => {
      if (input.nowMs < state.deadlineMs) return stay(state);
      if (!input.owesResponse()) {
        // On a resumed stream whose versions are all current the server owes no response (a quiet
        // resume). After a lost probe that counts only once the next probe had time to fail.
        const { firstResponseTimeoutMs } = input.timers;
        if (!input.hasSubscriptions()) {
          // A server that was asked nothing proves nothing by its silence: it may hang.
          const deadlineMs = input.nowMs + firstResponseTimeoutMs;
          return stay({ ...state, sinceMs: input.nowMs, deadlineMs });
        }
        const quietAtMs = state.sinceMs + firstResponseTimeoutMs;
        if (input.nowMs < quietAtMs) return stay({ ...state, deadlineMs: quietAtMs });
        return TABLE.connecting.first_response(state, { kind: 'first_response' }, input);
      }
      const failed = attemptFailed(state, DEADLINE, input);
      const hangUp: HealthEffect = {
        kind: 'hang_up',
        reason: `${event.kind}: ${DEADLINE.message}`,
      };
      return { state: failed.state, effects: [hangUp, ...failed.effects] };
    },
  },
  live: {
    want: (state, { wanted }, input) => wantWhileOpen(state, wanted, input),
    admitted: stay,
    first_response: stay,
    ended: (state, { end }, input) => liveEnded(state, end, input),
    nudge: stay,
    credentials_changed: stay,
    timer: (state, _event, { timers, nowMs }) => {
      if (state.closeAtMs !== null && nowMs >= state.closeAtMs) {
        return {
          state: idle(memoryOf(state)),
          effects: [{ kind: 'hang_up', reason: 'nothing subscribed' }],
        };
      }
      const becameStable = hasTrouble(state) && nowMs - state.sinceMs >= timers.minStableMs;
      return stay(becameStable ? { ...state, attempt: 0, failures: 0, tripped: null } : state);
    },
  },
  waiting: {
    want: (state, { wanted }, input) => wantWhileOpen(state, wanted, input),
    admitted: stay,
    first_response: stay,
    ended: stay,
    nudge: (state, { skipsRateLimit = false }, input) => {
      const { nudgedAtMs, wanted } = state;
      const again = nudgedAtMs !== null && input.nowMs - nudgedAtMs < NUDGE_INTERVAL_MS;
      if (!wanted || (again && !skipsRateLimit)) return stay(state);
      return start({ ...memoryOf(state), nudgedAtMs: input.nowMs }, input);
    },
    // The refusal concerned the old credentials, so the backoff restarts.
    credentials_changed: (state, _event, { timers, nowMs, random }) => {
      const delayMs = backoffDelayMs(0, timers.backoffBaseMs, timers.backoffMaxMs, random());
      return stay({ ...state, attempt: 0, retryAtMs: Math.min(state.retryAtMs, nowMs + delayMs) });
    },
    timer: (state, _event, input) => {
      if (state.closeAtMs !== null && input.nowMs >= state.closeAtMs) {
        return stay(idle(memoryOf(state)));
      }
      return input.nowMs >= state.retryAtMs && state.wanted
        ? start(memoryOf(state), input)
        : stay(state);
    },
  },
};

/**
 * Takes one event; returns the next state and the effects to perform. An event that does not apply
 * to the state changes nothing.
 */
export function stepHealth(state: SourceHealth, event: HealthEvent, input: HealthInput): Step {
  // The type of the table is complete, but TypeScript cannot correlate the two indexes: hence the
  // cast.
  const handle = TABLE[state.kind][event.kind] as (
    state: SourceHealth,
    event: HealthEvent,
    input: HealthInput,
  ) => Step;
  return handle(state, event, input);
}

/** When the next `timer` event is due, or undefined. */
export function healthDeadlineMs(state: SourceHealth, timers: SourceTimers): number | undefined {
  switch (state.kind) {
    case 'idle':
    case 'queued':
      return undefined;
    case 'connecting':
      return state.deadlineMs;
    case 'live': {
      const stableAtMs = hasTrouble(state) ? state.sinceMs + timers.minStableMs : Infinity;
      return soonestOf(stableAtMs, state.closeAtMs ?? undefined);
    }
    case 'waiting':
      return Math.min(state.wanted ? state.retryAtMs : Infinity, state.closeAtMs ?? Infinity);
  }
}
