/**
 * Goal: no response of a hostile source keeps the event loop for over 50 ms, and no other client is affected
 * (docs/SECURITY.md, "Attacks").
 */
import t, { type Test } from 'tap';
import { DeltaClient } from '../support/delta-client.js';
import { TYPE_URLS } from '../support/mesh.js';
import { until } from '../support/until.js';
import { ATTACKED, MIB, noLongTurn, startArena, underAttack, type Arena } from './arena.js';

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
    // The name, which is field 1, and 100 bytes of an unknown one.
    const filler = Buffer.concat([Buffer.from([0xfa, 0x7f, 100]), Buffer.alloc(100)]);
    const bodyOf = (name: string): Buffer =>
      Buffer.concat([Buffer.from([0x0a, name.length]), Buffer.from(name), filler]);
    const resources = names.map((name) => ({ name, version: '1', body: bodyOf(name) }));
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
