/**
 * Goal: make before break for state-of-the-world clients: responses in order of types, and removals
 * last, after the replacement (docs/GRPC.md, invariant 6).
 */
import t from 'tap';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { CDS, EDS, LDS, RDS, cds, eds, lds, rds } from '../../../../support/mesh-names.js';
import { Instance } from '../../../../support/session-driver.js';
import { said, SotwClient, type SotwSettings } from '../../../../support/sotw-driver.js';

const QUIET_MS = 1_000;
const ACK_DEADLINE_MS = 16_000;
const UNREACHABLE = { code: STATUS_CODE.unavailable, message: 'no source' };

function setUp(settings: SotwSettings = {}) {
  const instance = new Instance();
  const client = new SotwClient(instance, settings);
  const { directory } = instance;
  const settleLater = (): readonly unknown[] => {
    const all = [...client.settle()];
    instance.advance(QUIET_MS);
    all.push(...client.settle());
    return all.map(said);
  };
  return { instance, directory, client, settleLater };
}

t.test(
  'a removed cluster stays until the client had time to subscribe its replacement (GRPC 9)',
  (t) => {
    const { directory, client, instance } = setUp();
    directory.put(RDS, rds('r'), 'to x');
    directory.put(CDS, cds('x'), 'v1');
    client.ask(RDS, rds('r'));
    client.ask(CDS, cds('x'));
    directory.answer();
    client.settle();
    instance.advance(QUIET_MS);
    directory.put(RDS, rds('r'), 'to y');
    directory.put(CDS, cds('y'), 'v1');
    directory.remove(CDS, cds('x'));
    t.strictSame(client.pollAll().map(said), [['RouteConfiguration', 'r=to y']]);
    client.ack();
    t.strictSame(client.pollAll().map(said), [], 'the client subscribes the new cluster only now');
    t.equal(client.session.nextDeadlineMs, instance.nowMs + QUIET_MS);
    client.ask(CDS, cds('x'), cds('y'));
    instance.advance(QUIET_MS);
    t.strictSame(client.pollAll().map(said), [], 'and that one is unanswered');
    directory.answer();
    t.strictSame(client.pollAll().map(said), [['Cluster', 'x=v1', 'y=v1']], 'the old one too');
    client.ack();
    instance.advance(QUIET_MS);
    const [response] = client.pollAll();
    t.strictSame(said(response), ['Cluster', 'y=v1']);
    t.match(response?.errors, [{ name: cds('x'), code: STATUS_CODE.notFound }]);
    t.end();
  },
);

t.test('removals wait no longer than the ACK deadline (GRPC 9)', (t) => {
  const { directory, client, instance } = setUp();
  directory.put(CDS, cds('x'), 'v1');
  directory.put(LDS, lds('l'), 'v1');
  client.ask(CDS, cds('x'));
  client.ask(LDS, lds('l'));
  directory.answer();
  client.settle();
  directory.put(LDS, lds('l'), 'v2');
  client.pollAll();
  directory.remove(CDS, cds('x'));
  t.strictSame(client.pollAll(), [], 'the listener lacks its ACK');
  instance.advance(15_999);
  t.strictSame(client.pollAll(), []);
  instance.advance(1);
  t.strictSame(client.pollAll().map(said), [['Cluster']]);
  t.end();
});

t.test(
  'listeners are removed before clusters, in separate responses (invariant 6, GRPC 9)',
  (t) => {
    const { directory, client, instance, settleLater } = setUp();
    for (const id of ['1', '2']) {
      directory.put(CDS, cds(id), 'v1');
      directory.put(LDS, lds(id), 'v1');
    }
    client.ask(CDS, cds('1'), cds('2'));
    client.ask(LDS, lds('1'), lds('2'));
    directory.answer();
    settleLater();
    instance.advance(QUIET_MS);
    directory.remove(CDS, cds('2'));
    directory.remove(LDS, lds('2'));
    t.strictSame(settleLater(), [
      ['Listener', '1=v1'],
      ['Cluster', '1=v1'],
    ]);
    t.end();
  },
);

t.test(
  'a resource that returns before its removal was sent was never absent (invariant 17, GRPC 9)',
  (t) => {
    const { directory, client, instance } = setUp();
    directory.put(CDS, cds('x'), 'v1');
    directory.put(CDS, cds('g/m'), 'v1');
    client.ask(CDS, cds('x'), cds('g/*'));
    directory.answer();
    client.settle();
    directory.remove(CDS, cds('x'));
    directory.remove(CDS, cds('g/m'));
    t.strictSame(client.pollAll(), []);
    directory.fail(CDS, cds('x'), UNREACHABLE);
    t.strictSame(client.pollAll(), [], 'nor does an error change anything');
    directory.put(CDS, cds('x'), 'v1');
    directory.put(CDS, cds('g/m'), 'v2');
    t.strictSame(client.settle().map(said), [['Cluster', 'g/m=v2', 'x=v1']]);
    instance.advance(600_000);
    t.strictSame(client.settle(), []);
    directory.remove(CDS, cds('x'));
    client.ask(CDS, cds('g/*'));
    t.strictSame(
      client.settle().map(said),
      [['Cluster', 'g/m=v2']],
      'unsubscribed by the client itself',
    );
    t.end();
  },
);

