/**
 * Compares the time for messages of bad shapes in sizes n and 4n, for every reader of bytes: the
 * larger one may take about four times as long. Quadratic code takes sixteen times.
 *
 * CPU time is per process and would include worker threads, so the main thread runs this after the
 * workers. Each time is the minimum of several, since load only makes things slower.
 */
import { rewritePayloadNames } from '../../protos/payload-names.js';
import { decodeDeltaRequest, decodeDeltaResponse } from '../../protos/delta-codec.js';
import { readList } from '../../protos/list-collection.js';
import { readResourceLocator } from '../../protos/locator-codec.js';
import { hasClientFeature, readClientNode } from '../../protos/node-codec.js';
import { parseResourceLocator } from '../../protos/resource-locator.js';
import { decodeSotwRequest } from '../../protos/sotw-codec.js';
import { TYPE_URL } from '../../protos/type-urls.js';
import { decodeCollections, withDigest } from '../../gateway/state-file/collection-file.js';
import { MessageReader } from '../../gateway/clients/message-reader.js';
import { readPeerMessage } from '../../gateway/core/peers/peer-message.js';
import { grpcFrame } from '../support/dialled-source.js';
import { concat, fieldBytes } from './wire.js';
import { bytesOf, name } from './words.js';

const N = 4_000;
const FACTOR = 4;
/** Linear code has a ratio of four, quadratic code of sixteen. */
const MOST = 12;
const REPETITIONS = 7;
/** Shorter times are too noisy to compare. */
const LEAST_MS = 0.2;
/** Suspects are measured again after all others: quadratic code is slow each time. */
const ROUNDS = 3;
const NO_LIMIT = 1e9;

interface Reader {
  readonly name: string;
  readonly read: (bytes: Uint8Array) => unknown;
}

/** One message in chunks of 16 bytes. */
function readInParts(bytes: Uint8Array): void {
  const reader = new MessageReader(NO_LIMIT);
  const framed = grpcFrame(Buffer.from(bytes));
  for (let at = 0; at < framed.length; at += 16) {
    reader.push(framed.subarray(at, at + 16), () => undefined);
  }
}

interface Shape {
  readonly name: string;
  readonly make: (size: number) => Uint8Array;
}

const times = (count: number, piece: (at: number) => Uint8Array): Uint8Array =>
  concat(...Array.from({ length: count }, (_, at) => piece(at)));

function nest(depth: number, number: number): Uint8Array {
  let value = bytesOf('xdstp://a/T/x');
  for (let level = 0; level < depth; level++) value = fieldBytes(number, value);
  return value;
}

const repeated = (text: string, count: number): Uint8Array => bytesOf(text.repeat(count));
const text = (at: number): Uint8Array => bytesOf(name('a', `n${at}`));
/** A name that contains a message with a name, and so on: valid for several readers at once. */
const pair = (at: number): Uint8Array => concat(fieldBytes(1, text(at)), fieldBytes(2, text(at)));

const SHAPES: readonly Shape[] = [
  ...[1, 2, 3, 4, 5, 6, 9].map((number): Shape => ({
    name: `many fields ${number}`,
    make: (size) => times(size, (at) => fieldBytes(number, text(at))),
  })),
  ...[1, 2, 3, 5, 6].map((number): Shape => ({
    name: `many messages in field ${number}`,
    make: (size) => times(size, (at) => fieldBytes(number, fieldBytes(1, pair(at)))),
  })),
  {
    name: 'many inline entries',
    make: (size) => times(size, (at) => fieldBytes(1, fieldBytes(2, pair(at)))),
  },
  { name: 'many pairs in field 5', make: (size) => times(size, (at) => fieldBytes(5, pair(at))) },
  {
    name: 'many pairs in field 1 of 3',
    make: (size) =>
      fieldBytes(
        3,
        times(size, (at) => fieldBytes(1, pair(at))),
      ),
  },
  { name: 'many empty fields', make: (size) => times(4 * size, () => Uint8Array.of(0x12, 0)) },
  { name: 'many varints', make: (size) => times(4 * size, () => Uint8Array.of(0x38, 1)) },
  {
    name: 'groups in groups',
    make: (size) =>
      concat(
        times(size, () => Uint8Array.of(0x7b)),
        times(size, () => Uint8Array.of(0x7c)),
      ),
  },
  ...[1, 2, 6].map((number): Shape => ({
    name: `nested in field ${number}`,
    make: (size) => times(size / 100, () => nest(95, number)),
  })),
  { name: 'one long text', make: (size) => fieldBytes(3, repeated('x/', 20 * size)) },
  ...['%', '%41', '/', '#alt=', '?a=b&', ',', '*'].map((piece): Shape => ({
    name: `a name of ${piece}`,
    make: (size) => concat(fieldBytes(1, bytesOf(`xdstp://a/T/${piece.repeat(size / 10)}`))),
  })),
];

