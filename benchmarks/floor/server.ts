/**
 * The floor: the cost of the transport alone. A bare @grpc/grpc-js delta ADS server that sends
 * prepared bytes through an identity serializer. It has no versions, no merging and no resumes, and
 * it ignores ACKs. No correct server can be expected to cost less.
 *
 *   node build/benchmarks/floor/server.js --resources 1000
 */
import { createServer, type AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import * as grpc from '@grpc/grpc-js';
import { FIRST_MARKER, resourceField, resourceIndex, resourceName, response } from './catalogue.js';
import { readRequest } from './request.js';

type Stream = grpc.ServerDuplexStream<Buffer, Buffer>;

const MAX_RESPONSE_BYTES = 2 * 1_024 * 1_024;
const AUTHORITY = 'bench';

const { values } = parseArgs({ options: { resources: { type: 'string', default: '1000' } } });
const resourceCount = Number(values.resources);

const fields: Buffer[] = [];
for (let i = 0; i < resourceCount; i += 1) {
  fields.push(resourceField(resourceName(AUTHORITY, i), FIRST_MARKER));
}
/** By stream: the last nonce sent on it. */
interface Subscriber {
  readonly stream: Stream;
  nonce: number;
}

const wildcards = new Set<Subscriber>();
const watchers = new Map<number, Set<Subscriber>>();

function subscribe(to: Subscriber, names: readonly string[]): void {
  const wanted: Buffer[] = [];
  for (const name of names) {
    if (name.endsWith('*')) {
      wildcards.add(to);
      sendAll(to, fields);
      continue;
    }
    const index = resourceIndex(name);
    const subscribers = watchers.get(index) ?? new Set();
    watchers.set(index, subscribers.add(to));
    wanted.push(fields[index]!);
  }
  sendAll(to, wanted);
}

function send(to: Subscriber, pieces: readonly Buffer[]): void {
  to.nonce += 1;
  to.stream.write(response(pieces, to.nonce));
}

/** Split into responses of a size that clients accept. */
function sendAll(to: Subscriber, pieces: readonly Buffer[]): void {
  let from = 0;
  let bytes = 0;
  for (const [i, piece] of pieces.entries()) {
    bytes += piece.length;
    if (bytes > MAX_RESPONSE_BYTES || i === pieces.length - 1) {
      send(to, pieces.slice(from, i + 1));
      from = i + 1;
      bytes = 0;
    }
  }
}

function forget(subscriber: Subscriber): void {
  wildcards.delete(subscriber);
  for (const subscribers of watchers.values()) subscribers.delete(subscriber);
}

function change(index: number, marker: string): void {
  const field = resourceField(resourceName(AUTHORITY, index), marker);
  fields[index] = field;
  for (const subscriber of wildcards) send(subscriber, [field]);
  for (const subscriber of watchers.get(index) ?? []) send(subscriber, [field]);
}

const identity = (bytes: Buffer): Buffer => bytes;
const server = new grpc.Server();
server.addService(
  {
    DeltaAggregatedResources: {
      path: '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources',
      requestStream: true,
      responseStream: true,
      requestSerialize: identity,
      requestDeserialize: identity,
      responseSerialize: identity,
      responseDeserialize: identity,
    },
  },
  {
    DeltaAggregatedResources: (stream: Stream) => {
      const subscriber = { stream, nonce: 0 };
      stream.on('data', (bytes: Buffer) => {
        const names = readRequest(bytes);
        if (names.length > 0) subscribe(subscriber, names);
      });
      stream.on('error', () => undefined);
      stream.on('cancelled', () => {
        forget(subscriber);
      });
      stream.on('end', () => {
        forget(subscriber);
        stream.end();
      });
    },
  },
);

/** Same lines as benchmarks/peers/internal/control. */
const control = createServer((socket) => {
  socket.on('error', () => undefined);
  createInterface({ input: socket }).on('line', (line) => {
    const [verb, index, marker] = line.split(' ');
    if (verb === 's') socket.write('s\n');
    else if (verb === 'c') change(Number(index), marker!);
  });
});

control.listen(0, '127.0.0.1', () => {
  server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
    if (error !== null) throw error;
    const controlPort = (control.address() as AddressInfo).port;
    const ready = {
      event: 'ready',
      listen: `127.0.0.1:${port}`,
      control: `127.0.0.1:${controlPort}`,
    };
    process.stdout.write(`${JSON.stringify(ready)}\n`);
  });
});
