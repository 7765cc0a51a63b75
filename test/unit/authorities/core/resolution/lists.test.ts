import t from 'tap';
import { DEFAULT_FAILOVER } from '../../../../../config/defaults.js';
import {
  inlineEntry,
  listBytes,
  locatorEntry,
  textEntry,
} from '../../../../support/collection-messages.js';
import {
  askedName,
  FederationDriver,
  mapOf,
  RecordingWatcher,
  THING,
  thing,
  WHOLE_MS,
} from '../../../../support/federation-driver.js';

const LISTS = `${THING}Collection`;
const listName = (authority: string, id: string): string =>
  `xdstp://${authority}/test.v1.ThingCollection/${id}`;
const all = listName('cloud', 'all');
const a = thing('cloud', 'a');
const b = thing('cloud', 'b');
const far = thing('onprem', 'far');

function two(mayLeadTo: readonly string[] = ['onprem']): FederationDriver {
  return new FederationDriver(
    mapOf({
      authorities: { cloud: { sources: ['c'], mayLeadTo }, onprem: { sources: ['o'] } },
    }),
  );
}

function publishList(driver: FederationDriver, name: string, ...entries: Uint8Array[]): void {
  driver.publish('c', name, listBytes(...entries), LISTS);
}

t.test(
  'a list is current while its source is: otherwise what it lacks may be lost, not deleted',
  (t) => {
    const driver = two();
    publishList(driver, all, textEntry(a));
    driver.publish('c', a, 'content');
    driver.watching(all);
    const isCurrent = (): boolean => driver.federation.isCurrent(THING, askedName(all));
    t.ok(isCurrent());
    driver.kill('c');
    t.notOk(isCurrent());
    driver.revive('c');
    driver.advance(60_000);
    t.ok(isCurrent());
    const { directory, nowMs } = driver;
    const untilMs = directory.guardedUntilMs(THING, askedName(all));
    const { waitMs } = DEFAULT_FAILOVER.deletionGuard;
    t.ok(untilMs > waitMs && untilMs < nowMs + waitMs, 'from its return on');
    t.end();
  },
);

t.test('a subscription of a list gets its members, whatever the kind of entry (TP1 lists)', (t) => {
  const driver = two();
  driver.publish('c', a, 'located');
  driver.publish('o', far, 'far away');
  publishList(
    driver,
    all,
    textEntry(a),
    locatorEntry({ authority: 'onprem', resource_type: 'test.v1.Thing', id: 'far' }),
    inlineEntry('x', THING, 'in place'),
    inlineEntry('', THING, 'anonymous'),
  );
  const watcher = driver.watching(all);
  t.strictSame(
    [...watcher.take()].sort(),
    [
      `complete ${all}`,
      `member ${far} far away of ${all}`,
      `member ${a} located of ${all}`,
      `member ${thing('cloud', 'all/entry-3')} anonymous of ${all}`,
      `member ${thing('cloud', 'all/x')} in place of ${all}`,
    ].sort(),
  );
  t.end();
});

t.test(
  'a list with a part served by an alternative does not prove absence until the primary is back (invariant 3)',
  (t) => {
    const driver = new FederationDriver(
      mapOf({
        authorities: {
          cloud: { sources: ['c'], mayLeadTo: ['edge'] },
          edge: { sources: ['e'], alternatives: [{ authority: 'onprem' }] },
          onprem: { sources: ['o'] },
        },
      }),
    );
    driver.publish('o', thing('onprem', 'x/m'), 'alt');
    driver.publish('e', thing('edge', 'x/m'), 'own');
    driver.server('e').reachability = 'refuse';
    publishList(driver, all, textEntry(thing('edge', 'x/*')), textEntry(a));
    driver.publish('c', a, '1');
    const watcher = driver.watching(all);
    driver.advance(30_000);
    t.equal(watcher.held.get(thing('edge', 'x/m')), 'alt');
    t.equal(watcher.proven.get(all), false);
    watcher.take();
    publishList(driver, all, textEntry(thing('edge', 'x/*')), textEntry(a), textEntry(a));
    t.strictSame(watcher.take(), [], 'completion is not repeated');
    driver.publish('o', thing('onprem', 'x/n'), 'alt');
    driver.revive('e');
    driver.advance(120_000);
    t.equal(watcher.held.get(thing('edge', 'x/m')), 'own');
    t.equal(watcher.proven.get(all), true);
    t.equal(watcher.take().filter((one) => one === `complete ${all}`).length, 1);
    t.end();
  },
);

t.test('a subscription of the list type gets the list itself', (t) => {
  const driver = two();
  const list = listBytes(textEntry(a));
  driver.publish('c', all, list, LISTS);
  const watcher = new RecordingWatcher();
  driver.watch(all, watcher, LISTS);
  t.strictSame([...watcher.held], [[all, Buffer.from(list).toString()]]);
  t.strictSame(driver.server('c').stream.subscribed(THING), [], 'and no member is subscribed');
  t.end();
});

