/**
 * Goal: what nobody asks for is kept for a while, in case somebody does, and then goes; never too much of it.
 * Method: subscribers that nobody listens to, over a directory that counts what is watched.
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

t.test('what is left is kept for its time, then unwatched (invariant 9)', (t) => {
  const { directory, cache } = setUp();
  const client = someone();
  const name = cache.subscribeName(CDS, A, client);
  const glob = cache.subscribeGlob(CDS, GLOB, client);
  t.equal(cache.nextDeadlineMs(), undefined);
  cache.unsubscribeName(name, client, 1_000);
  cache.unsubscribeGlob(glob, client, 2_000);
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

t.test('a client that another one shares with does not end the watch', (t) => {
  const { directory, cache } = setUp();
  const [one, two] = [someone(), someone()];
  const entry = cache.subscribeName(CDS, A, one);
  cache.subscribeName(CDS, A, two);
  cache.unsubscribeName(entry, one, 0);
  cache.handleTimer(100_000);
  t.strictSame(directory.watched, [A.key]);
  t.end();
});

t.test('who comes back in time starts the whole time anew when leaving again', (t) => {
  const { directory, cache } = setUp();
  const client = someone();
  const entry = cache.subscribeName(CDS, A, client);
  cache.unsubscribeName(entry, client, 0);
  t.equal(cache.subscribeName(CDS, A, client), entry);
  t.equal(cache.nextDeadlineMs(), undefined, 'coming and going leaves nothing behind');
  cache.unsubscribeName(entry, client, 20_000);
  cache.handleTimer(30_000);
  t.strictSame(directory.watched, [A.key]);
  const glob = cache.subscribeGlob(CDS, GLOB, client);
  cache.unsubscribeGlob(glob, client, 30_000);
  t.equal(cache.subscribeGlob(CDS, GLOB, client), glob);
  cache.handleTimer(100_000);
  t.strictSame(directory.watched, [GLOB.key]);
  t.end();
});

t.test('of more left names than are kept the oldest go at once', (t) => {
  const { directory, cache } = setUp({ maxUnsubscribedNames: 2 });
  const client = someone();
  const names = ['g/a', 'g/b', 'g/c'].map((id) => nameOf(cds(id)));
  const entries = names.map((name) => cache.subscribeName(CDS, name, client));
  for (const entry of entries) cache.unsubscribeName(entry, client, 0);
  t.strictSame(directory.watched, [names[1]?.key, names[2]?.key]);
  const glob = cache.subscribeGlob(CDS, GLOB, client);
  cache.subscribeName(CDS, names[1]!, client);
  cache.unsubscribeGlob(glob, client, 0);
  t.strictSame(
    directory.watched,
    [names[1]?.key, names[2]?.key, GLOB.key],
    'who is back is not left',
  );
  const many = setUp({ maxUnsubscribedNames: 150 });
  for (let id = 0; id <= 150; id++) {
    const entry = many.cache.subscribeName(CDS, nameOf(cds(`g/${id}`)), client);
    many.cache.unsubscribeName(entry, client, 0);
  }
  t.equal(many.directory.watched.length, 149, 'a hundredth at once');
  t.notOk(many.directory.watched.includes(nameOf(cds('g/1')).key));
  t.end();
});
