/**
 * The failover state machine of one group: which candidate is served, when the group fails over,
 * and when it fails back. Control machine: immutable state, and `advance` computes the next state
 * from the facts. It is level-triggered: a fact that arrives twice, late or together with another
 * leads to the same state.
 *
 * A group is (primary authority, alternative). Its candidates are the sources of the authority in
 * order of preference, then those of the alternative. Candidate 0 is the primary. State names are
 * those of docs/FAILOVER.md and of the metrics.
 */
import type { FailoverPolicy } from '../../../config/model.js';
import type { UnansweredAttempt } from '../sources/source.js';
import { soonestOf } from '../soonest.js';

export const FAILOVER_STATES = [
  'idle',
  'connecting',
  'primary',
  'reconnecting',
  'failing_over',
  'alt',
  'failing_back',
  'cached',
  'forced',
] as const;
export type FailoverKind = (typeof FAILOVER_STATES)[number];

/** Present facts about one candidate. */
export interface CandidateFacts {
  /** Its stream has had a first response and is still open. */
  readonly live: boolean;
  readonly liveSinceMs: number;
  /** When it first responded after its last failure; null: it has not responded since (source-health.ts). */
  readonly wellSinceMs: number | null;
  /** When its last stream with a response ended; NEVER_MS: there was none. */
  readonly lostSinceMs: number;
  readonly tripped: boolean;
  /** The attempt that has no response yet. */
  readonly attempt: UnansweredAttempt | undefined;
  /**
   * The candidate has answered every name that a switch to it could lose: received, explicitly absent, or timed out.
   * A function, since it visits every name: called only where the result decides.
   */
  readonly complete: () => boolean;
}

export interface GroupFacts {
  /** Candidate 0 first; never empty. */
  readonly candidates: readonly CandidateFacts[];
  readonly wanted: boolean;
  /** At least one wanted name has neither content nor an answer. Visits every name. */
  readonly uncached: () => boolean;
  /** The group serves nothing. */
  readonly isEmpty: boolean;
  readonly nowMs: number;
}

export interface FailoverState {
  readonly kind: FailoverKind;
  readonly sinceMs: number;
  /** What caused the transition; a stable word for logs and metrics. */
  readonly cause: string;
  /** The candidate whose content is served. */
  readonly active: number;
  /** The candidate that the group is moving to, in `failing_over`, `failing_back` and `forced`. */
  readonly target: number | null;
  /** Current hold time; doubles on each relapse. */
  readonly holdMs: number;
  readonly lastSwitchMs: number;
  /** Since when the primary has been in use without a switch. */
  readonly primarySinceMs: number;
  /** End of an operator's `force`; Infinity: until an operator's release. */
  readonly forcedUntilMs: number;
}

/**
 * The table in docs/FAILOVER.md: for each state, the states that may follow. Checked on every
 * transition.
 */
export const TRANSITIONS: Readonly<Record<FailoverKind, readonly FailoverKind[]>> = {
  idle: ['connecting', 'forced'],
  connecting: ['primary', 'failing_over', 'cached', 'idle', 'forced'],
  primary: ['reconnecting', 'idle', 'forced'],
  reconnecting: ['primary', 'failing_over', 'cached', 'idle', 'forced'],
  failing_over: ['alt', 'primary', 'cached', 'failing_over', 'idle', 'forced'],
  alt: ['failing_back', 'failing_over', 'cached', 'idle', 'forced'],
  failing_back: ['primary', 'alt', 'idle', 'forced'],
  cached: ['primary', 'alt', 'failing_over', 'cached', 'idle', 'forced'],
  forced: ['primary', 'reconnecting', 'alt', 'forced'],
};

export const NEVER_MS = -Infinity;

export function initialFailover(policy: FailoverPolicy): FailoverState {
  return {
    kind: 'idle',
    sinceMs: 0,
    cause: 'start',
    active: 0,
    target: null,
    holdMs: policy.holdMs,
    lastSwitchMs: NEVER_MS,
    primarySinceMs: NEVER_MS,
    forcedUntilMs: NEVER_MS,
  };
}

