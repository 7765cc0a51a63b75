/**
 * Goal: after every changed cluster its assignment is sent again, although unchanged (ENVOY 5,
 * measured: otherwise Envoy warms the cluster for 15 s), and never without need.
 * Method: model clients with clusters by glob or by name, and the assignments behind them.
 */
import t from 'tap';
import { CDS, EDS, cds, eds } from '../../../../support/mesh-names.js';
import { request } from '../../../../support/model-client.js';
import { gist, Instance, type ConnectedClient } from '../../../../support/session-driver.js';

const CLUSTERS = ['a', 'b'];

function putAll({ directory }: Instance): void {
  for (const id of CLUSTERS) {
    directory.put(CDS, cds(`g/${id}`), 'v1', eds(id));
    directory.put(EDS, eds(id), 'v1');
  }
}

function ask(client: ConnectedClient, instance: Instance, ...clusters: readonly string[]): void {
  client.subscribe(CDS, ...clusters);
  client.subscribe(EDS, ...CLUSTERS.map((id) => eds(id)));
  instance.directory.answer();
  client.settle();
}

function envoy(
  instance: Instance,
  manners: Parameters<Instance['connect']>[0] = {},
): ConnectedClient {
  putAll(instance);
  const client = instance.connect(manners);
  ask(client, instance, cds('g/*'));
  return client;
}

const clusterOf = (id: string) => ({ type: 'Cluster', resources: [cds(`g/${id}`)], removed: [] });
const endpointsOf = (id: string) => ({
  type: 'ClusterLoadAssignment',
  resources: [eds(id)],
  removed: [],
});

t.test('a changed cluster is followed by its assignment at once, and by no other', (t) => {
  const instance = new Instance();
  const client = envoy(instance);
  instance.directory.put(CDS, cds('g/a'), 'v2', eds('a'));
  t.strictSame(client.pollAll().map(gist), [clusterOf('a'), endpointsOf('a')]);
  t.strictSame(client.settle(), [], 'once');
  t.end();
});

t.test('a cluster that waits for an ACK brings its assignment when it is sent, not before', (t) => {
  const instance = new Instance();
  const client = envoy(instance);
  instance.directory.put(CDS, cds('g/b'), 'v2', eds('b'));
  t.strictSame(client.pollAll().map(gist), [clusterOf('b'), endpointsOf('b')]);
  client.ack(EDS);
  // Envoy withholds the ACK of clusters while they warm.
  instance.directory.put(CDS, cds('g/a'), 'v2', eds('a'));
  t.strictSame(client.pollAll(), []);
  instance.directory.put(EDS, eds('a'), 'v2');
  t.strictSame(client.pollAll().map(gist), [endpointsOf('a')], 'endpoints never wait (ENVOY 6)');
  client.ack(EDS);
  client.ack(CDS);
  t.strictSame(client.pollAll().map(gist), [clusterOf('a'), endpointsOf('a')]);
  t.end();
});

t.test('a client that does not hold the cluster is not sent its assignment again', (t) => {
  const instance = new Instance();
  putAll(instance);
  const holder = instance.connect();
  ask(holder, instance, cds('g/*'));
  const byName = instance.connect();
  ask(byName, instance, cds('g/b'));
  const none = instance.connect();
  none.subscribe(EDS, eds('a'));
  none.settle();
  instance.directory.put(CDS, cds('g/a'), 'v2', eds('a'));
  t.strictSame(none.pollAll(), []);
  t.strictSame(byName.pollAll(), []);
  t.strictSame(holder.pollAll().length, 2);
  t.end();
});

t.test('a cluster that is held by name brings its assignment too', (t) => {
  const instance = new Instance();
  putAll(instance);
  const client = instance.connect();
  ask(client, instance, cds('g/a'), cds('g/b'));
  instance.directory.put(CDS, cds('g/a'), 'v2', eds('a'));
  t.strictSame(client.pollAll().map(gist), [clusterOf('a'), endpointsOf('a')]);
  client.ack(EDS);
  instance.directory.put(CDS, cds('g/a'), 'v3', eds('a'));
  instance.directory.put(EDS, eds('a'), 'v2');
  t.strictSame(client.pollAll().map(gist), [endpointsOf('a')]);
  client.ack(EDS);
  client.ack(CDS);
  t.strictSame(client.pollAll().map(gist), [clusterOf('a'), endpointsOf('a')]);
  t.end();
});

