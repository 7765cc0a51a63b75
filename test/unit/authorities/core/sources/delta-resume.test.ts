import t from 'tap';
import { TYPE_URL } from '../../../../../protos/type-urls.js';
import {
  FederationDriver,
  mapOf,
  RecordingWatcher,
  THING,
  thing,
  WHOLE_MS,
} from '../../../../support/federation-driver.js';
import type { FakeStream } from '../../../../support/fake-management-server.js';

const a = thing('cloud', 'a');
const b = thing('cloud', 'b');
const c = thing('cloud', 'c');
const glob = thing('cloud', 'x/*');
const member = (id: string): string => thing('cloud', `x/${id}`);

function started(published: Readonly<Record<string, string>> = {}): FederationDriver {
  const driver = new FederationDriver(mapOf({ authorities: { cloud: { sources: ['s'] } } }));
  for (const [name, body] of Object.entries(published)) driver.server('s').set(THING, name, body);
  return driver;
}
const streamOf = (driver: FederationDriver): FakeStream => driver.server('s').stream;

t.test('a reconnect sends the versions of this very server, all but one (invariant 10)', (t) => {
  const driver = started({ [a]: '1', [b]: '1', [member('m')]: '1' });
  const watcher = driver.watching(a, b, c, glob);
  driver.publish('s', b, '2');
  watcher.take();
  driver.cut('s');
  driver.advance(1_000);
  const [first] = streamOf(driver).requests;
  t.strictSame([...(first?.subscribe ?? [])].sort(), [a, b, c, glob].sort());
  const versionOf = (name: string): string => driver.server('s').get(THING, name)?.version ?? '';
  const { [a]: ofA, [b]: ofB, ...rest } = first?.initialVersions ?? {};
  t.strictSame(rest, { [member('m')]: versionOf(member('m')) });
  t.equal(
    [ofA, ofB].filter((version) => version !== undefined).length,
    1,
    'the omitted version provokes a response',
  );
  t.ok([undefined, versionOf(a)].includes(ofA) && [undefined, versionOf(b)].includes(ofB));
  t.notMatch(watcher.told.join(), /changed|removed/, 'nothing was resent');
  t.end();
});

t.test(
  'a name whose glob is subscribed too is never the one without a version: it may be unsubscribed (seed 105357)',
  (t) => {
    const driver = started({ [member('m')]: '1' });
    driver.watching(member('m'), glob);
    driver.advance(60_000);
    driver.cut('s');
    driver.advance(1_000);
    const [first] = streamOf(driver).requests;
    t.strictSame(Object.keys(first?.initialVersions ?? {}), [member('m')]);
    t.end();
  },
);

t.test('a reconnect applies changes and deletions: 0 zombies, 0 lost', (t) => {
  for (const gone of ['m1', 'm2', 'm3']) {
    const driver = started({ [member('m1')]: '1', [member('m2')]: '1', [member('m3')]: '1' });
    const watcher = driver.watching(glob);
    driver.server('s').delete(THING, member(gone));
    driver.server('s').set(THING, member('m4'), '1');
    driver.cut('s');
    driver.advance(60_000);
    const expected = ['m1', 'm2', 'm3', 'm4'].filter((id) => id !== gone).map(member);
    t.strictSame([...watcher.held.keys()].sort(), expected, `${gone} went`);
  }
  t.end();
});

t.test('the last member of a glob, deleted while disconnected, is removed too', (t) => {
  const driver = started({ [member('m1')]: '1' });
  const watcher = driver.watching(glob);
  driver.server('s').delete(THING, member('m1'));
  driver.cut('s');
  driver.advance(70_000);
  t.strictSame([...watcher.held.keys()], [], 'after the wait of the deletion guard');
  t.end();
});

t.test('a quiet resume is not a failure: a server without changes does not count as hung', (t) => {
  const driver = started({ [member('m1')]: '1' });
  const watcher = driver.watching(glob);
  driver.advance(WHOLE_MS);
  watcher.take();
  driver.cut('s');
  driver.advance(20_000);
  t.equal(driver.group('cloud').failover.kind, 'primary');
  t.strictSame(watcher.told, [`complete ${glob}`]);
  t.end();
});

t.test('a server that hangs after a reconnect is detected by the name that it must answer', (t) => {
  const driver = started({ [a]: '1' });
  driver.watching(a);
  driver.server('s').reachability = 'black_hole';
  driver.cut('s');
  driver.advance(20_000);
  const trips = driver
    .takeEffects()
    .flatMap((effect) =>
      effect.kind === 'server' && effect.effect.kind === 'tripped' ? [effect.effect.reason] : [],
    );
  t.strictSame(trips, ['silent']);
  t.end();
});

