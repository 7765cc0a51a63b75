/**
 * Goal: the assumptions of the simulation about streams of clients are true.
 * Method: each assumption of test/sim/client-link.ts, instance.ts and network.ts is tried once on
 * real sockets, with the real shells. docs/SIMULATION.md lists them under "Assumptions of sockets".
 */
import type { IncomingHttpHeaders } from 'node:http';
import { connect, type ClientHttp2Stream } from 'node:http2';
import * as grpc from '@grpc/grpc-js';
import t, { type Test } from 'tap';
import { startFaultProxy, type FaultProxy } from '../interop/peers/fault-proxy.js';
import { Gateway } from '../interop/peers/gateway.js';
import { openAdsCall, type AdsCall } from '../support/ads-call.js';
import { DeltaClient } from '../support/delta-client.js';
import { grpcFrame } from '../support/dialled-source.js';
import { CDS } from '../support/mesh-names.js';
import { areSame, KIB, numbered } from '../support/numbered-messages.js';
import {
  startStreamServer,
  type ServedStream,
  type StreamServer,
} from '../support/served-streams.js';
import { pause, until } from '../support/until.js';

/** "Both sides are notified of an end within a second." */
const TOLD_MS = 1_000;
/** How long a test waits for an event that must not happen. */
const QUIET_MS = 150;
const FIRST = Buffer.from('first');
const LARGE_WINDOW_BYTES = 16 * KIB * KIB;

interface Client {
  readonly call: AdsCall;
  readonly got: readonly Buffer[];
  /** The same stream on the gateway's side. */
  readonly stream: ServedStream;
}

async function startServer(
  t: Test,
): Promise<{ readonly server: StreamServer; readonly proxy: FaultProxy }> {
  const server = await startStreamServer();
  const proxy = await startFaultProxy(server.port);
  t.teardown(() => Promise.all([proxy.stop(), server.stop()]));
  return { server, proxy };
}

/** A client whose first request has arrived. */
async function openClient(
  t: Test,
  { streams }: StreamServer,
  port: number,
  windowBytes?: number,
): Promise<Client> {
  const got: Buffer[] = [];
  const call = openAdsCall({
    port,
    method: 'DeltaAggregatedResources',
    ...(windowBytes === undefined ? {} : { windowBytes }),
    onMessage: (bytes) => got.push(bytes),
  });
  t.teardown(() => {
    call.close();
  });
  const at = streams.length;
  call.write(FIRST);
  await until('its request has arrived', () => streams[at]?.requests.length === 1);
  return { call, got, stream: streams[at]! };
}

const isFull = ({ pace }: ServedStream): boolean => pace.at(-1) === 'full';

// ---- order, stalls, loss ------------------------------------------------------------------------

t.test(
  'messages of one stream arrive in order and complete, both ways (network.ts: Pipe)',
  async (t) => {
    const { server, proxy } = await startServer(t);
    const messages = numbered(1_000);
    const { call, got, stream } = await openClient(t, server, proxy.port);
    for (const message of messages) call.write(message);
    stream.say(...messages);
    await until('all have arrived', () => got.length + stream.requests.length === 2_001);
    t.ok(areSame(got, messages), 'to the client');
    t.ok(areSame(stream.requests, [FIRST, ...messages]), 'from the client');
  },
);

t.test(
  'messages delayed by a stall arrive after it, complete and in order (client-link.ts: pause)',
  async (t) => {
    const { server, proxy } = await startServer(t);
    const { got, stream } = await openClient(t, server, proxy.port);
    await proxy.setMode('unread');
    const messages = numbered(500);
    stream.say(...messages);
    await until('the stream is full', () => isFull(stream));
    t.equal(got.length, 0);
    await proxy.setMode('pass');
    await until('all have arrived', () => got.length === messages.length);
    t.ok(areSame(got, messages));
  },
);