t.test('members come and go with the list, additions before removals (invariant 16)', (t) => {
  const driver = two();
  driver.publish('c', a, '1');
  driver.publish('c', b, '1');
  publishList(driver, all, textEntry(a), inlineEntry('x', THING, '1'));
  const watcher = driver.watching(all);
  watcher.take();
  publishList(driver, all, textEntry(b), inlineEntry('x', THING, '2'));
  t.strictSame(
    watcher.take(),
    [
      `member ${thing('cloud', 'all/x')} 2 of ${all}`,
      `gone ${a} of ${all}`,
      `member ${b} 1 of ${all}`,
      `complete ${all}`,
    ].filter((line) => !line.startsWith('complete')),
  );
  t.strictSame(
    driver.server('c').stream.subscribed(THING),
    [b],
    'the removed entry is unsubscribed',
  );
  driver.delete('c', all, LISTS);
  t.strictSame([...watcher.held], [], 'the list is deleted');
  t.end();
});

t.test('a member that changes, goes and returns does so in the list', (t) => {
  const driver = two();
  driver.publish('c', a, '1');
  publishList(driver, all, textEntry(a));
  const watcher = driver.watching(all);
  watcher.take();
  driver.publish('c', a, '2');
  driver.delete('c', a);
  driver.publish('c', a, '3');
  t.strictSame(watcher.take(), [
    `member ${a} 2 of ${all}`,
    `gone ${a} of ${all}`,
    `member ${a} 3 of ${all}`,
  ]);
  t.end();
});

t.test('a list is complete when all of its entries are answered (invariant 3)', (t) => {
  const driver = two();
  driver.server('c').stalled.add(b);
  driver.publish('c', a, '1');
  publishList(driver, all, textEntry(a), textEntry(b));
  const watcher = driver.watching(all);
  t.notOk(watcher.take().includes(`complete ${all}`));
  driver.server('c').stalled.delete(b);
  driver.send('c', { typeUrl: THING, nonce: 'n', removed: [b] });
  t.strictSame(watcher.take(), [`complete ${all}`], 'absent is an answer');
  t.end();
});

t.test(
  'an entry at an unreachable authority keeps a list incomplete, but delays no other member',
  (t) => {
    const driver = two();
    driver.publish('c', a, '1');
    driver.server('o').reachability = 'refuse';
    publishList(driver, all, textEntry(far), textEntry(a));
    const watcher = driver.watching(all);
    driver.advance(60_000);
    t.strictSame(watcher.take(), [`member ${a} 1 of ${all}`]);
    driver.publish('o', far, '1');
    driver.revive('o');
    driver.advance(60_000);
    t.strictSame(watcher.take(), [`member ${far} 1 of ${all}`, `complete ${all}`]);
    t.end();
  },
);

t.test('an absent list is empty; an unreachable one is an error', (t) => {
  const driver = two();
  t.strictSame(driver.watching(all).take(), [`complete ${all}`]);
  const down = two();
  down.server('c').reachability = 'refuse';
  const watcher = down.watching(all);
  down.advance(60_000);
  t.strictSame(watcher.take(), [`error 14 ${all}`]);
  t.end();
});

t.test('globs and lists nest in lists', (t) => {
  const driver = two();
  const inner = listName('onprem', 'inner');
  driver.publish('c', thing('cloud', 'g/1'), '1');
  driver.publish('o', far, '2');
  driver.publish('o', inner, listBytes(textEntry(far), inlineEntry('x', THING, '3')), LISTS);
  publishList(driver, all, textEntry(thing('cloud', 'g/*')), textEntry(inner));
  const watcher = driver.watching(all);
  t.strictSame(
    [...watcher.held].sort(),
    [
      [thing('cloud', 'g/1'), '1'],
      [far, '2'],
      [thing('onprem', 'inner/x'), '3'],
    ].sort(),
  );
  driver.advance(WHOLE_MS);
  t.ok(watcher.take().includes(`complete ${all}`));
  driver.publish('o', inner, listBytes(textEntry(far)), LISTS);
  t.notOk(watcher.held.has(thing('onprem', 'inner/x')));
  driver.delete('c', thing('cloud', 'g/1'));
  t.strictSame([...watcher.held], [[far, '2']]);
  t.end();
});

