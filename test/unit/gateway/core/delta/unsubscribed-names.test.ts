/**
 * Names that a client subscribes or unsubscribes while it has or will have them as members of a
 * glob.
 */
import t from 'tap';
import {
  GUARD_WAIT_MS,
  Instance,
  SWITCH_WAIT_MS,
  gist,
} from '../../../../support/session-driver.js';
import { nameOf, projectionOf } from '../../../../support/fake-directory.js';
import { request } from '../../../../support/model-client.js';
import {
  cds,
  CDS,
  eds,
  EDS,
  lds,
  LDS,
  rds,
  RDS,
  sds,
  SDS,
} from '../../../../support/mesh-names.js';

t.test('an unsubscribed member comes once in an answer of several responses (invariant 5)', (t) => {
  const instance = new Instance({ chunkBytes: 1 });
  const client = instance.connect();
  for (const id of ['g/a', 'g/b']) instance.directory.put(SDS, sds(id), 'v1');
  client.subscribe(SDS, sds('g/a'), sds('g/*'));
  instance.directory.answer();
  t.strictSame(gist(client.poll()), { type: 'Secret', resources: [sds('g/a')], removed: [] });
  client.unsubscribe(SDS, sds('g/a'));
  const rest = client.pollAll().flatMap(({ resources }) => resources.map(({ name }) => name));
  t.strictSame(rest, [sds('g/b')]);
  const after = client.settle().flatMap(({ resources }) => resources.map(({ name }) => name));
  t.strictSame(after, [sds('g/a')], 'and once more after the ACK, since it was unsubscribed');
  t.end();
});

t.test(
  'a subscribed name that was removed as a member is removed apart from additions (invariant 16)',
  (t) => {
    const instance = new Instance();
    const client = instance.connect();
    instance.directory.put(SDS, sds('g/a'), 'v1');
    client.subscribe(SDS, sds('g/*'));
    instance.directory.answer();
    client.settle();
    client.subscribe(SDS, sds('g/a'));
    instance.directory.remove(SDS, sds('g/a'));
    instance.directory.put(SDS, sds('g/b'), 'v1');
    instance.directory.answer();
    t.strictSame(client.settle().map(gist), [
      { type: 'Secret', resources: [sds('g/b')], removed: [] },
      { type: 'Secret', resources: [], removed: [sds('g/a')] },
    ]);
    t.end();
  },
);

t.test('an unsubscribed name that the client never had is new when it comes as a member', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  const { cache } = instance;
  client.subscribe(CDS, cds('g/*'), cds('g/a'));
  client.subscribe(LDS, lds('l'));
  // An alternative proves nothing.
  cache.onChanged(projectionOf(CDS, cds('g/b'), 'v1'));
  cache.onComplete(CDS, nameOf(cds('g/*')), false);
  cache.onDoesNotExist(CDS, nameOf(cds('g/a')));
  cache.onChanged(projectionOf(LDS, lds('l'), 'v1'));
  client.settle();
  client.unsubscribe(CDS, cds('g/a'));
  client.settle();
  cache.onChanged(projectionOf(CDS, cds('g/a'), 'v1'));
  cache.onChanged(projectionOf(LDS, lds('l'), 'v2'));
  t.strictSame(
    client.pollAll().map(({ typeUrl }) => typeUrl),
    [CDS],
    'listeners wait for the ACK of a cluster that is new (invariant 6)',
  );
  t.end();
});

t.test(
  'a name without a version is new when it comes as a member (invariant 6, seed 11133)',
  (t) => {
    const instance = new Instance();
    const client = instance.connect();
    const { cache } = instance;
    const subscribe = [cds('g/a'), cds('g/*')];
    // A client that resumes, and may hold g/a in an unknown version.
    client.send(
      request({ typeUrl: CDS, subscribe, initialVersions: new Map([[cds('g/old'), 'v1']]) }),
    );
    client.subscribe(LDS, lds('l'));
    cache.onComplete(CDS, nameOf(cds('g/*')), false);
    client.settle();
    client.unsubscribe(CDS, cds('g/a'));
    client.settle();
    cache.onChanged(projectionOf(CDS, cds('g/a'), 'v1'));
    cache.onChanged(projectionOf(LDS, lds('l'), 'v2'));
    t.strictSame(
      client.pollAll().map(({ typeUrl }) => typeUrl),
      [CDS],
      'listeners wait for the ACK of a cluster that may be new',
    );
    t.end();
  },
);

