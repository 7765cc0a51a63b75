/**
 * Goal: no response of a hostile source keeps the event loop for over 50 ms, and no other client is affected
 * (docs/SECURITY.md, "Attacks").
 */
import protobuf from 'protobufjs/minimal.js';
import t, { type Test } from 'tap';
import { DeltaClient } from '../support/delta-client.js';
import { TYPE_URLS } from '../support/mesh.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { until } from '../support/until.js';
import { ATTACKED, MIB, noLongTurn, startArena, underAttack, type Arena } from './arena.js';
import { clusterBody } from './cluster-body.js';

t.setTimeout(60_000);

const CDS = TYPE_URLS.cluster;
const nameOf = (typeUrl: string, path: string): string =>
  `xdstp://${ATTACKED}/${typeUrl.slice(typeUrl.indexOf('/') + 1)}/${path}`;
const cluster = (path: string): string => nameOf(CDS, path);

function subscribe(t: Test, { gateway }: Arena, name: string): DeltaClient {
  const client = new DeltaClient({ port: gateway.port });
  t.teardown(() => {
    client.close();
  });
  client.subscribe(CDS, [name]);
  return client;
}

t.test(
  '16 MiB of repeated nonces, in a response and in a resource, block no turn for over 50 ms',
  async (t) => {
    const arena = await startArena(t);
    subscribe(t, arena, cluster('one'));
    await until('the source is asked', () => arena.source.isAsked(CDS, cluster('one')));
    const nonces = Buffer.alloc(16 * MIB - 100, Buffer.from('2a00', 'hex'));
    const names = Buffer.alloc(16 * MIB - 100, Buffer.from('1a00', 'hex'));
    const head = Buffer.alloc(5);
    head[0] = 0x12;
    // The length of the resource as a varint of 4 bytes.
    for (let at = 0; at < 4; at++)
      head[1 + at] = ((names.length >>> (7 * at)) & 0x7f) | (at < 3 ? 0x80 : 0);
    const figures = await underAttack(t, arena, '2 × 16 MiB of fields of 2 bytes', async () => {
      for (const bytes of [nonces, Buffer.concat([head, names])]) {
        const openedBefore = arena.source.opened;
        arena.source.sendBytes(bytes);
        await until('the gateway ends the stream', () => arena.source.opened > openedBefore);
        await until('it is asked again', () => arena.source.isAsked(CDS, cluster('one')));
      }
    });
    noLongTurn(t, figures);
  },
);

t.test(
  'a response of 40,000 resources, and its removals, block no turn for over 50 ms',
  async (t) => {
    const arena = await startArena(t);
    const names = Array.from({ length: 40_000 }, (_, at) => cluster(`edge/member-${at}`));
    const client = subscribe(t, arena, cluster('edge/*'));
    await until('the source is asked', () => arena.source.isAsked(CDS, cluster('edge/*')));
    const resources = names.map((name) => ({ name, version: '1', body: clusterBody(name, 1) }));
    const figures = await underAttack(t, arena, '40,000 resources in one response', async () => {
      arena.source.respond({ typeUrl: CDS, resources });
      await until('the client has them', () => client.held(CDS).size === names.length, {
        timeoutMs: 30_000,
      });
      arena.source.respond({ typeUrl: CDS, removed: names });
      await until('the client lacks them', () => client.held(CDS).size === 0, {
        timeoutMs: 30_000,
      });
    });
    noLongTurn(t, figures);
  },
);

/** A RouteConfiguration with its name (field 1), and with as many virtual hosts (2), each with one route to a cluster. */
function routesOf(name: string, references: number): Uint8Array {
  const writer = protobuf.Writer.create().uint32(0x0a).string(name);
  for (let at = 0; at < references; at++) {
    const action = protobuf.Writer.create()
      .uint32(0x0a)
      .string(cluster(`edge/${at}`))
      .finish();
    const route = protobuf.Writer.create().uint32(0x12).bytes(action).finish();
    writer.uint32(0x12).bytes(protobuf.Writer.create().uint32(0x1a).bytes(route).finish());
  }
  return writer.finish();
}

t.test(
  'a resource with 10,000 references blocks no turn for over 50 ms, and one with 150,000 is rejected',
  async (t) => {
    const arena = await startArena(t);
    const RDS = TYPE_URLS.route;
    const name = nameOf(RDS, 'edge/routes');
    const client = new DeltaClient({ port: arena.gateway.port });
    t.teardown(() => {
      client.close();
    });
    client.subscribe(RDS, [name]);
    await until('the source is asked', () => arena.source.isAsked(RDS, name));
    const most = routesOf(name, 10_000);
    const tooMany = routesOf(name, 150_000);
    const figures = await underAttack(t, arena, '10,000 and 150,000 references', async () => {
      arena.source.put(RDS, name, most);
      await until('the client has it', () => client.held(RDS).has(name));
      arena.source.put(RDS, name, tooMany);
      await until('it is rejected', () => arena.source.nacks.length > 0);
    });
    noLongTurn(t, figures);
    t.match(arena.source.nacks[0], /more than 10000 references/);
    t.ok(client.held(RDS).has(name), 'the client keeps what it has');
  },
);

t.test('a failover of 10,000 names blocks no turn for over 50 ms', async (t) => {
  const spare = await ScriptedUpstream.start();
  t.teardown(() => spare.stop());
  const there = 'spare.example.com';
  const arena = await startArena(t, {
    sources: { spare: { target: `127.0.0.1:${spare.port}`, insecure: true } },
    authorities: {
      [ATTACKED]: { sources: ['attacked'], alternative: there, failover: { switch_wait: '1s' } },
      [there]: { sources: ['spare'] },
    },
  });
  const names = Array.from({ length: 10_000 }, (_, at) => cluster(`edge/member-${at}`));
  for (const name of names) {
    arena.source.putQuietly(CDS, name, clusterBody(name, 1));
    const other = name.replace(ATTACKED, there);
    spare.putQuietly(CDS, other, clusterBody(other, 2));
  }
  const client = subscribe(t, arena, cluster('edge/*'));
  const wait = { timeoutMs: 30_000 };
  await until('the client has them', () => client.held(CDS).size === names.length, wait);
  const before = new Map(client.held(CDS));
  const figures = await underAttack(t, arena, '10,000 names fail over', async () => {
    await arena.source.stop();
    const hasMoved = (): boolean =>
      names.every((name) => client.held(CDS).get(name) !== before.get(name));
    await until('all names have moved', hasMoved, wait);
  });
  noLongTurn(t, figures);
});
