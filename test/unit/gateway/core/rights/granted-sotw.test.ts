/**
 * Goal: a state-of-the-world session gives its client what the rules allow at that moment, although a set
 * of listeners or clusters keeps what the client holds until its removal may be sent.
 * Method: real sessions on one cache, model clients, and rules that the test changes.
 */
import { wholeOf } from '../../../../../protos/discovery-fields.js';
import t from 'tap';
import { PollSession } from '../../../../../gateway/core/sotw/poll-session.js';
import { all, HIDDEN, none, only, Rules, status } from '../../../../support/changing-rules.js';
import type { FakeDirectory } from '../../../../support/fake-directory.js';
import { CDS, LDS, SDS, cds, lds, sds } from '../../../../support/mesh-names.js';
import { Instance } from '../../../../support/session-driver.js';
import { said, SotwClient } from '../../../../support/sotw-driver.js';

const QUIET_MS = 1_000;

function setUpSotw() {
  const rules = new Rules();
  const instance = new Instance();
  const client = new SotwClient(instance, { judge: rules.judge });
  const change = (denies: (key: string) => boolean): void => {
    rules.denies = denies;
    client.session.handleRightsChanged();
  };
  /** After the time in which a client asks for what replaces a removed resource. */
  const settleLater = (): readonly unknown[] => {
    const all = [...client.settle()];
    instance.advance(QUIET_MS);
    all.push(...client.settle());
    return all.map(said);
  };
  return { rules, instance, directory: instance.directory, client, change, settleLater };
}

t.test('state of the world: a denied name is left out, with an error (TP3)', (t) => {
  const { rules, directory, client } = setUpSotw();
  directory.put(CDS, cds('a'), 'v1');
  directory.put(CDS, cds('b'), 'v1');
  rules.denies = only(cds('b'), cds('x/*'));
  client.ask(CDS, cds('a'), cds('b'), cds('x/*'));
  directory.answer();
  const responses = client.settle();
  t.strictSame(responses.map(said), [['Cluster', 'a=v1']]);
  t.match(responses[0]?.errors, [
    { name: cds('b'), code: status.code },
    { name: cds('x/*'), code: status.code },
  ]);
  t.equal(directory.watched.length, 1);
  t.end();
});

t.test('state of the world: a revoked name leaves the set, a granted one joins it', (t) => {
  const { directory, client, change, settleLater } = setUpSotw();
  for (const id of ['a', 'b']) directory.put(CDS, cds(id), 'v1');
  client.ask(CDS, cds('a'), cds('b'));
  directory.answer();
  client.settle();
  change(only(cds('b')));
  directory.put(CDS, cds('b'), 'v2');
  t.strictSame(settleLater(), [['Cluster', 'a=v1']]);
  change(none);
  t.strictSame(settleLater(), [['Cluster', 'a=v1', 'b=v2']]);
  t.end();
});

t.test('state of the world: a granted name that no source was asked for yet is awaited', (t) => {
  const { rules, directory, client, change, settleLater } = setUpSotw();
  directory.put(CDS, cds('a'), 'v1');
  directory.put(CDS, cds('b'), 'v1');
  rules.denies = only(cds('b'));
  client.ask(CDS, cds('a'), cds('b'));
  directory.answer();
  client.settle();
  change(none);
  client.settle();
  t.ok(client.session.awaitsAnswers);
  directory.answer();
  t.strictSame(settleLater(), [['Cluster', 'a=v1', 'b=v1']]);
  t.end();
});

t.test('state of the world: a revoked glob leaves the set, and comes back whole', (t) => {
  const { directory, client, change, settleLater } = setUpSotw();
  for (const id of ['x/1', 'x/2', 'y/1']) directory.put(LDS, lds(id), 'v1');
  client.ask(LDS, lds('x/*'), lds('y/*'));
  directory.answer();
  client.settle();
  change(only(lds('x/*')));
  directory.put(LDS, lds('x/1'), 'v2');
  t.strictSame(settleLater().at(-1), ['Listener', 'y/1=v1']);
  change(none);
  t.strictSame(settleLater().at(-1), ['Listener', 'x/1=v2', 'x/2=v1', 'y/1=v1']);
  t.end();
});

