/**
 * Goal: a response of listeners or clusters is the whole set that a client is to hold, or it is not
 * sent; nothing is absent for a moment; what goes is left out last (docs/GRPC.md, invariant 19).
 */
import t from 'tap';
import type { SessionEvent } from '../../../../gateway/core/stream-session.js';
import { STATUS_CODE } from '../../../../protos/discovery.js';
import { CDS, EDS, LDS, RDS, cds, eds, lds, rds } from '../../../support/mesh-names.js';
import { Instance } from '../../../support/session-driver.js';
import { said, SotwClient, type SotwSettings } from '../../../support/sotw-driver.js';

const QUIET_MS = 1_000;
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

t.test('a change of one cluster is told with the whole set (GRPC 7)', (t) => {
  const { directory, client } = setUp();
  for (const id of ['a', 'b', 'c']) directory.put(CDS, cds(id), 'v1');
  client.ask(CDS, cds('a'), cds('b'), cds('c'));
  directory.answer();
  client.settle();
  directory.put(CDS, cds('b'), 'v2');
  t.strictSame(client.settle().map(said), [['Cluster', 'a=v1', 'b=v2', 'c=v1']]);
  directory.put(CDS, cds('b'), 'v2');
  t.strictSame(client.settle(), [], 'the same content is no change');
  t.end();
});

t.test('a new name that is not there yet holds up nothing, and comes later (GRPC 8)', (t) => {
  const { directory, client } = setUp();
  directory.put(LDS, lds('a'), 'v1');
  client.ask(LDS, lds('a'), lds('late', 'slow'));
  directory.answer(({ authority }) => authority !== 'slow');
  t.strictSame(client.settle().map(said), [['Listener', 'a=v1']]);
  directory.put(LDS, lds('late', 'slow'), 'v1');
  directory.answer();
  t.strictSame(client.settle().map(said), [['Listener', 'a=v1', 'slow:late=v1']]);
  t.end();
});

t.test(
  'after a restart nothing is sent of a type until all is known that the client may hold (invariant 19, GRPC 7)',
  (t) => {
    const { directory, client } = setUp();
    directory.put(CDS, cds('a'), 'v1');
    directory.put(CDS, cds('b', 'down'), 'v1');
    client.ask(CDS, cds('a'), cds('b', 'down'));
    directory.answer();
    client.settle();
    const restarted = new Instance({ directory });
    client.disconnect();
    client.reconnect(restarted);
    directory.answer(({ authority }) => authority !== 'down');
    t.equal(client.poll(), undefined);
    directory.failWaiting(UNREACHABLE, ({ authority }) => authority === 'down');
    restarted.advance(600_000);
    t.equal(client.poll(), undefined, 'unreachable is not absent, however long');
    directory.put(CDS, cds('a'), 'v2');
    t.equal(client.poll(), undefined);
    t.equal(client.session.nextDeadlineMs, undefined);
    directory.answer();
    t.strictSame(client.settle().map(said), [['Cluster', 'a=v2', 'down:b=v1']]);
    t.end();
  },
);

t.test(
  'what the client may hold is left out when it is truly absent, or it does not ask any more (GRPC 7)',
  (t) => {
    const { directory, client } = setUp();
    directory.put(CDS, cds('a'), 'v1');
    const resumed = { typeUrl: CDS, versionInfo: 'of old' };
    client.type(CDS).names = [cds('a'), cds('b'), cds('c', 'down')];
    client.send({ ...resumed, names: client.type(CDS).names });
    directory.answer(({ authority }) => authority !== 'down');
    t.equal(client.poll(), undefined);
    client.ask(CDS, cds('a'), cds('b'));
    t.strictSame(client.settle().map(said), [['Cluster', 'a=v1']]);
    t.end();
  },
);

t.test(
  'what the client may hold is waited for under another interest too (invariant 19, GRPC 7)',
  (t) => {
    for (const [before, after] of [
      ['g/a', 'g/*'],
      ['g/*', 'g/a'],
    ] as const) {
      const { directory, client } = setUp();
      directory.put(CDS, cds('g/a'), 'v1');
      client.send({ typeUrl: CDS, versionInfo: 'of old', names: [cds(before), cds('b')] });
      client.ask(CDS, cds(after), cds('b'), cds('new'));
      directory.answer(({ id }) => id === 'b');
      t.equal(client.poll(), undefined, `${before} is asked for as ${after}`);
      directory.answer(({ id }) => id === after);
      t.strictSame(client.settle().map(said), [['Cluster', 'g/a=v1']]);
    }
    t.end();
  },
);

