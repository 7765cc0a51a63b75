/**
 * Goal: no peer takes more than its share, a lone peer may hold a whole fleet, and a refused
 * peer learns which limit it reached (docs/SECURITY.md, "Quotas").
 */
import t from 'tap';
import { DEFAULT_LIMITS } from '../../../../../config/limits.js';
import {
  QUOTAS,
  quotaLimitsOf,
  type QuotaLimits,
} from '../../../../../gateway/core/quotas/limits.js';
import {
  Quotas,
  type PeerAccount,
  type QuotaRefusal,
} from '../../../../../gateway/core/quotas/quotas.js';
import { RequestRate } from '../../../../../gateway/core/quotas/request-rate.js';

const counts = (count: number) => ({
  streams: count,
  connections: count,
  names: count,
  upstream_names: count,
  node_groups: count,
  first_syncs: count,
  buffered: count,
});

const limitsOf = (global: number, peerShare = 0.8, own = Infinity): QuotaLimits => ({
  global: counts(global),
  peerShare,
  peer: { counts: counts(own), requestsPerSecond: 10 },
});

/** Takes as much as it gets. */
function fill(account: PeerAccount): number {
  while (!account.exhaustedScope('streams')) account.change('streams', 1);
  return account.held('streams');
}

t.test('a lone peer gets its share, and each greedy peer that follows leaves some', (t) => {
  const quotas = new Quotas(limitsOf(1_000));
  t.equal(fill(quotas.account('a')), 800);
  t.equal(fill(quotas.account('b')), 160);
  t.equal(fill(quotas.account('c')), 32);
  t.equal(quotas.account('d').exhaustedScope('streams'), undefined, 'the next one still gets some');
  t.equal(quotas.account('a').exhaustedScope('streams'), 'peer');
  t.end();
});

t.test('the defaults hold a fleet of 10,000 Envoys with load reports behind one address', (t) => {
  const limits = quotaLimitsOf(DEFAULT_LIMITS);
  const account = new Quotas(limits).account('127.0.0.1');
  for (let at = 0; at < 20_000; at++) {
    if (account.exhaustedScope('streams')) t.fail(`the stream ${at} is refused`);
    account.change('streams', 1);
  }
  t.equal(limits.peer.requestsPerSecond, DEFAULT_LIMITS.peerRequestsPerSecond);
  for (const quota of QUOTAS) t.equal(limits.peer.counts[quota], Infinity);
  t.end();
});

t.test('a share of 1 bounds nobody, and a new peer gets the last one of any share', (t) => {
  const all = new Quotas(limitsOf(10, 1));
  t.equal(fill(all.account('a')), 10);
  t.equal(all.account('b').exhaustedScope('streams'), 'global');
  const half = new Quotas(limitsOf(10, 0.5));
  t.equal(fill(half.account('a')), 5);
  t.equal(half.account('a').exhaustedScope('streams'), 'peer');
  half.account('b').change('streams', 4);
  t.equal(half.account('c').exhaustedScope('streams'), undefined);
  t.end();
});

t.test('when all is used, a peer replaces no more than it might take', (t) => {
  const quotas = new Quotas(limitsOf(20, 0.5, 8));
  for (const peer of ['a', 'b', 'c', 'd', 'e']) quotas.account(peer).change('streams', 4);
  const late = quotas.account('late');
  let replaced = 0;
  for (; late.mayReplace('streams'); replaced++) {
    quotas.account('abcde'[replaced]!).change('streams', -1);
    late.change('streams', 1);
  }
  t.equal(replaced, 1, 'half of one, rounded up');
  t.notOk(quotas.account('a').mayReplace('streams'), 'it holds its share');
  t.end();
});

t.test('limits of a peer itself bind before its share, and a refusal names them', (t) => {
  const quotas = new Quotas(limitsOf(1_000));
  const account = quotas.account('a');
  account.limits = { counts: counts(3), requestsPerSecond: Infinity };
  t.equal(fill(account), 3);
  t.equal(account.fullness('streams'), 1);
  t.match(account.ask('streams'), { code: 8, message: /entry of clients.*limits\.streams/ });
  t.equal(quotas.account('a'), account);
  account.limits = quotas.limits.peer;
  t.equal(account.exhaustedScope('streams'), undefined, 'new limits hold at once');
  t.end();
});

t.test('a refusal is reported, and names the setting', (t) => {
  const told: QuotaRefusal[] = [];
  const quotas = new Quotas(limitsOf(2, 0.5), (refusal) => told.push(refusal));
  const account = quotas.account('a');
  t.equal(account.ask('names'), undefined);
  account.change('names', 1);
  t.match(account.ask('names'), { code: 8, message: /share of all subscribed names.*max_names/ });
  quotas.account('b').change('names', 1);
  t.match(quotas.account('c').ask('names'), { message: /all subscribed names are taken/ });
  quotas.setShort(true);
  t.ok(quotas.isShort);
  t.match(quotas.account('c').ask('streams'), { code: 8, message: /short of memory/ });
  t.equal(quotas.account('c').ask('first_syncs'), undefined, 'known streams are served');
  t.strictSame(
    told.map(({ scope, peer }) => `${scope} ${peer}`),
    ['peer a', 'global c', 'memory c'],
  );
  t.end();
});

