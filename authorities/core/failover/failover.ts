/**
 * Which candidate of a group is served, when names leave it, and when they return. Control machine:
 * immutable state, `advance` computes the next from the facts. Level-triggered on purpose: a fact
 * that arrives twice, late or together with another leads to the same state.
 *
 * A group is (primary authority, alternative). Its candidates are the authority's own sources in
 * order of preference and then those of the alternative; candidate 0 is the primary. The states and
 * their words are those of docs/FAILOVER.md and of the metrics.
 */
import type { FailoverPolicy } from '../../../config/model.js';

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

/** What is known of one candidate now. */
export interface CandidateFacts {
  /** Its stream has had a first response and lives. */
  readonly live: boolean;
  readonly liveSinceMs: number;
  readonly tripped: boolean;
  /**
   * Every name that the group wants is answered there: received, explicitly absent, or timed out.
   * Asked for only where it decides, since it looks at every name.
   */
  readonly complete: () => boolean;
}

export interface GroupFacts {
  /** Candidate 0 first; never empty. */
  readonly candidates: readonly CandidateFacts[];
  readonly wanted: boolean;
  /** Some wanted name has nothing to be served with. Looks at every name. */
  readonly uncached: () => boolean;
  readonly nowMs: number;
}

export interface FailoverState {
  readonly kind: FailoverKind;
  readonly sinceMs: number;
  /** What led here, as a stable word for logs and metrics. */
  readonly cause: string;
  /** The candidate whose content is served. */
  readonly active: number;
  /** The candidate that is being moved to: `failing_over`, `failing_back`, `forced`. */
  readonly target: number | null;
  /** Present length of the hold; doubles on relapse. */
  readonly holdMs: number;
  readonly lastSwitchMs: number;
  /** Since when the primary has been served without a switch. */
  readonly primarySinceMs: number;
  /** Since when the active candidate has been unreachable. */
  readonly lostSinceMs: number;
  /** End of an operator's `force`; Infinity: until released. */
  readonly forcedUntilMs: number;
}

/** The published table: from each state, the states that may follow. Checked on every transition. */
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
    lostSinceMs: NEVER_MS,
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

const NOBODY: CandidateFacts = {
  live: false,
  liveSinceMs: 0,
  tripped: true,
  /* c8 ignore next -- asked only of candidates that live */
  complete: () => false,
};
const candidate = (facts: GroupFacts, index: number): CandidateFacts =>
  facts.candidates[index] ?? NOBODY;

/** Where a group rests once `active` serves well. */
const restingKind = (active: number): FailoverKind => (active === 0 ? 'primary' : 'alt');

/** Best candidate to move to in need: a live one by preference, else one that has not failed yet. */
function refuge(state: FailoverState, facts: GroupFacts): number | null {
  const others = facts.candidates
    .map((_, index) => index)
    .filter((index) => index !== state.active);
  const live = others.find((index) => candidate(facts, index).live);
  if (live !== undefined) return live;
  return others.find((index) => !candidate(facts, index).tripped) ?? null;
}

/** When to use the alternative is the one policy choice (FAILOVER.md); the way back up needs no leave. */
function mayLeaveActive(
  state: FailoverState,
  facts: GroupFacts,
  target: number,
  { useAlternativeWhen: when }: FailoverPolicy,
): boolean {
  if (target < state.active || when.kind === 'unreachable' || facts.uncached()) return true;
  return when.kind === 'stale_after' && facts.nowMs >= state.lostSinceMs + when.staleAfterMs;
}

/** The cause tells whether the other candidates have to be watched for one that comes back. */
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
  const target = refuge(state, facts);
  const mayLeave = target !== null && mayLeaveActive(state, facts, target, policy);
  if (!mayLeave) {
    // It has tripped, and answers: better than nothing, and nobody is to hear that nothing answers.
    if (candidate(facts, state.active).live) {
      return enter(state, restingKind(state.active), 'nowhere_to_go', facts.nowMs);
    }
    const cachedCause = target === null ? 'all_sources_down' : 'cached_is_enough';
    return stayCached(state, cachedCause, facts.nowMs);
  }
  return enter(state, 'failing_over', cause, facts.nowMs, { target });
}

/** The moment of a switch: hold and its doubling are decided here and nowhere else. */
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

/** Complete, or alive and waited for long enough: what it has not answered stays as it is. */
function isReady(
  state: FailoverState,
  facts: GroupFacts,
  target: number,
  policy: FailoverPolicy,
): boolean {
  const { live, complete } = candidate(facts, target);
  return live && (facts.nowMs >= waitedUntilMs(state, facts, policy) || complete());
}