t.test('a stalled stream delays no other (client-link.ts: connect)', async (t) => {
  const { server, proxy } = await startServer(t);
  const stalled = await openClient(t, server, proxy.port);
  const other = await openClient(t, server, server.port);
  await proxy.setMode('unread');
  const responses = numbered(200, 50 * KIB);
  for (const { stream } of [stalled, other]) stream.say(...responses);
  await until('the other has all', () => other.got.length === responses.length);
  t.ok(stalled.stream.unsaid > 0);
});

t.test(
  'a stalled stream delays no other on its connection, where the client library keeps reading',
  async (t) => {
    const { server } = await startServer(t);
    const session = connect(`http://127.0.0.1:${server.port}`);
    t.teardown(() => {
      session.destroy();
    });
    const open = (): ClientHttp2Stream => {
      const stream = session.request({
        ':method': 'POST',
        ':path': '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources',
        'content-type': 'application/grpc',
        te: 'trailers',
      });
      stream.write(grpcFrame(FIRST));
      return stream;
    };
    open();
    await until('the first is there', () => server.streams.length === 1);
    let bytes = 0;
    open().on('data', (chunk: Buffer) => (bytes += chunk.length));
    await until('the second is there', () => server.streams.length === 2);
    const responses = numbered(200, 50 * KIB);
    for (const stream of server.streams) stream.say(...responses);
    const all = responses.reduce((sum, response) => sum + grpcFrame(response).length, 0);
    await until('the one that reads has all', () => bytes === all);
    t.ok(server.streams[0]!.unsaid > 0, 'the other one is paused');
  },
);

// ---- the pace of clients ------------------------------------------------------------------------

for (const [what, windowBytes] of [
  ['HTTP/2’s window', undefined],
  ['TCP', LARGE_WINDOW_BYTES],
] as const) {
  t.test(
    `a write that reports “full” is followed by one drain once it is read, and the core is not polled before (instance.ts: handleDrain); limited by ${what}`,
    async (t) => {
      const { server, proxy } = await startServer(t);
      const { got, stream } = await openClient(t, server, proxy.port, windowBytes);
      await proxy.setMode('unread');
      const responses = numbered(400, 40 * KIB);
      stream.say(...responses);
      await until('the stream is full', () => isFull(stream));
      await pause(QUIET_MS);
      const { unsaid } = stream;
      t.ok(unsaid > 0, 'most of it stays with the core, where it merges');
      const last = Buffer.from('last');
      stream.say(last);
      await pause(QUIET_MS);
      t.equal(stream.unsaid, unsaid + 1, 'another change makes no difference');
      await proxy.setMode('pass');
      await until('all have arrived', () => got.length === responses.length + 1);
      t.ok(areSame(got, [...responses, last]));
      const wrong = stream.pace.filter(
        (each, at) => (each === 'drained') !== (stream.pace[at - 1] === 'full'),
      );
      t.strictSame(wrong, [], 'after each “full” a drain, and none elsewhere');
    },
  );
}

t.test(
  'the bytes written into an unread stream are bounded (client-link.ts: window)',
  async (t) => {
    for (const bytes of [10, 10 * KIB, 100 * KIB, 2_000 * KIB]) {
      const { server, proxy } = await startServer(t);
      const { stream } = await openClient(t, server, proxy.port);
      await proxy.setMode('unread');
      const count = bytes === 10 ? 20_000 : 200;
      stream.say(...numbered(count, bytes));
      await until('the stream is full', () => isFull(stream));
      await pause(QUIET_MS);
      t.ok(stream.unsaid > 0);
      const writtenBytes = (count - stream.unsaid) * bytes;
      // 64 KiB, plus one message of any size, beyond the HTTP/2 window.
      t.ok(writtenBytes <= (64 + 64) * KIB + bytes, `${bytes} bytes each: ${writtenBytes}`);
    }
  },
);

// ---- how streams end ----------------------------------------------------------------------------

