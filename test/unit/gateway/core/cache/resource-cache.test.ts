/**
 * Goal: one watch per name for all its clients; each change notified once; removals remembered.
 * Method: subscribers that count, over a directory that the test answers.
 */
import t from 'tap';
import type { NameSubscriber } from '../../../../../gateway/core/cache/entries.js';
import { ResourceCache } from '../../../../../gateway/core/cache/resource-cache.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { FakeDirectory, nameOf, projectionOf } from '../../../../support/fake-directory.js';
import { CDS, EDS, cds, eds } from '../../../../support/mesh-names.js';
import { SWITCH_WAIT_MS } from '../../../../support/session-driver.js';

class Counting implements NameSubscriber {
  names: string[] = [];
  globs = 0;
  handleNameChanged(key: string): void {
    this.names.push(key);
  }
  handleGlobChanged(): void {
    this.globs++;
  }
}

const LIMITS = {
  tombstonesPerCollection: 100,
  tombstoneMaxAgeMs: 60_000,
  unsubscribedLingerMs: 30_000,
  maxUnsubscribedNames: 1_000,
};

function setUp() {
  const directory = new FakeDirectory();
  const cache = new ResourceCache(directory, LIMITS);
  return { directory, cache };
}
const A = nameOf(cds('g/a'));
const LIST = 'xdstp://cloud/envoy.config.cluster.v3.ClusterCollection/all';
const GLOB = nameOf(cds('g/*'));
const UNAVAILABLE = { code: STATUS_CODE.unavailable, message: 'no source' };

t.test('a name that two clients subscribe is watched once (invariant 9)', (t) => {
  const { directory, cache } = setUp();
  const [one, two] = [new Counting(), new Counting()];
  const entry = cache.subscribeName(CDS, A, one);
  t.equal(cache.subscribeName(CDS, A, two), entry);
  cache.subscribeGlob(CDS, GLOB, one);
  cache.subscribeGlob(CDS, GLOB, two);
  t.strictSame(directory.watched, [A.key, GLOB.key]);
  t.equal(directory.watchCalls, 2);
  t.strictSame([cache.nameCount, cache.globCount], [1, 1]);
  t.strictSame(
    [...cache.names()].map(({ name }) => name.key),
    [A.key],
  );
  t.strictSame(
    [...cache.globs()].map(({ collection }) => collection.glob.key),
    [GLOB.key],
  );
  t.end();
});

t.test('names that clients will not come back for are dropped at once, 500 in a turn', (t) => {
  const { directory, cache } = setUp();
  const client = new Counting();
  const leftMs: (number | undefined)[] = [];
  directory.onUnwatch = (ms) => leftMs.push(ms);
  const names = Array.from({ length: 501 }, (_, at) => nameOf(cds(`g/${at}`)));
  const kept = cache.subscribeName(CDS, A, client);
  const entries = names.map((name) => cache.subscribeName(CDS, name, client));
  const glob = cache.subscribeGlob(CDS, GLOB, client);
  for (const entry of entries) cache.unsubscribeName(entry, client, 'disconnected', 1_000);
  cache.unsubscribeGlob(glob, client, 'disconnected', 1_000);
  const asked = [...names, GLOB, A].map((name) => ({ typeUrl: CDS, name }));
  cache.retire([...asked, { typeUrl: CDS, name: nameOf(cds('unknown')) }], 1_001);
  t.strictSame([cache.nameCount, cache.globCount], [2, 1]);
  t.equal(cache.nextDeadlineMs(), -Infinity, 'the rest is due');
  cache.subscribeName(CDS, names.at(-1)!, client);
  cache.handleTimer(1_002);
  t.strictSame([cache.nameCount, cache.globCount], [2, 0], 'a subscribed name stays');
  t.equal(leftMs.length, 501);
  t.ok(
    leftMs.every((ms) => ms === -Infinity),
    'no group waits for them',
  );
  cache.unsubscribeName(kept, client, 'disconnected', 2_000);
  cache.handleTimer(32_000);
  t.equal(leftMs.at(-1), 2_000, 'its group lingers from the time at which the client left');
  t.end();
});