t.test('a member that the client never had does not linger (GRPC 9)', (t) => {
  const { directory, client } = setUp();
  directory.put(CDS, cds('g/a'), 'v1');
  client.ask(CDS, cds('g/*'), cds('g/named'));
  directory.answer();
  client.pollAll();
  directory.put(CDS, cds('g/b'), 'v1');
  directory.remove(CDS, cds('g/b'));
  t.strictSame(client.settle(), []);
  directory.put(CDS, cds('g/c'), 'v1');
  directory.remove(CDS, cds('g/a'));
  t.strictSame(client.pollAll().map(said), [['Cluster', 'g/a=v1', 'g/c=v1']]);
  t.end();
});

t.test(
  'listeners and routes wait for the ACK of new clusters, and not forever (invariant 6, GRPC 9)',
  (t) => {
    const { directory, client, instance } = setUp();
    directory.put(CDS, cds('a'), 'v1', eds('a'));
    directory.put(EDS, eds('a'), 'v1');
    directory.put(LDS, lds('l'), 'v1');
    directory.put(RDS, rds('r'), 'v1');
    client.ask(RDS, rds('r'));
    client.ask(LDS, lds('l'));
    client.ask(EDS, eds('a'));
    client.ask(CDS, cds('a'));
    directory.answer();
    t.strictSame(
      client.pollAll().map(({ typeUrl }) => typeUrl),
      [CDS, EDS],
    );
    t.equal(client.session.nextDeadlineMs, 16_000);
    instance.advance(16_000);
    t.strictSame(
      client.pollAll().map(({ typeUrl }) => typeUrl),
      [LDS, RDS],
    );
    client.settle();
    directory.put(CDS, cds('a'), 'v2', eds('a'));
    directory.put(LDS, lds('l'), 'v2');
    t.strictSame(
      client.pollAll().map(({ typeUrl }) => typeUrl),
      [CDS, EDS, LDS],
      'a mere change delays no type',
    );
    t.end();
  },
);

t.test(
  'a removal whose time is over brings no changed listener before the ACK of new clusters (invariant 6)',
  (t) => {
    // Simulation, seed 119730: the set without the removed listener also has the changed one.
    const { directory, client, instance } = setUp();
    for (const id of ['gone', 'stays']) directory.put(LDS, lds(id), 'v1');
    directory.put(CDS, cds('g/a'), 'v1');
    client.ask(LDS, lds('gone'), lds('stays'));
    client.ask(CDS, cds('g/*'));
    directory.answer();
    client.settle();
    instance.advance(QUIET_MS);
    client.ask(CDS, cds('g/*'), cds('never'));
    directory.remove(LDS, lds('gone'));
    t.strictSame(client.pollAll().map(said), [], 'the unanswered cluster may replace it');
    instance.advance(15_900);
    directory.put(CDS, cds('g/b'), 'v1');
    directory.put(LDS, lds('stays'), 'v2');
    t.strictSame(client.pollAll().map(said), [['Cluster', 'g/a=v1', 'g/b=v1']]);
    instance.advance(100);
    t.strictSame(
      client.pollAll().map(said),
      [],
      'the removal has waited for 16 s, the cluster not',
    );
    client.ack();
    t.strictSame(client.pollAll().map(said), [['Listener', 'gone=v1', 'stays=v2']]);
    client.ack();
    t.strictSame(client.pollAll().map(said), [['Listener', 'stays=v2']]);
    t.end();
  },
);

t.test('a set that waits for possibly held names does not delay routes (GRPC 7)', (t) => {
  const { directory, client } = setUp();
  directory.put(RDS, rds('r'), 'v1');
  client.send({ typeUrl: CDS, versionInfo: 'of old', names: [cds('a')] });
  client.ask(RDS, rds('r'));
  directory.answer((_, typeUrl) => typeUrl === RDS);
  t.strictSame(client.pollAll().map(said), [['RouteConfiguration', 'r=v1']]);
  t.end();
});