t.test('a right that is lost is known, and no reason to wait (GRPC 7)', (t) => {
  const { directory, client } = setUp();
  client.send({ typeUrl: CDS, versionInfo: 'of old', names: [cds('a')] });
  directory.fail(CDS, cds('a'), { code: STATUS_CODE.permissionDenied, message: 'no' });
  const [response] = client.pollAll();
  t.match(response, { resources: [], errors: [{ code: STATUS_CODE.permissionDenied }] });
  t.end();
});

t.test('a glob is part of the set from when it is whole (GRPC 8)', (t) => {
  const { directory, client, instance, settleLater } = setUp();
  directory.put(CDS, cds('one'), 'v1');
  directory.put(CDS, cds('g/a'), 'v1');
  client.ask(CDS, cds('one'), cds('g/*'));
  directory.answer(({ isGlob }) => !isGlob);
  t.strictSame(client.settle().map(said), [['Cluster', 'one=v1']]);
  directory.answer();
  t.strictSame(client.settle().map(said), [['Cluster', 'g/a=v1', 'one=v1']]);
  directory.put(CDS, cds('g/b'), 'v1');
  t.strictSame(client.settle().map(said), [['Cluster', 'g/a=v1', 'g/b=v1', 'one=v1']]);
  instance.advance(QUIET_MS);
  directory.remove(CDS, cds('g/a'));
  t.strictSame(client.settle().map(said), [['Cluster', 'g/b=v1', 'one=v1']]);
  directory.remove(CDS, cds('g/b'));
  t.strictSame(settleLater(), [['Cluster', 'one=v1']]);
  t.end();
});

t.test('a glob that has no members is an empty set, said once (GRPC 8)', (t) => {
  const { directory, client } = setUp();
  client.ask(CDS, cds('g/*'));
  t.equal(client.poll(), undefined);
  directory.answer();
  t.strictSame(client.settle().map(said), [['Cluster']]);
  t.end();
});

t.test('a resumed glob is waited for, and is current if its members are (GRPC 6, 7)', (t) => {
  const { directory, client, instance } = setUp();
  directory.put(CDS, cds('g/a'), 'v1');
  directory.put(LDS, lds('l'), 'v1');
  client.ask(CDS, cds('g/*'));
  client.ask(LDS, lds('l'));
  directory.answer();
  client.settle();
  const other = new Instance({ directory });
  client.disconnect();
  client.reconnect(other);
  directory.answer((_, typeUrl) => typeUrl === LDS);
  t.strictSame(client.settle().map(said), [['Listener', 'l=v1']]);
  directory.answer();
  t.strictSame(client.settle(), [], 'it has these clusters');
  client.disconnect();
  client.reconnect(instance);
  client.ask(CDS);
  t.strictSame(
    client.settle().map(said),
    [['Cluster']],
    'what is left in the meantime is no reason to wait',
  );
  t.end();
});

t.test(
  'a member that is asked for by name too comes once, and stays when the glob is left (GRPC 7)',
  (t) => {
    const { directory, client } = setUp();
    directory.put(CDS, cds('g/a'), 'v1');
    directory.put(CDS, cds('g/b'), 'v1');
    client.ask(CDS, cds('g/*'));
    directory.answer();
    client.settle();
    client.ask(CDS, cds('g/*'), cds('g/a'));
    directory.put(CDS, cds('g/b'), 'v2');
    t.strictSame(client.settle().map(said), [['Cluster', 'g/a=v1', 'g/b=v2']]);
    client.ask(CDS, cds('g/a'), cds('other'));
    directory.answer(({ id }) => id === 'other');
    directory.put(CDS, cds('other'), 'v1');
    t.strictSame(
      client.settle().map(said),
      [['Cluster', 'g/a=v1', 'other=v1']],
      'though its own watch has not been answered',
    );
    t.end();
  },
);

t.test('a name that is asked for by its glob from now on stays meanwhile (GRPC 7)', (t) => {
  const { directory, client, settleLater } = setUp();
  for (const id of ['g/a', 'g/b', 'one']) directory.put(CDS, cds(id), 'v1');
  client.ask(CDS, cds('g/a'), cds('g/b'));
  directory.answer();
  client.settle();
  client.ask(CDS, cds('g/*'), cds('one'));
  directory.answer(({ isGlob }) => !isGlob);
  t.strictSame(settleLater(), [['Cluster', 'g/a=v1', 'g/b=v1', 'one=v1']]);
  directory.put(CDS, cds('g/a'), 'v2');
  t.strictSame(settleLater(), [['Cluster', 'g/a=v2', 'g/b=v1', 'one=v1']]);
  directory.remove(CDS, cds('g/b'));
  directory.answer();
  t.strictSame(settleLater(), [
    ['Cluster', 'g/a=v2', 'g/b=v1', 'one=v1'],
    ['Cluster', 'g/a=v2', 'one=v1'],
  ]);
  client.ask(CDS, cds('g/*'), cds('g/a'));
  client.ask(CDS, cds('g/*'));
  directory.put(CDS, cds('g/b'), 'v2');
  t.strictSame(settleLater(), [['Cluster', 'g/a=v2', 'g/b=v2']]);
  t.end();
});