t.test('a change notifies the subscribers of the name, once', (t) => {
  const { directory, cache } = setUp();
  const [concerned, other] = [new Counting(), new Counting()];
  cache.subscribeName(CDS, A, concerned);
  cache.subscribeName(CDS, nameOf(cds('g/b')), other);
  directory.answer();
  concerned.names = [];
  other.names = [];
  const projection = directory.put(CDS, A.key, 'v1');
  cache.onChanged(projection);
  t.strictSame(concerned.names, [A.key]);
  t.strictSame(other.names, []);
  t.end();
});

t.test('a notification without a subscription is ignored', (t) => {
  const { cache } = setUp();
  cache.onChanged(projectionOf(CDS, A.key, 'v1', eds('g/a')));
  cache.onRemoved(CDS, A);
  cache.onDoesNotExist(CDS, A);
  cache.onMemberChanged(GLOB, projectionOf(CDS, A.key, 'v1'));
  cache.onMemberRemoved(CDS, GLOB, A);
  cache.onComplete(CDS, GLOB, true);
  cache.onResourceError(CDS, A, UNAVAILABLE);
  cache.onResourceError(CDS, GLOB, UNAVAILABLE);
  t.equal(cache.nameCount + cache.globCount, 0);
  t.strictSame([...cache.clustersOf(eds('g/a'))], []);
  t.end();
});

t.test(
  'the names of a glob without subscribers are forgotten with its tombstones (invariant 18)',
  (t) => {
    const { directory, cache } = setUp();
    const client = new Counting();
    const sleep = (nowMs: number): void => {
      const glob = cache.subscribeGlob(CDS, GLOB, client);
      directory.answer();
      cache.unsubscribeGlob(glob, client, 'disconnected', nowMs);
      cache.handleTimer(nowMs + 30_000);
    };
    const tombstones = (nowMs: number): number => {
      const glob = cache.subscribeGlob(CDS, GLOB, client);
      directory.answer();
      cache.handleTimer(nowMs + SWITCH_WAIT_MS);
      return glob.collection.tombstones.size;
    };
    directory.put(CDS, A.key, 'v1');
    directory.put(CDS, cds('g/stays'), 'v1');
    sleep(0);
    directory.remove(CDS, A.key);
    cache.handleTimer(89_999);
    t.equal(tombstones(89_999), 1, 'remembered for its time');

    const other = setUp();
    other.directory.put(CDS, A.key, 'v1');
    other.directory.put(CDS, cds('g/stays'), 'v1');
    const glob = other.cache.subscribeGlob(CDS, GLOB, client);
    other.directory.answer();
    other.cache.unsubscribeGlob(glob, client, 'disconnected', 0);
    other.cache.handleTimer(30_000);
    other.directory.remove(CDS, A.key);
    other.cache.handleTimer(90_000);
    const later = other.cache.subscribeGlob(CDS, GLOB, client);
    other.directory.answer();
    other.cache.handleTimer(90_000 + SWITCH_WAIT_MS);
    t.equal(later.collection.tombstones.size, 0, 'and no longer');
    t.end();
  },
);

t.test('of many names that a client left at once, 500 are unsubscribed in one turn', (t) => {
  const { directory, cache } = setUp();
  const client = new Counting();
  const entries = Array.from({ length: 600 }, (_, at) =>
    cache.subscribeName(CDS, nameOf(cds(`n${at}`)), client),
  );
  for (const entry of entries) cache.unsubscribeName(entry, client, 'disconnected', 0);
  t.equal(cache.handleTimer(29_999), false);
  t.equal(cache.handleTimer(30_000), true, 'more is due');
  t.equal(directory.watched.length, 100);
  t.equal(cache.handleTimer(30_000), false);
  t.equal(directory.watched.length, 0);
  t.end();
});

