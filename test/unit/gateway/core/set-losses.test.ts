/**
 * Goal: the first set that a resuming state-of-the-world client gets takes nothing from it at once that
 * may only not be there yet, and not everything before the deletion guard has waited (invariant 3).
 * Method: losses by hand, and a clock.
 */
import t from 'tap';
import { DEFAULT_FAILOVER } from '../../../../config/defaults.js';
import type { DeletionGuard } from '../../../../config/model.js';
import { SetLosses } from '../../../../gateway/core/set-losses.js';
import { GUARD_WAIT_MS, SWITCH_WAIT_MS } from '../../../support/session-driver.js';

const losses = (guard: Partial<DeletionGuard> = {}): SetLosses =>
  new SetLosses({
    ...DEFAULT_FAILOVER,
    deletionGuard: { ...DEFAULT_FAILOVER.deletionGuard, ...guard },
  });
const GUARDED_MS = SWITCH_WAIT_MS + GUARD_WAIT_MS;

void t.test('what loses nothing goes at once', (t) => {
  t.strictSame(losses().judge([{ held: 3, lost: 0 }], 0), { untilMs: undefined });
  t.strictSame(losses().judge([], 0), { untilMs: undefined });
  t.end();
});

void t.test('a loss waits for the time of a switch, and then goes if it is not too much', (t) => {
  const one = losses();
  t.strictSame(one.judge([{ held: 3, lost: 1 }], 5), { untilMs: 5 + SWITCH_WAIT_MS });
  t.strictSame(one.judge([{ held: 3, lost: 2 }], 1_000), { untilMs: 5 + SWITCH_WAIT_MS });
  t.strictSame(one.judge([{ held: 3, lost: 2 }], 5 + SWITCH_WAIT_MS), { untilMs: undefined });
  t.strictSame(
    one.judge([{ held: 3, lost: 3 }], 6 + SWITCH_WAIT_MS),
    { untilMs: undefined },
    'judged once for the stream',
  );
  t.end();
});

void t.test('what is there again meanwhile is no loss', (t) => {
  const one = losses();
  t.ok(one.judge([{ held: 1, lost: 1 }], 0).untilMs);
  t.strictSame(one.judge([{ held: 1, lost: 0 }], 1_000), { untilMs: undefined });
  t.end();
});

void t.test('all types are judged together: everything at once is too much, and told once', (t) => {
  const both = [
    { held: 1, lost: 1 },
    { held: 2, lost: 2 },
  ];
  const one = losses();
  one.judge(both, 0);
  t.strictSame(one.judge(both, SWITCH_WAIT_MS), {
    untilMs: GUARDED_MS,
    guarded: { names: 3, untilMs: GUARDED_MS },
  });
  t.strictSame(one.judge(both, GUARDED_MS - 1), { untilMs: GUARDED_MS });
  t.strictSame(one.judge(both, GUARDED_MS), { untilMs: undefined }, 'as the operator wants it');
  const other = losses();
  const half = [
    { held: 1, lost: 1 },
    { held: 2, lost: 1 },
  ];
  other.judge(half, 0);
  t.strictSame(other.judge(half, SWITCH_WAIT_MS), { untilMs: undefined }, 'listeners are there');
  t.end();
});

void t.test('a share of many is too much', (t) => {
  for (const [held, isHeldBack] of [
    [7, false],
    [6, true],
  ] as const) {
    const one = losses({ share: 0.5, count: 2 });
    one.judge([{ held, lost: 3 }], 0);
    const { guarded } = one.judge([{ held, lost: 3 }], SWITCH_WAIT_MS);
    t.equal(guarded !== undefined, isHeldBack, `3 of ${held}`);
  }
  t.end();
});

void t.test(
  'where the operator wants it kept, it waits on, until it is there or less is lost',
  (t) => {
    const one = losses({ then: 'keep' });
    one.judge([{ held: 2, lost: 2 }], 0);
    t.ok(one.judge([{ held: 2, lost: 2 }], SWITCH_WAIT_MS).guarded);
    t.strictSame(one.judge([{ held: 2, lost: 2 }], GUARDED_MS), {
      untilMs: GUARDED_MS + GUARD_WAIT_MS,
    });
    t.strictSame(one.judge([{ held: 2, lost: 1 }], GUARDED_MS + GUARD_WAIT_MS), {
      untilMs: undefined,
    });
    t.end();
  },
);
