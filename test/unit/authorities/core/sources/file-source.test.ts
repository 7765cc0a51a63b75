import t from 'tap';
import { FileSource } from '../../../../../authorities/core/sources/file-source.js';
import type { FileResource } from '../../../../../config/file-resource.js';
import { TYPE_URL } from '../../../../../protos/type-urls.js';
import {
  inlineEntry,
  listBytes,
  textLocatorBytes,
} from '../../../../support/collection-messages.js';
import { FederationDriver, mapOf, THING, thing } from '../../../../support/federation-driver.js';

const a = thing('cloud', 'a');
const b = thing('cloud', 'b');
const glob = thing('cloud', 'x/*');
const member = (id: string): string => thing('cloud', `x/${id}`);

const resource = (name: string, body = '1', typeUrl = THING): FileResource => ({
  name,
  typeUrl,
  body: Buffer.from(body),
});

function load(driver: FederationDriver, ...resources: readonly FileResource[]): void {
  driver.federation.handleLoaded('f', { resources, nowMs: driver.nowMs });
  driver.pump();
}
const started = (): FederationDriver =>
  new FederationDriver(mapOf({ authorities: { cloud: { sources: ['f'] } }, paths: ['f'] }));

t.test('a directory answers subscriptions: names, absence, globs', (t) => {
  const driver = started();
  load(driver, resource(a), resource(member('m')), resource(thing('cloud', 'y/n')));
  const watcher = driver.watching(a, b, glob);
  // The directory answers during the subscription, so absence and completion are notified twice.
  t.strictSame(
    [...new Set(watcher.told)],
    [`changed ${a} 1`, `absent ${b}`, `changed ${member('m')} 1`, `complete ${glob}`],
  );
  t.equal(watcher.told.filter((what) => what.startsWith('changed')).length, 2);
  t.end();
});

t.test('a directory knows the names of all of its resources, subscribed or not', (t) => {
  const driver = started();
  load(driver, resource(a), resource(member('m')));
  const source = driver.federation.source('f');
  t.strictSame([...(source?.names?.(THING) ?? [])], [a, member('m')]);
  t.strictSame([...(source?.names?.('type.googleapis.com/test.v1.Other') ?? [])], []);
  t.end();
});

t.test('a directory is silent before it is read, and then answers all subscriptions', (t) => {
  const driver = started();
  const watcher = driver.watching(a, glob);
  driver.advance(14_999);
  t.strictSame(watcher.told, []);
  load(driver, resource(a));
  t.strictSame(watcher.told, [`changed ${a} 1`, `complete ${glob}`]);
  t.end();
});

t.test(
  'the parts of a large load change and add resources; the load removes, and the first load is whole',
  (t) => {
    const driver = started();
    const give = (...resources: readonly FileResource[]): void => {
      driver.federation.handlePart('f', { resources, nowMs: driver.nowMs });
      driver.federation.handlePart('gone', { resources, nowMs: driver.nowMs });
      driver.pump();
    };
    const watcher = driver.watching(a, glob);
    const first = [resource(a), resource(member('m'))];
    give(...first);
    t.strictSame(watcher.take(), []);
    load(driver, ...first);
    t.strictSame(watcher.take().length, 3);
    const second = [resource(a, '2'), resource(member('n')), resource(b), resource('no name')];
    give(...second);
    t.strictSame(watcher.take(), [`changed ${a} 2`, `changed ${member('n')} 1`]);
    const other = { sources: ['f'] };
    driver.reload(mapOf({ authorities: { cloud: { sources: ['f'] }, other }, paths: ['f'] }));
    driver.advance(1_000);
    t.strictSame(watcher.take(), [], 'the load before does not come back with another map');
    load(driver, ...second);
    driver.advance(60_000);
    t.ok(watcher.take().includes(`removed ${member('m')}`));
    t.strictSame([...(driver.federation.source('f')?.names?.(THING) ?? [])], [a, member('n'), b]);
    t.end();
  },
);

