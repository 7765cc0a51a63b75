/**
 * Goal: the server for clients is a gRPC server as PROTOCOL-HTTP2.md and compression.md define it.
 * Method: node:http2 as the client, so that every header and reset is seen, and grpc-js where a library
 * has to agree; the real shells around a scripted session.
 */
import { readFileSync } from 'node:fs';
import {
  connect,
  type ClientHttp2Session,
  type OutgoingHttpHeaders,
  type Settings,
} from 'node:http2';
import * as grpc from '@grpc/grpc-js';
import t, { type Test } from 'tap';
import { DEFAULT_KEEPALIVE, DEFAULT_LIMITS } from '../../config/limits.js';
import { Turns } from '../../authorities/index.js';
import { GrpcServer } from '../../gateway/clients/grpc-http2.js';
import { quotaLimitsOf } from '../../gateway/core/quotas/limits.js';
import { Quotas } from '../../gateway/core/quotas/quotas.js';
import { STATUS_CODE } from '../../protos/discovery.js';
import { openAdsCall } from '../support/ads-call.js';
import { createCertificateAuthority, opensslMissing } from '../support/certificates.js';
import { grpcFrame } from '../support/dialled-source.js';
import {
  ADS_HEADERS,
  FLAG,
  frame,
  FRAME,
  headersFrame,
  HostileHttp2,
  PREFACE,
} from '../support/hostile-http2.js';
import { NO_ERROR, openHttp2Call } from '../support/http2-call.js';
import { startStreamServer, type StreamServer } from '../support/served-streams.js';
import { until, within } from '../support/until.js';
import { sslByAddress } from '../support/ssl-by-address.js';

const FIRST = grpcFrame(Buffer.from('first'));
/** More than the buffers of two sockets. */
const LARGE_BYTES = 64 * 1_024 * 1_024;
/** A grace time that no test waits for. */
const LONG_MS = 600_000;
const LARGE_INCREMENT = Buffer.from([4, 0, 0, 0]);

async function start(
  t: Test,
): Promise<{ readonly server: StreamServer; readonly session: ClientHttp2Session }> {
  const server = await startStreamServer();
  const session = connect(`http://127.0.0.1:${server.port}`);
  t.teardown(async () => {
    session.destroy();
    await server.stop();
  });
  return { server, session };
}

interface Refusal {
  readonly title: string;
  readonly headers: OutgoingHttpHeaders;
  /** Headers of the response. */
  readonly response: Readonly<Record<string, unknown>>;
}

const REFUSALS: readonly Refusal[] = [
  {
    title: 'a content-type that is not gRPC gets HTTP 415 (PROTOCOL-HTTP2.md, "Content-Type")',
    headers: { 'content-type': 'application/json' },
    response: { ':status': 415 },
  },
  {
    title: 'gRPC-Web gets HTTP 415, although its content-type begins with application/grpc',
    headers: { 'content-type': 'application/grpc-web' },
    response: { ':status': 415 },
  },
  {
    title: 'no content-type gets HTTP 415',
    headers: { 'content-type': undefined },
    response: { ':status': 415 },
  },
  {
    title: 'a method that is not POST gets HTTP 405 (PROTOCOL-HTTP2.md, "Method")',
    headers: { ':method': 'PUT' },
    response: { ':status': 405, allow: 'POST' },
  },
  {
    title:
      'an unknown path is UNIMPLEMENTED, with trailers only (PROTOCOL-HTTP2.md, "Trailers-Only")',
    headers: { ':path': '/some.Service/Method' },
    response: {
      ':status': 200,
      'content-type': /^application\/grpc/,
      'grpc-status': '12',
      'grpc-message': /some\.Service/,
    },
  },
  {
    title:
      'an unknown grpc-encoding is UNIMPLEMENTED, and the response names the known one (compression.md)',
    headers: { 'grpc-encoding': 'gzip' },
    response: { ':status': 200, 'grpc-status': '12', 'grpc-accept-encoding': 'identity' },
  },
  {
    title: 'a grpc-timeout that cannot be read is INTERNAL (PROTOCOL-HTTP2.md, "Timeout")',
    headers: { 'grpc-timeout': '123456789S' },
    response: { ':status': 200, 'grpc-status': '13' },
  },
];

