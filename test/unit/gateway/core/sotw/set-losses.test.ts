/**
 * Goal: the first set of a resuming state-of-the-world client does not at once remove resources
 * that may only be late, and not everything before the deletion guard has waited (invariant 3).
 * Method: manual losses, and a clock.
 */
import t from 'tap';
import { DEFAULT_FAILOVER } from '../../../../../config/defaults.js';
import type { DeletionGuard } from '../../../../../config/model.js';
import {
  SetLosses,
  type Sample,
  type FirstSet,
  type LossJudgement,
  type SetLoss,
} from '../../../../../gateway/core/sotw/set-losses.js';
import { nameOf } from '../../../../support/fake-directory.js';
import { CDS, LDS, cds } from '../../../../support/mesh-names.js';
import { GUARD_WAIT_MS, SWITCH_WAIT_MS } from '../../../../support/session-driver.js';

const losses = (
  guard: Partial<DeletionGuard> = {},
  isCurrent = true,
  guardedUntilMs = -Infinity,
): SetLosses =>
  new SetLosses({
    isCurrent: () => isCurrent,
    guardedUntilMs: () => guardedUntilMs,
    removalPolicyOf: () => ({
      ...DEFAULT_FAILOVER,
      deletionGuard: { ...DEFAULT_FAILOVER.deletionGuard, ...guard },
    }),
  });
const KNOWN: Omit<FirstSet, 'losses'> = {
  isUndecided: false,
  doubted: [],
  answered: [],
  unreachable: [],
  heldUntilMs: undefined,
  isGuarded: false,
};

interface Held extends LossJudgement {
  readonly untilMs: number | undefined;
}

/** Everything is known about the set that loses this. */
function judge(one: SetLosses, lost: readonly SetLoss[], nowMs: number): Held {
  const set = { ...KNOWN, losses: lost };
  const judgement = one.hold([set], nowMs);
  return { ...judgement, untilMs: set.heldUntilMs };
}

/** The guard holds these back for all clients. */
function doubt(one: SetLosses, doubted: readonly Sample[], nowMs: number): void {
  one.hold([{ ...KNOWN, losses: [], isUndecided: true, doubted }], nowMs);
}

const loss = (held: number, lost: number, authority = 'a', typeUrl: string = CDS): SetLoss => ({
  typeUrl,
  sample: nameOf(cds('x', authority)),
  held,
  lost,
});
const GUARDED_MS = SWITCH_WAIT_MS + GUARD_WAIT_MS;
const waitsUntil = (untilMs: number | undefined): Held => ({
  untilMs,
  againMs: untilMs,
  guarded: [],
});

t.test('a set without losses goes at once', (t) => {
  t.strictSame(judge(losses(), [loss(3, 0)], 0), waitsUntil(undefined));
  t.strictSame(judge(losses(), [], 0), waitsUntil(undefined));
  t.end();
});

t.test('a loss is not judged while a source still has to answer, or answers no more', (t) => {
  const lost = [loss(2, 2)];
  const sets = [
    { ...KNOWN, losses: lost },
    { ...KNOWN, losses: [], isUndecided: true },
  ];
  t.strictSame(losses().hold(sets, 5), { againMs: undefined, guarded: [] });
  t.strictSame(
    sets.map(({ heldUntilMs }) => heldUntilMs),
    [1_005, undefined],
  );
  t.match(judge(losses({}, false), lost, 5), { untilMs: 1_005, againMs: undefined });
  t.end();
});

t.test('a loss waits for `switch_wait`, and then proceeds if it is not too much', (t) => {
  const one = losses();
  t.strictSame(judge(one, [loss(3, 1)], 5), waitsUntil(5 + SWITCH_WAIT_MS));
  t.strictSame(judge(one, [loss(3, 2)], 1_000), waitsUntil(5 + SWITCH_WAIT_MS));
  t.strictSame(judge(one, [loss(3, 2)], 5 + SWITCH_WAIT_MS), waitsUntil(undefined));
  t.strictSame(
    judge(one, [loss(3, 3)], 6 + SWITCH_WAIT_MS),
    waitsUntil(undefined),
    'judged once for the stream',
  );
  t.end();
});

t.test('a resource that is back meanwhile is not a loss', (t) => {
  const one = losses();
  t.ok(judge(one, [loss(1, 1)], 0).untilMs);
  t.strictSame(judge(one, [loss(1, 0)], 1_000), waitsUntil(undefined));
  t.end();
});

t.test('the guard waits anew for a source that failed during its wait (seed 410808)', (t) => {
  const backMs = SWITCH_WAIT_MS + 1_000;
  const one = losses({}, true, backMs + GUARD_WAIT_MS);
  const all = [loss(2, 2)];
  judge(one, all, 0);
  t.match(judge(one, all, SWITCH_WAIT_MS), { untilMs: GUARDED_MS });
  t.strictSame(judge(one, all, GUARDED_MS), waitsUntil(backMs + GUARD_WAIT_MS));
  t.strictSame(judge(one, all, backMs + GUARD_WAIT_MS), waitsUntil(undefined));
  t.strictSame(judge(one, all, GUARDED_MS), waitsUntil(undefined), 'judged once for the stream');
  t.end();
});

