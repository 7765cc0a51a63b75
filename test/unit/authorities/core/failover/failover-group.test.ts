import t from 'tap';
import type { GroupEvent } from '../../../../../authorities/core/failover/failover-group.js';
import {
  a,
  alt,
  b,
  FAILBACK_MS,
  glob,
  ID,
  kindOf,
  member,
  pair,
  TRIP_MS,
} from '../../../../support/authority-pair.js';
import {
  FederationDriver,
  mapOf,
  type OldStyleSketch,
  nameOf,
  THING,
  thing,
} from '../../../../support/federation-driver.js';
import { at } from '../../../../support/node-groups.js';
import { misnamedContent } from '../../../../support/misnamed-content.js';

t.test('ordered sources of one authority: fails over under the same names, and back', (t) => {
  const driver = new FederationDriver(
    mapOf({ authorities: { cloud: { sources: ['c1', 'c2', 'c3'] } } }),
  );
  for (const name of ['c1', 'c2', 'c3']) driver.server(name).set(THING, a, name);
  const watcher = driver.watching(a);
  driver.server('c2').reachability = 'refuse';
  driver.kill('c1');
  driver.advance(15_000);
  t.equal(watcher.held.get(a), 'c3');
  driver.revive('c1');
  driver.advance(FAILBACK_MS);
  t.equal(watcher.held.get(a), 'c1');
  driver.advance(60_000);
  t.strictSame(
    ['c1', 'c2', 'c3'].filter((name) => driver.isConnected(name)),
    ['c1'],
  );
  t.end();
});

t.test(
  'a gateway that starts cold serves the alternative of a silent source after 10 s, and returns',
  (t) => {
    const driver = pair({ [a]: '1' }, { [a]: 'alt' });
    driver.server('c').isDeaf = true;
    const watcher = driver.watching(a);
    driver.advance(9_900);
    t.equal(kindOf(driver), 'connecting');
    driver.advance(200);
    t.equal(kindOf(driver), 'alt');
    t.equal(watcher.held.get(a), 'alt');
    t.equal(driver.server('c').streams.length, 1, 'the first attempt goes on');
    driver.server('c').isDeaf = false;
    driver.advance(FAILBACK_MS);
    t.equal(watcher.held.get(a), '1');
    t.end();
  },
);

t.test('alternatives of path prefixes are groups of their own; the longest prefix wins', (t) => {
  const driver = new FederationDriver(
    mapOf({
      authorities: {
        cloud: {
          sources: ['c'],
          alternatives: [
            { authority: 'onprem', fromPrefix: 'e/' },
            { authority: 'onprem', fromPrefix: 'e/f/', toPrefix: 'deep/' },
            { authority: 'onprem', fromPrefix: '' },
          ],
        },
        onprem: { sources: ['o'] },
      },
    }),
  );
  const names = ['plain', 'e/one', 'e/f/two'].map((id) => thing('cloud', id));
  for (const name of names) driver.server('c').set(THING, name, 'p');
  driver.server('o').set(THING, thing('onprem', 'one'), 'alt one');
  driver.server('o').set(THING, thing('onprem', 'deep/two'), 'alt two');
  const watcher = driver.watching(...names);
  t.strictSame(
    driver.federation.groups.map(({ id }) => id),
    ['cloud/*', 'cloud/e/*', 'cloud/e/f/*'],
  );
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.strictSame([...watcher.held.values()], ['p', 'alt one', 'alt two']);
  const ids = driver.federation.groupsOf('cloud').map(({ id }) => id);
  t.strictSame([...ids].sort(), ['cloud/*', 'cloud/e/*', 'cloud/e/f/*']);
  t.strictSame(driver.federation.groupsOf('nobody'), []);
  t.equal(driver.federation.groupFor(nameOf(names[1] ?? ''))?.id, 'cloud/e/*');
  t.equal(driver.federation.groupFor(nameOf(thing('nobody', 'x'))), undefined);
  t.end();
});

t.test(
  'prewarm: off opens nothing, connected opens a stream, subscribed also subscribes the names',
  (t) => {
    for (const [prewarm, connected, asked] of [
      ['off', false, []],
      ['connected', true, []],
      ['subscribed', true, [alt(a)]],
    ] as const) {
      const driver = pair({ [a]: '1' }, { [a]: 'alt' }, { failover: { prewarm } });
      const watcher = driver.watching(a);
      t.equal(driver.isConnected('o'), connected, prewarm);
      if (connected) t.strictSame(driver.server('o').stream.subscribed(THING), asked, prewarm);
      driver.unwatch(a, watcher);
      driver.advance(120_000);
      t.notOk(driver.isConnected('o'), `${prewarm}: without demand no stream stays open`);
    }
    t.end();
  },
);

