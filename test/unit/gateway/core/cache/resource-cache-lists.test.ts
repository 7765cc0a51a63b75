/** The cache and lists: edges to endpoints, read-only access, and the effect of errors. */
import t from 'tap';
import { ResourceCache } from '../../../../../gateway/core/cache/resource-cache.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { FakeDirectory, nameOf, projectionOf } from '../../../../support/fake-directory.js';
import { CDS, cds, eds } from '../../../../support/mesh-names.js';

const SUBSCRIBER = { handleNameChanged: () => undefined, handleGlobChanged: () => undefined };
const A = nameOf(cds('g/a'));
const GLOB = nameOf(cds('g/*'));
const LIST = 'xdstp://cloud/envoy.config.cluster.v3.ClusterCollection/all';

function setUp() {
  const directory = new FakeDirectory();
  const cache = new ResourceCache(directory, {
    tombstonesPerCollection: 100,
    tombstoneMaxAgeMs: 60_000,
    unsubscribedLingerMs: 30_000,
    maxUnsubscribedNames: 1_000,
  });
  return { directory, cache, client: SUBSCRIBER };
}

t.test(
  'a cluster that leaves one list, and is in another, keeps its edge to its endpoints',
  (t) => {
    const { directory, cache, client } = setUp();
    const [one, two] = [LIST, `${LIST}2`].map((text) => ({ ...nameOf(text), isGlob: true }));
    for (const list of [one!, two!]) cache.subscribeGlob(CDS, list, client);
    const member = projectionOf(CDS, A.key, 'v1', eds('e'));
    for (const list of [one!, two!]) cache.onMemberChanged(list, member);
    cache.onMemberRemoved(CDS, one!, A);
    t.strictSame([...cache.clustersOf(eds('e'))], [member]);
    cache.onMemberRemoved(CDS, two!, A);
    t.strictSame([...cache.clustersOf(eds('e'))], []);
    t.equal(directory.watchCalls, 2);
    t.end();
  },
);

t.test('reading the cache shows the state of subscriptions without subscribing', (t) => {
  const { directory, cache, client } = setUp();
  t.equal(cache.stateOf(CDS, A), undefined);
  t.equal(cache.collectionOf(CDS, GLOB), undefined);
  t.equal(directory.watchCalls, 0);
  cache.subscribeName(CDS, A, client);
  const { collection } = cache.subscribeGlob(CDS, GLOB, client);
  t.strictSame(cache.stateOf(CDS, A), { kind: 'waiting' });
  t.equal(cache.collectionOf(CDS, GLOB), collection);
  t.end();
});

t.test('an unreadable resource proves nothing about existence (invariant 3)', (t) => {
  const { cache, client } = setUp();
  const { collection } = cache.subscribeGlob(CDS, GLOB, client);
  const entry = cache.subscribeName(CDS, A, client);
  const status = { code: STATUS_CODE.internal, message: 'no list' };
  for (const name of [GLOB, A]) cache.onResourceError(CDS, name, status);
  t.notOk(collection.complete);
  t.equal(entry.state.kind, 'error');
  const gone = { code: STATUS_CODE.notFound, message: 'no such authority' };
  for (const name of [GLOB, A]) cache.onResourceError(CDS, name, gone);
  t.ok(collection.proven);
  t.equal(entry.state.kind, 'absent');
  t.end();
});
