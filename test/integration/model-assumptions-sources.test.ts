/**
 * Goal: the assumptions of the simulation about streams to sources are true.
 * Method: each assumption of test/sim/source-links.ts, upstream.ts and network.ts is tried once on
 * real sockets, with the real shell. docs/SIMULATION.md lists them under "Assumptions of sockets".
 */
import { constants, type ServerHttp2Stream } from 'node:http2';
import t from 'tap';
import type { StreamEnd } from '../../authorities/core/sources/source-health.js';
import {
  dialSource,
  grpcFrame,
  MAX_RECEIVE_BYTES,
  PROBE,
  startHttp2Source,
  startSource,
  type Dialled,
} from '../support/dialled-source.js';
import { areSame, numbered } from '../support/numbered-messages.js';
import type { RawCall } from '../support/raw-server.js';
import { pause, until } from '../support/until.js';

/** "Both sides are notified of an end within a second." */
const TOLD_MS = 1_000;
/** How long a test waits for an event that must not happen. */
const QUIET_MS = 150;
const flood = (call: RawCall): void => {
  for (const message of numbered(500)) call.write(message);
};

t.test('requests and responses arrive in order and complete (network.ts: Pipe)', async (t) => {
  const { proxy } = await startSource(t, (call, request) => call.write(request));
  const { send, messages } = dialSource(t, proxy.port);
  const requests = numbered(1_000);
  await until('it answers', () => messages.length === 1);
  for (const request of requests) send(request);
  await until('all has come back', () => messages.length === 1_001);
  t.ok(areSame(messages, [Buffer.from('first'), ...requests]));
});

t.test(
  'a source takes requests once it is connected, not before (source-links.ts: dial)',
  async (t) => {
    const { server, proxy } = await startSource(t);
    await proxy.setMode('unread');
    const dialled = dialSource(t, proxy.port);
    await until('the proxy has the connection', () => proxy.connections() === 1);
    t.equal(dialled.timesWritable, 0);
    await proxy.setMode('pass');
    await until('the request has come', () => server.requests.length === 1);
    t.equal(dialled.timesWritable, 1);
  },
);

t.test('messages delayed by a stall arrive after it, in order (network.ts: stall)', async (t) => {
  const { server, proxy } = await startSource(t);
  const { messages, ends } = dialSource(t, proxy.port);
  await until('it answers', () => messages.length === 1);
  await proxy.setMode('unread');
  for (const call of server.calls) flood(call);
  await pause(QUIET_MS);
  t.equal(messages.length, 1);
  await proxy.setMode('pass');
  await until('all has come', () => messages.length === 501);
  t.ok(areSame(messages.slice(1), numbered(500)));
  t.strictSame(ends, []);
});

t.test(
  'a stall that outlasts the probe is ended by the probe (not so in network.ts: stall)',
  async (t) => {
    const { server, proxy } = await startSource(t);
    const { messages, ends } = dialSource(t, proxy.port, PROBE);
    await until('it answers', () => messages.length === 1);
    await proxy.setMode('unread');
    for (const call of server.calls) flood(call);
    await until('it ends', () => ends.length > 0);
    t.match(ends[0]?.end, { code: 4, detectedBy: 'probe' });
    await proxy.setMode('pass');
    await pause(QUIET_MS);
    t.equal(messages.length, 1, 'delayed messages are lost with it');
  },
);

t.test(
  'nothing arrives after the end, and the end comes once (source-links.ts: cut)',
  async (t) => {
    const { proxy } = await startSource(t, flood);
    for (const mode of ['reset', 'cut'] as const) {
      const { messages, ends } = dialSource(t, proxy.port);
      await until('some have arrived', () => messages.length > 0);
      await proxy.setMode(mode);
      await until('the end is reported', () => ends.length > 0);
      await proxy.setMode('pass');
      await pause(QUIET_MS);
      t.equal(messages.length, ends[0]?.messagesBefore, mode);
      t.ok(
        areSame(messages, numbered(500).slice(0, messages.length)),
        `${mode}: no message is torn`,
      );
      t.equal(ends.length, 1, mode);
    }
  },
);

t.test(
  'after hanging up, nothing arrives, not even the end (source-links.ts: hangUp)',
  async (t) => {
    const { proxy } = await startSource(t, flood);
    const { hangUp, messages, ends } = dialSource(t, proxy.port);
    await until('some have arrived', () => messages.length > 0);
    hangUp();
    const { length } = messages;
    await until('the connection is closed', () => proxy.connections() === 0);
    await pause(QUIET_MS);
    t.equal(messages.length, length);
    t.strictSame(ends, []);
  },
);

