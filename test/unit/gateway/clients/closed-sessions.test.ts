/** Goal: one collection of garbage frees few native parts of closed sessions, and some later one frees the last. */
import { createServer, type ServerHttp2Session } from 'node:http2';
import { Duplex } from 'node:stream';
import t from 'tap';
import { ClosedSessions, nativePartOf } from '../../../../gateway/clients/closed-sessions.js';

const PORTION = 500;

/** @param open connections that are open at each collection; the first one is over */
function start(open = 10_000) {
  const gc: { collect: () => void; isWatched: boolean } = {
    collect: () => undefined,
    isWatched: true,
  };
  const closed = new ClosedSessions({
    open: () => open,
    watch: (onCollected) => {
      gc.collect = onCollected;
      return () => {
        gc.isWatched = false;
      };
    },
  });
  gc.collect();
  const add = (count: number): void => {
    for (let part = 0; part < count; part++) closed.add({});
  };
  return { gc, closed, add };
}

t.test('as many as one collection may free do not wait', (t) => {
  const { gc, closed, add } = start();
  for (let round = 0; round < 3; round++) {
    add(PORTION);
    t.equal(closed.waiting, 0);
    gc.collect();
  }
  t.end();
});

t.test('the others wait, and each collection frees 500, or a quarter of them', (t) => {
  const { gc, closed, add } = start();
  add(PORTION + 4_000);
  const waiting = [closed.waiting];
  while (closed.waiting > 0) {
    gc.collect();
    waiting.push(closed.waiting);
  }
  t.strictSame(waiting, [4_000, 3_000, 2_250, 1_687, 1_187, 687, 187, 0]);
  t.end();
});

t.test('those that waited count in the portion of the next collection', (t) => {
  const { gc, closed, add } = start();
  add(PORTION + 200);
  gc.collect();
  add(PORTION - 200);
  t.equal(closed.waiting, 0, 'room for 300 beside 200 that had waited');
  add(1);
  t.equal(closed.waiting, 1);
  t.end();
});

t.test('a closed server lets all go, and watches no more', (t) => {
  const { gc, closed, add } = start();
  add(2 * PORTION);
  closed.close();
  t.equal(closed.waiting, 0);
  t.notOk(gc.isWatched);
  add(1);
  t.equal(closed.waiting, 0, 'nor does a later one wait');
  t.end();
});

t.test('no more wait than sessions were open at the last collection', (t) => {
  const { closed, add } = start(20);
  add(PORTION + 100);
  t.equal(closed.waiting, 20);
  t.end();
});

t.test(
  'this version of Node.js keeps the native part of an open session where it is read',
  async (t) => {
    const server = createServer();
    const opened = new Promise<ServerHttp2Session>((resolve) => {
      server.on('session', resolve);
    });
    const socket = new Duplex({
      read: () => undefined,
      write: (_chunk, _encoding, done) => {
        done();
      },
    });
    server.emit('connection', socket);
    const session = await opened;
    t.type(nativePartOf(session), 'object');
    const closed = new Promise((resolve) => session.once('close', resolve));
    session.destroy();
    await closed;
    t.equal(nativePartOf(session), undefined, 'a closed session has none');
  },
);
