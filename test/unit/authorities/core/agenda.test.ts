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
  t.strictSame(agenda.takeDue(49), []);
  t.strictSame(agenda.takeDue(50), [machine]);
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
  t.strictSame([agenda.takeTouched(), agenda.takeDue(100)], [[], []]);
  t.end();
});