t.test('a name unanswered for 30 s is UNAVAILABLE, and does not trip the source (A88)', (t) => {
  const driver = started({ [a]: '1' });
  driver.server('s').stalled.add(b);
  const watcher = driver.watching(a, b);
  watcher.take();
  driver.advance(29_999);
  t.strictSame(watcher.told, []);
  driver.advance(1);
  t.strictSame(watcher.told, [`error 14 ${b}`]);
  t.equal(driver.group('cloud').failover.kind, 'primary');
  watcher.take();
  driver.server('s').stalled.clear();
  driver.publish('s', b, 'late');
  t.strictSame(watcher.told, [`changed ${b} late`], 'a late response still counts');
  t.end();
});

t.test('the deadline of a name is suspended while there is no stream', (t) => {
  const driver = started({ [a]: '1' });
  driver.server('s').stalled.add(b);
  const watcher = driver.watching(a, b);
  driver.advance(20_000);
  driver.cut('s');
  driver.advance(5_000);
  watcher.take();
  driver.advance(24_000);
  t.strictSame(watcher.told, [], 'its 30 s restarted with the new stream');
  t.end();
});

t.test('without subscriptions the stream closes 30 s after the last name was unsubscribed', (t) => {
  const driver = started({ [a]: '1' });
  const watcher = driver.watching(a);
  driver.advance(60_000);
  driver.unwatch(a, watcher);
  t.strictSame(streamOf(driver).subscribed(THING), []);
  driver.advance(29_999);
  t.ok(driver.isConnected('s'));
  driver.advance(1);
  t.notOk(driver.isConnected('s'));
  t.equal(driver.group('cloud').failover.kind, 'idle');
  driver.advance(3_600_000);
  t.equal(driver.dials.length, 1);
  t.equal(driver.federation.nextDeadlineMs(driver.nowMs), undefined, 'and no timer remains');
  t.end();
});

t.test('a type without subscriptions is not requested on the next stream', (t) => {
  const driver = started({ [a]: '1' });
  driver.watching(a);
  const watcher = new RecordingWatcher();
  const name = 'xdstp://cloud/envoy.config.cluster.v3.Cluster/one';
  driver.watch(name, watcher, TYPE_URL.cluster);
  driver.unwatch(name, watcher, TYPE_URL.cluster);
  driver.cut('s');
  driver.advance(1_000);
  t.strictSame([...new Set(streamOf(driver).requests.map(({ typeUrl }) => typeUrl))], [THING]);
  t.end();
});

t.test(
  'a type without changes is settled although another one got a response: silence means unchanged',
  (t) => {
    const driver = started({ [a]: '1' });
    const other = 'type.googleapis.com/test.v1.Other';
    const quiet = 'xdstp://cloud/test.v1.Other/x/*';
    driver.server('s').set(other, 'xdstp://cloud/test.v1.Other/x/m', '1');
    const watcher = driver.watching(a);
    driver.watch(quiet, watcher, other);
    driver.advance(WHOLE_MS);
    driver.cut('s');
    driver.advance(1_000);
    watcher.take();
    driver.advance(60_000);
    t.strictSame(watcher.told, [`complete ${quiet}`]);
    t.end();
  },
);

t.test(
  'a source that hangs fails over, although a member of a glob without an answer is held',
  (t) => {
    const sources = ['s', 'other'];
    const driver = new FederationDriver(mapOf({ authorities: { cloud: { sources } } }));
    for (const source of sources)
      for (const id of ['m', 'n']) driver.server(source).set(THING, member(id), source);
    driver.watching(member('m'));
    driver.server('s').reachability = 'black_hole';
    driver.cut('s');
    const watcher = driver.watching(glob);
    const served = (): readonly string[] => watcher.take().filter((told) => told !== glob);
    t.strictSame(served(), [`changed ${member('m')} s`]);
    driver.advance(60_000);
    t.strictSame([...served()].sort(), [
      `changed ${member('m')} other`,
      `changed ${member('n')} other`,
      `complete ${glob}`,
    ]);
    t.match(driver.group('cloud').failover, { kind: 'alt', active: 1 });
    t.end();
  },
);

t.test('after a broken first answer to a glob, its members are requested without versions', (t) => {
  const driver = started();
  driver.server('s').isDeaf = true;
  driver.watching(glob);
  const body = Buffer.alloc(600 * 1_024);
  const resources = [{ name: member('m'), version: '1', body }];
  driver.send('s', { typeUrl: THING, nonce: '1', resources, removed: [] });
  driver.server('s').isDeaf = false;
  driver.cut('s');
  driver.advance(1_000);
  t.match(streamOf(driver).requests[0], { subscribe: [glob], initialVersions: {} });
  t.same(streamOf(driver).requests[0]?.initialVersions, {});
  t.end();
});
