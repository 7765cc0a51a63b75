/**
 * Goal: state-of-the-world clients of lists, and of collections that only an alternative has
 * answered; and a directory that answers at once.
 */
import t from 'tap';
import {
  emptyAssignment,
  placeholderCluster,
} from '../../../../../gateway/core/sotw/placeholder.js';
import { FIRST_ANSWER_WAIT_MS } from '../../../../../gateway/core/sotw/responses.js';
import { oldStyleName } from '../../../../../protos/resource-name.js';
import { bodyOf } from '../../../../../protos/resource-field.js';
import { TYPE_URL_PREFIX } from '../../../../../protos/type-urls.js';
import { FakeDirectory, nameOf, projectionOf } from '../../../../support/fake-directory.js';
import { CDS, SDS, cds, eds, sds } from '../../../../support/mesh-names.js';
import { Instance, SWITCH_WAIT_MS } from '../../../../support/session-driver.js';
import { said, SotwClient } from '../../../../support/sotw-driver.js';
import { decode } from '../../../protos/envoy-messages.js';

const listOf = (typeUrl: string): string =>
  `xdstp://cloud/${typeUrl.slice(TYPE_URL_PREFIX.length)}Collection/all`;

const word = (typeUrl: string): string => typeUrl.slice(typeUrl.lastIndexOf('.') + 1);

function setUp(directory = new FakeDirectory()) {
  const instance = new Instance({ directory });
  const client = new SotwClient(instance);
  // Members of lists have names of all kinds.
  client.wants = () => true;
  return { instance, directory, client, cache: instance.cache };
}

t.test('a member of a list and of a glob comes once (GRPC 7, 10)', (t) => {
  for (const [type, name] of [
    [CDS, cds],
    [SDS, sds],
  ] as const) {
    const { directory, client, cache } = setUp();
    directory.put(type, name('g/a'), 'v1');
    client.ask(type, name('g/*'), listOf(type));
    directory.answer();
    cache.onMemberChanged(nameOf(listOf(type)), projectionOf(type, name('g/a'), 'v1'));
    cache.onComplete(type, nameOf(listOf(type)), true);
    t.strictSame(client.settle().map(said), [[word(type), 'g/a=v1']]);
  }
  t.end();
});

t.test(
  'a name that a list contains is answered by the list, until its own answer (GRPC 7, 10)',
  (t) => {
    for (const [type, name] of [
      [CDS, cds],
      [SDS, sds],
    ] as const) {
      const { client, cache, instance } = setUp();
      const list = nameOf(listOf(type));
      client.ask(type, name('one'), listOf(type));
      cache.onMemberChanged(list, projectionOf(type, name('one'), 'v1'));
      t.strictSame(client.settle(), [], 'an incomplete list does not count');
      cache.onComplete(type, list, true);
      // A set is complete, or waits for its other names.
      if (type === CDS) instance.advance(FIRST_ANSWER_WAIT_MS);
      t.strictSame(client.settle().map(said), [[word(type), 'one=v1']]);
      client.ask(type, listOf(type));
      cache.onMemberChanged(list, projectionOf(type, name('one'), 'v2'));
      t.strictSame(client.settle().map(said).at(-1), [word(type), 'one=v2'], 'now as a member');
    }
    t.end();
  },
);

t.test(
  'a list that turns out to be empty is answered by the unchanged set, once (FC_SEED=-1630335782)',
  (t) => {
    const { directory, client, cache, instance } = setUp();
    directory.put(CDS, cds('one'), 'v1');
    client.ask(CDS, cds('one'), listOf(CDS));
    cache.onChanged(projectionOf(CDS, cds('one'), 'v1'));
    instance.advance(FIRST_ANSWER_WAIT_MS);
    const first = client.poll();
    t.equal(first?.resources.length, 1);
    cache.onComplete(CDS, nameOf(listOf(CDS)), true);
    instance.advance(1_000);
    const second = client.poll();
    t.equal(second?.versionInfo, first?.versionInfo);
    cache.onComplete(CDS, nameOf(listOf(CDS)), true);
    t.strictSame(client.settle(), []);
    t.end();
  },
);

