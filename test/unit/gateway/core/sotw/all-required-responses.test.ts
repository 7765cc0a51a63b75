/**
 * Goal: a response of listeners or clusters is the full set for its client, or it is not sent; no
 * resource is absent for a moment; removals come last (docs/GRPC.md, invariant 19).
 */
import t from 'tap';
import { FIRST_ANSWER_WAIT_MS } from '../../../../../gateway/core/sotw/responses.js';
import type { SessionEvent } from '../../../../../gateway/core/session/stream-session.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { CDS, EDS, LDS, cds, eds, lds } from '../../../../support/mesh-names.js';
import { Instance, SWITCH_WAIT_MS } from '../../../../support/session-driver.js';
import { said, SotwClient, type SotwSettings } from '../../../../support/sotw-driver.js';

const QUIET_MS = 1_000;
const DENIED = { code: STATUS_CODE.permissionDenied, message: 'not for you' };
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

t.test('a change of one cluster is sent with the full set (GRPC 7)', (t) => {
  const { directory, client } = setUp();
  for (const id of ['a', 'b', 'c']) directory.put(CDS, cds(id), 'v1');
  client.ask(CDS, cds('a'), cds('b'), cds('c'));
  directory.answer();
  client.settle();
  directory.put(CDS, cds('b'), 'v2');
  t.strictSame(client.settle().map(said), [['Cluster', 'a=v1', 'b=v2', 'c=v1']]);
  directory.put(CDS, cds('b'), 'v2');
  t.strictSame(client.settle(), [], 'the same content is not a change');
  t.end();
});

t.test('a new unanswered name delays the first set for 3 s, and no other (GRPC 8)', (t) => {
  const { directory, client, instance } = setUp();
  directory.put(LDS, lds('a'), 'v1');
  directory.put(LDS, lds('b'), 'v1');
  client.ask(LDS, lds('a'), lds('late', 'slow'));
  directory.answer(({ authority }) => authority !== 'slow');
  t.equal(client.poll(), undefined);
  t.equal(client.session.nextDeadlineMs, FIRST_ANSWER_WAIT_MS);
  instance.advance(FIRST_ANSWER_WAIT_MS);
  t.strictSame(client.settle().map(said), [['Listener', 'a=v1']]);
  client.ask(LDS, lds('a'), lds('b'), lds('late', 'slow'), lds('later', 'slow'));
  directory.answer(({ authority }) => authority !== 'slow');
  t.strictSame(client.settle().map(said), [['Listener', 'a=v1', 'b=v1']]);
  directory.put(LDS, lds('late', 'slow'), 'v1');
  directory.answer();
  t.strictSame(client.settle().map(said), [['Listener', 'a=v1', 'b=v1', 'slow:late=v1']]);
  t.end();
});