// Seeds 47439, 51008 and 51229: a client with slow ACKs got the changed content after its right had ended.
t.test(
  'state of the world: content that was not sent before the right ended is never sent (invariant 23)',
  (t) => {
    const wanted = [lds('x/*'), lds('y/*'), lds('n/1')];
    const change = (directory: FakeDirectory): void => {
      for (const id of ['x/1', 'x/2', 'n/1']) directory.put(LDS, lds(id), 'v2');
      directory.put(LDS, lds('y/1'), 'new');
    };
    const remove = (directory: FakeDirectory): void => {
      change(directory);
      for (const id of ['x/1', 'n/1']) directory.remove(LDS, lds(id));
    };
    const cases: readonly [string, (directory: FakeDirectory, client: SotwClient) => void][] = [
      ['it changed', change],
      ['it changed and was deleted', remove],
      [
        'it changed and was deleted, and the client subscribed to it by name',
        (directory, client) => {
          remove(directory);
          client.ask(LDS, ...wanted, lds('x/1'));
        },
      ],
      [
        'it changed, and the client subscribed to it by name instead',
        (directory, client) => {
          change(directory);
          client.ask(LDS, lds('x/1'), lds('y/*'), lds('n/1'));
        },
      ],
      [
        'it changed, the client subscribed to it by name instead, and it was deleted',
        (directory, client) => {
          change(directory);
          client.ask(LDS, lds('x/1'), lds('y/*'), lds('n/1'));
          directory.remove(LDS, lds('x/1'));
        },
      ],
      [
        'it changed, and the client subscribed to its collection instead',
        (directory, client) => {
          change(directory);
          client.ask(LDS, lds('x/*'), lds('y/*'), lds('n/*'));
        },
      ],
    ];
    for (const [how, act] of cases) {
      const { directory, client, change: revoke, settleLater } = setUpSotw();
      for (const id of ['x/1', 'x/2', 'y/1', 'n/1']) directory.put(LDS, lds(id), 'v1');
      client.ask(LDS, ...wanted);
      directory.answer();
      client.settle();
      act(directory, client);
      revoke((key) => !key.includes('/y/'));
      const sets = settleLater().map(String);
      t.ok(
        sets.every((set, at) => set !== sets[at - 1]),
        `${how}: no set comes twice (invariant 5)`,
      );
      const written = sets.join().split(',');
      t.notOk(
        written.some((one) => one.endsWith('=v2')),
        `${how}: ${written.join()}`,
      );
      t.equal(written.at(-1), 'y/1=new', how);
    }
    t.end();
  },
);

// Seed 9707: the denied collection counted as one that was never answered.
t.test(
  'state of the world: a right that comes and goes before its collection is known brings no unchanged set (invariant 5, GRPC 7)',
  (t) => {
    const { instance, directory, client, change, settleLater } = setUpSotw();
    directory.put(LDS, lds('x/1'), 'v1');
    directory.put(LDS, lds('y/1'), 'v1');
    client.ask(LDS, lds('x/*'), lds('y/*'));
    directory.answer();
    client.settle();
    change(only(lds('x/*')));
    t.strictSame(settleLater().at(-1), ['Listener', 'y/1=v1']);
    instance.advance(instance.settings.unsubscribedLingerMs);
    change(none);
    t.strictSame(settleLater(), [], 'the collection is not known yet');
    change(only(lds('x/*')));
    t.strictSame(settleLater(), []);
    directory.put(LDS, lds('y/1'), 'v2');
    t.strictSame(settleLater(), [['Listener', 'y/1=v2']]);
    t.end();
  },
);

t.test(
  'state of the world: a revoked name of another type is told as an error, and sent no more',
  (t) => {
    const { directory, client, change } = setUpSotw();
    directory.put(SDS, sds('a'), 'v1');
    directory.put(SDS, sds('x/1'), 'v1');
    client.ask(SDS, sds('a'), sds('x/*'));
    directory.answer();
    client.settle();
    change(all);
    directory.put(SDS, sds('a'), 'v2');
    directory.put(SDS, sds('x/1'), 'v2');
    const responses = client.settle();
    t.strictSame(
      responses.flatMap(({ resources }) => resources),
      [],
    );
    t.match(
      responses.flatMap(({ errors }) => errors).sort((a, b) => (a.name < b.name ? -1 : 1)),
      [
        { name: sds('a'), code: status.code },
        { name: sds('x/*'), code: status.code },
      ],
    );
    t.end();
  },
);

t.test(
  'state of the world: a resumed set without a revoked glob is sent at once (invariant 19)',
  (t) => {
    const { rules, instance, directory, client } = setUpSotw();
    for (let id = 0; id < 30; id++) directory.put(CDS, cds(`x/${id}`), 'v1');
    directory.put(CDS, cds('a'), 'v1');
    client.ask(CDS, cds('x/*'), cds('a'));
    directory.answer();
    client.settle();
    rules.denies = only(cds('x/*'));
    rules.verdict = HIDDEN;
    client.disconnect();
    client.reconnect(instance);
    t.strictSame(client.settle().map(said), [['Cluster', 'a=v1']]);
    t.end();
  },
);

t.test('a client that polls gets what the rules allow at its next request', (t) => {
  const { rules, directory, client, instance } = setUpSotw();
  directory.put(CDS, cds('a'), 'v1');
  const poll = new PollSession({
    contents: client.session,
    waitMs: 100,
    leaseMs: 1_000,
    onReady: () => undefined,
  });
  const ask = {
    node: undefined,
    typeUrl: CDS,
    names: [cds('a')],
    responseNonce: '',
    errorDetail: undefined,
  };
  poll.handleRequest({ ...ask, versionInfo: '' }, 0);
  directory.answer();
  t.ok(wholeOf(poll.takeResponse(0)!.chunks).includes('v1'));
  rules.denies = all;
  poll.handleRightsChanged();
  poll.handleRequest({ ...ask, versionInfo: client.session.lastResponse?.versionInfo ?? '' }, 1);
  instance.advance(QUIET_MS + 1);
  t.notOk(poll.takeResponse(QUIET_MS + 1)?.chunks.some((chunk) => chunk.includes('v1')));
  t.end();
});
