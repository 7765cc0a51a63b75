/** Goal: what waits in the streams of one connection is few parts, and a client that is read counts for nothing. */
import { Duplex } from 'node:stream';
import t from 'tap';
import { UnreadParts } from '../../../../gateway/clients/unread-parts.js';

const MOST = 2_048;
const PART = Buffer.alloc(40);

function start() {
  const seen = { parts: 0, alarms: 0 };
  const unread = new UnreadParts(
    () => seen.parts++,
    () => seen.alarms++,
  );
  const open = (first = 0): Duplex => {
    const stream = new Duplex({ read: () => undefined, highWaterMark: 16_384 });
    for (let part = 0; part < first; part++) stream.push(PART);
    stream.once('close', unread.watch(stream));
    return stream;
  };
  return { seen, open };
}

t.test('parts that are read while others arrive do not add up', (t) => {
  const { seen, open } = start();
  const stream = open();
  for (let round = 0; round < 100; round++) {
    for (let part = 0; part < 100; part++) stream.push(PART);
    // A backlog of a hundred parts always remains.
    if (round > 0) stream.read(100 * PART.length);
  }
  t.strictSame(seen, { parts: 10_000, alarms: 0 });
  t.end();
});

t.test('the parts of all streams of the connection count, until a stream is closed', async (t) => {
  const { seen, open } = start();
  const streams = Array.from({ length: 4 }, () => open());
  for (const stream of streams.slice(0, 3)) {
    for (let part = 0; part < MOST / 4; part++) stream.push(PART);
  }
  t.equal(seen.alarms, 0);
  streams[0]?.destroy();
  await new Promise(setImmediate);
  for (let part = 0; part < MOST / 2; part++) streams[3]?.push(PART);
  t.equal(seen.alarms, 0);
  for (let part = 0; part < 512; part++) streams[3]?.push(PART);
  t.ok(seen.alarms > 0);
});

t.test('what came before the stream is watched becomes one part', (t) => {
  const { seen, open } = start();
  const stream = open(10 * MOST);
  for (let part = 0; part < 512; part++) stream.push(PART);
  t.equal(seen.alarms, 0);
  t.equal(stream.readableLength, (10 * MOST + 512) * PART.length, 'nothing is lost');
  t.end();
});
