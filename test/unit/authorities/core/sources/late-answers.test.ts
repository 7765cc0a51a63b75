/**
 * Goal: a response that was in flight when its glob was unsubscribed and subscribed again, or when
 * a name of the glob was unsubscribed, does not count as the complete answer (invariants 3, 18).
 * Found by the simulation, seeds 4417 and 7590.
 * Method: the state machine of the stream alone.
 */
import t from 'tap';
import { DeltaStream } from '../../../../../authorities/core/sources/delta-stream.js';
import { SourceContents } from '../../../../../authorities/core/sources/source-contents.js';
import { oldStyleName, type ResourceName } from '../../../../../protos/resource-name.js';
import { nameOf, thing, THING } from '../../../../support/federation-driver.js';
import { STREAM_OPTIONS } from '../../../../support/stream-options.js';
import { at } from '../../../../support/stream-times.js';

const WAIT_MS = 30_000;
const SCOPE = 'scope';
const glob = nameOf(thing('cloud', 'g/*'));
const member = nameOf(thing('cloud', 'g/a'));
const wildcard = oldStyleName(SCOPE, '*');
const plain = oldStyleName(SCOPE, 'plain');

const EMPTY = {
  typeUrl: THING,
  nonce: '1',
  systemVersion: '',
  errors: [],
  removed: [],
  resources: [],
};

function start() {
  const contents = new SourceContents();
  const stream = new DeltaStream(contents, {
    ...STREAM_OPTIONS,
    resourceTimeoutMs: WAIT_MS,
    oldStyle: { scope: SCOPE, mayServe: () => true },
  });
  const listener = {};
  stream.handleOpened();
  const ask = (name: ResourceName, nowMs: number): void => {
    const added = contents.subscribe(THING, name, listener);
    if (added) stream.handleSubscribed(added, nowMs);
    stream.pollRequest(nowMs);
  };
  const leave = (name: ResourceName, nowMs: number): void => {
    const left = contents.unsubscribe(THING, name, listener);
    if (left) stream.handleUnsubscribed(left, nowMs);
    stream.pollRequest(nowMs);
  };
  const send = (name: string, nowMs: number, typeUrl = THING): void => {
    const body = new Uint8Array([1]);
    const resource = { name, version: '1', typeUrl, body, ttlMs: undefined };
    stream.handleResponse({ ...EMPTY, resources: [resource] }, 100, at(nowMs));
  };
  const remove = (name: string, nowMs: number): void => {
    stream.handleResponse({ ...EMPTY, removed: [name] }, 100, at(nowMs));
  };
  const statusOf = (name: ResourceName) => contents.subscription(THING, name)?.status;
  return { contents, stream, ask, leave, send, remove, statusOf };
}

t.test('a name that was unsubscribed before its timeout is not counted twice', (t) => {
  const { contents, stream, ask, leave } = start();
  ask(member, 0);
  leave(member, 1_000);
  ask(glob, 2_000);
  stream.handleTimer(WAIT_MS);
  t.equal(contents.isAnswered, false, 'the glob is still requested');
  t.end();
});

t.test(
  'a glob subscribed again at once is complete when nothing more comes (invariants 3, 18)',
  (t) => {
    const { contents, stream, ask, leave, send, statusOf } = start();
    ask(glob, 0);
    leave(glob, 1_000);
    ask(glob, 2_000);
    send(thing('cloud', 'g/a'), 3_000);
    t.equal(statusOf(glob), 'requested', 'the response may have been in flight');
    t.ok(contents.entry(THING, member), 'but the content is accepted');
    send(thing('cloud', 'g/b'), 4_000);
    stream.handleTimer(2_000 + WAIT_MS);
    t.equal(statusOf(glob), 'timed_out', 'like any name');
    t.equal(stream.nextDeadlineMs(), 3_000 + WAIT_MS);
    stream.handleTimer(3_000 + WAIT_MS);
    t.equal(statusOf(glob), 'present');
    t.end();
  },
);

t.test('a response in flight for a name does not answer for the glob subscribed instead', (t) => {
  const { ask, leave, send, statusOf } = start();
  ask(member, 0);
  leave(member, 1_000);
  ask(glob, 1_000);
  send(thing('cloud', 'g/a'), 1_500);
  t.equal(statusOf(glob), 'requested');
  t.end();
});

t.test(
  'a response in flight for a name does not answer for a glob that was subscribed before the name left',
  (t) => {
    // Found by the simulation, seed 94463.
    const { ask, leave, send, statusOf } = start();
    ask(member, 0);
    ask(glob, 500);
    leave(member, 1_000);
    send(thing('cloud', 'g/a'), 1_500);
    t.equal(statusOf(glob), 'requested');
    t.end();
  },
);