const TEXTS: readonly Shape[] = [
  { name: 'nested lists', make: (size) => bytesOf(`${'['.repeat(size)}${']'.repeat(size)}`) },
  {
    name: 'many members',
    make: (size) => {
      const members = Array.from({ length: size }, (_, at) => name('a', `n${at}`));
      const one = {
        type: 'T',
        glob: name('a', '*'),
        known_at: 1,
        members,
        removed: members.map((key) => [key, 1]),
      };
      const text = JSON.stringify({ version: 1, collections: [one] });
      return bytesOf([...withDigest([text.slice(0, -1)])].join(''));
    },
  },
  {
    name: 'many hints',
    make: (size) => {
      const changes = Array.from({ length: size / 40 }, (_, at) => ['T', name('a', `n${at}`), 'v']);
      return bytesOf(JSON.stringify({ v: 1, from: 'x', changes }));
    },
  },
  ...['%', '%41', '/', '#alt=', '?a=b&', ',', '*', '&'].map((piece): Shape => ({
    name: `a name of ${piece}`,
    make: (size) => bytesOf(`xdstp://a/T/${piece.repeat(size / 10)}`),
  })),
];

const rewrite = { ownName: 'xdstp://own/T/x', reference: (reference: string) => `${reference}x` };

const BINARY: readonly Reader[] = [
  { name: 'delta request', read: (bytes) => decodeDeltaRequest(bytes, NO_LIMIT) },
  { name: 'sotw request', read: (bytes) => decodeSotwRequest(bytes, NO_LIMIT) },
  { name: 'delta response', read: (bytes) => decodeDeltaResponse(bytes, NO_LIMIT) },
  {
    name: 'list',
    read: (bytes) => {
      const list = readList(bytes, NO_LIMIT);
      return list.ok && [...list.entries];
    },
  },
  { name: 'locator', read: readResourceLocator },
  { name: 'node', read: (bytes) => readClientNode(bytes, ['n1', 'n2']) },
  { name: 'a message in parts', read: readInParts },
  { name: 'client features', read: (bytes) => hasClientFeature(bytes, 'x') },
  ...[
    TYPE_URL.cluster,
    TYPE_URL.listener,
    TYPE_URL.routeConfiguration,
    TYPE_URL.clusterLoadAssignment,
  ].map((typeUrl): Reader => ({
    name: `names in ${typeUrl.slice(typeUrl.lastIndexOf('.') + 1)}`,
    read: (bytes) => rewritePayloadNames(typeUrl, bytes, rewrite),
  })),
];

const TEXTUAL: readonly Reader[] = [
  { name: 'name', read: (bytes) => parseResourceLocator(Buffer.from(bytes).toString()) },
  {
    name: 'state file',
    read: (bytes) => decodeCollections(Buffer.from(bytes).toString(), (atMs) => atMs),
  },
  { name: 'peer message', read: readPeerMessage },
];

function leastMs(read: () => unknown): number {
  let least = Infinity;
  for (let repetition = 0; repetition < REPETITIONS; repetition++) {
    const before = process.cpuUsage();
    read();
    const { user, system } = process.cpuUsage(before);
    least = Math.min(least, (user + system) / 1_000);
  }
  return least;
}

interface Pair {
  readonly reader: Reader;
  readonly shape: Shape;
}

/** @returns the ratio of the two times. */
function ratioOf({ reader, shape }: Pair): number {
  const [small, large] = [shape.make(N), shape.make(FACTOR * N)];
  const largeMs = leastMs(() => reader.read(large));
  if (largeMs < MOST * LEAST_MS) return 0;
  const smallMs = leastMs(() => reader.read(small));
  return largeMs / Math.max(smallMs, LEAST_MS);
}

/**
 * @returns descriptions of readers that are slower than their size allows, and the number of pairs.
 */
export function findSuperlinear(): { readonly looked: number; readonly found: readonly string[] } {
  const pairs: readonly Pair[] = [
    ...BINARY.flatMap((reader) => SHAPES.map((shape) => ({ reader, shape }))),
    ...TEXTUAL.flatMap((reader) => TEXTS.map((shape) => ({ reader, shape }))),
  ];
  let found = pairs.map((pair) => ({ pair, ratio: Infinity }));
  for (let round = 0; round < ROUNDS; round++) {
    found = found
      .map(({ pair }) => ({ pair, ratio: ratioOf(pair) }))
      .filter(({ ratio }) => ratio > MOST);
  }
  const words = found.map(({ pair: { reader, shape }, ratio }) => {
    const times = ratio.toFixed(0);
    return `${reader.name}, ${shape.name}: ${FACTOR} times the size takes ${times} times as long`;
  });
  return { looked: pairs.length, found: words };
}
