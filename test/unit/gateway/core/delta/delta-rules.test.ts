/**
 * Goal: names, globs and nonces follow the delta protocol (xDS protocol, "Incremental xDS").
 * Method: a model client that throws on responses that no server may send, over a directory of
 * maps.
 */
import t from 'tap';
import type { SessionEvent } from '../../../../../gateway/core/session/stream-session.js';
import { STATUS_CODE, type RpcStatus } from '../../../../../protos/discovery.js';
import { request } from '../../../../support/model-client.js';
import { CDS, LDS, SDS, cds, lds, sds } from '../../../../support/mesh-names.js';
import { gist, Instance, type ConnectedClient } from '../../../../support/session-driver.js';

const kinds = (client: ConnectedClient): readonly SessionEvent['kind'][] =>
  client.session.takeEvents().map(({ kind }) => kind);

t.test('a name that exists is answered with its resource, once', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  const { version } = instance.directory.put(SDS, sds('one'), 'secret');
  client.subscribe(SDS, sds('one'));
  t.equal(client.poll(), undefined, 'nothing is known yet');
  instance.directory.answer();
  const response = client.poll();
  t.strictSame(gist(response), { type: 'Secret', resources: [sds('one')], removed: [] });
  t.equal(response?.resources[0]?.version, version);
  t.strictSame(client.settle(), []);
  t.end();
});

t.test('an absent name is removed in the spelling of its subscription (ENVOY 2)', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  client.subscribe(SDS, sds('one?b=2&a=1'), sds('g/*?z=1&y=%41'));
  instance.directory.answer();
  t.strictSame(gist(client.poll()), {
    type: 'Secret',
    resources: [],
    removed: [sds('one?b=2&a=1'), sds('g/*?z=1&y=%41')],
  });
  t.strictSame(client.settle(), [], 'and only once');
  t.end();
});

t.test('a name that is subscribed again is sent again, whatever the client has', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  instance.directory.put(SDS, sds('one'), 'v1');
  instance.directory.put(SDS, sds('g/a'), 'v1');
  client.subscribe(SDS, sds('one'), sds('absent'), sds('g/*'), sds('none/*'));
  instance.directory.answer();
  const all = {
    type: 'Secret',
    resources: [sds('one'), sds('g/a')],
    removed: [sds('absent'), sds('none/*')],
  };
  t.strictSame(gist(client.poll()), all);
  client.settle();
  client.subscribe(SDS, sds('one'), sds('absent'), sds('g/*'), sds('none/*'));
  t.strictSame(gist(client.poll()), all);
  t.end();
});

t.test('versions count in the first request of a type on a stream only', (t) => {
  const instance = new Instance();
  const { version } = instance.directory.put(SDS, sds('b'), 'v1');
  instance.directory.put(SDS, sds('a'), 'v1');
  const client = instance.connect();
  client.subscribe(SDS, sds('a'));
  instance.directory.answer();
  client.settle();
  const initialVersions = new Map([[sds('b'), version]]);
  client.send(request({ typeUrl: SDS, subscribe: [sds('b')], initialVersions }));
  instance.directory.answer();
  t.strictSame(client.settle().map(gist), [{ type: 'Secret', resources: [sds('b')], removed: [] }]);
  t.end();
});

t.test('an unsubscribe gets no response, and nothing follows', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  client.subscribe(SDS, sds('one'), sds('g/*'));
  instance.directory.answer();
  client.settle();
  client.unsubscribe(SDS, sds('one'), sds('g/*'));
  client.unsubscribe(SDS, sds('never'), sds('never/*'), 'old style', sds('other', 'elsewhere'));
  instance.directory.put(SDS, sds('one'), 'v1');
  instance.directory.put(SDS, sds('g/a'), 'v1');
  t.equal(client.poll(), undefined);
  t.equal(client.session.nameCount, 0);
  t.strictSame(client.session.allSubscriptions, []);
  t.end();
});

t.test('subscriptions with a response in flight are kept until its ACK', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  client.subscribe(SDS, sds('one'));
  instance.directory.answer();
  client.poll();
  client.unsubscribe(SDS, sds('one'), sds('never'), sds('never/*'));
  t.equal(client.session.allSubscriptions.length, 1);
  client.ack();
  t.strictSame(client.session.allSubscriptions, []);
  t.end();
});

