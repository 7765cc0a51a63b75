/**
 * Goal: the rules about absence of the state-of-the-world protocol (docs/SPEC.md, "What each variant
 * of a source does"), and the form of its requests.
 * Method: the state machine of the stream alone.
 */
import t from 'tap';
import { wholeOf } from '../../../../../protos/discovery-fields.js';
import { encodeSotwResponse } from '../../../../../protos/sotw-codec.js';
import { lengthDelimited } from '../../../../sim/names.js';
import {
  bare,
  bodyOf,
  CDS,
  EDS,
  old,
  start,
  wrapped,
} from '../../../../support/sotw-stream-rig.js';
import { STREAM_OPTIONS } from '../../../../support/stream-options.js';
import { at } from '../../../../support/stream-times.js';

t.test('the wildcard alone is a request without names, and later an explicit name', (t) => {
  const { stream, subscribe, requests, respond } = start();
  subscribe(CDS, '*');
  stream.handleOpened();
  t.match(requests(), [{ names: [], versionInfo: '', responseNonce: '', node: true }]);
  respond(CDS, '1', []);
  t.match(requests(), [{ names: [], versionInfo: '1', responseNonce: 'n1', node: false }]);
  subscribe(CDS, 'a');
  t.match(requests(), [{ names: ['*', 'a'], versionInfo: '1', responseNonce: 'n1' }]);
  t.end();
});

t.test('every request has all names, and an ACK carries the changes (one per response)', (t) => {
  const { stream, subscribe, unsubscribe, requests, respond } = start();
  subscribe(EDS, 'a');
  stream.handleOpened();
  requests();
  subscribe(EDS, 'b');
  respond(EDS, '1', [bare(EDS, 'a')]);
  respond(EDS, '2', [bare(EDS, 'a', 2)]);
  t.match(requests(), [
    { names: ['a', 'b'], versionInfo: '1', responseNonce: 'n1' },
    { names: ['a', 'b'], versionInfo: '2', responseNonce: 'n2' },
  ]);
  unsubscribe(EDS, 'a');
  unsubscribe(EDS, 'b');
  t.match(requests(), [{ names: [], versionInfo: '2', responseNonce: 'n2' }]);
  t.end();
});

t.test('a wildcard that was requested without names cannot be left, so nothing is said', (t) => {
  const { stream, subscribe, unsubscribe, requests, respond, held } = start();
  subscribe(CDS, '*');
  stream.handleOpened();
  requests();
  unsubscribe(CDS, '*');
  t.strictSame(requests(), []);
  respond(CDS, '1', [bare(CDS, 'a')]);
  t.strictSame(held(CDS), []);
  t.match(requests(), [{ names: [], responseNonce: 'n1' }], 'the response is acknowledged');
  t.end();
});

t.test(
  'a wildcard requested without names needs a new stream to be subscribed again; an explicit one does not',
  (t) => {
    const { stream, subscribe, unsubscribe, requests } = start();
    subscribe(CDS, '*');
    stream.handleOpened();
    requests();
    t.equal(stream.mustRestart, false);
    unsubscribe(CDS, '*');
    subscribe(CDS, '*');
    t.equal(stream.mustRestart, true);
    stream.handleEnded();
    t.equal(stream.mustRestart, false);
    const other = start();
    other.subscribe(CDS, '*');
    other.subscribe(CDS, 'a');
    other.stream.handleOpened();
    other.requests();
    other.unsubscribe(CDS, '*');
    other.subscribe(CDS, '*');
    t.equal(other.stream.mustRestart, false);
    t.match(other.requests(), [{ names: ['a'] }, { names: ['*', 'a'] }]);
    t.end();
  },
);

t.test('a response of a type that was not requested is not acknowledged', (t) => {
  const { stream, subscribe, requests, respond } = start();
  subscribe(EDS, 'a');
  stream.handleOpened();
  requests();
  respond(CDS, '1', [bare(CDS, 'a')]);
  t.strictSame(requests(), [], 'its ACK would subscribe the wildcard');
  t.end();
});

