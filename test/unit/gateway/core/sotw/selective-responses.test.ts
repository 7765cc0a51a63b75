/**
 * Goal: for all types but listeners and clusters only changes are sent, in as many responses as
 * needed, and an unanswerable stream, or an unavailable cluster, does not block a client for longer
 * than configured (docs/GRPC.md).
 */
import t from 'tap';
import { FIRST_ANSWER_WAIT_MS } from '../../../../../gateway/core/sotw/responses.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { projectionOf, type FakeDirectory } from '../../../../support/fake-directory.js';
import { CDS, EDS, RDS, SDS, cds, eds, rds, sds } from '../../../../support/mesh-names.js';
import { Instance } from '../../../../support/session-driver.js';
import { said, SotwClient, type SotwSettings } from '../../../../support/sotw-driver.js';

const UNREACHABLE = { code: STATUS_CODE.unavailable, message: 'no source' };

function setUp(settings: SotwSettings = {}) {
  const instance = new Instance();
  const client = new SotwClient(instance, settings);
  return { instance, directory: instance.directory, client };
}

t.test('a response of routes never waits to be whole, so nothing waits for it', (t) => {
  const { client } = setUp();
  client.ask(RDS, rds('a'));
  t.notOk([...client.session.allSubscriptions].some((one) => one.holdsFirstSet(0)));
  t.end();
});

t.test(
  'only changes are sent; an absent resource stays at the client, with an error (GRPC 10, 11)',
  (t) => {
    const { directory, client } = setUp();
    for (const id of ['a', 'b']) directory.put(RDS, rds(id), 'v1');
    client.ask(RDS, rds('a'), rds('b'), rds('c'));
    directory.answer();
    const [first] = client.settle();
    t.strictSame(said(first), ['RouteConfiguration', 'a=v1', 'b=v1']);
    t.match(first?.errors, [{ name: rds('c'), code: STATUS_CODE.notFound }]);
    directory.put(RDS, rds('b'), 'v2');
    t.strictSame(client.settle().map(said), [['RouteConfiguration', 'b=v2']]);
    directory.remove(RDS, rds('a'));
    const [gone] = client.settle();
    t.match(gone, { resources: [], errors: [{ name: rds('a') }] });
    directory.put(RDS, rds('a'), 'v1');
    t.strictSame(client.settle().map(said), [['RouteConfiguration', 'a=v1']]);
    t.end();
  },
);

t.test('an answer is cut by size; its parts have no version to resume with (GRPC 12)', (t) => {
  const { directory, client } = setUp({ chunkBytes: 1 });
  for (const id of ['a', 'b', 'g/c', 'g/d']) directory.put(SDS, sds(id), 'v1');
  client.ask(SDS, sds('a'), sds('b'), sds('g/*'));
  directory.answer();
  const responses = client.settle();
  t.strictSame(responses.map(said), [
    ['Secret', 'g/c=v1'],
    ['Secret', 'g/d=v1'],
    ['Secret', 'a=v1'],
    ['Secret', 'b=v1'],
  ]);
  t.strictSame(
    responses.map(({ versionInfo }) => versionInfo.endsWith('+')),
    [true, true, true, false],
  );
  t.end();
});

t.test(
  'members of a glob come as they change, each once; an empty glob is answered once (GRPC 10)',
  (t) => {
    const { directory, client } = setUp();
    directory.put(SDS, sds('g/a'), 'v1');
    directory.put(SDS, sds('g/b'), 'v1');
    client.ask(SDS, sds('g/*'), sds('g/a'));
    directory.answer();
    t.strictSame(client.settle().map(said), [['Secret', 'g/a=v1', 'g/b=v1']]);
    directory.put(SDS, sds('g/b'), 'v2');
    t.strictSame(client.settle().map(said), [['Secret', 'g/b=v2']]);
    directory.remove(SDS, sds('g/b'));
    t.strictSame(client.settle(), []);
    client.ask(SDS, sds('h/*'));
    t.strictSame(client.settle().map(said), [['Secret']], 'for the version');
    directory.answer();
    t.strictSame(client.settle().map(said), [['Secret']]);
    t.end();
  },
);

