import { connect, createServer, type Socket } from 'node:net';

import { freePort } from '../../support/free-port.js';

/**
 * - `pass`: bytes pass.
 * - `refuse`: new connections are refused, open ones are reset.
 * - `reset`: new connections are accepted and reset, open ones are reset.
 * - `blackhole`: connections are accepted and kept; bytes and ends vanish, both ways.
 * - `halfOpen`: as `blackhole`, but only from the server to the client.
 * - `cut`: open connections are closed in order; new ones pass.
 * - `unread`: data of the server stays in its socket, and arrives complete after a mode change;
 *   data of the client passes.
 */
export type FaultMode = 'pass' | 'refuse' | 'reset' | 'blackhole' | 'halfOpen' | 'cut' | 'unread';

export interface FaultProxy {
  readonly port: number;
  /** Open connections from clients. */
  connections(): number;
  setMode(mode: FaultMode): Promise<void>;
  stop(): Promise<void>;
}

type Side = 'client' | 'server';

interface Pair {
  readonly client: Socket;
  /** Absent for a connection that must not arrive. */
  readonly server: Socket | undefined;
  /** The sides that lost bytes: passing on later bytes would break the TCP stream. */
  readonly spoilt: Set<Side>;
}

function socketsOf(pair: Pair): readonly Socket[] {
  return pair.server === undefined ? [pair.client] : [pair.client, pair.server];
}

/** A TCP proxy on loopback that fails on demand. */
export async function startFaultProxy(targetPort: number): Promise<FaultProxy> {
  let mode: FaultMode = 'pass';
  const pairs = new Set<Pair>();

  function forward(pair: Pair, side: Side): void {
    const [from, to] = side === 'client' ? [pair.client, pair.server] : [pair.server, pair.client];
    const vanishes = (): boolean => {
      if (mode === 'blackhole' || (mode === 'halfOpen' && side === 'server')) pair.spoilt.add(side);
      return pair.spoilt.has(side);
    };
    from?.on('data', (chunk: Buffer) => {
      if (vanishes() || to === undefined || to.write(chunk)) return;
      from.pause();
      to.once('drain', () => {
        if (mode !== 'unread' || side === 'client') from.resume();
      });
    });
    from?.on('end', () => {
      if (!vanishes()) to?.end();
    });
    from?.on('error', () => undefined);
    from?.on('close', () => {
      if (!vanishes()) to?.destroy();
      if (socketsOf(pair).every((socket) => socket.closed)) pairs.delete(pair);
    });
  }

  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    if (mode === 'reset') {
      client.resetAndDestroy();
      return;
    }
    const upstream =
      mode === 'blackhole'
        ? undefined
        : connect({ port: targetPort, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
    const pair: Pair = { client, server: upstream, spoilt: new Set() };
    pairs.add(pair);
    forward(pair, 'client');
    forward(pair, 'server');
    if (mode === 'unread') upstream?.pause();
  });

  const listen = (port: number): Promise<void> =>
    new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, '127.0.0.1', () => {
        server.off('error', reject);
        resolve();
      });
    });
  const port = await freePort();
  await listen(port);

  function endAll(how: 'reset' | 'close', which: (pair: Pair) => boolean = () => true): void {
    for (const socket of [...pairs].filter(which).flatMap(socketsOf)) {
      if (how === 'reset') socket.resetAndDestroy();
      else socket.destroySoon();
    }
  }

  async function setMode(next: FaultMode): Promise<void> {
    mode = next;
    if (next === 'refuse' && server.listening) server.close();
    if (next !== 'refuse' && !server.listening) await listen(port);
    if (next === 'refuse' || next === 'reset') endAll('reset');
    if (next === 'cut') endAll('close');
    for (const { server: upstream } of pairs) {
      if (next === 'unread') upstream?.pause();
      else upstream?.resume();
    }
    if (next === 'pass')
      endAll('reset', (pair) => pair.spoilt.size > 0 || pair.server === undefined);
  }

  return {
    port,
    connections: () => [...pairs].filter((pair) => !pair.client.closed).length,
    setMode,
    stop: async () => {
      await setMode('refuse');
    },
  };
}