for (const { title, headers, response } of REFUSALS) {
  t.test(title, async (t) => {
    const { server, session } = await start(t);
    const call = openHttp2Call(session, headers);
    await call.closed();
    t.match(call.response, response);
    t.equal(call.resetCode, NO_ERROR, 'and the server lets the stream go');
    t.equal(server.streams.length, 0, 'no session was opened');
  });
}

t.test(
  'a call without `te` works; with another `te` than "trailers" it is reset (RFC 9113, 8.2.2)',
  async (t) => {
    const { server, session } = await start(t);
    const call = openHttp2Call(session, { te: undefined });
    call.write(FIRST);
    await until('its request has arrived', () => server.streams[0]?.requests.length === 1);
    // node:http2 does not send it.
    const wrong = await HostileHttp2.connect(server.port);
    t.teardown(() => {
      wrong.destroy();
    });
    wrong.greet();
    wrong.send(headersFrame(1, [...ADS_HEADERS.filter(([name]) => name !== 'te'), ['te', 'gzip']]));
    await until('it is reset', () => wrong.of(1).some(({ type }) => type === FRAME.resetStream));
    t.equal(server.streams.length, 1);
  },
);

for (const type of ['application/grpc', 'application/grpc+proto', 'application/grpc;x=y']) {
  t.test(`the content-type ${type} is gRPC`, async (t) => {
    const { server, session } = await start(t);
    const call = openHttp2Call(session, { 'content-type': type });
    call.write(FIRST);
    await until('its request has arrived', () => server.streams[0]?.requests.length === 1);
    server.streams[0]!.say(Buffer.from('answer'));
    await until('the response has arrived', () => call.messages.length === 1);
    t.match(call.response, { ':status': 200, 'content-type': /^application\/grpc/ });
  });
}

t.test(
  'the status comes in trailers, percent-encoded, and the server lets the stream go (PROTOCOL-HTTP2.md, "Early Server Closure")',
  async (t) => {
    const { server, session } = await start(t);
    const call = openHttp2Call(session);
    call.write(FIRST);
    await until('its request has arrived', () => server.streams[0]?.requests.length === 1);
    server.streams[0]!.say(Buffer.from('answer'), Buffer.alloc(100_000));
    await until('the responses have arrived', () => call.messages.length === 2);
    server.streams[0]!.end({ code: STATUS_CODE.unavailable, message: ' 100 % größer ' });
    await call.closed();
    t.match(call.trailers, {
      'grpc-status': '14',
      'grpc-message': '%20100 %25 gr%C3%B6%C3%9Fer%20',
    });
    t.equal(call.response?.['grpc-status'], undefined, 'once');
    t.equal(call.resetCode, NO_ERROR, 'the client never ended its side');
  },
);

t.test(
  'a client without a response gets the headers of the response in time, and a later status as trailers: some clients give up a call without headers',
  async (t) => {
    const { server, session } = await start(t);
    const call = openHttp2Call(session);
    call.write(FIRST);
    await until('its request has arrived', () => server.streams[0]?.requests.length === 1);
    call.write(FIRST);
    await until('the headers have arrived', () => call.response !== undefined);
    t.match(call.response, { ':status': 200, 'grpc-status': undefined });
    server.streams[0]!.end({ code: STATUS_CODE.unavailable, message: 'no source' });
    await call.closed();
    t.match(call.trailers, { 'grpc-status': '14', 'grpc-message': 'no source' });
  },
);

