/**
 * Goal: a collection whose first answer comes in several responses is not complete after the first
 * response; otherwise the members in flight would count as deleted (invariant 3).
 * Method: the state machine of the stream alone; the test sets the size of each response.
 */
import t from 'tap';
import { DeltaStream } from '../../../../../authorities/core/sources/delta-stream.js';
import { SourceContents } from '../../../../../authorities/core/sources/source-contents.js';
import { nameOf, thing, THING } from '../../../../support/federation-driver.js';
import { STREAM_OPTIONS } from '../../../../support/stream-options.js';
import { at } from '../../../../support/stream-times.js';

const MIB = 1_048_576;
const glob = nameOf(thing('cloud', 'g/*'));

function start() {
  const contents = new SourceContents();
  const stream = new DeltaStream(contents, {
    ...STREAM_OPTIONS,
  });
  contents.subscribe(THING, glob, {});
  stream.handleOpened();
  stream.pollRequest(0);
  const answer = (id: string, bytes: number, nowMs: number): void => {
    const name = thing('cloud', id);
    const body = new Uint8Array([1]);
    const resource = { name, version: '1', typeUrl: THING, body, ttlMs: undefined };
    const response = { typeUrl: THING, nonce: id, systemVersion: '', removed: [], errors: [] };
    stream.handleResponse({ ...response, resources: [resource] }, bytes, at(nowMs));
  };
  const settled = (): boolean => contents.subscription(THING, glob)?.status === 'present';
  return { contents, stream, answer, settled };
}

t.test('a small response is a complete answer', (t) => {
  const { answer, settled } = start();
  answer('g/a', 1_000, 0);
  t.equal(settled(), true);
  t.end();
});

t.test('a large response is complete when a small one follows', (t) => {
  const { answer, settled } = start();
  answer('g/a', 2 * MIB, 0);
  answer('g/b', 2 * MIB, 10);
  t.equal(settled(), false);
  answer('g/c', 1_000, 20);
  t.equal(settled(), true);
  t.end();
});

t.test('a large response is complete when nothing follows for half a second', (t) => {
  const { stream, answer, settled } = start();
  answer('g/a', 2 * MIB, 0);
  t.equal(stream.nextDeadlineMs(), 500);
  answer('g/b', 2 * MIB, 400);
  stream.handleTimer(500);
  t.equal(settled(), false);
  t.equal(stream.nextDeadlineMs(), 900);
  stream.handleTimer(900);
  t.equal(settled(), true);
  t.end();
});

t.test('a stream that ends in the middle leaves the collection unanswered', (t) => {
  const { stream, answer, settled } = start();
  answer('g/a', 2 * MIB, 0);
  stream.handleEnded();
  stream.handleTimer(1_000);
  t.equal(settled(), false);
  t.end();
});

t.test('a collection that is subscribed later on the stream is treated the same', (t) => {
  const { contents, stream, answer } = start();
  answer('g/a', 1_000, 0);
  const later = nameOf(thing('cloud', 'h/*'));
  const added = contents.subscribe(THING, later, {});
  if (added) stream.handleSubscribed(added, 0);
  answer('h/a', 2 * MIB, 10);
  answer('h/b', 2 * MIB, 20);
  t.equal(contents.subscription(THING, later)?.status, 'requested');
  stream.handleTimer(520);
  t.equal(contents.subscription(THING, later)?.status, 'present');
  t.end();
});

t.test(
  'a name that is also subscribed by itself does not answer for its collection (invariants 3, 19)',
  (t) => {
    const { contents, stream, answer, settled } = start();
    const one = contents.subscribe(THING, nameOf(thing('cloud', 'g/a')), {});
    if (one) stream.handleSubscribed(one, 0);
    stream.pollRequest(0);
    answer('g/a', 1_000, 0);
    t.equal(one?.status, 'present');
    t.equal(settled(), false, 'the rest of the collection may be in flight');
    answer('g/a', 2 * MIB, 10);
    answer('g/a', 1_000, 20);
    t.equal(settled(), false);
    answer('g/b', 1_000, 30);
    t.equal(settled(), true);
    t.end();
  },
);

t.test('a collection that got only such names is complete when nothing follows', (t) => {
  const { contents, stream, answer, settled } = start();
  const globs = [glob, nameOf(thing('cloud', 'h/*'))];
  for (const name of [...globs, nameOf(thing('cloud', 'g/a')), nameOf(thing('cloud', 'h/a'))]) {
    contents.subscribe(THING, name, {});
  }
  answer('g/a', 1_000, 0);
  answer('h/a', 1_000, 1_000);
  answer('g/a', 1_000, 2_000);
  t.equal(stream.nextDeadlineMs(), 15_000);
  stream.handleTimer(15_000);
  t.equal(settled(), true);
  t.strictSame(stream.nextDeadlineMs(), 16_000);
  answer('h/b', 1_000, 15_000);
  answer('h/a', 1_000, 15_000);
  stream.handleTimer(16_000);
  t.equal(stream.nextDeadlineMs(), undefined);
  answer('g/a', 1_000, 16_000);
  t.equal(stream.nextDeadlineMs(), undefined, 'an answered collection has no deadline');
  t.end();
});

t.test(
  'a member of an unfinished collection is asked for again, also if its own name was subscribed (seed 6004814)',
  (t) => {
    const { contents, stream, answer } = start();
    const [own, listener] = [nameOf(thing('cloud', 'g/a')), {}];
    stream.handleSubscribed(contents.subscribe(THING, own, listener)!, 0);
    stream.pollRequest(0);
    answer('g/a', 2 * MIB, 0);
    stream.handleEnded();
    stream.handleOpened();
    stream.pollRequest(100);
    const left = contents.unsubscribe(THING, own, listener);
    if (left) stream.handleUnsubscribed(left, 100);
    const empty = { typeUrl: THING, nonce: 'b', systemVersion: '', resources: [], errors: [] };
    stream.handleResponse({ ...empty, removed: [thing('cloud', 'g/*')] }, 100, at(200));
    t.strictSame([...contents.members(THING, glob)], [], 'the source has none');
    t.end();
  },
);