t.test(
  'the version of an assignment encodes the clusters for which it was sent, at any instance (invariant 4)',
  (t) => {
    const instance = new Instance();
    const one = envoy(instance);
    const two = new Instance({ directory: instance.directory }).connect();
    ask(two, instance, cds('g/*'));
    const versionOf = (client: ConnectedClient, id: string): string | undefined =>
      client.model.type(EDS).held.get(eds(id))?.version;
    t.equal(versionOf(one, 'a'), versionOf(two, 'a'));
    t.not(versionOf(one, 'a')?.split('.')[1], versionOf(one, 'b')?.split('.')[1]);
    const none = instance.connect();
    none.subscribe(EDS, eds('a'));
    none.settle();
    t.equal(versionOf(none, 'a'), versionOf(one, 'a')?.split('.')[0], 'no cluster, no suffix');
    t.end();
  },
);

t.test(
  'a cluster that changed while the client was disconnected brings its assignment, another does not',
  (t) => {
    for (const elsewhere of [false, true]) {
      const instance = new Instance();
      const client = envoy(instance);
      client.disconnect();
      instance.directory.put(CDS, cds('g/a'), 'v2', eds('a'));
      if (elsewhere) client.reconnect(new Instance({ directory: instance.directory }));
      else client.reconnect();
      t.strictSame(
        elsewhere && client.pollAll(),
        elsewhere && [],
        'endpoints wait for their clusters',
      );
      instance.directory.answer();
      const sent = client.settle().map(gist);
      const clusters = new Set([cds('g/a'), cds('g/b')]);
      t.match(sent, [{ type: 'Cluster' }, endpointsOf('a')]);
      t.strictSame(new Set((sent[0] as { resources: string[] }).resources), clusters);
      t.equal(sent.length, 2);
    }
    t.end();
  },
);

t.test(
  'a cluster that changed and changed back before its assignment is known brings it too (ENVOY 5)',
  (t) => {
    const instance = new Instance();
    const client = envoy(instance);
    client.disconnect();
    const { directory } = instance;
    directory.put(CDS, cds('g/a'), 'v2', eds('a'));
    client.reconnect(new Instance({ directory }));
    directory.answer((_name, typeUrl) => typeUrl === CDS);
    t.match(client.settle().map(gist), [{ type: 'Cluster' }]);
    directory.put(CDS, cds('g/a'), 'v1', eds('a'));
    t.strictSame(client.settle().map(gist), [clusterOf('a')]);
    directory.answer();
    t.strictSame(
      client.settle().map(gist),
      [endpointsOf('a')],
      'although it has the earlier version',
    );
    t.end();
  },
);

t.test(
  'a cluster that changes back while its glob is answered brings its assignment (ENVOY 5)',
  (t) => {
    // Found by the simulation, seed 132508.
    const instance = new Instance({ chunkBytes: 1 });
    const client = envoy(instance);
    instance.directory.put(CDS, cds('g/b'), 'v2', eds('b'));
    instance.directory.put(CDS, cds('g/c'), 'v1');
    client.subscribe(CDS, cds('g/*'));
    t.match(client.poll()?.resources, [{ name: cds('g/a') }]);
    t.match(client.poll()?.resources, [{ name: cds('g/b') }]);
    instance.directory.put(CDS, cds('g/b'), 'v1', eds('b'));
    const sent = client.settle().map(gist);
    t.strictSame(sent.slice(-2), [clusterOf('b'), endpointsOf('b')]);
    t.end();
  },
);

t.test(
  'a cluster that changed elsewhere and changed back brings an assignment that is requested later (ENVOY 5, seed 45350)',
  (t) => {
    const instance = new Instance();
    const client = envoy(instance, { resumesMembers: true });
    const versionOf = (typeUrl: string, name: string): string =>
      client.model.type(typeUrl).held.get(name)?.version ?? '';
    client.disconnect();
    const returned = instance.connect();
    const clusters = new Map([
      [cds('g/a'), 'changed elsewhere'],
      [cds('g/b'), versionOf(CDS, cds('g/b'))],
    ]);
    const asked = request({ typeUrl: CDS, subscribe: [cds('g/*')], initialVersions: clusters });
    returned.send(asked);
    t.strictSame(returned.settle().map(gist), [clusterOf('a')]);
    const names = CLUSTERS.map((id) => eds(id));
    const endpoints = new Map(names.map((name) => [name, versionOf(EDS, name)]));
    returned.send(request({ typeUrl: EDS, subscribe: names, initialVersions: endpoints }));
    t.strictSame(returned.settle().map(gist), [endpointsOf('a')]);
    t.end();
  },
);

