import t from 'tap';
import {
  advance,
  FAILOVER_STATES,
  failoverDeadlineMs,
  initialFailover,
  NEVER_MS,
  TRANSITIONS,
  type CandidateFacts,
  type FailoverKind,
  type FailoverState,
  type GroupFacts,
} from '../../../../../authorities/core/failover/failover.js';
import { DEFAULT_FAILOVER } from '../../../../../config/defaults.js';

const NOW_MS = 100_000_000;
const policy = DEFAULT_FAILOVER;

interface Sketch {
  readonly live?: boolean;
  readonly forMs?: number;
  readonly wellForMs?: number;
  readonly tripped?: boolean;
  readonly silentForMs?: number;
  readonly lostForMs?: number;
  readonly complete?: boolean;
}

function factsOf(
  candidates: readonly Sketch[],
  { nowMs = NOW_MS, wanted = true, uncached = false, isEmpty = false } = {},
): GroupFacts {
  return {
    nowMs,
    wanted,
    uncached: () => uncached,
    isEmpty,
    candidates: candidates.map(
      ({
        live = false,
        forMs = 0,
        wellForMs = live ? forMs : undefined,
        tripped = false,
        silentForMs,
        lostForMs,
        complete = true,
      }): CandidateFacts => ({
        live,
        liveSinceMs: nowMs - forMs,
        wellSinceMs: wellForMs === undefined ? null : nowMs - wellForMs,
        lostSinceMs: lostForMs === undefined ? -Infinity : nowMs - lostForMs,
        tripped,
        attempt:
          silentForMs === undefined
            ? undefined
            : { sinceMs: nowMs - silentForMs, isOwed: () => true },
        complete: () => complete,
      }),
    ),
  };
}

const stateOf = (kind: FailoverKind, change: Partial<FailoverState> = {}): FailoverState => ({
  ...initialFailover(policy),
  kind,
  cause: 'test',
  sinceMs: NOW_MS - 1,
  ...change,
});
const switched = { active: 1, lastSwitchMs: NOW_MS - 3_600_000 };

const EXAMPLE: Record<FailoverKind, FailoverState> = {
  idle: stateOf('idle'),
  connecting: stateOf('connecting'),
  primary: stateOf('primary', { primarySinceMs: NOW_MS - 3_600_000 }),
  reconnecting: stateOf('reconnecting'),
  failing_over: stateOf('failing_over', { target: 1 }),
  alt: stateOf('alt', switched),
  failing_back: stateOf('failing_back', { ...switched, target: 0 }),
  cached: stateOf('cached'),
  forced: stateOf('forced', { ...switched, target: 1, forcedUntilMs: Infinity }),
};

const down = {};
const tripped = { tripped: true };
const fresh = { live: true, forMs: 1_000 };
const stable = { live: true, forMs: 30_000 };
const slow = { silentForMs: 10_000 };
const incomplete = { complete: false };

/** States of the primary and the alternative. */
const SITUATIONS = {
  nothing_known: factsOf([down, down]),
  primary_fresh: factsOf([fresh, down]),
  primary_stable: factsOf([stable, down]),
  primary_slow: factsOf([slow, down], { uncached: true }),
  primary_slow_for_a_name: factsOf([slow, down]),
  primary_slow_alt_tripped: factsOf([slow, tripped], { uncached: true }),
  primary_tripped: factsOf([tripped, down]),
  only_alt_incomplete: factsOf([tripped, { ...fresh, ...incomplete }]),
  only_alt_ready: factsOf([tripped, fresh]),
  both_primary_fresh: factsOf([fresh, stable]),
  both_stable: factsOf([stable, stable]),
  both_primary_rotated: factsOf([{ ...fresh, wellForMs: 30_000 }, stable]),
  primary_between_streams: factsOf([{ wellForMs: 30_000 }, stable]),
  both_primary_incomplete: factsOf([{ ...stable, ...incomplete }, stable]),
  all_tripped: factsOf([tripped, tripped]),
  unwanted: factsOf([stable, stable], { wanted: false }),
} as const satisfies Record<string, GroupFacts>;
type Situation = keyof typeof SITUATIONS;