t.test('a NACK repeats the last good version and accepts the good resources', (t) => {
  const { stream, subscribe, requests, respond, held } = start();
  subscribe(CDS, '*');
  stream.handleOpened();
  requests();
  respond(CDS, '1', [bare(CDS, 'a')]);
  requests();
  respond(CDS, '2', [bare(CDS, 'a', 2), bare(EDS, 'b')]);
  const [nack] = requests();
  t.match(nack, { versionInfo: '1', responseNonce: 'n2', nack: /^b carries / });
  t.strictSame(held(CDS), ['a']);
  const twice = respond(CDS, '3', [bare(CDS, 'c'), bare(CDS, 'c')]);
  t.match(twice, { message: { outcome: { accepted: 0, refused: [{ name: 'c' }] } } });
  t.strictSame(held(CDS), ['a'], 'a response with a name twice changes nothing');
  t.end();
});

t.test('a version of an earlier stream is never sent (invariant 10)', (t) => {
  const { stream, subscribe, requests, respond } = start();
  subscribe(CDS, '*');
  stream.handleOpened();
  requests();
  respond(CDS, '1', [bare(CDS, 'a')]);
  requests();
  stream.handleEnded();
  stream.handleOpened();
  t.match(requests(), [{ versionInfo: '', responseNonce: '', node: true }]);
  t.end();
});

t.test('a cluster that a whole response lacks is deleted', (t) => {
  const { stream, subscribe, requests, respond, held, changes } = start();
  subscribe(CDS, '*');
  stream.handleOpened();
  requests();
  respond(CDS, '1', [bare(CDS, 'a'), bare(CDS, 'b')]);
  changes();
  respond(CDS, '2', [bare(CDS, 'b')]);
  t.strictSame(held(CDS), ['b']);
  t.strictSame(changes(), [['removed', 'a', false]]);
  respond(CDS, '3', []);
  t.strictSame(held(CDS), []);
  t.end();
});

t.test('removals in the first response of a new stream pass the guard (resync)', (t) => {
  const { stream, subscribe, requests, respond, changes } = start();
  subscribe(CDS, '*');
  stream.handleOpened();
  requests();
  respond(CDS, '1', [bare(CDS, 'a'), bare(CDS, 'b')]);
  stream.handleEnded();
  stream.handleOpened();
  requests();
  changes();
  respond(CDS, '1', [bare(CDS, 'b')]);
  t.strictSame(
    changes().filter(([kind]) => kind === 'removed'),
    [['removed', 'a', true]],
  );
  t.end();
});

t.test('endpoints that a response lacks are unknown, never deleted', (t) => {
  const { stream, subscribe, requests, respond, held, changes, contents } = start();
  subscribe(EDS, 'a');
  subscribe(EDS, 'b');
  stream.handleOpened();
  requests();
  respond(EDS, '1', [bare(EDS, 'a'), bare(EDS, 'b')]);
  changes();
  respond(EDS, '2', [bare(EDS, 'b', 2)]);
  respond(EDS, '3', []);
  t.strictSame(held(EDS), ['a', 'b']);
  t.strictSame(
    changes().filter(([kind]) => kind === 'removed'),
    [],
  );
  t.equal(contents.answerFor(EDS, old('a')), 'present');
  t.end();
});

t.test('an answered wildcard of endpoints proves no absence: its set may be partial', (t) => {
  const { stream, subscribe, requests, respond, status, contents } = start();
  subscribe(EDS, '*');
  stream.handleOpened();
  requests();
  respond(EDS, '1', [bare(EDS, 'a')]);
  t.equal(status(EDS, '*'), 'present');
  t.equal(contents.answerFor(EDS, old('b')), 'timed_out');
  t.equal(contents.isWhole(EDS, old('*')), false);
  t.end();
});

t.test('a name that never came is absent only after resource_timeout', (t) => {
  const { stream, subscribe, requests, respond, status } = start();
  subscribe(CDS, 'a');
  subscribe(CDS, 'b');
  stream.handleOpened();
  requests();
  respond(CDS, '1', [bare(CDS, 'a')]);
  t.equal(status(CDS, 'b'), 'requested');
  stream.handleTimer(STREAM_OPTIONS.resourceTimeoutMs - 1);
  t.equal(status(CDS, 'b'), 'requested');
  t.equal(stream.nextDeadlineMs(), STREAM_OPTIONS.resourceTimeoutMs);
  stream.handleTimer(STREAM_OPTIONS.resourceTimeoutMs);
  t.equal(status(CDS, 'b'), 'absent', 'the set that came lacks it');
  t.end();
});