t.test(
  'a resumed glob waits 3 s for possibly held names; names are answered at once (GRPC 6)',
  (t) => {
    const { directory, client, instance } = setUp();
    const globs = [sds('g/*'), sds('h/*', 'down')];
    directory.put(SDS, sds('g/a'), 'v1');
    client.type(SDS).names = globs;
    client.send({ typeUrl: SDS, versionInfo: 'of old', names: globs });
    directory.answer(({ authority }) => authority !== 'down');
    t.equal(client.poll(), undefined);
    t.equal(client.session.nextDeadlineMs, FIRST_ANSWER_WAIT_MS);
    instance.advance(FIRST_ANSWER_WAIT_MS);
    t.strictSame(client.settle().map(said), [['Secret', 'g/a=v1']]);

    const named = setUp();
    const names = [sds('a'), sds('b', 'down')];
    named.directory.put(SDS, sds('a'), 'v1');
    named.client.type(SDS).names = names;
    named.client.send({ typeUrl: SDS, versionInfo: 'of old', names });
    named.directory.answer(({ authority }) => authority !== 'down');
    t.strictSame(named.client.settle().map(said), [['Secret', 'a=v1']]);
    named.directory.failWaiting(UNREACHABLE, () => true);
    t.match(named.client.settle(), [{ errors: [{ code: STATUS_CODE.unavailable }] }]);
    t.end();
  },
);

t.test(
  'a stream that resumes only current globs gets one empty response; names are answered in full (ENVOY 13, GRPC 6)',
  (t) => {
    const resumed = (...asked: readonly string[]) => {
      const { directory, client, instance } = setUp();
      directory.put(SDS, sds('a'), 'v1');
      directory.put(SDS, sds('g/b'), 'v1');
      client.ask(SDS, ...asked);
      directory.answer();
      client.settle();
      client.disconnect();
      client.reconnect(instance);
      return { directory, client };
    };
    const { directory, client } = resumed(sds('g/*'), sds('h/*'));
    t.strictSame(client.settle().map(said), [['Secret']]);
    directory.put(SDS, sds('g/b'), 'v2');
    t.strictSame(client.settle().map(said), [['Secret', 'g/b=v2']]);
    // The client may have unsubscribed and resubscribed a name before it lost its stream.
    const named = resumed(sds('a'), sds('g/*'), sds('absent')).client;
    t.strictSame(named.settle().map(said), [['Secret', 'a=v1', 'g/b=v1']]);
    t.end();
  },
);

t.test(
  'a cluster that changed while the client was disconnected brings its assignment, although that is current (ENVOY 5, GRPC 10)',
  (t) => {
    const { directory, client } = setUp();
    directory.put(CDS, cds('a'), 'v1', eds('a'));
    directory.put(EDS, eds('a'), 'v1');
    client.ask(CDS, cds('a'));
    client.ask(EDS, eds('a'));
    directory.answer();
    client.settle();
    directory.put(CDS, cds('a'), 'v2', eds('a'));
    client.disconnect();
    client.reconnect(new Instance({ directory }));
    directory.answer();
    t.strictSame(client.settle().map(said), [
      ['Cluster', 'a=v2'],
      ['ClusterLoadAssignment', 'a=v1'],
    ]);
    t.end();
  },
);

t.test('an unavailable cluster gets no response by default (GRPC 8)', (t) => {
  const { client, directory, instance } = setUp();
  directory.put(CDS, cds('a'), 'v1');
  client.ask(CDS, cds('a'), cds('b', 'down'));
  directory.answer(({ authority }) => authority !== 'down');
  instance.advance(FIRST_ANSWER_WAIT_MS);
  t.strictSame(client.settle().map(said), [['Cluster', 'a=v1']]);
  instance.advance(60_000);
  t.strictSame(client.settle(), []);
  t.end();
});

t.test(
  'with placeholders it is a cluster without endpoints, until the real one arrives (GRPC 8)',
  (t) => {
    const { client, directory, instance } = setUp({ placeholderAfterMs: 5_000 });
    const [name, assignment] = [cds('b', 'down'), eds('b', 'down')];
    directory.put(CDS, cds('a'), 'v1');
    client.ask(CDS, cds('a'), name);
    client.ask(EDS, assignment);
    directory.answer(({ authority }) => authority !== 'down');
    instance.advance(FIRST_ANSWER_WAIT_MS);
    t.strictSame(client.settle().map(said), [['Cluster', 'a=v1']]);
    t.equal(client.session.nextDeadlineMs, 5_000);
    instance.advance(5_000 - FIRST_ANSWER_WAIT_MS);
    const [clusters, endpoints, ...more] = client.settle();
    t.strictSame(more, []);
    t.strictSame(clusters?.resources.map((one) => one.name).sort(), [cds('a'), name]);
    t.strictSame(clusters?.errors, []);
    t.match(endpoints?.resources, [{ name: assignment }]);
    directory.failWaiting(UNREACHABLE, () => true);
    t.strictSame(client.settle(), [], 'it has an answer');
    directory.put(CDS, name, 'v1', assignment);
    directory.put(EDS, assignment, 'v1');
    directory.answer();
    t.strictSame(client.settle().map(said), [
      ['Cluster', 'a=v1', 'down:b=v1'],
      ['ClusterLoadAssignment', 'down:b=v1'],
    ]);
    t.end();
  },
);

