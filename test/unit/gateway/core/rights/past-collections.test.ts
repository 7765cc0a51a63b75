/**
 * Goal: a client that resumes a glob without versions, as Envoy does, loses the members that it was sent before
 * its right ended, and learns no other name.
 * Method: real sessions on one cache, and rules that the test changes while the client is away.
 */
import t from 'tap';
import { PastCollections } from '../../../../../gateway/core/rights/past-collections.js';
import { GRANTED, type Verdict } from '../../../../../gateway/core/rights/rights.js';
import type { Requester } from '../../../../../gateway/core/rights/requester.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { Collection } from '../../../../../gateway/core/cache/collection.js';
import { nameOf } from '../../../../support/fake-directory.js';
import { CDS, cds } from '../../../../support/mesh-names.js';
import { Instance } from '../../../../support/session-driver.js';

const MAX_AGE_MS = 3_600_000;
const LINGER_MS = 30_000;
const status = { code: STATUS_CODE.permissionDenied, message: 'not for this client' };
const DENIED: Verdict = { kind: 'denied', status, isHidden: false };
const WEB: Requester = { identity: { kind: 'anonymous' }, address: '10.0.0.1' };
const GLOB = cds('x/*');

/** A client that holds x/1 and x/2, whose node id the test may change between streams. */
function setUp() {
  const past = new PastCollections(MAX_AGE_MS);
  const who = { requester: WEB, nodeId: 'web-1', isDenied: false };
  const instance = new Instance({
    judge: (_typeUrl, { key }) => (who.isDenied && key === GLOB ? DENIED : GRANTED),
    past: () => past.of(who.requester, who.nodeId),
    unsubscribedLingerMs: LINGER_MS,
  });
  const { directory } = instance;
  for (const id of ['1', '2']) directory.put(CDS, cds(`x/${id}`), 'v1');
  const client = instance.connect();
  client.subscribe(CDS, GLOB);
  directory.answer();
  client.settle();
  const held = (): readonly string[] => [...client.model.type(CDS).held.keys()].sort();
  /** The names that the client is told to remove after it came back. */
  const removedAtReturn = (): readonly string[] => {
    client.reconnect();
    return client.settle().flatMap(({ removed }) => [...removed].sort());
  };
  return { past, who, instance, directory, client, held, removedAtReturn };
}

t.test(
  'a glob that was revoked while its client was away loses the members that the client was sent, and tells no other (invariant 23)',
  (t) => {
    const { who, directory, instance, client, held, removedAtReturn } = setUp();
    const other = instance.connect();
    other.subscribe(CDS, GLOB);
    other.settle();
    client.disconnect();
    directory.put(CDS, cds('x/late'), 'v1');
    directory.remove(CDS, cds('x/2'));
    other.settle();
    who.isDenied = true;
    t.strictSame(removedAtReturn(), [GLOB, cds('x/1'), cds('x/2')].sort());
    t.strictSame(held(), []);
    t.end();
  },
);

t.test(
  'a glob that was revoked while its client was away loses its members also after the cache dropped the content',
  (t) => {
    const { who, instance, client, held, removedAtReturn } = setUp();
    client.disconnect();
    instance.advance(LINGER_MS);
    t.equal(instance.cache.globCount, 0);
    who.isDenied = true;
    t.strictSame(removedAtReturn(), [GLOB, cds('x/1'), cds('x/2')]);
    t.strictSame(held(), []);
    t.end();
  },
);

t.test(
  'a glob that was revoked while its client was away loses its members also after they came again for another client',
  (t) => {
    const { who, instance, directory, client, held, removedAtReturn } = setUp();
    client.disconnect();
    instance.advance(LINGER_MS);
    const other = instance.connect();
    other.subscribe(CDS, GLOB);
    directory.answer();
    other.settle();
    who.isDenied = true;
    t.strictSame(removedAtReturn(), [GLOB, cds('x/1'), cds('x/2')]);
    t.strictSame(held(), []);
    t.end();
  },
);

