/**
 * Goal: a source of the state of the world sends a name again that the gateway needs again, whatever
 * the server remembers (docs/SPEC.md, "What each variant of a source does").
 * Method: the state machine of the stream alone.
 */
import t from 'tap';
import { wholeOf } from '../../../../../protos/discovery-fields.js';
import { encodeSotwResponse } from '../../../../../protos/sotw-codec.js';
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

t.test('a name that is left and subscribed again before a request is left out of one', (t) => {
  const { stream, subscribe, unsubscribe, requests, respond } = start();
  subscribe(EDS, 'a');
  subscribe(EDS, 'b');
  stream.handleOpened();
  requests();
  respond(EDS, '1', [bare(EDS, 'a'), bare(EDS, 'b')]);
  requests();
  unsubscribe(EDS, 'b');
  subscribe(EDS, 'b');
  t.match(requests(), [{ names: ['a'] }, { names: ['a', 'b'] }]);
  t.end();
});

t.test('a name is requested again by leaving it out once; a held cluster is not', (t) => {
  const { stream, subscribe, requests, respond, contents } = start();
  subscribe(CDS, 'a');
  subscribe(CDS, 'b');
  stream.handleOpened();
  requests();
  respond(CDS, '1', [bare(CDS, 'a')]);
  requests();
  stream.handleTimer(STREAM_OPTIONS.resourceTimeoutMs);
  const [a, b] = [...contents.subscriptions(CDS)];
  stream.handleAskedAgain(a!);
  t.strictSame(requests(), []);
  stream.handleAskedAgain(b!);
  t.match(requests(), [{ names: ['a'] }, { names: ['a', 'b'] }]);
  subscribe(EDS, 'a');
  requests();
  respond(EDS, '1', [bare(EDS, 'a')]);
  requests();
  stream.handleAskedAgain(contents.subscription(EDS, old('a'))!);
  t.match(requests(), [{ names: [] }, { names: ['a'] }]);
  t.end();
});

t.test('a heartbeat of a name that expired here makes the server send it again', (t) => {
  const { stream, subscribe, requests, respond, contents, held } = start();
  subscribe(CDS, 'a');
  subscribe(CDS, 'b');
  stream.handleOpened();
  requests();
  respond(CDS, '1', [bare(CDS, 'b'), wrapped('a', '7', 5, bodyOf('a', 1))]);
  requests();
  contents.expire(5_000);
  t.strictSame(held(CDS), ['b']);
  respond(CDS, '1', [wrapped('a', '7', 5)], 6_000);
  t.match(requests(6_000), [{ names: ['b'] }, { names: ['a', 'b'] }]);
  t.end();
});

t.test('a name that is not answered yet is not requested again', (t) => {
  const { stream, subscribe, requests, contents } = start();
  subscribe(EDS, 'a');
  stream.handleOpened();
  requests();
  stream.handleAskedAgain(contents.subscription(EDS, old('a'))!);
  t.strictSame(requests(), []);
  t.end();
});

t.test('a member that expired here, not at the server, needs a new stream (seed 2677)', (t) => {
  for (const typeUrl of [CDS, EDS]) {
    const { stream, subscribe, requests, respond, contents, held } = start();
    subscribe(typeUrl, '*');
    stream.handleOpened();
    requests();
    respond(typeUrl, '1', [wrapped('a', '7', 5, bodyOf('a', 1), typeUrl)]);
    requests();
    respond(typeUrl, '1', [wrapped('other', '7', 5)], 4_000);
    t.equal(stream.mustRestart, false, 'a member that was never held is none');
    contents.expire(5_000);
    t.strictSame(held(typeUrl), []);
    respond(typeUrl, '1', [wrapped('a', '7', 5)], 6_000);
    t.equal(stream.mustRestart, true, 'the server would not send a requested collection again');
    stream.handleEnded();
    stream.handleOpened();
    requests(7_000);
    respond(typeUrl, '1', [wrapped('a', '7', 5, bodyOf('a', 1), typeUrl)], 7_000);
    t.equal(stream.mustRestart, false);
    t.strictSame(held(typeUrl), ['a']);
  }
  t.end();
});