t.test(
  'a route waits for the first set of a collection of clusters, which may bring the cluster of the route (invariant 6)',
  (t) => {
    const { directory, client } = setUp();
    directory.put(CDS, cds('g/new'), 'v1');
    directory.put(RDS, rds('r'), 'v2');
    for (const [typeUrl, name] of [
      [CDS, cds('g/*')],
      [RDS, rds('r')],
    ] as const) {
      client.type(typeUrl).names = [name];
      client.send({ typeUrl, versionInfo: 'of old', names: [name] });
    }
    directory.answer((_, typeUrl) => typeUrl === RDS);
    t.strictSame(client.pollAll().map(said), [], 'the source has not sent all clusters');
    directory.answer();
    t.strictSame(client.pollAll().map(said), [['Cluster', 'g/new=v1']]);
    client.ack();
    t.strictSame(client.pollAll().map(said), [['RouteConfiguration', 'r=v2']]);
    t.end();
  },
);

t.test(
  'after a changed cluster its assignment is sent again, although unchanged (ENVOY 5, GRPC 10)',
  (t) => {
    const { directory, client } = setUp();
    directory.put(CDS, cds('a'), 'v1', eds('a'));
    directory.put(CDS, cds('g/m'), 'v1', eds('m'));
    for (const id of ['a', 'm']) directory.put(EDS, eds(id), 'v1');
    client.ask(CDS, cds('a'), cds('g/*'));
    client.ask(EDS, eds('a'), eds('m'));
    directory.answer();
    client.settle();
    directory.put(CDS, cds('a'), 'v2', eds('a'));
    t.strictSame(client.pollAll().map(said), [
      ['Cluster', 'a=v2', 'g/m=v1'],
      ['ClusterLoadAssignment', 'a=v1'],
    ]);
    client.settle();
    directory.put(CDS, cds('g/m'), 'v2', eds('m'));
    t.strictSame(client.settle().map(said).at(1), ['ClusterLoadAssignment', 'm=v1']);
    t.end();
  },
);

t.test(
  'an assignment that a client has as a member of a glob is sent again when the client subscribes to its name, since its cluster may be newer (ENVOY 5)',
  (t) => {
    const { directory, client } = setUp();
    directory.put(EDS, eds('g/m'), 'v1');
    client.ask(EDS, eds('g/*'));
    directory.answer();
    client.settle();
    directory.put(CDS, cds('g/m'), 'v1', eds('g/m'));
    client.ask(CDS, cds('g/m'));
    directory.answer();
    t.strictSame(client.settle().map(said), [['Cluster', 'g/m=v1']]);
    client.ask(EDS, eds('g/m'));
    directory.answer();
    t.strictSame(client.settle().map(said), [['ClusterLoadAssignment', 'g/m=v1']]);
    t.end();
  },
);

t.test(
  'a client that resumes while a cluster warms gets no routes before its request for clusters (ENVOY 24)',
  (t) => {
    const { directory, client, instance } = setUp();
    const put = (content: string): void => {
      directory.put(CDS, cds('x'), content, eds('x'));
      directory.put(EDS, eds('x'), content);
      directory.put(RDS, rds('r'), content);
    };
    put('v1');
    client.ask(CDS, cds('x'));
    client.ask(EDS, eds('x'));
    client.ask(RDS, rds('r'));
    directory.answer();
    client.settle();
    for (const content of ['v2', 'v3']) {
      client.disconnect();
      const requestClusters = client.reconnectWarming();
      put(content);
      t.strictSame(client.settle().map(said), [['ClusterLoadAssignment', `x=${content}`]]);
      if (content === 'v2') continue;
      requestClusters();
      t.strictSame(
        client.settle().map(said).flat(),
        ['Cluster', 'x=v3', 'ClusterLoadAssignment', 'x=v3', 'RouteConfiguration', 'r=v3'],
        'also if the client returned twice meanwhile',
      );
    }
    client.disconnect();
    client.reconnectWarming();
    put('v4');
    client.settle();
    instance.advance(ACK_DEADLINE_MS - 1);
    t.strictSame(client.settle(), []);
    instance.advance(1);
    t.strictSame(client.settle().map(said), [['RouteConfiguration', 'r=v4']], 'not forever');
    directory.put(RDS, rds('r'), 'v5');
    t.strictSame(client.settle().map(said), [['RouteConfiguration', 'r=v5']], 'nor again');
    t.end();
  },
);

t.test('a client with endpoints that never had clusters gets its routes at once', (t) => {
  const { directory, client } = setUp();
  directory.put(EDS, eds('x'), 'v1');
  directory.put(RDS, rds('r'), 'v1');
  client.ask(EDS, eds('x'));
  client.ask(RDS, rds('r'));
  directory.answer();
  client.settle();
  client.disconnect();
  client.reconnect();
  directory.put(RDS, rds('r'), 'v2');
  t.strictSame(client.settle().map(said).flat(), [
    ...['ClusterLoadAssignment', 'x=v1'],
    ...['RouteConfiguration', 'r=v2'],
  ]);
  t.end();
});