t.test('an unsubscribed name that a glob still covers is answered: sent again, or removed', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  instance.directory.put(SDS, sds('g/a'), 'v1');
  client.subscribe(SDS, sds('g/*'), sds('g/a'), sds('g/b'));
  instance.directory.answer();
  client.settle();
  client.unsubscribe(SDS, sds('g/a'), sds('g/b'));
  // The client may hold g/b through the glob, so its removal is separate from additions.
  t.strictSame(client.settle().map(gist), [
    { type: 'Secret', resources: [sds('g/a')], removed: [] },
    { type: 'Secret', resources: [], removed: [sds('g/b')] },
  ]);
  t.end();
});

t.test(
  'a name unsubscribed and resubscribed, or changed, at once comes once in the response',
  (t) => {
    const instance = new Instance();
    const client = instance.connect();
    for (const id of ['a', 'b']) instance.directory.put(SDS, sds(`g/${id}`), 'v1');
    client.subscribe(SDS, sds('g/*'), sds('g/a'), sds('g/b'));
    instance.directory.answer();
    client.settle();
    client.send(request({ typeUrl: SDS, subscribe: [sds('g/a')], unsubscribe: [sds('g/a')] }));
    client.unsubscribe(SDS, sds('g/b'));
    instance.directory.put(SDS, sds('g/b'), 'v2');
    t.strictSame(gist(client.poll()), {
      type: 'Secret',
      resources: [sds('g/a'), sds('g/b')],
      removed: [],
    });
    t.end();
  },
);

t.test('a name unsubscribed together with its glob is not answered', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  instance.directory.put(SDS, sds('g/a'), 'v1');
  client.subscribe(SDS, sds('g/*'), sds('g/a'), sds('stays'));
  instance.directory.answer();
  client.settle();
  client.unsubscribe(SDS, sds('g/a'), sds('g/*'));
  t.equal(client.poll(), undefined);
  t.end();
});

t.test(
  'a name unsubscribed before its glob is answered is removed once the glob lacks it (invariant 3)',
  (t) => {
    const instance = new Instance();
    const client = instance.connect();
    instance.directory.put(SDS, sds('g/a'), 'v1');
    instance.directory.put(SDS, sds('g/b'), 'v1');
    client.subscribe(SDS, sds('g/a'), sds('g/b'));
    instance.directory.answer();
    client.settle();
    client.subscribe(SDS, sds('g/*'));
    client.unsubscribe(SDS, sds('g/a'), sds('g/b'));
    t.equal(client.poll(), undefined);
    instance.directory.remove(SDS, sds('g/b'));
    instance.directory.answer();
    const said = client.settle().map(gist);
    t.strictSame(said, [
      { type: 'Secret', resources: [sds('g/a')], removed: [] },
      { type: 'Secret', resources: [], removed: [sds('g/b')] },
    ]);
    t.end();
  },
);

t.test('a member that is also subscribed by name comes once (invariant 5)', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  instance.directory.put(SDS, sds('g/a'), 'v1');
  client.subscribe(SDS, sds('g/*'), sds('g/a'));
  instance.directory.answer();
  t.strictSame(gist(client.poll()), { type: 'Secret', resources: [sds('g/a')], removed: [] });
  client.settle();
  instance.directory.remove(SDS, sds('g/a'));
  const said = client.settle().map(gist);
  t.strictSame(said, [
    { type: 'Secret', resources: [], removed: [sds('g/*')] },
    { type: 'Secret', resources: [], removed: [sds('g/a')] },
  ]);
  t.end();
});

t.test('a glob that becomes empty is removed; a member that appears first cancels that', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  instance.directory.put(SDS, sds('g/a'), 'v1');
  client.subscribe(SDS, sds('g/*'));
  instance.directory.answer();
  client.settle();
  instance.directory.remove(SDS, sds('g/a'));
  instance.directory.put(SDS, sds('g/b'), 'v1');
  t.strictSame(client.settle().map(gist), [
    { type: 'Secret', resources: [sds('g/b')], removed: [] },
    { type: 'Secret', resources: [], removed: [sds('g/a')] },
  ]);
  instance.directory.remove(SDS, sds('g/b'));
  t.strictSame(client.settle().map(gist), [
    { type: 'Secret', resources: [], removed: [sds('g/*')] },
    { type: 'Secret', resources: [], removed: [sds('g/b')] },
  ]);
  t.end();
});