t.test(
  'an inline resource that names itself by a URN of the list’s authority has that name',
  (t) => {
    const driver = two();
    const typeUrl = 'type.googleapis.com/envoy.config.cluster.v3.Cluster';
    const own = 'xdstp://cloud/envoy.config.cluster.v3.Cluster/own';
    const named = (name: string): Uint8Array =>
      Buffer.concat([Buffer.from([0x0a, name.length]), Buffer.from(name)]);
    const list = 'xdstp://cloud/envoy.config.cluster.v3.ClusterCollection/all';
    const foreign = 'xdstp://onprem/envoy.config.cluster.v3.Cluster/x';
    const entries = [
      inlineEntry('', typeUrl, named(own)),
      inlineEntry('', typeUrl, named('short')),
      inlineEntry('', typeUrl, named(foreign)),
    ];
    driver.publish('c', list, listBytes(...entries), `${typeUrl}Collection`);
    const watcher = new RecordingWatcher();
    driver.watch(list, watcher, typeUrl);
    const under = 'xdstp://cloud/envoy.config.cluster.v3.Cluster/all';
    t.strictSame(
      [...watcher.held.keys()],
      [own, `${under}/short`, `${under}/${foreign}`].map((key) => key),
      'and never a name of another authority (invariant 11)',
    );
    t.end();
  },
);

t.test('`#entry=` is one inline entry of a list, under the subscribed name', (t) => {
  const driver = two();
  publishList(driver, all, inlineEntry('x', THING, '1'), inlineEntry('y', THING, '2'));
  const [x, y, z] = ['x', 'y', 'z'].map((entry) => `${all}#entry=${entry}`);
  const watcher = driver.watching(x!, y!, z!);
  t.strictSame(
    [...watcher.held],
    [
      [x, '1'],
      [y, '2'],
    ],
  );
  t.ok(watcher.take().includes(`absent ${z!}`));
  t.strictSame(driver.server('c').stream.subscribed(LISTS), [all], 'the list is subscribed once');
  publishList(driver, all, inlineEntry('x', THING, '1b'), inlineEntry('z', THING, '3'));
  t.strictSame([...watcher.held].sort(), [
    [x, '1b'],
    [z, '3'],
  ]);
  driver.delete('c', all, LISTS);
  t.strictSame([...watcher.held], []);
  t.end();
});

t.test(
  'an entry of another list is a member under its own name, and a redirect may lead to one',
  (t) => {
    const driver = two();
    const other = listName('cloud', 'other');
    publishList(driver, other, inlineEntry('x', THING, '1'));
    publishList(driver, all, textEntry(`${other}#entry=x`));
    driver.redirect('c', a, `${other}#entry=x`);
    t.strictSame([...driver.watching(all, a).held].sort(), [
      [a, '1'],
      [thing('cloud', 'other/x'), '1'],
    ]);
    t.end();
  },
);

t.test('a name to which two entries lead is one member while at least one of them does', (t) => {
  const driver = two();
  driver.publish('c', thing('cloud', 'g/1'), '1');
  const [one, glob] = [textEntry(thing('cloud', 'g/1')), textEntry(thing('cloud', 'g/*'))];
  publishList(driver, all, one, glob);
  const watcher = driver.watching(all);
  t.equal(watcher.take().filter((line) => line.startsWith('member')).length, 1);
  publishList(driver, all, glob);
  t.strictSame(watcher.take(), []);
  publishList(driver, all);
  t.strictSame([...watcher.held], []);
  t.end();
});

t.test('a new watcher of a list gets all its members and its completion', (t) => {
  const driver = two();
  publishList(driver, all, inlineEntry('x', THING, '1'));
  driver.watching(all);
  t.strictSame(driver.watching(all).take(), [
    `member ${thing('cloud', 'all/x')} 1 of ${all}`,
    `complete ${all}`,
  ]);
  t.end();
});

t.test('unsubscribing a list unsubscribes everything that it leads to (invariant 9)', (t) => {
  const driver = two();
  driver.publish('c', a, '1');
  publishList(driver, all, textEntry(a));
  const watcher = driver.watching(all);
  driver.unwatch(all, watcher);
  t.strictSame(driver.server('c').stream.subscribed(THING), []);
  t.strictSame(driver.server('c').stream.subscribed(LISTS), []);
  t.end();
});

t.test(
  'a list that is unsubscribed before it was requested leaves nothing behind (invariant 9)',
  (t) => {
    const driver = two();
    const watcher = new RecordingWatcher();
    const name = askedName(all);
    driver.federation.watch(THING, name, watcher, driver.nowMs);
    driver.federation.unwatch(THING, name, watcher, driver.nowMs);
    driver.pump();
    t.strictSame(watcher.take(), []);
    t.equal(driver.dials.length, 0);
    t.end();
  },
);

t.test('a list that nested itself, and is closed while it changes, opens no entries', (t) => {
  const driver = two();
  const within = listName('cloud', 'in');
  publishList(driver, all, textEntry(all));
  driver.redirect('c', within, all, LISTS);
  const watcher = driver.watching(within);
  for (let round = 0; round < 3; round++) {
    publishList(driver, all, textEntry(thing('cloud', `n${round}`)));
    driver.advance(1_000);
    publishList(driver, all, textEntry(all));
    driver.advance(1_000);
  }
  driver.delete('c', all, LISTS);
  driver.unwatch(within, watcher);
  driver.advance(60_000);
  t.equal(driver.federation.servers[0]?.contents.subscriptionCount, 0);
  t.end();
});
