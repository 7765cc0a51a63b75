import t from 'tap';
import { StartPace } from '../../../../../authorities/core/sources/start-pace.js';

const AT_ONCE = 100;
const COUNTS_FOR_MS = 250;

/** A source at which as many streams start as may. */
function crowded(nowMs: number): StartPace<string> {
  const pace = new StartPace<string>();
  for (let i = 0; i < AT_ONCE; i++) pace.admit(`first ${i}`, false, nowMs);
  return pace;
}

t.test('100 streams of a source start at once, the next ones in their order', (t) => {
  const pace = new StartPace<number>();
  const admitted = Array.from({ length: AT_ONCE + 3 }, (_, i) => pace.admit(i, false, 0));
  t.equal(admitted.filter(Boolean).length, AT_ONCE);
  t.strictSame(pace.takeAdmitted(0), []);
  pace.leave(7);
  t.equal(pace.nextDeadlineMs, 0, 'there is room now');
  t.strictSame(pace.takeAdmitted(0), [AT_ONCE], 'one place is free');
  pace.leave(8);
  pace.leave(9);
  t.strictSame(pace.takeAdmitted(0), [AT_ONCE + 1, AT_ONCE + 2]);
  t.equal(pace.hasQueue, false);
  t.equal(pace.nextDeadlineMs, Infinity);
  t.end();
});

t.test('a stream counts as starting for 250 ms, however long its source takes', (t) => {
  const pace = crowded(1_000);
  t.equal(pace.admit('next', false, 1_100), false);
  t.equal(pace.nextDeadlineMs, 1_000 + COUNTS_FOR_MS);
  t.strictSame(pace.takeAdmitted(1_249), []);
  t.strictSame(pace.takeAdmitted(1_250), ['next']);
  t.equal(pace.admit('later', false, 1_250), true);
  t.end();
});

t.test('a stream that was live before starts before new ones', (t) => {
  const pace = crowded(0);
  pace.admit('new', false, 0);
  pace.admit('known', true, 0);
  pace.leave('first 0');
  t.strictSame(pace.takeAdmitted(0), ['known']);
  t.equal(pace.admit('newer', false, 0), false, 'no stream passes the queue');
  t.end();
});

t.test('a queued stream that is no longer wanted gives up its place', (t) => {
  const pace = crowded(0);
  pace.admit('left', false, 0);
  pace.admit('kept', true, 0);
  pace.leave('left');
  pace.leave('kept');
  t.equal(pace.hasQueue, false);
  t.strictSame(pace.takeAdmitted(COUNTS_FOR_MS), []);
  t.end();
});
