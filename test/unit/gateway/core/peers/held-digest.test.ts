/**
 * Goal: the digest that instances compare never drifts from the held content, whatever happened
 * (docs/INSTANCES.md).
 * Method: random histories of demand, upstream notifications and time, then a digest recomputed
 * from the visible content.
 */
import fc from 'fast-check';
import t from 'tap';
import { DEFAULT_FAILOVER } from '../../../../../config/defaults.js';
import { HeldDigest } from '../../../../../gateway/core/peers/held-digest.js';
import { ResourceCache } from '../../../../../gateway/core/cache/resource-cache.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { nameOf, projectionOf } from '../../../../support/fake-directory.js';
import { askedName } from '../../../../support/federation-driver.js';
import { CDS, cds } from '../../../../support/mesh-names.js';

const TEXTS = [cds('g/a'), cds('g/b'), cds('h/a'), cds('g/a', 'elsewhere')];
const LISTS = ['all', 'some'].map((id) =>
  askedName(`xdstp://cloud/envoy.config.cluster.v3.ClusterCollection/${id}`, CDS),
);
const GLOBS = [nameOf(cds('g/*')), nameOf(cds('h/*')), ...LISTS];
const LINGER_MS = 10;

const subscriber = { handleNameChanged: () => undefined, handleGlobChanged: () => undefined };

const text = fc.constantFrom(...TEXTS);
const content = fc.constantFrom('1', '2', '3');
const glob = fc.constantFrom(...GLOBS);
const list = fc.constantFrom(...LISTS);
const code = fc.constantFrom(STATUS_CODE.unavailable, STATUS_CODE.notFound);

type Act = (cache: ResourceCache, nowMs: number) => void;

const acts: fc.Arbitrary<Act> = fc.oneof(
  text.map(
    (one): Act =>
      (cache) =>
        void cache.subscribeName(CDS, nameOf(one), subscriber),
  ),
  glob.map(
    (one): Act =>
      (cache) =>
        void cache.subscribeGlob(CDS, one, subscriber),
  ),
  text.map((one): Act => (cache, nowMs) => {
    const entry = [...cache.names()].find(({ name }) => name.key === nameOf(one).key);
    if (entry) cache.unsubscribeName(entry, subscriber, 'disconnected', nowMs);
  }),
  glob.map((one): Act => (cache, nowMs) => {
    const entry = [...cache.globs()].find(({ collection }) => collection.glob.key === one.key);
    if (entry) cache.unsubscribeGlob(entry, subscriber, 'disconnected', nowMs);
  }),
  fc.tuple(text, content).map(([one, body]): Act => (cache) => {
    cache.onChanged(projectionOf(CDS, one, body));
  }),
  text.map((one): Act => (cache) => {
    cache.onRemoved(CDS, nameOf(one));
  }),
  text.map((one): Act => (cache) => {
    cache.onDoesNotExist(CDS, nameOf(one));
  }),
  fc.tuple(list, text, content).map(([of, one, body]): Act => (cache) => {
    cache.onMemberChanged(of, projectionOf(CDS, one, body));
  }),
  fc.tuple(list, text).map(([of, one]): Act => (cache) => {
    cache.onMemberRemoved(CDS, of, nameOf(one));
  }),
  fc.tuple(glob, fc.boolean()).map(([one, isProof]): Act => (cache) => {
    cache.onComplete(CDS, one, isProof);
  }),
  fc.tuple(fc.oneof(glob, text.map(nameOf)), code).map(([one, status]): Act => (cache) => {
    cache.onResourceError(CDS, one, { code: status, message: '' });
  }),
  fc.constant<Act>((cache, nowMs) => {
    cache.handleTimer(nowMs + 2 * LINGER_MS);
  }),
);

t.test('after any history the digest equals one recomputed from the held content', (t) => {
  let held = 0;
  fc.assert(
    fc.property(fc.array(acts, { minLength: 20, maxLength: 80 }), (history) => {
      const digest = new HeldDigest();
      const cache = new ResourceCache(
        {
          nowMs: 0,
          watch: () => undefined,
          unwatch: () => undefined,
          isCurrent: () => true,
          guardedUntilMs: () => 0,
          isSilentAbout: () => false,
          removalPolicyOf: () => DEFAULT_FAILOVER,
        },
        {
          tombstonesPerCollection: 10,
          tombstoneMaxAgeMs: 1_000,
          unsubscribedLingerMs: LINGER_MS,
          maxUnsubscribedNames: 1_000,
          onHeld: ({ typeUrl, name, before, after }) => {
            digest.handle(typeUrl, name, before, after);
          },
        },
      );
      for (const [at, act] of history.entries()) act(cache, at);
      const anew = new HeldDigest();
      for (const name of TEXTS.map(nameOf)) {
        const version = cache.held(CDS, name)?.version;
        if (version !== undefined) anew.handle(CDS, name, undefined, version);
      }
      held += anew.rows().length;
      t.strictSame(digest.rows(), anew.rows());
    }),
    { numRuns: 1_000 },
  );
  t.ok(held > 500, `${held} rows were compared`);
  t.end();
});

t.test('a row is found by its type and authority', (t) => {
  const digest = new HeldDigest();
  digest.handle(CDS, nameOf(cds('g/a')), undefined, '1');
  const [row] = digest.rows();
  t.strictSame(digest.row(CDS, row?.authority ?? ''), row);
  t.equal(digest.row(CDS, 'elsewhere'), undefined);
  t.end();
});

t.test(
  'an instance with a subscription and no content has a row, until the unsubscription',
  (t) => {
    const digest = new HeldDigest();
    const name = nameOf(cds('g/a'));
    digest.handleAsked(CDS, name, 1);
    digest.handle(CDS, name, undefined, '1');
    digest.handle(CDS, name, '1', undefined);
    t.match(digest.rows(), [{ count: 0, hash: '0'.repeat(16) }]);
    digest.handleAsked(CDS, name, -1);
    t.strictSame(digest.rows(), []);
    t.end();
  },
);
