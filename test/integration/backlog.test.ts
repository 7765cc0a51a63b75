/** Goal: a wave of connections waits in the kernel, and no client or probe has to try a second time. */
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { once } from 'node:events';
import t from 'tap';
import { Gateway } from '../interop/peers/gateway.js';
import { within } from '../support/until.js';

const WAVE = 700;
/** The second attempt of TCP comes after a second (RFC 6298, 2). */
const AT_ONCE_MS = 900;

const isBounded = (): boolean => {
  try {
    return Number(readFileSync('/proc/sys/net/core/somaxconn', 'utf8')) < WAVE;
  } catch {
    return true;
  }
};

t.test(
  `${WAVE} connections wait on each port while the gateway is busy`,
  { skip: isBounded() && 'the system bounds the backlog' },
  async (t) => {
    const authorityMap = {
      sources: { up: { target: '127.0.0.1:1', insecure: true } },
      authorities: { 'cloud.example.com': { sources: ['up'] } },
    };
    const gateway = await Gateway.start({ authorityMap });
    t.teardown(() => gateway.stop());
    const [, adminPort = ''] = gateway.adminAddress.split(':');
    for (const port of [gateway.port, Number(adminPort)]) {
      process.kill(gateway.pid!, 'SIGSTOP');
      const sockets = Array.from({ length: WAVE }, () => connect(port, '127.0.0.1'));
      for (const socket of sockets) socket.on('error', () => undefined);
      const connected = Promise.all(sockets.map(async (socket) => once(socket, 'connect')));
      try {
        await within(`all are connected to port ${port}`, AT_ONCE_MS, connected);
        t.pass(`all are connected to port ${port}`);
      } finally {
        for (const socket of sockets) socket.destroy();
        process.kill(gateway.pid!, 'SIGCONT');
      }
    }
  },
);
