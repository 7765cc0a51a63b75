import * as grpc from '@grpc/grpc-js';

export interface GrpcBackend {
  readonly name: string;
  readonly port: number;
  /** Stops at once; calls in flight fail. */
  stop(): Promise<void>;
}

const identity = (bytes: Buffer): Buffer => bytes;

const HEALTH: grpc.ServiceDefinition = {
  check: {
    path: '/grpc.health.v1.Health/Check',
    requestStream: false,
    responseStream: false,
    requestSerialize: identity,
    requestDeserialize: identity,
    responseSerialize: identity,
    responseDeserialize: identity,
  },
};

/** A gRPC server on loopback (h2c) that sends its name in the header `answered-by`. */
export async function startGrpcBackend(name: string): Promise<GrpcBackend> {
  const server = new grpc.Server();
  const metadata = new grpc.Metadata();
  metadata.set('answered-by', name);
  server.addService(HEALTH, {
    check: (call: grpc.ServerUnaryCall<Buffer, Buffer>, answer: grpc.sendUnaryData<Buffer>) => {
      call.sendMetadata(metadata);
      answer(null, Buffer.alloc(0));
    },
  });
  const credentials = grpc.ServerCredentials.createInsecure();
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', credentials, (error, bound) => {
      if (error) reject(error);
      else resolve(bound);
    });
  });
  return {
    name,
    port,
    stop: () => {
      server.forceShutdown();
      return Promise.resolve();
    },
  };
}
