/**
 * Goal: what the gateway rejects from a state-of-the-world source exists at the source, so it is not absent, and held content
 * stays (docs/SPEC.md, invariant 3).
 * Method: the state machine of the stream alone.
 */
import t from 'tap';
import { wholeOf } from '../../../../../protos/discovery-fields.js';
import { encodeSotwResponse } from '../../../../../protos/sotw-codec.js';
import { TYPE_URL } from '../../../../../protos/type-urls.js';
import { lengthDelimited } from '../../../../sim/names.js';
import {
  any,
  bare,
  bodyOf,
  CDS,
  EDS,
  start,
  wrapped,
} from '../../../../support/sotw-stream-rig.js';
import { STREAM_OPTIONS } from '../../../../support/stream-options.js';
import { at } from '../../../../support/stream-times.js';

const LATE_MS = STREAM_OPTIONS.resourceTimeoutMs;
/** The name says "cluster", and the content is an assignment. */
const rejected = (name: string): Buffer => bare(EDS, name);

t.test(
  'a cluster that the gateway rejected is not absent when its time is over (invariant 3)',
  (t) => {
    const { stream, subscribe, requests, respond, status, changes } = start();
    subscribe(CDS, 'a');
    subscribe(CDS, 'b');
    stream.handleOpened();
    requests();
    respond(CDS, '1', [rejected('a')]);
    requests();
    stream.handleTimer(LATE_MS);
    t.equal(status(CDS, 'a'), 'timed_out', 'the source has it');
    t.equal(status(CDS, 'b'), 'absent', 'the source lacks it');
    t.strictSame(changes(), [
      ['timed_out', 'a', false],
      ['removed', 'b', true],
    ]);
    respond(CDS, '2', [bare(CDS, 'a')]);
    t.equal(status(CDS, 'a'), 'present');
    t.end();
  },
);

t.test('a rejected cluster is absent when a later set lacks it', (t) => {
  const { stream, subscribe, requests, respond, status, changes, contents } = start();
  subscribe(CDS, 'a');
  subscribe(CDS, '*');
  stream.handleOpened();
  requests();
  respond(CDS, '1', [rejected('a'), rejected('member'), bare(CDS, 'b')]);
  requests();
  stream.handleTimer(LATE_MS);
  changes();
  respond(CDS, '2', [bare(CDS, 'b')]);
  t.equal(status(CDS, 'a'), 'absent');
  t.strictSame(
    changes().filter(([kind]) => kind === 'removed'),
    [
      ['removed', 'a', false],
      ['removed', 'member', false],
    ],
  );
  const [glob] = [...contents.subscriptions(CDS)].filter(({ name }) => name.isGlob);
  t.ok(contents.isWhole(CDS, glob!.name), 'nothing of the collection is unknown any more');
  t.end();
});

t.test('a rejected cluster is not absent although its collection was left (invariant 3)', (t) => {
  const { stream, subscribe, unsubscribe, requests, respond, status } = start();
  subscribe(CDS, 'a');
  subscribe(CDS, '*');
  stream.handleOpened();
  requests();
  respond(CDS, '1', [rejected('a'), rejected('member')]);
  unsubscribe(CDS, '*', 10);
  requests(10);
  stream.handleTimer(LATE_MS);
  t.equal(status(CDS, 'a'), 'timed_out');
  t.end();
});

t.test('an error in the first set is the answer for its name, not absence (TP3)', (t) => {
  const { stream, subscribe, requests, status, contents } = start();
  subscribe(CDS, 'a');
  stream.handleOpened();
  requests();
  const errors = [{ name: 'a', status: { code: 14, message: 'later' } }];
  const parts = { typeUrl: CDS, versionInfo: '1', nonce: 'n', resources: [], errors };
  stream.handleMessage(wholeOf(encodeSotwResponse(parts)), at(0));
  requests();
  stream.handleTimer(LATE_MS);
  t.equal(status(CDS, 'a'), 'timed_out');
  const [subscription] = contents.subscriptions(CDS);
  t.match(subscription?.absence, { code: 14 });
  t.end();
});

/** A cluster whose constraints (TP2) have a field that the gateway does not know. */
function withUnknownConstraints(name: string): Buffer {
  const unknown = lengthDelimited(9, Buffer.from('x'));
  const variantName = Buffer.concat([
    lengthDelimited(1, Buffer.from(name)),
    lengthDelimited(2, unknown),
  ]);
  const resource = Buffer.concat([
    lengthDelimited(1, Buffer.from('v')),
    any(CDS, bodyOf(name, 2)),
    lengthDelimited(8, variantName),
  ]);
  return any(TYPE_URL.resource, resource);
}

t.test('a held cluster whose new version has unreadable constraints stays (invariant 3)', (t) => {
  const { stream, subscribe, requests, respond, held, changes, contents } = start();
  subscribe(CDS, '*');
  stream.handleOpened();
  requests();
  respond(CDS, '1', [bare(CDS, 'a'), wrapped('b', '1', 0, bodyOf('b', 1))]);
  requests();
  changes();
  respond(CDS, '2', [withUnknownConstraints('a'), withUnknownConstraints('b')]);
  t.match(requests(), [{ nack: /^a has constraints that / }]);
  t.strictSame(held(CDS), ['a', 'b']);
  t.strictSame(changes(), []);
  const [glob] = contents.subscriptions(CDS);
  t.notOk(contents.isWhole(CDS, glob!.name), 'the collection proves no absence');
  t.end();
});

t.test('names that change while a NACK waits are requested with the NACK, not as an ACK', (t) => {
  const { stream, subscribe, requests, respond } = start();
  subscribe(CDS, '*');
  stream.handleOpened();
  requests();
  respond(CDS, '1', [rejected('a')]);
  respond(CDS, '2', [rejected('a')], 10);
  t.match(requests(10), [{ responseNonce: 'n1', nack: /^a carries / }], 'the second one waits');
  subscribe(CDS, 'b', 20);
  t.match(requests(20), [{ responseNonce: 'n2', nack: /^a carries /, names: ['*', 'b'] }]);
  t.strictSame(requests(5_000), [], 'it is sent once (invariant 5)');
  respond(CDS, '3', [rejected('a')], 5_000);
  respond(CDS, '4', [rejected('a')], 5_010);
  t.match(requests(5_010), [{ responseNonce: 'n3' }]);
  t.end();
});

t.test('a new name waits for one ACK of another type, not for all', (t) => {
  const { stream, subscribe, requests, respond } = start();
  subscribe(CDS, '*');
  stream.handleOpened();
  requests();
  for (const version of ['1', '2', '3']) respond(CDS, version, [bare(CDS, 'a')]);
  subscribe(EDS, 'x');
  subscribe(CDS, 'b');
  t.match(
    requests().map(({ typeUrl, responseNonce, names }) => [typeUrl, responseNonce, ...names]),
    [
      [CDS, 'n1', '*', 'b'],
      [EDS, '', 'x'],
      [CDS, 'n2', '*', 'b'],
      [CDS, 'n3', '*', 'b'],
    ],
  );
  t.end();
});

t.test('names that change between two ACKs of their type go with the second one', (t) => {
  const { stream, subscribe, requests, respond } = start();
  subscribe(CDS, '*');
  stream.handleOpened();
  requests();
  for (const version of ['1', '2']) respond(CDS, version, [bare(CDS, 'a')]);
  t.ok(stream.pollRequest(0));
  subscribe(CDS, 'b');
  const sent = requests().map(({ responseNonce, names }) => [responseNonce, ...names]);
  t.strictSame(sent, [['n2', '*', 'b']], 'and not in a request before it, which would be its ACK');
  t.end();
});