/** On first contact and after losing the primary, the same facts lead to the same state. */
const SEEKING = {
  primary_fresh: 'primary',
  primary_stable: 'primary',
  primary_tripped: 'failing_over',
  only_alt_incomplete: 'failing_over',
  only_alt_ready: 'alt',
  both_primary_fresh: 'primary',
  both_stable: 'primary',
  both_primary_rotated: 'primary',
  both_primary_incomplete: 'primary',
  all_tripped: 'cached',
  unwanted: 'idle',
} as const;

/** Only a group without content hurries. */
const slowIs = <K extends FailoverKind>(kind: K) => ({
  nothing_known: kind,
  primary_slow: kind,
  primary_slow_for_a_name: kind,
  primary_slow_alt_tripped: kind,
});
const COLD = {
  ...slowIs('connecting'),
  primary_slow: 'failing_over',
  primary_between_streams: 'connecting',
} as const;
const LOST = {
  ...slowIs('reconnecting'),
  primary_between_streams: 'reconnecting',
} as const;

/** The state in which the group settles. A new state or situation needs its cells here. */
const TABLE: Record<FailoverKind, Record<Situation, FailoverKind>> = {
  idle: { ...SEEKING, ...COLD },
  connecting: { ...SEEKING, ...COLD },
  primary: { ...SEEKING, ...LOST },
  reconnecting: { ...SEEKING, ...LOST },
  failing_over: { ...SEEKING, ...slowIs('failing_over'), primary_between_streams: 'alt' },
  alt: {
    ...slowIs('alt'),
    primary_between_streams: 'alt',
    primary_slow_alt_tripped: 'failing_over',
    primary_fresh: 'alt',
    primary_stable: 'primary',
    primary_tripped: 'alt',
    only_alt_incomplete: 'alt',
    only_alt_ready: 'alt',
    both_primary_fresh: 'alt',
    both_stable: 'primary',
    both_primary_rotated: 'primary',
    both_primary_incomplete: 'failing_back',
    all_tripped: 'cached',
    unwanted: 'idle',
  },
  failing_back: {
    ...slowIs('alt'),
    primary_between_streams: 'failing_back',
    primary_slow_alt_tripped: 'failing_over',
    primary_fresh: 'primary',
    primary_stable: 'primary',
    primary_tripped: 'alt',
    only_alt_incomplete: 'alt',
    only_alt_ready: 'alt',
    both_primary_fresh: 'primary',
    both_stable: 'primary',
    both_primary_rotated: 'primary',
    both_primary_incomplete: 'failing_back',
    all_tripped: 'cached',
    unwanted: 'idle',
  },
  cached: {
    ...SEEKING,
    ...slowIs('failing_over'),
    primary_slow_alt_tripped: 'cached',
    primary_between_streams: 'alt',
  },
  forced: {
    ...slowIs('forced'),
    primary_fresh: 'forced',
    primary_stable: 'forced',
    primary_tripped: 'forced',
    only_alt_incomplete: 'forced',
    only_alt_ready: 'forced',
    both_primary_fresh: 'forced',
    both_stable: 'forced',
    both_primary_rotated: 'forced',
    primary_between_streams: 'forced',
    both_primary_incomplete: 'forced',
    all_tripped: 'forced',
    unwanted: 'forced',
  },
};

const situations = Object.keys(SITUATIONS) as Situation[];

t.test('the failover of a group: every state × every situation', (t) => {
  for (const kind of FAILOVER_STATES) {
    for (const situation of situations) {
      const facts = SITUATIONS[situation];
      const last = advance(EXAMPLE[kind], facts, policy).at(-1) ?? EXAMPLE[kind];
      t.equal(last.kind, TABLE[kind][situation], `${kind} × ${situation}`);
      t.strictSame(advance(last, facts, policy), [], 'and it stays there');
    }
  }
  t.end();
});

