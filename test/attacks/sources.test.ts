/**
 * Goal: a source that invents resources, or does not read its ACKs, reaches its budget and harms nobody
 * else (docs/SECURITY.md, "Quotas").
 */
import { createServer, type Http2Server, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import protobuf from 'protobufjs/minimal.js';
import t, { type Test } from 'tap';
import { DeltaClient } from '../support/delta-client.js';
import { encodeResponse } from '../support/discovery-messages.js';
import { TYPE_URLS, xdstpName } from '../support/mesh.js';
import type { ScriptedUpstream } from '../support/scripted-upstream.js';
import { pause, until } from '../support/until.js';
import {
  ATTACKED,
  noLongTurn,
  startArena,
  underAttack,
  type Arena,
  type ArenaOptions,
} from './arena.js';

t.setTimeout(120_000);

const TYPE = TYPE_URLS.assignment;
const CDS = TYPE_URLS.cluster;
const GLOB = xdstpName(ATTACKED, 'cluster', 'edge/*');

/** Of one response; small, so that no turn is long. */
const MEMBERS_PER_RESPONSE = 500;

/** The gateway ends the stream of a source that sends this. */
const NO_RESPONSE = Buffer.from([0x0a, 0x7f]);

/** A cluster that takes its endpoints over ADS: the gateway remembers of which assignment. */
function clusterBody(name: string, assignment: string): Uint8Array {
  const EDS = 3;
  const cluster = protobuf.Writer.create().uint32(0x0a).string(name).uint32(0x10).uint32(EDS);
  const overAds = protobuf.Writer.create().uint32(0x1a).bytes(new Uint8Array()).finish();
  const config = cluster.uint32(0x1a).fork().uint32(0x0a).bytes(overAds);
  return config.uint32(0x12).string(assignment).ldelim().finish();
}

/** A gateway, and a client that subscribes to all clusters of the attacked source. */
async function startClient(
  t: Test,
  options?: ArenaOptions,
): Promise<{ readonly arena: Arena; readonly client: DeltaClient }> {
  const arena = await startArena(t, options);
  const client = new DeltaClient({ port: arena.gateway.port });
  t.teardown(() => {
    client.close();
  });
  client.subscribe(CDS, [GLOB]);
  await until('the glob is asked', () => arena.source.isAsked(CDS, GLOB));
  return { arena, client };
}

async function inventClusters(source: ScriptedUpstream, count: number): Promise<void> {
  for (let made = 0; made < count;) {
    const resources = Array.from({ length: MEMBERS_PER_RESPONSE }, () => {
      const path = `edge/member-${made++}`;
      const name = xdstpName(ATTACKED, 'cluster', path);
      const body = clusterBody(name, xdstpName(ATTACKED, 'assignment', path));
      return { name, version: '1', body };
    });
    source.respond({ typeUrl: CDS, resources });
    await pause(20);
  }
}

t.test(
  'a source that invents 200,000 clusters under a heap of 150 MB gets NACKs with the name of its budget',
  async (t) => {
    const { arena, client } = await startClient(t, { heapLimitMiB: 150 });
    const figures = await underAttack(t, arena, '200,000 clusters', async () => {
      await inventClusters(arena.source, 200_000);
      await until('a NACK', () => arena.source.nacks.length > 0, { timeoutMs: 20_000 });
    });
    t.match(arena.source.nacks.at(-1), /limits\.max_/, 'the NACK names the limit');
    noLongTurn(t, figures);
    t.ok(figures.peakHeapMiB < 150, 'the heap');
    t.ok(client.held(CDS).size > 10_000, `the client has ${client.held(CDS).size} clusters`);
    t.ok((await arena.gateway.metric('tributary_quota_used_ratio', { quota: 'memory' })) > 0);
    const size = `the only client of ${client.held(CDS).size} clusters leaves`;
    const leaving = await underAttack(t, arena, size, async () => {
      client.send({ typeUrl: CDS, unsubscribe: [GLOB] });
      await until('the glob is unsubscribed', () => !arena.source.isAsked(CDS, GLOB));
    });
    noLongTurn(t, leaving);
  },
);

t.test('a source that restarts without its 60,000 clusters costs no long turn', async (t) => {
  const failover = { deletion_guard: { wait: '2s' } };
  const { arena, client } = await startClient(t, {
    authorities: { [ATTACKED]: { sources: ['attacked'], failover } },
  });
  await inventClusters(arena.source, 60_000);
  await until('the client has them', () => client.held(CDS).size === 60_000, { timeoutMs: 20_000 });
  const guarded = (): Promise<number> => arena.gateway.metric('tributary_guarded_names');
  const figures = await underAttack(t, arena, '60,000 clusters lost, and removed', async () => {
    arena.source.sendBytes(NO_RESPONSE);
    await until('the guard holds them back', async () => (await guarded()) === 60_000);
    t.equal(client.held(CDS).size, 60_000, 'a disconnect never deletes (invariant 3)');
    await until('they are removed', () => client.held(CDS).size === 0, { timeoutMs: 20_000 });
  });
  noLongTurn(t, figures);
});

/** A source in bare HTTP/2, which never reads what the gateway writes. */
async function startDeafSource(t: Test): Promise<{ port: number; streams: ServerHttp2Stream[] }> {
  const streams: ServerHttp2Stream[] = [];
  const server: Http2Server = createServer();
  server.on('sessionError', () => undefined);
  server.on('stream', (stream) => {
    stream.on('error', () => undefined);
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
    streams.push(stream);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    for (const { session } of streams) session?.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, streams };
}

function grpcFrameOf(message: Uint8Array): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

const DEAF = 'deaf.example.com';

for (const [what, nonceBytes, per, rounds] of [
  ['nonces of 1 MB', 1_000_000, 1, 100],
  ['nonces of 1,000 bytes', 1_000, 500, 200],
] as const) {
  t.test(
    `a source with ${what} that reads no ACK loses its stream with at most 1 MiB of ACKs`,
    async (t) => {
      const deaf = await startDeafSource(t);
      const timers = { backoff_base: '50ms', backoff_max: '200ms' };
      const arena = await startArena(t, {
        sources: { deaf: { target: `127.0.0.1:${deaf.port}`, insecure: true, timers } },
        authorities: { [DEAF]: { sources: ['deaf'] } },
      });
      const client = new DeltaClient({ port: arena.gateway.port });
      t.teardown(() => {
        client.close();
      });
      client.subscribe(TYPE, [xdstpName(DEAF, 'assignment', 'edge/a')]);
      await until('the stream', () => deaf.streams.length > 0);
      let sent = 0;
      const size = `${rounds * per} responses with ${what}`;
      const figures = await underAttack(t, arena, size, async () => {
        for (let round = 0; round < rounds; round++) {
          const stream = deaf.streams.findLast(({ destroyed }) => !destroyed);
          const messages = Array.from({ length: per }, () => {
            const nonce = `${sent++}`.padStart(nonceBytes, 'n');
            return grpcFrameOf(encodeResponse({ typeUrl: TYPE, nonce, resources: [] }));
          });
          if (stream && stream.writableLength < 4_000_000) stream.write(Buffer.concat(messages));
          await pause(20);
        }
        await until('another stream', () => deaf.streams.length > 1, { timeoutMs: 10_000 });
      });
      t.ok(deaf.streams.length > 1, `the gateway ended ${deaf.streams.length - 1} streams`);
      t.ok(figures.peakRssMiB - figures.calmRssMiB <= 100, 'no more than 100 MiB');
      t.match(
        arena.gateway.logs(),
        nonceBytes > 1_024 ? /its nonce has/ : /of ACKs wait for the source to read them/,
      );
    },
  );
}