t.test('a glob that only an alternative reports empty is not removed', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  const { cache } = instance;
  client.subscribe(SDS, sds('g/*'));
  cache.onComplete(SDS, nameOf(sds('g/*')), false);
  const removed = client.settle().flatMap((response) => response.removed);
  t.strictSame(removed, [], 'an empty alternative proves nothing (invariant 3)');
  cache.onComplete(SDS, nameOf(sds('g/*')), true);
  t.strictSame(client.settle().map(gist), [
    { type: 'Secret', resources: [], removed: [sds('g/*')] },
  ]);
  t.end();
});

t.test('a resubscribed glob is sent completely, although the client resumed with versions', (t) => {
  const instance = new Instance();
  const client = instance.connect({ resumesMembers: true });
  for (const id of ['g/a', 'g/b']) instance.directory.put(SDS, sds(id), 'v1');
  client.subscribe(SDS, sds('g/*'));
  instance.directory.answer();
  client.settle();
  client.disconnect();
  const other = new Instance({ directory: instance.directory });
  client.reconnect(other);
  client.subscribe(SDS, sds('g/*'));
  instance.directory.remove(SDS, sds('g/b'));
  instance.directory.answer();
  t.strictSame(client.settle().map(gist), [
    { type: 'Secret', resources: [sds('g/a')], removed: [] },
  ]);
  t.strictSame(client.settleAfter(SWITCH_WAIT_MS).map(gist), [
    { type: 'Secret', resources: [], removed: [sds('g/b')] },
  ]);
  t.end();
});

// Found by the simulation, seed 51082.
t.test(
  'in-flight names that were unsubscribed count as possibly held members (invariant 2)',
  (t) => {
    const instance = new Instance({ unsubscribedLingerMs: 0 });
    const client = instance.connect();
    for (const id of ['f/a', 'f/b']) instance.directory.put(SDS, sds(id), 'v1');
    client.subscribe(SDS, sds('f/a'), sds('f/b'), sds('g/none'));
    instance.directory.answer();
    client.poll();
    client.unsubscribe(SDS, sds('f/a'), sds('f/b'), sds('g/none'));
    instance.advance(1);
    instance.directory.remove(SDS, sds('f/a'));
    client.subscribe(SDS, sds('f/*'), sds('g/*'));
    instance.directory.answer();
    t.strictSame(client.settle().map(gist), [
      { type: 'Secret', resources: [sds('f/b')], removed: [sds('g/*')] },
      { type: 'Secret', resources: [], removed: [sds('f/a')] },
    ]);
    t.end();
  },
);

t.test('a deleted route, subscribed by name and as a member, is removed once (ENVOY 4)', (t) => {
  const instance = new Instance({ silentAbsentRoutes: true });
  const client = instance.connect();
  for (const id of ['g/a', 'g/b']) instance.directory.put(RDS, rds(id), 'v1');
  client.subscribe(RDS, rds('g/a'), rds('g/*'));
  instance.directory.answer();
  client.settle();
  instance.directory.remove(RDS, rds('g/a'));
  t.strictSame(
    client.settle().flatMap(({ removed }) => removed),
    [rds('g/a')],
  );
  t.end();
});

// Found by the simulation, seeds 903144 and 1012575.
t.test(
  'a route unsubscribed in flight, then subscribed, is removed when it is deleted (ENVOY 4)',
  (t) => {
    for (const before of [rds('g/a'), rds('g/*')]) {
      const instance = new Instance({ silentAbsentRoutes: true });
      const client = instance.connect();
      instance.directory.put(RDS, rds('g/a'), 'v1');
      client.subscribe(RDS, before);
      instance.directory.answer();
      client.poll();
      client.unsubscribe(RDS, before);
      client.subscribe(RDS, rds('g/a'));
      instance.directory.remove(RDS, rds('g/a'));
      const removed = client.settle().flatMap((response) => response.removed);
      t.strictSame(removed, [rds('g/a')]);
      client.unsubscribe(RDS, rds('g/a'));
      client.subscribe(RDS, rds('g/a'));
      t.strictSame(client.settle(), [], 'nothing is in flight any more');
    }
    t.end();
  },
);

