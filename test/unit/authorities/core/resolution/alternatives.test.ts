import t from 'tap';
import { inlineEntry, listBytes, textEntry } from '../../../../support/collection-messages.js';
import { TYPE_URL } from '../../../../../protos/type-urls.js';
import {
  askedName,
  FederationDriver,
  mapOf,
  RecordingWatcher,
  THING,
  thing,
} from '../../../../support/federation-driver.js';
import { encode } from '../../../protos/envoy-messages.js';
import { FAILBACK_MS, three, TRIP_MS } from '../../../../support/authority-pair.js';

const a = thing('cloud', 'a');
const b = thing('cloud', 'b');
const other = thing('onprem', 'deep/other');
const third = thing('third', 'x');

t.test(
  'a name with #alt= fails over to its alternative, and back, under the subscribed name',
  (t) => {
    const driver = three();
    const asked = `${a}#alt=${other}`;
    driver.publish('c', a, 'cloud');
    driver.publish('o', other, 'onprem');
    const watcher = driver.watching(asked);
    t.strictSame(watcher.take(), [`changed ${asked} cloud`]);
    driver.kill('c');
    driver.advance(TRIP_MS);
    t.strictSame(watcher.take(), [`changed ${asked} onprem`]);
    driver.revive('c');
    driver.advance(FAILBACK_MS);
    t.strictSame(watcher.take(), [`changed ${asked} cloud`]);
    t.end();
  },
);

t.test(
  'an #alt= that is the alternative of the map stays subscribed when the other way ends',
  (t) => {
    const mapped = thing('onprem', 'a');
    const driver = new FederationDriver(
      mapOf({
        authorities: {
          cloud: { sources: ['c'], mayLeadTo: ['onprem'], alternatives: [{ authority: 'onprem' }] },
          onprem: { sources: ['o'] },
        },
      }),
    );
    driver.publish('c', a, 'cloud');
    driver.publish('o', mapped, 'onprem');
    const watcher = driver.watching(`${a}#alt=${mapped}`);
    driver.kill('c');
    driver.advance(TRIP_MS);
    driver.kill('o');
    driver.advance(TRIP_MS);
    driver.revive('o');
    driver.advance(TRIP_MS);
    driver.publish('o', mapped, 'later');
    t.match(watcher.take().at(-1), /later$/);
    t.end();
  },
);

t.test(
  'a group of names with alternatives of their own is forgotten after its last client',
  (t) => {
    const driver = three();
    driver.publish('c', a, 'cloud');
    const asked = `${a}#alt=${other}`;
    const watcher = driver.watching(asked);
    t.equal(driver.federation.groups.length, 1);
    driver.unwatch(asked, watcher);
    driver.advance(600_000);
    t.strictSame(driver.federation.groups, []);
    t.strictSame(driver.watching(asked).take(), [`changed ${asked} cloud`]);
    t.end();
  },
);

t.test('an alternative may have its own (TP1 nests them)', (t) => {
  const driver = three();
  const nested = `${other}%23alt=${third}`;
  const asked = `${a}#alt=${nested}`;
  driver.publish('c', a, '1');
  driver.publish('o', other, '2');
  driver.publish('t', third, '3');
  const watcher = driver.watching(asked);
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.equal(watcher.held.get(asked), '2');
  driver.kill('o');
  driver.advance(40_000);
  t.equal(watcher.held.get(asked), '3');
  t.end();
});

t.test('the directive of one client does not affect another client', (t) => {
  const driver = three();
  driver.publish('c', a, '1');
  driver.publish('o', other, 'alternative');
  driver.watching(`${a}#alt=${other}`);
  const plain = driver.watching(a);
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.equal(plain.held.get(a), '1');
  t.strictSame(driver.server('o').stream.subscribed(THING), [other]);
  t.end();
});

t.test('names of one chain of authorities move together (invariant 6)', (t) => {
  const driver = three();
  const [x, y] = ['x', 'y'].map((id) => `${thing('cloud', id)}#alt=${thing('onprem', `o${id}`)}`);
  for (const id of ['x', 'y']) {
    driver.publish('c', thing('cloud', id), 'cloud');
    driver.publish('o', thing('onprem', `o${id}`), 'onprem');
  }
  const watcher = driver.watching(x!, y!);
  const { groups } = driver.federation;
  t.strictSame(
    groups.map(({ id }) => id),
    ['cloud#alt=onprem'],
  );
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.strictSame([...watcher.held.values()], ['onprem', 'onprem']);
  t.end();
});