t.test('names that move to a list stay until the list is complete (GRPC 7)', (t) => {
  const { directory, client, cache, instance } = setUp();
  for (const id of ['one', 'two', 'three']) directory.put(CDS, cds(id), 'v1');
  client.ask(CDS, cds('one'), cds('two'), cds('three'));
  directory.answer();
  client.settle();
  client.ask(CDS, cds('two'), cds('three'), listOf(CDS));
  directory.remove(CDS, cds('three'));
  client.settle();
  instance.advance(20_000);
  t.strictSame(client.settle().map(said), [['Cluster', 'one=v1', 'two=v1']]);
  cache.onComplete(CDS, nameOf(listOf(CDS)), true);
  client.settle();
  instance.advance(20_000);
  t.strictSame(client.settle().map(said).at(-1), ['Cluster', 'two=v1']);
  client.ask(CDS, listOf(CDS));
  t.strictSame(
    client.settle().map(said),
    [['Cluster']],
    'but not once the list is known to lack it',
  );
  t.end();
});

t.test('members of a glob, or of another list, stay until the list is complete (GRPC 7)', (t) => {
  const other = 'xdstp://slow/envoy.config.cluster.v3.ClusterCollection/all';
  for (const before of [cds('g/*'), listOf(CDS)]) {
    const { directory, client, cache, instance } = setUp();
    for (const id of ['g/a', 'g/b']) directory.put(CDS, cds(id), 'v1');
    client.ask(CDS, before);
    directory.answer();
    for (const id of ['g/a', 'g/b']) {
      cache.onMemberChanged(nameOf(listOf(CDS)), projectionOf(CDS, cds(id), 'v1'));
    }
    cache.onComplete(CDS, nameOf(before), true);
    t.strictSame(client.settle().map(said).at(-1), ['Cluster', 'g/a=v1', 'g/b=v1']);
    // Either of two unanswered lists may contain it.
    client.ask(CDS, 'xdstp://other/envoy.config.cluster.v3.ClusterCollection/all', other);
    directory.put(CDS, cds('g/c'), 'v1');
    cache.onComplete(
      CDS,
      nameOf('xdstp://other/envoy.config.cluster.v3.ClusterCollection/all'),
      true,
    );
    client.settle();
    instance.advance(20_000);
    client.settle();
    t.strictSame([...client.type(CDS).held.keys()], [cds('g/a'), cds('g/b')], before);
    cache.onMemberChanged(nameOf(other), projectionOf(CDS, cds('g/b'), 'v1'));
    cache.onComplete(CDS, nameOf(other), true);
    client.settle();
    instance.advance(20_000);
    t.strictSame(client.settle().map(said).at(-1), ['Cluster', 'g/b=v1'], before);
  }
  t.end();
});

t.test(
  'a resource that waits for a list stays when it is subscribed by name again (GRPC 7)',
  (t) => {
    const { directory, client, instance } = setUp();
    directory.put(CDS, cds('one'), 'v1');
    client.ask(CDS, cds('one'), cds('two'));
    directory.answer();
    client.settle();
    client.ask(CDS, listOf(CDS));
    client.settle();
    instance.advance(40_000);
    client.ask(CDS, listOf(CDS), cds('one'), cds('two'));
    t.strictSame(client.settle().map(said), [], 'unchanged, although its name is unanswered');
    client.ask(CDS, cds('one'), cds('two'));
    t.strictSame(client.settle().map(said), []);
    directory.remove(CDS, cds('one'));
    directory.answer();
    t.strictSame(client.settle().map(said), [['Cluster']], 'no other response was sent meanwhile');
    t.end();
  },
);

t.test(
  'a resumed client may hold what an alternative lacks: its answer alone proves nothing (invariant 19, GRPC 7)',
  (t) => {
    const glob = nameOf(cds('g/*'));
    for (const asked of [[cds('g/*')], [cds('g/a'), cds('g/*')]]) {
      const { client, cache } = setUp();
      client.type(CDS).names = asked;
      client.send({ typeUrl: CDS, versionInfo: 'of old', names: asked });
      cache.onChanged(projectionOf(CDS, cds('g/a'), 'v1'));
      cache.onComplete(CDS, glob, false);
      t.equal(client.poll(), undefined);
      cache.onComplete(CDS, glob, true);
      t.strictSame(client.settle().map(said), [['Cluster', 'g/a=v1']]);
      const fresh = setUp();
      fresh.client.ask(CDS, ...asked);
      fresh.cache.onChanged(projectionOf(CDS, cds('g/a'), 'v1'));
      fresh.cache.onComplete(CDS, glob, false);
      t.equal(fresh.client.settle().length, 1, 'a client without a version does not wait');
    }
    t.end();
  },
);

