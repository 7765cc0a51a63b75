/**
 * A bare delta control plane on node:http2: it answers the first request of each stream with one cluster,
 * and reads the rest. So the figures of run-groups.ts contain little of its own work.
 */
import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { decodeDeltaRequest, encodeDeltaResponse } from '../../protos/delta-codec.js';
import { encodeResourceField } from '../../protos/resource-field.js';
import { framed, MessageReader } from '../floor/grpc-messages.js';

const CLUSTER = 'type.googleapis.com/envoy.config.cluster.v3.Cluster';
const BODY = Buffer.concat([Buffer.from([0x0a, 3]), Buffer.from('web')]);
const { bytes: resource } = encodeResourceField('web', '1', CLUSTER, BODY);
const RESPONSE = { typeUrl: CLUSTER, nonce: '1', resources: [resource], removed: [], errors: [] };
const response = framed(encodeDeltaResponse(RESPONSE));

let connections = 0;
const server = createServer();
server.on('sessionError', () => undefined);
server.on('session', () => {
  connections += 1;
});
server.on('stream', (stream) => {
  stream.on('error', () => undefined);
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
  const reader = new MessageReader();
  let isAnswered = false;
  stream.on('data', (chunk: Buffer) => {
    for (const message of reader.push(chunk)) {
      if (isAnswered || !decodeDeltaRequest(message, 1_000).ok) continue;
      isAnswered = true;
      stream.write(response);
    }
  });
});
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.stdout.write(`${JSON.stringify({ event: 'ready', listen: `127.0.0.1:${port}` })}\n`);
});
process.stdin.on('data', () => {
  process.stdout.write(`${JSON.stringify({ event: 'connections', connections })}\n`);
});