t.test('the timeout of a name that was left and subscribed again needs a new stream', (t) => {
  const { stream, subscribe, unsubscribe, requests, respond, status } = start();
  subscribe(CDS, 'a');
  subscribe(CDS, 'b');
  stream.handleOpened();
  requests();
  respond(CDS, '1', [bare(CDS, 'a'), bare(CDS, 'b')]);
  requests();
  unsubscribe(CDS, 'b');
  requests();
  subscribe(CDS, 'b');
  requests();
  stream.handleTimer(STREAM_OPTIONS.resourceTimeoutMs);
  t.equal(status(CDS, 'b'), 'requested', 'the server may have ignored the requests in between');
  t.equal(stream.mustRestart, true);
  stream.handleEnded();
  stream.handleOpened();
  requests();
  stream.handleTimer(STREAM_OPTIONS.resourceTimeoutMs);
  t.equal(stream.mustRestart, false, 'once');
  t.end();
});

t.test('the timeout of a name that came while it was unsubscribed needs a new stream', (t) => {
  const { stream, subscribe, unsubscribe, requests, respond } = start();
  subscribe(EDS, 'a');
  subscribe(EDS, 'b');
  stream.handleOpened();
  requests();
  unsubscribe(EDS, 'b');
  requests();
  respond(EDS, '1', [bare(EDS, 'a'), bare(EDS, 'b')]);
  subscribe(EDS, 'b');
  requests();
  stream.handleTimer(STREAM_OPTIONS.resourceTimeoutMs);
  t.equal(stream.mustRestart, true, 'the server ignored the request without the name (seed 42490)');
  t.end();
});

t.test('an ACK, which has all names, does not postpone their timeouts', (t) => {
  const { stream, subscribe, requests, respond } = start();
  subscribe(EDS, 'a');
  subscribe(EDS, 'b');
  stream.handleOpened();
  requests();
  respond(EDS, '1', [bare(EDS, 'a')], 20_000);
  t.equal(requests(20_000).length, 1);
  t.equal(stream.nextDeadlineMs(), STREAM_OPTIONS.resourceTimeoutMs);
  t.end();
});

t.test('a name whose type had no response, or partial ones, is unknown after the timeout', (t) => {
  const { stream, subscribe, requests, respond, status } = start();
  subscribe(CDS, 'a');
  subscribe(EDS, 'a');
  stream.handleOpened();
  requests();
  respond(EDS, '1', []);
  stream.handleTimer(STREAM_OPTIONS.resourceTimeoutMs);
  t.strictSame([status(CDS, 'a'), status(EDS, 'a')], ['timed_out', 'timed_out']);
  t.end();
});

t.test(
  'a name that the first set lacks is absent, although its timeout was before (seed 6005252)',
  (t) => {
    const { stream, subscribe, requests, respond, status } = start();
    subscribe(CDS, 'a');
    subscribe(CDS, '*');
    stream.handleOpened();
    requests();
    const { resourceTimeoutMs } = STREAM_OPTIONS;
    stream.handleTimer(resourceTimeoutMs);
    t.equal(status(CDS, 'a'), 'timed_out');
    const setMs = 10 * resourceTimeoutMs;
    respond(CDS, '1', [bare(CDS, 'b')], setMs);
    requests(setMs);
    stream.handleTimer(setMs + resourceTimeoutMs - 1);
    t.equal(status(CDS, 'a'), 'requested', 'it may still come');
    stream.handleTimer(setMs + resourceTimeoutMs);
    t.equal(status(CDS, 'a'), 'absent');
    t.end();
  },
);

t.test('the timeout of a name that was left does not remove it as a member of a glob', (t) => {
  const { stream, subscribe, unsubscribe, requests, respond, held } = start();
  subscribe(CDS, '*');
  subscribe(CDS, 'a');
  stream.handleOpened();
  requests();
  unsubscribe(CDS, 'a');
  respond(CDS, '1', [bare(CDS, 'a')]);
  stream.handleTimer(STREAM_OPTIONS.resourceTimeoutMs);
  t.strictSame(held(CDS), ['a']);
  t.end();
});

