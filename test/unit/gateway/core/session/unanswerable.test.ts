/**
 * Goal: a client whose stream no source can answer tries its next server, and a client that will be answered keeps its
 * stream (gRFC A71).
 */
import t from 'tap';
import { isUnanswerable } from '../../../../../gateway/core/session/unanswerable.js';

const silent = [{ isUnderWay: false }, { isUnderWay: false }];

t.test('a stream without a response ends once its time is over (gRFC A71)', (t) => {
  t.equal(isUnanswerable(1_000, 12_000, 12_999, silent), false);
  t.equal(isUnanswerable(1_000, 12_000, 13_000, silent), true);
  t.end();
});

t.test('it stays open before any request or after a response, and where the wait is off', (t) => {
  t.equal(isUnanswerable(undefined, 12_000, 1e9, silent), false);
  t.equal(isUnanswerable(1_000, undefined, 1e9, silent), false);
  t.end();
});

t.test('it stays open while a source answers any of its subscriptions', (t) => {
  t.equal(isUnanswerable(1_000, 12_000, 1e9, [...silent, { isUnderWay: true }]), false);
  t.end();
});
