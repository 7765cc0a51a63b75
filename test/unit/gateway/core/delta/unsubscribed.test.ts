/**
 * Goal: unsubscribed names are kept for a while, in case a client subscribes again, and then
 * dropped; their number is bounded.
 * Method: silent subscribers, over a directory that counts watches.
 */
import t from 'tap';
import { ResourceCache } from '../../../../../gateway/core/cache/resource-cache.js';
import { FakeDirectory, nameOf } from '../../../../support/fake-directory.js';
import { CDS, cds } from '../../../../support/mesh-names.js';

const LIMITS = {
  tombstonesPerCollection: 100,
  tombstoneMaxAgeMs: 60_000,
  unsubscribedLingerMs: 30_000,
  maxUnsubscribedNames: 1_000,
};

function setUp(limits: Partial<typeof LIMITS> = {}) {
  const directory = new FakeDirectory();
  const cache = new ResourceCache(directory, { ...LIMITS, ...limits });
  return { directory, cache };
}
const someone = () => ({ handleNameChanged: () => undefined, handleGlobChanged: () => undefined });
const A = nameOf(cds('g/a'));
const GLOB = nameOf(cds('g/*'));

t.test('an unsubscribed name is kept for its time, then unwatched (invariant 9)', (t) => {
  const { directory, cache } = setUp();
  const client = someone();
  const name = cache.subscribeName(CDS, A, client);
  const glob = cache.subscribeGlob(CDS, GLOB, client);
  t.equal(cache.nextDeadlineMs(), undefined);
  cache.unsubscribeName(name, client, 'disconnected', 1_000);
  cache.unsubscribeGlob(glob, client, 'disconnected', 2_000);
  t.equal(cache.nextDeadlineMs(), 31_000);
  cache.handleTimer(30_999);
  t.equal(directory.unwatchCalls, 0);
  cache.handleTimer(31_000);
  t.strictSame(directory.watched, [GLOB.key]);
  cache.handleTimer(32_000);
  t.strictSame(directory.watched, []);
  t.equal(cache.nextDeadlineMs(), undefined);
  t.end();
});

t.test(
  'a name that a client itself unsubscribed is kept for 2 s only: its source may have deleted it (invariant 9)',
  (t) => {
    const { directory, cache } = setUp();
    const client = someone();
    const name = cache.subscribeName(CDS, A, client);
    const glob = cache.subscribeGlob(CDS, GLOB, client);
    cache.unsubscribeGlob(glob, client, 'disconnected', 0);
    cache.unsubscribeName(name, client, 'unsubscribed', 1_000);
    t.equal(cache.nextDeadlineMs(), 3_000);
    t.equal(cache.subscribeName(CDS, A, client), name, 'it may be taken back');
    cache.unsubscribeName(name, client, 'unsubscribed', 2_000);
    cache.handleTimer(3_999);
    t.strictSame(directory.watched, [A.key, GLOB.key]);
    cache.handleTimer(4_000);
    t.strictSame(directory.watched, [GLOB.key]);
    t.equal(cache.nextDeadlineMs(), 30_000);
    t.end();
  },
);

t.test(
  'if too many names have no subscribers, the names that a client unsubscribed go first',
  (t) => {
    const { directory, cache } = setUp({ maxUnsubscribedNames: 2 });
    const client = someone();
    const names = ['g/a', 'g/b', 'g/c'].map((id) => nameOf(cds(id)));
    const [first, second, third] = names.map((name) => cache.subscribeName(CDS, name, client));
    cache.unsubscribeName(first!, client, 'disconnected', 0);
    cache.unsubscribeName(second!, client, 'unsubscribed', 0);
    cache.unsubscribeName(third!, client, 'disconnected', 0);
    t.strictSame(directory.watched, [names[0]?.key, names[2]?.key]);
    t.end();
  },
);

t.test('a client that shares a name with another does not end its watch', (t) => {
  const { directory, cache } = setUp();
  const [one, two] = [someone(), someone()];
  const entry = cache.subscribeName(CDS, A, one);
  cache.subscribeName(CDS, A, two);
  cache.unsubscribeName(entry, one, 'disconnected', 0);
  cache.handleTimer(100_000);
  t.strictSame(directory.watched, [A.key]);
  t.end();
});

t.test(
  'a client that resubscribes in time restarts the full time with its next unsubscription',
  (t) => {
    const { directory, cache } = setUp();
    const client = someone();
    const entry = cache.subscribeName(CDS, A, client);
    cache.unsubscribeName(entry, client, 'disconnected', 0);
    t.equal(cache.subscribeName(CDS, A, client), entry);
    t.equal(cache.nextDeadlineMs(), undefined, 'resubscribing leaves nothing behind');
    cache.unsubscribeName(entry, client, 'disconnected', 20_000);
    cache.handleTimer(30_000);
    t.strictSame(directory.watched, [A.key]);
    const glob = cache.subscribeGlob(CDS, GLOB, client);
    cache.unsubscribeGlob(glob, client, 'disconnected', 30_000);
    t.equal(cache.subscribeGlob(CDS, GLOB, client), glob);
    cache.handleTimer(100_000);
    t.strictSame(directory.watched, [GLOB.key]);
    t.end();
  },
);

t.test('the oldest unsubscribed names above the bound are dropped at once', (t) => {
  const { directory, cache } = setUp({ maxUnsubscribedNames: 2 });
  const client = someone();
  const names = ['g/a', 'g/b', 'g/c'].map((id) => nameOf(cds(id)));
  const entries = names.map((name) => cache.subscribeName(CDS, name, client));
  for (const entry of entries) cache.unsubscribeName(entry, client, 'disconnected', 0);
  t.strictSame(directory.watched, [names[1]?.key, names[2]?.key]);
  const glob = cache.subscribeGlob(CDS, GLOB, client);
  cache.subscribeName(CDS, names[1]!, client);
  cache.unsubscribeGlob(glob, client, 'disconnected', 0);
  t.strictSame(
    directory.watched,
    [names[1]?.key, names[2]?.key, GLOB.key],
    'a resubscribed name does not count',
  );
  const many = setUp({ maxUnsubscribedNames: 150 });
  for (let id = 0; id <= 150; id++) {
    const entry = many.cache.subscribeName(CDS, nameOf(cds(`g/${id}`)), client);
    many.cache.unsubscribeName(entry, client, 'disconnected', 0);
  }
  t.equal(many.directory.watched.length, 149, 'a hundredth at once');
  t.notOk(many.directory.watched.includes(nameOf(cds('g/1')).key));
  t.end();
});