t.test('several names may share one alternative, and release it one by one', (t) => {
  const driver = three();
  const [x, y] = [a, b].map((name) => `${name}#alt=${other}`);
  driver.publish('o', other, 'shared');
  driver.server('c').reachability = 'refuse';
  const watcher = driver.watching(x!, y!);
  driver.advance(20_000);
  t.strictSame([...watcher.held.values()], ['shared', 'shared']);
  driver.unwatch(x!, watcher);
  driver.publish('o', other, 'changed');
  t.equal(watcher.held.get(y!), 'changed');
  driver.unwatch(y!, watcher);
  driver.advance(120_000);
  t.strictSame(driver.server('o').stream.subscribed(THING), []);
  t.end();
});

t.test('an alternative that is not allowed is not used, and explained (invariant 12)', (t) => {
  const cases: readonly (readonly [string, RegExp])[] = [
    [other, /may_lead_to of "cloud" does not list/],
    ['xdstp://nowhere/test.v1.Thing/x', /may_lead_to/],
    ['xdstp://cloud/test.v1.Other/x', /another type/],
    [thing('cloud', 'g/*'), /a collection/],
  ];
  for (const [to, problem] of cases) {
    const driver = three([]);
    const asked = `${a}#alt=${to}`;
    driver.publish('c', a, '1');
    driver.publish('o', other, 'secret');
    const watcher = driver.watching(asked);
    t.strictSame([...watcher.held], [[asked, '1']], 'the name itself is served');
    t.match(driver.federation.hops(THING, askedName(asked)), [{ kind: 'alternative', problem }]);
    driver.kill('c');
    driver.advance(60_000);
    t.strictSame([...watcher.held], [[asked, '1']]);
    t.notOk(
      driver.dials.some(({ source }) => source !== 'c'),
      'no other source is connected',
    );
  }
  t.end();
});

t.test('a name’s own alternative precedes that of the map, which still applies after it', (t) => {
  const driver = three(['onprem'], true);
  const asked = `${a}#alt=${other}`;
  driver.publish('c', a, '1');
  driver.publish('o', other, '2');
  driver.publish('t', thing('third', 'a'), '3');
  const watcher = driver.watching(asked);
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.equal(watcher.held.get(asked), '2');
  driver.kill('o');
  driver.advance(40_000);
  t.equal(watcher.held.get(asked), '3');
  driver.publish('t', thing('third', 'a'), '4');
  t.equal(watcher.held.get(asked), '4');
  t.end();
});

t.test('the alternative of a redirect and of a list entry is used (TP1)', (t) => {
  const driver = three();
  const list = 'xdstp://cloud/test.v1.ThingCollection/all';
  driver.publish('o', other, 'alternative');
  driver.publish('c', b, 'target');
  driver.redirect('c', a, `${b}#alt=${other}`);
  driver.publish('c', list, listBytes(textEntry(`${b}#alt=${other}`)), `${THING}Collection`);
  const watcher = driver.watching(a, list);
  t.strictSame(
    [...watcher.held],
    [
      [a, 'target'],
      [b, 'target'],
    ],
    'a member has its plain name',
  );
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.strictSame(
    [...watcher.held],
    [
      [a, 'alternative'],
      [b, 'alternative'],
    ],
  );
  t.end();
});

t.test('an entry of a list may have an alternative list', (t) => {
  const driver = three();
  const [list, spare] = ['cloud', 'onprem'].map((at) => `xdstp://${at}/test.v1.ThingCollection/l`);
  for (const [at, source] of [
    ['cloud', 'c'],
    ['onprem', 'o'],
  ] as const) {
    const bytes = listBytes(inlineEntry('x', THING, at));
    driver.publish(source, `xdstp://${at}/test.v1.ThingCollection/l`, bytes, `${THING}Collection`);
  }
  const asked = `${list!}#alt=${spare!},entry=x`;
  const watcher = driver.watching(asked);
  t.equal(watcher.held.get(asked), 'cloud');
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.equal(watcher.held.get(asked), 'onprem');
  t.end();
});

