/** Goal: first syncs are bounded, resuming clients go first, and peers take turns (docs/SECURITY.md, "Quotas"). */
import t from 'tap';
import { FirstSyncs, type FirstSync } from '../../../../../gateway/core/quotas/first-syncs.js';
import { Quotas } from '../../../../../gateway/core/quotas/quotas.js';

function start(most: number, share = 1) {
  const bounds = {
    streams: 9,
    connections: 9,
    names: 9,
    upstream_names: 9,
    node_groups: 9,
    first_syncs: most,
    buffered: 9,
  };
  const own = { ...bounds, first_syncs: Infinity };
  const quotas = new Quotas({
    global: bounds,
    peerShare: share,
    peer: { counts: own, requestsPerSecond: 1 },
  });
  const syncs = new FirstSyncs<string>();
  const wait = (peer: string, stream: string, isResuming = false): FirstSync => {
    const sync: FirstSync = { account: quotas.account(peer), isResuming, state: 'idle' };
    syncs.wait(sync, stream);
    return sync;
  };
  return { quotas, syncs, wait };
}

t.test('a bounded number is under way, and the next begins when one is over', (t) => {
  const { quotas, syncs, wait } = start(2);
  const [a] = ['a', 'b', 'c'].map((stream) => wait('p', stream));
  t.equal(syncs.waitingCount, 3);
  t.equal(syncs.next(0), 'a');
  t.equal(syncs.next(0), 'b');
  t.equal(syncs.next(0), undefined);
  t.equal(quotas.used('first_syncs'), 2);
  syncs.end(a!);
  syncs.end(a!);
  t.equal(syncs.next(0), 'c');
  t.equal(syncs.waitingCount, 0);
  t.end();
});

t.test('resuming clients go before fresh ones', (t) => {
  const { syncs, wait } = start(9);
  wait('p', 'fresh');
  wait('p', 'resuming', true);
  t.equal(syncs.next(0), 'resuming');
  t.equal(syncs.next(0), 'fresh');
  t.end();
});

t.test('peers take turns, and one that has used up its share waits', (t) => {
  const { syncs, wait } = start(4, 0.5);
  for (const stream of ['a1', 'a2', 'a3']) wait('a', stream);
  wait('b', 'b1');
  t.equal(syncs.next(0), 'a1');
  t.equal(syncs.next(0), 'b1');
  t.equal(syncs.next(0), 'a2');
  t.equal(syncs.next(0), undefined, 'half of what b leaves');
  t.equal(syncs.waitingCount, 1);
  t.end();
});

t.test('one that takes too long holds up no other', (t) => {
  const { quotas, syncs, wait } = start(1);
  t.equal(syncs.nextDeadlineMs, undefined);
  const slow = wait('p', 'slow');
  wait('p', 'next');
  t.equal(syncs.next(0), 'slow');
  t.equal(syncs.nextDeadlineMs, 1_000);
  t.equal(syncs.next(999), undefined);
  t.equal(syncs.next(1_000), 'next');
  t.equal(slow.state, 'over');
  t.equal(quotas.used('first_syncs'), 1);
  t.end();
});

t.test('a stream without anything to send gives its place back, and waits again later', (t) => {
  const { quotas, syncs, wait } = start(1);
  const sync = wait('p', 'a');
  syncs.wait(sync, 'a');
  t.equal(syncs.waitingCount, 1, 'it waits once');
  t.equal(syncs.next(0), 'a');
  syncs.release(sync);
  syncs.release(sync);
  t.equal(sync.state, 'idle');
  t.equal(quotas.used('first_syncs'), 0);
  syncs.wait(sync, 'a');
  syncs.end(sync);
  t.equal(syncs.waitingCount, 0, 'it ended while it waited');
  const again: FirstSync = { ...sync, state: 'waiting' };
  syncs.end(again);
  t.equal(syncs.waitingCount, 0, 'an unknown one changes nothing');
  t.equal(syncs.next(0), undefined);
  t.end();
});

t.test('a stream that ends while it waits leaves the queue, resuming or not', (t) => {
  const { syncs, wait } = start(9);
  for (const isResuming of [true, false]) syncs.end(wait('p', 'gone', isResuming));
  t.equal(syncs.waitingCount, 0);
  t.equal(syncs.next(0), undefined);
  t.end();
});
