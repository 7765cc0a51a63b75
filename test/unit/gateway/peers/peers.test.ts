/** Goal: the shell of the hints passes on what it receives, and exceptions behind it stay there. */
import t, { type Test } from 'tap';
import {
  encodePeerMessage,
  type PeerMessage,
} from '../../../../gateway/core/peers/peer-message.js';
import type { HeldState } from '../../../../gateway/core/cache/resource-cache.js';
import { Peers, type Revalidator } from '../../../../gateway/peers/peers.js';
import { nameOf } from '../../../support/fake-directory.js';
import { CDS, cds } from '../../../support/mesh-names.js';
import { until } from '../../../support/until.js';

const A = nameOf(cds('g/a'));
const hint: PeerMessage = { kind: 'changes', hints: [{ typeUrl: CDS, name: A, version: '2' }] };

function setUp(t: Test, held: Partial<HeldState> = {}, upstream: Partial<Revalidator> = {}) {
  const did: string[] = [];
  const published: Uint8Array[] = [];
  const say =
    (what: string) =>
    (...args: readonly unknown[]): void =>
      void did.push([what, ...args.map(String)].join(' '));
  const state: HeldState = {
    kind: 'present',
    version: '1',
    asked: A,
    inCollection: false,
    ...held,
  };
  const peers = new Peers({
    graceMs: 1,
    held: () => state,
    upstream: {
      revalidate: (_, name) => did.push(`revalidate ${name.id}`) > 0,
      revalidateAuthority: (authority) => did.push(`all of ${authority}`),
      nudge: say('nudge'),
      groupIdOf: () => 'group',
      ...upstream,
    },
    events: {
      onRevalidated: say('revalidated'),
      onIgnored: say('ignored'),
      onReceived: say('received'),
      onNotTold: say('not told'),
      onError: say('error'),
    },
    clock: () => performance.now(),
  });
  peers.join({ publish: (bytes) => void published.push(bytes) });
  t.teardown(() => {
    peers.close();
  });
  return { peers, did, published };
}

const bytes = (message: PeerMessage): Uint8Array => encodePeerMessage('other', message);

t.test('a hint leads to a revalidation after the grace time', async (t) => {
  const { peers, did } = setUp(t);
  peers.handleMessage(bytes(hint));
  await until('it was asked', () => did.length === 3);
  t.strictSame(did, ['received', 'revalidate g/a', 'revalidated hint 1']);
});

t.test('everything else is passed on at once', async (t) => {
  const { peers, did, published } = setUp(t, { inCollection: true });
  peers.handleHeld({ typeUrl: CDS, name: A, before: undefined, after: '2', cause: 'said' });
  peers.handleConnected();
  peers.handleSwitched('group', 'source');
  t.equal(peers.invalidate(CDS, A), true);
  t.equal(peers.invalidateAuthority('a'), 4);
  t.strictSame(did.splice(0), [
    'not told 1',
    'revalidate g/a',
    'revalidated invalidation 1',
    'all of a',
    'revalidated invalidation 4',
  ]);
  t.equal(published.length, 3);
  t.equal(peers.digest().length, 1);
  peers.handleMessage(bytes({ kind: 'invalidate_authority', authority: 'b' }));
  peers.handleMessage(bytes({ kind: 'switched', group: 'g', to: 's' }));
  peers.handleMessage(Buffer.from('?'));
  peers.handleMessage(bytes(hint));
  await until('the source was nudged', () => did.includes('nudge group'));
  t.strictSame(
    did.filter((what) => what !== 'received'),
    ['all of b', 'revalidated invalidation 2', 'nudge g', 'ignored malformed', 'nudge group'],
  );
  peers.handleDisconnected();
  peers.close();
  peers.handleMessage(bytes(hint));
  t.equal(did.at(-1), 'received', 'after close nothing is done');
});

t.test('an exception behind the shell is reported, and reaches no caller', async (t) => {
  const throwing = (): never => {
    throw new Error('a bug');
  };
  const { peers, did } = setUp(t, {}, { revalidate: throwing });
  peers.invalidate(CDS, A);
  t.strictSame(did.splice(0), ['error Error: a bug']);
  peers.handleMessage(bytes(hint));
  await until('the timer threw', () => did.includes('error Error: a bug'));
});
