/**
 * Goal: whoever takes all streams it can get leaves room for others; what it does not use, it loses in
 * 10 s (docs/SECURITY.md, "Quotas").
 */
import { connect as connectHttp2, type ClientHttp2Session } from 'node:http2';
import { connect as connectTcp, type Socket } from 'node:net';
import t from 'tap';
import { TYPE_URLS, xdstpName } from '../support/mesh.js';
import { until } from '../support/until.js';
import { ATTACKED, noLongTurn, startArena, underAttack } from './arena.js';
import { openStreams, subscription, type HostileStream } from './hostile-streams.js';

t.setTimeout(90_000);

const TYPE = TYPE_URLS.assignment;
/** Small, so that the attack fills them at once; the default is 25,000. */
const MAX_CLIENTS = 1_000;
const SILENT = 500;
/** The gateway keeps half of them for itself. */
const OPEN_FILES = 400;
const IDLE_CONNECTIONS = 600;

t.test(
  '100 connections × 100 streams of headers alone leave a fifth of all slots, and end within 10 s',
  async (t) => {
    const arena = await startArena(t, { args: ['--max-clients', String(MAX_CLIENTS)] });
    const { gateway } = arena;
    let streams: readonly HostileStream[] = [];
    const figures = await underAttack(t, arena, '100 connections × 100 streams', async () => {
      streams = await openStreams(t, gateway.port, 10_000);
      await until('all were answered or taken', async () => {
        const refused = streams.filter(({ status }) => status === '8').length;
        return refused + (await gateway.metric('tributary_clients')) >= 10_000;
      });
      const taken = await gateway.metric('tributary_clients');
      t.ok(taken <= 0.81 * MAX_CLIENTS, `${taken} of ${MAX_CLIENTS} slots are taken`);

      const innocents = await openStreams(t, gateway.port, 9, '127.0.0.2');
      for (const innocent of innocents) {
        void innocent.write(subscription(TYPE, [xdstpName(ATTACKED, 'assignment', 'edge/a')]));
      }
      await until('all of another address are served', () =>
        innocents.every(({ receivedBytes }) => receivedBytes > 0),
      );
      await until(
        'the idle streams have ended',
        async () => (await gateway.metric('tributary_clients')) < 20,
        { timeoutMs: 14_000 },
      );
    });
    t.ok(figures.peakRssMiB - figures.calmRssMiB < 200, 'memory');
    noLongTurn(t, figures);
  },
);

t.test('connections that never finish their first bytes are closed within 10 s', async (t) => {
  const arena = await startArena(t);
  const sockets: Socket[] = [];
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
  let closed = 0;
  const figures = await underAttack(t, arena, `${SILENT} silent connections`, async () => {
    for (let at = 0; at < SILENT; at++) {
      const socket = connectTcp(arena.gateway.port, '127.0.0.1');
      socket.on('error', () => undefined);
      socket.on('close', () => closed++);
      socket.resume();
      sockets.push(socket);
    }
    await until('the gateway has closed them', () => closed === SILENT, { timeoutMs: 14_000 });
  });
  t.equal(closed, SILENT);
  noLongTurn(t, figures);
});

t.test(
  'connections whose one stream has ended leave files for other clients and for sources (docs/SECURITY.md, "Quotas")',
  async (t) => {
    const arena = await startArena(t, { openFiles: OPEN_FILES });
    const { gateway, source } = arena;
    source.put(TYPE, xdstpName(ATTACKED, 'assignment', 'edge/a'), Buffer.alloc(0));
    const size = `${IDLE_CONNECTIONS} connections whose one stream has ended, ${OPEN_FILES} open files`;
    const figures = await underAttack(t, arena, size, async () => {
      const idle = Array.from({ length: IDLE_CONNECTIONS }, () => openIdle(gateway.port));
      t.teardown(() => {
        for (const session of idle) session.destroy();
      });
      const refused = (): number => idle.filter(({ destroyed }) => destroyed).length;
      await until('those without room are closed', () => refused() >= IDLE_CONNECTIONS - 160);
      t.equal(
        refused(),
        IDLE_CONNECTIONS - 160,
        'the peer has 80 % of what the innocent client leaves',
      );

      const [innocent] = await openStreams(t, gateway.port, 1, '127.0.0.2');
      void innocent?.write(subscription(TYPE, [xdstpName(ATTACKED, 'assignment', 'edge/a')]));
      await until('another client is served, from a source that was not connected', () => {
        return innocent !== undefined && innocent.receivedBytes > 0;
      });
      t.equal(
        await gateway.metric('tributary_quota_refusals_total', { quota: 'connections' }),
        IDLE_CONNECTIONS - 160,
      );
    });
    noLongTurn(t, figures);
  },
);

/** A connection of another address, whose only stream its client resets at once. */
function openIdle(port: number): ClientHttp2Session {
  const session = connectHttp2(`http://127.0.0.1:${port}`, { localAddress: '127.0.0.3' } as object);
  session.on('error', () => undefined);
  const stream = session.request({
    ':method': 'POST',
    ':path': '/none/none',
    'content-type': 'application/grpc',
  });
  stream.on('error', () => undefined);
  stream.resume();
  stream.end();
  return session;
}