t.test(
  'messages written before the end arrive before it, then the status (client-link.ts: end)',
  async (t) => {
    const { server, proxy } = await startServer(t);
    const { call, got, stream } = await openClient(t, server, proxy.port);
    await proxy.setMode('unread');
    const responses = numbered(20, 30 * KIB);
    stream.say(...responses);
    await until('the stream is full', () => isFull(stream));
    const written = responses.length - stream.unsaid;
    stream.end({ code: grpc.status.RESOURCE_EXHAUSTED, message: 'too much' });
    t.strictSame(stream.closed, ['too much'], 'the core is notified at once');
    await proxy.setMode('pass');
    await until('the end is reported', () => call.status);
    t.match(call.status, { code: grpc.status.RESOURCE_EXHAUSTED, details: 'too much' });
    t.ok(areSame(got, responses.slice(0, written)));
    t.equal(stream.closed.length, 1, 'once');
  },
);

t.test(
  'the end of a client is reported once, within a second, and nothing arrives after it (client-link.ts: disconnect)',
  async (t) => {
    for (const how of ['cancel', 'reset', 'cut'] as const) {
      const { server, proxy } = await startServer(t);
      const { call, stream } = await openClient(t, server, proxy.port);
      const requests = numbered(500);
      for (const request of requests) call.write(request);
      await until('some have arrived', () => stream.requests.length > 1);
      const startedMs = performance.now();
      if (how === 'cancel') call.close();
      else await proxy.setMode(how);
      await until('it is reported', () => stream.closed.length > 0, { everyMs: 5 });
      t.ok(performance.now() - startedMs < TOLD_MS, how);
      const { length } = stream.requests;
      await pause(QUIET_MS);
      t.equal(stream.requests.length, length, how);
      t.ok(
        areSame(stream.requests.slice(1), requests.slice(0, length - 1)),
        `${how}: no message is torn`,
      );
      t.equal(stream.closed.length, 1, how);
    }
  },
);

t.test('a client that ends its side in order gets OK (client-link.ts: disconnect)', async (t) => {
  const { server } = await startServer(t);
  const session = connect(`http://127.0.0.1:${server.port}`);
  t.teardown(() => {
    session.destroy();
  });
  const stream = session.request({
    ':method': 'POST',
    ':path': '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources',
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  let status: unknown;
  stream.on('trailers', (trailers: IncomingHttpHeaders) => (status = trailers['grpc-status']));
  stream.resume().write(grpcFrame(FIRST));
  await until('its request has arrived', () => server.streams[0]?.requests.length === 1);
  server.streams[0]!.say(Buffer.from('answer'));
  stream.end();
  await until('the status has arrived', () => status === '0');
  t.strictSame(server.streams[0]!.closed, ['ended by the client']);
});

t.test(
  'clients of a killed process are notified within a second (client-link.ts: handleCrash)',
  async (t) => {
    const gateway = await Gateway.start({
      authorityMap: {
        sources: { up: { path: '.' } },
        authorities: { 'a.test': { sources: ['up'] } },
      },
    });
    t.teardown(() => gateway.stop());
    const client = new DeltaClient({ port: gateway.port });
    t.teardown(() => {
      client.close();
    });
    client.subscribe(CDS, ['xdstp://a.test/envoy.config.cluster.v3.Cluster/one']);
    await until('it is answered', () => client.responses.length > 0);
    const startedMs = performance.now();
    await gateway.kill();
    await until('the end is reported', () => client.status, { everyMs: 5 });
    t.ok(performance.now() - startedMs < TOLD_MS);
    t.equal(client.status?.code, grpc.status.UNAVAILABLE);
  },
);

t.test('a connect to a process that is down is refused (client-link.ts: connect)', async (t) => {
  const { server, proxy } = await startServer(t);
  await proxy.setMode('refuse');
  const startedMs = performance.now();
  const client = new DeltaClient({ port: proxy.port });
  t.teardown(() => {
    client.close();
  });
  await until('the end is reported', () => client.status, { everyMs: 5 });
  t.ok(performance.now() - startedMs < TOLD_MS);
  t.equal(client.status?.code, grpc.status.UNAVAILABLE);
  t.equal(server.streams.length, 0);
});