// ---- how streams end ----------------------------------------------------------------------------

type Expected = Pick<StreamEnd, 'code' | 'detectedBy'> & { readonly answers: number };

const ENDS: readonly (readonly [how: string, expected: Expected, act: (call: RawCall) => void])[] =
  [
    [
      'the server ends it in order, after its messages',
      { code: 0, detectedBy: 'stream', answers: 100 },
      (call) => {
        for (const message of numbered(100)) call.write(message);
        call.end();
      },
    ],
    [
      'the server refuses it permanently',
      { code: 16, detectedBy: 'stream', answers: 0 },
      (call) => {
        call.emit('error', { code: 16, details: 'who are you' });
      },
    ],
    [
      'a message over the limit',
      { code: 8, detectedBy: 'oversize', answers: 1 },
      (call) => {
        call.write(Buffer.from('answer'));
        call.write(Buffer.alloc(MAX_RECEIVE_BYTES + 1));
      },
    ],
  ];

t.test('ends are reported within a second, as in the model (source-links.ts: cut)', async (t) => {
  const check = async (how: string, { ends }: Dialled, expected: Expected) => {
    const { code, detectedBy, answers } = expected;
    const sinceMs = performance.now();
    await until(`the end is reported: ${how}`, () => ends.length > 0, { everyMs: 5 });
    t.match(ends[0], { end: { code, detectedBy }, messagesBefore: answers }, how);
    t.ok(performance.now() - sinceMs < TOLD_MS, `${how}: within a second`);
  };
  const lost: Expected = { code: 14, detectedBy: 'stream', answers: 0 };
  for (const mode of ['refuse', 'reset'] as const) {
    const { proxy } = await startSource(t);
    await proxy.setMode(mode);
    await check(`at connect: ${mode}`, dialSource(t, proxy.port), lost);
  }
  for (const mode of ['reset', 'cut', 'shut down'] as const) {
    const { server, proxy } = await startSource(t);
    const dialled = dialSource(t, proxy.port);
    await until('it answers', () => dialled.messages.length === 1);
    if (mode === 'shut down') server.stop();
    else await proxy.setMode(mode);
    // A server that shuts down resets its streams first, which grpc-js reports as CANCELLED.
    const code = mode === 'shut down' ? 1 : 14;
    await check(mode, dialled, { code, detectedBy: 'stream', answers: 1 });
  }
  for (const [how, expected, act] of ENDS) {
    const { proxy } = await startSource(t, act);
    await check(how, dialSource(t, proxy.port), expected);
  }
});

const CALM = constants.NGHTTP2_ENHANCE_YOUR_CALM;

/** `act` follows one response, or sends it. */
const ODD_ENDS: readonly (readonly [
  how: string,
  code: number,
  act: (s: ServerHttp2Stream) => void,
])[] = [
  [
    'RST_STREAM, cancelled',
    1,
    (stream) => {
      stream.close(constants.NGHTTP2_CANCEL);
    },
  ],
  [
    'RST_STREAM, internal error',
    13,
    (stream) => {
      stream.close(constants.NGHTTP2_INTERNAL_ERROR);
    },
  ],
  [
    'RST_STREAM, refused',
    14,
    (stream) => {
      stream.close(constants.NGHTTP2_REFUSED_STREAM);
    },
  ],
  [
    'RST_STREAM, too much',
    8,
    (stream) => {
      stream.close(CALM);
    },
  ],
  [
    'GOAWAY for too many pings',
    8,
    (stream) => {
      stream.session?.goaway(CALM, 0, Buffer.from('too_many_pings'));
      stream.session?.destroy(undefined, CALM);
    },
  ],
  [
    'no trailers, and RST_STREAM without an error',
    13,
    (stream) => {
      stream.end(() => {
        stream.close(constants.NGHTTP2_NO_ERROR);
      });
    },
  ],
];