t.test(
  'a client that unsubscribes a collection gets no removals of its members (invariant 3)',
  (t) => {
    // Found by the simulation, seed 229136: by then the member existed again.
    const instance = new Instance();
    const { directory } = instance;
    const client = instance.connect({ resumesMembers: true });
    for (const id of ['g/a', 'g/b', 'x']) directory.put(SDS, sds(id), 'v1');
    client.subscribe(SDS, sds('g/*'), sds('x'));
    directory.answer();
    client.settle();
    client.disconnect();
    directory.remove(SDS, sds('g/a'));
    directory.put(SDS, sds('g/b'), 'v2');
    client.reconnect(new Instance({ directory }));
    directory.answer();
    t.match(client.poll()?.resources, [{ name: sds('g/b') }]);
    client.unsubscribe(SDS, sds('g/*'));
    t.strictSame(
      client.settle().flatMap(({ removed }) => removed),
      [],
    );
    t.end();
  },
);

// Found by the simulation, seed 501477.
t.test(
  'a name unsubscribed before its answer is removed once its glob lacks it: the client may hold it (invariant 2)',
  (t) => {
    const instance = new Instance();
    const client = instance.connect();
    client.subscribe(SDS, sds('g/*'), sds('g/a'), sds('g/b'));
    client.unsubscribe(SDS, sds('g/a'), sds('g/b'));
    client.subscribe(SDS, sds('g/*'));
    t.equal(client.poll(), undefined, 'nothing is known yet');
    instance.directory.put(SDS, sds('g/b'), 'v1');
    instance.directory.answer();
    t.strictSame(client.settle().map(gist), [
      { type: 'Secret', resources: [sds('g/b')], removed: [] },
      { type: 'Secret', resources: [], removed: [sds('g/a')] },
    ]);
    t.end();
  },
);

t.test(
  'a changed cluster that is unsubscribed between two responses comes with its endpoints (ENVOY 5)',
  (t) => {
    const instance = new Instance({ chunkBytes: 50 });
    const { directory } = instance;
    const client = instance.connect();
    const put = (content: string): void => {
      for (const id of ['z', 'a']) directory.put(CDS, cds(`g/${id}`), content, eds(id));
    };
    put('v1');
    for (const id of ['z', 'a']) directory.put(EDS, eds(id), 'v1');
    client.subscribe(CDS, cds('g/*'), cds('g/z'), cds('g/a'));
    client.subscribe(EDS, eds('z'), eds('a'));
    directory.answer();
    client.settle();
    put('v2');
    t.strictSame(gist(client.poll()), { type: 'Cluster', resources: [cds('g/z')], removed: [] });
    client.unsubscribe(CDS, cds('g/a'));
    const sent = client.settle().flatMap(({ resources }) => resources.map(({ name }) => name));
    t.strictSame(sent, [eds('z'), cds('g/a'), eds('a')]);
    t.end();
  },
);

t.test(
  'a deleted route that a client resumes as a member, and requests by name, is removed (ENVOY 4)',
  (t) => {
    const instance = new Instance({ silentAbsentRoutes: true });
    const client = instance.connect();
    for (let at = 0; at < 5; at++) instance.directory.put(RDS, rds(`g/${at}`), 'v1');
    client.send(
      request({
        typeUrl: RDS,
        subscribe: [rds('g/*')],
        initialVersions: new Map([
          [rds('g/0'), 'v0'],
          [rds('g/gone'), 'v0'],
        ]),
      }),
    );
    client.send(request({ typeUrl: RDS, subscribe: [rds('g/gone')] }));
    client.model.wants = () => true;
    instance.directory.answer();
    // Routes may wait for the client's request for endpoints.
    client.settleAfter(2_000);
    const removed = client.settleAfter(SWITCH_WAIT_MS).flatMap((response) => response.removed);
    t.strictSame(removed, [rds('g/gone')]);
    t.end();
  },
);

