import t from 'tap';
import { TYPE_URL } from '../../../../../protos/type-urls.js';
import {
  a,
  alt,
  b,
  FAILBACK_MS,
  glob,
  kindOf,
  member,
  pair,
  TRIP_MS,
} from '../../../../support/authority-pair.js';
import { RecordingWatcher, THING, thing, WHOLE_MS } from '../../../../support/federation-driver.js';
import { encode } from '../../../protos/envoy-messages.js';

t.test('a group moves as one: no name changes sides before the others (invariant 6)', (t) => {
  const names = Array.from({ length: 5 }, (_, n) => thing('cloud', `n${n}`));
  const all = Object.fromEntries(names.map((name) => [name, 'p']));
  const others = Object.fromEntries(names.map((name) => [name, 'alt']));
  const driver = pair(all, others);
  driver.server('o').stalled.add(alt(names[4] ?? ''));
  const watcher = driver.watching(...names);
  watcher.take();
  driver.kill('c');
  let trippedMs = 0;
  while (kindOf(driver) !== 'failing_over') {
    driver.advance(100);
    trippedMs += 100;
  }
  t.ok(trippedMs <= TRIP_MS);
  t.strictSame(watcher.told, [], 'four of five have answered: it waits');
  driver.advance(2_000);
  t.strictSame(
    watcher.told,
    names.slice(0, 4).map((name) => `changed ${name} alt`),
  );
  t.equal(
    watcher.held.get(names[4] ?? ''),
    'p',
    'a name not answered within 2 s keeps its content',
  );
  t.end();
});

t.test('a switch notifies changes in type order: CDS, EDS, LDS, RDS (invariant 6)', (t) => {
  const types = [
    ['envoy.config.route.v3.RouteConfiguration', TYPE_URL.routeConfiguration],
    ['envoy.config.listener.v3.Listener', TYPE_URL.listener],
    ['envoy.config.cluster.v3.Cluster', TYPE_URL.cluster],
    ['envoy.config.endpoint.v3.ClusterLoadAssignment', TYPE_URL.clusterLoadAssignment],
  ] as const;
  const driver = pair({}, {});
  const watcher = new RecordingWatcher();
  for (const [message, typeUrl] of types) {
    const name = `xdstp://cloud/${message}/one`;
    const own = message.endsWith('Assignment') ? 'cluster_name' : 'name';
    driver.server('c').set(typeUrl, name, encode(message, { [own]: name }));
    driver.server('o').set(typeUrl, alt(name), encode(message, { [own]: alt(name) }));
    driver.watch(name, watcher, typeUrl);
  }
  watcher.take();
  const order: string[] = [];
  watcher.onChanged = ({ typeUrl }) => order.push(typeUrl);
  // Identical content under the same name is not a change, so the contents differ.
  for (const [message, typeUrl] of types) {
    const name = `xdstp://onprem/${message}/one`;
    const extra = new Uint8Array([0xfa, 0x3e, 1, 0x41]);
    const own = message.endsWith('Assignment') ? 'cluster_name' : 'name';
    driver.server('o').set(typeUrl, name, Buffer.concat([encode(message, { [own]: name }), extra]));
  }
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.strictSame(order, [
    TYPE_URL.cluster,
    TYPE_URL.clusterLoadAssignment,
    TYPE_URL.listener,
    TYPE_URL.routeConfiguration,
  ]);
  t.end();
});