t.test('a response that was under way repeats a request for a name, once (seed 4965)', (t) => {
  const { stream, subscribe, requests, respond, contents } = start();
  for (const name of ['a', 'b', 'c']) subscribe(EDS, name);
  stream.handleOpened();
  requests();
  respond(EDS, '1', [bare(EDS, 'a'), bare(EDS, 'b'), bare(EDS, 'c')]);
  requests();
  for (const name of ['a', 'b']) stream.handleAskedAgain(contents.subscription(EDS, old(name))!);
  t.match(requests(), [
    { names: ['c'], responseNonce: 'n1' },
    { names: ['a', 'b', 'c'], responseNonce: 'n1' },
  ]);
  // The server sent it before it read these requests, and ignores them: their nonce is old.
  respond(EDS, '2', [bare(EDS, 'b', 2)]);
  t.match(requests(), [
    { names: ['b', 'c'], responseNonce: 'n2' },
    { names: ['a', 'b', 'c'], responseNonce: 'n2' },
  ]);
  respond(EDS, '3', []);
  t.strictSame(
    requests().map(({ names }) => names),
    [['a', 'b', 'c']],
    'the ACK alone: a server that responds without the name may lack it',
  );
  t.end();
});

/** A collection of endpoints, beside another name, with the members a and b. */
function withTwoMembers() {
  const rig = start();
  rig.subscribe(EDS, 'other');
  rig.subscribe(EDS, '*');
  rig.stream.handleOpened();
  rig.requests();
  rig.respond(EDS, '1', [bare(EDS, 'a'), bare(EDS, 'b')]);
  rig.requests();
  return rig;
}

t.test(
  'a collection that was left and subscribed again is requested once more (seed 92943)',
  (t) => {
    const { stream, subscribe, unsubscribe, requests, respond } = withTwoMembers();
    unsubscribe(EDS, '*');
    t.match(requests(), [{ names: ['other'] }]);
    subscribe(EDS, '*');
    t.match(requests(), [{ names: ['other'] }, { names: ['*', 'other'] }]);
    respond(EDS, '2', [bare(EDS, 'a')]);
    t.match(
      requests(),
      [{ names: ['other'] }, { names: ['*', 'other'] }],
      'the server ignored all of them, since their nonce was old',
    );
    respond(EDS, '3', [bare(EDS, 'a'), bare(EDS, 'b')]);
    t.equal(requests().length, 1, 'the ACK alone');
    t.equal(stream.mustRestart, false);
    t.end();
  },
);

t.test(
  'a collection that has fewer members after it was left out twice needs a new stream (seed 735)',
  (t) => {
    const { stream, subscribe, unsubscribe, requests, respond } = withTwoMembers();
    unsubscribe(EDS, '*');
    subscribe(EDS, '*');
    for (const version of ['2', '3']) {
      t.equal(requests().length, 2, 'one without it, one with it');
      t.equal(stream.mustRestart, false);
      // It changed before the server read them.
      respond(EDS, version, [bare(EDS, 'a')]);
    }
    t.equal(stream.mustRestart, true);
    t.equal(requests().length, 1, 'the ACK alone: further responses would be as small');
    t.end();
  },
);

t.test('new members do not count for those that are lost (seed 5001952)', (t) => {
  const { stream, subscribe, unsubscribe, requests, respond } = withTwoMembers();
  unsubscribe(EDS, '*');
  subscribe(EDS, '*');
  for (const name of ['c', 'd']) {
    t.equal(requests().length, 2, 'one without the collection, one with it');
    t.equal(stream.mustRestart, false);
    // It was under way before the server read them.
    respond(EDS, name, [bare(EDS, name)]);
  }
  t.equal(stream.mustRestart, true, 'a and b never came again');
  t.end();
});

t.test(
  'a collection that was left again before its members came lacks those of the first time (seed 139901)',
  (t) => {
    const { stream, subscribe, unsubscribe, requests, respond } = withTwoMembers();
    // Of all these requests the server reads none: their nonce is old.
    for (let time = 0; time < 2; time++) {
      unsubscribe(EDS, '*');
      requests();
      subscribe(EDS, '*');
      requests();
    }
    for (const version of ['2', '3']) {
      respond(EDS, version, [bare(EDS, 'c')]);
      requests();
    }
    t.equal(stream.mustRestart, true, 'one member of three');
    t.end();
  },
);

