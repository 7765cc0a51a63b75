/**
 * Goal: the first requests of a stream are those for what is wanted when they are written.
 * Method: the stream's machine alone, with names that come and go before it is polled.
 */
import t from 'tap';
import { DeltaStream } from '../../../../../authorities/core/sources/delta-stream.js';
import { SourceContents } from '../../../../../authorities/core/sources/source-contents.js';
import { nameOf, thing, THING } from '../../../../support/federation-driver.js';

t.test('a type that nobody wants any more when the stream is written to is not asked', (t) => {
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
