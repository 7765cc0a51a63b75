/**
 * Goal: long requests go on a few milliseconds in each turn, and no peer with many of them holds up another.
 * Method: streams that note each portion, and turns that the test runs.
 */
import t from 'tap';
import {
  LongRequests,
  type LongRequest,
  type Order,
} from '../../../../gateway/clients/long-requests.js';

function setUp(order: Order = 'in_turns') {
  const turns: (() => void)[] = [];
  const longRequests = new LongRequests(order, (work) => turns.push(work));
  const done: string[] = [];
  /** @param ms how long each portion takes */
  const stream = (
    id: string,
    account: object | undefined,
    portions: number,
    ms = 0,
  ): LongRequest => {
    let left = portions;
    const made: LongRequest = {
      account,
      continueRequest: () => {
        done.push(id);
        const untilMs = performance.now() + ms;
        while (performance.now() < untilMs);
        if (--left > 0) longRequests.add(made);
      },
    };
    longRequests.add(made);
    return made;
  };
  const nextTurn = (): readonly string[] => {
    turns.shift()?.();
    return done.splice(0);
  };
  return { longRequests, turns, stream, nextTurn };
}

t.test('a turn ends after a few milliseconds, and the rest follows in the next', (t) => {
  const { turns, stream, nextTurn } = setUp();
  stream('a', undefined, 3, 5);
  t.equal(turns.length, 1);
  t.strictSame(nextTurn(), ['a']);
  t.strictSame(nextTurn(), ['a']);
  t.strictSame(nextTurn(), ['a']);
  t.equal(turns.length, 0, 'nothing is left');
  t.end();
});

t.test('one by one: peers take turns, and a stream goes on before the others of its peer', (t) => {
  const { turns, longRequests, stream, nextTurn } = setUp('one_by_one');
  const greedy = {};
  stream('greedy 1', greedy, 2, 5);
  const leaving = stream('greedy 2', greedy, 3, 5);
  stream('greedy 3', greedy, 1, 5);
  stream('other', {}, 2, 5);
  const order: string[] = [];
  for (let turn = 0; turn < 5; turn++) order.push(...nextTurn());
  t.strictSame(order, ['greedy 1', 'other', 'greedy 1', 'other', 'greedy 2']);
  longRequests.delete(leaving);
  while (turns.length > 0) order.push(...nextTurn());
  t.strictSame(order.slice(5), ['greedy 3'], 'and one that ends is forgotten');
  t.end();
});

t.test('peers take turns, and the streams of each peer', (t) => {
  const { turns, stream, nextTurn } = setUp();
  const greedy = {};
  stream('greedy 1', greedy, 2, 5);
  stream('greedy 2', greedy, 2, 5);
  stream('other', {}, 2, 5);
  const order: string[] = [];
  while (turns.length > 0) order.push(...nextTurn());
  t.strictSame(order, ['greedy 1', 'other', 'greedy 2', 'other', 'greedy 1', 'greedy 2']);
  t.end();
});

t.test('short portions share a turn', (t) => {
  const { turns, stream, nextTurn } = setUp();
  stream('a', {}, 2);
  stream('b', {}, 1);
  t.strictSame(nextTurn(), ['a', 'b', 'a']);
  t.equal(turns.length, 0);
  t.end();
});

t.test('a stream that is over gets no turn', (t) => {
  const { longRequests, turns, stream, nextTurn } = setUp();
  const account = {};
  const [gone, stays] = ['gone', 'stays'].map((id) => stream(id, account, 1));
  longRequests.delete(gone!);
  t.strictSame(nextTurn(), ['stays']);
  longRequests.delete(stays!);
  stream('last', account, 1);
  longRequests.delete(stays!);
  t.strictSame(nextTurn(), ['last']);
  const only = stream('only', account, 1);
  longRequests.delete(only);
  t.strictSame(nextTurn(), []);
  t.equal(turns.length, 0);
  t.end();
});
