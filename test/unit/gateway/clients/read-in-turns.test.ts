/** Goal: one turn of the event loop reads for a bounded time, and every connection is read in the end. */
import { setImmediate as turn } from 'node:timers/promises';
import type { Socket } from 'node:net';
import fc from 'fast-check';
import t from 'tap';
import { ReadInTurns, type ConnectionReading } from '../../../../gateway/clients/read-in-turns.js';

/** Longer than one turn may read. Milliseconds. */
const TOO_LONG_MS = 9;
const EVENTS_PER_LOOK = 16;
const MANY_EVENTS = 100;
/** The first batch of connections that have not been read since the first pause. */
const FIRST_BATCH = 16;
const MAX_WAITING = 200;

function busy(): void {
  const untilMs = performance.now() + TOO_LONG_MS;
  while (performance.now() < untilMs);
}

interface Handle {
  reading: boolean;
  readStart(): void;
  readStop(): void;
}

/** A connection without a socket of the system. */
class Wire {
  static #starts = 0;
  isRead = true;
  /** Of those that go on, the last one has the highest. */
  startedAt = 0;
  readonly reading: ConnectionReading;
  readonly socket: {
    destroyed: boolean;
    readonly readableLength: number;
    readonly _handle: Handle;
  };

  /** @param readableLength of what came with its beginning */
  constructor(all: ReadInTurns, readableLength = 0) {
    const readStart = (): void => {
      this.isRead = true;
      this.startedAt = ++Wire.#starts;
    };
    const readStop = (): void => {
      this.isRead = false;
    };
    const handle = { reading: true, readStart, readStop };
    this.socket = { destroyed: false, readableLength, _handle: handle };
    this.reading = all.add(this.socket as unknown as Socket);
  }

  /** @param count of events that Node causes before it looks whether it may go on */
  send(count = EVENTS_PER_LOOK): void {
    for (let event = 0; event < count; event++) this.reading.noteEvent();
  }

  /** More than one turn may read. */
  sendTooMuch(count = EVENTS_PER_LOOK): void {
    this.send();
    busy();
    this.send(count);
  }
}

/** They have begun. */
async function wires(all: ReadInTurns, count: number): Promise<readonly Wire[]> {
  const begun = Array.from({ length: count }, () => new Wire(all));
  await turn();
  return begun;
}
async function turns(count: number): Promise<void> {
  for (let at = 0; at < count; at++) await turn();
}
const readOf = (all: readonly Wire[]): readonly number[] =>
  all.flatMap(({ isRead }, at) => (isRead ? [at] : []));
/** The same, in the order in which they went on. */
const inOrder = (all: readonly Wire[]): readonly number[] =>
  readOf(all).toSorted((a, b) => (all[a]?.startedAt ?? 0) - (all[b]?.startedAt ?? 0));
const from = (first: number, count: number): readonly number[] =>
  Array.from({ length: count }, (_, at) => first + at);

t.test('a connection that Node itself has stopped is left to Node', async (t) => {
  const [busiest, full, other] = await wires(new ReadInTurns(), 3);
  busiest?.sendTooMuch();
  t.strictSame([full?.isRead, other?.isRead], [false, false]);
  if (full) full.socket._handle.reading = false;
  await turns(2);
  t.strictSame([full?.isRead, other?.isRead], [false, true]);
});

t.test('a turn that reads in time stops no connection', async (t) => {
  const all = await wires(new ReadInTurns(), 3);
  for (let round = 0; round < 3; round++) {
    for (const wire of all) wire.send();
    await turn();
    busy();
  }
  t.strictSame(readOf(all), [0, 1, 2]);
});

t.test('what came with the beginning of a connection is not read, so no other waits', async (t) => {
  const reading = new ReadInTurns();
  const all = await wires(reading, 2);
  new Wire(reading, 1).sendTooMuch();
  t.strictSame(readOf(all), [0, 1]);
  new Wire(reading).sendTooMuch();
  t.strictSame(readOf(all), [], 'what is read in the first turn counts');
});

t.test(
  'after a turn that reads for too long, the connections go on in batches that double',
  async (t) => {
    const all = await wires(new ReadInTurns(), 100);
    all[0]?.sendTooMuch();
    t.strictSame(readOf(all), []);
    await turn();
    t.strictSame(readOf(all), [0], 'it sends little');
    for (const batches of [1, 3, 7]) {
      await turn();
      t.equal(readOf(all).length, Math.min(100, 1 + batches * FIRST_BATCH));
    }
    t.strictSame(readOf(all), from(0, 100));
  },
);

t.test(
  'the connections that a turn has not come to keep their place, so each is read',
  async (t) => {
    const all = await wires(new ReadInTurns(), 40);
    all[0]?.sendTooMuch();
    await turns(2);
    t.strictSame(inOrder(all), from(0, 1 + FIRST_BATCH));
    all[3]?.sendTooMuch();
    await turns(2);
    const left = [...from(1, 2), ...from(4, FIRST_BATCH - 3)];
    t.strictSame(inOrder(all), [0, 3, ...left, FIRST_BATCH + 1], 'Node may read 3 before 1 and 2');
  },
);

t.test('connections without anything to read have had their turn when it is over', async (t) => {
  const all = await wires(new ReadInTurns(), 40);
  all[0]?.sendTooMuch();
  await turns(3);
  t.strictSame(readOf(all), from(0, 40));
  all[0]?.sendTooMuch();
  await turn();
  t.strictSame(readOf(all), from(0, 1 + FIRST_BATCH), 'the turn of the second batch was not over');
});