t.test('a member of a list and of a glob comes once (ENVOY 9)', (t) => {
  const list = cds('all').replace('Cluster/', 'ClusterCollection/');
  const instance = new Instance();
  const { cache, directory } = instance;
  const client = instance.connect();
  directory.put(CDS, cds('g/a'), 'v1');
  client.subscribe(CDS, cds('g/*'), list);
  directory.answer();
  cache.onMemberChanged(nameOf(list), projectionOf(CDS, cds('g/a'), 'v1'));
  cache.onComplete(CDS, nameOf(list), true);
  t.strictSame(client.settle().map(gist), [
    { type: 'Cluster', resources: [cds('g/a')], removed: [] },
  ]);
  t.end();
});

t.test('a member that a list loses is sent again by its glob (invariant 2)', (t) => {
  const list = cds('all').replace('Cluster/', 'ClusterCollection/');
  const instance = new Instance();
  const { cache } = instance;
  const client = instance.connect();
  const member = projectionOf(CDS, cds('g/a'), 'v1');
  const initialVersions = new Map([[cds('g/a'), member.version]]);
  client.send(request({ typeUrl: CDS, subscribe: [cds('g/*'), list], initialVersions }));
  cache.onMemberChanged(nameOf(list), member);
  cache.onComplete(CDS, nameOf(list), true);
  client.settle();
  cache.onMemberRemoved(CDS, nameOf(list), member.name);
  const removed = client.settle().flatMap((one) => one.removed);
  t.ok(removed.includes(cds('g/a')));
  cache.onChanged(member);
  cache.onComplete(CDS, nameOf(cds('g/*')), true);
  const sent = client.settle().flatMap(({ resources }) => resources.map(({ name }) => name));
  t.strictSame(sent, [cds('g/a')]);
  t.end();
});

t.test(
  'a route that moved from its glob to its name is removed when it is deleted (ENVOY 4)',
  (t) => {
    for (const isDeletedFirst of [false, true]) {
      const instance = new Instance({ silentAbsentRoutes: true });
      const { directory } = instance;
      const client = instance.connect();
      directory.put(RDS, rds('g/a'), 'v1');
      client.subscribe(RDS, rds('g/*'));
      directory.answer();
      client.settle();
      if (isDeletedFirst) directory.remove(RDS, rds('g/a'));
      client.subscribe(RDS, rds('g/a'));
      client.unsubscribe(RDS, rds('g/*'));
      if (!isDeletedFirst) directory.remove(RDS, rds('g/a'));
      directory.answer();
      t.strictSame(
        client.settle().flatMap(({ removed }) => removed),
        [rds('g/a')],
      );
    }
    t.end();
  },
);

t.test(
  'a claimed name that its client unsubscribes as a name stays with its glob until the guard lets it go (invariant 3, seed 57078)',
  (t) => {
    for (const isThere of [false, true]) {
      const instance = new Instance();
      const client = instance.connect();
      const { version } = projectionOf(SDS, sds('g/a'), 'v1');
      const initialVersions = new Map([[sds('g/a'), version]]);
      client.send(request({ typeUrl: SDS, subscribe: [sds('g/*'), sds('g/a')], initialVersions }));
      instance.directory.answer();
      client.settle();
      client.unsubscribe(SDS, sds('g/a'));
      client.settle();
      t.strictSame(
        client.settleAfter(SWITCH_WAIT_MS).map(gist),
        [],
        'its source may have just started',
      );
      if (isThere) instance.directory.put(SDS, sds('g/a'), 'v2');
      const [resources, removed] = isThere ? [[sds('g/a')], []] : [[], [sds('g/a')]];
      t.strictSame(client.settleAfter(GUARD_WAIT_MS).map(gist), [
        { type: 'Secret', resources, removed },
      ]);
    }
    t.end();
  },
);