t.test(
  'missing names that another process knew become removals, for their time (invariant 18)',
  (t) => {
    const before = setUp();
    const client = new Counting();
    const namesOf = (cache: ResourceCache, nowMs: number) =>
      [...cache.collectionNames(nowMs)].map(({ glob, members, removed, knownAtMs }) => ({
        glob: glob.key,
        members,
        removed: removed.map(({ key }) => key),
        knownAtMs,
      }));
    for (const id of ['a', 'b', 'c']) before.directory.put(CDS, cds(`g/${id}`), 'v1');
    const asleep = before.cache.subscribeGlob(CDS, GLOB, client);
    before.cache.subscribeGlob(CDS, nameOf(cds('h/*')), client);
    before.directory.put(CDS, cds('h/x'), 'v1');
    before.directory.answer();
    before.directory.remove(CDS, cds('g/b'));
    before.cache.unsubscribeGlob(asleep, client, 'disconnected', 0);
    before.cache.handleTimer(30_000);
    const [members, removed] = [[cds('g/a'), cds('g/c')], [cds('g/b')]];
    const awake = { glob: cds('h/*'), members: [cds('h/x')], removed: [], knownAtMs: 40_000 };
    const sleeps = { glob: GLOB.key, members, removed, knownAtMs: 30_000 };
    t.strictSame(namesOf(before.cache, 40_000), [awake, sleeps]);

    const written = [...before.cache.collectionNames(40_000)];
    before.directory.remove(CDS, cds('g/c'));
    const after = new ResourceCache(before.directory, LIMITS);
    after.restoreCollections(written, 50_000);
    t.strictSame(namesOf(after, 50_000), [sleeps, awake], 'known before any client connects');
    const glob = after.subscribeGlob(CDS, GLOB, client);
    before.directory.answer();
    after.handleTimer(50_000 + SWITCH_WAIT_MS);
    t.strictSame(
      [...glob.collection.tombstones.since(-1)].map(({ key }) => key),
      [cds('g/b'), cds('g/c')],
    );
    after.handleTimer(100_000);
    t.equal(namesOf(after, 100_000).length, 1, 'the time of the unsubscribed collection is over');
    const late = new ResourceCache(before.directory, LIMITS);
    late.restoreCollections(written, 95_000);
    t.strictSame(
      namesOf(late, 95_000).map(({ glob: key }) => key),
      [cds('h/*')],
    );
    t.end();
  },
);

t.test('missing names whose last client left are remembered further, and not removed', (t) => {
  const { directory, cache } = setUp();
  const client = new Counting();
  const members = [cds('g/gone')];
  cache.restoreCollections([{ typeUrl: CDS, glob: GLOB, members, removed: [], knownAtMs: 0 }], 0);
  const glob = cache.subscribeGlob(CDS, GLOB, client);
  directory.answer();
  t.equal(cache.nextDeadlineMs(), SWITCH_WAIT_MS);
  cache.unsubscribeGlob(glob, client, 'unsubscribed', 0);
  cache.retire([{ typeUrl: CDS, name: GLOB }], 0);
  t.equal(cache.globCount, 0);
  t.notOk(cache.handleTimer(SWITCH_WAIT_MS));
  t.strictSame(
    [...cache.collectionNames(0)].map((names) => names.members),
    [members],
  );
  t.end();
});

t.test('changes of names are counted, changes of content are not', (t) => {
  const { directory, cache } = setUp();
  const client = new Counting();
  const changes = (work: () => void): number => {
    const before = cache.collectionChanges;
    work();
    return cache.collectionChanges - before;
  };
  const glob = cache.subscribeGlob(CDS, GLOB, client);
  directory.put(CDS, A.key, 'v1');
  t.equal(
    changes(() => {
      directory.answer();
    }),
    1,
    'a member',
  );
  t.equal(
    changes(() => directory.put(CDS, A.key, 'v2')),
    0,
  );
  t.equal(
    changes(() => {
      cache.onComplete(CDS, GLOB, true);
    }),
    0,
  );
  t.equal(
    changes(() => {
      directory.remove(CDS, A.key);
    }),
    1,
  );
  const list = { ...nameOf(LIST), isGlob: true };
  cache.subscribeGlob(CDS, list, client);
  const member = projectionOf(CDS, cds('any', 'elsewhere'), 'v1');
  t.equal(
    changes(() => {
      cache.onMemberChanged(list, member);
    }),
    1,
    'a member of a list',
  );
  t.equal(
    changes(() => {
      cache.onMemberRemoved(CDS, list, member.name);
    }),
    1,
  );
  directory.put(CDS, A.key, 'v3');
  directory.put(CDS, cds('g/stays'), 'v1');
  cache.unsubscribeGlob(glob, client, 'disconnected', 0);
  t.equal(
    changes(() => {
      cache.handleTimer(30_000);
    }),
    1,
    'asleep',
  );
  directory.remove(CDS, A.key);
  cache.subscribeGlob(CDS, GLOB, client);
  t.equal(
    changes(() => {
      directory.answer();
    }),
    1,
    'content comes back',
  );
  t.equal(
    changes(() => {
      cache.handleTimer(30_000 + SWITCH_WAIT_MS);
    }),
    1,
    'gone meanwhile',
  );
  t.end();
});

