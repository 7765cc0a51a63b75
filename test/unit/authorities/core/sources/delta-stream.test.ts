import t from 'tap';
import { TYPE_URL } from '../../../../../protos/type-urls.js';
import {
  FederationDriver,
  mapOf,
  nameOf,
  RecordingWatcher,
  THING,
  thing,
  WHOLE_MS,
} from '../../../../support/federation-driver.js';
import { encodeResponse } from '../../../../support/discovery-messages.js';
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
const resource = (name: string, body = 'x', version = '1'): object => ({
  name,
  version,
  body: Buffer.from(body),
});
const response = (change: object): Parameters<FakeStream['send']>[0] => ({
  typeUrl: THING,
  nonce: 'n1',
  ...change,
});
const errorsOf = (driver: FederationDriver): readonly (string | undefined)[] =>
  streamOf(driver).acks.map(({ error }) => error);

t.test('one stream requests every name once, with the Node in its first request only', (t) => {
  const driver = started({ [a]: '1', [b]: '1' });
  driver.watching(a);
  driver.watching(a, b);
  const { requests } = streamOf(driver);
  t.strictSame(
    requests.map(({ hasNode }) => hasNode),
    [true, ...requests.slice(1).map(() => false)],
  );
  t.strictSame(requests.flatMap(({ subscribe }) => subscribe).sort(), [a, b]);
  t.equal(driver.dials.length, 1, 'invariant 8: one stream for one source');
  t.end();
});

t.test('the first requests of a stream go out in the order CDS, EDS, LDS, RDS, the rest', (t) => {
  const driver = started();
  const types = [
    THING,
    TYPE_URL.routeConfiguration,
    TYPE_URL.listener,
    TYPE_URL.clusterLoadAssignment,
    TYPE_URL.cluster,
  ];
  driver.server('s').reachability = 'refuse';
  for (const typeUrl of types) {
    const resourceType = typeUrl.slice('type.googleapis.com/'.length);
    driver.watch(`xdstp://cloud/${resourceType}/one`, new RecordingWatcher(), typeUrl);
  }
  driver.revive('s');
  driver.advance(60_000);
  const asked = streamOf(driver).requests.filter(({ subscribe }) => subscribe.length > 0);
  t.strictSame(
    asked.map(({ typeUrl }) => typeUrl),
    [...types].reverse(),
  );
  t.end();
});

t.test('every response is ACKed or NACKed exactly once, with its own nonce (invariant 5)', (t) => {
  const driver = started({ [a]: '1', [b]: '1' });
  driver.watching(a, b);
  for (let n = 2; n < 20; n++) driver.publish('s', a, String(n));
  const { acks } = streamOf(driver);
  const nonces = acks.map(({ nonce }) => nonce);
  t.equal(new Set(nonces).size, nonces.length);
  t.equal(nonces.length, 19);
  t.ok(acks.every(({ error }) => error === undefined));
  const acking = streamOf(driver).requests.filter(({ nonce }) => nonce !== '');
  t.ok(acking.every(({ subscribe, unsubscribe }) => subscribe.length + unsubscribe.length === 0));
  t.end();
});

t.test('99 good resources and a bad one: 99 are accepted, and one NACK names the bad one', (t) => {
  const driver = started();
  const watcher = driver.watching(glob);
  const good = Array.from({ length: 99 }, (_, n) => resource(member(`m${n}`)));
  const bad = { ...resource(member('bad')), typeUrl: 'type.googleapis.com/test.v1.Other' };
  driver.send('s', response({ nonce: 'mixed', resources: [...good, bad] }));
  t.equal(watcher.held.size, 99);
  const nacks = streamOf(driver).acks.filter(({ nonce }) => nonce === 'mixed');
  t.equal(nacks.length, 1);
  t.match(nacks[0]?.error, /xdstp:\/\/cloud\/test.v1.Thing\/x\/bad carries .*Other/);
  t.notMatch(nacks[0]?.error, /m7/);
  t.end();
});

t.test('a response that contains a name twice is refused as a whole', (t) => {
  for (const change of [
    { resources: [resource(a, '1'), resource(b, '1'), resource(a, '2')] },
    { resources: [resource(a, '1'), resource(b, '1')], removed: [a] },
    { resources: [resource(b, '1')], removed: [a, a] },
  ]) {
    const driver = started();
    driver.server('s').stalled.add(a).add(b);
    const watcher = driver.watching(a, b);
    driver.send('s', response(change));
    t.strictSame(watcher.told, []);
    t.match(errorsOf(driver), [/occurs twice in one response/]);
  }
  t.end();
});

t.test('a source publishes and removes only names of its authorities (invariant 11)', (t) => {
  const driver = started({ [a]: '1' });
  const watcher = driver.watching(a);
  watcher.take();
  const foreign = thing('elsewhere', 'a');
  driver.send('s', response({ nonce: 'put', resources: [resource(foreign)] }));
  // A NACK with the same reason comes a second later.
  driver.advance(1_000);
  driver.send('s', response({ nonce: 'del', removed: [foreign] }));
  t.strictSame(watcher.told, []);
  t.match(errorsOf(driver).slice(-2), [/authority "elsewhere"/, /authority "elsewhere"/]);
  t.end();
});