t.test('the published table contains exactly the transitions that happen', (t) => {
  const seen = new Map<FailoverKind, Set<FailoverKind>>(
    FAILOVER_STATES.map((kind) => [kind, new Set(['forced'])]),
  );
  const note = (from: FailoverState, passed: readonly FailoverState[]): void => {
    let before = from;
    for (const next of passed) {
      seen.get(before.kind)?.add(next.kind);
      before = next;
    }
  };
  const pairs: [FailoverState, GroupFacts][] = FAILOVER_STATES.flatMap((kind) =>
    situations.map((situation): [FailoverState, GroupFacts] => [
      EXAMPLE[kind],
      SITUATIONS[situation],
    ]),
  );
  const third = factsOf([tripped, tripped, down]);
  const over = { active: 0, forcedUntilMs: NOW_MS };
  pairs.push(
    [EXAMPLE.failing_over, third],
    [EXAMPLE.alt, third],
    [stateOf('alt', { ...switched, active: 2 }), factsOf([tripped, stable, tripped])],
    [stateOf('failing_over', { ...switched, target: 0 }), factsOf([fresh, fresh])],
    [stateOf('cached', switched), factsOf([tripped, fresh])],
    [stateOf('forced', over), factsOf([down, down])],
    [stateOf('forced', over), factsOf([fresh, down])],
    [stateOf('forced', { ...over, active: 1 }), factsOf([down, fresh])],
    [stateOf('forced', over), factsOf([fresh, down], { wanted: false })],
  );
  for (const [state, facts] of pairs) note(state, advance(state, facts, policy));
  for (const kind of FAILOVER_STATES) {
    const happened = [...(seen.get(kind) ?? [])];
    t.strictSame(happened.sort(), [...TRANSITIONS[kind]].sort(), kind);
  }
  t.end();
});

t.test(
  'a group that began at a forced source and has nothing takes the primary while it is down',
  (t) => {
    const began = { ...EXAMPLE.forced, lastSwitchMs: NEVER_MS };
    const settled = (
      state: FailoverState,
      candidates: Parameters<typeof factsOf>[0],
      isEmpty = true,
    ) => advance(state, factsOf(candidates, { isEmpty }), policy).at(-1)?.active;
    t.equal(settled(began, [fresh, tripped]), 0);
    t.equal(settled(began, [fresh, tripped], false), undefined, 'content stays');
    t.equal(settled(began, [fresh, down]), undefined, 'the source may answer yet');
    t.equal(
      settled(EXAMPLE.forced, [fresh, tripped]),
      undefined,
      'it moved there, and all its names are absent (seed 8745)',
    );
    const waiting = { ...began, active: 0 };
    t.equal(settled(waiting, [fresh, stable]), EXAMPLE.forced.active);
    t.end();
  },
);

t.test('deadlines: each state wakes only for changes that time can cause', (t) => {
  const none = factsOf([down, down]);
  const at = (
    kind: FailoverKind,
    change: Partial<FailoverState> = {},
    facts = none,
    when = policy,
  ) => failoverDeadlineMs({ ...EXAMPLE[kind], ...change }, facts, when);
  for (const kind of ['idle', 'connecting', 'primary', 'reconnecting', 'cached'] as const) {
    t.equal(at(kind), undefined, kind);
  }
  t.equal(at('connecting', {}, factsOf([{ silentForMs: 1_000 }, down])), NOW_MS + 9_000);
  t.equal(at('reconnecting', {}, factsOf([{ silentForMs: 1_000 }, down])), undefined);
  t.equal(at('failing_over'), NOW_MS - 1 + 2_000);
  t.equal(at('failing_over', { lastSwitchMs: NOW_MS - 10_000, sinceMs: 0 }), NOW_MS + 20_000);
  t.equal(at('alt', {}, factsOf([fresh, stable])), NOW_MS + 29_000);
  t.equal(at('alt', {}, factsOf([down, stable])), undefined);
  t.equal(at('forced', { forcedUntilMs: NOW_MS + 50 }), NOW_MS + 50);
  const stale = {
    ...policy,
    useAlternativeWhen: { kind: 'stale_after', staleAfterMs: 9 },
  } as const;
  t.equal(at('cached', {}, factsOf([{ lostForMs: 1 }, down]), stale), NOW_MS + 8);
  t.equal(at('cached', {}, none, stale), undefined);
  t.end();
});

t.test('a state without a target moves to the primary; a force without a target stays', (t) => {
  const back = stateOf('failing_back', { ...switched, target: null });
  t.match(advance(back, SITUATIONS.both_stable, policy).at(-1), { kind: 'primary', active: 0 });
  const over = stateOf('failing_over', { ...switched, target: null });
  t.match(advance(over, factsOf([stable, tripped]), policy).at(-1), { kind: 'primary', active: 0 });
  const order = stateOf('forced', { ...switched, forcedUntilMs: Infinity });
  t.strictSame(advance(order, SITUATIONS.both_stable, policy), []);
  t.end();
});
