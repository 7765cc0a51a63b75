/**
 * Goal: polls lose nothing that a stream would have sent (docs/SPEC.md, "Sources"), and ask no more
 * often than they need to.
 * Method: the machine of the polls alone, with a response that is its own text.
 */
import t from 'tap';
import {
  RestPolls,
  type PollOutcome,
  type ReadBody,
} from '../../../../../authorities/core/sources/rest-polls.js';
import { decodeSotwRequest, encodeSotwRequest } from '../../../../../protos/sotw-codec.js';
import { TYPE_URL } from '../../../../../protos/type-urls.js';

const CDS = TYPE_URL.cluster;
const EDS = TYPE_URL.clusterLoadAssignment;

type PollBody = Extract<PollOutcome, { readonly kind: 'body' }>;

interface Said {
  readonly version?: string;
  readonly nack?: boolean;
}

function start(random = () => 0.5) {
  const polls = new RestPolls({
    refreshDelayMs: 1_000,
    random,
  });
  const ask = (typeUrl: string, names: readonly string[], { version = '', nack }: Said = {}) =>
    polls.handleRequest({
      typeUrl,
      bytes: encodeSotwRequest({
        typeUrl,
        names,
        versionInfo: version,
        responseNonce: version === '' ? '' : 'n',
        node: new Uint8Array([1]),
        errorDetail: nack === true ? { code: 3, message: 'bad' } : undefined,
      }),
    });
  const due = (nowMs: number) =>
    polls.takeDue(nowMs).map(({ path, version, request }) => {
      const read = decodeSotwRequest(request, Infinity);
      if (!read.ok) throw new Error(read.reason);
      t.equal(read.message.versionInfo, version);
      t.equal(read.message.responseNonce, '', 'a nonce belongs to a stream');
      return { path, version, names: read.message.names, isNack: !!read.message.errorDetail };
    });
  const readBody = ({ text, nonce, digest, typeUrl }: PollBody, nowMs: number): PollOutcome => {
    const hasTtl = text.includes('ttl');
    const read: ReadBody = text.startsWith('{')
      ? { ok: false, code: 'malformed', reason: 'not like this' }
      : { ok: true, message: { bytes: Buffer.from(`${nonce} ${text}`), hasTtl } };
    return polls.handleRead(typeUrl, digest, read, nowMs);
  };
  const answer = (typeUrl: string, body: string, nowMs: number, status = 200) => {
    const first = polls.handleAnswer(typeUrl, { status, body, digest: body }, nowMs);
    const outcome = first?.kind === 'body' ? readBody(first, nowMs) : first;
    return outcome?.kind === 'message' ? Buffer.from(outcome.bytes).toString() : outcome;
  };
  return { polls, ask, due, answer };
}

t.test('a type is polled at once, then after each refresh_delay ± 10 %', (t) => {
  for (const [random, delayMs] of [
    [0, 900],
    [0.5, 1_000],
    [0.999, 1_099.8],
  ] as const) {
    const { polls, ask, due, answer } = start(() => random);
    ask(EDS, ['a']);
    t.equal(polls.nextDeadlineMs(), 0);
    t.strictSame(due(0), [
      { path: '/v3/discovery:endpoints', version: '', names: ['a'], isNack: false },
    ]);
    t.equal(polls.nextDeadlineMs(), undefined, 'one request at a time per type');
    t.equal(answer(EDS, 'one', 50), 'poll-1 one');
    t.ok(Math.abs((polls.nextDeadlineMs() ?? 0) - 50 - delayMs) < 1e-6);
    t.strictSame(due(49 + delayMs), []);
    t.equal(due(50.1 + delayMs).length, 1);
  }
  t.end();
});