t.test('many resources are given in portions, and what is gone or absent comes last', (t) => {
  const driver = new FederationDriver(
    mapOf({ authorities: { cloud: { sources: ['f'] } }, paths: ['f'] }),
    { portionBytes: 1_500 },
  );
  /** Runs only what is due now. */
  const turn = (): void => {
    driver.federation.handleTimer(driver.nowMs);
    driver.pump();
  };
  const isMid = (): boolean => driver.federation.source('f')?.isMidResponse === true;
  load(driver, resource(a), ...['m', 'n', 'o', 'p'].map((id) => resource(member(id))));
  const watcher = driver.watching(glob, b);
  t.strictSame(watcher.take(), [`changed ${member('m')} 1`, `changed ${member('n')} 1`]);
  t.ok(isMid());
  t.equal(driver.federation.nextDeadlineMs(driver.nowMs), driver.nowMs);
  const other = driver.watching(a);
  t.strictSame(other.take(), [], 'a later name waits for its turn');
  driver.federation.handlePart('f', {
    resources: [resource(member('n'), '2'), resource(member('p'), '2')],
    nowMs: driver.nowMs,
  });
  turn();
  t.strictSame(watcher.take().slice(0, 2), [
    `changed ${member('n')} 2`,
    `changed ${member('p')} 2`,
  ]);
  while (isMid()) turn();
  t.strictSame(watcher.take().slice(-2), [`absent ${b}`, `complete ${glob}`]);
  t.strictSame(other.take(), [`changed ${a} 1`]);
  load(driver, ...['m', 'n', 'o'].map((id) => resource(member(id), '3')));
  t.strictSame(watcher.take(), [`changed ${member('m')} 3`, `changed ${member('n')} 3`]);
  driver.unwatch(a, other);
  while (isMid()) turn();
  driver.advance(60_000);
  t.strictSame(watcher.take(), [`changed ${member('o')} 3`, `removed ${member('p')}`]);
  t.end();
});

t.test('while a file is unreadable, missing names may be in it (invariant 3)', (t) => {
  const driver = started();
  const loadPart = (...resources: readonly FileResource[]): void => {
    driver.federation.handleLoaded('f', { resources, isWhole: false, nowMs: driver.nowMs });
    driver.pump();
  };
  loadPart(resource(a), resource(member('m')));
  const watcher = driver.watching(a, b, glob, thing('cloud', 'y/*'));
  t.strictSame(
    [...new Set(watcher.take())].filter((what) => !what.startsWith('changed')),
    [`error 14 ${b}`, `error 14 ${thing('cloud', 'y/*')}`],
    'UNAVAILABLE at once, and nothing absent, empty or complete',
  );
  loadPart(resource(member('n')));
  t.strictSame(watcher.take(), [`changed ${member('n')} 1`], 'nothing is removed');
  load(driver, resource(a, '2'), resource(member('n')));
  t.strictSame([...watcher.take()].sort(), [
    `absent ${b}`,
    `changed ${a} 2`,
    `complete ${glob}`,
    `complete ${thing('cloud', 'y/*')}`,
    `removed ${member('m')}`,
  ]);
  t.end();
});

t.test('a new state notifies the difference only', (t) => {
  const driver = started();
  load(driver, resource(a), resource(member('m')), resource(member('n')));
  const watcher = driver.watching(a, b, glob);
  watcher.take();
  load(driver, resource(a), resource(member('m')), resource(member('n')));
  t.strictSame(watcher.take(), [], 'the same state again notifies nothing, absent names included');
  load(driver, resource(a, '2'), resource(member('n')), resource(member('o')));
  t.strictSame([...watcher.take()].sort(), [
    `changed ${a} 2`,
    `changed ${member('o')} 1`,
    `removed ${member('m')}`,
  ]);
  load(driver, resource(member('n')), resource(member('o')));
  t.strictSame(watcher.take(), [`removed ${a}`], 'a deletion is notified once, in one form');
  load(driver);
  t.strictSame([...watcher.take()].sort(), [`removed ${member('n')}`, `removed ${member('o')}`]);
  t.end();
});

t.test(
  'a resource that cannot be served is refused with its reason, and the rest is served',
  (t) => {
    const driver = started();
    load(
      driver,
      resource('old-style'),
      resource(thing('elsewhere', 'a')),
      {
        name: 'xdstp://cloud/envoy.config.cluster.v3.Cluster/c',
        typeUrl: TYPE_URL.cluster,
        body: Buffer.from([0x0a, 99]),
      },
      resource(a),
    );
    const refused = driver
      .takeEffects()
      .flatMap((effect) => (effect.kind === 'file_refused' ? [effect.reason] : []));
    t.match(refused, [/is not a resource name/, /authority "elsewhere"/, /cannot be read/]);
    const source = driver.federation.source('f');
    t.ok(source instanceof FileSource);
    if (source instanceof FileSource) {
      t.strictSame(
        source.refused.map(({ reason }) => reason),
        refused,
        'until the next reading',
      );
    }
    load(driver, resource(a));
    if (source instanceof FileSource) t.strictSame(source.refused, []);
    t.equal(driver.watching(a).held.get(a), '1');
    t.end();
  },
);