t.test('a resume in many chunks sends no assignment that is current', (t) => {
  const instance = new Instance({ chunkBytes: 1 });
  const client = envoy(instance);
  client.disconnect();
  client.reconnect();
  t.strictSame(client.settle().map(gist), [clusterOf('a'), clusterOf('b')]);
  t.end();
});

t.test(
  'a client that resumes its clusters by version gets its assignment only after a change',
  (t) => {
    const instance = new Instance();
    const client = envoy(instance, { resumesMembers: true });
    client.disconnect();
    client.reconnect();
    t.strictSame(client.settle().map(gist), [{ type: 'Cluster', resources: [], removed: [] }]);
    client.disconnect();
    instance.directory.put(CDS, cds('g/b'), 'v2', eds('b'));
    client.reconnect();
    t.strictSame(client.settle().map(gist), [clusterOf('b'), endpointsOf('b')]);
    t.end();
  },
);

t.test('resumed endpoints wait for unknown clusters for two seconds, not longer', (t) => {
  const instance = new Instance();
  const client = envoy(instance);
  const other = new Instance({ directory: instance.directory });
  const moved = client;
  client.disconnect();
  client.reconnect(other);
  instance.directory.answer((_name, typeUrl) => typeUrl === EDS);
  t.equal(moved.poll(), undefined);
  t.equal(moved.session.nextDeadlineMs, 2_000);
  other.advance(2_000);
  t.strictSame(
    moved.settle().map(({ typeUrl }) => typeUrl),
    [EDS],
  );
  t.equal(moved.session.nextDeadlineMs, undefined);
  t.end();
});

t.test('an assignment named by a cluster of another authority follows that cluster', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  instance.directory.put(CDS, cds('g/a', 'onprem'), 'v1', eds('a'));
  instance.directory.put(EDS, eds('a'), 'v1');
  client.subscribe(CDS, cds('g/*', 'onprem'));
  client.subscribe(EDS, eds('a'));
  instance.directory.answer();
  client.settle();
  instance.directory.put(CDS, cds('g/a', 'onprem'), 'v2', eds('a'));
  t.strictSame(
    client.settle().map(({ typeUrl }) => typeUrl),
    [CDS, EDS],
  );
  t.end();
});

t.test('an assignment that is new to the client does not wait for a change of its cluster', (t) => {
  const instance = new Instance();
  instance.directory.put(CDS, cds('c'), 'v1', eds('a'));
  instance.directory.put(EDS, eds('a'), 'v1');
  const client = instance.connect();
  client.subscribe(CDS, cds('c'));
  instance.directory.answer();
  t.match(gist(client.poll()), { resources: [cds('c')] });
  instance.directory.put(CDS, cds('c'), 'v2', eds('a'));
  client.subscribe(EDS, eds('a'));
  instance.directory.answer();
  t.match(gist(client.poll()), { resources: [eds('a')] }, 'although the cluster waits for its ACK');
  client.ack(CDS);
  client.ack(EDS);
  t.strictSame(
    client.pollAll().map((response) => gist(response)),
    [
      { type: 'Cluster', resources: [cds('c')], removed: [] },
      { type: 'ClusterLoadAssignment', resources: [eds('a')], removed: [] },
    ],
  );
  t.end();
});

t.test('a resumed assignment waits for its cluster if that is about to be sent again', (t) => {
  const instance = new Instance();
  instance.directory.put(CDS, cds('c'), 'v1', eds('a'));
  instance.directory.put(EDS, eds('a'), 'v1');
  const before = instance.connect();
  before.subscribe(CDS, cds('c'));
  before.subscribe(EDS, eds('a'));
  instance.directory.answer();
  const [assignment] = before.settle().flatMap(({ typeUrl, resources }) => {
    return typeUrl === EDS ? resources : [];
  });
  const client = instance.connect();
  client.subscribe(CDS, cds('c'));
  client.pollAll();
  instance.directory.put(CDS, cds('c'), 'v2', eds('a'));
  client.send({
    ...request({ typeUrl: EDS, subscribe: [eds('a')] }),
    initialVersions: new Map([[eds('a'), assignment?.version ?? '']]),
  });
  t.strictSame(client.pollAll(), [], 'it is current, until its cluster changes');
  client.send(client.model.ack(CDS));
  const types = [client.session.takeResponse(0), client.session.takeResponse(0)].map(
    (bytes) => bytes && 'sent',
  );
  t.strictSame(types, ['sent', 'sent'], 'the cluster, and the assignment behind it');
  t.end();
});