t.test(
  'pending changes merge: the latest wins, removed and back is not a change (invariant 17)',
  (t) => {
    const instance = new Instance();
    const client = instance.connect();
    const { directory } = instance;
    for (const id of ['a', 'b', 'c']) directory.put(SDS, sds(id), 'v1');
    client.subscribe(SDS, sds('a'), sds('b'), sds('c'));
    directory.answer();
    client.poll();
    for (const content of ['v2', 'v3', 'v4']) directory.put(SDS, sds('a'), content);
    directory.remove(SDS, sds('b'));
    directory.put(SDS, sds('b'), 'v1');
    directory.put(SDS, sds('c'), 'v2');
    directory.remove(SDS, sds('c'));
    t.equal(
      client.poll(),
      undefined,
      'without the ACK the next response follows a second later (invariant 5)',
    );
    client.ack();
    const response = client.poll();
    t.strictSame(gist(response), { type: 'Secret', resources: [sds('a')], removed: [] });
    t.equal(response?.resources[0]?.body?.toString(), 'v4');
    t.strictSame(client.settle().map(gist), [
      { type: 'Secret', resources: [], removed: [sds('c')] },
    ]);
    t.end();
  },
);

t.test('a removed name that comes back is sent, although its content is the same', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  instance.directory.put(SDS, sds('a'), 'v1');
  client.subscribe(SDS, sds('a'));
  instance.directory.answer();
  client.settle();
  instance.directory.remove(SDS, sds('a'));
  t.strictSame(client.settle().map(gist), [{ type: 'Secret', resources: [], removed: [sds('a')] }]);
  instance.directory.put(SDS, sds('a'), 'v1');
  t.strictSame(client.settle().map(gist), [{ type: 'Secret', resources: [sds('a')], removed: [] }]);
  t.end();
});

t.test('a NACKed resource is not sent again at once (no loop)', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  instance.directory.put(SDS, sds('a'), 'bad');
  client.subscribe(SDS, sds('a'));
  instance.directory.answer();
  client.poll();
  client.send(client.model.nack());
  t.equal(client.poll(), undefined);
  t.match(client.session.takeEvents().at(-1), {
    kind: 'nack',
    typeUrl: SDS,
    authority: 'cloud',
    detail: { code: 13, message: 'refused by the test' },
  });
  instance.directory.put(SDS, sds('a'), 'good');
  t.strictSame(gist(client.poll()), { type: 'Secret', resources: [sds('a')], removed: [] });
  t.end();
});

t.test(
  'what was NACKed is sent again after a minute, then ever more rarely, until it is accepted',
  (t) => {
    const instance = new Instance();
    const client = instance.connect();
    const names = [sds('a'), sds('b')];
    for (const name of names) instance.directory.put(SDS, name, 'v1');
    client.subscribe(SDS, ...names);
    client.subscribe(CDS, cds('dir/*'));
    instance.directory.put(CDS, cds('dir/one'), 'v1');
    instance.directory.answer();
    client.settle();
    instance.directory.put(SDS, sds('a'), 'the port is taken');
    client.poll();
    const { readyCalls } = client;
    client.send(client.model.nack());
    t.equal(client.readyCalls, readyCalls + 1, 'the next poll says when to retry');
    const both = { type: 'Secret', resources: names, removed: [] };
    for (const delayMs of [60_000, 120_000, 240_000, 480_000, 960_000, 960_000]) {
      t.equal(client.poll(), undefined);
      t.equal(client.session.nextDeadlineMs, instance.nowMs + delayMs);
      instance.nowMs += delayMs - 1;
      t.equal(client.poll(), undefined, `not before ${delayMs} ms`);
      instance.nowMs++;
      t.strictSame(gist(client.poll()), both);
      t.equal(client.poll(), undefined, 'no other type');
      client.send(client.model.nack());
    }
    instance.nowMs += 960_000;
    t.strictSame(gist(client.poll()), both);
    client.send(client.model.ack());
    t.equal(client.poll(), undefined);
    t.equal(client.session.nextDeadlineMs, undefined, 'accepted: never again');
    t.end();
  },
);

t.test(
  'a client that leaves what it NACKed is sent nothing again, and nothing of it stays',
  (t) => {
    const instance = new Instance();
    const client = instance.connect();
    instance.directory.put(SDS, sds('a'), 'v1');
    client.subscribe(SDS, sds('a'));
    instance.directory.answer();
    client.poll();
    client.send(client.model.nack());
    client.poll();
    t.equal(client.session.nextDeadlineMs, 60_000);
    client.unsubscribe(SDS, sds('a'));
    t.equal(client.poll(), undefined);
    t.equal(client.session.nextDeadlineMs, undefined);
    t.end();
  },
);