t.test(
  'ends with codes that the model lacks behave like UNAVAILABLE: neither a refusal nor a message over the limit (source-links.ts: cut)',
  async (t) => {
    const refusals = [7, 12, 16];
    for (const [how, code, act] of ODD_ENDS) {
      const port = await startHttp2Source(t, (stream) => {
        stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
        stream.write(grpcFrame(Buffer.from('answer')));
        stream.on('data', () => undefined);
        setTimeout(act, QUIET_MS, stream);
      });
      const { ends, messages } = dialSource(t, port);
      await until(`the end is reported: ${how}`, () => ends.length > 0);
      await pause(QUIET_MS);
      t.match(ends, [{ end: { code, detectedBy: 'stream' }, messagesBefore: 1 }], how);
      t.equal(messages.length, 1, how);
      t.notOk(refusals.includes(code), how);
    }
    // A proxy in front of the server responds in its place.
    for (const [status, code] of [
      [503, 14],
      [502, 14],
      [404, 12],
      [401, 16],
      [403, 7],
    ] as const) {
      const port = await startHttp2Source(t, (stream) => {
        stream.respond({ ':status': status }, { endStream: true });
      });
      const { ends } = dialSource(t, port);
      await until(`the end is reported: ${status}`, () => ends.length > 0);
      t.match(ends[0]?.end, { code, detectedBy: 'stream' }, `HTTP ${status}`);
    }
  },
);

t.test(
  'a server that closes its half without trailers ends no stream: it is merely silent (upstream.ts: end)',
  async (t) => {
    const port = await startHttp2Source(t, (stream) => {
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
      stream.on('data', () => undefined);
      stream.end(grpcFrame(Buffer.from('answer')));
    });
    const { ends, messages } = dialSource(t, port);
    await until('it answers', () => messages.length === 1);
    await pause(QUIET_MS);
    t.strictSame(ends, []);
  },
);

t.test('a GOAWAY alone ends no stream (source-links.ts: cut)', async (t) => {
  const port = await startHttp2Source(t, (stream) => {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
    stream.write(grpcFrame(Buffer.from('one')));
    stream.once('data', () => {
      stream.session?.goaway(constants.NGHTTP2_NO_ERROR);
      setTimeout(() => stream.write(grpcFrame(Buffer.from('two'))), QUIET_MS);
    });
  });
  const { ends, messages } = dialSource(t, port);
  await until('both have arrived', () => messages.length === 2);
  t.strictSame(ends, []);
});

// ---- found only by the probe --------------------------------------------------------------------

t.test(
  'the probe detects a dead connection within its time, and reports it once (source-links.ts: halfOpen)',
  async (t) => {
    for (const mode of ['blackhole', 'halfOpen'] as const) {
      const { server, proxy } = await startSource(t);
      const { ends, messages } = dialSource(t, proxy.port, PROBE);
      await until('it answers', () => messages.length === 1);
      await proxy.setMode(mode);
      const startedMs = performance.now();
      for (const call of server.calls) call.write(Buffer.from('lost'));
      await until('the probe detects it', () => ends.length > 0, { everyMs: 5 });
      const tookMs = performance.now() - startedMs;
      t.match(ends[0]?.end, { code: 4, detectedBy: 'probe' }, mode);
      t.ok(
        tookMs < PROBE.probeIntervalMs + PROBE.probeTimeoutMs + TOLD_MS,
        `${mode}: ${tookMs} ms`,
      );
      await proxy.setMode('pass');
      await pause(QUIET_MS);
      t.equal(ends.length, 1, mode);
      t.equal(messages.length, 1, `${mode}: messages in flight are lost`);
    }
  },
);

t.test(
  'the probe does not end a server that is alive but silent (upstream.ts: slow, mute)',
  async (t) => {
    const { server, proxy } = await startSource(t, () => undefined);
    const { ends, messages } = dialSource(t, proxy.port, PROBE);
    await until('it gets a request', () => server.requests.length === 1);
    await pause(2 * (PROBE.probeIntervalMs + PROBE.probeTimeoutMs));
    t.strictSame(ends, []);
    for (const call of server.calls) call.write(Buffer.from('late'));
    await until('it answers', () => messages.length === 1);
  },
);

t.test(
  'a black-holed attempt is ended by the probe, and the next has a connection of its own (source-links.ts: dial)',
  async (t) => {
    const { proxy } = await startSource(t);
    await proxy.setMode('blackhole');
    const { ends, messages, dialAgain } = dialSource(t, proxy.port, PROBE);
    await until('it ends', () => ends.length > 0);
    t.match(ends[0]?.end, { code: 4, detectedBy: 'probe' });
    await proxy.setMode('pass');
    dialAgain();
    await until('it answers', () => messages.length === 1);
    t.equal(ends.length, 1, 'nothing more arrives from the first');
  },
);
