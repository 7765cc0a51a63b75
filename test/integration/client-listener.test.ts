/**
 * Goal: the one port for clients tells HTTP/2 from HTTP/1.1 however the first bytes are split, loses
 * none of them, and an exception in a handler ends one connection.
 * Method: a listener whose handlers record what they read, and sockets that send byte by byte.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { setImmediate } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { Turns } from '../../authorities/index.js';
import { ClientListener } from '../../gateway/clients/client-listener.js';
import { ReadInTurns, type ConnectionReading } from '../../gateway/clients/read-in-turns.js';
import type { TlsMaterial } from '../../gateway/clients/tls-files.js';
import { createCertificateAuthority, opensslMissing } from '../support/certificates.js';
import { until } from '../support/until.js';

const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';

/** Counts what is read, and has the connections in order. */
class CountedReading extends ReadInTurns {
  events = 0;
  readonly connections: ConnectionReading[] = [];

  override add(socket: Socket): ConnectionReading {
    const connection = super.add(socket);
    this.connections.push(connection);
    return connection;
  }

  override noteEvent(): void {
    this.events++;
    super.noteEvent();
  }
}

async function start(t: Test, turns = new Turns(() => undefined), tls?: TlsMaterial) {
  const reading = new CountedReading();
  /** The protocol of each connection, and what its handler read. */
  const accepted: { protocol: string; text: string }[] = [];
  /** In the same order. */
  const closed: boolean[] = [];
  const errors: unknown[] = [];
  const record = (protocol: string) => (socket: Socket) => {
    const one = { protocol, text: '' };
    const at = accepted.push(one) - 1;
    closed[at] = false;
    socket.on('close', () => (closed[at] = true));
    socket.on('data', (chunk: Buffer) => (one.text += chunk.toString()));
  };
  const handlers = { onHttp1: record('http1'), onHttp2: record('http2') };
  const planted = { isBroken: false };
  const room = { free: Infinity };
  const listener = new ClientListener(
    {
      host: '127.0.0.1',
      port: 0,
      ...handlers,
      enter: () => {
        if (room.free === 0) return undefined;
        room.free--;
        return () => room.free++;
      },
      onHttp1: (socket) => {
        if (planted.isBroken) throw new Error('planted');
        handlers.onHttp1(socket);
      },
      turns,
      reading,
      onError: (error) => errors.push(error),
    },
    tls,
  );
  const port = await listener.listen();
  const sockets: Socket[] = [];
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise<void>((resolve) => {
      listener.close(resolve);
    });
  });
  const open = async (): Promise<Socket> => {
    const socket = connect(port, '127.0.0.1');
    socket.setNoDelay(true);
    socket.on('error', () => undefined);
    sockets.push(socket);
    await once(socket, 'connect');
    return socket;
  };
  return { accepted, closed, errors, planted, reading, room, open, listener, port };
}

for (const [text, protocol] of [
  [`${PREFACE}rest`, 'http2'],
  ['POST /v3/discovery:clusters HTTP/1.1\r\n', 'http1'],
  ['PROPFIND / HTTP/1.1\r\n', 'http1'],
  ['PRX', 'http1'],
  ['GET / HTTP/1.1\r\n', 'http1'],
  ['\0\0\0', 'http1'],
] as const) {
  t.test(`${JSON.stringify(text)} is ${protocol}, in one piece and byte by byte`, async (t) => {
    const { accepted, open } = await start(t);
    const whole = await open();
    whole.write(text);
    await until('it is told', () => accepted[0]?.text === text);
    const slow = await open();
    for (const byte of text) {
      await new Promise((resolve) => slow.write(byte, resolve));
      // Each turn of the event loop lets the listener read.
      for (let turns = 0; turns < 5; turns++) await setImmediate();
    }
    await until('it is told', () => accepted[1]?.text === text);
    t.strictSame(accepted, [
      { protocol, text },
      { protocol, text },
    ]);
  });
}