t.test(
  'a map that takes an authority from a directory refuses what the directory has of it',
  (t) => {
    const map = (...names: readonly string[]) =>
      mapOf({
        authorities: Object.fromEntries(names.map((one) => [one, { sources: ['f'] }])),
        paths: ['f'],
      });
    const driver = new FederationDriver(map('cloud', 'other'));
    load(driver, resource(a), resource('old-style'), resource(thing('other', 'o')));
    driver.takeEffects();
    driver.reload(map('cloud'));
    const refused = driver.takeEffects().filter(({ kind }) => kind === 'file_refused');
    t.match(refused, [{ source: 'f', name: thing('other', 'o'), reason: /authority "other"/ }]);
    driver.reload(map('cloud'));
    const again = driver.takeEffects().filter(({ kind }) => kind === 'file_refused');
    t.strictSame(again, [], 'once');
    t.end();
  },
);

t.test('a refused resource of a changed file keeps its earlier content', (t) => {
  const driver = started();
  const list = 'xdstp://cloud/test.v1.ThingCollection/l';
  const lists = `${THING}Collection`;
  const of = (...entries: readonly Uint8Array[]): FileResource => ({
    name: list,
    typeUrl: lists,
    body: listBytes(...entries),
  });
  load(driver, of(inlineEntry('x', THING, '1')));
  const watcher = driver.watching(list);
  watcher.take();
  load(driver, of(inlineEntry('x', THING, '2'), inlineEntry('x', THING, '3')));
  t.strictSame(watcher.take(), []);
  const [refused] = driver.takeEffects().filter(({ kind }) => kind === 'file_refused');
  t.match(refused, { name: list, reason: 'has two entries named "x"' });
  load(driver, of(inlineEntry('x', THING, '4')));
  t.strictSame([...watcher.held.values()], ['4']);
  t.end();
});

t.test('a directory as the alternative takes over at the moment of the trip', (t) => {
  const driver = new FederationDriver(
    mapOf({
      authorities: {
        cloud: {
          sources: ['s'],
          alternatives: [{ authority: 'disk' }],
          failover: { prewarm: 'connected' },
        },
        disk: { sources: ['f'] },
      },
      paths: ['f'],
    }),
  );
  driver.server('s').set(THING, a, 'server');
  load(driver, resource(thing('disk', 'a'), 'disk'));
  const watcher = driver.watching(a);
  driver.kill('s');
  driver.advance(5_000);
  t.equal(watcher.held.get(a), 'disk');
  driver.revive('s');
  driver.advance(120_000);
  t.equal(watcher.held.get(a), 'server');
  driver.unwatch(a, watcher);
  driver.advance(120_000);
  t.equal(driver.federation.nextDeadlineMs(driver.nowMs), undefined);
  t.end();
});

t.test('reload: a directory at another path is read anew; served content stays meanwhile', (t) => {
  const driver = started();
  load(driver, resource(a));
  const watcher = driver.watching(a);
  watcher.take();
  const moved = mapOf({ authorities: { cloud: { sources: ['f'] } }, paths: ['f'] });
  const spec = moved.sources.get('f')!;
  driver.reload({
    ...moved,
    sources: new Map([['f', { ...spec, path: '/srv/new' } as typeof spec]]),
  });
  driver.advance(600_000);
  t.equal(watcher.held.get(a), '1');
  load(driver, resource(a, '2'));
  t.equal(watcher.held.get(a), '2');
  t.end();
});

t.test('a directory that was never readable counts as unreachable: the group fails over', (t) => {
  const driver = new FederationDriver(
    mapOf({
      authorities: {
        cloud: { sources: ['f'], alternatives: [{ authority: 'onprem' }] },
        onprem: { sources: ['g'] },
      },
      paths: ['f', 'g'],
    }),
  );
  const watcher = driver.watching(a);
  driver.federation.handleLoaded('g', {
    resources: [resource(thing('onprem', 'a'), 'alt')],
    nowMs: driver.nowMs,
  });
  driver.federation.handleUnreadable('f', driver.nowMs);
  driver.pump();
  t.equal(watcher.held.get(a), 'alt');
  t.end();
});