t.test('an ACK causes no poll, and its version is in the next one', (t) => {
  const { ask, due, answer } = start();
  ask(EDS, ['a']);
  due(0);
  answer(EDS, 'one', 0);
  ask(EDS, ['a'], { version: '1' });
  t.strictSame(due(1), []);
  t.match(due(1_000), [{ version: '1', names: ['a'] }]);
  t.match(answer(EDS, '', 1_000, 304), { kind: 'alive' });
  t.match(due(2_000), [{ version: '1' }]);
  t.equal(answer(EDS, 'two', 2_000), 'poll-2 two');
  t.end();
});

t.test(
  'a change of names is polled at once and without the version, which would get a 304',
  (t) => {
    const { ask, due, answer } = start();
    ask(EDS, ['a']);
    due(0);
    answer(EDS, 'one', 0);
    ask(EDS, ['a'], { version: '1' });
    ask(EDS, ['a', 'b'], { version: '1' });
    t.match(due(1), [{ version: '', names: ['a', 'b'] }]);
    t.equal(answer(EDS, 'one', 1), 'poll-2 one', 'the same body answers other names');
    t.match(due(1_001), [{ version: '1' }]);
    t.end();
  },
);

t.test('names that change during a poll are polled as soon as it is answered', (t) => {
  const { ask, due, answer } = start();
  ask(EDS, ['a']);
  due(0);
  ask(EDS, ['a', 'b']);
  t.strictSame(due(1), []);
  t.equal(answer(EDS, 'one', 2), 'poll-1 one');
  ask(EDS, ['a', 'b'], { version: '1' });
  t.match(due(2), [{ version: '', names: ['a', 'b'] }]);
  answer(EDS, 'one', 3, 304);
  t.match(due(1_003), [{ version: '' }], 'not answered for these names yet');
  t.end();
});

t.test('names that left and came back between two polls are polled again', (t) => {
  const { ask, due, answer } = start();
  ask(EDS, ['a', 'b']);
  due(0);
  answer(EDS, 'one', 0);
  ask(EDS, ['a'], { version: '1' });
  ask(EDS, ['a', 'b'], { version: '1' });
  t.match(due(1), [{ version: '', names: ['a', 'b'] }]);
  t.end();
});

t.test(
  'the same response again is not passed on, but one with TTLs is, since it renews them',
  (t) => {
    const { ask, due, answer } = start();
    ask(CDS, []);
    due(0);
    t.equal(answer(CDS, 'one', 0), 'poll-1 one');
    due(1_000);
    t.match(answer(CDS, 'one', 1_000), { kind: 'alive' });
    due(2_000);
    t.equal(answer(CDS, 'two ttl', 2_000), 'poll-2 two ttl');
    ask(CDS, [], { version: '2' });
    t.match(due(3_000), [{ version: '' }], 'a 304 would renew nothing');
    t.equal(answer(CDS, 'two ttl', 3_000), 'poll-3 two ttl');
    t.end();
  },
);

t.test('after a NACK the poll has no version: going back to the old one is a change too', (t) => {
  const { ask, due, answer } = start();
  ask(CDS, []);
  due(0);
  answer(CDS, 'one', 0);
  ask(CDS, [], { version: '1' });
  due(1_000);
  answer(CDS, 'two', 1_000);
  ask(CDS, [], { version: '1', nack: true });
  t.match(due(2_000), [{ version: '', isNack: true }]);
  t.match(answer(CDS, 'two', 2_000), { kind: 'alive' }, 'rejected once');
  due(3_000);
  t.equal(answer(CDS, 'one', 3_000), 'poll-3 one');
  t.end();
});

t.test('a poll without names is the wildcard, so a type without names is not polled', (t) => {
  const { polls, ask, due, answer } = start();
  ask(CDS, ['*', 'a']);
  t.strictSame(due(0)[0]?.names, [], 'the wildcard has the names too');
  answer(CDS, 'one', 0);
  ask(CDS, [], { version: '1' });
  t.equal(polls.nextDeadlineMs(), undefined);
  t.strictSame(due(5_000), []);
  ask(CDS, ['a'], { version: '1' });
  t.match(due(5_000), [{ names: ['a'] }]);
  t.end();
});