t.test(
  'a collection with a refused member is sent again as a whole, after the ACK of what is in flight',
  (t) => {
    const instance = new Instance();
    const client = instance.connect();
    client.subscribe(CDS, cds('dir/*'));
    for (const id of ['one', 'two']) instance.directory.put(CDS, cds(`dir/${id}`), 'v1');
    instance.directory.answer();
    client.poll();
    client.send(client.model.nack());
    instance.nowMs += 59_999;
    instance.directory.put(CDS, cds('dir/one'), 'v2');
    t.strictSame(gist(client.poll()), {
      type: 'Cluster',
      resources: [cds('dir/one')],
      removed: [],
    });
    // Past the second after which other responses go without an ACK.
    instance.nowMs += 5_000;
    t.equal(client.poll(), undefined);
    client.send(client.model.ack());
    // In the order of their last changes.
    const all = [cds('dir/two'), cds('dir/one')];
    t.strictSame(gist(client.poll()), { type: 'Cluster', resources: all, removed: [] });
    client.send(client.model.ack());
    t.equal(client.session.nextDeadlineMs, undefined);
    t.end();
  },
);

t.test('a request with a stale nonce ACKs nothing, but its subscriptions count', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  instance.directory.put(SDS, sds('a'), 'v1');
  instance.directory.put(SDS, sds('b'), 'v1');
  client.subscribe(SDS, sds('a'));
  instance.directory.answer();
  client.poll();
  client.model.change(SDS, [sds('b')]);
  client.send(request({ typeUrl: SDS, subscribe: [sds('b')], responseNonce: 'never sent' }));
  instance.directory.answer();
  t.ok(kinds(client).includes('stale_nonce'));
  t.equal(client.poll(), undefined, 'the response is still in flight');
  client.send(request({ typeUrl: CDS, responseNonce: '1' }));
  t.equal(
    client.poll()?.typeUrl,
    CDS,
    'the nonce of another type is stale (and this request is a wildcard)',
  );
  client.ack(SDS);
  t.strictSame(gist(client.poll()), { type: 'Secret', resources: [sds('b')], removed: [] });
  t.end();
});

t.test(
  'authorities never share a response, and do not wait for one another (invariant 16)',
  (t) => {
    const instance = new Instance();
    const client = instance.connect();
    for (const authority of ['one', 'two']) {
      instance.directory.put(SDS, sds('g/a', authority), 'v1');
      client.subscribe(SDS, sds('g/*', authority), sds('absent', authority));
    }
    instance.directory.answer();
    t.strictSame(client.pollAll().map(gist), [
      { type: 'Secret', resources: [sds('g/a', 'one')], removed: [sds('absent', 'one')] },
      { type: 'Secret', resources: [sds('g/a', 'two')], removed: [sds('absent', 'two')] },
    ]);
    client.ack();
    instance.directory.put(SDS, sds('g/a', 'one'), 'v2');
    instance.directory.put(SDS, sds('g/a', 'two'), 'v2');
    t.strictSame(client.pollAll().length, 1, 'the authority that was ACKed');
    t.end();
  },
);

t.test(
  'chunks are cut at about chunkBytes, each with its own nonce, without repeating a name',
  (t) => {
    const instance = new Instance({ chunkBytes: 500 });
    const client = instance.connect();
    const names = Array.from({ length: 20 }, (_, id) => sds(`g/${id}`));
    const solo = Array.from({ length: 20 }, (_, id) => sds(`solo-${id}`));
    for (const name of [...names, ...solo]) instance.directory.put(SDS, name, 'x'.repeat(100));
    client.subscribe(SDS, sds('g/*'), ...solo);
    instance.directory.answer();
    const responses = client.settle();
    const sent = responses.flatMap((one) => one.resources.map(({ name }) => name));
    t.strictSame(new Set(sent), new Set([...names, ...solo]));
    t.equal(sent.length, 40);
    const sizes = client.session
      .takeEvents()
      .flatMap((event) => (event.kind === 'answer' ? [event.bytes] : []));
    t.ok(Math.max(...sizes) < 1_000, sizes.join());
    t.ok(responses.length > 10);
    t.end();
  },
);