export type CachedCause = 'all_sources_down' | 'cached_is_enough';

type Change = Partial<Omit<FailoverState, 'kind' | 'sinceMs' | 'cause'>>;

function enter(
  state: FailoverState,
  kind: FailoverKind,
  cause: string,
  nowMs: number,
  change: Change = {},
): FailoverState {
  return { ...state, target: null, ...change, kind, cause, sinceMs: nowMs };
}

const NO_CANDIDATE: CandidateFacts = {
  live: false,
  liveSinceMs: 0,
  wellSinceMs: null,
  lostSinceMs: NEVER_MS,
  tripped: true,
  attempt: undefined,
  /* c8 ignore next -- called only for live candidates */
  complete: () => false,
};
const candidate = (facts: GroupFacts, index: number): CandidateFacts =>
  facts.candidates[index] ?? NO_CANDIDATE;

/** The state of a group whose `active` candidate serves well. */
const restingKind = (active: number): FailoverKind => (active === 0 ? 'primary' : 'alt');

/** The best candidate to fail over to: the first live one, else the first that has not tripped. */
function bestTarget(state: FailoverState, facts: GroupFacts): number | null {
  const others = facts.candidates
    .map((_, index) => index)
    .filter((index) => index !== state.active);
  const live = others.find((index) => candidate(facts, index).live);
  if (live !== undefined) return live;
  return others.find((index) => !candidate(facts, index).tripped) ?? null;
}

/** When `stale_after` allows to leave the lost candidate in use; undefined: another policy applies. */
function staleAtMsOf(
  { active }: FailoverState,
  facts: GroupFacts,
  when: FailoverPolicy['useAlternativeWhen'],
): number | undefined {
  if (when.kind !== 'stale_after') return undefined;
  return candidate(facts, active).lostSinceMs + when.staleAfterMs;
}

/**
 * The `use_alternative_when` policy (FAILOVER.md). It restricts only switches to a worse candidate.
 */
function mayLeaveActive(
  state: FailoverState,
  facts: GroupFacts,
  target: number,
  { useAlternativeWhen: when }: FailoverPolicy,
): boolean {
  if (target < state.active || when.kind === 'unreachable' || facts.uncached()) return true;
  const staleAtMs = staleAtMsOf(state, facts, when);
  return staleAtMs !== undefined && facts.nowMs >= staleAtMs;
}

/**
 * With cause `all_sources_down` every candidate stays subscribed, to notice the first that returns.
 */
function stayCached(state: FailoverState, cause: CachedCause, nowMs: number): FailoverState {
  const same = state.kind === 'cached' && state.cause === cause;
  return same ? state : enter(state, 'cached', cause, nowMs);
}

function leaveActive(
  state: FailoverState,
  facts: GroupFacts,
  policy: FailoverPolicy,
  cause: string,
): FailoverState {
  const target = bestTarget(state, facts);
  const mayLeave = target !== null && mayLeaveActive(state, facts, target, policy);
  if (!mayLeave) {
    // The active candidate has tripped, but it responds. It is better than no source: clients must
    // not receive UNAVAILABLE.
    const active = candidate(facts, state.active);
    if (active.live) {
      return enter(state, restingKind(state.active), 'nowhere_to_go', facts.nowMs);
    }
    // The first attempt at the primary goes on, and may succeed.
    if (!active.tripped) return state;
    const cachedCause = target === null ? 'all_sources_down' : 'cached_is_enough';
    return stayCached(state, cachedCause, facts.nowMs);
  }
  return enter(state, 'failing_over', cause, facts.nowMs, { target });
}

