/**
 * Goal: `rate_limit_settings` of a ConfigSource delay requests and nothing else, and delayed
 * changes merge instead of queueing.
 * Method: the state machine of one management server, polled after each input as the shell does.
 */
import t from 'tap';
import { TokenBucket } from '../../../../../authorities/core/sources/token-bucket.js';
import type { GrpcSourceSpec } from '../../../../../config/model.js';
import {
  decodeRequest,
  encodeResponse,
  type ReceivedRequest,
} from '../../../../support/discovery-messages.js';
import { nameOf, THING, thing } from '../../../../support/federation-driver.js';
import { managementServerOf } from '../../../../support/management-server.js';

const LISTENER = {};

function start(rateLimit: GrpcSourceSpec['rateLimit']) {
  const server = managementServerOf(rateLimit && { rateLimit });
  const sent: ReceivedRequest[] = [];
  const pump = (nowMs: number): void => {
    for (const effect of server.takeEffects(nowMs)) {
      if (effect.kind === 'send') sent.push(decodeRequest(effect.bytes));
    }
  };
  const ask = (id: string, nowMs: number): void => {
    server.subscribe(THING, nameOf(thing('c', id)), LISTENER, nowMs);
    pump(nowMs);
  };
  const answer = (nonce: string, nowMs: number): void => {
    const bytes = encodeResponse({ typeUrl: THING, nonce });
    server.handleMessage(server.health.epoch, bytes, nowMs);
    pump(nowMs);
  };
  return { server, sent, pump, ask, answer };
}

t.test(
  'a burst of 10,000 names under a limit of one per second is one more request, a second later',
  (t) => {
    const { server, sent, pump, ask } = start({ maxTokens: 1, fillRatePerSecond: 1 });
    for (let id = 0; id < 10_000; id++) ask(String(id), id / 100);
    t.equal(sent.length, 1);
    t.equal(server.nextDeadlineMs(), 1_000);
    server.handleTimer(1_000);
    pump(1_000);
    t.strictSame(
      sent.map(({ subscribe }) => subscribe.length),
      [1, 9_999],
    );
    pump(5_000);
    t.equal(sent.length, 2, 'and nothing is pending');
    t.not(server.nextDeadlineMs(), 2_000, 'nor a wait for a token');
    t.end();
  },
);

t.test('a name that is unsubscribed before its request is never requested', (t) => {
  const { server, sent, pump, ask } = start({ maxTokens: 1, fillRatePerSecond: 1 });
  ask('a', 0);
  ask('b', 1);
  server.unsubscribe(THING, nameOf(thing('c', 'b')), LISTENER, 2);
  pump(1_000);
  t.equal(sent.length, 1);
  t.end();
});

t.test(
  'a new name waits for one ACK, not for all of a source that sends faster than the limit',
  (t) => {
    const { sent, pump, ask, answer } = start({ maxTokens: 1, fillRatePerSecond: 1 });
    ask('a', 0);
    for (let at = 0; at < 20; at++) answer(`n${at}`, 100 + at);
    ask('b', 500);
    pump(1_000);
    answer('later', 1_500);
    pump(2_000);
    t.match(sent.slice(1), [{ nonce: 'n0' }, { nonce: '', subscribe: [thing('c', 'b')] }]);
    pump(3_000);
    t.equal(sent.at(-1)?.nonce, 'n1');
    t.end();
  },
);

t.test('a delayed NACK that is due waits for its token without a deadline in the past', (t) => {
  const { server, sent, pump, ask } = start({ maxTokens: 1, fillRatePerSecond: 0.1 });
  const refuse = (nonce: string, nowMs: number): void => {
    const resources = [{ name: 'not an xdstp name', version: '1', body: Buffer.of() }];
    const bytes = encodeResponse({ typeUrl: THING, nonce, resources });
    server.handleMessage(server.health.epoch, bytes, nowMs);
    pump(nowMs);
  };
  ask('a', 0);
  refuse('one', 10_000);
  t.match(sent.at(-1), { nonce: 'one' });
  refuse('two', 10_500);
  server.handleTimer(11_000);
  pump(11_000);
  t.equal(sent.length, 2);
  t.ok((server.nextDeadlineMs() ?? Infinity) > 11_000);
  pump(20_000);
  t.match(sent.at(-1), { nonce: 'two' });
  t.end();
});

t.test('ACKs are delayed too, and go first', (t) => {
  const { sent, pump, ask, answer } = start({ maxTokens: 1, fillRatePerSecond: 2 });
  ask('a', 0);
  ask('b', 100);
  answer('one', 200);
  t.equal(sent.length, 1);
  pump(500);
  pump(1_000);
  t.match(sent.slice(1), [{ nonce: 'one' }, { nonce: '', subscribe: [thing('c', 'b')] }]);
  t.end();
});

t.test('without a limit requests go at once', (t) => {
  const { server, sent, ask } = start(undefined);
  for (const id of ['a', 'b', 'c']) ask(id, 0);
  t.equal(sent.length, 3);
  server.close('the test is over');
  t.equal(server.nextDeadlineMs(), undefined);
  t.end();
});

t.test(
  'a full bucket empties at once, then gives one token at a time, and never exceeds its size',
  (t) => {
    const bucket = new TokenBucket({ maxTokens: 3, fillRatePerSecond: 7 });
    const takeAll = (nowMs: number): number => {
      let taken = 0;
      for (; bucket.nextTokenMs <= nowMs; taken++) bucket.take(nowMs);
      return taken;
    };
    t.equal(takeAll(0), 3);
    t.equal(takeAll(142), 0);
    for (let at = 0; at < 1_000; at++)
      t.equal(takeAll(bucket.nextTokenMs), 1, 'due when announced');
    t.equal(takeAll(1e9), 3);
    t.end();
  },
);