t.test('HTTP errors have the codes of gRPC', (t) => {
  for (const [status, code] of [
    [401, 16],
    [403, 7],
    [404, 12],
    [429, 14],
    [500, 14],
    [503, 14],
    [400, 13],
    [302, 2],
  ] as const) {
    const { ask, due, answer } = start();
    ask(EDS, ['a']);
    due(0);
    t.match(answer(EDS, 'no\nsuch thing', 0, status), {
      kind: 'end',
      end: { code, message: `HTTP ${status}: no such thing`, detectedBy: 'stream' },
    });
  }
  const { ask, due, answer } = start();
  ask(EDS, ['a']);
  due(0);
  t.match(answer(EDS, '{', 0), {
    end: { code: 13, message: 'unreadable response: not like this' },
  });
  t.end();
});

t.test(
  'a type that is served again is read again, although its body is the same: a name that it lacks has an answer now',
  (t) => {
    const { ask, due, answer } = start();
    ask(CDS, []);
    ask(EDS, ['a']);
    due(0);
    answer(CDS, 'one', 0);
    answer(EDS, 'two', 0);
    due(9_000);
    answer(CDS, 'one', 9_000);
    t.match(answer(EDS, '', 9_000, 404), { kind: 'unserved' });
    due(18_000);
    answer(CDS, 'one', 18_000);
    t.equal(answer(EDS, 'two', 18_000), 'poll-3 two');
    t.end();
  },
);

t.test(
  'a type that the server lacks leaves the others polled, and is reported once until it is there',
  (t) => {
    const { ask, due, answer } = start();
    ask(CDS, []);
    ask(EDS, ['a']);
    t.equal(due(0).length, 2);
    t.match(answer(EDS, 'no endpoint', 0, 404), { kind: 'unserved', typeUrl: EDS });
    t.match(ask(EDS, ['a', 'b']), { kind: 'unserved', typeUrl: EDS });
    answer(CDS, 'one', 0);
    t.strictSame(due(0), [], 'new names of that type wait for its next poll');
    t.match(due(9_000), [{ path: '/v3/discovery:clusters' }, { path: '/v3/discovery:endpoints' }]);
    answer(CDS, 'one', 9_000);
    t.equal(answer(EDS, 'no endpoint', 9_000, 404), undefined, 'it is known, and no sign of life');
    due(18_000);
    answer(CDS, 'one', 18_000);
    t.equal(answer(EDS, 'two', 18_000), 'poll-2 two', 'the proxy found the server again');
    t.equal(ask(EDS, ['a']), undefined);
    due(27_000);
    t.match(answer(EDS, '', 27_000, 404), { kind: 'unserved' });
    t.match(answer(CDS, '', 27_000, 404), { kind: 'end', end: { code: 12 } }, 'the last one');
    const other = 'type.googleapis.com/istio.v1.NameTable';
    t.match(ask(other, ['x']), { kind: 'unserved', typeUrl: other }, 'no REST path');
    t.end();
  },
);

t.test('while a body is read there is no further poll of its type', (t) => {
  const { polls, ask, due } = start();
  ask(CDS, ['a']);
  due(0);
  const answer = polls.handleAnswer(CDS, { status: 200, body: 'x', digest: 'x' }, 0);
  t.match(answer, { kind: 'body', typeUrl: CDS, digest: 'x' });
  t.equal(polls.nextDeadlineMs(), undefined);
  ask(CDS, ['a', 'b']);
  t.strictSame(due(60_000), []);
  polls.handleRead(CDS, 'x', { ok: true, message: { bytes: Buffer.from('x'), hasTtl: false } }, 50);
  t.match(due(50), [{ names: ['a', 'b'] }], 'changed names are polled at once');
  t.match(
    polls.handleAnswer(CDS, { status: 200, body: 'x', digest: 'x' }, 60),
    { kind: 'body' },
    'the body did not answer the names of the next poll',
  );
  t.end();
});