t.test('an exception in a handler ends its connection, and the listener goes on', async (t) => {
  const { accepted, errors, planted, open } = await start(t);
  planted.isBroken = true;
  const broken = await open();
  broken.write('GET / HTTP/1.1\r\n');
  await once(broken, 'close');
  t.match(errors, [{ message: 'planted' }]);
  planted.isBroken = false;
  const next = await open();
  next.write('GET / HTTP/1.1\r\n');
  await until('the next one is served', () => accepted.length === 1);
});

/** A certificate for the listener, and the CA that clients trust. */
async function issueTls(t: Test) {
  const authority = await createCertificateAuthority();
  t.teardown(() => authority.remove());
  const paths = await authority.issue({ name: 'gateway', ipAddresses: ['127.0.0.1'] });
  const { cert, key } = paths;
  const tls = { cert: readFileSync(cert), key: readFileSync(key), clientCa: undefined };
  return { tls, ca: readFileSync(authority.ca) };
}

/** Turns that run work at once, or have it wait for the test. */
function scriptedTurns() {
  const waiting: (() => void)[] = [];
  const state = { isBusy: false, charges: 0, tickCounts: 0 };
  const run = (work: () => void): boolean => {
    if (state.isBusy) waiting.push(work);
    else work();
    return !state.isBusy;
  };
  const charge = (): number => state.charges++;
  const countTicks = (): number => state.tickCounts++;
  const turns = { charge, countTicks, run, runBounded: run } as unknown as Turns;
  return { turns, waiting, state };
}

for (const isTls of [false, true]) {
  t.test(
    `a connection ${isTls ? 'with TLS ' : ''}without room is closed at once, and one that ends makes room`,
    { skip: isTls && (await opensslMissing()) },
    async (t) => {
      const { tls, ca } = isTls ? await issueTls(t) : {};
      const { accepted, open, port, room } = await start(t, undefined, tls);
      room.free = 1;
      const dial = async (): Promise<Socket> => {
        if (!isTls) return open();
        const socket = connectTls({ port, host: '127.0.0.1', ca, ALPNProtocols: ['h2'] });
        socket.on('error', () => undefined);
        t.teardown(() => socket.destroy());
        await once(socket, 'secureConnect');
        return socket;
      };
      const first = await dial();
      first.write(PREFACE);
      await until('the first is served', () => accepted[0]?.text === PREFACE);
      const second = await open();
      second.resume();
      await once(second, 'close');
      t.equal(accepted.length, 1);
      first.destroy();
      await until('it has made room', () => room.free === 1);
      (await dial()).write(PREFACE);
      await until('the next is served', () => accepted[1]?.text === PREFACE);
    },
  );
}

t.test('connections that arrive at once are accepted in several turns', async (t) => {
  const { turns, waiting, state } = scriptedTurns();
  const { accepted, open, listener } = await start(t, turns);
  state.isBusy = true;
  const [one, other] = [await open(), await open()];
  await until('both wait before they send anything', () => waiting.length === 2);
  for (const socket of [one, other]) socket.write(PREFACE);
  for (let turn = 0; turn < 20; turn++) await setImmediate();
  t.strictSame([waiting.length, accepted.length], [2, 0], 'nothing is read before the turn');
  state.isBusy = false;
  waiting[0]?.();
  await until('the first is served', () => accepted[0]?.text === PREFACE);
  t.equal(accepted.length, 1);
  listener.close(() => undefined);
  other.resume();
  waiting[1]?.();
  await until('one that waited while the listener closed is closed', () => other.destroyed);
  t.equal(accepted.length, 1);
});

