/**
 * Goal: what the absence of a resource from a state-of-the-world response says, for the types other than listeners,
 * clusters and endpoints (ADR 0029).
 * Method: the state machine of the stream alone.
 */
import t from 'tap';
import { TYPE_URL } from '../../../../../protos/type-urls.js';
import { any, bare, bodyOf, old, start, wrapped } from '../../../../support/sotw-stream-rig.js';

t.test(
  'scoped routes and rate limits that a response lacks are deleted, as their clients would (ENVOY 22, 23)',
  (t) => {
    for (const typeUrl of [TYPE_URL.scopedRouteConfiguration, TYPE_URL.rateLimitConfig]) {
      const { stream, subscribe, requests, respond, held } = start();
      subscribe(typeUrl, '*');
      stream.handleOpened();
      requests();
      respond(typeUrl, '1', [bare(typeUrl, 'a'), bare(typeUrl, 'b')]);
      t.strictSame(held(typeUrl), ['a', 'b']);
      respond(typeUrl, '2', [bare(typeUrl, 'b')]);
      t.strictSame(held(typeUrl), ['b']);
      t.notOk(stream.owesResponse(), 'a server without any is silent');
    }
    t.end();
  },
);

t.test('a resource of an unknown type that a response lacks is kept', (t) => {
  const { stream, subscribe, requests, respond, held, contents } = start();
  const typeUrl = 'type.googleapis.com/acme.v1.Quota';
  subscribe(typeUrl, '*');
  stream.handleOpened();
  requests();
  respond(typeUrl, '1', [wrapped('a', '1', 60, bodyOf('a', 1), typeUrl)]);
  respond(typeUrl, '2', [wrapped('b', '1', 60, bodyOf('b', 1), typeUrl)]);
  t.strictSame(held(typeUrl), ['a', 'b']);
  t.equal(contents.answerFor(typeUrl, old('c')), 'timed_out', 'its absence is unknown');
  t.ok(contents.isWhole(typeUrl, old('*')), 'but the stream began with all members');
  t.end();
});

t.test('the first response of a name table of Istio has all of the wildcard, at once', (t) => {
  for (const typeUrl of [TYPE_URL.nameTable, TYPE_URL.proxyConfig]) {
    const { stream, subscribe, requests, respond, held, contents } = start();
    subscribe(typeUrl, '*');
    const glob = contents.subscription(typeUrl, old('*'));
    stream.handleOpened();
    requests();
    respond(typeUrl, '1', [any(typeUrl, bodyOf('x', 1))]);
    t.strictSame(held(typeUrl), ['']);
    t.ok(glob && stream.answersAtOnce(glob), 'no further member is waited for');
  }
  t.end();
});