t.test(
  'a connection that may have many streams gets 100 more at a time, so that no turn opens all of them',
  async (t) => {
    const maxStreamsPerConnection = 350;
    const server = await startStreamServer(undefined, null, { maxStreamsPerConnection });
    const session = connect(`http://127.0.0.1:${server.port}`);
    t.teardown(async () => {
      session.destroy();
      await server.stop();
    });
    const announced: (number | undefined)[] = [];
    session.on('remoteSettings', ({ maxConcurrentStreams }: Settings) => {
      announced.push(maxConcurrentStreams);
    });
    await until('the limit is announced', () => announced.length === 1);
    for (let call = 0; call < maxStreamsPerConnection; call++) openHttp2Call(session).write(FIRST);
    await until('all are open', () => server.streams.length === maxStreamsPerConnection);
    t.strictSame(announced, [100, 200, 300, 350]);
  },
);

t.test(
  'clients that lose their connections at once and take all slots again are not refused (docs/SECURITY.md, "Quotas")',
  async (t) => {
    const clients = 250;
    const limits = { maxClients: clients, maxPeerPercent: 100 };
    const server = await startStreamServer(DEFAULT_KEEPALIVE, null, limits);
    t.teardown(() => server.stop());
    const open = async (): Promise<HostileHttp2> => {
      const client = await HostileHttp2.connect(server.port);
      client.greet();
      client.send(headersFrame(1), frame(FRAME.data, 0, 1, FIRST));
      return client;
    };
    const first = await Promise.all(Array.from({ length: clients }, open));
    await until('all slots are taken', () => server.streams.length === clients);
    const second = await Promise.all(
      first.map(async (client) => {
        await client.leave();
        return open();
      }),
    );
    t.teardown(() => {
      for (const client of second) client.destroy();
    });
    const refused = (): number => second.filter((client) => client.of(1).length > 0).length;
    await until(
      'all are served or refused',
      () => server.streams.length + refused() === 2 * clients,
    );
    t.equal(refused(), 0);
  },
);

t.test(
  'a long request counts for its peer while a part of it is missing, its prefix too',
  async (t) => {
    const { server, session } = await start(t);
    const call = openHttp2Call(session);
    const message = grpcFrame(Buffer.alloc(100_000));
    const counted = (): number => server.quotas.used('buffered');
    call.write(message.subarray(0, 3));
    await until('the stream is open', () => server.streams.length === 1);
    call.write(message.subarray(3, 10));
    await until('it counts', () => counted() === 100_000);
    call.write(message.subarray(10));
    await until('the request is whole', () => server.streams[0]?.requests.length === 1);
    t.equal(counted(), 0);
    call.write(message.subarray(0, 50_000));
    await until('the next one counts', () => counted() === 100_000);
    session.destroy();
    await until('its client has left', () => counted() === 0);
  },
);

t.test('a stream that ends while the gateway does not read it gives its slot back', async (t) => {
  const { server, session } = await start(t);
  const call = openHttp2Call(session);
  call.write(FIRST);
  await until('its request has arrived', () => server.streams[0]?.requests.length === 1);
  server.streams[0]!.pauseReading();
  call.write(FIRST);
  await new Promise((resolve) => session.ping(resolve));
  t.equal(server.quotas.used('streams'), 1);
  server.streams[0]!.end({ code: STATUS_CODE.resourceExhausted, message: 'too many names' });
  await call.closed();
  await until('the slot is free', () => server.quotas.used('streams') === 0);
  t.equal(server.streams[0]!.requests.length, 1, 'what came behind is dropped');
});

t.test(
  'while the gateway does not read a stream, the messages of its last chunk wait too',
  async (t) => {
    const { server, session } = await start(t);
    const call = openHttp2Call(session);
    call.write(FIRST);
    await until('its request has arrived', () => server.streams[0]?.requests.length === 1);
    const stream = server.streams[0]!;
    stream.pauseReading();
    const words = ['second', 'third', 'fourth'];
    call.write(Buffer.concat(words.map((word) => grpcFrame(Buffer.from(word)))));
    await new Promise((resolve) => session.ping(resolve));
    t.equal(stream.requests.length, 1);
    stream.onRequest = () => {
      stream.pauseReading();
    };
    for (const [at, word] of words.entries()) {
      stream.readOn();
      await until(`the ${word} has arrived`, () => stream.requests.length === at + 2);
      await new Promise((resolve) => session.ping(resolve));
      t.equal(stream.requests.length, at + 2, 'no other came with it');
      t.equal(stream.requests.at(-1)?.toString(), word);
    }
  },
);

