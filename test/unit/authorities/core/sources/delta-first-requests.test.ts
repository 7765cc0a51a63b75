/**
 * Goal: the first requests of a stream carry the subscriptions that exist when they are written.
 * Method: the state machine of the stream alone, with names that come and go before it is polled.
 */
import t from 'tap';
import { DeltaStream } from '../../../../../authorities/core/sources/delta-stream.js';
import { SourceContents } from '../../../../../authorities/core/sources/source-contents.js';
import { nameOf, thing, THING } from '../../../../support/federation-driver.js';

t.test('a type that is unsubscribed before the first request is written is not requested', (t) => {
  const contents = new SourceContents();
  const stream = new DeltaStream(contents, {
    node: new Uint8Array(),
    mayServe: () => true,
    resourceTimeoutMs: 30_000,
    quietResumeMs: 15_000,
  });
  const listener = {};
  const other = 'type.googleapis.com/test.v1.Other';
  contents.subscribe(THING, nameOf(thing('cloud', 'a')), listener);
  contents.subscribe(other, nameOf(thing('cloud', 'b')), listener);
  stream.handleOpened();
  contents.unsubscribe(THING, nameOf(thing('cloud', 'a')), listener);
  t.match(stream.pollRequest(0), { typeUrl: other, subscribe: [thing('cloud', 'b')] });
  t.equal(stream.pollRequest(0), undefined);
  t.end();
});
