/** Goal: few parts wait in the streams of one connection, however small they are, and no byte is lost or moved. */
import { Duplex } from 'node:stream';
import t from 'tap';
import { UnreadParts } from '../../../../gateway/clients/unread-parts.js';

const MOST = 2_048;
const PER_LOOK = 256;
const PART_BYTES = 4;

function start() {
  const seen = { parts: 0 };
  const unread = new UnreadParts(() => ++seen.parts > 0);
  let sent = 0;
  /** Parts that carry their number. */
  const send = (stream: Duplex, count: number): void => {
    for (let part = 0; part < count; part++) {
      const bytes = Buffer.alloc(PART_BYTES);
      bytes.writeUInt32BE(sent++);
      stream.push(bytes);
    }
  };
  const open = (first = 0): Duplex => {
    const stream = new Duplex({ read: () => undefined });
    send(stream, first);
    stream.once('close', unread.watch(stream));
    return stream;
  };
  return { seen, open, send };
}

function partsIn(...streams: readonly Duplex[]): number {
  return streams.reduce((sum, stream) => {
    const { _readableState: state } = stream as unknown as {
      readonly _readableState: {
        readonly buffer: { readonly length: number };
        readonly bufferIndex?: number;
      };
    };
    return sum + state.buffer.length - (state.bufferIndex ?? 0);
  }, 0);
}

/** The numbers of all parts that wait. */
function readAll(stream: Duplex): readonly number[] {
  const parts: Buffer[] = [];
  // Since Node.js 26, `read` returns one part.
  for (;;) {
    const part = stream.read() as Buffer | null;
    if (!part) break;
    parts.push(part);
  }
  const bytes = Buffer.concat(parts);
  return Array.from({ length: bytes.length / PART_BYTES }, (_, at) =>
    bytes.readUInt32BE(at * PART_BYTES),
  );
}

const numbers = (from: number, to: number): readonly number[] =>
  Array.from({ length: to - from }, (_, at) => from + at);

t.test('each part is noted; few that wait stay as they are', (t) => {
  const { seen, open, send } = start();
  const streams = Array.from({ length: 4 }, () => open());
  for (const stream of streams) send(stream, MOST / 4);
  t.equal(seen.parts, MOST);
  t.equal(partsIn(...streams), MOST);
  t.end();
});

t.test('of many that wait in all streams of the connection, those of each become one', (t) => {
  const { open, send } = start();
  const streams = Array.from({ length: 4 }, () => open());
  streams.forEach((stream, at) => {
    send(stream, 10 * MOST);
    t.ok(partsIn(...streams) <= MOST + PER_LOOK + streams.length);
    t.equal(stream.readableLength, 10 * MOST * PART_BYTES);
    if (at > 1) return;
    t.strictSame(readAll(stream), numbers(at * 10 * MOST, (at + 1) * 10 * MOST));
  });
  send(streams[0]!, 3);
  t.strictSame(readAll(streams[0]!), numbers(40 * MOST, 40 * MOST + 3), 'reading goes on');
  t.end();
});

t.test('a stream that was read in part loses nothing when its parts are joined', (t) => {
  const { open, send } = start();
  const stream = open();
  send(stream, MOST / 2);
  for (let part = 0; part < 10; part++) stream.read(PART_BYTES);
  send(stream, 2 * MOST);
  t.ok(partsIn(stream) <= MOST + PER_LOOK + 1);
  t.strictSame(readAll(stream), numbers(10, 2.5 * MOST));
  t.end();
});

t.test('the first part of each stream does not count, so many streams cost no joining', (t) => {
  const { open, send } = start();
  const streams = Array.from({ length: 2 * MOST }, () => open());
  for (const stream of streams) send(stream, 1);
  const two = open();
  send(two, 2);
  send(streams[0]!, PER_LOOK);
  t.equal(partsIn(two), 2);
  t.end();
});

t.test('a closed stream counts no more', async (t) => {
  const { open, send } = start();
  const [closed, other] = [open(), open()];
  send(closed, MOST);
  closed.destroy();
  await new Promise(setImmediate);
  send(other, MOST);
  t.equal(partsIn(other), MOST);
});

t.test('what came before the stream is watched becomes one part', (t) => {
  const { open } = start();
  const stream = open(10 * MOST);
  t.equal(partsIn(stream), 1);
  t.strictSame(readAll(stream), numbers(0, 10 * MOST));
  t.end();
});

t.test('a stream does not get what is refused', (t) => {
  const unread = new UnreadParts((bytes) => bytes === undefined || bytes > 1);
  const stream = new Duplex({ read: () => undefined });
  unread.watch(stream);
  for (const part of [[1, 2], [3], [4, 5]]) stream.push(Buffer.from(part));
  t.strictSame([...(stream.read() as Buffer)], [1, 2, 4, 5]);
  t.end();
});