t.test(
  'connections that send little go on by themselves, before those that have not been read',
  async (t) => {
    const all = await wires(new ReadInTurns(), 4);
    all[3]?.sendTooMuch();
    await turn();
    t.strictSame(inOrder(all), [3]);
    await turn();
    t.strictSame(inOrder(all), [3, 0, 1, 2]);
  },
);

t.test('no kind of connection shuts out another: each has turns of its own', async (t) => {
  const all = await wires(new ReadInTurns(), 100);
  all[0]?.send(MANY_EVENTS);
  all[1]?.sendTooMuch();
  const went: (readonly number[])[] = [];
  for (let count = 0; count < 4; count++) {
    await turn();
    const [first = 0, ...others] = inOrder(all);
    went.push([first, others.length]);
    // Each fills the turn.
    all[first]?.sendTooMuch(first === 0 ? MANY_EVENTS : undefined);
  }
  t.strictSame(went, [
    [1, 0],
    [2, FIRST_BATCH - 1],
    [1, 1],
    [0, 0],
  ]);
});

t.test(
  'in whatever order Node reads, floods do not delay a connection that sends little',
  async () => {
    const orders = fc.array(fc.nat(), { minLength: 60, maxLength: 60 });
    const holds = fc.asyncProperty(
      orders,
      fc.integer({ min: 1, max: 40 }),
      async (firsts, count) => {
        const reading = new ReadInTurns();
        const quiet = new Wire(reading);
        const floods = Array.from({ length: count }, () => new Wire(reading));
        let unreadTurns = 0;
        const read = (wire: Wire): void => {
          if (wire === quiet) {
            quiet.send(1);
            unreadTurns = 0;
            return;
          }
          // The turn has no time left.
          reading.awaitingTurn = MAX_WAITING + 1;
          wire.send(MANY_EVENTS);
          reading.awaitingTurn = 0;
        };
        for (const wire of [quiet, ...floods.slice(0, 1)]) read(wire);
        for (const first of firsts) {
          await turn();
          unreadTurns++;
          const readable = [quiet, ...floods].filter(({ isRead }) => isRead);
          const at = first % Math.max(1, readable.length);
          for (const wire of [...readable.slice(at), ...readable.slice(0, at)])
            if (wire.isRead) read(wire);
          if (unreadTurns > 1) return false;
        }
        return true;
      },
    );
    await fc.assert(holds, { numRuns: 50 });
  },
);

t.test('connections that had many events wait longer, until they have few', async (t) => {
  const all = await wires(new ReadInTurns(), 4);
  const tooMuchOfLast = async (): Promise<void> => {
    all[3]?.sendTooMuch();
    t.strictSame(readOf(all), []);
    await turns(2);
  };
  for (const wire of all.slice(0, 3)) wire.send(MANY_EVENTS);
  await turn();
  await tooMuchOfLast();
  t.strictSame(readOf(all), [0, 3]);
  await turns(3);
  for (const wire of all.slice(0, 3)) wire.send();
  await turn();
  await tooMuchOfLast();
  t.strictSame(readOf(all), [0, 1, 2, 3]);
});

t.test('of the connections with many events, one goes on in each of their turns', async (t) => {
  const all = await wires(new ReadInTurns(), 4);
  for (const wire of all.slice(0, 3)) wire.send(MANY_EVENTS);
  busy();
  all[3]?.send();
  for (const isRead of [[3], [0, 3], [0, 1, 3], [0, 1, 2, 3]]) {
    await turn();
    t.strictSame(readOf(all), isRead);
  }
});

t.test(
  'while too many streams and requests wait for their turn, nothing is read and no connection begins',
  async (t) => {
    const reading = new ReadInTurns();
    const all = await wires(reading, 2);
    const [first] = from(0, MAX_WAITING + 1).map(() => all[0]?.reading.wait());
    t.ok(reading.isBehind);
    all[0]?.send();
    t.strictSame(readOf(all), []);
    await turns(3);
    t.strictSame(readOf(all), []);
    first?.();
    t.notOk(reading.isBehind);
    first?.();
    t.equal(reading.awaitingTurn, MAX_WAITING, 'the end of a wait counts once');
    await turns(2);
    t.strictSame(readOf(all), [0, 1]);
  },
);

t.test('a connection that has ended or is closed is not read again', async (t) => {
  const all = await wires(new ReadInTurns(), 3);
  all[0]?.sendTooMuch();
  all[0]?.reading.end();
  if (all[1]) all[1].socket.destroyed = true;
  await turn();
  t.strictSame(readOf(all), [2]);
});

t.test('a connection that is cut off is the last that its turn reads', async (t) => {
  const all = await wires(new ReadInTurns(), 3);
  all[1]?.reading.cutOff();
  t.strictSame([all[0]?.isRead, all[2]?.isRead], [false, false]);
  await turn();
  t.strictSame([all[0]?.isRead, all[2]?.isRead], [true, true]);
});

t.test('a body in parts of a few bytes is found in one turn, ordinary parts are not', async (t) => {
  const reading = new ReadInTurns();
  const [wire] = await wires(reading, 1);
  const foundAfter = (bytes: number): number =>
    from(1, 2_000).find(() => wire?.reading.notePart(bytes)) ?? Infinity;
  t.equal(foundAfter(3), 501);
  await turn();
  await turn();
  t.equal(foundAfter(4), Infinity, 'the next turn counts anew');
});