t.test('kept members are removed when the primary later knows its whole collection', (t) => {
  const driver = new FederationDriver(
    mapOf({
      authorities: {
        cloud: { sources: ['f'], alternatives: [{ authority: 'onprem' }] },
        onprem: { sources: ['g'] },
      },
      paths: ['f', 'g'],
    }),
  );
  const watcher = driver.watching(glob);
  const there = resource(member('m').replace('cloud', 'onprem'), 'alt');
  driver.federation.handleLoaded('g', { resources: [there], nowMs: driver.nowMs });
  driver.federation.handleUnreadable('f', driver.nowMs);
  driver.pump();
  driver.federation.handleLoaded('f', { resources: [], isWhole: false, nowMs: driver.nowMs });
  driver.pump();
  driver.advance(60_000);
  t.equal(driver.group('cloud/*').failover.kind, 'primary');
  t.equal(watcher.held.get(member('m')), 'alt', 'silence proves nothing');
  load(driver);
  driver.advance(70_000);
  t.notOk(watcher.held.has(member('m')), 'after the wait of the deletion guard');
  t.end();
});

t.test('a directory that becomes unreadable keeps its last good state, without failover', (t) => {
  const driver = started();
  const watcher = driver.watching(a);
  load(driver, resource(a));
  driver.federation.handleUnreadable('unknown', driver.nowMs);
  driver.federation.handleUnreadable('f', driver.nowMs);
  driver.pump();
  driver.advance(3_600_000);
  t.strictSame(watcher.told, [`changed ${a} 1`]);
  t.end();
});

t.test('what a directory lacks when it comes back is judged by the deletion guard', (t) => {
  for (const isReloaded of [false, true]) {
    const driver = started();
    const all = Array.from({ length: 20 }, (_, id) => resource(member(String(id))));
    load(driver, ...all, resource(a));
    const watcher = driver.watching(glob, a);
    driver.federation.handleUnreadable('f', driver.nowMs);
    driver.pump();
    if (isReloaded) {
      const other = { sources: ['f'] };
      driver.reload(mapOf({ authorities: { cloud: { sources: ['f'] }, other }, paths: ['f'] }));
    }
    load(driver, resource(a));
    driver.advance(30_000);
    t.equal(watcher.held.size, 21, 'its files are copied one by one');
    load(driver, ...all.slice(1), resource(a));
    driver.advance(120_000);
    t.equal(watcher.held.size, 20, 'a member is not copied');
    load(driver, resource(a));
    t.equal(watcher.held.size, 1, 'a directory that was not away since means what it lacks');
  }
  t.end();
});

t.test('a reload that gives a directory another authority serves content already read', (t) => {
  const driver = started();
  load(driver, resource(a), resource(thing('onprem', 'a')));
  const next = mapOf({
    authorities: { cloud: { sources: ['f'] }, onprem: { sources: ['f'] } },
    paths: ['f'],
  });
  driver.reload(next);
  const watcher = driver.watching(thing('onprem', 'a'));
  t.equal(watcher.held.get(thing('onprem', 'a')), '1');
  driver.reload(mapOf({ authorities: { cloud: { sources: ['f'] } }, paths: ['f'] }));
  t.equal(watcher.held.size, 0, 'and no longer when the permission is lost');
  t.end();
});

t.test('a file may hold a redirect; its name gives the type (TP1 redirects)', (t) => {
  const driver = started();
  const body = Buffer.from(textLocatorBytes(b));
  load(driver, { name: a, typeUrl: TYPE_URL.resourceLocator, body }, resource(b, 'target'));
  t.equal(driver.watching(a).held.get(a), 'target');
  t.end();
});

t.test('a resource of an unchanged file is checked again when the rights may have changed', (t) => {
  const xdstp = resource(a);
  const oldStyle = resource('old');
  const may = { xdstp: true, oldStyle: true };
  const rights = {
    mayServe: () => may.xdstp,
    oldStyle: { scope: '', mayServe: () => may.oldStyle },
  };
  const read = (source: FileSource): readonly string[] =>
    source.handleLoaded({ resources: [xdstp, oldStyle], nowMs: 0 }).map(({ name }) => name);
  const source = new FileSource('f', rights, () => undefined);
  t.strictSame(read(source), []);
  t.strictSame(read(source), []);
  may.oldStyle = false;
  t.strictSame(read(source), ['old']);
  may.xdstp = false;
  t.strictSame(read(source), [a, 'old']);
  may.oldStyle = true;
  t.strictSame(read(source), [a]);
  t.end();
});