t.test(
  'a collection whose members came after it was left is left out of the ACK and requested again (seed 108994)',
  (t) => {
    for (const typeUrl of [EDS, CDS]) {
      const { stream, subscribe, unsubscribe, requests, respond, held } = start();
      subscribe(typeUrl, 'other');
      subscribe(typeUrl, '*');
      stream.handleOpened();
      requests();
      unsubscribe(typeUrl, '*');
      t.match(requests(), [{ names: ['other'], responseNonce: '' }]);
      // The server sent it before it read this request, and ignores that: its nonce is old.
      respond(typeUrl, '1', [bare(typeUrl, 'a')]);
      subscribe(typeUrl, '*');
      t.match(requests(), [
        { names: ['other'], responseNonce: 'n1' },
        { names: ['*', 'other'], responseNonce: 'n1' },
      ]);
      respond(typeUrl, '1', [bare(typeUrl, 'a')]);
      t.strictSame(held(typeUrl), ['a']);
    }
    t.end();
  },
);

t.test(
  'a collection of listeners or clusters that came meanwhile is not left out again (invariant 3, seed 114188)',
  (t) => {
    const { stream, subscribe, unsubscribe, requests, respond, held } = start();
    subscribe(CDS, 'other');
    subscribe(CDS, '*');
    stream.handleOpened();
    requests();
    respond(CDS, '1', [bare(CDS, 'a')]);
    requests();
    unsubscribe(CDS, '*');
    requests();
    subscribe(CDS, '*');
    t.match(requests(), [{ names: ['other'] }, { names: ['*', 'other'] }]);
    // Sent before the server read any of these requests.
    respond(CDS, '2', [bare(CDS, 'a', 2)]);
    t.match(requests(), [{ names: ['*', 'other'], responseNonce: 'n2' }], 'the ACK alone');
    t.strictSame(held(CDS), ['a']);
    t.end();
  },
);

t.test('of the names that were left, only the last 10,000 are remembered', (t) => {
  const { stream, subscribe, unsubscribe, requests, respond } = start();
  subscribe(EDS, '*');
  subscribe(EDS, 'stays');
  const names = Array.from({ length: 10_000 }, (_, at) => `name-${at}`);
  for (const name of names) subscribe(EDS, name);
  stream.handleOpened();
  requests();
  respond(
    EDS,
    '1',
    names.map((name) => bare(EDS, name)),
  );
  requests();
  unsubscribe(EDS, '*');
  for (const name of names) unsubscribe(EDS, name);
  subscribe(EDS, '*');
  t.match(requests(), [{ names: ['stays'] }, { names: ['*', 'stays'] }]);
  respond(EDS, '2', [bare(EDS, 'name-1')]);
  t.equal(requests().length, 1, 'how many members it had is forgotten');
  t.equal(stream.mustRestart, false);
  t.end();
});

t.test('heartbeats do not answer a collection that is requested again (seed 116618)', (t) => {
  const { stream, subscribe, unsubscribe, requests, respond, held, status } = start();
  subscribe(CDS, 'other');
  subscribe(CDS, '*');
  stream.handleOpened();
  requests();
  unsubscribe(CDS, '*');
  requests();
  respond(CDS, '1', [wrapped('a', '1', 5, bodyOf('a', 1))]);
  subscribe(CDS, '*');
  t.equal(
    status(CDS, '*'),
    'requested',
    'it was never answered, but the server has sent its member',
  );
  t.match(requests(), [{ names: ['other'] }, { names: ['*', 'other'] }]);
  // Sent before the server read these requests, so it ignores them.
  respond(CDS, '1', [wrapped('a', '1', 5)]);
  t.match(requests(), [
    { names: ['other'], responseNonce: 'n2' },
    { names: ['*', 'other'], responseNonce: 'n2' },
  ]);
  respond(CDS, '2', [wrapped('a', '1', 5, bodyOf('a', 1))]);
  t.strictSame(held(CDS), ['a']);
  t.equal(requests().length, 1, 'the ACK alone');
  t.end();
});

