/**
 * Goal: what a client sends or does not read costs bounded memory (docs/SECURITY.md, "Quotas").
 */
import { connect } from 'node:http2';
import protobuf from 'protobufjs/minimal.js';
import t, { type Test } from 'tap';
import { encodeNode } from '../../protos/node-codec.js';
import { TYPE_URLS, xdstpName } from '../support/mesh.js';
import { pause, until } from '../support/until.js';
import { assignmentBody } from '../interop/peers/siege.js';
import { ATTACKED, isAtMost, MIB, noLongTurn, startArena, underAttack } from './arena.js';
import { grpcFrameOf, openStreams, subscription, type HostileStream } from './hostile-streams.js';

t.setTimeout(120_000);

const TYPE = TYPE_URLS.assignment;
const NAME = xdstpName(ATTACKED, 'assignment', 'edge/a');
const namesOf = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, at) => xdstpName(ATTACKED, 'assignment', `edge/${at}`));

const endedOf = (streams: readonly HostileStream[]): readonly HostileStream[] =>
  streams.filter(({ isClosed }) => isClosed);

const nodeOf = (bytes: number): Uint8Array =>
  encodeNode({
    id: 'n'.repeat(1_000),
    cluster: 'c',
    userAgentName: 'attacker',
    userAgentVersion: '1',
    metadata: { padding: 'p'.repeat(bytes) },
  });

t.test('a Node of nearly 1 MiB on each of 99 idle streams is not kept', async (t) => {
  const arena = await startArena(t);
  const figures = await underAttack(t, arena, '99 streams × a Node of 1,000 KB', async () => {
    const streams = await openStreams(t, arena.gateway.port, 99);
    const request = subscription(TYPE, [NAME], nodeOf(1_000_000));
    for (const stream of streams) await stream.write(request);
    await until(
      'all were answered',
      () => streams.every(({ receivedBytes }) => receivedBytes > 0),
      {
        timeoutMs: 15_000,
      },
    );
    await pause(1_000);
  });
  t.ok(
    figures.peakRssMiB - figures.calmRssMiB <= 80,
    'all of them together cost less than they sent',
  );
});

t.test('a request of over 1 MiB ends its stream before it is kept', async (t) => {
  const arena = await startArena(t);
  const [stream] = await openStreams(t, arena.gateway.port, 1);
  void stream!.write(subscription(TYPE, [NAME], nodeOf(1.1 * MIB)));
  await until('the stream ends', () => stream!.status !== undefined);
  t.equal(stream!.status, '8', 'RESOURCE_EXHAUSTED');
});

t.test('400 streams each send a request of 1 MB without its last byte', async (t) => {
  const arena = await startArena(t, { args: ['--max-buffered', '32MiB'] });
  const streams = await openStreams(t, arena.gateway.port, 400);
  for (const stream of streams) await stream.write(subscription(TYPE, [NAME]));
  const figures = await underAttack(t, arena, '400 streams × a part of 1,000 KB', async () => {
    const request = grpcFrameOf(subscription(TYPE, [NAME], nodeOf(1_000_000)));
    for (const stream of streams) stream.writeBytes(request.subarray(0, -1));
    // The others are not read until there is room.
    await until('the first are ended', () => endedOf(streams).length > 20, { timeoutMs: 15_000 });
  });
  isAtMost(t, figures, 128);
  noLongTurn(t, figures);
  t.ok(
    endedOf(streams).every(({ status }) => status === '4'),
    'DEADLINE_EXCEEDED',
  );
});

/** An assignment of about this size: an unknown field (field 1,000) pads it. */
function paddedBody(name: string, bytes: number): Uint8Array {
  const padding = protobuf.Writer.create().uint32(0x1f42).bytes(Buffer.alloc(bytes)).finish();
  return Buffer.concat([assignmentBody(name, 1), padding]);
}

/** Each of 1,000 clients has a connection with a window of 0, and sends one request. */
async function openUnread(t: Test, port: number, requestOf: () => Uint8Array): Promise<void> {
  for (let at = 0; at < 1_000; at++) {
    const session = connect(`http://127.0.0.1:${port}`, { settings: { initialWindowSize: 0 } });
    session.on('error', () => undefined);
    t.teardown(() => {
      session.destroy();
    });
    const stream = session.request({
      ':method': 'POST',
      ':path': '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources',
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    stream.on('error', () => undefined);
    stream.write(grpcFrameOf(requestOf()));
    if (at % 50 === 0) await pause(5);
  }
}

t.test('1,000 clients with a window of 0 share one copy of a collection of 4 MB', async (t) => {
  const arena = await startArena(t);
  const names = namesOf(4);
  for (const name of names) arena.source.putQuietly(TYPE, name, paddedBody(name, 1_000_000));
  const request = subscription(TYPE, names);
  const figures = await underAttack(t, arena, '1,000 clients × 4 MB unread', async () => {
    await openUnread(t, arena.gateway.port, () => request);
    await until(
      'all are paused',
      async () => (await arena.gateway.metric('tributary_clients_paused')) === 1_000,
      // A scrape costs memory too.
      { timeoutMs: 20_000, everyMs: 500 },
    );
  });
  isAtMost(t, figures, 64);
});

t.test(
  '1,000 clients with a window of 0 that order 4 MB differently share limits.max_buffered, and give way after 10 s',
  async (t) => {
    const arena = await startArena(t, { args: ['--max-buffered', '32MiB'] });
    const { gateway, source } = arena;
    // The gateway copies resources of this size.
    const names = namesOf(250);
    for (const name of names) source.putQuietly(TYPE, name, paddedBody(name, 16_000));
    let from = 0;
    const inOwnOrder = (): readonly string[] => {
      from = (from + 1) % names.length;
      return [...names.slice(from), ...names.slice(0, from)];
    };
    const ended = (): Promise<number> =>
      gateway.metric('tributary_quota_refusals_total', { quota: 'buffered' });
    const size = '1,000 clients × 4 MB unread, each in its own order';
    const figures = await underAttack(t, arena, size, async () => {
      await openUnread(t, gateway.port, () => subscription(TYPE, inOwnOrder()));
      await until('the first are ended', async () => (await ended()) > 0, {
        timeoutMs: 30_000,
        everyMs: 500,
      });
    });
    // The rest of the quota, and up to 80 KiB in small responses for each stream.
    isAtMost(t, figures, 192);
    noLongTurn(t, figures);
    t.ok(figures.attackedP99Ms < 1_000, 'another client of the same peer goes on');
  },
);