t.test(
  'an assignment requested after its placeholder is answered, and sent again with the next placeholder (GRPC 8, 10)',
  (t) => {
    const { client, instance } = setUp({ placeholderAfterMs: 5_000 });
    client.ask(CDS, cds('b'));
    client.settle();
    instance.advance(5_000);
    client.settle();
    client.ask(EDS, eds('b'), eds('of no cluster'));
    t.match(client.settle(), [{ resources: [{ name: eds('b') }] }]);
    client.ask(CDS);
    client.ask(CDS, cds('b'));
    client.settle();
    instance.advance(5_000);
    t.match(client.settle(), [{ typeUrl: CDS }, { resources: [{ name: eds('b') }] }]);
    t.end();
  },
);

t.test('a resource that the client has had is never replaced by a placeholder (GRPC 8)', (t) => {
  const { client, directory, instance } = setUp({ placeholderAfterMs: 5_000 });
  directory.put(CDS, cds('a'), 'v1', eds('a'));
  directory.put(EDS, eds('a'), 'v1');
  client.ask(CDS, cds('a'), cds('other'));
  client.ask(EDS, eds('a'));
  directory.answer(({ id }) => id === 'a');
  instance.advance(FIRST_ANSWER_WAIT_MS);
  t.match(client.settle(), [{ resources: [{ name: cds('a') }] }, { typeUrl: EDS }]);
  directory.remove(CDS, cds('a'));
  directory.remove(EDS, eds('a'));
  instance.advance(4_999 - FIRST_ANSWER_WAIT_MS);
  client.settle();
  instance.advance(30_000);
  // Only now is there content besides removals, and the other cluster may be a replacement.
  client.settle();
  instance.advance(16_000);
  const last = client.settle().filter(({ typeUrl }) => typeUrl === CDS);
  t.strictSame(
    last.at(-1)?.resources.map(({ name }) => name),
    [cds('other')],
  );
  t.end();
});

t.test(
  'a placeholder does not come back when the cluster that it replaced is deleted (GRPC 8)',
  (t) => {
    const { client, directory, instance } = setUp({ placeholderAfterMs: 5_000 });
    client.ask(CDS, cds('a'));
    directory.answer();
    client.settle();
    instance.advance(5_000);
    t.equal(client.settle().at(-1)?.resources.length, 1, 'a placeholder was sent');
    directory.put(CDS, cds('a'), 'v1', eds('a'));
    client.settle();
    directory.remove(CDS, cds('a'));
    client.settle();
    instance.advance(2_000);
    t.strictSame(client.settle().at(-1)?.resources, [], 'it is removed');
    directory.fail(CDS, cds('a'), UNREACHABLE);
    const later = client.settle().flatMap(({ resources }) => resources);
    t.strictSame(later, [], 'and stays removed when its source is lost');
    t.end();
  },
);

t.test('names added after the first request are not a part of a resumed set (GRPC 6)', (t) => {
  const { client, directory, instance } = setUp();
  for (const id of ['a', 'b']) directory.put(RDS, rds(id), 'v1');
  client.ask(RDS, rds('a'), rds('b'));
  directory.answer();
  client.settle();
  client.disconnect();
  // The client unsubscribed b while disconnected, and resubscribes it before any response.
  client.type(RDS).names = [rds('a')];
  client.reconnect();
  client.ask(RDS, rds('a'), rds('b'));
  instance.advance(3_000);
  t.strictSame(client.settle().map(said), [['RouteConfiguration', 'a=v1', 'b=v1']]);
  t.end();
});

t.test('a stream that no source can answer ends if so configured (GRPC 8)', (t) => {
  const { client, directory } = setUp({ unanswerableAfterMs: 12_000 });
  t.equal(client.session.endStatus(60_000), undefined, 'nothing is subscribed');
  client.ask(SDS, sds('a'));
  t.equal(client.session.endStatus(11_999), undefined);
  t.match(client.session.endStatus(12_000), { code: STATUS_CODE.unavailable });
  directory.put(SDS, sds('a'), 'v1');
  directory.answer();
  client.settle();
  t.equal(client.session.endStatus(12_000), undefined);
  const silent = setUp().client;
  silent.ask(SDS, sds('a'));
  t.equal(silent.session.endStatus(60_000), undefined, 'silence is the default');
  t.end();
});

