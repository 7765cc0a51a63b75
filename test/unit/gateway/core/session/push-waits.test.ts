/**
 * Goal: the push order that both flavours share: which type waits for which, and until when
 * (invariants 6, 16).
 * Method: fake subscriptions that declare their pending content, and a clock.
 */
import t from 'tap';
import {
  contentWaitUntil,
  laterOf,
  removalsWaitUntil,
  ROUTE_WAIT_MS,
  type TypeSubscriptions,
} from '../../../../../gateway/core/session/push-order.js';
import { Unacknowledged } from '../../../../../gateway/core/session/unacknowledged.js';
import { typeRank } from '../../../../../protos/type-urls.js';
import { CDS, EDS, LDS, RDS, SDS } from '../../../../support/mesh-names.js';

const ACK_DEADLINE_MS = 16_000;
/** How long a removal waits for clusters that may be its replacement. */
const REPLACED_WAIT_MS = 1_000;

type FakeSubscriptions = TypeSubscriptions & {
  hasContent: boolean;
  hasRemovals: boolean;
  awaitsReplacement: boolean;
};

function subscriptions(typeUrl: string, parts: Partial<FakeSubscriptions> = {}): FakeSubscriptions {
  return {
    rank: typeRank(typeUrl),
    unacknowledged: new Unacknowledged(),
    hasContent: false,
    hasRemovals: false,
    awaitsReplacement: false,
    mayAdd() {
      return this.hasContent;
    },
    holdsFirstSet: () => false,
    guardedUntilMs: undefined,
    waitingSinceMs: undefined,
    heldSinceMs: undefined,
    removalsSinceMs: undefined,
    ...parts,
  };
}

function sent(typeUrl: string, bringsNew: boolean, sentMs = 0): FakeSubscriptions {
  const one = subscriptions(typeUrl);
  one.unacknowledged.handleSent('n', bringsNew, false, sentMs);
  return one;
}

const contentWaits = (
  one: FakeSubscriptions,
  nowMs: number,
  clusters?: FakeSubscriptions,
  endpoints?: FakeSubscriptions,
  clustersAwaitedUntilMs?: number,
): number | undefined =>
  contentWaitUntil({
    subscriptions: one,
    clusters,
    endpoints,
    clustersAwaitedUntilMs,
    nowMs,
    ackDeadlineMs: ACK_DEADLINE_MS,
  });

const removalsWait = (
  one: FakeSubscriptions,
  nowMs: number,
  ...others: readonly FakeSubscriptions[]
) =>
  removalsWaitUntil({
    subscriptions: one,
    allSubscriptions: [one, ...others],
    nowMs,
    ackDeadlineMs: ACK_DEADLINE_MS,
  });

t.test('of two waits the later counts', (t) => {
  t.equal(laterOf(undefined, undefined), undefined);
  t.equal(laterOf(1, undefined), 1);
  t.equal(laterOf(undefined, 2), 2);
  t.equal(laterOf(3, 2), 3);
  t.end();
});

t.test('only listeners and routes wait for clusters and endpoints (invariant 6)', (t) => {
  for (const typeUrl of [CDS, EDS, SDS]) {
    t.equal(contentWaits(subscriptions(typeUrl), 0, sent(CDS, true)), undefined);
  }
  for (const typeUrl of [LDS, RDS]) {
    t.equal(contentWaits(subscriptions(typeUrl), 0, sent(CDS, true)), ACK_DEADLINE_MS);
    t.equal(
      contentWaits(subscriptions(typeUrl), 0, sent(CDS, false)),
      undefined,
      'of known clusters',
    );
    t.equal(contentWaits(subscriptions(typeUrl), 0), undefined);
    const held = subscriptions(CDS, { holdsFirstSet: () => true });
    t.equal(contentWaits(subscriptions(typeUrl), 0, held), ACK_DEADLINE_MS, 'of a set to come');
    for (const unsent of [CDS, EDS]) {
      const other = subscriptions(unsent, { hasContent: true });
      const waits = unsent === CDS ? [other, undefined] : [undefined, other];
      t.equal(contentWaits(subscriptions(typeUrl), 0, ...waits), ACK_DEADLINE_MS);
    }
  }
  t.end();
});

t.test(
  'listeners and routes wait as long as the deletion guard holds back the clusters, and then for these',
  (t) => {
    const guardedUntilMs = 10 * ACK_DEADLINE_MS;
    const guarded = subscriptions(CDS, { guardedUntilMs, holdsFirstSet: () => true });
    for (const typeUrl of [LDS, RDS]) {
      const waiting = subscriptions(typeUrl);
      for (const nowMs of [0, 2 * ACK_DEADLINE_MS, guardedUntilMs - 1])
        t.equal(contentWaits(waiting, nowMs, guarded), guardedUntilMs);
      const clusters = sent(CDS, true, guardedUntilMs);
      t.equal(contentWaits(waiting, guardedUntilMs, clusters), guardedUntilMs + ACK_DEADLINE_MS);
    }
    t.equal(contentWaits(subscriptions(EDS), 0, guarded), undefined);
    t.end();
  },
);