t.test(
  'a member that is subscribed by its name too stays, although the server does not send it again (invariant 3)',
  (t) => {
    // Simulation, seed 125286. go-control-plane responds to no name that it has sent.
    const { stream, subscribe, unsubscribe, requests, respond, held, status, changes } = start();
    subscribe(CDS, '*');
    stream.handleOpened();
    requests();
    respond(CDS, '1', [bare(CDS, 'a')]);
    requests();
    changes();
    subscribe(CDS, 'a', 1_000);
    t.match(requests(1_000), [{ names: ['*', 'a'] }]);
    stream.handleTimer(1_000 + STREAM_OPTIONS.resourceTimeoutMs);
    t.strictSame(held(CDS), ['a']);
    t.strictSame(changes(), [['settled', 'a', false]], 'it is answered, and nothing is removed');
    t.equal(status(CDS, 'a'), 'present');
    for (const typeUrl of [CDS, EDS]) {
      subscribe(typeUrl, '*');
      subscribe(typeUrl, 'a');
      requests();
      respond(typeUrl, '2', [bare(typeUrl, 'a')]);
      requests();
      unsubscribe(typeUrl, 'a');
      requests();
      subscribe(typeUrl, 'a', 50_000);
      requests(50_000);
    }
    stream.handleTimer(50_000 + STREAM_OPTIONS.resourceTimeoutMs);
    t.equal(stream.mustRestart, false, 'left and subscribed again');
    t.strictSame([held(CDS), held(EDS)], [['a'], ['a']]);
    t.end();
  },
);

t.test('an empty response answers the wildcard of the first request', (t) => {
  const { stream, subscribe, requests, respond, status } = start();
  subscribe(CDS, '*');
  stream.handleOpened();
  requests();
  respond(CDS, '1', []);
  t.equal(status(CDS, '*'), 'present');
  t.end();
});

t.test('the end of the first set answers its globs, with all of their members', (t) => {
  const { contents, stream, subscribe, requests, respond, status } = start();
  const glob = (typeUrl: string) => contents.subscription(typeUrl, old('*'))!;
  for (const typeUrl of [CDS, EDS]) subscribe(typeUrl, '*');
  stream.handleOpened();
  requests();
  contents.takeChanges();
  respond(CDS, '1', [bare(CDS, 'a'), bare(CDS, 'b')]);
  const ids = contents.takeChanges().map(({ kind, name }) => `${kind} ${name.id}`);
  t.equal(ids.at(-1), 'settled *', 'not its first member');
  t.ok(stream.answersAtOnce(glob(CDS)));
  respond(EDS, '1', [bare(EDS, 'a')]);
  t.equal(status(EDS, '*'), 'present');
  t.notOk(stream.answersAtOnce(glob(EDS)), 'a set of endpoints may be partial');
  t.end();
});

t.test('the first set answers a glob that was added meanwhile if it has members of it', (t) => {
  const { contents, stream, subscribe, requests, respond, status } = start();
  subscribe(CDS, 'x');
  stream.handleOpened();
  requests();
  subscribe(CDS, '*');
  requests();
  respond(CDS, '1', [bare(CDS, 'b')]);
  t.equal(status(CDS, '*'), 'present');
  const later = contents.subscription(CDS, old('*'))!;
  t.notOk(stream.answersAtOnce(later), 'the rest may come with the response to the later request');
  t.end();
});

t.test('a wildcard that was added later is not answered by a response that may be older', (t) => {
  const { stream, subscribe, requests, respond, status } = start();
  subscribe(CDS, 'a');
  stream.handleOpened();
  requests();
  subscribe(CDS, '*');
  requests();
  respond(CDS, '1', [bare(CDS, 'a')]);
  t.equal(status(CDS, '*'), 'requested');
  respond(CDS, '2', [bare(CDS, 'a'), bare(CDS, 'b')]);
  t.equal(status(CDS, '*'), 'present');
  t.end();
});

t.test('a glob that responses lack is empty if the server is silent after the newest ACK', (t) => {
  const { stream, subscribe, requests, respond, status } = start();
  const { quietResumeMs, resourceTimeoutMs } = STREAM_OPTIONS;
  subscribe(CDS, 'a');
  stream.handleOpened();
  requests();
  respond(CDS, '1', [bare(CDS, 'a')]);
  requests();
  subscribe(CDS, '*');
  requests();
  respond(CDS, '2', [bare(CDS, 'a')]);
  t.equal(stream.nextDeadlineMs(), resourceTimeoutMs, 'no ACK, no wait (seed 48086)');
  requests(8_000);
  t.equal(stream.nextDeadlineMs(), 8_000 + quietResumeMs);
  respond(CDS, '3', [bare(CDS, 'a')], 8_900);
  requests(9_000);
  const dueMs = 9_000 + quietResumeMs;
  t.equal(
    stream.nextDeadlineMs(),
    dueMs,
    'the server may have ignored the request before this one',
  );
  respond(CDS, '4', [bare(CDS, 'a')], 10_000);
  requests(20_000);
  t.equal(stream.nextDeadlineMs(), dueMs, 'but not if it sent nothing for a round trip after it');
  stream.handleTimer(dueMs - 1);
  t.equal(status(CDS, '*'), 'requested');
  stream.handleTimer(dueMs);
  t.equal(status(CDS, '*'), 'present');
  t.end();
});