t.test('a message of several chunks arrives as one, in order with the others', async (t) => {
  const { server, session } = await start(t);
  const call = openHttp2Call(session);
  call.write(FIRST);
  await until('the stream is open', () => server.streams.length === 1);
  const chunks = [Buffer.from('head'), Buffer.alloc(70_000, 'x'), Buffer.from('tail')];
  const [stream] = server.streams;
  stream!.say(Buffer.from('before'));
  stream!.sayInChunks(chunks);
  stream!.sayInChunks([Buffer.from('two '), Buffer.from('small')]);
  await until('all have arrived', () => call.messages.length === 3);
  t.strictSame(call.messages.map(String), [
    'before',
    Buffer.concat(chunks).toString(),
    'two small',
  ]);
});

t.test('grpc-js decodes the status message', async (t) => {
  const { server } = await start(t);
  const call = openAdsCall({
    port: server.port,
    method: 'StreamAggregatedResources',
    onMessage: () => undefined,
  });
  t.teardown(() => {
    call.close();
  });
  call.write(Buffer.from('first'));
  await until('its request has arrived', () => server.streams[0]?.requests.length === 1);
  server.streams[0]!.end({ code: STATUS_CODE.unavailable, message: '100 % größer\n' });
  await until('the status has arrived', () => call.status);
  t.match(call.status, { code: grpc.status.UNAVAILABLE, details: '100 % größer\n' });
});

const BROKEN: readonly {
  readonly title: string;
  readonly bytes: Buffer;
  readonly isEnd?: boolean;
  readonly status: string;
}[] = [
  {
    title: 'a message announced as 4 GiB is RESOURCE_EXHAUSTED before a byte of it comes',
    bytes: Buffer.from([0, 255, 255, 255, 255]),
    status: '8',
  },
  {
    title: 'half a message at the end of the stream is INTERNAL',
    bytes: FIRST.subarray(0, 7),
    isEnd: true,
    status: '13',
  },
  {
    title: 'the Compressed-Flag without a grpc-encoding is INTERNAL (compression.md, test case 6)',
    bytes: Buffer.from([1, 0, 0, 0, 1, 0]),
    status: '13',
  },
];

for (const { title, bytes, isEnd, status } of BROKEN) {
  t.test(title, async (t) => {
    const { server, session } = await start(t);
    const innocent = openHttp2Call(session);
    innocent.write(FIRST);
    const call = openHttp2Call(session);
    call.write(bytes);
    if (isEnd) call.end();
    await call.closed();
    t.equal(call.response?.['grpc-status'], status);
    await until('its session is closed', () => server.streams[1]?.closed.length === 1);
    t.equal(server.streams[1]!.requests.length, 0);
    server.streams[0]!.say(Buffer.from('answer'));
    await until('the other stream gets its response', () => innocent.messages.length === 1);
  });
}

t.test(
  'a call whose grpc-timeout passes ends with DEADLINE_EXCEEDED (PROTOCOL-HTTP2.md, "Timeout")',
  async (t) => {
    const { server, session } = await start(t);
    const call = openHttp2Call(session, { 'grpc-timeout': '50m' });
    call.write(FIRST);
    await call.closed();
    t.equal(call.response?.['grpc-status'], String(STATUS_CODE.deadlineExceeded));
    t.match(server.streams[0]?.closed, [/deadline/]);
    const endless = openHttp2Call(session, { 'grpc-timeout': '99999999H' });
    endless.write(FIRST);
    await until('its request has arrived', () => server.streams[1]?.requests.length === 1);
    server.streams[1]!.say(Buffer.from('answer'));
    await until('a deadline of 11,000 years is none', () => endless.messages.length === 1);
  },
);

