/**
 * Goal: a request that does not come whole costs memory for a bounded time, and not more than its peer's share
 * (docs/SECURITY.md, "Quotas").
 */
import { mock } from 'node:test';
import t, { type Test } from 'tap';
import { DEFAULT_LIMITS } from '../../../../config/limits.js';
import { PartialRequest } from '../../../../gateway/clients/partial-request.js';
import { quotaLimitsOf } from '../../../../gateway/core/quotas/limits.js';
import { Quotas } from '../../../../gateway/core/quotas/quotas.js';

const LENGTH = 100_000;

function start(t: Test, length: number, heldBytes = 0) {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => {
    mock.timers.reset();
  });
  const limits = { ...DEFAULT_LIMITS, maxBufferedBytes: 1_000_000, maxPeerPercent: 100 };
  const account = new Quotas(quotaLimitsOf(limits)).account('peer');
  account.change('buffered', heldBytes);
  const log: string[] = [];
  const state = { isPaused: false };
  const request = new PartialRequest(
    {
      account,
      isPaused: () => state.isPaused,
      pauseReading: () => log.push('pause'),
      readOn: () => log.push('read on'),
      onTooSlow: ({ message }) => log.push(message),
    },
    length,
  );
  return { account, log, state, request };
}

t.test('a long request counts for its peer until it is whole', (t) => {
  const { account, log, request } = start(t, LENGTH);
  t.equal(account.held('buffered'), LENGTH);
  request.end();
  t.equal(account.held('buffered'), 0);
  mock.timers.tick(60_000);
  t.strictSame(log, []);
  t.end();
});

t.test('a request has 10 s to come whole, besides the time in which it is not read', (t) => {
  const { account, log, state } = start(t, 10);
  t.equal(account.held('buffered'), 0, 'a short one does not count');
  state.isPaused = true;
  mock.timers.tick(10_000);
  t.strictSame(log, []);
  state.isPaused = false;
  mock.timers.tick(9_999);
  t.strictSame(log, []);
  mock.timers.tick(1);
  t.match(log, [/the rest of a message in time/]);
  t.end();
});

t.test('while the peer has used up its share, the gateway does not read the request', (t) => {
  const { account, log, request } = start(t, LENGTH, 1_000_000);
  mock.timers.tick(60_000);
  t.strictSame(log, ['pause']);
  account.change('buffered', -1);
  mock.timers.tick(100);
  t.strictSame(log, ['pause', 'read on']);
  t.equal(account.held('buffered'), 999_999 + LENGTH);
  mock.timers.tick(10_000);
  t.match(log, ['pause', 'read on', /in time/]);
  request.end();
  t.equal(account.held('buffered'), 999_999);
  t.end();
});

t.test('a call that ends while its request waits reads on, so that it can close', (t) => {
  const { account, log, request } = start(t, LENGTH, 1_000_000);
  request.end();
  mock.timers.tick(60_000);
  t.strictSame(log, ['pause', 'read on']);
  t.equal(account.held('buffered'), 1_000_000);
  t.end();
});
