/**
 * A gRPC server that speaks delta ADS as raw bytes and is fully scripted by the test, for behaviour
 * that no real control plane shows on purpose.
 */
import * as grpc from '@grpc/grpc-js';

export type RawCall = grpc.ServerDuplexStream<Buffer, Buffer>;

const identity = (bytes: Buffer): Buffer => bytes;

const SERVICE: grpc.ServiceDefinition = {
  deltaAggregatedResources: {
    path: '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources',
    requestStream: true,
    responseStream: true,
    requestSerialize: identity,
    requestDeserialize: identity,
    responseSerialize: identity,
    responseDeserialize: identity,
  },
};

export interface RawServer {
  readonly port: number;
  /** All streams so far. */
  readonly calls: readonly RawCall[];
  /** All requests in order of arrival, over all streams. */
  readonly requests: readonly Buffer[];
  readonly stop: () => void;
}

/** @param onRequest called for each request of each stream. */
export async function startRawServer(
  credentials: grpc.ServerCredentials,
  onRequest: (call: RawCall, request: Buffer) => void = () => undefined,
): Promise<RawServer> {
  const calls: RawCall[] = [];
  const requests: Buffer[] = [];
  const server = new grpc.Server();
  server.addService(SERVICE, {
    deltaAggregatedResources: (call: RawCall) => {
      calls.push(call);
      call.on('error', () => undefined);
      call.on('end', () => {
        call.end();
      });
      call.on('data', (bytes: Buffer) => {
        requests.push(bytes);
        onRequest(call, bytes);
      });
    },
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', credentials, (error, bound) => {
      if (error) reject(error);
      else resolve(bound);
    });
  });
  return {
    port,
    calls,
    requests,
    stop: () => {
      server.forceShutdown();
    },
  };
}
