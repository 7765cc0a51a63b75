/**
 * Goal: each client counts on the account of its identity, with the limits of the entry of `clients` that
 * matches it now (docs/SECURITY.md, "Quotas").
 */
import t from 'tap';
import { DEFAULT_LIMITS } from '../../../../../config/limits.js';
import type { ClientLimits, ClientMatch, ClientRule } from '../../../../../config/model.js';
import {
  accountKeyOf,
  ClientAccounts,
  peerLimitsOf,
  type KnownClient,
} from '../../../../../gateway/core/quotas/client-accounts.js';
import { quotaLimitsOf } from '../../../../../gateway/core/quotas/limits.js';
import { Quotas } from '../../../../../gateway/core/quotas/quotas.js';
import { ANONYMOUS } from '../../../../../gateway/core/rights/requester.js';

const LIMITS = quotaLimitsOf(DEFAULT_LIMITS);
const ADDRESS = '192.0.2.1';

const ruleOf = (match: ClientMatch, limits: ClientLimits): ClientRule => ({
  match,
  limits,
  allow: [],
  hideExistence: false,
});

const anonymous: KnownClient = { requester: { identity: ANONYMOUS, address: ADDRESS } };

function byToken(sub: unknown, iss = 'https://issuer.test'): KnownClient {
  const claims = { iss, sub };
  return { requester: { identity: { kind: 'jwt', claims }, address: ADDRESS }, claims };
}

t.test(
  'a token has an account for its issuer and subject, anything else that of its connection',
  (t) => {
    const quotas = new Quotas(LIMITS);
    const accounts = new ClientAccounts(quotas, () => undefined);
    const one = accounts.of(byToken('one'), ADDRESS);
    t.equal(accounts.of(byToken('one'), '192.0.2.2'), one, 'from any address');
    t.not(accounts.of(byToken('two'), ADDRESS), one);
    t.not(accounts.of(byToken('one', 'https://other.test'), ADDRESS), one);
    t.equal(accounts.of(anonymous, ADDRESS), quotas.account(ADDRESS));
    t.equal(accountKeyOf({ iss: 'i', sub: 7 }, ADDRESS), ADDRESS, 'a token without a subject');
    t.end();
  },
);

t.test(
  'the first entry that matches gives the limits, and those of the settings fill it up',
  (t) => {
    const { requester } = anonymous;
    const limitsBy = (...rules: readonly ClientRule[]) =>
      peerLimitsOf(LIMITS.peer, rules, requester);
    t.equal(peerLimitsOf(LIMITS.peer, undefined, requester), LIMITS.peer, 'no rules');
    t.equal(
      limitsBy(ruleOf({ dns: 'other.test' }, { streams: 1 })),
      LIMITS.peer,
      'no entry matches',
    );
    const all = limitsBy(
      ruleOf({ anonymous: true }, { streams: 1, names: 2, requestsPerSecond: 3 }),
      ruleOf({ anonymous: true }, { streams: 9 }),
    );
    t.match(all, { counts: { streams: 1, names: 2 }, requestsPerSecond: 3 });
    t.strictSame(limitsBy(ruleOf({ anonymous: true }, {})), LIMITS.peer, 'an entry without limits');
    t.end();
  },
);

t.test('a stream gives its slot back once', (t) => {
  const quotas = new Quotas(LIMITS);
  const accounts = new ClientAccounts(quotas, () => undefined);
  const account = accounts.of(anonymous, ADDRESS);
  const leave = accounts.takeStream(account, anonymous.requester);
  accounts.takeStream(account, anonymous.requester);
  t.equal(quotas.used('streams'), 2);
  leave();
  leave();
  t.equal(quotas.used('streams'), 1);
  t.end();
});

t.test('new rules change the limits of the clients that are there', (t) => {
  let rules: readonly ClientRule[] | undefined;
  const quotas = new Quotas(LIMITS);
  const accounts = new ClientAccounts(quotas, () => rules);
  const account = accounts.of(anonymous, ADDRESS);
  const leave = accounts.takeStream(account, anonymous.requester);
  accounts.takeStream(account, anonymous.requester);
  rules = [ruleOf({ anonymous: true }, { streams: 1, requestsPerSecond: 1 })];
  t.equal(account.exhaustedScope('streams'), undefined, 'not before they are in force');
  accounts.handleRulesChanged();
  t.equal(account.exhaustedScope('streams'), 'peer');
  t.equal(account.held('streams'), 2, 'what it holds stays');
  t.equal(account.rate.delayMs(0, 3), 1_000);
  leave();
  t.equal(account.exhaustedScope('streams'), 'peer', 'it holds as much as it may');
  rules = undefined;
  accounts.handleRulesChanged();
  t.equal(account.exhaustedScope('streams'), undefined);
  t.end();
});
