/** Goal: each client enters node groups on the account of its peer (docs/SECURITY.md, "Quotas"). */
import t from 'tap';
import { DEFAULT_LIMITS } from '../../../config/limits.js';
import { quotaLimitsOf } from '../../../gateway/core/quotas/limits.js';
import { Quotas } from '../../../gateway/core/quotas/quotas.js';
import type { NodeGroupRoom } from '../../../gateway/core/session/client-scope.js';
import { maxAgeOf, roomIn, withQuota } from '../../../gateway/quotas.js';
import { STATUS_CODE } from '../../../protos/discovery.js';

/** One peer may take a single group, and leaves two to others. */
const LIMITS = { ...DEFAULT_LIMITS, maxNodeGroups: 3, maxPeerPercent: 33 };

function peerIn(used: Set<string>) {
  const room: NodeGroupRoom = {
    maxNodeGroups: LIMITS.maxNodeGroups,
    get scopeCount() {
      return used.size;
    },
    hasScope: (scope) => used.has(scope),
  };
  const account = new Quotas(quotaLimitsOf(LIMITS)).account('192.0.2.1');
  return { account, room: withQuota(room, account) };
}

t.test('a peer sees the groups of the whole gateway as they are now', (t) => {
  const used = new Set(['one']);
  const { room } = peerIn(used);
  t.equal(room.maxNodeGroups, 3);
  t.equal(room.scopeCount, 1);
  t.ok(room.hasScope('one'));
  t.notOk(room.hasScope('two'));
  used.add('two');
  t.equal(room.scopeCount, 2);
  t.ok(room.hasScope('two'));
  t.end();
});

t.test('a peer that has all of its groups may enter another one only if one is not in use', (t) => {
  const used = new Set<string>();
  const { room, account } = peerIn(used);
  const enter = (scope: string): number | undefined => {
    const refused = room.enter?.(scope);
    if (!refused) used.add(scope);
    return refused?.code;
  };
  t.equal(enter('one'), undefined);
  t.equal(enter('one'), undefined, 'another client of the same group');
  t.equal(account.held('node_groups'), 1);
  t.equal(enter('two'), STATUS_CODE.resourceExhausted);
  used.delete('one');
  t.equal(enter('two'), undefined, 'the gateway has nothing of the first group any more');
  t.equal(account.held('node_groups'), 1);
  t.end();
});

t.test('a group is in use while the cache has names of it, or its identity is known', (t) => {
  const cache = { scopeCount: 2, hasScope: (scope: string) => scope === 'cached' };
  const identities = new Map([['known', 1]]);
  const room = roomIn(
    cache as unknown as Parameters<typeof roomIn>[0],
    { view: { nodeGroups: { identities } } } as unknown as Parameters<typeof roomIn>[1],
    LIMITS,
  );
  t.equal(room.maxNodeGroups, 3);
  t.equal(room.scopeCount, 2);
  for (const scope of ['also known', 'third']) identities.set(scope, 1);
  t.equal(room.scopeCount, 3, 'the larger number counts: most groups are in both');
  t.strictSame(
    ['cached', 'known', 'nobody'].map((scope) => room.hasScope(scope)),
    [true, true, false],
  );
  t.end();
});

t.test('streams that opened together end at different ages, and never without a limit', (t) => {
  t.strictSame(maxAgeOf({ ...DEFAULT_LIMITS, maxStreamAgeMs: 0 }), {});
  const ages = Array.from(
    { length: 50 },
    () => maxAgeOf({ ...DEFAULT_LIMITS, maxStreamAgeMs: 1_000 }).maxAgeMs ?? 0,
  );
  t.ok(ages.every((ageMs) => ageMs > 900 && ageMs <= 1_000));
  t.ok(new Set(ages).size > 1);
  t.end();
});