/** The wait for the target begins when both are true: it is wanted, and it answers. */
function waitedUntilMs(state: FailoverState, facts: GroupFacts, policy: FailoverPolicy): number {
  const { live, liveSinceMs } = candidate(facts, state.target ?? state.active);
  return Math.max(state.sinceMs, live ? liveSinceMs : NEVER_MS) + policy.switchWaitMs;
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
    return primary.tripped ? leaveActive(state, facts, policy, 'primary_tripped') : state;
  },

  primary: (state, facts) =>
    candidate(facts, 0).live
      ? state
      : enter(state, 'reconnecting', 'stream_lost', facts.nowMs, { lostSinceMs: facts.nowMs }),

  reconnecting: (state, facts, policy) => {
    const primary = candidate(facts, 0);
    if (primary.live) return enter(state, 'primary', 'first_response', facts.nowMs);
    return primary.tripped ? leaveActive(state, facts, policy, 'primary_tripped') : state;
  },

  failing_over: (state, facts, policy) => {
    const target = state.target ?? 0;
    const active = candidate(facts, state.active);
    // One that dies after each first response is back for an instant again and again; would that count,
    // the names could never leave it.
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
      ({ live, liveSinceMs }, index) =>
        index < state.active && live && facts.nowMs - liveSinceMs >= state.holdMs,
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
    if (!target.live) {
      const holdMs = Math.min(state.holdMs * 2, policy.holdMaxMs);
      return enter(state, 'alt', 'relapse', facts.nowMs, { holdMs });
    }
    const held = facts.nowMs < state.lastSwitchMs + state.holdMs;
    if (held || !target.complete()) return state;
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
    if (target === state.active || !isReady(state, facts, target, policy)) return state;
    const arrived = arrive(state, target, 'forced', nowMs, policy);
    return { ...arrived, kind: 'forced', target, forcedUntilMs: state.forcedUntilMs };
  },
};

function settleAfterForce(state: FailoverState, facts: GroupFacts): FailoverState {
  const kind =
    state.active === 0 && !candidate(facts, 0).live ? 'reconnecting' : restingKind(state.active);
  return enter(state, kind, 'released', facts.nowMs, { forcedUntilMs: NEVER_MS });
}

/** More steps than states means that two states disagree: a bug, not an input. */
const MAX_STEPS = FAILOVER_STATES.length;

/**
 * The state that follows from the facts. A change of `active` is the switch: the caller then serves
 * that candidate's content.
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
  /* c8 ignore next 2 -- states that disagree are a bug, and there is none to show it with */
  throw new Error(`failover does not come to rest: ${passed.map(({ kind }) => kind).join(' → ')}`);
}

function decide(state: FailoverState, facts: GroupFacts, policy: FailoverPolicy): FailoverState {
  if (!facts.wanted && state.kind !== 'forced') {
    return state.kind === 'idle' ? state : idleAgain(state, facts.nowMs);
  }
  return DECIDE[state.kind](state, facts, policy);
}

/**
 * Nothing is held any more, so the primary is tried first again, and no hold is left to keep: it
 * would make the next client wait for an alternative that is well.
 */
function idleAgain(state: FailoverState, nowMs: number): FailoverState {
  return enter(state, 'idle', 'unsubscribed', nowMs, { active: 0, lastSwitchMs: NEVER_MS });
}

function assertPublished(from: FailoverKind, to: FailoverKind): void {
  /* c8 ignore next 3 -- a transition that is not published is a bug */
  if (!TRANSITIONS[from].includes(to)) {
    throw new Error(`failover may not go from ${from} to ${to}`);
  }
}

/** An operator's order: serve this candidate until the deadline or a release. It bypasses hold and policy. */
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

/** When `advance` must be called though no fact changed. */
export function failoverDeadlineMs(
  state: FailoverState,
  facts: GroupFacts,
  policy: FailoverPolicy,
): number | undefined {
  const atMs = candidateDeadlines(state, facts, policy).filter((ms) => ms > facts.nowMs);
  const soonest = Math.min(...atMs);
  return soonest === Infinity ? undefined : soonest;
}

function candidateDeadlines(
  state: FailoverState,
  facts: GroupFacts,
  policy: FailoverPolicy,
): readonly number[] {
  const { useAlternativeWhen: when } = policy;
  switch (state.kind) {
    case 'idle':
    case 'connecting':
    case 'primary':
    case 'reconnecting':
      return [];
    case 'failing_over':
    case 'failing_back':
      return [waitedUntilMs(state, facts, policy), state.lastSwitchMs + state.holdMs];
    case 'alt':
      return facts.candidates
        .filter(({ live }, index) => live && index < state.active)
        .map(({ liveSinceMs }) => liveSinceMs + state.holdMs);
    case 'cached':
      return when.kind === 'stale_after' ? [state.lostSinceMs + when.staleAfterMs] : [];
    case 'forced':
      return [waitedUntilMs(state, facts, policy), state.forcedUntilMs];
  }
}