/** Performs a switch. The hold doubles if the primary, after an earlier switch, was in use for less than `hold_reset`. */
function arrive(
  state: FailoverState,
  target: number,
  cause: string,
  nowMs: number,
  policy: FailoverPolicy,
): FailoverState {
  const leavesPrimary = state.active === 0;
  const rested = nowMs - state.primarySinceMs >= policy.holdResetMs;
  const relapsed = leavesPrimary && state.lastSwitchMs !== NEVER_MS && !rested;
  const holdMs = !leavesPrimary
    ? state.holdMs
    : relapsed
      ? Math.min(state.holdMs * 2, policy.holdMaxMs)
      : policy.holdMs;
  return enter(state, restingKind(target), cause, nowMs, {
    active: target,
    holdMs,
    lastSwitchMs: nowMs,
    primarySinceMs: target === 0 ? nowMs : NEVER_MS,
  });
}

/**
 * The target is complete, or it was live for all of `switch_wait`. Names that it did not answer
 * keep their cached content.
 */
function isReady(
  state: FailoverState,
  facts: GroupFacts,
  target: number,
  policy: FailoverPolicy,
): boolean {
  const { live, complete } = candidate(facts, target);
  return live && (facts.nowMs >= waitedUntilMs(state, facts, policy) || complete());
}

/** The wait starts once the group wants the target and the target is live, whichever is later. */
function waitedUntilMs(state: FailoverState, facts: GroupFacts, policy: FailoverPolicy): number {
  const { live, liveSinceMs } = candidate(facts, state.target ?? state.active);
  return Math.max(state.sinceMs, live ? liveSinceMs : NEVER_MS) + policy.switchWaitMs;
}

/**
 * A client without configuration gives up after some 15 s, and a silent primary trips only after 15 s. So a group that
 * serves nothing may leave the primary after `cold_wait`. The attempt at the primary goes on.
 */
function coldUntilMs(facts: GroupFacts, policy: FailoverPolicy): number {
  const { attempt } = candidate(facts, 0);
  return attempt?.isOwed() === true ? attempt.sinceMs + policy.coldWaitMs : Infinity;
}

/** A better candidate that returned has to be well for the hold. Streams that only rotate do not delay it. */
function heldUntilMs({ wellSinceMs }: CandidateFacts, { holdMs }: FailoverState): number {
  return (wellSinceMs ?? Infinity) + holdMs;
}

type Decide = (state: FailoverState, facts: GroupFacts, policy: FailoverPolicy) => FailoverState;