t.test(
  'content of the alternative uses the subscribed names for itself and its references',
  (t) => {
    const driver = pair(
      {},
      {},
      { alternatives: [{ authority: 'onprem', fromPrefix: 'edge/', toPrefix: 'dc/1/' }] },
    );
    const clusterType = 'envoy.config.cluster.v3.Cluster';
    const assignmentType = 'envoy.config.endpoint.v3.ClusterLoadAssignment';
    const there = `xdstp://onprem/${clusterType}/dc/1/web`;
    const asked = `xdstp://cloud/${clusterType}/edge/web`;
    const clusterWith = (name: string, service: string): Uint8Array =>
      encode(clusterType, {
        name,
        type: 3,
        eds_cluster_config: {
          service_name: service,
          eds_config: { ads: {}, resource_api_version: 2 },
        },
      });
    driver.server('c').reachability = 'refuse';
    driver
      .server('o')
      .set(
        TYPE_URL.cluster,
        there,
        clusterWith(there, `xdstp://onprem/${assignmentType}/dc/1/web`),
      );
    const watcher = new RecordingWatcher();
    driver.watch(asked, watcher, TYPE_URL.cluster);
    driver.advance(TRIP_MS);
    const assignment = `xdstp://cloud/${assignmentType}/edge/web`;
    t.equal(watcher.held.get(asked), Buffer.from(clusterWith(asked, assignment)).toString());
    t.equal(watcher.projections.get(asked)?.edsKey, assignment);
    driver.publish(
      'o',
      there,
      clusterWith(there, `xdstp://onprem/${assignmentType}/other/web`),
      TYPE_URL.cluster,
    );
    t.equal(
      watcher.projections.get(asked)?.edsKey,
      `xdstp://onprem/${assignmentType}/other/web`,
      'a reference outside the prefix keeps its name',
    );
    t.end();
  },
);

t.test('the same content has the same version from either source (invariant 4)', (t) => {
  const driver = pair({ [a]: 'same' }, { [a]: 'same' });
  const watcher = driver.watching(a);
  watcher.take();
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.equal(kindOf(driver), 'alt');
  t.strictSame(watcher.told, [], 'so nothing is sent');
  t.end();
});

t.test(
  'after the switch, changes of the alternative are served and changes of the primary are not',
  (t) => {
    const driver = pair({ [a]: '1' }, { [a]: 'alt' });
    const watcher = driver.watching(a);
    driver.kill('c');
    driver.advance(TRIP_MS);
    driver.revive('c');
    driver.advance(29_000);
    watcher.take();
    driver.publish('c', a, '2');
    t.strictSame(watcher.told, []);
    driver.publish('o', alt(a), 'alt2');
    t.strictSame(watcher.told, [`changed ${a} alt2`]);
    t.end();
  },
);

t.test('failback after the hold: changes first, removals when no more changes can come', (t) => {
  const driver = pair(
    { [a]: '1', [b]: '1' },
    { [a]: 'alt', [b]: 'alt', [member('only-alt')]: 'alt' },
  );
  const watcher = driver.watching(a, b, glob);
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.equal(watcher.held.get(member('only-alt')), 'alt');
  driver.server('c').delete(THING, b);
  driver.revive('c');
  watcher.take();
  while (kindOf(driver) !== 'primary') driver.advance(100);
  t.strictSame(watcher.take(), [`changed ${a} 1`]);
  driver.advance(1_900);
  t.strictSame(watcher.take(), []);
  driver.advance(100);
  t.strictSame(watcher.take(), [`removed ${b}`], 'the primary reported it absent');
  driver.advance(WHOLE_MS - 2_000);
  t.strictSame(watcher.take(), [`complete ${glob}`]);
  driver.advance(2_000);
  t.strictSame(watcher.take(), [`removed ${member('only-alt')}`], 'the collection is complete');
  driver.advance(60_000);
  t.notOk(driver.isConnected('o'), 'and the alternative is disconnected');
  t.end();
});

t.test('a name that the alternative lacked and the primary deleted is removed at failback', (t) => {
  const driver = pair(
    { [a]: '1', [b]: '1', [member('m')]: '1', [member('n')]: '1' },
    { [a]: 'alt' },
  );
  const watcher = driver.watching(a, b, glob);
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.equal(watcher.held.size, 4, 'kept while the alternative is used');
  driver.server('c').delete(THING, b);
  driver.server('c').delete(THING, member('m'));
  driver.revive('c');
  driver.advance(FAILBACK_MS);
  t.equal(kindOf(driver), 'primary');
  t.strictSame([...watcher.held.keys()].sort(), [a, member('n')].sort());
  t.end();
});