t.test('an invalid resource is refused with its reason', (t) => {
  const cases: readonly (readonly [object, RegExp])[] = [
    [{ resources: [resource('old-style')] }, /old-style is not a resource name/],
    [{ removed: ['old-style'] }, /old-style is not a resource name/],
    [{ resources: [{ ...resource(a), typeUrl: '' }] }, /carries no type/],
    [{ resources: [{ ...resource(a), typeUrl: TYPE_URL.resourceLocator }] }, /is a redirect/],
  ];
  for (const [change, expected] of cases) {
    const driver = started({ [a]: '1' });
    const watcher = driver.watching(a);
    driver.send('s', response(change));
    t.match(errorsOf(driver).at(-1), expected);
    t.equal(watcher.held.get(a), '1', 'held content stays');
  }
  t.end();
});

t.test('an unreadable payload is refused, not passed on', (t) => {
  const driver = started();
  const name = 'xdstp://cloud/envoy.config.cluster.v3.Cluster/one';
  const watcher = new RecordingWatcher();
  driver.watch(name, watcher, TYPE_URL.cluster);
  watcher.take();
  const broken = { name, version: '1', body: Buffer.from([0x0a, 99, 1]) };
  driver.send('s', { typeUrl: TYPE_URL.cluster, nonce: 'n', resources: [broken] });
  t.strictSame(watcher.told, []);
  t.match(errorsOf(driver).at(-1), /cannot be read/);
  t.end();
});

t.test('a NACK names ten refusals and counts the rest', (t) => {
  const driver = started();
  driver.watching(a);
  const names = Array.from({ length: 25 }, (_, n) => resource(`bad-${n}`));
  driver.send('s', response({ resources: names }));
  const error = errorsOf(driver).at(-1) ?? '';
  t.equal(error.match(/bad-/g)?.length, 10);
  t.match(error, /and 15 more$/);
  t.end();
});

t.test('a heartbeat changes nothing and is acknowledged', (t) => {
  const driver = started({ [a]: '1' });
  const watcher = driver.watching(a);
  watcher.take();
  driver.send('s', response({ nonce: 'beat', resources: [{ name: a, version: 'v1' }] }));
  t.strictSame(watcher.told, []);
  t.strictSame(streamOf(driver).acks.at(-1), { nonce: 'beat', error: undefined });
  t.end();
});

t.test('a late response for an unsubscribed name is ACKed and forgotten', (t) => {
  const driver = started({ [a]: '1', [b]: '1' });
  const watcher = driver.watching(a, b);
  driver.unwatch(a, watcher);
  watcher.take();
  t.strictSame(streamOf(driver).subscribed(THING), [b]);
  driver.send('s', response({ nonce: 'late', resources: [resource(a, '2')], removed: [c] }));
  t.strictSame(watcher.told, []);
  t.strictSame(streamOf(driver).acks.at(-1), { nonce: 'late', error: undefined });
  driver.watch(a, watcher);
  t.equal(watcher.held.get(a), '1', 'subscribed again, and answered by the server');
  t.end();
});

t.test('a name that is unsubscribed and subscribed at once needs two requests', (t) => {
  const driver = started({ [a]: '1', [b]: '1' });
  const watcher = driver.watching(a, b);
  const before = streamOf(driver).requests.length;
  driver.federation.unwatch(THING, nameOf(a), watcher, driver.nowMs);
  driver.federation.watch(THING, nameOf(a), watcher, driver.nowMs);
  driver.pump();
  const [left, asked] = streamOf(driver).requests.slice(before);
  t.match(left, { unsubscribe: [a], subscribe: [] });
  t.match(asked, { unsubscribe: [], subscribe: [a] });
  t.end();
});

t.test('a name that comes and goes before a request is written is never requested', (t) => {
  const driver = started({ [b]: '1' });
  const watcher = driver.watching(b);
  const before = streamOf(driver).requests.length;
  driver.federation.watch(THING, nameOf(a), watcher, driver.nowMs);
  driver.federation.unwatch(THING, nameOf(a), watcher, driver.nowMs);
  driver.pump();
  t.equal(streamOf(driver).requests.length, before);
  t.end();
});

t.test('TP3: NOT_FOUND and PERMISSION_DENIED mean absent, other codes prove nothing', (t) => {
  for (const [code, told] of [
    [5, [`removed ${a} (5)`]],
    [7, [`removed ${a} (7)`]],
    [14, []],
    [13, []],
    [2, []],
  ] as const) {
    const driver = started({ [a]: '1' });
    const watcher = driver.watching(a);
    watcher.take();
    driver.send('s', response({ nonce: 'tp3', errors: [{ name: a, code }] }));
    t.strictSame(watcher.told, told, `code ${code}`);
    t.strictSame(streamOf(driver).acks.at(-1), { nonce: 'tp3', error: undefined });
  }
  t.end();
});