t.test(
  'a collection that is subscribed again while a response is read in portions is requested again (seed 53093)',
  (t) => {
    const { stream, subscribe, unsubscribe, requests, respond, held } = start({ portionBytes: 1 });
    subscribe(EDS, 'other');
    subscribe(EDS, '*');
    stream.handleOpened();
    requests();
    const resources = [bare(EDS, 'a'), bare(EDS, 'b')];
    const response = { typeUrl: EDS, versionInfo: '1', nonce: 'n', resources, errors: [] };
    stream.handleMessage(wholeOf(encodeSotwResponse(response)), at(2));
    while (held(EDS).length === 0) stream.inPortions.continue(3);
    unsubscribe(EDS, '*', 3);
    requests(3);
    subscribe(EDS, '*', 3);
    requests(3);
    while (stream.inPortions.isMidResponse) stream.inPortions.continue(4);
    t.strictSame(held(EDS), ['b'], 'the server believes that the gateway has both');
    t.match(requests(4), [
      { names: ['other'], responseNonce: 'n' },
      { names: ['*', 'other'], responseNonce: 'n' },
    ]);
    respond(EDS, '2', resources, 5);
    t.strictSame(held(EDS), ['b', 'a']);
    t.end();
  },
);

t.test(
  'a collection that is requested again while a set is read in portions needs a new stream (seed 110250)',
  (t) => {
    for (const [leftMs, againMs] of [
      [1, 1],
      [1, 3],
      [3, 3],
    ] as const) {
      const { stream, subscribe, unsubscribe, requests, status } = start({ portionBytes: 1 });
      subscribe(CDS, 'other');
      subscribe(CDS, '*');
      stream.handleOpened();
      requests();
      const leaveAndReturn = (nowMs: number): void => {
        if (leftMs === nowMs) unsubscribe(CDS, '*', nowMs);
        requests(nowMs);
        if (againMs === nowMs) subscribe(CDS, '*', nowMs);
        requests(nowMs);
      };
      leaveAndReturn(1);
      const resources = [bare(CDS, 'a'), bare(CDS, 'b')];
      const response = { typeUrl: CDS, versionInfo: '1', nonce: 'n', resources, errors: [] };
      stream.handleMessage(wholeOf(encodeSotwResponse(response)), at(2));
      leaveAndReturn(3);
      while (stream.inPortions.isMidResponse) stream.inPortions.continue(4);
      const isCut = againMs === 3;
      t.equal(stream.mustRestart, isCut, `left at ${leftMs}, requested at ${againMs}`);
      t.equal(status(CDS, '*'), isCut ? 'requested' : 'present', 'until then it is not whole');
    }
    t.end();
  },
);

t.test('a name that was left is not requested again after the next response', (t) => {
  const { stream, subscribe, unsubscribe, requests, respond, contents } = start();
  for (const name of ['a', 'b']) subscribe(EDS, name);
  stream.handleOpened();
  requests();
  respond(EDS, '1', [bare(EDS, 'a'), bare(EDS, 'b')]);
  requests();
  stream.handleAskedAgain(contents.subscription(EDS, old('a'))!);
  requests();
  unsubscribe(EDS, 'a');
  t.match(requests(), [{ names: ['b'] }]);
  respond(EDS, '2', [bare(EDS, 'b', 2)]);
  t.equal(requests().length, 1, 'the ACK alone');
  t.end();
});

t.test(
  'a whole response answers a glob although one of its names was just left (seed 741)',
  (t) => {
    const { stream, subscribe, unsubscribe, requests, respond, status } = start();
    subscribe(CDS, 'a');
    stream.handleOpened();
    requests();
    respond(CDS, '1', [bare(CDS, 'a')]);
    requests();
    subscribe(CDS, '*', 1_000);
    requests(1_000);
    respond(CDS, '2', [bare(CDS, 'a')], 1_010);
    requests(1_010);
    const dueMs = 1_010 + STREAM_OPTIONS.quietResumeMs;
    unsubscribe(CDS, 'a', dueMs - 1);
    t.equal(status(CDS, '*'), 'requested', 'the response may be older than the request');
    stream.handleTimer(dueMs);
    t.equal(status(CDS, '*'), 'present');
    t.end();
  },
);
