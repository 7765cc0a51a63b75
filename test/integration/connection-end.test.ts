/**
 * Goal: a connection that waits for its turn to be closed ends no process, whatever its client still sends.
 * Method: real sockets, and turns that the test runs.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { connect as connectTls, createServer as createTlsServer } from 'node:tls';
import { setImmediate as turn } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { closeInTurns } from '../../gateway/clients/connection-end.js';
import { createCertificateAuthority, opensslMissing } from '../support/certificates.js';

/** A server that destroys each connection at its first data; it is closed when the test runs the work. */
async function start(t: Test, server: Server, event: 'connection' | 'secureConnection') {
  const work: (() => void)[] = [];
  let reads = 0;
  server.on(event, (socket: Socket) => {
    socket.on('error', () => undefined);
    closeInTurns(socket, { runBounded: (one) => work.push(one), charge: () => undefined });
    socket.on('data', () => {
      reads++;
      socket.destroy();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { port, work, reads: () => reads };
}

/** Sends more data than Node reads at once, before and after the gateway destroys the connection. */
async function sendOn(
  client: Socket,
  { work, reads }: Awaited<ReturnType<typeof start>>,
): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    client.on('close', () => {
      resolve();
    });
  });
  // A reset: the server has not read all.
  client.on('error', () => undefined);
  const send = (): boolean => client.write(Buffer.alloc(100_000));
  send();
  while (work.length === 0) await turn();
  for (let rounds = 0; rounds < 20; rounds++) {
    send();
    await turn();
  }
  t.equal(reads(), 1, 'nothing more is read');
  t.equal(work.length, 1);
  work[0]?.();
  await closed;
}

t.test('data that comes before the turn of a destroyed connection', async (t) => {
  const server = await start(t, createServer({ allowHalfOpen: true }), 'connection');
  await sendOn(connect(server.port, '127.0.0.1'), server);
});

t.test('the same with TLS', { skip: await opensslMissing() }, async (t) => {
  const authority = await createCertificateAuthority();
  t.teardown(() => authority.remove());
  const pair = await authority.issue({ name: 'server', ipAddresses: ['127.0.0.1'] });
  const tls = { cert: readFileSync(pair.cert), key: readFileSync(pair.key), allowHalfOpen: true };
  const server = await start(t, createTlsServer(tls), 'secureConnection');
  const client = connectTls({ port: server.port, host: '127.0.0.1', rejectUnauthorized: false });
  await once(client, 'secureConnect');
  await sendOn(client, server);
});