t.test('the lack of a name that was subscribed again passes the guard', (t) => {
  const { stream, subscribe, unsubscribe, requests, respond, changes } = start();
  subscribe(CDS, 'a');
  subscribe(CDS, 'b');
  stream.handleOpened();
  requests();
  unsubscribe(CDS, 'b');
  requests();
  subscribe(CDS, 'b', 100);
  requests(100);
  // Answers to the first and second request, which were under way.
  respond(CDS, '1', [bare(CDS, 'a'), bare(CDS, 'b')], 110);
  changes();
  respond(CDS, '2', [bare(CDS, 'a')], 120);
  t.strictSame(changes(), [['removed', 'b', true]]);
  t.end();
});

t.test('a response with a nameless resource deletes nothing', (t) => {
  const { stream, subscribe, requests, respond, held } = start();
  subscribe(CDS, '*');
  stream.handleOpened();
  requests();
  respond(CDS, '1', [bare(CDS, 'a'), bare(CDS, 'b')]);
  const nameless = lengthDelimited(2, lengthDelimited(1, Buffer.from(CDS)));
  respond(CDS, '2', [bare(CDS, 'a'), nameless]);
  t.strictSame(held(CDS), ['a', 'b']);
  t.end();
});

t.test('a resource of a type without names answers the only subscribed name', (t) => {
  const NAMELESS = 'type.googleapis.com/test.v1.NameTable';
  const { stream, subscribe, requests, respond, held } = start();
  subscribe(NAMELESS, 'table');
  stream.handleOpened();
  requests();
  respond(NAMELESS, '1', [bare(NAMELESS, 'x')]);
  t.strictSame(held(NAMELESS), ['table']);
  t.end();
});

t.test('a heartbeat renews a TTL, and is not a whole set (xDS protocol, "TTL")', (t) => {
  const { stream, subscribe, requests, respond, held, contents } = start();
  subscribe(CDS, '*');
  stream.handleOpened();
  requests();
  respond(CDS, '1', [bare(CDS, 'b'), wrapped('a', '7', 5, bodyOf('a', 1))], 0);
  t.strictSame([...held(CDS)].sort(), ['a', 'b']);
  t.equal(contents.entry(CDS, old('a'))?.expiresAtMs, 5_000);
  respond(CDS, '1', [wrapped('a', '', 5)], 4_000);
  t.strictSame([...held(CDS)].sort(), ['a', 'b']);
  t.equal(contents.entry(CDS, old('a'))?.expiresAtMs, 9_000);
  t.end();
});

t.test('one stream per type: each begins with the Node; a server may want it every time', (t) => {
  for (const [change, nodes] of [
    [{ isPerType: true }, [true, true, false]],
    [{ nodeInEveryRequest: true }, [true, true, true]],
    [{}, [true, false, false]],
  ] as const) {
    const { stream, subscribe, requests, respond } = start(change);
    subscribe(CDS, '*');
    subscribe(EDS, 'a');
    stream.handleOpened();
    const first = requests();
    respond(CDS, '1', []);
    t.strictSame(
      [...first, ...requests()].map(({ node }) => node),
      nodes,
    );
  }
  t.end();
});

t.test(
  'silence is a failure only while a listener or cluster is subscribed (found by seed 1221)',
  (t) => {
    const { stream, subscribe, requests, respond } = start();
    subscribe(EDS, 'a');
    stream.handleOpened();
    requests();
    t.equal(stream.owesResponse(), false, 'the server may lack these endpoints');
    respond(EDS, '1', [bare(EDS, 'a')]);
    stream.handleEnded();
    stream.handleOpened();
    t.equal(stream.owesResponse(), false);
    const other = start();
    other.subscribe(CDS, 'a');
    other.stream.handleOpened();
    t.equal(other.stream.owesResponse(), true);
    t.end();
  },
);

