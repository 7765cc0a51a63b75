/**
 * The bytes of a request stream for the reader of length-prefixed messages (gRPC, PROTOCOL-HTTP2.md). An
 * independent reader that has all bytes at once must agree, however they are split.
 */
import assert from 'node:assert/strict';
import { MessageReader, PREFIX_BYTES } from '../../gateway/clients/message-reader.js';
import { STATUS_CODE } from '../../protos/discovery.js';
import type { Random } from '../sim/random.js';
import { grpcFrame } from '../support/dialled-source.js';
import type { Prepared, Target } from './target.js';

/** Low, so that messages reach it. */
const MAX_BYTES = 200;
const MAX_FRAMES = 6;
const INTERESTING_LENGTHS = [0, 1, MAX_BYTES, MAX_BYTES + 1, 2 ** 24, 2 ** 31, 2 ** 32 - 1];

interface Reading {
  readonly messages: readonly string[];
  readonly code: number | undefined;
}

function readAtOnce(bytes: Buffer): Reading {
  const messages: string[] = [];
  let rest = bytes;
  while (rest.length >= PREFIX_BYTES) {
    const length = rest.readUInt32BE(1);
    if (rest[0] !== 0) return { messages, code: STATUS_CODE.internal };
    if (length > MAX_BYTES) return { messages, code: STATUS_CODE.resourceExhausted };
    if (rest.length < PREFIX_BYTES + length) break;
    messages.push(rest.toString('hex', PREFIX_BYTES, PREFIX_BYTES + length));
    rest = rest.subarray(PREFIX_BYTES + length);
  }
  return { messages, code: rest.length > 0 ? STATUS_CODE.internal : undefined };
}

/** @param dice 0: in one chunk; otherwise chunks of up to this many bytes, which vary */
function readInParts(bytes: Buffer, dice: number): Reading {
  const reader = new MessageReader(MAX_BYTES);
  const messages: string[] = [];
  let at = 0;
  for (let part = 1; at < bytes.length; part++) {
    const length = dice === 0 ? bytes.length : 1 + ((part * 97) % dice);
    // Node reuses no buffer; if the reader kept a view nevertheless, this copy would show it.
    const chunk = Buffer.from(bytes.subarray(at, at + length));
    reader.push(chunk, (message) => messages.push(message.toString('hex')));
    chunk.fill(0xff);
    at += length;
    assert.ok(reader.bufferBytes <= MAX_BYTES, 'the reader keeps at most one message');
  }
  return { messages, code: reader.end()?.code };
}

function take(message: Uint8Array, dice: number): boolean {
  const bytes = Buffer.from(message);
  const expected = readAtOnce(bytes);
  assert.deepEqual(readInParts(bytes, dice), expected);
  return expected.code === undefined;
}

const frameOf = (length: number): Buffer => grpcFrame(Buffer.alloc(length, length));

const SEEDS: readonly Buffer[] = [
  ...[0, 1, 100, MAX_BYTES].map(frameOf),
  Buffer.concat([3, 0, MAX_BYTES, 7].map(frameOf)),
];

function mutate(random: Random, seeds: readonly Uint8Array[]): Uint8Array {
  const count = 1 + random.below(MAX_FRAMES);
  const frames = Array.from({ length: count }, () => Buffer.from(random.pick(seeds)));
  const frame = random.pick(frames);
  const how = random.below(5);
  if (how === 0 && frame.length >= PREFIX_BYTES) {
    frame.writeUInt32BE(random.pick(INTERESTING_LENGTHS), 1);
  } else if (how === 1 && frame.length >= PREFIX_BYTES) {
    frame.writeUInt32BE((frame.readUInt32BE(1) + random.between(-2, 2)) >>> 0, 1);
  } else if (how === 2) {
    frame[random.below(frame.length)] = random.below(256);
  }
  const bytes = Buffer.concat(frames);
  return how === 3 ? bytes.subarray(0, random.below(bytes.length + 1)) : bytes;
}

const prepared: Prepared = {
  seeds: SEEDS.map((seed) => new Uint8Array(seed)),
  mutate,
  open: () => ({ take }),
};

export const FRAMING_TARGETS: readonly Target[] = [
  {
    name: 'grpc-framing',
    messages: 1_000_000,
    perCase: 400,
    valid: 0.1,
    cost: 8,
    prepare: () => prepared,
  },
];
