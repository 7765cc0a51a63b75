/** Goal: untouched machines cost nothing, and no machine with work is missed. */
import t from 'tap';
import { Agenda, type Machine } from '../../../../authorities/core/agenda.js';

class Counted implements Machine {
  dueMs: number | undefined;
  computed = 0;

  constructor(dueMs?: number) {
    this.dueMs = dueMs;
  }

  nextDeadlineMs(): number | undefined {
    this.computed++;
    return this.dueMs;
  }
}

t.test('only machines with an input recompute their deadline', (t) => {
  const agenda = new Agenda<Counted>();
  const [one, other] = [new Counted(50), new Counted(20)];
  agenda.touch(one);
  agenda.touch(other);
  t.equal(agenda.nextDeadlineMs(0), 20);
  other.dueMs = undefined;
  agenda.handleDeadlineChanged(other);
  t.equal(agenda.nextDeadlineMs(0), 50);
  agenda.nextDeadlineMs(0);
  t.strictSame([one.computed, other.computed], [1, 2]);
  t.end();
});

t.test('a machine is due at its deadline, and then recomputes it', (t) => {
  const agenda = new Agenda<Counted>();
  const machine = new Counted(50);
  agenda.touch(machine);
  t.strictSame(agenda.beginTurnAndTakeDue(49), []);
  t.strictSame(agenda.beginTurnAndTakeDue(50), [machine]);
  machine.dueMs = 70;
  t.equal(agenda.nextDeadlineMs(50), 70);
  t.end();
});

t.test('touched machines are returned once, in order, and recompute their deadlines', (t) => {
  const agenda = new Agenda<Counted>();
  const [one, other] = [new Counted(), new Counted()];
  agenda.touch(other);
  agenda.touch(one);
  agenda.touch(other);
  t.strictSame(agenda.takeTouched(), [other, one]);
  t.strictSame(agenda.takeTouched(), []);
  agenda.nextDeadlineMs(0);
  agenda.touch(one);
  agenda.nextDeadlineMs(0);
  const before = one.computed;
  agenda.takeTouched();
  agenda.nextDeadlineMs(0);
  t.equal(one.computed, before + 1);
  t.end();
});

t.test('a deleted machine is neither touched nor due', (t) => {
  const agenda = new Agenda<Counted>();
  const machine = new Counted(10);
  agenda.touch(machine);
  t.equal(agenda.nextDeadlineMs(0), 10);
  agenda.delete(machine);
  t.equal(agenda.nextDeadlineMs(0), Infinity);
  t.strictSame([agenda.takeTouched(), agenda.beginTurnAndTakeDue(100)], [[], []]);
  t.end();
});

t.test(
  'whatever the order of changes, the first deadline is that of the machines as they are',
  (t) => {
    const agenda = new Agenda<Counted>();
    const machines = Array.from({ length: 20 }, () => new Counted());
    // A fixed sequence that looks random: each machine changes its deadline often.
    for (let step = 1; step <= 2_000; step++) {
      const machine = machines[(step * 7) % 20]!;
      machine.dueMs = step % 5 === 0 ? undefined : (step * 7_919) % 1_000;
      if (step % 11 === 0) agenda.delete(machine);
      else agenda.touch(machine);
      if (step % 11 === 0) machine.dueMs = undefined;
      t.strictSame(agenda.beginTurnAndTakeDue(-1), [], 'a turn begins');
      const dues = machines.flatMap(({ dueMs }) => dueMs ?? []);
      t.equal(agenda.nextDeadlineMs(0), Math.min(...dues), `step ${step}`);
    }
    const nowMs = 500;
    const due = machines.filter(({ dueMs }) => dueMs !== undefined && dueMs <= nowMs);
    t.strictSame(new Set(agenda.beginTurnAndTakeDue(nowMs)), new Set(due));
    t.end();
  },
);

t.test(
  'of many machines that are due together, 25 take a turn, and the rest are due at once',
  (t) => {
    const agenda = new Agenda<Counted>();
    const machines = Array.from({ length: 40 }, (_, i) => new Counted(i));
    for (const machine of machines) agenda.touch(machine);
    const taken: Counted[] = [];
    for (const count of [25, 15, 0]) {
      const due = agenda.beginTurnAndTakeDue(1_000);
      t.equal(due.length, count);
      for (const machine of due) machine.dueMs = undefined;
      t.strictSame(agenda.takeDue(1_000), [], 'the turn has no room for more, or none is left');
      taken.push(...due);
      t.equal(agenda.nextDeadlineMs(1_000), machines[taken.length]?.dueMs ?? Infinity);
    }
    t.strictSame(taken, machines);
    t.end();
  },
);

t.test('of many machines with an input, 75 recompute their deadline in a turn', (t) => {
  const agenda = new Agenda<Counted>();
  const machines = Array.from({ length: 175 }, () => new Counted(5_000));
  for (const machine of machines) agenda.handleDeadlineChanged(machine);
  const computed = (): number => machines.reduce((sum, machine) => sum + machine.computed, 0);
  for (const [soFar, nextMs] of [
    [75, 1_000],
    [150, 1_000],
    [175, 5_000],
  ] as const) {
    t.strictSame(agenda.beginTurnAndTakeDue(1_000), []);
    t.equal(agenda.nextDeadlineMs(1_000), nextMs);
    t.equal(computed(), soFar);
  }
  t.end();
});
