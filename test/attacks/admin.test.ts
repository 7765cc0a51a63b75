/**
 * Goal: no client makes the orchestrator restart the gateway by occupying the admin port or the probe
 * port (docs/SECURITY.md, "Attacks").
 */
import { connect as connectHttp2 } from 'node:http2';
import { connect, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { AdminGrpcClient, CSDS_FETCH } from '../support/admin-grpc.js';
import { grpcFrame } from '../support/dialled-source.js';
import { httpRequest } from '../support/http.js';
import { pause, until } from '../support/until.js';
import { noLongTurn, startArena, underAttack, type Arena } from './arena.js';

t.setTimeout(120_000);

const CONNECTIONS = 1_000;
const MAX_LIVE_MS = 1_000;
const BODY_BYTES = 477_000_000;
/** With empty SETTINGS. */
const HTTP2_PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0';
const REQUESTS = 10_000;
const STREAMS = 16;
const MAX_GROWTH_MIB = 64;

async function connectTo(t: Test, address: string): Promise<Socket> {
  const [host = '', port = ''] = address.split(':');
  const socket = connect(Number(port), host);
  socket.on('error', () => undefined);
  t.teardown(() => {
    socket.destroy();
  });
  await either(socket, 'connect', 'close');
  return socket;
}

/** Unlike `once` of node:events it does not reject on an error: `close` follows. */
function either(socket: Socket, ...events: readonly ('connect' | 'drain' | 'close')[]) {
  return new Promise<void>((resolve) => {
    const done = (): void => {
      for (const event of events) socket.off(event, done);
      resolve();
    };
    for (const event of events) socket.on(event, done);
  });
}

/** @returns the longest of 20 waits for `/live` */
async function slowestLiveMs(address: string): Promise<number> {
  let slowestMs = 0;
  for (let at = 0; at < 20; at++) {
    const beganMs = performance.now();
    const { status } = await httpRequest(`http://${address}/live`, { timeoutMs: 10_000 });
    if (status !== 200) throw new Error(`/live is ${status}`);
    slowestMs = Math.max(slowestMs, performance.now() - beganMs);
    await pause(50);
  }
  return slowestMs;
}

async function occupy(t: Test, arena: Arena, address: string): Promise<void> {
  const { probeAddress, adminAddress } = arena.gateway;
  let probesMs = 0;
  let adminMs = 0;
  const figures = await underAttack(t, arena, `${CONNECTIONS} silent connections`, async () => {
    for (let at = 0; at < CONNECTIONS; at++) {
      const socket = await connectTo(t, address);
      // Half of them send a part of a request.
      if (at % 2 === 0) socket.write('GET /live HTTP/1.1\r\nhost: ');
    }
    probesMs = await slowestLiveMs(probeAddress);
    adminMs = await slowestLiveMs(adminAddress);
  });
  t.ok(probesMs <= MAX_LIVE_MS, `/live on the probe port within ${probesMs.toFixed(0)} ms`);
  t.ok(adminMs <= MAX_LIVE_MS, `/live on the admin port within ${adminMs.toFixed(0)} ms`);
  noLongTurn(t, figures);
}

t.test('1,000 silent connections to the admin port delay no probe and no operator', async (t) => {
  const arena = await startArena(t);
  await occupy(t, arena, arena.gateway.adminAddress);
});

t.test('1,000 silent connections to the probe port delay no probe', async (t) => {
  const arena = await startArena(t);
  await occupy(t, arena, arena.gateway.probeAddress);
});

t.test('a body of 477 MB to the admin port is cut off after 64 KiB', async (t) => {
  const arena = await startArena(t);
  let sentBytes = 0;
  let liveMs = 0;
  const figures = await underAttack(t, arena, `a body of ${BODY_BYTES / 1e6} MB`, async () => {
    const socket = await connectTo(t, arena.gateway.adminAddress);
    socket.resume();
    socket.write(
      `POST /logging?level=info HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n`,
    );
    const chunk = Buffer.from(`10000\r\n${'x'.repeat(0x1_00_00)}\r\n`);
    const send = async (): Promise<void> => {
      while (!socket.destroyed && sentBytes < BODY_BYTES) {
        sentBytes += chunk.length;
        if (!socket.write(chunk)) await either(socket, 'drain', 'close');
      }
    };
    const [, slowestMs] = await Promise.all([send(), slowestLiveMs(arena.gateway.probeAddress)]);
    liveMs = slowestMs;
    await until('the connection is closed', () => socket.destroyed);
  });
  t.ok(
    sentBytes > 0 && sentBytes < BODY_BYTES / 10,
    `cut off after ${(sentBytes / 1e6).toFixed(1)} MB`,
  );
  t.ok(liveMs <= MAX_LIVE_MS, `/live within ${liveMs.toFixed(0)} ms`);
  noLongTurn(t, figures);
});

/** The gateway loads the descriptors of Envoy's API with the first call, once. */
async function callOnce(t: Test, { gateway }: Arena): Promise<void> {
  const client = new AdminGrpcClient(t, gateway.adminAddress);
  t.match(await client.unary(CSDS_FETCH, Buffer.alloc(0)), { code: 0 });
  client.client.close();
}

t.test('1,000 connections of gRPC to the admin port delay no probe and no operator', async (t) => {
  const arena = await startArena(t);
  await callOnce(t, arena);
  const { probeAddress, adminAddress } = arena.gateway;
  let slowestMs = 0;
  const figures = await underAttack(t, arena, `${CONNECTIONS} HTTP/2 connections`, async () => {
    for (let at = 0; at < CONNECTIONS; at++) {
      const socket = await connectTo(t, adminAddress);
      socket.resume();
      // Half of them only begin.
      socket.write(at % 2 === 0 ? 'PRI' : HTTP2_PREFACE);
    }
    slowestMs = Math.max(await slowestLiveMs(probeAddress), await slowestLiveMs(adminAddress));
  });
  t.ok(slowestMs <= MAX_LIVE_MS, `/live within ${slowestMs.toFixed(0)} ms`);
  noLongTurn(t, figures);
});

t.test('unread responses of gRPC on the admin port do not pile up', async (t) => {
  const arena = await startArena(t);
  await callOnce(t, arena);
  const { adminAddress, probeAddress } = arena.gateway;
  const symbol = 'envoy.service.status.v3.ClientStatusDiscoveryService';
  const request = grpcFrame(
    Buffer.concat([Buffer.from([0x22, symbol.length]), Buffer.from(symbol)]),
  );
  const many = Buffer.concat(Array.from({ length: REQUESTS }, () => request));
  const figures = await underAttack(t, arena, `${REQUESTS} unread responses`, async () => {
    const session = connectHttp2(`http://${adminAddress}`, { settings: { initialWindowSize: 0 } });
    session.on('error', () => undefined);
    t.teardown(() => {
      session.destroy();
    });
    for (let count = 0; count < STREAMS; count++) {
      const stream = session.request({
        ':method': 'POST',
        ':path': '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
        'content-type': 'application/grpc',
        te: 'trailers',
      });
      stream.on('error', () => undefined);
      stream.write(many);
    }
    const liveMs = await slowestLiveMs(probeAddress);
    t.ok(liveMs <= MAX_LIVE_MS, `/live within ${liveMs.toFixed(0)} ms`);
  });
  const grownMiB = figures.peakRssMiB - figures.calmRssMiB;
  t.ok(grownMiB <= MAX_GROWTH_MIB, `it took ${grownMiB.toFixed(0)} MiB`);
  noLongTurn(t, figures);
});
