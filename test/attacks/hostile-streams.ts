/** An attacker with many streams of delta ADS on few connections, by node:http2 alone. */
import { connect, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2';
import type { Test } from 'tap';
import { encodeDeltaRequest } from '../../protos/delta-codec.js';

const ADS = '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources';
const STREAMS_PER_CONNECTION = 100;

export interface HostileStream {
  /** Writes one message of these bytes. @returns once the gateway has taken it, or the stream is over */
  write(message: Uint8Array): Promise<void>;
  /** Writes these bytes, which need not be a whole message. */
  writeBytes(bytes: Uint8Array): void;
  /** The `grpc-status` with which the gateway ended the stream; undefined: it is open. */
  readonly status: string | undefined;
  /** Bytes that came. */
  readonly receivedBytes: number;
  readonly isClosed: boolean;
  reset(): void;
}

export function grpcFrameOf(message: Uint8Array): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/**
 * The teardown of the test closes the connections.
 *
 * @param from the local address; default: 127.0.0.1
 * @param path of the method; default: delta ADS
 */
export async function openStreams(
  t: Test,
  port: number,
  count: number,
  from = '127.0.0.1',
  path = ADS,
): Promise<readonly HostileStream[]> {
  const streams: HostileStream[] = [];
  let session: ClientHttp2Session | undefined;
  for (let at = 0; at < count; at++) {
    if (at % STREAMS_PER_CONNECTION === 0) session = await openSession(t, port, from);
    if (session) streams.push(openStream(session, path));
  }
  return streams;
}

async function openSession(t: Test, port: number, from: string): Promise<ClientHttp2Session> {
  // The attacker's own memory has no bound.
  const options = { localAddress: from, maxSessionMemory: 10_000 };
  const session = connect(`http://127.0.0.1:${port}`, options as object);
  session.on('error', () => undefined);
  t.teardown(() => {
    session.destroy();
  });
  await new Promise<void>((resolve) => {
    session.once('remoteSettings', () => {
      resolve();
    });
  });
  return session;
}

function openStream(session: ClientHttp2Session, path: string): HostileStream {
  const stream: ClientHttp2Stream = session.request({
    ':method': 'POST',
    ':path': path,
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  let status: string | undefined;
  let receivedBytes = 0;
  let isClosed = false;
  const take = (headers: Readonly<Record<string, unknown>>): void => {
    const found = headers['grpc-status'];
    if (typeof found === 'string') status = found;
  };
  stream.on('response', take);
  stream.on('trailers', take);
  stream.on('error', () => undefined);
  stream.on('close', () => (isClosed = true));
  // Each write waits for the end of the stream, too.
  stream.setMaxListeners(0);
  stream.on('data', (chunk: Buffer) => (receivedBytes += chunk.length));
  return {
    write: (message) =>
      new Promise((resolve) => {
        stream.once('close', resolve);
        stream.write(grpcFrameOf(message), () => {
          resolve();
        });
      }),
    writeBytes: (bytes) => {
      stream.write(bytes);
    },
    reset: () => {
      stream.destroy();
    },
    get status() {
      return status;
    },
    get receivedBytes() {
      return receivedBytes;
    },
    get isClosed() {
      return isClosed;
    },
  };
}

/** A request of delta ADS, encoded. */
export const subscription = (
  typeUrl: string,
  subscribe: readonly string[],
  node?: Uint8Array,
): Uint8Array =>
  encodeDeltaRequest({
    node,
    typeUrl,
    subscribe,
    unsubscribe: [],
    initialVersions: new Map(),
    responseNonce: '',
    errorDetail: undefined,
  });