t.test('under a list, too, possibly held names are waited for (invariant 19, GRPC 7)', (t) => {
  for (const [before, after] of [
    [cds('one'), listOf(CDS)],
    [listOf(CDS), cds('one')],
    [cds('one/*'), listOf(CDS)],
  ] as const) {
    const { client, cache, directory, instance } = setUp();
    client.send({ typeUrl: CDS, versionInfo: 'of old', names: [before] });
    client.ask(CDS, after, cds('new'));
    directory.answer(({ id }) => id === 'new');
    t.equal(client.poll(), undefined);
    directory.put(CDS, cds('one'), 'v1');
    directory.answer();
    cache.onMemberChanged(nameOf(listOf(CDS)), projectionOf(CDS, cds('one'), 'v1'));
    cache.onComplete(CDS, nameOf(listOf(CDS)), true);
    // One of the names is missing, and may still arrive.
    const told = [...client.settle()];
    instance.advance(SWITCH_WAIT_MS);
    t.strictSame([...told, ...client.settle()].map(said), [['Cluster', 'one=v1']]);
  }
  t.end();
});

t.test('a directory that answers during the subscription works', (t) => {
  class Prompt extends FakeDirectory {
    override watch(...args: Parameters<FakeDirectory['watch']>): void {
      super.watch(...args);
      this.answer();
    }
  }
  const { directory, client } = setUp(new Prompt());
  directory.put(CDS, cds('a'), 'v1');
  directory.put(CDS, cds('g/a'), 'v1');
  t.strictSame(client.session.takeEvents(), []);
  client.ask(CDS, cds('a'), cds('g/*'));
  t.strictSame(client.pollAll().map(said), [['Cluster', 'a=v1', 'g/a=v1']]);
  t.match(client.session.allSubscriptions, [
    { typeUrl: CDS, authority: 'cloud', inFlightSinceMs: 0 },
  ]);
  client.ack();
  t.match(client.session.allSubscriptions, [{ inFlightSinceMs: undefined }]);
  client.ask(CDS, cds('a'), cds('b', 'elsewhere'));
  t.match(client.session.allSubscriptions, [{ authority: '(several)', nameCount: 2 }]);
  client.ask(CDS);
  t.match(client.session.allSubscriptions, [{ authority: '', nameCount: 0 }]);
  t.end();
});

t.test(
  'a placeholder takes its endpoints from the name of its own authority and id (GRPC 8)',
  (t) => {
    const type = 'envoy.config.cluster.v3.Cluster';
    const xdstp = placeholderCluster(nameOf(cds('edge/a?x=1')));
    t.equal(xdstp.edsKey, eds('edge/a?x=1'));
    t.match(decode(type, bodyOf(xdstp.field)), {
      name: cds('edge/a?x=1'),
      eds_cluster_config: { service_name: eds('edge/a?x=1') },
    });
    const old = placeholderCluster(oldStyleName('scope', 'plain'));
    t.equal(old.edsKey, old.name.key);
    const { eds_cluster_config: config } = decode(type, bodyOf(old.field));
    t.notMatch(config, { service_name: /./ });
    t.match(
      decode(
        'envoy.config.endpoint.v3.ClusterLoadAssignment',
        bodyOf(emptyAssignment(old.name).field),
      ),
      {
        cluster_name: 'plain',
      },
    );
    t.end();
  },
);

t.test('a name that moves to a list which the guard doubts stays in the set (GRPC 7)', (t) => {
  const { client, cache, directory, instance } = setUp();
  const list = nameOf(listOf(CDS));
  const remembered = {
    typeUrl: CDS,
    glob: list,
    members: [cds('gone')],
    removed: [],
    knownAtMs: 0,
  };
  instance.cache.restoreCollections([remembered], 0);
  for (const id of ['g/a', 'h/b']) directory.put(CDS, cds(id), 'v1');
  client.ask(CDS, cds('h/b'));
  directory.answer();
  client.settle();
  client.ask(CDS, cds('g/a'), cds('h/b'), listOf(CDS));
  directory.answer(({ id }) => id === 'g/a');
  cache.onMemberChanged(list, projectionOf(CDS, cds('g/a'), 'v1'));
  cache.onComplete(CDS, list, true);
  t.strictSame(client.settle().map(said), [['Cluster', 'g/a=v1', 'h/b=v1']]);
  client.ask(CDS, cds('h/*'), listOf(CDS));
  directory.put(CDS, cds('h/c'), 'v1');
  directory.answer();
  t.strictSame(client.settle().map(said), [['Cluster', 'g/a=v1', 'h/b=v1', 'h/c=v1']]);
  t.end();
});
