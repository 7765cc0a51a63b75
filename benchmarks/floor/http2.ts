/**
 * The node:http2 floor: the same bytes as the grpc-js floor (floor.ts) on node:http2 alone. It does
 * only what gRPC needs on the wire: 5 bytes before each message, and `grpc-status` as a trailer.
 *
 *   node build/benchmarks/floor/http2.js --resources 1000
 */
import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { framed, MessageReader } from './grpc-messages.js';
import { Subscriber } from './floor.js';
import { runFloor } from './run-floor.js';

const HEADERS = { ':status': 200, 'content-type': 'application/grpc' } as const;
const UNIMPLEMENTED = '12';

await runFloor((path, floor) => {
  // Like grpc-js: with the default of 10 MB, node:http2 refuses further streams of a connection
  // while much data waits on it.
  const server = createServer({ maxSessionMemory: Number.MAX_SAFE_INTEGER });
  server.on('sessionError', () => undefined);
  server.on('stream', (stream, headers) => {
    stream.on('error', () => undefined);
    if (headers[':path'] !== path) {
      stream.respond({ ...HEADERS, 'grpc-status': UNIMPLEMENTED }, { endStream: true });
      return;
    }
    stream.respond(HEADERS, { waitForTrailers: true });
    stream.on('wantTrailers', () => {
      stream.sendTrailers({ 'grpc-status': '0' });
    });
    const subscriber = new Subscriber((message) => stream.write(framed(message)));
    const reader = new MessageReader();
    stream.on('data', (chunk: Buffer) => {
      for (const message of reader.push(chunk)) floor.handleRequest(subscriber, message);
    });
    stream.on('end', () => {
      floor.forget(subscriber);
      stream.end();
    });
    stream.on('close', () => {
      floor.forget(subscriber);
    });
  });
  return new Promise((settle) => {
    server.listen(0, '127.0.0.1', () => {
      settle((server.address() as AddressInfo).port);
    });
  });
});
