/**
 * Goal: a cluster that its source removed while a client was away goes as if the client had been there: after the routes that need
 * it were replaced (GRPC 9). A set without it would fail calls at once, and a source that is silent about names it lacks sends
 * none.
 * Method: a client that returns to the same process, and a clock.
 */
import t from 'tap';
import { GRANTED, type Judge, type Verdict } from '../../../../../gateway/core/rights/rights.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { CDS, RDS, cds, rds } from '../../../../support/mesh-names.js';
import { Instance } from '../../../../support/session-driver.js';
import { said, SotwClient } from '../../../../support/sotw-driver.js';

const QUIET_MS = 1_000;
const KEPT_MS = 60_000;
const LOST_RIGHT = { code: STATUS_CODE.permissionDenied, message: 'not yours' };

/** A client that holds the route `r` to the cluster `a`, and is away. */
const setUp = (judge?: Judge) => holding('a', [cds('a')], judge);
/** The same for the cluster `g/a`, which the client has through its collection. */
const setUpGlob = () => holding('g/a', [cds('g/*')]);

function holding(cluster: string, asked: readonly string[], judge: Judge = () => GRANTED) {
  const instance = new Instance();
  const { directory } = instance;
  const client = new SotwClient(instance, { judge });
  directory.put(RDS, rds('r'), 'to a');
  directory.put(CDS, cds(cluster), 'v1');
  client.ask(RDS, rds('r'));
  client.ask(CDS, ...asked);
  directory.answer();
  client.settle();
  client.disconnect();
  const settle = () => client.settle().map(said);
  const settleLater = () => {
    instance.advance(QUIET_MS);
    return settle();
  };
  return { instance, directory, client, settle, settleLater };
}

t.test(
  'a cluster that was removed while its client was away goes after the client got the cluster that replaces it (invariant 6, GRPC 9)',
  (t) => {
    const { instance, directory, client, settle, settleLater } = setUp();
    directory.put(RDS, rds('r'), 'to b');
    directory.put(CDS, cds('b'), 'v1');
    directory.remove(CDS, cds('a'));
    client.reconnect(instance);
    const first = [
      ['Cluster', 'a=v1'],
      ['RouteConfiguration', 'r=to b'],
    ];
    t.strictSame(settle(), first);
    client.ask(CDS, cds('a'), cds('b'));
    directory.answer();
    t.strictSame(settle(), [['Cluster', 'a=v1', 'b=v1']]);
    t.strictSame(settleLater(), [['Cluster', 'b=v1']]);
    t.end();
  },
);

t.test('it goes a second later if nothing replaces it (GRPC 9)', (t) => {
  const { instance, directory, client, settle, settleLater } = setUp();
  directory.remove(CDS, cds('a'));
  client.reconnect(instance);
  t.strictSame(settle()[0], ['Cluster', 'a=v1']);
  t.strictSame(settleLater(), [['Cluster']]);
  t.end();
});

t.test(
  'so does a cluster that is removed before its client, which is back, can get its first set',
  (t) => {
    const { instance, directory, client, settle } = setUp();
    directory.put(CDS, cds('b'), 'v1');
    client.type(CDS).names = [cds('a'), cds('b')];
    client.reconnect(instance);
    t.strictSame(settle(), [['RouteConfiguration', 'r=to a']], 'the other cluster is unknown');
    directory.remove(CDS, cds('a'));
    directory.answer();
    t.strictSame(settle()[0], ['Cluster', 'a=v1', 'b=v1']);
    t.end();
  },
);

t.test('it has the content of the source again if that is back', (t) => {
  const { instance, directory, client, settle, settleLater } = setUp();
  directory.remove(CDS, cds('a'));
  directory.put(CDS, cds('a'), 'v2');
  client.reconnect(instance);
  t.strictSame(settle()[0], ['Cluster', 'a=v2']);
  t.strictSame(settleLater(), []);
  t.end();
});

t.test('it goes at once if its source gave a reason, such as a lost right (TP3)', (t) => {
  const { instance, directory, client, settle } = setUp();
  directory.remove(CDS, cds('a'), LOST_RIGHT);
  client.reconnect(instance);
  t.strictSame(settle()[0], ['Cluster']);
  t.end();
});

t.test('it goes at once if its client may not ask for it any more (invariant 23)', (t) => {
  let verdict: Verdict = GRANTED;
  const { instance, directory, client, settle } = setUp(() => verdict);
  directory.remove(CDS, cds('a'));
  verdict = { kind: 'denied', isHidden: false, status: LOST_RIGHT };
  client.reconnect(instance);
  t.strictSame(settle()[0], ['Cluster']);
  t.end();
});