t.test('a glob is complete after a pause, and its members are notified at once', (t) => {
  const driver = started();
  const ofEmpty = driver.watching(glob);
  driver.advance(WHOLE_MS);
  t.strictSame(ofEmpty.told, [`complete ${glob}`]);
  const full = started({ [member('m1')]: '1', [member('m2')]: '2' });
  const ofFull = full.watching(glob);
  t.strictSame(ofFull.take(), [`changed ${member('m1')} 1`, `changed ${member('m2')} 2`]);
  full.advance(WHOLE_MS);
  t.strictSame(ofFull.take(), [`complete ${glob}`]);
  t.end();
});

t.test('an empty glob removes no member: members are removed by their names', (t) => {
  const driver = started({ [member('m')]: '1' });
  const watcher = driver.watching(glob);
  watcher.take();
  driver.send('s', response({ removed: [glob] }));
  t.strictSame(watcher.told, []);
  driver.send('s', response({ nonce: 'n2', removed: [member('m')] }));
  t.strictSame(watcher.told, [`removed ${member('m')}`]);
  t.end();
});

t.test('an absent name that is reported absent again is notified once', (t) => {
  const driver = started();
  const watcher = driver.watching(a);
  driver.send('s', response({ removed: [a] }));
  driver.send('s', response({ nonce: 'n2', removed: [a] }));
  t.strictSame(watcher.told, [`absent ${a}`]);
  t.end();
});

t.test('a name that is also a member of a watched glob survives the end of either watch', (t) => {
  const driver = started({ [member('m')]: '1', [member('n')]: '1' });
  const single = driver.watching(member('m'));
  const all = driver.watching(glob);
  driver.unwatch(member('m'), single);
  t.strictSame(streamOf(driver).subscribed(THING), [glob]);
  driver.publish('s', member('m'), '2');
  t.equal(all.held.get(member('m')), '2');
  driver.watch(member('m'), single);
  driver.unwatch(glob, all);
  driver.publish('s', member('m'), '3');
  driver.publish('s', member('n'), '3');
  t.equal(single.held.get(member('m')), '3');
  t.equal(all.held.get(member('n')), '1', 'an ended watch gets no more changes');
  t.end();
});

t.test('an unreadable response, or one with too many resources, ends the stream', (t) => {
  for (const [bytes, reason] of [
    [Buffer.from([0x12, 0x7f, 1]), /./],
    [Buffer.alloc(40_000).fill(Buffer.from([0x12, 0])), /more than 10000 entries/],
  ] as const) {
    const driver = started({ [a]: '1' });
    const watcher = driver.watching(a);
    driver.takeEffects();
    driver.federation.handleMessage('s', 1, bytes, driver.nowMs);
    driver.pump();
    const malformed = driver
      .takeEffects()
      .flatMap((effect) =>
        effect.kind === 'server' && effect.effect.kind === 'malformed'
          ? [effect.effect.reason]
          : [],
      );
    t.match(malformed, [reason]);
    t.equal(watcher.held.get(a), '1');
  }
  t.end();
});

t.test('IO of an earlier attempt, or of an unknown source, is ignored', (t) => {
  const driver = started({ [a]: '1' });
  const watcher = driver.watching(a);
  driver.cut('s');
  driver.advance(1_000);
  t.ok(driver.isConnected('s'));
  watcher.take();
  const end = { code: 14, message: 'late', detectedBy: 'stream' } as const;
  driver.federation.handleAttemptEvent('s', 1, { kind: 'ended', end }, driver.nowMs);
  driver.federation.handleMessage('s', 1, Buffer.from([0xff]), driver.nowMs);
  driver.federation.handleAttemptEvent('nobody', 1, { kind: 'ended', end }, driver.nowMs);
  driver.federation.handleMessage('nobody', 1, Buffer.alloc(0), driver.nowMs);
  driver.federation.handleLoaded('nobody', { resources: [], nowMs: driver.nowMs });
  driver.takeEffects();
  driver.pump();
  t.strictSame(driver.takeEffects(), []);
  t.equal(driver.group('cloud').failover.kind, 'primary');
  t.end();
});

t.test('a name that its glob answered before its own request has no deadline', (t) => {
  const driver = started();
  const watcher = driver.watching(glob);
  driver.server('s').stalled.add(member('m'));
  driver.federation.watch(THING, nameOf(member('m')), watcher, driver.nowMs);
  const bytes = encodeResponse({
    typeUrl: THING,
    nonce: 'n',
    resources: [{ name: member('m'), version: '1', body: Buffer.from('1') }],
  });
  driver.federation.handleMessage('s', 1, bytes, driver.nowMs);
  driver.pump();
  driver.advance(60_000);
  t.strictSame(streamOf(driver).subscribed(THING), [glob, member('m')].sort());
  t.notMatch(watcher.told.join(), /error/);
  t.end();
});