t.test('a chunk that several clients do not read counts once, until the last has read it', (t) => {
  const quotas = new Quotas(limitsOf(1_000));
  const [a, b] = [quotas.account('a'), quotas.account('b')];
  const [shared, own] = [Buffer.alloc(700), Buffer.alloc(100)];
  const [first, second, third] = [
    a.holdUnread([shared]),
    b.holdUnread([shared]),
    a.holdUnread([own, shared]),
  ];
  t.equal(quotas.used('buffered'), 800);
  t.equal(a.held('buffered'), 800, 'for the peer of the first');
  t.equal(a.exhaustedScope('buffered'), 'peer');
  t.equal(b.exhaustedScope('buffered'), undefined);
  first();
  first();
  t.equal(a.held('buffered'), 800, 'another client has not read it');
  second();
  third();
  t.equal(a.held('buffered'), 0);
  b.holdShared(shared, 350);
  a.holdUnread([shared]);
  t.equal(b.held('buffered'), 350, 'held anew, it counts for the peer of the first again');
  quotas.setShort(true);
  t.equal(a.exhaustedScope('buffered'), undefined, 'what a known client reads makes room');
  t.end();
});

t.test('a long request counts until it is gone, and once', (t) => {
  const account = new Quotas(limitsOf(1_000_000)).account('a');
  const letGo = account.holdRequest(100_000);
  account.holdRequest(60_000);
  t.equal(account.held('buffered'), 100_000, 'a short one does not count');
  letGo();
  letGo();
  t.equal(account.held('buffered'), 0);
  t.end();
});

t.test('metrics show how full each quota is', (t) => {
  const quotas = new Quotas(limitsOf(10, 0.5));
  quotas.account('a').change('streams', 2);
  quotas.account('b').change('streams', 3);
  t.equal(quotas.used('streams'), 5);
  t.equal(quotas.fullness('streams'), 0.5);
  // The bound of b: half of what a leaves.
  t.equal(quotas.fullestPeer('streams'), 0.75);
  t.equal(quotas.fullestPeer('names'), 0);
  quotas.account('a').rate.delayMs(0, 5);
  t.equal(quotas.fastestPeer(0), 0.25);
  t.end();
});

t.test('there is room again once a tenth is free, at the peer and in all', (t) => {
  const quotas = new Quotas(limitsOf(100, 1, 50));
  const account = quotas.account('a');
  account.change('names', 50);
  t.notOk(account.hasRoomAgain('names'), 'full');
  account.change('names', -1);
  t.notOk(account.hasRoomAgain('names'), 'nearly full');
  account.change('names', -5);
  t.ok(account.hasRoomAgain('names'));
  quotas.account('b').change('names', 50);
  t.notOk(account.hasRoomAgain('names'), 'the others are');
  t.end();
});

t.test('a node group counts for the peer that entered it first, until it is unused', (t) => {
  const quotas = new Quotas(limitsOf(2, 0.5));
  const used = new Set<string>();
  const isUsed = (scope: string): boolean => used.has(scope);
  const account = quotas.account('a');
  t.equal(account.enterGroup('one', isUsed), undefined);
  used.add('one');
  t.match(account.enterGroup('two', isUsed), { code: 8, message: /node groups/ });
  t.equal(quotas.account('b').enterGroup('two', isUsed), undefined);
  used.clear();
  t.equal(account.enterGroup('three', isUsed), undefined, 'the first is given back');
  t.equal(account.held('node_groups'), 1);
  t.equal(account.enterGroup('three', isUsed), undefined);
  t.equal(account.held('node_groups'), 1, 'it counts once');
  t.end();
});

t.test('a peer enters many node groups in linear time', (t) => {
  const account = new Quotas(limitsOf(1_000)).account('a');
  let looks = 0;
  const isUsed = (): boolean => ++looks > 0;
  for (let group = 0; group < 500; group++) account.enterGroup(`${group}`, isUsed);
  t.equal(account.enterGroup('0', isUsed), undefined);
  t.equal(account.held('node_groups'), 500, 'each counts once');
  t.equal(looks, 0, 'groups are looked at only when there is no room');
  t.end();
});

t.test('an account that holds nothing is forgotten', (t) => {
  const quotas = new Quotas(limitsOf(10));
  const nobody = (): boolean => false;
  quotas.account('a').change('streams', 1);
  quotas.account('b').enterGroup('one', nobody);
  quotas.account('c').rate.delayMs(0, 10);
  quotas.sweep(0, () => true);
  t.equal(quotas.peerCount, 3);
  quotas.sweep(1_000, nobody);
  t.equal(quotas.peerCount, 1);
  quotas.account('a').change('streams', -1);
  quotas.sweep(1_000, nobody);
  t.equal(quotas.peerCount, 0);
  t.equal(quotas.used('node_groups'), 0);
  t.end();
});

t.test('a poll beyond the burst is refused, at no cost (docs/SECURITY.md, "Quotas")', (t) => {
  const rate = new RequestRate(10);
  for (let poll = 0; poll < 20; poll++) t.equal(rate.takeOrWaitMs(0, 1), 0);
  t.equal(rate.takeOrWaitMs(0, 5), 0, 'the bucket may be overdrawn');
  for (const nowMs of [0, 100]) t.equal(rate.takeOrWaitMs(nowMs, 1), 500 - nowMs);
  t.equal(rate.takeOrWaitMs(500, 1), 0);
  t.end();
});

t.test('requests beyond the burst delay the next ones, and never refuse one', (t) => {
  const rate = new RequestRate(10);
  t.equal(rate.delayMs(0, 20), 0, 'two seconds at once');
  t.equal(rate.fullness(0), 1);
  t.equal(rate.delayMs(0, 1), 100);
  t.equal(rate.delayMs(1_100, 1), 0, 'after a second there is room');
  t.equal(rate.fullness(60_000), 0);
  rate.perSecond = 1;
  t.equal(rate.delayMs(60_000, 3), 1_000, 'a new rate holds at once');
  const unbounded = new RequestRate(Infinity);
  t.equal(unbounded.delayMs(0, 1e9), 0);
  t.equal(unbounded.takeOrWaitMs(0, 1e9), 0);
  t.equal(unbounded.fullness(0), 0);
  t.end();
});