const DECIDE: Readonly<Record<FailoverKind, Decide>> = {
  idle: (state, { nowMs }) => enter(state, 'connecting', 'subscribed', nowMs),

  connecting: (state, facts, policy) => {
    const primary = candidate(facts, 0);
    if (primary.live) {
      return enter(state, 'primary', 'first_response', facts.nowMs, {
        primarySinceMs: facts.nowMs,
      });
    }
    if (primary.tripped) return leaveActive(state, facts, policy, 'primary_tripped');
    const isSlow = facts.nowMs >= coldUntilMs(facts, policy) && facts.uncached();
    return isSlow ? leaveActive(state, facts, policy, 'primary_slow') : state;
  },

  primary: (state, facts) =>
    candidate(facts, 0).live ? state : enter(state, 'reconnecting', 'stream_lost', facts.nowMs),

  reconnecting: (state, facts, policy) => {
    const primary = candidate(facts, 0);
    if (primary.live) return enter(state, 'primary', 'first_response', facts.nowMs);
    return primary.tripped ? leaveActive(state, facts, policy, 'primary_tripped') : state;
  },

  failing_over: (state, facts, policy) => {
    const target = state.target ?? 0;
    const active = candidate(facts, state.active);
    // A live but tripped candidate does not count: one that dies after each first response returns
    // for an instant again and again, and the group could never leave it.
    if (active.live && !active.tripped) {
      return enter(state, restingKind(state.active), 'active_returned', facts.nowMs);
    }
    if (candidate(facts, target).tripped && !candidate(facts, target).live) {
      return leaveActive(state, facts, policy, 'target_tripped');
    }
    const held = facts.nowMs < state.lastSwitchMs + state.holdMs;
    if (held || !isReady(state, facts, target, policy)) return state;
    return arrive(state, target, state.cause, facts.nowMs, policy);
  },

  alt: (state, facts, policy) => {
    const better = facts.candidates.findIndex(
      (one, index) => index < state.active && one.live && facts.nowMs >= heldUntilMs(one, state),
    );
    if (better !== -1) {
      return enter(state, 'failing_back', 'primary_stable', facts.nowMs, { target: better });
    }
    const active = candidate(facts, state.active);
    const gone = !active.live && active.tripped;
    return gone ? leaveActive(state, facts, policy, 'alternative_tripped') : state;
  },

  failing_back: (state, facts, policy) => {
    const target = candidate(facts, state.target ?? 0);
    if (target.wellSinceMs === null) {
      const holdMs = Math.min(state.holdMs * 2, policy.holdMaxMs);
      return enter(state, 'alt', 'relapse', facts.nowMs, { holdMs });
    }
    const held = facts.nowMs < state.lastSwitchMs + state.holdMs;
    if (held || !target.live || !target.complete()) return state;
    return arrive(state, state.target ?? 0, state.cause, facts.nowMs, policy);
  },

  cached: (state, facts, policy) => {
    if (candidate(facts, state.active).live) {
      return enter(state, restingKind(state.active), 'active_returned', facts.nowMs);
    }
    return leaveActive(state, facts, policy, 'source_returned');
  },

  forced: (state, facts, policy) => {
    const { nowMs } = facts;
    const target = state.target ?? state.active;
    if (nowMs >= state.forcedUntilMs) return settleAfterForce(state, facts);
    if (target === state.active) return isStranded(state, facts) ? { ...state, active: 0 } : state;
    if (!isReady(state, facts, target, policy)) return state;
    const arrived = arrive(state, target, 'forced', nowMs, policy);
    return { ...arrived, kind: 'forced', target, forcedUntilMs: state.forcedUntilMs };
  },
};

/**
 * The group began at the forced source, which turned out to be down. Until it is back, the primary serves: the group has nothing that
 * it could serve instead. A group that moved to the forced source stays there, also with nothing (seed 8745).
 */
function isStranded({ active, lastSwitchMs }: FailoverState, facts: GroupFacts): boolean {
  const hasBegunThere = active !== 0 && lastSwitchMs === NEVER_MS;
  const { live, tripped } = candidate(facts, active);
  return hasBegunThere && tripped && !live && facts.isEmpty;
}

function settleAfterForce(state: FailoverState, facts: GroupFacts): FailoverState {
  const kind =
    state.active === 0 && !candidate(facts, 0).live ? 'reconnecting' : restingKind(state.active);
  return enter(state, kind, 'released', facts.nowMs, { forcedUntilMs: NEVER_MS });
}

/** More steps than states means that two states disagree: a bug, not an input. */
const MAX_STEPS = FAILOVER_STATES.length;

/**
 * Computes the next states from the facts. When `active` changes, the caller switches to that
 * candidate's content.
 *
 * @returns every state passed through, oldest first; empty when nothing changed.
 */
export function advance(
  from: FailoverState,
  facts: GroupFacts,
  policy: FailoverPolicy,
): readonly FailoverState[] {
  const passed: FailoverState[] = [];
  let state = from;
  for (let step = 0; step < MAX_STEPS; step++) {
    const next = decide(state, facts, policy);
    if (next === state) return passed;
    assertPublished(state.kind, next.kind);
    passed.push(next);
    state = next;
  }
  /* c8 ignore next 2 -- states that disagree are a bug, and no known input shows one */
  throw new Error(`failover does not come to rest: ${passed.map(({ kind }) => kind).join(' → ')}`);
}

function decide(state: FailoverState, facts: GroupFacts, policy: FailoverPolicy): FailoverState {
  if (!facts.wanted && state.kind !== 'forced') {
    return state.kind === 'idle' ? state : idleAgain(state, facts.nowMs);
  }
  return DECIDE[state.kind](state, facts, policy);
}

