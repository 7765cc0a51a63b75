/**
 * Goal: the first requests of a stream carry the subscriptions that exist when they are written.
 * Method: the state machine of the stream alone, with names that come and go before it is polled.
 */
import t from 'tap';
import { DeltaStream } from '../../../../../authorities/core/sources/delta-stream.js';
import { SourceContents } from '../../../../../authorities/core/sources/source-contents.js';
import { oldStyleName } from '../../../../../protos/resource-name.js';
import { decodeDeltaRequest } from '../../../../../protos/delta-codec.js';
import { nameOf, thing, THING } from '../../../../support/federation-driver.js';
import { STREAM_OPTIONS } from '../../../../support/stream-options.js';

/** A stream of old-style names. */
function start() {
  const contents = new SourceContents();
  const stream = new DeltaStream(contents, {
    ...STREAM_OPTIONS,
    oldStyle: { scope: 's', mayServe: () => true },
  });
  const requests = () => {
    const { bytes = new Uint8Array() } = stream.pollRequest(0) ?? {};
    return decodeDeltaRequest(bytes, Infinity);
  };
  const subscribe = (text: string): void => {
    const added = contents.subscribe(THING, oldStyleName('s', text), {});
    if (added) stream.handleSubscribed(added, 0);
  };
  stream.handleOpened();
  return { stream, requests, subscribe };
}

t.test('a wildcard is requested without names whenever its type is new on the stream', (t) => {
  const { stream, requests, subscribe } = start();
  subscribe('*');
  t.match(requests(), { message: { typeUrl: THING, subscribe: [] } });
  subscribe('a');
  t.match(requests(), { message: { typeUrl: THING, subscribe: ['a'] } });
  t.equal(stream.hasRequest, false);
  t.end();
});

// Seed 91253: the server took the request for an ACK without a nonce, and sent no member.
t.test('a wildcard is requested by name after the ACK of a response that nobody requested', (t) => {
  const { stream, requests, subscribe } = start();
  const nothing = { systemVersion: '', resources: [], removed: [], errors: [] };
  const unasked = { typeUrl: THING, nonce: 'n', ...nothing };
  stream.handleResponse(unasked, 0, { nowMs: 0, arrivedMs: 0 });
  t.match(requests(), { message: { subscribe: [], responseNonce: 'n' } });
  subscribe('*');
  t.match(requests(), { message: { subscribe: ['*'], responseNonce: '' } });
  stream.handleEnded();
  stream.handleOpened();
  t.match(requests(), { message: { subscribe: [] } }, 'on a new stream as before');
  t.end();
});

t.test('a type that is unsubscribed before the first request is written is not requested', (t) => {
  const contents = new SourceContents();
  const stream = new DeltaStream(contents, {
    ...STREAM_OPTIONS,
  });
  const listener = {};
  const other = 'type.googleapis.com/test.v1.Other';
  contents.subscribe(THING, nameOf(thing('cloud', 'a')), listener);
  contents.subscribe(other, nameOf(thing('cloud', 'b')), listener);
  stream.handleOpened();
  contents.unsubscribe(THING, nameOf(thing('cloud', 'a')), listener);
  const { bytes = new Uint8Array() } = stream.pollRequest(0) ?? {};
  const request = decodeDeltaRequest(bytes, Infinity);
  t.match(request, { message: { typeUrl: other, subscribe: [thing('cloud', 'b')] } });
  t.equal(stream.pollRequest(0), undefined);
  t.end();
});
