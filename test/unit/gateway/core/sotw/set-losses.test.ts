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
  type LossJudgement,
  type SetLoss,
} from '../../../../../gateway/core/sotw/set-losses.js';
import { nameOf } from '../../../../support/fake-directory.js';
import { CDS, LDS, cds } from '../../../../support/mesh-names.js';
import { GUARD_WAIT_MS, SWITCH_WAIT_MS } from '../../../../support/session-driver.js';

const losses = (guard: Partial<DeletionGuard> = {}): SetLosses =>
  new SetLosses(() => ({
    ...DEFAULT_FAILOVER,
    deletionGuard: { ...DEFAULT_FAILOVER.deletionGuard, ...guard },
  }));
const loss = (held: number, lost: number, authority = 'a', typeUrl: string = CDS): SetLoss => ({
  typeUrl,
  sample: nameOf(cds('x', authority)),
  held,
  lost,
});
const GUARDED_MS = SWITCH_WAIT_MS + GUARD_WAIT_MS;
const waitsUntil = (untilMs: number | undefined): LossJudgement => ({
  untilMs,
  againMs: untilMs,
  guarded: [],
});

t.test('a set without losses goes at once', (t) => {
  t.strictSame(losses().judge([loss(3, 0)], 0), waitsUntil(undefined));
  t.strictSame(losses().judge([], 0), waitsUntil(undefined));
  t.end();
});

t.test('a loss waits for `switch_wait`, and then proceeds if it is not too much', (t) => {
  const one = losses();
  t.strictSame(one.judge([loss(3, 1)], 5), waitsUntil(5 + SWITCH_WAIT_MS));
  t.strictSame(one.judge([loss(3, 2)], 1_000), waitsUntil(5 + SWITCH_WAIT_MS));
  t.strictSame(one.judge([loss(3, 2)], 5 + SWITCH_WAIT_MS), waitsUntil(undefined));
  t.strictSame(
    one.judge([loss(3, 3)], 6 + SWITCH_WAIT_MS),
    waitsUntil(undefined),
    'judged once for the stream',
  );
  t.end();
});

t.test('a resource that is back meanwhile is not a loss', (t) => {
  const one = losses();
  t.ok(one.judge([loss(1, 1)], 0).untilMs);
  t.strictSame(one.judge([loss(1, 0)], 1_000), waitsUntil(undefined));
  t.end();
});

t.test('all types are judged together: everything at once is too much, and reported once', (t) => {
  const both = [loss(1, 1, 'a', LDS), loss(2, 2)];
  const one = losses();
  one.judge(both, 0);
  t.strictSame(one.judge(both, SWITCH_WAIT_MS), {
    untilMs: GUARDED_MS,
    againMs: GUARDED_MS,
    guarded: [{ authority: 'a', names: 3, untilMs: GUARDED_MS }],
  });
  t.strictSame(one.judge(both, GUARDED_MS - 1), waitsUntil(GUARDED_MS));
  t.strictSame(one.judge(both, GUARDED_MS), waitsUntil(undefined), 'after the wait of the guard');
  const other = losses();
  const half = [loss(1, 1, 'a', LDS), loss(2, 1)];
  other.judge(half, 0);
  t.strictSame(other.judge(half, SWITCH_WAIT_MS), waitsUntil(undefined), 'one cluster remains');
  t.end();
});

t.test(
  'each authority is judged by itself: losing all of one is too much although another is complete',
  (t) => {
    const one = losses();
    const all = [loss(1, 1, 'a'), loss(9, 0, 'b')];
    one.judge(all, 0);
    t.strictSame(one.judge(all, SWITCH_WAIT_MS).guarded, [
      { authority: 'a', names: 1, untilMs: GUARDED_MS },
    ]);
    t.end();
  },
);

t.test('each authority is judged at its own time, while another is held back (seed 6979)', (t) => {
  const one = losses();
  const first = loss(1, 1, 'a');
  one.judge([first], 0);
  one.judge([first], SWITCH_WAIT_MS);
  const both = [first, loss(1, 1, 'b')];
  const laterMs = SWITCH_WAIT_MS + 10_000;
  const againMs = laterMs + SWITCH_WAIT_MS;
  t.strictSame(one.judge(both, laterMs), { untilMs: GUARDED_MS, againMs, guarded: [] });
  const untilMs = againMs + GUARD_WAIT_MS;
  t.strictSame(one.judge(both, againMs), {
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
    one.judge([loss(held, 3)], 0);
    const { guarded } = one.judge([loss(held, 3)], SWITCH_WAIT_MS);
    t.equal(guarded.length > 0, isHeldBack, `3 of ${held}`);
  }
  t.end();
});

t.test('after the wait of the guard a set goes out even where removals are kept', (t) => {
  const one = losses({ then: 'keep' });
  one.judge([loss(2, 2)], 0);
  t.equal(one.judge([loss(2, 2)], SWITCH_WAIT_MS).guarded.length, 1);
  t.strictSame(one.judge([loss(2, 2)], GUARDED_MS), waitsUntil(undefined));
  t.end();
});

t.test('a client does not wait twice, if the guard held the names back for all clients', (t) => {
  const everything = [loss(2, 2)];
  const late = losses();
  late.noteDoubts([loss(2, 2)], 0);
  late.noteDoubts([loss(2, 2)], 1_000);
  t.strictSame(late.judge(everything, GUARD_WAIT_MS), waitsUntil(undefined));
  const early = losses();
  early.noteDoubts([loss(2, 2)], 0);
  t.match(early.judge(everything, SWITCH_WAIT_MS), { untilMs: GUARD_WAIT_MS, guarded: [{}] });
  t.strictSame(early.judge(everything, GUARD_WAIT_MS), waitsUntil(undefined));
  const forgotten = losses();
  forgotten.noteDoubts([loss(2, 2)], 0);
  forgotten.noteDoubts([loss(2, 2, 'b')], 0);
  const ownUntilMs = 2 * GUARD_WAIT_MS;
  t.match(forgotten.judge(everything, GUARD_WAIT_MS), { untilMs: ownUntilMs, guarded: [{}] });
  t.end();
});