t.test(
  'listeners and routes of a client whose cluster warms wait for its request for clusters, but not forever (ENVOY 24)',
  (t) => {
    for (const typeUrl of [LDS, RDS]) {
      const waiting = subscriptions(typeUrl);
      const wait = (nowMs: number) => contentWaits(waiting, nowMs, undefined, undefined, 5_000);
      t.equal(wait(0), 5_000);
      t.equal(wait(4_999), 5_000);
      t.equal(wait(5_000), undefined);
    }
    t.equal(contentWaits(subscriptions(EDS), 0, undefined, undefined, 5_000), undefined);
    t.end();
  },
);

t.test(
  'listeners and routes that waited for a first set of clusters also wait for its ACK (seed 5003452)',
  (t) => {
    const held = subscriptions(CDS, { holdsFirstSet: () => true });
    for (const typeUrl of [LDS, RDS]) {
      const waiting = subscriptions(typeUrl);
      t.equal(contentWaits(waiting, 0, held), ACK_DEADLINE_MS);
      const sentMs = ACK_DEADLINE_MS - 1;
      t.equal(contentWaits(waiting, sentMs, sent(CDS, true, sentMs)), sentMs + ACK_DEADLINE_MS);
      t.equal(contentWaits(waiting, ACK_DEADLINE_MS, held), undefined, 'but not longer for a set');
    }
    t.end();
  },
);

t.test('the wait for new clusters ends with the deadline of their ACK, and with its own', (t) => {
  const listeners = subscriptions(LDS);
  const clusters = sent(CDS, true);
  t.equal(contentWaits(listeners, 5_000, clusters), ACK_DEADLINE_MS, 'since they were sent');
  clusters.unacknowledged.handleSent('later', true, false, 6_000);
  const ownMs = 5_000 + ACK_DEADLINE_MS;
  t.equal(
    contentWaits(listeners, 6_000, clusters),
    ownMs,
    'further new clusters do not prolong it',
  );
  t.equal(contentWaits(listeners, ownMs, clusters), undefined);
  t.end();
});

t.test('a removal waits for everything that goes first (invariants 6, 16)', (t) => {
  t.equal(removalsWait(subscriptions(CDS), 0), undefined);
  t.equal(
    removalsWait(subscriptions(CDS), 0, subscriptions(LDS, { hasContent: true })),
    ACK_DEADLINE_MS,
  );
  t.equal(
    removalsWait(subscriptions(CDS), 0, subscriptions(RDS, { awaitsReplacement: true })),
    ACK_DEADLINE_MS,
  );
  t.equal(
    removalsWait(subscriptions(CDS), 0, subscriptions(LDS, { hasRemovals: true })),
    ACK_DEADLINE_MS,
  );
  t.equal(
    removalsWait(subscriptions(LDS), 0, subscriptions(CDS, { hasRemovals: true })),
    undefined,
    'in reverse',
  );
  const one = subscriptions(CDS);
  const other = subscriptions(LDS, { hasContent: true });
  removalsWait(one, 100, other);
  const routes = sent(RDS, false, ACK_DEADLINE_MS);
  t.equal(removalsWait(one, ACK_DEADLINE_MS, routes), 100 + ACK_DEADLINE_MS, 'nor for later ones');
  t.equal(removalsWait(one, 100 + ACK_DEADLINE_MS, other), undefined, 'and not forever');
  t.end();
});

t.test('a removal waits for the ACK of sent listeners and routes', (t) => {
  for (const typeUrl of [LDS, RDS]) {
    const other = sent(typeUrl, false);
    t.equal(removalsWait(subscriptions(CDS), 500, other), ACK_DEADLINE_MS);
    other.unacknowledged.handleAcknowledged('n');
    t.equal(removalsWait(subscriptions(EDS), 500, other), undefined);
  }
  t.end();
});

t.test('a removed cluster waits for routes that may come after it (invariant 6)', (t) => {
  for (const typeUrl of [LDS, RDS]) {
    const clusters = subscriptions(CDS);
    const wait = (nowMs: number) => removalsWait(clusters, nowMs, subscriptions(typeUrl));
    t.equal(wait(500), 500 + ROUTE_WAIT_MS);
    t.equal(wait(499 + ROUTE_WAIT_MS), 500 + ROUTE_WAIT_MS, 'since its removal');
    t.equal(wait(500 + ROUTE_WAIT_MS), undefined);
    t.equal(removalsWait(subscriptions(EDS), 500, subscriptions(typeUrl)), undefined);
  }
  t.equal(removalsWait(subscriptions(CDS), 500, subscriptions(SDS)), undefined, 'no routes');
  t.end();
});

t.test('a removal waits one second for new clusters that never warm (invariant 16)', (t) => {
  const routes = subscriptions(RDS);
  const clusters = sent(CDS, true);
  t.equal(removalsWait(routes, 200, clusters), REPLACED_WAIT_MS, 'since they were sent');
  clusters.unacknowledged.handleSent('later', true, false, 900);
  t.equal(removalsWait(routes, 950, clusters), 900 + REPLACED_WAIT_MS, 'since the last of them');
  t.equal(removalsWait(routes, 900 + REPLACED_WAIT_MS, clusters), undefined);
  t.equal(
    removalsWait(subscriptions(RDS), 200, sent(CDS, false)),
    undefined,
    'not for changed clusters',
  );
  t.equal(removalsWait(subscriptions(RDS), ACK_DEADLINE_MS - 10, sent(CDS, true)), undefined);
  t.end();
});