t.test('unsubscribing a member prolongs the doubt about its glob', (t) => {
  const { stream, ask, leave, send, statusOf } = start();
  ask(member, 0);
  ask(glob, 500);
  send(thing('cloud', 'g/a'), 1_000);
  t.equal(stream.nextDeadlineMs(), 16_000);
  leave(member, 2_000);
  stream.handleTimer(16_000);
  t.equal(statusOf(glob), 'requested');
  stream.handleTimer(2_000 + WAIT_MS);
  t.equal(statusOf(glob), 'present');
  t.end();
});

t.test('the removal of a glob may also answer the earlier subscription', (t) => {
  const { stream, ask, leave, remove, statusOf } = start();
  ask(glob, 0);
  leave(glob, 1_000);
  ask(glob, 2_000);
  remove(thing('cloud', 'g/*'), 3_000);
  t.equal(statusOf(glob), 'requested');
  stream.handleTimer(3_000 + WAIT_MS);
  t.equal(statusOf(glob), 'present');
  t.end();
});

t.test('a refused resource of such a glob proves no more about it', (t) => {
  const { stream, ask, leave, send, statusOf } = start();
  ask(glob, 0);
  leave(glob, 1_000);
  ask(glob, 2_000);
  send(thing('cloud', 'g/a'), 3_000, 'type.googleapis.com/other.Type');
  send(thing('cloud', 'g/b'), 3_000);
  t.equal(statusOf(glob), 'requested');
  stream.handleTimer(3_000 + WAIT_MS);
  t.equal(statusOf(glob), 'present');
  t.end();
});

t.test(
  'a response does not settle a wildcard that was just unsubscribed and subscribed again',
  (t) => {
    const { stream, ask, leave, send, statusOf } = start();
    ask(wildcard, 0);
    leave(wildcard, 1_000);
    ask(wildcard, 2_000);
    send('plain', 3_000);
    t.equal(statusOf(wildcard), 'requested');
    leave(wildcard, 4_000);
    ask(wildcard, 5_000);
    stream.handleResponse(EMPTY, 100, at(6_000));
    t.equal(statusOf(wildcard), 'requested', 'nor does one without resources');
    stream.handleTimer(6_000 + WAIT_MS);
    t.equal(statusOf(wildcard), 'present', 'but then it is empty');
    t.end();
  },
);

// Found by the simulation, seeds 51803, 53799 and 64535.
t.test(
  'the removal of a name proves nothing about a wildcard subscribed after it (invariant 3)',
  (t) => {
    const { contents, stream, ask, leave, send, remove, statusOf } = start();
    ask(plain, 0);
    ask(wildcard, 500);
    remove('plain', 1_000);
    t.equal(statusOf(plain), 'absent');
    t.equal(statusOf(wildcard), 'requested', 'the response to the wildcard is in flight');
    send('other', 1_500);
    t.equal(statusOf(wildcard), 'present', 'and this is it');
    leave(wildcard, 2_000);
    leave(plain, 2_000);
    ask(plain, 20_000);
    ask(wildcard, 20_500);
    leave(plain, 20_800);
    remove('plain', 21_000);
    t.equal(statusOf(wildcard), 'requested', 'nor if the name was unsubscribed since');
    stream.handleTimer(21_000 + WAIT_MS);
    t.equal(statusOf(wildcard), 'present', 'it is empty when nothing more comes');
    t.equal([...contents.members(THING, wildcard)].length, 0);
    t.end();
  },
);

t.test(
  'a name that was unsubscribed long ago, or for good, leaves no doubt and no deadline',
  (t) => {
    const { stream, ask, leave, send, statusOf } = start();
    ask(glob, 0);
    leave(glob, 1_000);
    ask(glob, 1_000 + WAIT_MS);
    send(thing('cloud', 'g/a'), 1_000 + WAIT_MS);
    t.equal(statusOf(glob), 'present');
    leave(glob, 40_000);
    ask(glob, 40_000);
    send(thing('cloud', 'g/a'), 41_000);
    leave(glob, 42_000);
    t.not(stream.nextDeadlineMs(), 41_000 + WAIT_MS);
    leave(nameOf(thing('cloud', 'h/*')), 60_000);
    ask(nameOf(thing('cloud', 'h/*')), 60_000);
    leave(nameOf(thing('cloud', 'h/*')), 60_000);
    t.end();
  },
);

t.test('unsubscriptions of an earlier stream do not matter on a new one', (t) => {
  const { stream, ask, leave, send, statusOf } = start();
  ask(glob, 0);
  leave(glob, 1_000);
  ask(glob, 2_000);
  stream.handleEnded();
  stream.handleOpened();
  stream.pollRequest(3_000);
  send(thing('cloud', 'g/a'), 3_000);
  t.equal(statusOf(glob), 'present');
  t.end();
});