t.test('it goes at once if its client comes back a minute later', (t) => {
  for (const [awayMs, set] of [
    [KEPT_MS - 1, ['Cluster', 'a=v1']],
    [KEPT_MS, ['Cluster']],
  ] as const) {
    const { instance, directory, client, settle } = setUp();
    // Otherwise the gateway forgets the name.
    new SotwClient(instance).ask(CDS, cds('a'));
    directory.remove(CDS, cds('a'));
    instance.advance(awayMs);
    client.reconnect(instance);
    t.strictSame(settle()[0], set);
  }
  t.end();
});

t.test('no client gets it that cannot hold it: without a version, or by a later request', (t) => {
  const { instance, directory } = setUp();
  directory.remove(CDS, cds('a'));
  const fresh = new SotwClient(instance);
  fresh.ask(CDS, cds('a'));
  t.strictSame(fresh.settle().map(said), [['Cluster']]);

  directory.put(CDS, cds('c'), 'v1');
  const later = new SotwClient(instance);
  later.ask(CDS, cds('c'));
  directory.answer();
  later.settle();
  later.disconnect();
  later.reconnect(instance);
  later.ask(CDS, cds('a'), cds('c'));
  t.strictSame(later.settle().map(said), [['Cluster', 'c=v1']]);
  t.end();
});

// ---- collections ----------------------------------------------------------------------------

t.test(
  'a member that was removed while its client was away goes after the route was replaced (GRPC 9)',
  (t) => {
    const { instance, directory, client, settle, settleLater } = setUpGlob();
    directory.put(RDS, rds('r'), 'to b');
    directory.put(CDS, cds('g/b'), 'v1');
    directory.remove(CDS, cds('g/a'));
    client.reconnect(instance);
    const first = [
      ['Cluster', 'g/a=v1', 'g/b=v1'],
      ['RouteConfiguration', 'r=to b'],
    ];
    t.strictSame(settle(), first, 'at once: nothing is lost that this process did not see go');
    t.strictSame(settleLater(), [['Cluster', 'g/b=v1']]);
    t.end();
  },
);

t.test('a client that returns before the removal of a member reached it gets it once more', (t) => {
  const { instance, directory, client, settle, settleLater } = setUpGlob();
  client.reconnect(instance);
  settle();
  directory.put(CDS, cds('g/b'), 'v1');
  directory.remove(CDS, cds('g/a'));
  t.strictSame(settle(), [['Cluster', 'g/a=v1', 'g/b=v1']]);
  for (const message of ['again', 'and again']) {
    client.disconnect();
    client.reconnect(instance);
    t.strictSame(settle()[0], ['Cluster', 'g/a=v1', 'g/b=v1'], message);
  }
  t.strictSame(settleLater(), [['Cluster', 'g/b=v1']]);
  t.end();
});

t.test('a member that a client knows to be gone does not come back (ENVOY 6)', (t) => {
  const { instance, directory, client, settle, settleLater } = setUpGlob();
  directory.put(CDS, cds('g/b'), 'v1');
  client.reconnect(instance);
  settle();
  directory.remove(CDS, cds('g/a'));
  settle();
  t.strictSame(settleLater(), [['Cluster', 'g/b=v1']]);
  client.disconnect();
  directory.put(CDS, cds('g/c'), 'v1');
  client.reconnect(instance);
  t.strictSame(settle()[0], ['Cluster', 'g/b=v1', 'g/c=v1']);
  t.end();
});

t.test('a member that came and went while a client was away never reaches it', (t) => {
  const { instance, directory, client, settle, settleLater } = setUpGlob();
  directory.put(CDS, cds('g/b'), 'v1');
  directory.remove(CDS, cds('g/b'));
  client.reconnect(instance);
  t.strictSame(settle()[0], ['Cluster', 'g/a=v1']);
  directory.put(CDS, cds('g/b'), 'v2');
  settle();
  directory.remove(CDS, cds('g/b'));
  settle();
  t.strictSame(settleLater(), [['Cluster', 'g/a=v1']]);
  client.disconnect();
  directory.put(CDS, cds('g/b'), 'v3');
  directory.remove(CDS, cds('g/b'));
  client.reconnect(instance);
  t.strictSame(settle()[0], ['Cluster', 'g/a=v1'], 'it knew that an earlier g/b had gone');
  t.end();
});

t.test('nor does one for a client whose version this process does not know', (t) => {
  const { instance, directory, client, settle } = setUpGlob();
  directory.put(CDS, cds('g/b'), 'v1');
  directory.remove(CDS, cds('g/a'));
  client.type(CDS).version = 'of-another-server';
  client.reconnect(instance);
  t.strictSame(settle()[0], ['Cluster', 'g/b=v1']);
  t.end();
});

t.test('a member that the client requests by its name, too, goes as a name', (t) => {
  const { instance, directory, client, settle, settleLater } = holding('g/a', [
    cds('g/*'),
    cds('g/a'),
  ]);
  directory.remove(CDS, cds('g/a'));
  client.reconnect(instance);
  t.strictSame(settle()[0], ['Cluster', 'g/a=v1']);
  t.strictSame(settleLater(), [['Cluster']]);
  t.end();
});
