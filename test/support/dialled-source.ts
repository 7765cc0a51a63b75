/** The real shell of a source (`SourceConnection` on grpc-js) connected to scripted servers. */
import { once } from 'node:events';
import { createServer, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import * as grpc from '@grpc/grpc-js';
import type { Test } from 'tap';
import { SourceConnection } from '../../authorities/source-connection.js';
import type { StreamEnd } from '../../authorities/core/sources/source-health.js';
import { grpcTransport } from '../../authorities/grpc-transport.js';
import { DEFAULT_PROTOCOL, DEFAULT_TIMERS } from '../../config/defaults.js';
import { startFaultProxy, type FaultProxy } from '../interop/peers/fault-proxy.js';
import { startRawServer, type RawCall, type RawServer } from './raw-server.js';
import { NO_IDENTITY } from '../../authorities/core/sources/client-identity.js';

export const PROBE = { probeIntervalMs: 300, probeTimeoutMs: 500 };
export const MAX_RECEIVE_BYTES = 1_024 * 1_024;

export interface Dialled {
  readonly messages: readonly Buffer[];
  /** Each with the number of messages that arrived before it. */
  readonly ends: readonly { readonly end: StreamEnd; readonly messagesBefore: number }[];
  /** How often the transport said that it takes requests. */
  readonly timesWritable: number;
  readonly send: (bytes: Buffer) => void;
  readonly dialAgain: () => void;
  readonly hangUp: () => void;
}

/**
 * Connects, and then sends `first`.
 *
 * @param probe without it only the stream reports its end
 */
export function dialSource(t: Test, port: number, probe = { probeIntervalMs: 0 }): Dialled {
  const messages: Buffer[] = [];
  const ends: { readonly end: StreamEnd; readonly messagesBefore: number }[] = [];
  let timesWritable = 0;
  let isFirstSent = false;
  const spec = {
    kind: 'grpc',
    name: 'cloud',
    ...DEFAULT_PROTOCOL,
    target: `127.0.0.1:${port}`,
    tls: null,
    initialMetadata: [],
    channelArgs: {},
    maxReceiveBytes: MAX_RECEIVE_BYTES,
    timers: { ...DEFAULT_TIMERS, ...probe },
  } as const;
  const shell = new SourceConnection(spec, NO_IDENTITY, grpcTransport, {
    onMessage: (_epoch, bytes) => messages.push(Buffer.from(bytes)),
    onEvent: (_epoch, event) => {
      if (event.kind === 'writable') {
        timesWritable++;
        if (!isFirstSent) dialled.send(Buffer.from('first'));
        isFirstSent = true;
      }
      if (event.kind === 'ended') ends.push({ end: event.end, messagesBefore: messages.length });
    },
    onCredentialsChanged: () => undefined,
  });
  t.teardown(() => {
    shell.close();
  });
  let epoch = 0;
  const dialled: Dialled = {
    messages,
    ends,
    get timesWritable() {
      return timesWritable;
    },
    send: (bytes) => {
      shell.perform({ kind: 'send', typeUrl: '', bytes });
    },
    dialAgain: () => {
      isFirstSent = false;
      shell.perform({
        kind: 'dial',
        epoch: ++epoch,
        timeoutMs: DEFAULT_TIMERS.firstResponseTimeoutMs,
      });
    },
    hangUp: () => {
      shell.perform({ kind: 'hang_up', reason: 'unneeded' });
    },
  };
  dialled.dialAgain();
  return dialled;
}

/**
 * A gRPC server behind a proxy.
 *
 * @param onRequest default: `answer` as the response to each request
 */
export async function startSource(
  t: Test,
  onRequest: (call: RawCall, request: Buffer) => void = (call) => call.write(Buffer.from('answer')),
): Promise<{ readonly server: RawServer; readonly proxy: FaultProxy }> {
  const server = await startRawServer(grpc.ServerCredentials.createInsecure(), onRequest);
  const proxy = await startFaultProxy(server.port);
  t.teardown(async () => {
    await proxy.stop();
    server.stop();
  });
  return { server, proxy };
}

/**
 * A bare HTTP/2 server, for behaviour that no gRPC library has.
 *
 * @returns its port
 */
export async function startHttp2Source(
  t: Test,
  makeStream: (stream: ServerHttp2Stream) => void,
): Promise<number> {
  const server = createServer();
  server.on('session', (session) => {
    session.on('error', () => undefined);
    t.teardown(() => {
      session.destroy();
    });
  });
  server.on('stream', (stream) => {
    stream.on('error', () => undefined);
    makeStream(stream);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** A message in gRPC framing. */
export function grpcFrame(message: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}