t.test(
  'a name subscribed as several types keeps its alternative until the last type is unsubscribed',
  (t) => {
    const driver = three();
    const asked = `${a}#alt=${other}`;
    const types = [THING, `${THING}2`, `${THING}3`];
    const watchers = types.map((typeUrl) => {
      driver.publish('c', a, 'cloud', typeUrl);
      driver.publish('o', other, 'onprem', typeUrl);
      const watcher = new RecordingWatcher();
      driver.watch(asked, watcher, typeUrl);
      return watcher;
    });
    for (const at of [0, 1]) driver.unwatch(asked, watchers[at]!, types[at]);
    driver.kill('c');
    driver.advance(TRIP_MS);
    t.equal(watchers[2]!.held.get(asked), 'onprem');
    driver.publish('o', other, 'changed', types[2]);
    t.equal(watchers[2]!.held.get(asked), 'changed');
    t.end();
  },
);

t.test('the name at each candidate is known before any subscription', (t) => {
  const driver = three();
  const asked = askedName(`${a}#alt=${other}`);
  const group = driver.federation.groupFor(asked);
  t.strictSame(
    group?.candidates.map(({ source, mapping }) => [source.name, mapping.toSource(asked).key]),
    [
      ['c', a],
      ['o', other],
    ],
  );
  t.strictSame(
    group?.candidates[1]?.mapping.toSource(askedName(b)).key,
    b,
    'not part of this chain',
  );
  t.end();
});

t.test(
  'a name of an authority that the map does not have is NOT_FOUND, and can be unsubscribed',
  (t) => {
    const driver = three();
    const lost = thing('nowhere', 'x');
    const watcher = driver.watching(lost);
    t.strictSame(watcher.take(), [`error 5 ${lost}`]);
    t.strictSame(driver.federation.hops(THING, askedName(lost)), []);
    driver.unwatch(lost, watcher);
    t.strictSame(watcher.take(), []);
    t.end();
  },
);

t.test('members of a list keep their names after failover (invariants 6, 17)', (t) => {
  const driver = new FederationDriver(
    mapOf({
      authorities: {
        cloud: { sources: ['c'], alternatives: [{ authority: 'onprem' }] },
        onprem: { sources: ['o'] },
      },
    }),
  );
  const typeUrl = TYPE_URL.cluster;
  const at = (authority: string, id: string, type = 'Cluster'): string =>
    `xdstp://${authority}/envoy.config.cluster.v3.${type}/${id}`;
  for (const [source, authority] of [
    ['c', 'cloud'],
    ['o', 'onprem'],
  ] as const) {
    const service = at(authority, 'e').replaceAll(
      'cluster.v3.Cluster',
      'endpoint.v3.ClusterLoadAssignment',
    );
    const cluster = (id: string): Uint8Array =>
      encode('envoy.config.cluster.v3.Cluster', {
        name: at(authority, id),
        alt_stat_name: authority,
        eds_cluster_config: { service_name: service },
      });
    driver.publish(source, at(authority, 'a'), cluster('a'), typeUrl);
    driver.publish(
      source,
      at(authority, 'l', 'ClusterCollection'),
      listBytes(textEntry(at(authority, 'a')), inlineEntry('', typeUrl, cluster('own'))),
      `${typeUrl}Collection`,
    );
  }
  const list = at('cloud', 'l', 'ClusterCollection');
  const watcher = new RecordingWatcher();
  driver.watch(list, watcher, typeUrl);
  const names = [at('cloud', 'a'), at('cloud', 'own')];
  const both = (): readonly string[] => names.map((name) => watcher.held.get(name) ?? '');
  t.strictSame([...watcher.held.keys()].sort(), names);
  const before = both();
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.strictSame(
    both(),
    before.map((body) => body.replace('\u0005cloud', '\u0006onprem')),
    'all but the name and the references comes from the alternative',
  );
  driver.revive('c');
  driver.advance(FAILBACK_MS);
  t.strictSame(both(), before);
  t.notOk(watcher.told.some((line) => line.startsWith('gone')));
  t.end();
});