t.test('it waits ten minutes at most: new clusters wait with the set', (t) => {
  const one = losses({}, true, Infinity);
  const all = [loss(2, 2)];
  judge(one, all, 0);
  judge(one, all, SWITCH_WAIT_MS);
  t.strictSame(judge(one, all, GUARDED_MS), waitsUntil(600_000));
  t.strictSame(judge(one, all, 600_000), waitsUntil(undefined));
  t.end();
});

t.test('all types are judged together: everything at once is too much, and reported once', (t) => {
  const both = [loss(1, 1, 'a', LDS), loss(2, 2)];
  const one = losses();
  judge(one, both, 0);
  t.strictSame(judge(one, both, SWITCH_WAIT_MS), {
    untilMs: GUARDED_MS,
    againMs: GUARDED_MS,
    guarded: [{ authority: 'a', names: 3, untilMs: GUARDED_MS }],
  });
  t.strictSame(judge(one, both, GUARDED_MS - 1), waitsUntil(GUARDED_MS));
  t.strictSame(judge(one, both, GUARDED_MS), waitsUntil(undefined), 'after the wait of the guard');
  const other = losses();
  const half = [loss(1, 1, 'a', LDS), loss(2, 1)];
  judge(other, half, 0);
  t.strictSame(judge(other, half, SWITCH_WAIT_MS), waitsUntil(undefined), 'one cluster remains');
  t.end();
});

t.test(
  'each authority is judged by itself: losing all of one is too much although another is complete',
  (t) => {
    const one = losses();
    const all = [loss(1, 1, 'a'), loss(9, 0, 'b')];
    judge(one, all, 0);
    t.strictSame(judge(one, all, SWITCH_WAIT_MS).guarded, [
      { authority: 'a', names: 1, untilMs: GUARDED_MS },
    ]);
    t.end();
  },
);

t.test('each authority is judged at its own time, while another is held back (seed 6979)', (t) => {
  const one = losses();
  const first = loss(1, 1, 'a');
  judge(one, [first], 0);
  judge(one, [first], SWITCH_WAIT_MS);
  const both = [first, loss(1, 1, 'b')];
  const laterMs = SWITCH_WAIT_MS + 10_000;
  const againMs = laterMs + SWITCH_WAIT_MS;
  t.strictSame(judge(one, both, laterMs), { untilMs: GUARDED_MS, againMs, guarded: [] });
  const untilMs = againMs + GUARD_WAIT_MS;
  t.strictSame(judge(one, both, againMs), {
    untilMs,
    againMs: GUARDED_MS,
    guarded: [{ authority: 'b', names: 1, untilMs }],
  });
  t.end();
});

t.test('a large share of many is too much', (t) => {
  for (const [held, isHeldBack] of [
    [7, false],
    [6, true],
  ] as const) {
    const one = losses({ share: 0.5, count: 2 });
    judge(one, [loss(held, 3)], 0);
    const { guarded } = judge(one, [loss(held, 3)], SWITCH_WAIT_MS);
    t.equal(guarded.length > 0, isHeldBack, `3 of ${held}`);
  }
  t.end();
});

t.test('after the wait of the guard a set goes out even where removals are kept', (t) => {
  const one = losses({ then: 'keep' });
  judge(one, [loss(2, 2)], 0);
  t.equal(judge(one, [loss(2, 2)], SWITCH_WAIT_MS).guarded.length, 1);
  t.strictSame(judge(one, [loss(2, 2)], GUARDED_MS), waitsUntil(undefined));
  t.end();
});

t.test('a client does not wait twice, if the guard held the names back for all clients', (t) => {
  const everything = [loss(2, 2)];
  const late = losses();
  doubt(late, [loss(2, 2)], 0);
  doubt(late, [loss(2, 2)], 1_000);
  t.strictSame(judge(late, everything, GUARD_WAIT_MS), waitsUntil(undefined));
  const early = losses();
  doubt(early, [loss(2, 2)], 0);
  t.match(judge(early, everything, SWITCH_WAIT_MS), { untilMs: GUARD_WAIT_MS, guarded: [{}] });
  t.strictSame(judge(early, everything, GUARD_WAIT_MS), waitsUntil(undefined));
  const forgotten = losses();
  doubt(forgotten, [loss(2, 2)], 0);
  doubt(forgotten, [loss(2, 2, 'b')], 0);
  const ownUntilMs = 2 * GUARD_WAIT_MS;
  t.match(judge(forgotten, everything, GUARD_WAIT_MS), { untilMs: ownUntilMs, guarded: [{}] });
  t.end();
});
