/**
 * Goal: cost follows change, a collection subscriber costs O(1), and memory is bounded by the
 * subscriptions (ARCHITECTURE, speed 3 to 5).
 * Method: counted calls and counted entries, no clock; retained bytes only where they differ by
 * orders of magnitude.
 */
import t from 'tap';
import { ChangeLog } from '../../../../../gateway/core/cache/change-log.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { Instance } from '../../../../support/session-driver.js';
import { FakeDirectory, projectionOf, nameOf } from '../../../../support/fake-directory.js';
import { CDS, EDS, SDS, cds, eds, sds } from '../../../../support/mesh-names.js';

/** The number of items that all readers step over while `act` runs. */
function stepsDuring(act: () => void): number {
  const prototype = ChangeLog.prototype as { since: (seq: number) => IterableIterator<unknown> };
  const original = prototype.since;
  let steps = 0;
  prototype.since = function* (seq) {
    for (const item of original.call(this, seq)) {
      steps++;
      yield item;
    }
  };
  try {
    act();
  } finally {
    prototype.since = original;
  }
  return steps;
}

/** Notifies the cache directly: FakeDirectory would search all its content. */
function bigInstance(members: number): Instance {
  const instance = new Instance({ chunkBytes: 1e9, maxNames: 10 });
  const { cache } = instance;
  const first = instance.connect();
  first.subscribe(SDS, sds('g/*'));
  for (let id = 0; id < members; id++) cache.onChanged(projectionOf(SDS, sds(`g/${id}`), 'v1'));
  cache.onComplete(SDS, nameOf(sds('g/*')), true);
  first.disconnect();
  return instance;
}

t.test('changing 1 of 100,000 touches one item for each client (ARCHITECTURE, speed 3)', (t) => {
  const instance = bigInstance(100_000);
  const clients = Array.from({ length: 2 }, () => instance.connect());
  for (const client of clients) {
    client.subscribe(SDS, sds('g/*'));
    const resources = client.settle().map((one) => one.resources.length);
    t.strictSame(resources, Array<number>(40).fill(2_500), 'in responses of a bounded length');
  }
  const sent: number[] = [];
  const steps = stepsDuring(() => {
    instance.cache.onChanged(projectionOf(SDS, sds('g/77'), 'v2'));
    for (const client of clients) sent.push(...client.settle().map((one) => one.resources.length));
  });
  t.strictSame(sent, [1, 1]);
  t.equal(steps, 2);
  const removal = stepsDuring(() => {
    instance.cache.onRemoved(SDS, nameOf(sds('g/78')));
    for (const client of clients) sent.push(...client.settle().map((one) => one.removed.length));
  });
  t.strictSame(sent.slice(2), [1, 1]);
  t.equal(removal, 2);
  t.end();
});

t.test(
  'a subscriber of a collection of 100,000 keeps numbers, not members (ARCHITECTURE, speed 4)',
  (t) => {
    const instance = bigInstance(100_000);
    const maps: Map<unknown, unknown>[] = [];
    const sets: Set<unknown>[] = [];
    const { Map: RealMap, Set: RealSet } = globalThis;
    globalThis.Map = class extends RealMap<unknown, unknown> {
      constructor(...args: [Iterable<readonly [unknown, unknown]>?]) {
        super(...(args as []));
        maps.push(this);
      }
    } as MapConstructor;
    globalThis.Set = class extends RealSet<unknown> {
      constructor(...args: [Iterable<unknown>?]) {
        super(...(args as []));
        sets.push(this);
      }
    } as SetConstructor;
    try {
      const client = instance.connect();
      const { typeUrl, subscribe } = client.model.change(SDS, [sds('g/*')]);
      maps.length = sets.length = 0;
      client.session.handleRequest(
        { ...client.model.change(SDS, [...subscribe]), typeUrl },
        instance.nowMs,
      );
      let bytes = 0;
      const poll = (): number => client.session.takeResponse(instance.nowMs)?.size ?? 0;
      for (let size = poll(); size > 0; size = poll()) bytes += size;
      t.ok(bytes > 100_000 * 50, 'all members were sent');
    } finally {
      globalThis.Map = RealMap;
      globalThis.Set = RealSet;
    }
    t.ok(maps.length > 0, 'its containers were counted');
    const entries = [...maps, ...sets].reduce((sum, one) => sum + one.size, 0);
    t.ok(entries < 20, `${entries} entries`);
    t.end();
  },
);

t.test(
  'a client that withholds ACKs costs nothing more with each update (ARCHITECTURE, speed 5)',
  (t) => {
    const instance = new Instance({ tombstonesPerCollection: 100 });
    const { directory, cache } = instance;
    const client = instance.connect();
    directory.put(SDS, sds('solo'), 'v0');
    directory.put(SDS, sds('g/a'), 'v0');
    client.subscribe(SDS, sds('g/*'), sds('solo'));
    directory.answer();
    client.poll();
    const calls = client.readyCalls;
    for (let update = 1; update <= 10_000; update++) {
      directory.put(SDS, sds('solo'), `v${update}`);
      directory.put(SDS, sds('g/a'), `v${update}`);
    }
    t.equal(client.readyCalls, calls + 1, 'woken once');
    const [glob] = cache.globs();
    t.equal([...glob!.collection.members.since(-1)].length, 1);
    client.ack();
    const [response, ...rest] = client.settle();
    t.strictSame(
      response?.resources.map(({ body }) => body?.toString()),
      ['v10000', 'v10000'],
    );
    t.strictSame(rest, []);
    t.end();
  },
);

t.test('a changed cluster looks at no other cluster and at no other assignment', (t) => {
  const directory = new FakeDirectory();
  const instance = new Instance({ directory });
  for (let id = 0; id < 200; id++) {
    directory.put(CDS, cds(`g/${id}`), 'v1', eds(String(id)));
    directory.put(EDS, eds(String(id)), 'v1');
  }
  const client = instance.connect();
  client.subscribe(CDS, cds('g/*'));
  client.subscribe(EDS, ...Array.from({ length: 200 }, (_, id) => eds(String(id))));
  directory.answer();
  client.settle();
  const asked: string[] = [];
  const original = client.session.clustersBehind.bind(client.session);
  client.session.clustersBehind = (key) => {
    asked.push(key);
    return original(key);
  };
  directory.put(CDS, cds('g/7'), 'v2', eds('7'));
  t.equal(client.settle().length, 2);
  t.strictSame(asked, [eds('7')]);
  t.end();
});

t.test(
  'a client stuck through endless churn retains a bounded number of removals, then its stream ends',
  (t) => {
    const instance = new Instance({ tombstonesPerCollection: 10, tombstoneMaxAgeMs: 1_000 });
    const stuck = instance.connect();
    const { directory, cache } = instance;
    stuck.subscribe(SDS, sds('g/*'));
    directory.put(SDS, sds('g/stays'), 'v1');
    directory.answer();
    stuck.settle();
    for (let n = 0; n < 150; n++) {
      instance.advance(100);
      directory.put(SDS, sds(`g/${n}`), 'v1');
      directory.remove(SDS, sds(`g/${n}`));
      if (n === 50) t.equal(stuck.session.endStatus(0), undefined, 'it could still catch up');
    }
    const [glob] = [...cache.globs()];
    t.ok((glob?.collection.tombstones.size ?? Infinity) <= 110);
    t.equal(stuck.session.endStatus(0)?.code, STATUS_CODE.resourceExhausted);
    const fresh = instance.connect();
    fresh.subscribe(SDS, sds('g/*'));
    t.equal(fresh.session.endStatus(0), undefined, 'earlier removals do not concern a new client');
    t.end();
  },
);