t.test(
  'uncached: an answer counts as cached, and nothing is missing of what another entry serves',
  (t) => {
    const failover = { useAlternativeWhen: { kind: 'uncached' } } as const;
    const driver = new FederationDriver(
      mapOf({ authorities: { cloud: { sources: ['c', 'o'], failover } } }),
    );
    for (const source of ['c', 'o']) driver.server(source).set(THING, a, `of ${source}`);
    driver.watching(a, b, thing('cloud', 'empty/*'));
    driver.advance(60_000);
    driver.kill('c');
    driver.advance(60_000);
    t.match(driver.group('cloud').failover, { kind: 'cached', active: 0 });
    driver.watching(thing('cloud', 'new'));
    driver.advance(60_000);
    t.match(
      driver.group('cloud').failover,
      { kind: 'alt', active: 1 },
      'nobody has answered this one',
    );

    const entries = [{ sources: ['c', 'o'], failover }, { sources: ['spare'] }];
    const oldStyle: OldStyleSketch = { differBy: ['id'], servedBy: entries };
    const other = new FederationDriver(mapOf({ authorities: {}, oldStyle }));
    for (const source of ['c', 'o']) other.server(source).set(THING, 'x', `of ${source}`);
    other.server('spare').set(THING, 'y', 'of spare');
    other.watching(at('n', 'x'), at('n', 'y'));
    other.advance(60_000);
    other.kill('c');
    other.advance(60_000);
    t.match(other.federation.groups[0]?.failover, { kind: 'cached', active: 0 });
    t.end();
  },
);

t.test('a warm stream proves nothing: an alternative that hangs is passed by', (t) => {
  for (const prewarm of ['off', 'connected', 'subscribed'] as const) {
    const sources = ['c', 'o', 'spare'];
    const map = mapOf({ authorities: { cloud: { sources, failover: { prewarm } } } });
    const driver = new FederationDriver(map);
    for (const source of ['c', 'spare']) driver.server(source).set(THING, a, `of ${source}`);
    driver.server('o').reachability = 'black_hole';
    const watcher = driver.watching(a);
    driver.advance(60_000);
    t.equal(driver.federation.source('o')?.facts().live, false, prewarm);
    driver.kill('c');
    driver.advance(60_000);
    t.match(driver.group('cloud').failover, { kind: 'alt', active: 2 }, prewarm);
    t.strictSame([...watcher.held.values()], ['of spare'], prewarm);
  }
  t.end();
});

t.test('a prewarmed alternative with subscriptions takes over at the moment of the trip', (t) => {
  const driver = pair({ [a]: '1' }, { [a]: 'alt' }, { failover: { prewarm: 'subscribed' } });
  const watcher = driver.watching(a);
  driver.kill('c');
  while (kindOf(driver) === 'reconnecting') driver.advance(10);
  t.equal(kindOf(driver), 'alt');
  t.equal(watcher.held.get(a), 'alt');
  t.end();
});

t.test('uncached keeps held content until a name without content is subscribed', (t) => {
  const driver = pair(
    { [a]: '1' },
    { [a]: 'alt', [b]: 'alt' },
    {
      failover: { useAlternativeWhen: { kind: 'uncached' } },
    },
  );
  const watcher = driver.watching(a);
  driver.kill('c');
  driver.advance(600_000);
  t.equal(kindOf(driver), 'cached');
  t.notOk(driver.isConnected('o'), 'the alternative is not connected while nothing needs it');
  t.equal(watcher.held.get(a), '1');
  driver.watch(b, watcher);
  driver.advance(1_000);
  t.strictSame([...watcher.held.values()], ['alt', 'alt'], 'then the whole group moves');
  t.end();
});

t.test('a second watcher of a name is notified at once, without another request', (t) => {
  const driver = pair({ [a]: '1' }, {});
  driver.watching(a);
  const before = driver.server('c').stream.requests.length;
  t.strictSame(driver.watching(a).told, [`changed ${a} 1`]);
  t.equal(driver.server('c').stream.requests.length, before);
  t.end();
});

