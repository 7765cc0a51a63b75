import * as grpc from '@grpc/grpc-js';

import { until } from '../../support/until.js';

const asBuffer = (bytes: Buffer): Buffer => bytes;

/** One stream of any xDS service over a connection of its own, for requests that no Envoy sends. */
export interface RawStream {
  write(request: Uint8Array): void;
  /** The responses so far, oldest first. */
  readonly responses: readonly Buffer[];
  /** Waits until there are so many responses. */
  received(count: number): Promise<readonly Buffer[]>;
  /** Waits until the server ends the stream; the name of its status. */
  ended(): Promise<string>;
  stop(): Promise<void>;
}

/**
 * @param method e.g. `/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources`
 * @param port of the server, on loopback
 */
export function openRawStream(
  port: number,
  method: string,
  headers: Readonly<Record<string, string>> = {},
): RawStream {
  const channel = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure(), {
    'grpc.use_local_subchannel_pool': 1,
  });
  const metadata = new grpc.Metadata();
  for (const [key, value] of Object.entries(headers)) metadata.set(key, value);
  const call = channel.makeBidiStreamRequest<Buffer, Buffer>(method, asBuffer, asBuffer, metadata);
  const responses: Buffer[] = [];
  let status: string | undefined;
  call.on('error', () => undefined);
  call.on('status', ({ code }: grpc.StatusObject) => {
    status = grpc.status[code];
  });
  call.on('data', (response: Buffer) => responses.push(response));
  return {
    responses,
    write: (request) => {
      call.write(Buffer.from(request));
    },
    received: (count) =>
      until(`there are ${count} responses`, () => responses.length >= count && responses),
    ended: () => until('the server ends the stream', () => status),
    stop: () => {
      call.cancel();
      channel.close();
      return Promise.resolve();
    },
  };
}