t.test(
  'an exception in a handler ends its call with INTERNAL, and the process goes on',
  async (t) => {
    const errors: unknown[] = [];
    const fail = (): never => {
      throw new Error('planted');
    };
    const handlers = { onMessage: fail, onDrain: fail, onEnd: fail, onClosed: fail };
    const server = new GrpcServer(
      {
        host: '127.0.0.1',
        port: 0,
        keepalive: DEFAULT_KEEPALIVE,
        maxStreamsPerConnection: 10,
        maxMessageBytes: 100,
        writeAheadBytes: 100,
        methods: new Map([
          ['/in/message', { refusal: () => undefined, open: () => handlers }],
          ['/in/open', { refusal: () => undefined, open: fail }],
          ['/in/refusal', { refusal: fail, open: fail }],
        ]),
        turns: new Turns(() => undefined),
        quotas: new Quotas(quotaLimitsOf(DEFAULT_LIMITS)),
        onUnknownMethod: () => undefined,
        onError: (error) => errors.push(error),
      },
      undefined,
    );
    const session = connect(`http://127.0.0.1:${await server.listen()}`);
    t.teardown(async () => {
      session.destroy();
      await server.close(0);
    });
    const call = openHttp2Call(session, { ':path': '/in/message' });
    call.write(FIRST);
    await call.closed();
    t.equal(call.response?.['grpc-status'], '13');
    t.ok(errors.length >= 1, 'it was reported');
    for (const path of ['/in/open', '/in/refusal']) {
      const other = openHttp2Call(session, { ':path': path });
      await other.closed();
      t.not(other.resetCode, undefined, path);
    }
  },
);

t.test(
  'the peer is an address with its port, and the user-agent comes from the header',
  async (t) => {
    const { server, session } = await start(t);
    openHttp2Call(session, { 'user-agent': 'grpc-test/1.0' }).write(FIRST);
    await until('its request has arrived', () => server.streams[0]?.requests.length === 1);
    t.match(server.streams[0]!.peer, /^127\.0\.0\.1:\d+$/);
    t.equal(server.streams[0]!.userAgent, 'grpc-test/1.0');
  },
);

t.test(
  'shutdown sends GOAWAY, ends open calls with UNAVAILABLE within the grace time, and refuses connections',
  async (t) => {
    const server = await startStreamServer();
    const session = connect(`http://127.0.0.1:${server.port}`);
    t.teardown(() => {
      session.destroy();
    });
    let goAwayCode: number | undefined;
    session.on('goaway', (code: number) => (goAwayCode = code));
    session.on('error', () => undefined);
    const call = openHttp2Call(session);
    call.write(FIRST);
    await until('its request has arrived', () => server.streams[0]?.requests.length === 1);
    await server.stop(1_000);
    t.equal(goAwayCode, NO_ERROR);
    t.equal(call.response?.['grpc-status'], String(STATUS_CODE.unavailable));
    const late = connect(`http://127.0.0.1:${server.port}`);
    await t.rejects(new Promise((_, reject) => late.on('error', reject)), { code: 'ECONNREFUSED' });
  },
);

for (const first of ['client', 'server'] as const) {
  t.test(
    `the ${first} says GOAWAY and the other one closes: no connection is left (RFC 9113, 6.8)`,
    async (t) => {
      const server = await startStreamServer();
      const client = await HostileHttp2.connect(server.port);
      client.greet();
      const sent = (type: number): boolean => client.of(0).some((one) => one.type === type);
      await until('the server sends its SETTINGS', () => sent(FRAME.settings));
      if (first === 'client') {
        client.send(frame(FRAME.goAway, 0, 0, Buffer.alloc(8)));
        await until('both have ended their sides', () => client.isClosed);
      }
      const stopping = server.stop(LONG_MS);
      if (first === 'server') {
        await until('the server says GOAWAY', () => sent(FRAME.goAway));
        client.destroy();
      }
      await within('the server has stopped', 5_000, stopping);
      t.pass();
    },
  );
}

