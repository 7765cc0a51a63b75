/**
 * Goal: ACKs pace answers without gating them (invariant 5): a bounded number without an ACK, with
 * a minimum distance.
 * Method: manual answers and ACKs.
 */
import t from 'tap';
import { Unacknowledged } from '../../../../../gateway/core/session/unacknowledged.js';

const PACE_MS = 1_000;
const MOST = 4;
const MOST_PASSED_OVER = 64;

function sent(count: number, startMs = 0): Unacknowledged {
  const one = new Unacknowledged();
  for (let at = 0; at < count; at++) {
    one.handleSent(`n${at}`, false, false, startMs + at * PACE_MS);
  }
  return one;
}

t.test('the next answer waits for one second, or for the ACK (invariant 5)', (t) => {
  const one = sent(0);
  t.ok(one.isEmpty);
  t.equal(one.waitUntilMs(0), undefined, 'nothing is in flight');
  one.handleSent('a', false, false, 100);
  t.equal(one.sinceMs, 100);
  t.equal(one.waitUntilMs(1_099), 1_100);
  t.equal(one.waitUntilMs(1_100), undefined);
  t.equal(one.handleAcknowledged('a'), 100);
  t.equal(one.waitUntilMs(101), undefined);
  t.equal(one.sinceMs, undefined);
  t.end();
});

t.test('four answers may lack an ACK, and no fifth, however long (invariant 5)', (t) => {
  const one = sent(MOST);
  t.equal(one.waitUntilMs(1_000_000), Infinity);
  t.equal(sent(MOST - 1).waitUntilMs(1_000_000), undefined);
  t.equal(one.handleAcknowledged('n0'), 0);
  t.equal(one.waitUntilMs(1_000_000), undefined);
  t.equal(one.sinceMs, PACE_MS, 'of the oldest one in flight');
  t.end();
});

t.test('an ACK covers the answers before it, whose own ACKs still count, once', (t) => {
  const one = sent(MOST);
  t.equal(one.handleAcknowledged('n2'), 2 * PACE_MS);
  t.equal(one.sinceMs, 3 * PACE_MS);
  t.equal(one.waitUntilMs(10 * PACE_MS), undefined, 'one is in flight');
  t.equal(one.handleAcknowledged('n0'), 0, 'when it was sent');
  t.equal(one.handleAcknowledged('n0'), undefined);
  t.equal(one.handleAcknowledged('n2'), undefined);
  t.equal(one.handleAcknowledged('unknown'), undefined);
  t.equal(one.handleAcknowledged('n3'), 3 * PACE_MS);
  t.equal(one.handleAcknowledged('n1'), PACE_MS);
  t.ok(one.isEmpty);
  t.end();
});

t.test('an answer of several responses is in flight until each of them is ACKed', (t) => {
  const one = new Unacknowledged();
  one.handleSent('a', false, false, 0);
  one.handleSent('b', true, true, 5);
  one.handleSent('c', false, true, 7);
  t.equal(one.newUntilMs(100), 105, 'after the last response that brings something new (seed 409)');
  for (const nonce of ['b', 'a']) t.equal(one.handleAcknowledged(nonce), 0);
  t.notOk(one.isEmpty);
  t.equal(one.waitUntilMs(8), 1_007, 'one second after the last of them');
  one.handleSent('d', false, false, 2_000);
  t.equal(one.handleAcknowledged('d'), 2_000);
  t.ok(one.isEmpty);
  t.equal(one.handleAcknowledged('c'), 0, 'the response that was covered');
  t.end();
});

t.test('a response that continues an answer already ACKed counts as a new answer', (t) => {
  const one = sent(1);
  one.handleAcknowledged('n0');
  one.handleSent('rest', false, true, 10);
  t.equal(one.sinceMs, 10);
  t.equal(one.handleAcknowledged('rest'), 10);
  t.end();
});

t.test(
  'the wait for new resources counts from the last answer that brought some (invariant 6)',
  (t) => {
    const one = new Unacknowledged();
    t.equal(one.newUntilMs(16_000), undefined);
    one.handleSent('a', true, false, 0);
    one.handleSent('b', true, false, 1_000);
    one.handleSent('c', false, false, 2_000);
    t.equal(one.newUntilMs(16_000), 17_000);
    one.handleAcknowledged('b');
    t.equal(one.newUntilMs(16_000), undefined, 'the client has them');
    t.end();
  },
);

t.test('of covered nonces only the latest are remembered (bounds)', (t) => {
  const one = new Unacknowledged();
  const chunks = MOST_PASSED_OVER + 2;
  for (let at = 0; at < chunks; at++) one.handleSent(`n${at}`, false, at > 0, 0);
  one.handleSent('last', false, false, 1);
  one.handleAcknowledged('last');
  t.equal(one.handleAcknowledged('n0'), undefined);
  t.equal(one.handleAcknowledged('n1'), undefined);
  t.equal(one.handleAcknowledged('n2'), 0);
  t.equal(one.handleAcknowledged(`n${chunks - 1}`), 0);
  t.end();
});