t.test('connections that become readable at once are opened in several turns', async (t) => {
  const { turns, waiting, state } = scriptedTurns();
  const { accepted, open, listener } = await start(t, turns);
  const [one, other] = [await open(), await open()];
  // Both are accepted, and wait for their first bytes.
  for (let turn = 0; turn < 5; turn++) await setImmediate();
  state.isBusy = true;
  for (const socket of [one, other]) socket.write('GET / HTTP/1.1\r\n');
  await until('both wait', () => waiting.length === 2);
  t.equal(state.charges, 2, 'the turn pays for what Node reads after it');
  t.strictSame(accepted, []);
  one.write('more');
  for (let turn = 0; turn < 20; turn++) await setImmediate();
  waiting[0]?.();
  await until('the first is served', () => accepted[0]?.text === 'GET / HTTP/1.1\r\nmore');
  t.equal(state.tickCounts, 1, 'its turn pays for what Node does in the next tick');
  listener.close(() => undefined);
  waiting[1]?.();
  t.equal(accepted.length, 1, 'a connection that was closed meanwhile is not opened');
  for (let at = 2; at < waiting.length; at++) waiting[at]?.();
  state.isBusy = false;
});

t.test('a new connection goes on before clients that have had nothing to read', async (t) => {
  const { open, reading } = await start(t);
  await open();
  const added = await until('it is accepted', () => reading.connections[0]);
  t.equal(added.kind(reading.turn), 'few');
});

t.test('a connection that fills its socket before its turn loses nothing', async (t) => {
  const { turns, waiting, state } = scriptedTurns();
  const { accepted, open } = await start(t, turns);
  const socket = await open();
  await until('it waits for its first bytes', () => state.charges === 1);
  state.isBusy = true;
  const text = `POST / HTTP/1.1\r\n${'x'.repeat(2_000_000)}`;
  socket.write(text);
  await until('it waits for its turn', () => waiting.length === 1);
  // Node reads on until the socket is full.
  for (let turn = 0; turn < 20; turn++) await setImmediate();
  state.isBusy = false;
  waiting[0]?.();
  await until('all is read', () => accepted[0]?.text === text);
  t.pass('all is read');
});

t.test('connections whose first bytes arrive at once are read in several turns', async (t) => {
  const { turns, state } = scriptedTurns();
  const { accepted, open, reading } = await start(t, turns);
  const sockets = await Promise.all(Array.from({ length: 100 }, open));
  await until('all wait for their first bytes', () => state.charges === sockets.length);
  reading.awaitingTurn = 1_000;
  for (const socket of sockets) socket.write(PREFACE);
  await until('some are read', () => reading.events > 0);
  for (let turn = 0; turn < 50; turn++) await setImmediate();
  t.ok(reading.events < sockets.length, `${reading.events} are read while other work waits`);
  t.equal(accepted.length, 0);
  reading.awaitingTurn = 0;
  await until('all are served', () => accepted.length === sockets.length);
  t.ok(accepted.every(({ text }) => text === PREFACE));
});

t.test(
  'TLS handshakes that begin at once are answered in several turns',
  { skip: await opensslMissing() },
  async (t) => {
    const { tls, ca } = await issueTls(t);
    const { turns, waiting, state } = scriptedTurns();
    const { accepted, port } = await start(t, turns, tls);
    const dial = (): TLSSocket => {
      const socket = connectTls({ port, host: '127.0.0.1', ca, ALPNProtocols: ['h2'] });
      socket.on('error', () => undefined);
      t.teardown(() => socket.destroy());
      return socket;
    };
    const [one, other] = [dial(), dial()];
    const secured: TLSSocket[] = [];
    for (const socket of [one, other]) socket.on('secureConnect', () => secured.push(socket));
    state.isBusy = true;
    await until('both are to be accepted', () => waiting.length === 2);
    for (const work of waiting.splice(0)) work();
    await until('both have begun a handshake', () => waiting.length === 2);
    for (let turn = 0; turn < 20; turn++) await setImmediate();
    t.strictSame(secured, [], 'none is answered before its turn');
    waiting.shift()?.();
    await until('one is answered', () => secured.length === 1);
    state.isBusy = false;
    for (const work of waiting.splice(0)) work();
    await until('the other is answered', () => secured.length === 2);
    one.write(PREFACE);
    await until('it is HTTP/2', () => accepted.some(({ text }) => text === PREFACE));
    t.equal(accepted[0]?.protocol, 'http2');
  },
);