t.test('names without watchers are dropped, and other watchers are not notified', (t) => {
  const driver = pair({ [a]: '1', [member('m')]: '1' }, {});
  const one = driver.watching(a, glob);
  const two = driver.watching(member('m'));
  one.take();
  two.take();
  t.equal(driver.group(ID).servedCount, 2);
  driver.unwatch(glob, one);
  t.equal(driver.group(ID).servedCount, 2, 'a member that is also watched by name stays');
  driver.unwatch(a, one);
  t.equal(driver.group(ID).servedCount, 1);
  driver.unwatch(member('m'), two);
  t.equal(driver.group(ID).servedCount, 0);
  t.equal(driver.group(ID).demandCount, 0);
  t.strictSame([...one.told, ...two.told], []);
  driver.unwatch(a, one);
  driver.group(ID).unwant(THING, nameOf(a), driver.nowMs);
  t.end();
});

t.test('demand that returns within the linger time finds the group unchanged', (t) => {
  const driver = pair({ [a]: '1' }, { [a]: 'alt' });
  const watcher = driver.watching(a);
  driver.kill('c');
  driver.advance(TRIP_MS);
  driver.unwatch(a, watcher);
  driver.advance(29_000);
  driver.watch(a, watcher);
  driver.advance(3_600_000);
  t.equal(kindOf(driver), 'alt');
  t.equal(watcher.held.get(a), 'alt');
  t.end();
});

t.test('a group that went idle after a switch does not wait out the old hold', (t) => {
  const driver = pair({ [a]: '1' }, { [a]: 'alt' });
  const first = driver.watching(a);
  driver.kill('c');
  driver.advance(TRIP_MS);
  driver.unwatch(a, first);
  driver.advance(30_000);
  t.equal(kindOf(driver), 'idle');
  const second = driver.watching(a);
  driver.advance(TRIP_MS);
  t.equal(second.held.get(a), 'alt');
  t.end();
});

const withoutGroupStates = (events: readonly GroupEvent[]): readonly string[] =>
  events.filter(({ kind }) => kind !== 'state').map(({ kind }) => kind);

t.test('force serves the alternative although the primary is healthy; release fails back', (t) => {
  const driver = pair({ [a]: '1' }, { [a]: 'alt' });
  const watcher = driver.watching(a);
  driver.force(ID, 1);
  t.equal(kindOf(driver), 'forced');
  t.equal(watcher.held.get(a), 'alt');
  driver.advance(3_600_000);
  t.equal(watcher.held.get(a), 'alt');
  driver.release(ID);
  driver.advance(FAILBACK_MS);
  t.equal(watcher.held.get(a), '1');
  driver.release(ID);
  driver.force('no such group', 1);
  driver.release('no such group');
  t.equal(
    kindOf(driver),
    'primary',
    'unknown groups, and a release without a force, change nothing',
  );
  t.end();
});

t.test('force with a deadline ends by itself', (t) => {
  const driver = pair({ [a]: '1' }, { [a]: 'alt' });
  const watcher = driver.watching(a);
  driver.force(ID, 1, 60_000);
  driver.advance(59_999);
  t.equal(kindOf(driver), 'forced');
  driver.advance(FAILBACK_MS);
  t.equal(watcher.held.get(a), '1');
  t.end();
});

t.test('a forced group without demand keeps no timer running', (t) => {
  const driver = pair({ [a]: '1' }, { [a]: 'alt' });
  const watcher = driver.watching(a);
  driver.force(ID, 1);
  driver.unwatch(a, watcher);
  driver.advance(3_600_000);
  t.equal(driver.federation.nextDeadlineMs(driver.nowMs), undefined);
  driver.release(ID);
  t.equal(kindOf(driver), 'idle');
  t.end();
});

t.test('a deadline that passed while another input was handled is still met', (t) => {
  const driver = pair({ [a]: '1' }, { [a]: 'alt' });
  const watcher = driver.watching(a);
  driver.force(ID, 1, 60_000);
  driver.nowMs += 60_000;
  driver.watching(thing('nobody', 'x'));
  t.equal(driver.federation.nextDeadlineMs(driver.nowMs), driver.nowMs);
  driver.advance(FAILBACK_MS);
  t.equal(watcher.held.get(a), '1');
  t.end();
});

