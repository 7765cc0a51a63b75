/**
 * Goal: the state of a client's type says whether the client holds what is served
 * (docs/OPERATIONS.md, "Look"), in both flavours.
 */
import t from 'tap';
import { syncStateOf, type SyncFacts } from '../../../../../gateway/core/session/sync-state.js';
import { CDS, EDS, LDS, SDS, cds, eds, lds, sds } from '../../../../support/mesh-names.js';
import { Instance } from '../../../../support/session-driver.js';
import { SotwClient } from '../../../../support/sotw-driver.js';

const SENT: SyncFacts = {
  wasSent: true,
  inFlightSinceMs: undefined,
  waitingSinceMs: undefined,
  removalsSinceMs: undefined,
};

t.test('the earliest unacknowledged or waiting content dates STALE (OPERATIONS)', (t) => {
  t.strictSame(syncStateOf(SENT, undefined), { kind: 'SYNCED' });
  const stale = { ...SENT, inFlightSinceMs: 5, waitingSinceMs: 3, removalsSinceMs: 4 };
  t.strictSame(syncStateOf(stale, undefined), { kind: 'STALE', sinceMs: 3 });
  t.strictSame(syncStateOf({ ...SENT, inFlightSinceMs: 5 }, undefined), {
    kind: 'STALE',
    sinceMs: 5,
  });
  t.end();
});

t.test('a client that polls is not stale between its polls (OPERATIONS)', (t) => {
  const sent = { ...SENT, inFlightSinceMs: 5 };
  t.strictSame(syncStateOf(sent, undefined, false), { kind: 'SYNCED' });
  t.end();
});

t.test('a refusal counts until the client accepts a later response (OPERATIONS)', (t) => {
  const refusal = { atMs: 7, detail: { message: 'bad' } };
  const nack = { kind: 'NACK', sinceMs: 7, reason: 'bad' };
  t.strictSame(syncStateOf({ ...SENT, inFlightSinceMs: 9 }, refusal), nack);
  t.strictSame(syncStateOf(SENT, { ...refusal, acceptedAtMs: 8 }), { kind: 'SYNCED' });
  t.strictSame(syncStateOf({ ...SENT, wasSent: false }, undefined), { kind: 'NOT SENT' });
  t.end();
});

t.test('delta: NOT SENT before the first response, STALE until the ACK (OPERATIONS)', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  client.subscribe(CDS, cds('a'), cds('g/*'));
  const state = () => client.session.allSubscriptions.map((one) => syncStateOf(one, undefined));
  t.match(client.session.allSubscriptions, [{ authorities: ['cloud'] }]);
  t.strictSame(state(), [{ kind: 'NOT SENT' }]);
  instance.directory.put(CDS, cds('a'), 'v1');
  instance.directory.put(CDS, cds('g/b'), 'v1');
  instance.directory.answer();
  client.pollAll();
  t.match(state(), [{ kind: 'STALE' }]);
  client.settle();
  t.strictSame(state(), [{ kind: 'SYNCED' }]);
  t.end();
});

t.test('a client that reconnects with current content is SYNCED without a response', (t) => {
  for (const ids of [['a'], ['g/*']]) {
    const instance = new Instance();
    for (const id of ['a', 'g/b']) {
      instance.directory.put(SDS, sds(id), 'v1');
      instance.directory.put(EDS, eds(id), 'v1');
    }
    const delta = instance.connect({ resumesMembers: true });
    const sotw = new SotwClient(instance);
    for (const client of [delta, sotw]) {
      const ask = (type: string, names: readonly string[]): void => {
        if (client instanceof SotwClient) client.ask(type, ...names);
        else client.subscribe(type, ...names);
      };
      ask(
        EDS,
        ids.map((id) => eds(id)),
      );
      ask(
        SDS,
        ids.map((id) => sds(id)),
      );
      instance.directory.answer();
      client.settle();
      client.reconnect();
      client.settle();
      const { allSubscriptions } = client.session;
      const kinds = allSubscriptions.map((one) => syncStateOf(one, undefined).kind);
      t.strictSame(kinds, ['SYNCED', 'SYNCED'], `${client.constructor.name}, ${String(ids)}`);
      const silent = allSubscriptions.filter(({ unacknowledged }) => !unacknowledged.hasSent);
      // A state-of-the-world client of single names is sent their set again.
      const isResent = client === sotw && ids[0] === 'a';
      t.equal(silent.length > 0, !isResent, 'one of the types needed no response');
    }
  }
  t.end();
});

t.test('state of the world: all authorities of a type are named (OPERATIONS)', (t) => {
  const instance = new Instance();
  const client = new SotwClient(instance);
  client.ask(LDS, lds('a'), lds('b', 'elsewhere'));
  const [subscriptions] = client.session.allSubscriptions;
  if (!subscriptions) throw new Error('the client has no subscriptions');
  t.strictSame(subscriptions.authorities, ['cloud', 'elsewhere']);
  t.equal(subscriptions.wasSent, false);
  instance.directory.put(LDS, lds('a'), 'v1');
  instance.directory.put(LDS, lds('b', 'elsewhere'), 'v1');
  instance.directory.answer();
  client.pollAll();
  t.match(syncStateOf(subscriptions, undefined), { kind: 'STALE' });
  client.settle();
  t.strictSame(syncStateOf(subscriptions, undefined), { kind: 'SYNCED' });
  t.end();
});