t.test('an error about a held resource is not notified (invariant 3)', (t) => {
  const { directory, cache } = setUp();
  const client = new Counting();
  const entry = cache.subscribeName(CDS, A, client);
  directory.put(CDS, A.key, 'v1');
  directory.answer();
  client.names = [];
  directory.fail(CDS, A.key, UNAVAILABLE);
  t.equal(entry.state.kind, 'present');
  t.strictSame(client.names, []);
  t.end();
});

t.test('the clusters behind an assignment are known while a name or a glob holds them', (t) => {
  const { directory, cache } = setUp();
  const client = new Counting();
  const clusters = (id: string): readonly string[] =>
    [...cache.clustersOf(eds(id))].map(({ name }) => name.key);
  const name = cache.subscribeName(CDS, A, client);
  const glob = cache.subscribeGlob(CDS, GLOB, client);
  directory.put(CDS, A.key, 'v1', eds('one'));
  directory.answer();
  t.strictSame(clusters('one'), [A.key]);
  cache.unsubscribeName(name, client, 'disconnected', 0);
  cache.handleTimer(30_000);
  t.strictSame(clusters('one'), [A.key], 'the glob still has it');
  const again = cache.subscribeName(CDS, A, client);
  directory.answer();
  cache.unsubscribeGlob(glob, client, 'disconnected', 30_000);
  cache.handleTimer(60_000);
  t.strictSame(clusters('one'), [A.key], 'the name still has it');
  directory.put(CDS, A.key, 'v2', eds('two'));
  t.strictSame([clusters('one'), clusters('two')], [[], [A.key]], 'it moved');
  directory.put(CDS, A.key, 'v3');
  t.strictSame(clusters('two'), [], 'it has no EDS endpoints any more');
  directory.put(CDS, A.key, 'v4', eds('one'));
  directory.remove(CDS, A.key);
  t.strictSame(clusters('one'), []);
  directory.put(CDS, A.key, 'v4', eds('one'));
  cache.onDoesNotExist(CDS, A);
  t.strictSame(clusters('one'), []);
  t.equal(again.state.kind, 'absent');
  cache.onDoesNotExist(CDS, A);
  directory.put(EDS, eds('one'), 'v1');
  t.end();
});

t.test('a cluster that only a glob holds is forgotten with it', (t) => {
  const { directory, cache } = setUp();
  const client = new Counting();
  const glob = cache.subscribeGlob(CDS, GLOB, client);
  directory.put(CDS, A.key, 'v1', eds('one'));
  directory.put(CDS, cds('g/b'), 'v1', eds('one'));
  directory.answer();
  directory.remove(CDS, A.key);
  t.strictSame([...cache.clustersOf(eds('one'))].length, 1);
  cache.unsubscribeGlob(glob, client, 'disconnected', 0);
  cache.handleTimer(30_000);
  t.strictSame([...cache.clustersOf(eds('one'))], []);
  t.end();
});