t.test('a group emits its states with their cause, and its switch with counts', (t) => {
  const driver = pair({ [a]: '1', [b]: '1' }, { [a]: 'alt' });
  driver.watching(a, b);
  driver.takeEffects();
  driver.kill('c');
  driver.advance(TRIP_MS);
  const events = driver.takeGroupEvents();
  t.strictSame(
    events.flatMap((event) =>
      event.kind === 'state' ? [`${event.to.kind}: ${event.to.cause}`] : [],
    ),
    ['reconnecting: stream_lost', 'failing_over: primary_tripped', 'alt: primary_tripped'],
  );
  t.strictSame(withoutGroupStates(events), ['switched']);
  t.match(
    events.find(({ kind }) => kind === 'switched'),
    { from: 0, to: 1, changed: 1, kept: 1 },
  );
  t.end();
});

t.test('content that cannot be served under the subscribed name is refused and reported', (t) => {
  const { group, source, contents, typeUrl, name } = misnamedContent();
  group.takeEvents();
  for (const change of contents.takeChanges()) group.handleChange(source, change, 0);
  t.match(group.takeEvents(), [{ kind: 'refused', name }]);
  t.equal(group.served(typeUrl, name), undefined);
  t.end();
});

t.test('an alternative that reports absent only after the switch proves nothing either', (t) => {
  const driver = pair({ [a]: '1', [b]: '1' }, { [a]: 'alt' });
  driver.server('o').stalled.add(alt(b));
  const watcher = driver.watching(a, b);
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.equal(kindOf(driver), 'alt');
  driver.send('o', { typeUrl: THING, nonce: 'late', removed: [alt(b)] });
  t.equal(watcher.held.get(b), '1');
  t.end();
});

t.test('a force to a candidate that does not exist moves nothing', (t) => {
  const driver = pair({ [a]: '1' }, { [a]: 'alt' });
  const watcher = driver.watching(a);
  driver.force(ID, 7, 60_000);
  driver.advance(59_000);
  t.equal(watcher.held.get(a), '1');
  driver.advance(120_000);
  t.equal(kindOf(driver), 'primary');
  t.end();
});

t.test('a name subscribed while all sources are down is UNAVAILABLE at once', (t) => {
  const driver = pair({ [a]: '1' }, {});
  driver.watching(a);
  driver.server('o').reachability = 'refuse';
  driver.kill('c');
  driver.advance(60_000);
  t.equal(kindOf(driver), 'cached');
  t.strictSame(driver.watching(b).told, [`error 14 ${b}`]);
  t.end();
});

t.test('removals of a failback wait for a response on the current stream', (t) => {
  const driver = pair({}, { [member('m')]: 'alt' });
  driver.server('c').reachability = 'refuse';
  const watcher = driver.watching(glob);
  driver.advance(TRIP_MS);
  driver.revive('c');
  while (kindOf(driver) !== 'primary') driver.advance(100);
  driver.server('c').stalled.add(glob);
  driver.cut('c');
  driver.advance(10_000);
  t.equal(watcher.held.size, 1, 'its stream ended before they were due');
  driver.send('c', { typeUrl: THING, nonce: 'x', removed: [glob] });
  driver.advance(4_000);
  t.equal(driver.group(ID).guardedCount, 1);
  driver.advance(60_000);
  t.equal(watcher.held.size, 0);
  t.end();
});

t.test('repeatedly subscribing new names that no server answers does not delay failback', (t) => {
  const driver = pair({ [a]: '1' }, { [a]: 'alt' });
  const watcher = driver.watching(a);
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.equal(kindOf(driver), 'alt');
  driver.revive('c');
  for (let round = 0; round < 20; round++) {
    const nobodys = thing('cloud', `nobody-${round}`);
    for (const source of ['c', 'o']) driver.server(source).stalled.add(nobodys).add(alt(nobodys));
    driver.watching(nobodys);
    driver.advance(10_000);
  }
  t.equal(kindOf(driver), 'primary');
  t.equal(watcher.held.get(a), '1');
  t.end();
});

t.test(
  'a name that was deleted before an outage, and is never answered, delays no failback',
  (t) => {
    const driver = pair({ [a]: '1', [b]: '1' }, { [a]: 'alt' }, { failover: { holdMs: 3_000 } });
    const watcher = driver.watching(a, b);
    driver.delete('c', b);
    t.notOk(watcher.held.has(b));
    driver.server('c').stalled.add(b);
    driver.server('o').stalled.add(alt(b));
    driver.kill('c');
    driver.advance(TRIP_MS);
    t.equal(kindOf(driver), 'alt');
    driver.revive('c');
    while (!driver.isConnected('c')) driver.advance(100);
    driver.advance(4_000);
    t.equal(kindOf(driver), 'primary', 'as soon as the hold is over');
    t.equal(watcher.held.get(a), '1');
    t.end();
  },
);
