/**
 * Goal: what a client sends or does not read costs bounded memory (docs/SECURITY.md, "Quotas").
 */
import { connect } from 'node:http2';
import t from 'tap';
import { encodeNode } from '../../protos/node-codec.js';
import { TYPE_URLS, xdstpName } from '../support/mesh.js';
import { pause, until } from '../support/until.js';
import { assignmentBody } from '../interop/peers/siege.js';
import { ATTACKED, MIB, startArena, underAttack } from './arena.js';
import { grpcFrameOf, openStreams, subscription } from './hostile-streams.js';

t.setTimeout(90_000);

const TYPE = TYPE_URLS.assignment;
const NAME = xdstpName(ATTACKED, 'assignment', 'edge/a');
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

t.test('1,000 clients with a window of 0 share one copy of a collection of 4 MB', async (t) => {
  const arena = await startArena(t);
  const names = Array.from({ length: 4 }, (_, at) =>
    xdstpName(ATTACKED, 'assignment', `edge/${at}`),
  );
  // An unknown field (field 1,000) of 1 MB each.
  const padding = Buffer.concat([
    Buffer.from([0xc2, 0x3e, 0xc0, 0x84, 0x3d]),
    Buffer.alloc(1_000_000),
  ]);
  for (const name of names) {
    arena.source.putQuietly(TYPE, name, Buffer.concat([assignmentBody(name, 1), padding]));
  }
  const request = grpcFrameOf(subscription(TYPE, names));
  const figures = await underAttack(t, arena, '1,000 clients × 4 MB unread', async () => {
    for (let at = 0; at < 1_000; at++) {
      const session = connect(`http://127.0.0.1:${arena.gateway.port}`, {
        settings: { initialWindowSize: 0 },
      });
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
      stream.write(request);
      if (at % 50 === 0) await pause(5);
    }
    await until(
      'all are paused',
      async () => {
        return (await arena.gateway.metric('tributary_clients_paused')) === 1_000;
      },
      // A scrape costs memory too.
      { timeoutMs: 20_000, everyMs: 500 },
    );
  });
  const costMiB = figures.peakRssMiB - figures.calmRssMiB;
  t.ok(costMiB <= 64, `they cost ${costMiB.toFixed(0)} MiB in all, at most 64 are allowed`);
});