t.test(
  'a new interest in a member is answered by what the glob has, until its own answer (GRPC 7)',
  (t) => {
    const { directory, client } = setUp();
    directory.put(CDS, cds('g/a'), 'v1');
    client.ask(CDS, cds('g/*'), cds('g/a'));
    directory.answer(({ isGlob }) => isGlob);
    t.strictSame(client.settle().map(said), [['Cluster', 'g/a=v1']]);
    t.end();
  },
);

t.test(
  'what goes stays as it was until the client had time to ask for what replaces it (GRPC 9)',
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
    t.strictSame(client.pollAll().map(said), [], 'it asks for the new cluster only now');
    t.equal(client.session.nextDeadlineMs, instance.nowMs + QUIET_MS);
    client.ask(CDS, cds('x'), cds('y'));
    instance.advance(QUIET_MS);
    t.strictSame(client.pollAll().map(said), [], 'and that has no answer yet');
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
  t.strictSame(client.pollAll(), [], 'the listener is not acknowledged');
  instance.advance(15_999);
  t.strictSame(client.pollAll(), []);
  instance.advance(1);
  t.strictSame(client.pollAll().map(said), [['Cluster']]);
  t.end();
});

t.test('listeners go before clusters, each in a response of its own (invariant 6, GRPC 9)', (t) => {
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
});

t.test('what is back before its removal was told never was away (invariant 17, GRPC 9)', (t) => {
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
  t.strictSame(client.settle().map(said), [['Cluster', 'g/m=v2']], 'left by the client itself');
  t.end();
});

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
  'listeners and routes wait for the ACK of new clusters, and not for ever (invariant 6, GRPC 9)',
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
      'a change only is waited for by none',
    );
    t.end();
  },
);

t.test('a set that waits for what the client may hold does not hold up routes (GRPC 7)', (t) => {
  const { directory, client } = setUp();
  directory.put(RDS, rds('r'), 'v1');
  client.send({ typeUrl: CDS, versionInfo: 'of old', names: [cds('a')] });
  client.ask(RDS, rds('r'));
  directory.answer((_, typeUrl) => typeUrl === RDS);
  t.strictSame(client.pollAll().map(said), [['RouteConfiguration', 'r=v1']]);
  t.end();
});

t.test(
  'after a changed cluster its assignment is sent again, though unchanged (ENVOY 5, GRPC 10)',
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
  'why a name is not there is told once for each reason, beside the whole set (GRPC 11)',
  (t) => {
    const { directory, client } = setUp();
    directory.put(LDS, lds('a'), 'v1');
    client.ask(LDS, lds('a'), lds('b'), lds('g/*'));
    directory.answer(({ isGlob }) => !isGlob);
    const told = (): unknown =>
      client.settle().map((one) => [said(one), one.errors.map(({ code }) => code)]);
    t.strictSame(told(), [[['Listener', 'a=v1'], [STATUS_CODE.notFound]]]);
    directory.fail(LDS, lds('b'), UNREACHABLE);
    directory.fail(LDS, lds('b'), UNREACHABLE);
    t.strictSame(told(), [[['Listener', 'a=v1'], [STATUS_CODE.unavailable]]]);
    directory.fail(LDS, lds('b'), UNREACHABLE);
    directory.fail(LDS, lds('g/*'), UNREACHABLE);
    t.strictSame(told(), [[['Listener', 'a=v1'], [STATUS_CODE.unavailable]]], 'of the glob');
    directory.put(LDS, lds('b'), 'v1');
    t.strictSame(told(), [[['Listener', 'a=v1', 'b=v1'], []]]);
    t.end();
  },
);

t.test('a set that is larger than clients may take is sent whole, and told (GRPC 12)', (t) => {
  const { directory, client } = setUp({ chunkBytes: 50 });
  for (const id of ['a', 'b']) directory.put(CDS, cds(id), 'x'.repeat(60));
  client.ask(CDS, cds('a'), cds('b'));
  directory.answer();
  t.equal(client.pollAll()[0]?.resources.length, 2);
  const events: readonly SessionEvent[] = client.session.takeEvents();
  t.match(events[0], { kind: 'oversize', typeUrl: CDS, resources: 2 });
  t.end();
});
