/**
 * Goal: however many connections have something to read in one turn of the event loop, the turn is short and what they
 * have sent takes little memory (docs/SECURITY.md, "Attacks"). Node by itself handles all of it in one turn, and keeps an
 * object for each small piece.
 */
import { readFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { createCertificateAuthority, opensslMissing } from '../support/certificates.js';
import {
  ADS_HEADERS,
  FLAG,
  frame,
  FRAME,
  headerBlock,
  HostileHttp2,
  indexedBlocks,
  PREFACE,
  resetFrame,
} from '../support/hostile-http2.js';
import { until } from '../support/until.js';
import { isAtMost, noLongTurn, startArena, underAttack, type Arena } from './arena.js';

t.setTimeout(120_000);

const CONNECTIONS = 400;
const FEW_CONNECTIONS = 100;
const BYTES = 64_000;
const STREAMS = 90;
const MOST_MIB = 192;
const NONE = Buffer.alloc(0);
const LAST = Buffer.from('the last');

const times = (count: number, make: (at: number) => Buffer): Buffer =>
  Buffer.concat(Array.from({ length: count }, (_, at) => make(at)));
const many = (piece: Buffer): Buffer => times(Math.floor(BYTES / piece.length), () => piece);
const idOf = (at: number): number => 1 + 2 * at;

const requestHeaders = (path: string, contentType: string): Buffer =>
  headerBlock([
    [':method', 'POST'],
    [':scheme', 'http'],
    [':authority', 'test'],
    [':path', path],
    ['content-type', contentType],
  ]);
const ADS = headerBlock(ADS_HEADERS);
const INDEXED_ADS = indexedBlocks(ADS_HEADERS);
const UNKNOWN_METHOD = requestHeaders('/a/b', 'application/grpc');
const POLL = requestHeaders('/v3/discovery:clusters', 'application/json');
const open = (block: Buffer, id = 1): Buffer => frame(FRAME.headers, FLAG.endHeaders, id, block);
const ofOneByte = frame(FRAME.data, 0, 1, Buffer.from(' '));
const ping = (flags: number): Buffer => frame(FRAME.ping, flags, 0, Buffer.alloc(8));
const http1 = (line: string, ...headers: readonly string[]): Buffer =>
  Buffer.from([line, 'host: a', ...headers, '', ''].join('\r\n'));

/** Over HTTP/2, on `CONNECTIONS`. */
const BURSTS: Readonly<Record<string, Buffer>> = {
  'PING frames': many(ping(0)),
  'PING frames that acknowledge nothing': many(ping(FLAG.ack)),
  'empty SETTINGS frames': many(frame(FRAME.settings, 0, 0, NONE)),
  'PRIORITY frames': many(frame(FRAME.priority, 0, 1, Buffer.from([0, 0, 0, 3, 1]))),
  'a request in DATA frames of one byte': Buffer.concat([
    open(ADS),
    frame(FRAME.data, 0, 1, Buffer.from([0, 0, 1, 0, 0])),
    many(ofOneByte),
  ]),
  'empty requests': Buffer.concat([open(ADS), many(frame(FRAME.data, 0, 1, Buffer.alloc(5)))]),
  'a poll in DATA frames of one byte': Buffer.concat([open(POLL), many(ofOneByte)]),
};

/**
 * Over HTTP/2, on `FEW_CONNECTIONS`: each value of a header outlives its stream until V8 collects the whole heap, which then frees
 * 100,000 and more in one turn.
 */
const BURSTS_OF_STREAMS: Readonly<Record<string, Buffer>> = {
  'streams that are reset at once': times(800, (at) => {
    const { first, next } = INDEXED_ADS;
    return Buffer.concat([open(at === 0 ? first : next, idOf(at)), resetFrame(idOf(at))]);
  }),
  'streams with an unknown method': times(STREAMS, (at) => open(UNKNOWN_METHOD, idOf(at))),
  'polls with invalid bodies': times(STREAMS, (at) =>
    Buffer.concat([open(POLL, idOf(at)), frame(FRAME.data, FLAG.endStream, idOf(at), ofOneByte)]),
  ),
};

/** Over HTTP/1.1, to the ports that are not for clients. The last request closes the connection. */
const LAST_REQUEST = http1('GET /live HTTP/1.1', 'connection: close');
const BURSTS_ADMIN: Readonly<Record<string, Buffer>> = {
  'pipelined requests': Buffer.concat([many(http1('GET /live HTTP/1.1')), LAST_REQUEST]),
  'a form in chunks of one byte': Buffer.concat([
    http1('POST /sign-in HTTP/1.1', 'transfer-encoding: chunked'),
    many(Buffer.from('1\r\n \r\n')),
    Buffer.from('0\r\n\r\n'),
    LAST_REQUEST,
  ]),
};

/** Over HTTP/1.1. */
const BURSTS_HTTP1: Readonly<Record<string, Buffer>> = {
  'pipelined requests': many(http1('GET / HTTP/1.1')),
  'pipelined polls': many(
    Buffer.concat([
      http1('POST /v3/discovery:clusters HTTP/1.1', 'content-length: 2'),
      Buffer.from('{}'),
    ]),
  ),
  'a poll in chunks of one byte': Buffer.concat([
    http1('POST /v3/discovery:clusters HTTP/1.1', 'transfer-encoding: chunked'),
    many(Buffer.from('1\r\n \r\n')),
    Buffer.from('0\r\n\r\n'),
  ]),
};

async function connectAll({ gateway }: Arena, count: number, ca?: string) {
  const ports = Array.from({ length: count }, () => gateway.port);
  return Promise.all(ports.map(async (port) => HostileHttp2.connect(port, ca)));
}

/** All send the burst at once, and leave when the gateway has read it or closed the connection. */
async function send(attackers: readonly HostileHttp2[], burst: Buffer): Promise<void> {
  for (const hostile of attackers) hostile.send(burst);
  const isRead = (hostile: HostileHttp2): boolean =>
    hostile.isClosed ||
    hostile.frames.some(({ type, payload }) => type === FRAME.ping && payload.equals(LAST));
  const wait = { timeoutMs: 60_000 };
  await until('all bursts are read', () => attackers.every((hostile) => isRead(hostile)), wait);
  for (const hostile of attackers) hostile.destroy();
}

async function bound(t: Test, arena: Arena, size: string, attack: () => Promise<void>) {
  const figures = await underAttack(t, arena, size, attack);
  noLongTurn(t, figures);
  isAtMost(t, figures, MOST_MIB);
}

const LAST_PING = frame(FRAME.ping, 0, 0, LAST);
const BEGINNING = Buffer.concat([PREFACE, frame(FRAME.settings, 0, 0, NONE)]);
const HTTP2 = [
  ...Object.entries(BURSTS).map(([what, burst]) => ({ what, burst, count: CONNECTIONS })),
  ...Object.entries(BURSTS_OF_STREAMS).map(([what, burst]) => {
    return { what, burst, count: FEW_CONNECTIONS };
  }),
];

interface Burst {
  readonly what: string;
  readonly burst: Buffer;
  /** Of connections. */
  readonly count: number;
}

/** The burst comes with the first bytes of the connections. */
async function beginWith({ what, burst, count }: Burst, t: Test, arena: Arena, ca?: string) {
  await bound(t, arena, `${count} connections × ${what}, with the preface`, async () => {
    const attackers = await connectAll(arena, count, ca);
    await send(attackers, Buffer.concat([BEGINNING, burst, LAST_PING]));
  });
}

async function goOnWith({ what, burst, count }: Burst, t: Test, arena: Arena) {
  await bound(t, arena, `${count} connections × ${what}`, async () => {
    const attackers = await connectAll(arena, count);
    for (const hostile of attackers) hostile.greet();
    await until('all are greeted', () => attackers.every(({ frames }) => frames.length > 0));
    await send(attackers, Buffer.concat([burst, LAST_PING]));
  });
}

t.test('bursts over HTTP/2 cost no long turn and little memory (RFC 9113, 10.5)', async (t) => {
  const arena = await startArena(t);
  for (const burst of HTTP2) await beginWith(burst, t, arena);
  for (const burst of HTTP2.filter(({ what }) =>
    /acknowledge|request|reset|unknown|invalid/.test(what),
  ))
    await goOnWith(burst, t, arena);
});

t.test('the same over TLS', { skip: await opensslMissing() }, async (t) => {
  const authority = await createCertificateAuthority();
  t.teardown(() => authority.remove());
  const spec = { name: 'gateway', dnsNames: [], ipAddresses: ['127.0.0.1'] };
  const paths = await authority.issue(spec);
  const tls = { ...paths, ca: readFileSync(authority.ca, 'utf8') };
  const arena = await startArena(t, { tls });
  for (const burst of HTTP2.filter(({ what }) => what.includes('request in')))
    await beginWith(burst, t, arena, tls.ca);
});

t.test('bursts over HTTP/1.1 cost no long turn and little memory', async (t) => {
  const arena = await startArena(t);
  for (const [what, burst] of Object.entries(BURSTS_HTTP1)) {
    await bound(t, arena, `${CONNECTIONS} connections × ${what}, over HTTP/1.1`, async () => {
      await send(await connectAll(arena, CONNECTIONS), burst);
    });
  }
});

for (const [port, count] of [
  ['admin', 250],
  ['probe', 60],
] as const) {
  t.test(`bursts to the ${port} port cost no long turn and little memory`, async (t) => {
    const arena = await startArena(t);
    const { adminAddress, probeAddress } = arena.gateway;
    const [, at = ''] = (port === 'admin' ? adminAddress : probeAddress).split(':');
    for (const [what, burst] of Object.entries(BURSTS_ADMIN)) {
      await bound(t, arena, `${count} connections × ${what} to the ${port} port`, async () => {
        const ports = Array.from({ length: count }, () => Number(at));
        const attackers = await Promise.all(ports.map(async (to) => HostileHttp2.connect(to)));
        await send(attackers, burst);
      });
    }
  });
}
