/**
 * Goal: items are in order of their last change, a reader is one number, and a change costs one
 * step.
 * Method: a plain array as the model, and counted steps.
 */
import fc from 'fast-check';
import t from 'tap';
import {
  ChangeLog,
  LOG_START,
  type Sequenced,
} from '../../../../../gateway/core/cache/change-log.js';

interface Item extends Sequenced {
  readonly id: number;
}
const item = (id: number): Item => ({ id, seq: LOG_START });
const idsSince = (log: ChangeLog<Item>, seq: number): readonly number[] =>
  [...log.since(seq)].map(({ id }) => id);

t.test('an empty log has nothing for any reader', (t) => {
  const log = new ChangeLog<Item>();
  t.equal(log.size, 0);
  t.equal(log.lastSeq, LOG_START);
  t.strictSame(idsSince(log, LOG_START), []);
  t.equal(log.oldest(), undefined);
  t.end();
});

t.test('a reader gets the changes after its position, each item once, oldest first', (t) => {
  const log = new ChangeLog<Item>();
  const [a, b, c] = [item(1), item(2), item(3)];
  for (const one of [a, b, c]) log.append(one);
  const place = log.lastSeq;
  log.append(a);
  log.append(b);
  log.append(a);
  t.strictSame(idsSince(log, LOG_START), [3, 2, 1]);
  t.strictSame(idsSince(log, place), [2, 1]);
  t.equal(log.oldest(), c);
  t.equal(log.size, 3);
  t.end();
});

t.test('an item that is in no log, or in another one, is not dropped', (t) => {
  const log = new ChangeLog<Item>();
  const other = new ChangeLog<Item>();
  const [mine, theirs] = [item(1), item(2)];
  log.append(mine);
  other.append(theirs);
  log.drop(theirs);
  log.drop(item(3));
  t.equal(log.size, 1);
  t.equal(theirs.seq, 0);
  t.end();
});

t.test('a cleared log is empty, and later changes come after all earlier ones', (t) => {
  const log = new ChangeLog<Item>();
  const [a, b, c] = [item(1), item(2), item(3)];
  for (const one of [a, b, c]) log.append(one);
  log.drop(a);
  t.equal(log.oldest(), b, 'the log skips the hole');
  const place = log.lastSeq;
  log.clear();
  t.strictSame([log.size, log.oldest(), idsSince(log, LOG_START)], [0, undefined, []]);
  t.strictSame([b.seq, c.seq], [LOG_START, LOG_START]);
  log.drop(b);
  t.equal(log.size, 0);
  log.append(c);
  t.equal(log.oldest(), c);
  t.strictSame(idsSince(log, place), [3]);
  t.end();
});

t.test('any history of appends and drops reads like a list in order of last change', (t) => {
  const operation = fc.tuple(fc.boolean(), fc.nat({ max: 40 }));
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 600, size: 'max' }), fc.nat(), (history, from) => {
      const log = new ChangeLog<Item>();
      const items = Array.from({ length: 41 }, (_, id) => item(id));
      let model: { id: number; seq: number }[] = [];
      let next = 0;
      for (const [append, id] of history) {
        model = model.filter((one) => one.id !== id);
        if (append) {
          model.push({ id, seq: next++ });
          log.append(items[id]!);
        } else {
          log.drop(items[id]!);
        }
        if (log.oldest()?.id !== model[0]?.id) return false;
      }
      const seq = (from % (next + 1)) - 1;
      const expected = model.filter((one) => one.seq > seq).map(({ id }) => id);
      return (
        log.size === model.length &&
        log.lastSeq === next - 1 &&
        JSON.stringify(idsSince(log, seq)) === JSON.stringify(expected)
      );
    }),
  );
  t.end();
});

t.test('a reader that is up to date takes one step after one change of 100,000 items', (t) => {
  const log = new ChangeLog<Item>();
  const items = Array.from({ length: 100_000 }, (_, id) => item(id));
  for (const one of items) log.append(one);
  const place = log.lastSeq;
  log.append(items[50_000]!);
  let steps = 0;
  for (const one of log.since(place)) {
    steps++;
    t.equal(one.id, 50_000);
  }
  t.equal(steps, 1);
  t.end();
});