t.test('a removal that was decided while no client subscribed is told too', (t) => {
  const { who, instance, directory, client, held, removedAtReturn } = setUp();
  client.disconnect();
  instance.advance(LINGER_MS);
  directory.remove(CDS, cds('x/2'));
  const other = instance.connect();
  other.subscribe(CDS, GLOB);
  directory.answer();
  other.settle();
  instance.advance(60_000);
  other.settle();
  other.disconnect();
  who.isDenied = true;
  t.ok(removedAtReturn().includes(cds('x/2')));
  t.notOk(held().includes(cds('x/2')));
  t.end();
});

for (const [what, change] of [
  ['another node id', { nodeId: 'web-2' }],
  ['no node id', { nodeId: '' }],
  ['another address', { requester: { ...WEB, address: '10.0.0.2' } }],
  [
    'another identity',
    { requester: { ...WEB, identity: { kind: 'jwt', claims: { iss: 'i', sub: 's' } } } },
  ],
  [
    'a token without a subject',
    { requester: { ...WEB, identity: { kind: 'jwt', claims: { group: 'g' } } } },
  ],
  [
    'a certificate',
    {
      requester: {
        ...WEB,
        identity: { kind: 'certificate', uris: ['spiffe://a/b'], dnsNames: [] },
      },
    },
  ],
] as const) {
  t.test(`a client with ${what} is told no name of a glob that it may not ask for`, (t) => {
    const { who, client, removedAtReturn } = setUp();
    client.disconnect();
    Object.assign(who, change, { isDenied: true });
    t.strictSame(removedAtReturn(), [GLOB]);
    t.end();
  });
}

t.test('a stream that ended before it was sent anything forgets nothing', (t) => {
  const { who, client, removedAtReturn } = setUp();
  client.disconnect();
  client.reconnect();
  client.disconnect();
  who.isDenied = true;
  t.strictSame(removedAtReturn(), [GLOB, cds('x/1'), cds('x/2')]);
  client.disconnect();
  t.strictSame(removedAtReturn(), [GLOB, cds('x/1'), cds('x/2')], 'a lost response is repeated');
  t.end();
});

t.test(
  'a stream that ends before the members of a revoked glob are removed: the next one removes them (invariant 23)',
  (t) => {
    const { who, client, held, removedAtReturn } = setUp();
    who.isDenied = true;
    client.session.handleRightsChanged();
    client.pollAll();
    t.strictSame(held(), [cds('x/1'), cds('x/2')], 'the removals wait for an ACK');
    client.disconnect();
    t.strictSame(removedAtReturn(), [GLOB, cds('x/1'), cds('x/2')]);
    t.strictSame(held(), []);
    t.end();
  },
);

t.test('a client without a node id has no past: it cannot be told from others', (t) => {
  t.equal(new PastCollections(MAX_AGE_MS).of(WEB, ''), undefined);
  t.end();
});

t.test('entries end with their age and are bounded by number', (t) => {
  const past = new PastCollections(1_000, 2);
  const limits = { tombstonesPerCollection: 10, tombstoneMaxAgeMs: 1_000 };
  const collection = new Collection(nameOf(GLOB), limits);
  const note = (nodeId: string, nowMs: number): void => {
    past.of(WEB, nodeId)?.note(CDS, { collection, sentSeq: 0, removedSeq: 0 }, nowMs);
  };
  for (const nodeId of ['a', 'b', 'c']) note(nodeId, 0);
  t.equal(past.size, 2);
  note('d', 1_000);
  t.equal(past.size, 1);
  const forgetful = new PastCollections(0);
  forgetful.of(WEB, 'a')?.note(CDS, { collection, sentSeq: 0, removedSeq: 0 }, 0);
  t.equal(forgetful.size, 0);
  t.end();
});
