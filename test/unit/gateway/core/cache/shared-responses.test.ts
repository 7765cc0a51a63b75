/**
 * Goal: clients that are due the same response share its bytes and its nonce, nonces stay unique on
 * each stream (invariant 5), and an ACK is recognized by its bytes.
 */
import t from 'tap';
import { SharedResponses } from '../../../../../gateway/core/cache/shared-responses.js';
import { wholeOf } from '../../../../../protos/discovery-fields.js';
import { encodeDeltaRequest } from '../../../../../protos/delta-codec.js';
import type { SotwRequest } from '../../../../../protos/discovery.js';
import { encodeSotwRequest } from '../../../../../protos/sotw-codec.js';
import { request } from '../../../../support/model-client.js';
import { CDS, SDS, sds } from '../../../../support/mesh-names.js';
import { Instance } from '../../../../support/session-driver.js';
import { SotwClient, WRAPPING_NODE } from '../../../../support/sotw-driver.js';

const part = (): object => ({});

function start() {
  const responses = new SharedResponses();
  let encoded = 0;
  const encode = (parts: readonly object[], lastNumber = 0, kind = 'delta', bytes = 10) =>
    responses.encode({ kind, parts }, lastNumber, (nonce) => {
      encoded++;
      return [Buffer.alloc(bytes, nonce)];
    });
  return { responses, encode, count: () => encoded };
}

t.test(
  'a response for two streams is encoded once; other parts, order or kind are another',
  (t) => {
    const { encode, count } = start();
    const [a, b] = [part(), part()];
    const first = encode([a, b]);
    t.equal(encode([a, b]).chunks, first.chunks);
    t.equal(count(), 1);
    for (const other of [encode([a]), encode([b, a]), encode([a, b], 0, 'sotw 1')]) {
      t.not(other.nonce, first.nonce);
    }
    t.end();
  },
);

t.test(
  'a stream that had a response gets the same contents with a new nonce (invariant 5)',
  (t) => {
    const { encode } = start();
    const parts = [part()];
    const first = encode(parts);
    const again = encode(parts, first.number);
    t.ok(again.number > first.number);
    t.equal(encode(parts, 0).nonce, again.nonce, 'and others share that one');
    t.end();
  },
);

t.test('responses without resources are never shared', (t) => {
  const { encode } = start();
  t.not(encode([]).nonce, encode([]).nonce);
  t.end();
});

t.test('few responses are kept for sharing, by number and by bytes', (t) => {
  const { encode, count } = start();
  const [a, b, large] = [part(), part(), part()];
  encode([a]);
  for (let other = 0; other < 255; other++) encode([part()]);
  encode([a]);
  t.equal(count(), 256, 'kept');
  encode([b]);
  encode([a]);
  t.equal(count(), 258, 'the oldest was dropped');
  encode([large], 0, 'delta', 8 * 1_024 * 1_024);
  encode([b]);
  t.equal(count(), 260, 'a large response drops all others');
  encode([large], 0, 'delta', 10 * 1_024 * 1_024);
  encode([large], 0, 'delta', 10 * 1_024 * 1_024);
  t.equal(count(), 261, 'clients share one of any size until the next one');
  encode([b]);
  encode([large], 0, 'delta', 10 * 1_024 * 1_024);
  t.equal(count(), 263);
  t.end();
});

t.test('two clients of a collection get the same bytes, and each its later changes', (t) => {
  const instance = new Instance();
  const [one, other] = [instance.connect(), instance.connect()];
  for (const client of [one, other]) client.subscribe(SDS, sds('g/*'));
  instance.directory.put(SDS, sds('g/a'), 'v1');
  instance.directory.answer();
  const first = one.session.takeResponse(instance.nowMs)!;
  t.equal(other.session.takeResponse(instance.nowMs), first);
  for (const client of [one, other]) {
    const { nonce } = client.model.receive(wholeOf(first.chunks));
    client.ack();
    instance.directory.put(SDS, sds('g/a'), `v of ${client === one ? 'one' : 'other'}`);
    t.not(client.poll()?.nonce, nonce);
  }
  t.end();
});