t.test(
  'a client that leaves while a PING is out, and keeps its side open, is closed',
  async (t) => {
    const server = await startStreamServer({ timeMs: 200, timeoutMs: LONG_MS });
    const client = await HostileHttp2.connect(server.port, undefined, true);
    t.teardown(() => {
      client.destroy();
    });
    client.greet();
    await until('the server sends a PING', () =>
      client.of(0).some(({ type }) => type === FRAME.ping),
    );
    client.send(frame(FRAME.goAway, 0, 0, Buffer.alloc(8)));
    await until('the server says GOAWAY', () =>
      client.of(0).some(({ type }) => type === FRAME.goAway),
    );
    await within('the server has stopped', 5_000, server.stop(LONG_MS));
    t.pass();
  },
);

t.test('a refused stream closes, also if parts of its request came with its headers', async (t) => {
  const server = await startStreamServer();
  const client = await HostileHttp2.connect(server.port);
  const part = frame(FRAME.data, 0, 1, FIRST);
  const unknown = ADS_HEADERS.map(([key, value]): [string, string] => [
    key,
    key === ':path' ? '/no.Such/Method' : value,
  ]);
  const settings = frame(FRAME.settings, 0, 0, Buffer.alloc(0));
  client.send(PREFACE, settings, headersFrame(1, unknown), part, part);
  await until('it is refused', () => client.of(1).length > 0);
  client.send(frame(FRAME.settings, FLAG.ack, 0, Buffer.alloc(0)));
  await within('the server has stopped', 5_000, server.stop(LONG_MS));
  t.pass();
});

t.test(
  'a shutdown cuts a connection that has not read everything after the grace time',
  async (t) => {
    const server = await startStreamServer();
    const client = await HostileHttp2.connect(server.port);
    t.teardown(() => {
      client.destroy();
    });
    client.greet(LARGE_BYTES);
    client.send(frame(FRAME.windowUpdate, 0, 0, LARGE_INCREMENT));
    client.send(headersFrame(1), frame(FRAME.data, 0, 1, FIRST));
    await until('its request has arrived', () => server.streams[0]?.requests.length === 1);
    client.stopReading();
    server.streams[0]!.say(Buffer.alloc(LARGE_BYTES));
    await until('it is full', () => server.streams[0]!.pace.length === 1);
    await server.stop(0);
    client.readOn();
    await until('it is closed', () => client.isClosed);
    const bytes = client.of(1).reduce((sum, { payload }) => sum + payload.length, 0);
    t.ok(bytes < LARGE_BYTES, `${bytes} bytes came`);
  },
);

t.test('TLS', { skip: await opensslMissing() }, async (t) => {
  const ca = await createCertificateAuthority();
  const stranger = await createCertificateAuthority('another CA');
  t.teardown(() => Promise.all([ca.remove(), stranger.remove()]));
  const pair = await ca.issue({ name: 'server', ipAddresses: ['127.0.0.1'] });
  const client = await ca.issue({ name: 'client' });
  const strangers = await stranger.issue({ name: 'client' });
  const server = await startStreamServer(DEFAULT_KEEPALIVE, {
    certChainFile: pair.cert,
    privateKeyFile: pair.key,
    clientCaFile: ca.ca,
  });
  t.teardown(() => server.stop());
  const dial = (cert: { cert: string; key: string } | undefined): grpc.Client =>
    new grpc.Client(
      `127.0.0.1:${server.port}`,
      cert
        ? sslByAddress(readFileSync(ca.ca), readFileSync(cert.key), readFileSync(cert.cert))
        : sslByAddress(readFileSync(ca.ca)),
    );
  for (const [what, cert, isServed] of [
    ['a client certificate of the CA is served', client, true],
    ['a client certificate of another CA is refused', strangers, false],
    ['a client without a certificate is refused', undefined, false],
  ] as const) {
    const channel = dial(cert);
    await new Promise<void>((resolve) => {
      channel.waitForReady(Date.now() + 1_500, (error) => {
        t.equal(error === undefined, isServed, what);
        resolve();
      });
    });
    channel.close();
  }
});
