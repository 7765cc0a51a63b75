/**
 * Goal: the reader of length-prefixed messages (gRPC, PROTOCOL-HTTP2.md) gives the messages that were
 * sent, however the bytes are split, and refuses the others before it keeps them.
 */
import fc from 'fast-check';
import t from 'tap';
import { MessageReader } from '../../../../gateway/clients/message-reader.js';
import { STATUS_CODE, type RpcStatus } from '../../../../protos/discovery.js';
import { grpcFrame } from '../../../support/dialled-source.js';

const MAX_BYTES = 1_000;

interface Outcome {
  readonly messages: readonly string[];
  readonly failure: RpcStatus | undefined;
  /** The result of `end`. */
  readonly end: RpcStatus | undefined;
}

function read(chunks: readonly Buffer[], maxBytes = MAX_BYTES): Outcome {
  const reader = new MessageReader(maxBytes);
  const messages: string[] = [];
  let failure: RpcStatus | undefined;
  for (const chunk of chunks) {
    failure = reader.push(chunk, (message) => messages.push(message.toString('latin1')));
  }
  return { messages, failure, end: reader.end() };
}

const announce = (bytes: number, flag = 0): Buffer => {
  const prefix = Buffer.alloc(5, flag);
  prefix.writeUInt32BE(bytes, 1);
  return prefix;
};

const text = (messages: readonly string[]): readonly Buffer[] =>
  messages.map((message) => grpcFrame(Buffer.from(message, 'latin1')));

t.test('each row of bytes is read as PROTOCOL-HTTP2.md, "Length-Prefixed-Message", says', (t) => {
  const { internal, resourceExhausted } = STATUS_CODE;
  const rows: readonly (readonly [
    what: string,
    chunks: readonly Buffer[],
    messages: readonly string[],
    failure: number | undefined,
    end: number | undefined,
  ])[] = [
    ['nothing', [], [], undefined, undefined],
    ['an empty chunk', [Buffer.alloc(0)], [], undefined, undefined],
    ['an empty message', text(['']), [''], undefined, undefined],
    [
      'two messages in a chunk',
      [Buffer.concat(text(['a', 'bc']))],
      ['a', 'bc'],
      undefined,
      undefined,
    ],
    [
      'a message of the limit',
      text(['x'.repeat(1_000)]),
      ['x'.repeat(1_000)],
      undefined,
      undefined,
    ],
    ['a byte more', [announce(1_001)], [], resourceExhausted, resourceExhausted],
    ['4 GiB - 1', [announce(2 ** 32 - 1)], [], resourceExhausted, resourceExhausted],
    [
      'a message, then 4 GiB - 1',
      [...text(['a']), announce(2 ** 32 - 1)],
      ['a'],
      resourceExhausted,
      resourceExhausted,
    ],
    [
      'bytes after the error',
      [announce(2_000), ...text(['a'])],
      [],
      resourceExhausted,
      resourceExhausted,
    ],
    ['the Compressed-Flag', [announce(1, 1), Buffer.from('a')], [], internal, internal],
    ['another flag', [announce(1, 255)], [], internal, internal],
    ['half a prefix', [announce(3).subarray(0, 3)], [], undefined, internal],
    ['a prefix alone', [announce(3)], [], undefined, internal],
    ['half a message', [announce(3), Buffer.from('ab')], [], undefined, internal],
  ];
  for (const [what, chunks, messages, failure, end] of rows) {
    const outcome = read(chunks);
    t.strictSame(outcome.messages, messages, what);
    t.equal(outcome.failure?.code, failure, what);
    t.equal(outcome.end?.code, end, `${what}: at the end of the stream`);
  }
  t.end();
});

// Hypothesis: where chunks begin and end means nothing (PROTOCOL-HTTP2.md: "DATA frame boundaries have
// no relation to Length-Prefixed-Message boundaries").
t.test('any split of any messages gives the same messages', (t) => {
  const messages = fc.array(fc.string({ unit: 'binary-ascii', maxLength: 60 }), { maxLength: 10 });
  const cuts = fc.array(fc.nat(700), { maxLength: 20 });
  fc.assert(
    fc.property(messages, cuts, (sent, cutAt) => {
      const bytes = Buffer.concat(text(sent));
      const ends = [...cutAt.map((at) => Math.min(at, bytes.length)), bytes.length];
      const chunks = ends
        .sort((a, b) => a - b)
        .map((end, index) => Buffer.from(bytes.subarray(ends[index - 1] ?? 0, end)));
      t.strictSame(read(chunks), { messages: sent, failure: undefined, end: undefined });
    }),
  );
  t.end();
});

t.test('a handler may keep no view: the reader copies only messages that come in parts', (t) => {
  const reader = new MessageReader(MAX_BYTES);
  const whole = text(['whole'])[0]!;
  reader.push(whole, (message) => {
    t.equal(message.buffer, whole.buffer, 'a view');
  });
  const [parts] = text(['parts']);
  const ignore = (): void => undefined;
  reader.push(parts!.subarray(0, 7), ignore);
  reader.push(parts!.subarray(7), (message) => {
    t.not(message.buffer, parts!.buffer, 'a copy, since a view would pin the buffer of each part');
    t.equal(message.toString(), 'parts');
  });
  t.end();
});

t.test('the reader keeps what came, not what was announced', (t) => {
  const maxBytes = 4_194_304;
  const reader = new MessageReader(maxBytes);
  const ignore = (): void => undefined;
  reader.push(announce(maxBytes), ignore);
  t.equal(reader.bufferBytes, 0);
  const chunk = Buffer.alloc(1_024);
  for (let sent = 1_024; sent < maxBytes; sent += 1_024) {
    reader.push(chunk, ignore);
    const most = Math.min(maxBytes, 2 * sent);
    if (reader.bufferBytes > most) t.fail(`${reader.bufferBytes} bytes for ${sent}`);
  }
  t.ok(reader.bufferBytes <= maxBytes);
  let got = 0;
  reader.push(chunk, (message) => (got = message.length));
  t.equal(got, maxBytes);
  t.equal(reader.bufferBytes, 0, 'nothing is kept after the message');
  t.end();
});