for (const alpn of [['h2'], []]) {
  t.test(
    `a connection whose TLS handshake ends after the listener has closed is closed, with ALPN ${alpn.join() || 'absent'}`,
    { skip: await opensslMissing() },
    async (t) => {
      const { tls, ca } = await issueTls(t);
      const { turns, waiting, state } = scriptedTurns();
      const { accepted, port, listener } = await start(t, turns, tls);
      const client = connectTls({ port, host: '127.0.0.1', ca, ALPNProtocols: alpn });
      const isSecured = once(client, 'secureConnect');
      client.on('error', () => undefined);
      t.teardown(() => client.destroy());
      client.resume();
      state.isBusy = true;
      await until('it is to be accepted', () => waiting.length === 1);
      waiting.shift()?.();
      await until('it has begun its handshake', () => waiting.length === 1);
      waiting.shift()?.();
      await isSecured;
      await until('it is to be handed over', () => waiting.length === 1);
      listener.close(() => undefined);
      state.isBusy = false;
      waiting.shift()?.();
      // A client that says nothing would be closed after 5 s.
      await until('it is closed', () => client.destroyed, { timeoutMs: 2_000 });
      t.strictSame(accepted, []);
    },
  );
}

t.test(
  'a TLS handshake that is not begun, or not finished, is given up within 10 s (docs/SECURITY.md)',
  { skip: await opensslMissing() },
  async (t) => {
    const { tls } = await issueTls(t);
    const { open } = await start(t, undefined, tls);
    const beganMs = performance.now();
    const [silent, slow] = [await open(), await open()];
    // The first byte of a record with a handshake (RFC 8446, 5.1).
    slow.write(Buffer.from([22]));
    for (const socket of [silent, slow]) socket.resume();
    await until('both are closed', () => silent.destroyed && slow.destroyed);
    const tookMs = performance.now() - beganMs;
    t.ok(tookMs < 11_000, `${Math.round(tookMs)} ms`);
  },
);

t.test('connections that end or are reset at once are closed in several turns', async (t) => {
  const { turns, waiting, state } = scriptedTurns();
  const { accepted, closed, open } = await start(t, turns);
  const [ended, reset, undecided] = [await open(), await open(), await open()];
  ended.write(PREFACE);
  reset.write(PREFACE);
  await until('two are HTTP/2', () => accepted.length === 2);
  state.isBusy = true;
  ended.end();
  await until('the first end waits', () => waiting.length === 1);
  reset.resetAndDestroy();
  await until('the second end waits', () => waiting.length === 2);
  undecided.end();
  await until('the third end waits', () => waiting.length === 3);
  void open();
  await until('the new connection waits behind them', () => waiting.length === 4);
  t.strictSame(closed, [false, false]);
  state.isBusy = false;
  const { charges } = state;
  waiting[0]?.();
  await until('it is closed', () => closed[0] === true);
  t.equal(state.charges, charges + 1, 'the turn pays for what Node does after it');
  t.notOk(closed[1], 'the other one waits');
  for (const work of waiting.slice(1)) work();
  await until('it is closed', () => closed[1] === true);
  await until('so is the one that said nothing', () => undecided.destroyed);
});

for (const text of [PREFACE, 'GET / HTTP/1.1\r\n', 'PR']) {
  t.test(`a client that ends its side after ${JSON.stringify(text)} is let go`, async (t) => {
    const { open } = await start(t);
    const socket = await open();
    socket.resume();
    socket.end(text);
    await until('the gateway has closed it', () => socket.destroyed);
    t.pass('it was closed');
  });
}

t.test('a listener that closes lets go of connections that said nothing', async (t) => {
  const { open, listener } = await start(t);
  const silent = await open();
  let isClosed = false;
  silent.resume();
  silent.on('close', () => (isClosed = true));
  await until('it is accepted, and closed', () => {
    listener.close(() => undefined);
    return isClosed;
  });
  t.pass('it was closed');
});