t.test('onHeld reports every change of held content, with both versions, once', (t) => {
  const directory = new FakeDirectory();
  const told: string[] = [];
  const cache = new ResourceCache(directory, {
    ...LIMITS,
    onHeld: ({ name, before, after, cause }) => {
      told.push(`${name.id} ${before ? 'had' : 'new'} ${after ? 'has' : 'gone'} ${cause}`);
    },
  });
  const take = (): readonly string[] => told.splice(0);
  const one = new Counting();
  directory.put(CDS, A.key, '1');
  const entry = cache.subscribeName(CDS, A, one);
  t.match(cache.held(CDS, A), { kind: 'waiting', asked: A, inCollection: false });
  directory.answer();
  t.strictSame(take(), ['g/a new has first']);
  const glob = cache.subscribeGlob(CDS, GLOB, one);
  const B = nameOf(cds('g/b'));
  t.match(cache.held(CDS, B), { kind: 'waiting', asked: GLOB, inCollection: false });
  directory.put(CDS, B.key, '1');
  directory.answer();
  t.strictSame(take(), ['g/b new has first'], 'a name that is already held is not a change');
  t.match(cache.held(CDS, A), { kind: 'present', asked: A });
  t.match(cache.held(CDS, B), { kind: 'present', asked: GLOB, inCollection: true });
  directory.put(CDS, A.key, '2');
  directory.remove(CDS, B.key);
  t.strictSame(take(), ['g/a had has said', 'g/b had gone said']);
  t.match(cache.held(CDS, B), { kind: 'absent', version: undefined });
  directory.fail(CDS, GLOB.key, UNAVAILABLE);
  t.match(cache.held(CDS, B), { kind: 'error' });
  directory.put(CDS, B.key, '1');
  t.strictSame(take(), ['g/b new has said'], 'it was absent before');
  cache.onDoesNotExist(CDS, A);
  t.strictSame(take(), [], 'its glob still has it');
  cache.onChanged(projectionOf(CDS, A.key, '2'));
  cache.unsubscribeName(entry, one, 'disconnected', 0);
  cache.handleTimer(30_000);
  t.strictSame(take(), [], 'its glob still holds it');
  cache.unsubscribeGlob(glob, one, 'disconnected', 30_000);
  cache.handleTimer(60_000);
  t.strictSame(take(), ['g/a had gone dropped', 'g/b had gone dropped']);
  t.equal(cache.held(CDS, A), undefined);
  t.end();
});

t.test('a collection whose last client left is forgotten in portions (SECURITY)', (t) => {
  const directory = new FakeDirectory();
  const told: string[] = [];
  const cache = new ResourceCache(directory, {
    ...LIMITS,
    onHeld: ({ name, before, after, cause }) => {
      told.push(`${name.id} ${before ? 'had' : 'new'} ${after ? 'has' : 'gone'} ${cause}`);
    },
  });
  const ids = Array.from({ length: 5_000 }, (_, n) => `g/${n}`);
  const last = 'g/4999';
  const client = new Counting();
  for (const id of ids) directory.put(CDS, cds(id), '1', eds(id));
  const entry = cache.subscribeGlob(CDS, GLOB, client);
  directory.answer();
  cache.unsubscribeGlob(entry, client, 'unsubscribed', 0);
  told.length = 0;

  t.ok(cache.handleTimer(2_000), 'more is due');
  t.strictSame([told.length, cache.nextDeadlineMs()], [2_000, directory.nowMs]);
  t.equal(cache.held(CDS, nameOf(cds(last))), undefined, 'no client can get it');

  cache.subscribeGlob(CDS, GLOB, client);
  told.length = 0;
  cache.onChanged(projectionOf(CDS, cds(last), '2', eds('g/other')));
  t.strictSame(told, [`${last} had has first`], 'the observers heard of version 1 before');
  cache.onChanged(projectionOf(CDS, cds('g/4998'), '1', eds('g/4998')));
  t.equal(told.length, 1, 'unchanged');

  t.ok(cache.handleTimer(3_000));
  t.notOk(cache.handleTimer(3_000));
  t.equal(told.length, 1 + 2_998, 'each of the others is told once');
  t.strictSame(
    new Set(told.slice(1)),
    new Set(ids.slice(2_000, 4_998).map((id) => `${id} had gone dropped`)),
  );
  t.strictSame([...cache.clustersOf(eds(last))], [], 'the cluster has other endpoints now');
  t.equal([...cache.clustersOf(eds('g/other'))].length, 1);
  t.equal([...cache.clustersOf(eds('g/4998'))].length, 1);
  t.end();
});

t.test('a removed name that is not a member of any collection is reported as gone', (t) => {
  const directory = new FakeDirectory();
  const causes: string[] = [];
  const cache = new ResourceCache(directory, {
    ...LIMITS,
    onHeld: ({ after, cause }) => causes.push(`${after ? 'has' : 'gone'} ${cause}`),
  });
  const one = new Counting();
  const entry = cache.subscribeName(CDS, A, one);
  directory.put(CDS, A.key, '1');
  directory.answer();
  cache.onDoesNotExist(CDS, A);
  cache.onChanged(projectionOf(CDS, A.key, '2'));
  cache.unsubscribeName(entry, one, 'disconnected', 0);
  cache.handleTimer(30_000);
  t.strictSame(causes, ['has first', 'gone said', 'has said', 'gone dropped']);
  t.end();
});