t.test('only the ACK of the last response is recognized by its bytes', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  client.subscribe(SDS, sds('a'));
  const isAck = (change: object): boolean =>
    client.session.handleAck(
      encodeDeltaRequest(request({ typeUrl: SDS, ...change })),
      instance.nowMs,
    );
  t.equal(isAck({ responseNonce: '1' }), false, 'nothing was sent');
  instance.directory.put(SDS, sds('a'), 'v1');
  instance.directory.answer();
  const { nonce } = client.poll()!;
  const detail = { code: 3, message: 'no' };
  t.equal(isAck({ responseNonce: nonce, errorDetail: detail }), false, 'a NACK');
  t.equal(isAck({ responseNonce: nonce, subscribe: [sds('b')] }), false, 'a name');
  t.equal(isAck({ responseNonce: `${nonce}0` }), false, 'another nonce');
  t.equal(isAck({ responseNonce: nonce }), true);
  t.match(client.session.takeEvents().at(-1), { kind: 'ack', typeUrl: SDS });
  t.equal(isAck({ responseNonce: nonce }), false, 'the second one is stale');
  t.end();
});

/** A client that was sent `a` and `b`, and requests that may be the ACK. */
function startSotw(node: Uint8Array | undefined) {
  const instance = new Instance();
  const client = new SotwClient(instance);
  const names = [sds('a'), sds('b')];
  const whole = { versionInfo: '', node: undefined, typeUrl: SDS, names, responseNonce: '' };
  const isAck = (change: Partial<SotwRequest>): boolean =>
    client.session.handleAck(
      encodeSotwRequest({ ...whole, errorDetail: undefined, ...change }),
      instance.nowMs,
    );
  const before = isAck({ responseNonce: '1' });
  for (const name of names) instance.directory.put(SDS, name, 'v1');
  client.send({ ...whole, node });
  instance.directory.answer();
  client.session.takeResponse(instance.nowMs);
  const { nonce: responseNonce, versionInfo } = client.session.lastResponse!;
  return { client, names, isAck, before, last: { responseNonce, versionInfo } };
}

t.test('an ACK of the state of the world is recognized by its bytes, names included', (t) => {
  const { client, names, isAck, before, last } = startSotw(undefined);
  const [a = '', b = ''] = names;
  t.equal(before, false, 'nothing was sent');
  t.equal(isAck({ ...last, errorDetail: { code: 3, message: 'no' } }), false, 'a NACK');
  t.equal(isAck({ ...last, names: [a] }), false, 'fewer names');
  t.equal(isAck({ ...last, names: [b, a] }), false, 'another order');
  t.equal(isAck({ ...last, names: [a, sds('c')] }), false, 'other names');
  t.equal(isAck({ ...last, names: [...names, b] }), false, 'more names');
  t.equal(isAck({ ...last, versionInfo: 'other' }), false, 'another version');
  t.equal(isAck({ ...last, responseNonce: `${last.responseNonce}0` }), false, 'another nonce');
  t.equal(isAck({ ...last, typeUrl: CDS }), false, 'another type');
  t.equal(isAck({ ...last, node: WRAPPING_NODE }), false, 'the first Node');
  t.strictSame(
    client.session.takeEvents().filter(({ kind }) => kind === 'ack'),
    [],
  );
  t.equal(isAck(last), true);
  t.match(client.session.takeEvents().at(-1), { kind: 'ack', typeUrl: SDS });
  t.equal(isAck(last), true, 'the second one changes nothing either');
  t.strictSame(client.session.takeEvents(), []);
  t.end();
});

t.test('a client that repeats its Node in each request is recognized too (ENVOY 15)', (t) => {
  const { client, isAck, last } = startSotw(WRAPPING_NODE);
  t.equal(isAck({ ...last, node: Buffer.alloc(60_000, 1) }), true);
  t.match(client.session.takeEvents().at(-1), { kind: 'ack' });
  const cut = encodeSotwRequest({
    ...last,
    node: Buffer.alloc(60_000, 1),
    typeUrl: SDS,
    names: [],
    errorDetail: undefined,
  }).subarray(0, 40);
  t.equal(client.session.handleAck(cut, 0), false, 'cut off within the Node');
  t.end();
});

t.test('names are kept in proportion to what is subscribed, and once for equal clients', (t) => {
  const { client, isAck, last } = startSotw(undefined);
  const [kept] = client.session.allSubscriptions;
  t.ok(kept?.encodedNames);
  client.send({ typeUrl: SDS, names: Array.from({ length: 100 }, () => sds('a')) });
  t.equal(kept?.encodedNames, undefined, 'one name, a hundred times');
  t.equal(isAck({ ...last, names: [sds('a')] }), false);
  client.send({ typeUrl: SDS, names: [sds('a')], locators: [{ name: 'l', parameters: 'a=b' }] });
  t.equal(kept?.encodedNames, undefined, 'an ACK without the locator unsubscribes it');
  const responses = new SharedResponses();
  t.equal(responses.keepNames(Buffer.from('a')), responses.keepNames(Buffer.from('a')));
  t.not(responses.keepNames(Buffer.from('a')), responses.keepNames(Buffer.from('b')));
  t.end();
});