t.test('an unreadable response is reported as such', (t) => {
  const { stream, subscribe } = start();
  subscribe(CDS, '*');
  stream.handleOpened();
  t.match(stream.handleMessage(Buffer.from([0x0a, 0x7f]), at(0)), { ok: false, code: 'malformed' });
  t.end();
});

t.test('an error about a cluster is not a deletion; NOT_FOUND is one (TP3)', (t) => {
  const { stream, subscribe, requests, respond, held, status } = start();
  subscribe(CDS, 'a');
  subscribe(CDS, 'b');
  stream.handleOpened();
  requests();
  respond(CDS, '1', [bare(CDS, 'a'), bare(CDS, 'b')]);
  const errors = [
    { name: 'a', status: { code: 14, message: 'later' } },
    { name: 'b', status: { code: 5, message: 'gone' } },
    { name: '', status: { code: 14, message: '' } },
  ];
  const parts = { typeUrl: CDS, versionInfo: '2', nonce: 'e', resources: [], errors };
  t.match(stream.handleMessage(wholeOf(encodeSotwResponse(parts)), at(0)), { message: { errors } });
  t.strictSame(held(CDS), ['a']);
  t.equal(status(CDS, 'b'), 'absent');
  t.end();
});

t.test('a quiet stream says nothing about its names', (t) => {
  const { stream, subscribe, requests, status } = start();
  subscribe(EDS, 'a');
  stream.handleOpened();
  t.equal(stream.hasRequest, true);
  requests();
  t.equal(stream.hasRequest, false);
  stream.handleQuietResume();
  t.equal(status(EDS, 'a'), 'requested');
  t.end();
});

t.test('names that come and go without a stream are not remembered', (t) => {
  const { stream, subscribe, unsubscribe, requests } = start();
  subscribe(EDS, 'a');
  subscribe(EDS, 'b');
  unsubscribe(EDS, 'b');
  stream.handleOpened();
  t.match(requests(), [{ names: ['a'] }]);
  t.end();
});

t.test(
  'a first response that is refused as a whole, or a heartbeat, is not a set: the next one is guarded',
  (t) => {
    for (const first of [[bare(CDS, 'x'), bare(CDS, 'x')], [wrapped('b', '', 5)]]) {
      const { stream, subscribe, requests, respond, changes } = start();
      subscribe(CDS, '*');
      stream.handleOpened();
      requests();
      respond(CDS, '1', [bare(CDS, 'a'), bare(CDS, 'b')]);
      stream.handleEnded();
      stream.handleOpened();
      requests();
      respond(CDS, '2', first);
      changes();
      respond(CDS, '3', [bare(CDS, 'b')]);
      t.strictSame(
        changes().filter(([kind]) => kind === 'removed'),
        [['removed', 'a', true]],
      );
    }
    t.end();
  },
);

t.test('the names that a stream remembers as sent and unsubscribed are bounded', (t) => {
  const { stream, subscribe, unsubscribe, requests, respond } = start();
  const names = Array.from({ length: 10_001 }, (_, index) => `e${index}`);
  for (const name of names) subscribe(EDS, name);
  stream.handleOpened();
  requests();
  respond(
    EDS,
    '1',
    names.map((name) => bare(EDS, name)),
  );
  for (const name of names) unsubscribe(EDS, name);
  requests();
  subscribe(EDS, 'e0');
  requests();
  stream.handleTimer(STREAM_OPTIONS.resourceTimeoutMs);
  t.equal(stream.mustRestart, false, 'the first one is forgotten');
  subscribe(EDS, 'e1', 40_000);
  requests(40_000);
  stream.handleTimer(40_000 + STREAM_OPTIONS.resourceTimeoutMs);
  t.equal(stream.mustRestart, true);
  t.end();
});

t.test('a name that never came is not worth a new stream, however often it is subscribed', (t) => {
  const { stream, subscribe, unsubscribe, requests, status } = start();
  subscribe(EDS, 'stays');
  subscribe(EDS, 'a');
  stream.handleOpened();
  requests();
  unsubscribe(EDS, 'a');
  requests();
  subscribe(EDS, 'a');
  requests();
  stream.handleTimer(STREAM_OPTIONS.resourceTimeoutMs);
  t.equal(stream.mustRestart, false);
  t.equal(status(EDS, 'a'), 'timed_out');
  t.end();
});
