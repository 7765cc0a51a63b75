/**
 * Goal: a response of removals is bounded, whatever the origin of its removals, and none is lost.
 * Method: one DeltaSubscriptions over a cache, polled for one removal at a time.
 */
import t from 'tap';
import { DeltaSubscriptions } from '../../../../../gateway/core/delta/delta-subscriptions.js';
import { GrantedCache } from '../../../../../gateway/core/rights/granted-cache.js';
import { MessageLimit } from '../../../../../gateway/core/session/message-limit.js';
import { nameOf, projectionOf } from '../../../../support/fake-directory.js';
import { SDS, sds } from '../../../../support/mesh-names.js';
import { Instance } from '../../../../support/session-driver.js';

t.test(
  'removals of names, of resumed members and of tombstones come in the requested number',
  (t) => {
    const { cache, directory } = new Instance();
    const limit = new MessageLimit({
      cache,
      maxBytesOf: undefined,
      isAsked: () => true,
      onWithheld: () => undefined,
    });
    const subscriptions: DeltaSubscriptions = new DeltaSubscriptions({
      typeUrl: SDS,
      authority: 'cloud',
      cache: new GrantedCache(cache),
      nowMs: 0,
      silentAbsence: false,
      owner: {
        limit,
        handleReady: () => undefined,
        handleClusterSent: () => undefined,
        clustersBehind: () => ({ suffix: '', settled: true }),
        handleClaimed: () => undefined,
        handleClaimGone: () => undefined,
        handleDoubt: ({ key }) => {
          subscriptions.settleDoubt(key);
        },
        isResuming: false,
        awaitsWildcard: () => false,
        covers: (_typeUrl, key) => subscriptions.subscribed.covers(key),
      },
    });
    const solo = ['1', '2'].map((id) => sds(`solo-${id}`));
    const members = ['1', '2'].map((id) => sds(`g/${id}`));
    for (const text of [...solo, ...members]) directory.put(SDS, text, 'v1');
    for (const text of [...solo, sds('g/*')])
      subscriptions.subscribe(nameOf(text), text, undefined);
    for (const id of ['3', '4']) subscriptions.noteClaim(sds('g/*'), sds(`g/${id}`), 'old');
    subscriptions.noteClaim(sds('h/*'), sds('h/1'), 'old');
    t.strictSame(
      [...subscriptions.subscribed.names.values()].map(({ entry }) => entry.name.key),
      solo,
    );
    t.strictSame(
      [...subscriptions.subscribed.globs.values()].map(({ entry }) => entry.collection.glob.key),
      [sds('g/*')],
    );
    t.equal(subscriptions.owedCount, 2, 'versions of unsubscribed names are not kept');
    t.equal(
      subscriptions.takeRemovals(1, 1_000),
      undefined,
      'nothing before the sources have answered',
    );
    directory.answer();
    t.equal(subscriptions.takeAdditions(Infinity, Infinity)?.resourceCount, 4);
    for (const text of [...solo, ...members]) directory.remove(SDS, text);
    directory.put(SDS, sds('g/4'), 'is back');
    // Its member goes before the client is sent anything of it, and the sources have not answered it.
    subscriptions.subscribe(nameOf(sds('new/*')), sds('new/*'), undefined);
    cache.onChanged(projectionOf(SDS, sds('new/1'), 'v1'));
    cache.onRemoved(SDS, nameOf(sds('new/1')));
    const removed: string[] = [];
    while (subscriptions.hasRemovals) {
      const answer = subscriptions.takeRemovals(1, 1_000);
      t.ok((answer?.removed.length ?? 0) <= 1);
      removed.push(...(answer?.removed ?? []));
    }
    t.strictSame(removed, [...solo, sds('g/3'), ...members]);
    t.equal(subscriptions.takeRemovals(1, 1_000), undefined);
    t.end();
  },
);