t.test('an answer event has its counts, an ACK event its delay', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  client.subscribe(LDS, lds('here'), lds('absent'));
  instance.directory.put(LDS, lds('here'), 'v1');
  instance.directory.answer();
  client.poll();
  t.match(client.session.takeEvents(), [
    { kind: 'answer', typeUrl: LDS, authority: 'cloud', resources: 1, removed: 1, errors: 0 },
  ]);
  instance.advance(250);
  client.ack();
  t.strictSame(client.session.takeEvents(), [
    { kind: 'ack', typeUrl: LDS, authority: 'cloud', sinceMs: 250 },
  ]);
  t.strictSame(client.session.takeEvents(), []);
  t.equal(client.session.allSubscriptions[0]?.nameCount, 2);
  t.end();
});

t.test('a session reports once that it is ready, until it is polled', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  client.subscribe(SDS, sds('a'), sds('b'));
  instance.directory.answer();
  t.equal(client.readyCalls, 1);
  client.poll();
  instance.directory.put(SDS, sds('a'), 'v1');
  instance.directory.put(SDS, sds('b'), 'v1');
  t.equal(client.readyCalls, 2);
  t.end();
});

t.test(
  'a stream that no source can answer ends if so configured, and no other stream does',
  (t) => {
    const UNAVAILABLE = { code: STATUS_CODE.unavailable, message: 'out of reach' };
    const unanswerableAfterMs = 12_000;
    const instance = new Instance({ unanswerableAfterMs });
    const { directory } = instance;
    directory.put(CDS, cds('there'), 'v1');
    const ends = (client: ConnectedClient, nowMs: number): number | undefined =>
      client.session.endStatus(nowMs)?.code;
    const idle = instance.connect();
    t.equal(ends(idle, 60_000), undefined, 'it has no subscriptions');
    const stuck = instance.connect();
    stuck.subscribe(SDS, sds('a'), sds('g/*'));
    directory.fail(SDS, sds('g/*'), UNAVAILABLE);
    t.equal(ends(stuck, unanswerableAfterMs - 1), undefined);
    t.equal(ends(stuck, unanswerableAfterMs), STATUS_CODE.unavailable);
    for (const name of [cds('there'), cds('missing')]) {
      const answered = instance.connect();
      answered.subscribe(CDS, name);
      directory.answer(({ key }) => key === name);
      t.equal(ends(answered, unanswerableAfterMs), undefined, `${name}: a source answers`);
    }
    directory.put(CDS, cds('h/1'), 'v1');
    const partly = instance.connect();
    partly.subscribe(CDS, cds('h/*'));
    directory.answer(({ key }) => key === cds('h/*'));
    t.equal(ends(partly, unanswerableAfterMs), undefined, 'a member exists');
    const silent = new Instance().connect();
    silent.subscribe(SDS, sds('a'));
    t.equal(ends(silent, 3_600_000), undefined, 'silence is the default');
    t.end();
  },
);

t.test('a client that leaves what it was sent, without an ACK, is bounded too', (t) => {
  const instance = new Instance({ maxNames: 10 });
  const client = instance.connect();
  const statuses = Array.from({ length: 11 }, (_, at) => {
    client.subscribe(CDS, cds('x', `a${at}`));
    instance.directory.answer();
    t.equal(client.pollAll().length, 1);
    return client.unsubscribe(CDS, cds('x', `a${at}`));
  });
  t.strictSame(statuses.slice(0, 10), Array(10).fill(undefined));
  t.match(statuses[10], { code: STATUS_CODE.resourceExhausted });
  t.end();
});

t.test('a client that claims names of ever more authorities, and leaves them, is bounded', (t) => {
  const instance = new Instance({ maxNames: 10 });
  const client = instance.connect();
  const claim = (typeUrl: string, names: readonly string[]): RpcStatus | undefined => {
    const initialVersions = new Map(names.map((name) => [name, 'v1']));
    client.send(request({ typeUrl, subscribe: names, initialVersions }));
    return client.send(request({ typeUrl, unsubscribe: names }));
  };
  const ids = Array.from({ length: 10 }, (_, at) => `a${at}`);
  t.equal(
    claim(
      CDS,
      ids.map((id) => cds('x', id)),
    ),
    undefined,
  );
  t.match(
    claim(
      LDS,
      ids.map((id) => lds('x', `b${id}`)),
    ),
    { code: STATUS_CODE.resourceExhausted },
  );
  t.end();
});