t.test('a name that was never held and that the primary lacks becomes absent at failback', (t) => {
  const driver = pair({}, {});
  driver.server('c').reachability = 'refuse';
  const watcher = driver.watching(a);
  driver.advance(TRIP_MS);
  driver.revive('c');
  driver.advance(FAILBACK_MS);
  t.equal(kindOf(driver), 'primary');
  t.strictSame(watcher.told, [`error 14 ${a}`, `absent ${a}`]);
  t.end();
});

t.test('a name that the primary does not answer is kept: silence does not prove absence', (t) => {
  const driver = pair({ [a]: '1' }, { [a]: 'alt', [b]: 'alt' });
  driver.server('c').stalled.add(b);
  const watcher = driver.watching(a, b);
  driver.kill('c');
  driver.advance(TRIP_MS);
  driver.server('c').set(THING, a, '2');
  driver.revive('c');
  driver.advance(FAILBACK_MS + 60_000);
  t.equal(kindOf(driver), 'primary');
  t.strictSame([...watcher.held.values()], ['2', 'alt']);
  t.end();
});

t.test('a primary that is lost before the hold ends moves nothing', (t) => {
  const driver = pair({ [a]: '1' }, { [a]: 'alt' });
  const watcher = driver.watching(a);
  driver.kill('c');
  driver.advance(TRIP_MS);
  watcher.take();
  for (let flap = 0; flap < 10; flap++) {
    driver.revive('c');
    driver.advance(15_000);
    driver.kill('c');
    driver.advance(15_000);
  }
  t.strictSame(watcher.told, []);
  t.equal(kindOf(driver), 'alt');
  t.end();
});

t.test('a primary that flaps every 5 s for 10 min: ≤ 4 switches, no removal', (t) => {
  const driver = pair({ [a]: '1' }, { [a]: 'alt' });
  const watcher = driver.watching(a);
  watcher.take();
  for (let flap = 0; flap < 60; flap++) {
    driver.kill('c');
    driver.advance(5_000);
    driver.revive('c');
    driver.advance(5_000);
  }
  const switches = driver.takeGroupEvents().filter(({ kind }) => kind === 'switched');
  t.ok(switches.length <= 4, `${switches.length} switches`);
  t.notMatch(watcher.told.join(), /removed|absent|error/);
  t.end();
});

t.test('200 rotations of the stream: no trip, no message to the client', (t) => {
  const driver = pair({ [a]: '1' }, { [a]: 'alt' });
  const watcher = driver.watching(a);
  watcher.take();
  for (let turn = 0; turn < 200; turn++) {
    driver.advance(31_000);
    driver.cut('c', { code: 0 });
  }
  driver.advance(31_000);
  t.strictSame(watcher.told, []);
  t.equal(driver.dials.filter(({ source }) => source === 'c').length, 201);
  t.notOk(driver.dials.some(({ source }) => source === 'o'));
  t.end();
});

t.test('with both sources down it serves its content, and uses the first source to return', (t) => {
  for (const [first, kind, body] of [
    ['c', 'primary', '1'],
    ['o', 'alt', 'alt'],
  ] as const) {
    const driver = pair({ [a]: '1' }, { [a]: 'alt' });
    const watcher = driver.watching(a);
    driver.server('o').reachability = 'refuse';
    driver.kill('c');
    driver.advance(3_600_000);
    t.equal(kindOf(driver), 'cached');
    t.equal(watcher.held.get(a), '1');
    driver.revive(first);
    driver.advance(60_000);
    t.equal(kindOf(driver), kind);
    t.equal(watcher.held.get(a), body);
  }
  t.end();
});