/**
 * The group holds nothing any more, so it tries the primary first again and forgets the last
 * switch: its hold would delay the next client's failover to a healthy alternative.
 */
function idleAgain(state: FailoverState, nowMs: number): FailoverState {
  return enter(state, 'idle', 'unsubscribed', nowMs, { active: 0, lastSwitchMs: NEVER_MS });
}

function assertPublished(from: FailoverKind, to: FailoverKind): void {
  /* c8 ignore next 3 -- a transition outside the table is a bug */
  if (!TRANSITIONS[from].includes(to)) {
    throw new Error(`failover may not go from ${from} to ${to}`);
  }
}

/**
 * An operator's order: serve this candidate until the deadline or a release. Bypasses hold and
 * policy.
 */
export function force(
  state: FailoverState,
  target: number,
  nowMs: number,
  untilMs: number,
): FailoverState {
  return enter(state, 'forced', 'operator', nowMs, { target, forcedUntilMs: untilMs });
}

export function release(state: FailoverState, facts: GroupFacts): FailoverState {
  return state.kind === 'forced' ? settleAfterForce(state, facts) : state;
}

/** A reload replaced the group of this state. */
export interface Replaced {
  readonly state: FailoverState;
  readonly policy: FailoverPolicy;
  /** @returns the place of one of its candidates in the new group; -1: the new group lacks it */
  readonly placeOf: (index: number) => number;
}

/**
 * The state that the new group takes over: an operator's order, the alternative in use, and the hold of the last switch. Else
 * it would return to a primary that has just come back, and an edit of the map would end the order.
 *
 * @returns fields that replace those of the initial state. A group at its primary begins with `connecting`, and compares what
 *   it took over with the primary
 */
export function inherited(
  { state, policy: before, placeOf }: Replaced,
  policy: FailoverPolicy,
  nowMs: number,
): Partial<FailoverState> {
  const active = placeOf(state.active);
  // A group that still waits for its first answer has nothing to stay for.
  if (state.kind === 'idle' || state.kind === 'connecting' || active < 0) return {};
  const isDoubled = state.holdMs > before.holdMs;
  const holdMs = isDoubled ? Math.min(state.holdMs, policy.holdMaxMs) : policy.holdMs;
  const target = state.target === null ? null : placeOf(state.target);
  if (state.kind === 'forced' && target !== -1) return { ...state, active, target, holdMs };
  const { cause, sinceMs, lastSwitchMs } = state;
  if (active > 0) return { kind: 'alt', cause, sinceMs, active, holdMs, lastSwitchMs };
  const hasRested = nowMs - state.primarySinceMs >= policy.holdResetMs;
  return hasRested && state.active === 0 ? {} : { holdMs, lastSwitchMs };
}

/** When to call `advance` even if no fact changes. */
export function failoverDeadlineMs(
  state: FailoverState,
  facts: GroupFacts,
  policy: FailoverPolicy,
): number | undefined {
  const atMs = candidateDeadlines(state, facts, policy).filter((ms) => ms > facts.nowMs);
  return soonestOf(...atMs);
}

function candidateDeadlines(
  state: FailoverState,
  facts: GroupFacts,
  policy: FailoverPolicy,
): readonly number[] {
  const { useAlternativeWhen: when } = policy;
  switch (state.kind) {
    case 'connecting':
      return [coldUntilMs(facts, policy)];
    case 'idle':
    case 'primary':
    case 'reconnecting':
      return [];
    case 'failing_over':
    case 'failing_back':
      return [waitedUntilMs(state, facts, policy), state.lastSwitchMs + state.holdMs];
    case 'alt':
      return facts.candidates
        .filter(({ live }, index) => live && index < state.active)
        .map((one) => heldUntilMs(one, state));
    case 'cached':
      return [staleAtMsOf(state, facts, when) ?? Infinity];
    case 'forced':
      return [waitedUntilMs(state, facts, policy), state.forcedUntilMs];
  }
}
