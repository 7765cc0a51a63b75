/**
 * Goal: each ready stream is pumped once for many calls, in turns that let other work of the event
 * loop through.
 * Method: streams that count, and setImmediate as the only clock.
 */
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { FanOut, type Pumpable } from '../../../../gateway/clients/fan-out.js';
import type { FirstSync } from '../../../../gateway/core/quotas/first-syncs.js';
import type { QuotaLimits } from '../../../../gateway/core/quotas/limits.js';
import { Quotas } from '../../../../gateway/core/quotas/quotas.js';

t.test(
  'a stream that is scheduled many times is pumped once, and not from within the call',
  async (t) => {
    const fanOut = new FanOut();
    let pumps = 0;
    const stream: Pumpable = { pump: () => pumps++ };
    for (let call = 0; call < 5; call++) fanOut.schedule(stream);
    t.equal(pumps, 0);
    await turn();
    t.equal(pumps, 1);
    await turn();
    t.equal(pumps, 1);
  },
);

t.test('a forgotten stream is not pumped', async (t) => {
  const fanOut = new FanOut();
  const pumped: string[] = [];
  const [gone, stays] = ['gone', 'stays'].map((id): Pumpable => ({ pump: () => pumped.push(id) }));
  fanOut.schedule(gone!);
  fanOut.schedule(stays!);
  fanOut.forget(gone!);
  await turn();
  t.strictSame(pumped, ['stays']);
});

t.test('a long turn ends after a few milliseconds, and the rest follow in the next', async (t) => {
  const fanOut = new FanOut();
  const pumped: number[] = [];
  const slow = (id: number): Pumpable => ({
    pump: () => {
      pumped.push(id);
      const untilMs = performance.now() + 9;
      while (performance.now() < untilMs);
    },
  });
  for (const id of [1, 2, 3]) fanOut.schedule(slow(id));
  await turn();
  t.strictSame(pumped, [1]);
  await turn();
  t.strictSame(pumped, [1, 2]);
  await turn();
  t.strictSame(pumped, [1, 2, 3]);
});

t.test('a stream that becomes ready while others are pumped gets its turn', async (t) => {
  const fanOut = new FanOut();
  const pumped: string[] = [];
  const late: Pumpable = { pump: () => pumped.push('late') };
  fanOut.schedule({
    pump: () => {
      pumped.push('first');
      fanOut.schedule(late);
    },
  });
  await turn();
  await turn();
  t.strictSame(pumped, ['first', 'late']);
});

t.test('a round of many streams has a pause, in which their changes merge', async (t) => {
  const fanOut = new FanOut();
  let pumps = 0;
  let told = (): void => undefined;
  const streams = Array.from({ length: 100 }, (): Pumpable => ({
    pump: () => {
      if (++pumps === 200) told();
    },
  }));
  const scheduleAll = (): void => {
    for (const stream of streams) fanOut.schedule(stream);
  };
  const beganMs = performance.now();
  scheduleAll();
  while (pumps < 100) await turn();
  const secondRound = new Promise<void>((resolve) => (told = resolve));
  // The timer alone does not keep the process.
  const keep = setInterval(() => undefined, 1_000);
  while (pumps === 100) {
    scheduleAll();
    await turn();
  }
  await secondRound;
  clearInterval(keep);
  t.equal(pumps, 200, 'each stream once, however many changes came');
  t.ok(performance.now() - beganMs >= 5, '0.05 ms for each stream');
});

t.test('rounds of few streams follow each other at once', async (t) => {
  const fanOut = new FanOut();
  let pumps = 0;
  const stream: Pumpable = { pump: () => pumps++ };
  for (let change = 1; change <= 5; change++) {
    fanOut.schedule(stream);
    await turn();
    t.equal(pumps, change);
  }
});

const limits = (firstSyncs: number): QuotaLimits => ({
  global: {
    streams: 9,
    connections: 9,
    names: 9,
    upstream_names: 9,
    node_groups: 9,
    first_syncs: firstSyncs,
    buffered: 9,
  },
  peerShare: 1,
  peer: {
    counts: {
      streams: 9,
      connections: 9,
      names: 9,
      upstream_names: 9,
      node_groups: 9,
      first_syncs: 9,
      buffered: 9,
    },
    requestsPerSecond: 1,
  },
});

t.test('streams wait for their first responses, those in sync do not', async (t) => {
  const fanOut = new FanOut();
  const account = new Quotas(limits(1)).account('peer');
  const pumped: string[] = [];
  const connecting = (id: string, hasWritten = true): Pumpable => ({
    firstSync: { account, isResuming: false, state: 'idle' },
    hasWritten,
    pump: () => pumped.push(id),
  });
  const [a, b, silent] = [connecting('a'), connecting('b'), connecting('silent', false)];
  fanOut.schedule(silent);
  fanOut.schedule(a);
  fanOut.schedule(b);
  fanOut.schedule({ pump: () => pumped.push('in sync') });
  // A turn ends early on a machine that is busy with other work.
  const reach = async (count: number): Promise<void> => {
    while (pumped.length < count) await turn();
    await turn();
  };
  await reach(3);
  t.strictSame(
    pumped,
    ['in sync', 'silent', 'a'],
    'one that has nothing to send gives its place back',
  );
  fanOut.schedule(a);
  await reach(4);
  t.strictSame(pumped.slice(3), ['a'], 'a stream whose first responses are under way goes on');
  fanOut.endFirstSync(a);
  fanOut.endFirstSync(a);
  await reach(5);
  t.strictSame(pumped.slice(4), ['b']);
  fanOut.schedule(a);
  await reach(6);
  t.strictSame(pumped.slice(5), ['a'], 'and goes on when they are over');
  fanOut.forget(b);
  t.equal(account.held('first_syncs'), 0);
});

t.test(
  'streams in sync and first responses each get a part of a turn: neither waits for the other to end',
  async (t) => {
    const fanOut = new FanOut();
    const account = new Quotas(limits(9)).account('peer');
    const pumped: string[] = [];
    const slow = (id: string, firstSync?: FirstSync): Pumpable => ({
      ...(firstSync && { firstSync }),
      hasWritten: true,
      pump: () => {
        pumped.push(id);
        const untilMs = performance.now() + 9;
        while (performance.now() < untilMs);
      },
    });
    for (const id of ['under way', 'waiting']) {
      const state = id === 'waiting' ? 'idle' : 'under_way';
      fanOut.schedule(slow(id, { account, isResuming: false, state }));
    }
    for (const id of ['in sync', 'also in sync']) fanOut.schedule(slow(id));
    await turn();
    t.strictSame(pumped, ['in sync', 'under way']);
    await turn();
    t.strictSame(pumped.slice(2), ['also in sync', 'waiting']);
  },
);

t.test('a client that acknowledges nothing holds up the next one for a second', async (t) => {
  const fanOut = new FanOut();
  const account = new Quotas(limits(1)).account('peer');
  const next = new Promise<void>((resolve) => {
    for (const pump of [() => undefined, resolve]) {
      fanOut.schedule({
        firstSync: { account, isResuming: false, state: 'idle' },
        hasWritten: true,
        pump,
      });
    }
  });
  // The timer alone does not keep the process.
  const keep = setInterval(() => undefined, 1_000);
  await next;
  clearInterval(keep);
  t.equal(account.held('first_syncs'), 1);
});
