/**
 * Goal: a burst of work is spread over turns of the event loop, in its order; single work runs at once.
 * Method: work that takes a measured time, and setImmediate as the only clock.
 */
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { Turns } from '../../../authorities/turns.js';

/** Longer than a turn may take. Milliseconds. */
const LONG_MS = 9;

function busy(): void {
  const untilMs = performance.now() + LONG_MS;
  while (performance.now() < untilMs);
}

t.test(
  'work runs at once while the turn has time, and then in later turns, urgent work first',
  async (t) => {
    const turns = new Turns(() => undefined);
    const done: string[] = [];
    const work = (id: string): boolean => turns.run(taking(id));
    const taking = (id: string) => () => {
      done.push(id);
      busy();
    };
    t.ok(work('first'));
    t.notOk(work('second'));
    t.notOk(work('third'));
    t.notOk(turns.runForStream(taking('urgent'), true, {}));
    t.strictSame(done, ['first']);
    await turn();
    t.strictSame(done, ['first'], 'immediates belong to the turn of what ran at once');
    await turn();
    t.strictSame(done, ['first', 'urgent']);
    await turn();
    t.strictSame(done, ['first', 'urgent', 'second']);
    t.notOk(work('fourth'), 'work that waits goes before');
    await turn();
    await turn();
    t.strictSame(done.slice(3), ['third', 'fourth']);
    await turn();
    t.ok(work('later'), 'a new turn has time again');
  },
);

t.test(
  'urgent work leaves every fourth piece to other work, and its senders take turns',
  async (t) => {
    const turns = new Turns(() => undefined);
    const done: string[] = [];
    const [hostile, honest] = [{}, {}];
    const urgent = (id: string, sender: object): void => {
      turns.runForStream(() => done.push(id), true, sender);
    };
    turns.run(busy);
    for (let id = 0; id < 10; id++) urgent('hostile', hostile);
    turns.runForStream(() => done.push('newcomer'), false, honest);
    urgent('honest', honest);
    for (let next = 0; next < 3; next++) await turn();
    t.strictSame(done.slice(0, 4), ['hostile', 'honest', 'hostile', 'newcomer']);
    t.equal(done.length, 12);
  },
);

t.test(
  'messages of streams wait in any number, since their streams are not read meanwhile',
  async (t) => {
    const turns = new Turns(() => undefined);
    let done = 0;
    turns.run(busy);
    for (let id = 0; id < 20_000; id++) turns.runForStream(() => done++, id % 2 === 0, {});
    t.equal(done, 0);
    while (done < 20_000) await turn();
  },
);

t.test('an exception in one piece of work ends no other', async (t) => {
  const errors: unknown[] = [];
  const turns = new Turns((error) => errors.push(error));
  let done = 0;
  turns.run(busy);
  turns.run(() => {
    throw new Error('planted');
  });
  turns.run(() => done++);
  while (done === 0) await turn();
  t.match(errors, [{ message: 'planted' }]);
});

t.test('more work than may wait runs at once, so that its sender is slowed down', (t) => {
  const turns = new Turns(() => undefined);
  const done: number[] = [];
  turns.run(busy);
  for (let id = 0; id < 10_000; id++) turns.run(() => done.push(id));
  t.equal(done.length, 0);
  turns.run(() => done.push(10_000));
  t.strictSame(
    done,
    Array.from({ length: 10_001 }, (_, id) => id),
  );
  t.end();
});

t.test('what a connection causes once waits in any number, in order with other work', async (t) => {
  const turns = new Turns(() => undefined);
  const done: string[] = [];
  turns.run(busy);
  for (let id = 0; id < 20_000; id++) {
    turns.runBounded(() => {
      if (id % 10_000 === 0) done.push(`end ${id}`);
    });
  }
  turns.run(() => done.push('connection'));
  t.strictSame(done, []);
  while (done.length < 3) await turn();
  t.strictSame(done, ['end 0', 'end 10000', 'connection']);
  // The last portion may have used all of its turn.
  for (let next = 0; next < 3; next++) await turn();
  turns.runBounded(() => done.push('single'));
  t.equal(done.at(-1), 'single', 'a single end runs at once');
});

t.test('work that causes more outside of the turns is charged for it', async (t) => {
  const turns = new Turns(() => undefined);
  turns.run(() => {
    turns.charge(LONG_MS);
  });
  let done = 0;
  t.notOk(turns.run(() => done++));
  await turn();
  await turn();
  t.equal(done, 1);
});

t.test('what Node does in the ticks after a piece of work counts for its turn', async (t) => {
  const turns = new Turns(() => undefined);
  const done: string[] = [];
  const connection = (id: string): void => {
    turns.runBounded(() => {
      done.push(id);
      process.nextTick(busy);
      turns.countTicks();
    });
  };
  turns.run(busy);
  for (const id of ['first', 'second', 'third']) connection(id);
  await turn();
  await turn();
  t.strictSame(done, ['first']);
  await turn();
  t.strictSame(done, ['first', 'second']);
  for (let next = 0; next < 3; next++) await turn();
  connection('at once');
  await new Promise<void>((resolve) => {
    process.nextTick(resolve);
  });
  connection('later');
  t.strictSame(done.slice(3), ['at once'], 'its ticks have used the turn');
  await turn();
  await turn();
  t.strictSame(done.slice(3), ['at once', 'later']);
});

t.test('senders take turns, and the work of each keeps its order', async (t) => {
  const turns = new Turns(() => undefined);
  const done: string[] = [];
  const [hostile, honest] = [{}, {}];
  const work = (id: string, sender: object): void => {
    turns.run(() => {
      done.push(id);
      busy();
    }, sender);
  };
  turns.run(busy);
  for (let at = 1; at <= 5; at++) work(`hostile ${at}`, hostile);
  work('honest 1', honest);
  work('honest 2', honest);
  for (let at = 0; at <= 7; at++) await turn();
  t.strictSame(done, [
    'hostile 1',
    'honest 1',
    'hostile 2',
    'honest 2',
    'hostile 3',
    'hostile 4',
    'hostile 5',
  ]);
});