t.test(
  'after a restart nothing is sent of a type until every possibly held name is known (invariant 19, GRPC 7)',
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

t.test('a possibly held name is left out only when proven absent or unsubscribed (GRPC 7)', (t) => {
  const { directory, client, instance } = setUp();
  directory.put(CDS, cds('a'), 'v1');
  const resumed = { typeUrl: CDS, versionInfo: 'of old' };
  client.type(CDS).names = [cds('a'), cds('b'), cds('c', 'down')];
  client.send({ ...resumed, names: client.type(CDS).names });
  directory.answer(({ authority }) => authority !== 'down');
  t.equal(client.poll(), undefined);
  client.ask(CDS, cds('a'), cds('b'));
  t.equal(client.poll(), undefined, 'a source that has just started may send it');
  t.equal(client.session.nextDeadlineMs, SWITCH_WAIT_MS);
  instance.advance(SWITCH_WAIT_MS);
  t.strictSame(client.settle().map(said), [['Cluster', 'a=v1']]);
  t.end();
});

t.test(
  'a possibly held name is waited for under another subscription too (invariant 19, GRPC 7)',
  (t) => {
    for (const [before, after] of [
      ['g/a', 'g/*'],
      ['g/*', 'g/a'],
    ] as const) {
      const { directory, client, instance } = setUp();
      directory.put(CDS, cds('g/a'), 'v1');
      client.send({ typeUrl: CDS, versionInfo: 'of old', names: [cds(before), cds('b')] });
      client.ask(CDS, cds(after), cds('b'), cds('new'));
      directory.answer(({ id }) => id === 'b');
      t.equal(client.poll(), undefined, `${before} is subscribed as ${after}`);
      directory.answer(({ id }) => id === after);
      const told = [...client.settle()];
      instance.advance(SWITCH_WAIT_MS);
      t.strictSame([...told, ...client.settle()].map(said), [['Cluster', 'g/a=v1']]);
    }
    t.end();
  },
);

t.test('a lost permission is proof, and nothing is waited for (GRPC 7)', (t) => {
  const { directory, client } = setUp();
  client.send({ typeUrl: CDS, versionInfo: 'of old', names: [cds('a')] });
  directory.fail(CDS, cds('a'), { code: STATUS_CODE.permissionDenied, message: 'no' });
  const [response] = client.pollAll();
  t.match(response, { resources: [], errors: [{ code: STATUS_CODE.permissionDenied }] });
  t.end();
});

t.test('a glob is part of the set once it is complete (GRPC 8)', (t) => {
  const { directory, client, instance, settleLater } = setUp();
  directory.put(CDS, cds('one'), 'v1');
  directory.put(CDS, cds('g/a'), 'v1');
  client.ask(CDS, cds('one'), cds('g/*'));
  directory.answer(({ isGlob }) => !isGlob);
  instance.advance(FIRST_ANSWER_WAIT_MS);
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

t.test('a glob without members is an empty set, sent once (GRPC 8)', (t) => {
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
  directory.put(EDS, eds('e'), 'v1');
  client.ask(CDS, cds('g/*'));
  client.ask(EDS, eds('e'));
  directory.answer();
  client.settle();
  const other = new Instance({ directory });
  client.disconnect();
  client.reconnect(other);
  directory.answer((_, typeUrl) => typeUrl === EDS);
  t.strictSame(client.settle().map(said), [['ClusterLoadAssignment', 'e=v1']]);
  directory.answer();
  t.strictSame(client.settle(), [], 'the client has these clusters');
  client.disconnect();
  client.reconnect(instance);
  client.ask(CDS);
  t.strictSame(
    client.settle().map(said),
    [['Cluster'], ['ClusterLoadAssignment', 'e=v1']],
    'a name unsubscribed meanwhile is not a reason to wait',
  );
  t.end();
});

t.test(
  'a member that is also subscribed by name comes once, and stays when the glob is unsubscribed (GRPC 7)',
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
      'although its own watch is unanswered',
    );
    t.end();
  },
);

t.test('a name that moves to its glob stays until the glob is answered (GRPC 7)', (t) => {
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
  'a member that changed while it became subscribed by name is sent in its current version (GRPC 7)',
  (t) => {
    const { directory, client } = setUp();
    directory.put(CDS, cds('g/a'), 'v1');
    client.ask(CDS, cds('g/*'));
    directory.answer();
    client.settle();
    directory.put(CDS, cds('g/a'), 'v2');
    client.ask(CDS, cds('g/*'), cds('g/a'));
    t.strictSame(client.settle().map(said), [['Cluster', 'g/a=v2']]);
    directory.answer();
    t.strictSame(client.settle(), []);
    t.end();
  },
);

t.test(
  'a new subscription of a member is answered by its glob, until its own answer (GRPC 7)',
  (t) => {
    const { directory, client } = setUp();
    directory.put(CDS, cds('g/a'), 'v1');
    client.ask(CDS, cds('g/*'), cds('g/a'));
    directory.answer(({ isGlob }) => isGlob);
    t.strictSame(client.settle().map(said), [['Cluster', 'g/a=v1']]);
    t.end();
  },
);

t.test('each reason for an absent name is sent once, with the next changed set (GRPC 11)', (t) => {
  const { directory, client, instance } = setUp();
  directory.put(LDS, lds('a'), 'v1');
  client.ask(LDS, lds('a'), lds('b'), lds('g/*'));
  directory.answer(({ isGlob }) => !isGlob);
  const told = (): unknown =>
    client.settle().map((one) => [said(one), one.errors.map(({ code }) => code)]);
  instance.advance(FIRST_ANSWER_WAIT_MS);
  t.strictSame(told(), [[['Listener', 'a=v1'], [STATUS_CODE.notFound]]]);
  directory.fail(LDS, lds('b'), UNREACHABLE);
  directory.fail(LDS, lds('b'), UNREACHABLE);
  t.strictSame(told(), [], 'an error alone is not a reason to send a set');
  directory.put(LDS, lds('a'), 'v2');
  t.strictSame(told(), [[['Listener', 'a=v2'], [STATUS_CODE.unavailable]]]);
  directory.fail(LDS, lds('b'), UNREACHABLE);
  directory.fail(LDS, lds('g/*'), UNREACHABLE);
  directory.put(LDS, lds('a'), 'v1');
  t.strictSame(told(), [[['Listener', 'a=v1'], []]], 'and no error for a glob');
  directory.fail(LDS, lds('g/*'), DENIED);
  // The glob counts as complete from now on.
  t.strictSame(told(), [[['Listener', 'a=v1'], [STATUS_CODE.permissionDenied]]]);
  directory.put(LDS, lds('b'), 'v1');
  t.strictSame(told(), [[['Listener', 'a=v1', 'b=v1'], []]]);
  t.end();
});

t.test('a set larger than clients may accept is sent completely, and reported (GRPC 12)', (t) => {
  const { directory, client } = setUp({ chunkBytes: 50 });
  for (const id of ['a', 'b']) directory.put(CDS, cds(id), 'x'.repeat(60));
  client.ask(CDS, cds('a'), cds('b'));
  directory.answer();
  t.equal(client.pollAll()[0]?.resources.length, 2);
  const events: readonly SessionEvent[] = client.session.takeEvents();
  t.match(events[0], { kind: 'oversize', typeUrl: CDS, resources: 2 });
  t.end();
});

t.test('members held from before the glob was answered go with the glob (GRPC 6)', (t) => {
  // Found by the simulation, seed 10332.
  const { directory, client } = setUp();
  directory.put(CDS, cds('g/1'), 'v1');
  directory.put(CDS, cds('b'), 'v1');
  client.ask(CDS, cds('g/1'), cds('b'));
  directory.answer();
  client.settle();
  client.ask(CDS, cds('g/*'), cds('b'));
  t.equal(client.settle().at(-1)?.resources.length, 2, 'the glob is unanswered: held members stay');
  client.ask(CDS, cds('b'));
  t.strictSame(client.settle().map(said), [['Cluster', 'b=v1']]);
  t.end();
});