// Found by the simulation, seeds 138470 and 141625.
t.test('a stream that is about to be answered is not ended (invariant 19, GRPC 8)', (t) => {
  const { client, directory } = setUp({ unanswerableAfterMs: 12_000 });
  const resumed = { typeUrl: CDS, versionInfo: 'of old', names: [cds('g/a'), cds('g/*')] };
  client.send(resumed);
  t.match(client.session.endStatus(12_000), { code: STATUS_CODE.unavailable }, 'no source answers');
  directory.put(CDS, cds('g/a'), 'v1');
  directory.answer(({ isGlob }) => !isGlob);
  t.equal(client.poll(), undefined, 'the glob may have more members');
  t.equal(client.session.endStatus(12_000), undefined);
  directory.answer();
  t.strictSame(said(client.poll()), ['Cluster', 'g/a=v1']);
  t.end();
});

t.test('an empty glob proves that sources answer (invariant 19, GRPC 8)', (t) => {
  const { client, directory } = setUp({ unanswerableAfterMs: 12_000 });
  client.send({ typeUrl: CDS, versionInfo: 'of old', names: [cds('g/*'), cds('h/*')] });
  directory.answer(({ id }) => id === 'g/*');
  t.equal(client.poll(), undefined, 'the other one is unknown');
  t.equal(client.session.endStatus(12_000), undefined);
  t.end();
});

t.test('a member of a glob proves that the rest is in flight (invariant 19, GRPC 8)', (t) => {
  const { client, instance } = setUp({ unanswerableAfterMs: 12_000 });
  client.ask(SDS, sds('g/*'));
  instance.cache.onChanged(projectionOf(SDS, sds('g/a'), 'v1'));
  t.equal(client.poll(), undefined, 'there may be more');
  t.equal(client.session.endStatus(12_000), undefined);
  t.end();
});

t.test('a stream that waits for an answer that no source can give ends (GRPC 8)', (t) => {
  const ends = (missing: string, happens: (directory: FakeDirectory) => void): boolean => {
    const { client, directory } = setUp({ unanswerableAfterMs: 12_000 });
    client.send({ typeUrl: CDS, versionInfo: 'of old', names: [cds('a'), missing] });
    directory.put(CDS, cds('a'), 'v1');
    directory.answer(({ id }) => id === 'a');
    t.equal(client.session.endStatus(12_000), undefined, 'it may still arrive');
    happens(directory);
    t.equal(client.poll(), undefined);
    return client.session.endStatus(12_000) !== undefined;
  };
  t.ok(
    ends(cds('b', 'down'), (directory) => {
      directory.fail(CDS, cds('b', 'down'), UNREACHABLE);
    }),
    'an unreachable name',
  );
  t.ok(
    ends(cds('g/*', 'down'), (directory) => {
      directory.fail(CDS, cds('g/*', 'down'), UNREACHABLE);
    }),
    'an unreachable collection',
  );
  t.ok(
    ends(cds('g/*'), (directory) => {
      directory.answerWithoutProof();
    }),
    'a collection that only an alternative can answer',
  );
  t.end();
});

t.test(
  'an assignment without endpoints is sent only for a placeholder that the client has (GRPC 8)',
  (t) => {
    const { client, instance } = setUp({ placeholderAfterMs: 5_000 });
    client.ask(CDS, cds('a'));
    client.settle();
    instance.advance(5_000);
    t.equal(client.settle().length, 1);
    client.ask(CDS);
    client.settle();
    client.ask(EDS, eds('a'));
    t.strictSame(client.settle(), []);
    client.ask(CDS, cds('a'));
    client.settle();
    instance.advance(5_000);
    t.strictSame(
      client.settle().map(({ typeUrl }) => typeUrl),
      [CDS, EDS],
    );
    t.end();
  },
);

t.test(
  'endpoints that changed are sent, although their name was requested meanwhile (ENVOY 5)',
  (t) => {
    const instance = new Instance({ chunkBytes: 1 });
    const client = new SotwClient(instance);
    const { directory } = instance;
    directory.put(EDS, eds('g/b'), 'v1');
    client.ask(EDS, eds('g/*'));
    directory.answer();
    client.settle();
    directory.put(EDS, eds('g/b'), 'v2');
    directory.put(EDS, eds('g/a'), 'v1');
    client.ask(EDS, eds('g/b'), eds('g/*'));
    client.poll();
    client.ask(EDS, eds('g/*'));
    const sent = client.settle().flatMap((one) => (said(one) as readonly string[]).slice(1));
    t.ok(sent.includes('g/b=v2'), sent.join());
    t.end();
  },
);
