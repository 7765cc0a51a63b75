/**
 * The grpc-js floor: the cost of @grpc/grpc-js alone. A bare ADS server that sends prepared bytes
 * through an identity serializer (floor.ts).
 *
 *   node build/benchmarks/floor/grpc-js.js --resources 1000
 */
import * as grpc from '@grpc/grpc-js';
import { Subscriber } from './floor.js';
import { runFloor } from './run-floor.js';

type Stream = grpc.ServerDuplexStream<Buffer, Buffer>;

const identity = (bytes: Buffer): Buffer => bytes;

await runFloor((path, floor) => {
  const server = new grpc.Server();
  const method = {
    path,
    requestStream: true,
    responseStream: true,
    requestSerialize: identity,
    requestDeserialize: identity,
    responseSerialize: identity,
    responseDeserialize: identity,
  };
  server.addService(
    { method },
    {
      method: (stream: Stream) => {
        const subscriber = new Subscriber((message) => stream.write(Buffer.concat(message)));
        stream.on('data', (bytes: Buffer) => {
          floor.handleRequest(subscriber, bytes);
        });
        stream.on('error', () => undefined);
        stream.on('cancelled', () => {
          floor.forget(subscriber);
        });
        stream.on('end', () => {
          floor.forget(subscriber);
          stream.end();
        });
      },
    },
  );
  return new Promise((settle, fail) => {
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
      if (error === null) settle(port);
      else fail(error);
    });
  });
});
