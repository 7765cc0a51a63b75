/**
 * Goal: a resource larger than the messages that a client accepts costs that client nothing else
 * (GRPC 12).
 * Method: sessions with a small limit over the cache, beside sessions without one.
 */
import t from 'tap';
import {
  leastMaxMessageBytesOf,
  maxMessageBytesOf,
  type Withheld,
} from '../../../../../gateway/core/session/message-limit.js';
import { Fallbacks } from '../../../../../gateway/core/cache/message-size.js';
import type { SessionEvent } from '../../../../../gateway/core/session/stream-session.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { nameOf, projectionOf } from '../../../../support/fake-directory.js';
import { CDS, EDS, LDS, SDS, cds, eds, lds, sds } from '../../../../support/mesh-names.js';
import { gist, Instance } from '../../../../support/session-driver.js';
import { said, SotwClient, type SotwSettings } from '../../../../support/sotw-driver.js';

const MAX_BYTES = 2_000;
const LARGE = 'L'.repeat(MAX_BYTES);
/** Two of them are too large together. */
const HALF = 'h'.repeat(900);
const limited = { maxMessageBytes: () => MAX_BYTES };

function delta() {
  const instance = new Instance({ ...limited, leastMaxMessageBytes: MAX_BYTES });
  return { instance, directory: instance.directory, client: instance.connect() };
}

function sotw(settings: SotwSettings = {}) {
  const instance = new Instance({ leastMaxMessageBytes: MAX_BYTES });
  const client = new SotwClient(instance, { ...limited, ...settings });
  return { instance, directory: instance.directory, client };
}

/** The resources withheld since the previous call. */
const withheld = (session: { takeEvents(): readonly SessionEvent[] }): readonly unknown[] =>
  session
    .takeEvents()
    .flatMap((event) => (event.kind === 'withheld' ? [event.name ?? 'the whole set'] : []));

const shown = (all: readonly Withheld[]): readonly unknown[] =>
  all.map(({ name }) => name ?? 'the whole set');

t.test('a gRPC client is recognized by its Node, or else by its header', (t) => {
  const auto = (userAgentName: string, header: string): number =>
    maxMessageBytesOf('auto', { userAgentName, header });
  for (const name of ['gRPC Go', 'gRPC Java', 'gRPC C-core linux', 'gRPC Node Pure JS']) {
    t.equal(auto(name, ''), 4_194_304, name);
  }
  t.equal(auto('envoy', 'grpc-c++/1.60 grpc-c/58.0.0'), Infinity, 'not by its gRPC library');
  t.equal(auto('', 'grpc-go/1.85.0'), 4_194_304);
  t.equal(auto('', 'grpc-python/1.85.1 grpc-c/58.0.0 (linux; chttp2)'), 4_194_304);
  t.equal(auto('', ''), Infinity);
  const go = { userAgentName: 'gRPC Go', header: '' };
  t.equal(maxMessageBytesOf('none', go), Infinity);
  t.equal(maxMessageBytesOf(70_000, { ...go, userAgentName: 'envoy' }), 70_000);
  t.strictSame((['auto', 'none', 70_000] as const).map(leastMaxMessageBytesOf), [
    4_194_304,
    Infinity,
    70_000,
  ]);
  t.end();
});

t.test('the last version that fits is known while the resource keeps growing', (t) => {
  const fallbacks = new Fallbacks(MAX_BYTES);
  const [small, large, larger] = ['v1', LARGE, `${LARGE}!`].map((content) =>
    projectionOf(SDS, sds('a'), content),
  );
  fallbacks.handleChanged(large!, undefined);
  t.equal(fallbacks.of(large!), undefined);
  fallbacks.handleChanged(larger!, large);
  t.equal(fallbacks.of(larger!), undefined);
  fallbacks.handleChanged(large!, small);
  fallbacks.handleChanged(larger!, large);
  t.equal(fallbacks.of(larger!), small);
  t.end();
});

t.test(
  'the largest resource that is sent fits into a message that the client accepts (GRPC 12)',
  (t) => {
    const longest = { delta: 0, wrapped: 0, bare: 0 };
    for (let length = MAX_BYTES - 900; length <= MAX_BYTES; length += 7) {
      const [one, wrapped, bare] = [delta(), sotw(), sotw()];
      for (const { directory } of [one, wrapped, bare]) {
        directory.put(CDS, cds('a'), 'v1', eds('a'));
        directory.put(EDS, eds('a'), 'x'.repeat(length));
      }
      one.client.subscribe(CDS, cds('a'));
      one.client.subscribe(EDS, eds('a'));
      wrapped.client.send({ typeUrl: EDS, names: [eds('a')] });
      bare.client.send({ typeUrl: EDS, names: [eds('a')], node: undefined });
      for (const { directory } of [one, wrapped, bare]) directory.answer();
      one.client.poll();
      const sent = { delta: one.client, wrapped: wrapped.client, bare: bare.client };
      for (const kind of ['delta', 'wrapped', 'bare'] as const) {
        const bytes = sent[kind].session.takeResponse(0)?.size ?? 0;
        longest[kind] = Math.max(longest[kind], bytes);
      }
    }
    for (const [kind, bytes] of Object.entries(longest)) {
      t.ok(bytes <= MAX_BYTES && bytes > MAX_BYTES - 800, `${kind}: ${bytes} bytes`);
    }
    t.end();
  },
);

t.test('a resource that is too large is withheld, and the rest is served (delta, GRPC 12)', (t) => {
  const { instance, directory, client } = delta();
  directory.put(SDS, sds('a'), 'v1');
  directory.put(SDS, sds('b'), LARGE);
  client.subscribe(SDS, sds('a'), sds('b'));
  directory.answer();
  const [first, ...more] = client.settle();
  t.match(first, {
    resources: [{ name: sds('a') }],
    errors: [{ name: sds('b'), status: { code: STATUS_CODE.resourceExhausted } }],
  });
  t.strictSame(more, []);
  t.strictSame(withheld(client.session), [sds('b')]);

  directory.put(SDS, sds('a'), LARGE);
  t.strictSame(client.settle(), [], 'it holds a version: no error is sent');
  t.strictSame(shown(client.session.limit.withheld), [sds('b'), sds('a')]);
  directory.put(SDS, sds('b'), 'v2');
  t.match(client.settle(), [{ resources: [{ name: sds('b') }], errors: [] }]);
  t.strictSame(shown(client.session.limit.withheld), [sds('a')]);

  client.reconnect();
  t.strictSame(client.settle().map(gist), [{ type: 'Secret', resources: [], removed: [] }]);
  const later = instance.connect();
  later.subscribe(SDS, sds('a'));
  t.match(later.settle(), [{ resources: [{ name: sds('a'), body: Buffer.from('v1') }] }]);
  t.end();
});

t.test('members that are too large are withheld too (delta, GRPC 12)', (t) => {
  const { directory, client } = delta();
  directory.put(SDS, sds('g/a'), 'v1');
  directory.put(SDS, sds('g/b'), LARGE);
  client.subscribe(SDS, sds('g/*'));
  directory.answer();
  t.match(client.settle(), [{ resources: [{ name: sds('g/a') }] }]);
  t.strictSame(withheld(client.session), [sds('g/b')]);
  directory.put(SDS, sds('g/a'), LARGE);
  client.settle();
  t.equal(client.model.type(SDS).held.get(sds('g/a'))?.content, 'v1');
  client.subscribe(SDS, sds('g/a'), sds('g/b'));
  client.settle();
  client.unsubscribe(SDS, sds('g/a'), sds('g/b'));
  client.settle();
  t.strictSame(
    [...client.model.type(SDS).held].map(([name, { content }]) => [name, content]),
    [[sds('g/a'), 'v1']],
    'unsubscribed as a name, it is still a member',
  );
  directory.remove(SDS, sds('g/b'));
  t.strictSame(
    shown(client.session.limit.withheld),
    [sds('g/a')],
    'a deleted resource is forgotten',
  );
  t.end();
});

t.test('no response is larger than the client accepts, whatever it contains (GRPC 12)', (t) => {
  const both = ['a', 'b', 'g/c', 'g/d'];
  const one = delta();
  for (const id of both) one.directory.put(SDS, sds(id), HALF);
  one.client.subscribe(SDS, sds('a'), sds('b'), sds('g/*'));
  one.directory.answer();
  t.equal(one.client.settle().length, 4);
  const other = sotw();
  for (const id of both) other.directory.put(SDS, sds(id), HALF);
  other.client.ask(SDS, sds('a'), sds('b'), sds('g/*'));
  other.directory.answer();
  t.strictSame(
    other.client.settle().map((response) => response.resources.length),
    [1, 1, 1, 1],
  );
  t.end();
});

t.test(
  'a resource that is too large is withheld, and the rest is served (partial types, GRPC 12)',
  (t) => {
    const { directory, client } = sotw();
    directory.put(SDS, sds('a'), 'v1');
    directory.put(SDS, sds('b'), LARGE);
    directory.put(SDS, sds('g/c'), LARGE);
    client.ask(SDS, sds('a'), sds('b'), sds('g/*'));
    directory.answer();
    const [first, ...more] = client.settle();
    t.match(first, { errors: [{ name: sds('b'), code: STATUS_CODE.resourceExhausted }] });
    t.strictSame(said(first), ['Secret', 'a=v1']);
    t.match(first?.versionInfo, /\+$/, 'no version to resume with');
    t.strictSame(more, []);
    t.strictSame(withheld(client.session), [sds('g/c'), sds('b')]);
    directory.put(SDS, sds('a'), LARGE);
    t.strictSame(client.settle(), [], 'it holds a version: no error is sent');
    directory.put(SDS, sds('b'), 'v2');
    directory.put(SDS, sds('g/c'), 'v2');
    t.strictSame(client.settle().map(said), [['Secret', 'b=v2', 'g/c=v2']]);
    client.ask(SDS, sds('b'));
    t.strictSame(client.session.limit.withheld, [], 'an unsubscribed resource is forgotten');
    t.end();
  },
);

t.test('after a changed cluster the last assignment is sent again (GRPC 10, 12)', (t) => {
  const { directory, client } = sotw();
  directory.put(CDS, cds('a'), 'v1', eds('a'));
  directory.put(EDS, eds('a'), 'v1');
  client.ask(CDS, cds('a'));
  client.ask(EDS, eds('a'));
  directory.answer();
  client.settle();
  directory.put(EDS, eds('a'), LARGE);
  directory.put(CDS, cds('a'), 'v2', eds('a'));
  t.strictSame(client.settle().map(said), [
    ['Cluster', 'a=v2'],
    ['ClusterLoadAssignment', 'a=v1'],
  ]);
  t.end();
});

t.test('clients keep a resource that was deleted and republished too large', (t) => {
  const { directory, client } = sotw();
  directory.put(LDS, lds('a'), 'v1');
  client.ask(LDS, lds('a'));
  directory.answer();
  client.settle();
  directory.remove(LDS, lds('a'));
  directory.put(LDS, lds('a'), LARGE);
  directory.put(LDS, lds('b'), 'v1');
  client.ask(LDS, lds('a'), lds('b'));
  directory.answer();
  t.strictSame(client.settle().map(said), [['Listener', 'a=v1', 'b=v1']]);

  directory.put(SDS, sds('a'), 'v1');
  client.ask(SDS, sds('a'));
  directory.answer();
  client.settle();
  directory.remove(SDS, sds('a'));
  directory.put(SDS, sds('a'), LARGE);
  t.strictSame(client.settle(), [], 'no error is sent for a held resource');
  t.end();
});

t.test('clients keep a member that was deleted and republished too large (invariant 3)', (t) => {
  const { directory, client, instance } = sotw();
  for (const id of ['g/a', 'g/b', 'g/c']) directory.put(CDS, cds(id), 'v1');
  client.ask(CDS, cds('g/*'));
  directory.answer();
  client.settle();
  directory.remove(CDS, cds('g/a'));
  directory.put(CDS, cds('g/a'), LARGE);
  directory.put(CDS, cds('g/b'), 'v2');
  t.strictSame(said(client.settle().at(-1)), ['Cluster', 'g/a=v1', 'g/b=v2', 'g/c=v1']);
  directory.remove(CDS, cds('g/c'));
  instance.advance(2_000);
  t.strictSame(said(client.settle().at(-1)), ['Cluster', 'g/a=v1', 'g/b=v2'], 'others go');
  t.end();
});

t.test('a withheld set is sent when the resource that is too large goes (GRPC 12)', (t) => {
  for (const asked of [[cds('g/*')], [cds('g/a'), cds('g/b')]]) {
    const { directory, client, instance } = sotw();
    directory.put(CDS, cds('g/a'), LARGE);
    directory.put(CDS, cds('g/b'), 'v1');
    client.type(CDS).names = asked;
    // It may hold an earlier version of g/a.
    client.send({ typeUrl: CDS, versionInfo: 'of old', names: asked });
    directory.answer();
    t.strictSame(client.settle(), []);
    directory.put(CDS, cds('g/b'), 'v2');
    t.strictSame(client.settle(), []);
    directory.remove(CDS, cds('g/a'));
    instance.advance(2_000);
    t.strictSame(said(client.settle().at(-1)), ['Cluster', 'g/b=v2']);
  }
  t.end();
});

t.test('a full set contains the last version of a resource that grew too large (GRPC 12)', (t) => {
  const { directory, client, instance } = sotw();
  for (const id of ['a', 'g/b']) directory.put(CDS, cds(id), 'v1');
  directory.put(CDS, cds('c'), LARGE);
  directory.put(CDS, cds('g/d'), LARGE);
  client.ask(CDS, cds('a'), cds('c'), cds('g/*'));
  directory.answer();
  const [first] = client.settle();
  t.strictSame(
    said(first),
    ['Cluster', 'a=v1', 'g/b=v1'],
    'a resource that the client never held is left out',
  );
  t.match(first?.errors, [{ name: cds('c'), code: STATUS_CODE.resourceExhausted }]);
  for (const id of ['a', 'g/b']) directory.put(CDS, cds(id), LARGE);
  client.settle();
  directory.put(CDS, cds('c'), 'v2');
  t.strictSame(said(client.settle().at(-1)), ['Cluster', 'a=v1', 'c=v2', 'g/b=v1']);
  t.strictSame(shown(client.session.limit.withheld), [cds('g/d'), cds('a'), cds('g/b')]);
  const free = new SotwClient(instance);
  free.ask(CDS, cds('a'), cds('c'), cds('g/*'));
  t.equal(free.settle().at(-1)?.resources.length, 4, 'a client without the limit gets it');
  t.strictSame(free.session.limit.withheld, []);
  directory.remove(CDS, cds('g/b'));
  instance.advance(2_000);
  t.strictSame(said(client.settle().at(-1)), ['Cluster', 'a=v1', 'c=v2']);
  t.end();
});

t.test(
  'a member that grew too large stays when the client requests it by its name, or leaves its glob (invariant 3, GRPC 12)',
  (t) => {
    const { directory, client, instance } = sotw();
    for (const id of ['g/a', 'g/b']) directory.put(CDS, cds(id), 'v1');
    client.ask(CDS, cds('g/*'));
    directory.answer();
    client.settle();
    directory.put(CDS, cds('g/a'), LARGE);
    client.settle();
    client.ask(CDS, cds('g/*'), cds('g/a'));
    directory.put(CDS, cds('g/b'), 'v2');
    instance.advance(2_000);
    t.strictSame(said(client.settle().at(-1)), ['Cluster', 'g/a=v1', 'g/b=v2']);
    directory.answer();
    client.settle();
    const list = 'xdstp://cloud/envoy.config.cluster.v3.ClusterCollection/all';
    client.wants = () => true;
    directory.put(CDS, cds('c'), 'v1');
    client.ask(CDS, cds('c'), list);
    directory.answer(({ key }) => key === cds('c'));
    instance.advance(2_000);
    t.strictSame(said(client.settle().at(-1)), ['Cluster', 'c=v1', 'g/a=v1', 'g/b=v2']);
    instance.cache.onMemberChanged(nameOf(list), projectionOf(CDS, cds('g/b'), LARGE));
    directory.put(CDS, cds('c'), 'v2');
    instance.advance(2_000);
    t.strictSame(said(client.settle().at(-1)), ['Cluster', 'c=v2', 'g/a=v1', 'g/b=v2']);
    t.end();
  },
);

t.test('a placeholder replaces a cluster that is too large (GRPC 8, 12)', (t) => {
  const { directory, client, instance } = sotw({ placeholderAfterMs: 5_000 });
  directory.put(CDS, cds('a'), LARGE);
  client.ask(CDS, cds('a'));
  directory.answer();
  client.settle();
  instance.advance(5_000);
  t.match(client.settle(), [{ resources: [{ name: cds('a') }] }]);
  t.end();
});

t.test(
  'a set that would lack a possibly held resource is withheld (invariant 3, GRPC 7, 12)',
  (t) => {
    const { directory, client } = sotw();
    directory.put(CDS, cds('a'), LARGE);
    directory.put(CDS, cds('b'), 'v1');
    client.send({ typeUrl: CDS, versionInfo: 'of old', names: [cds('a'), cds('b')] });
    directory.answer();
    t.equal(client.poll(), undefined);
    t.strictSame(withheld(client.session), [cds('a'), 'the whole set']);
    t.strictSame(shown(client.session.limit.withheld), [cds('a'), 'the whole set']);
    directory.put(CDS, cds('a'), 'v2');
    t.strictSame(said(client.poll()), ['Cluster', 'a=v2', 'b=v1']);
    t.strictSame(client.session.limit.withheld, []);
    t.end();
  },
);

t.test(
  'a withheld set is sent later with the endpoints of its clusters, but not of those that are gone (GRPC 12, ENVOY 5)',
  (t) => {
    const { directory, client, instance } = sotw();
    for (const id of ['g/a', 'g/b']) {
      directory.put(CDS, cds(id), 'v1', eds(id));
      directory.put(EDS, eds(id), 'v1');
    }
    client.ask(CDS, cds('g/*'));
    client.ask(EDS, eds('g/a'), eds('g/b'));
    directory.answer();
    client.settle();
    for (const id of ['g/a', 'g/b']) directory.put(CDS, cds(id), HALF, eds(id));
    t.strictSame(client.settle(), [], 'together they are too large');
    directory.remove(CDS, cds('g/b'));
    instance.advance(2_000);
    t.strictSame(client.settle().map(said), [
      ['Cluster', `g/a=${HALF}`],
      ['ClusterLoadAssignment', 'g/a=v1'],
    ]);
    t.end();
  },
);

t.test('a set that is too large in total is withheld as a whole (GRPC 12)', (t) => {
  const { directory, client, instance } = sotw();
  for (const id of ['a', 'b']) {
    directory.put(CDS, cds(id), 'v1', eds(id));
    directory.put(EDS, eds(id), 'v1');
  }
  client.ask(CDS, cds('a'), cds('b'), cds('none'));
  client.ask(EDS, eds('a'), eds('b'));
  directory.answer();
  client.settle();
  client.session.takeEvents();
  for (const id of ['a', 'b']) directory.put(CDS, cds(id), HALF, eds(id));
  directory.put(EDS, eds('a'), 'v2');
  t.strictSame(
    client.settle().map(said),
    [['ClusterLoadAssignment', 'a=v2']],
    'other types continue',
  );
  t.strictSame(withheld(client.session), ['the whole set']);
  directory.put(CDS, cds('a'), `${HALF}!`, eds('a'));
  t.strictSame(client.settle(), []);
  t.strictSame(shown(client.session.limit.withheld), ['the whole set']);

  directory.put(CDS, cds('a'), 'v3', eds('a'));
  const [clusters, endpoints] = client.settle();
  t.strictSame(said(clusters), ['Cluster', 'a=v3', `b=${HALF}`]);
  t.strictSame(
    said(endpoints),
    ['ClusterLoadAssignment', 'a=v2', 'b=v1'],
    'the assignments of both',
  );
  t.strictSame(client.session.limit.withheld, []);

  directory.put(CDS, cds('a'), HALF, eds('a'));
  client.settle();
  directory.remove(CDS, cds('a'));
  client.settle();
  instance.advance(2_000);
  t.strictSame(client.settle().map(said), [['Cluster', `b=${HALF}`]]);
  t.end();
});

t.test('a removal that still leaves too much delays no other one (GRPC 9, 12)', (t) => {
  const { directory, client, instance } = sotw();
  for (const id of ['a', 'b', 'c']) directory.put(CDS, cds(id), 'v1');
  directory.put(LDS, lds('l'), 'v1');
  client.ask(LDS, lds('l'));
  client.ask(CDS, cds('a'), cds('b'), cds('c'));
  directory.answer();
  client.settle();
  for (const id of ['a', 'b']) directory.put(CDS, cds(id), HALF);
  client.settle();
  directory.remove(CDS, cds('c'));
  directory.remove(LDS, lds('l'));
  client.settle();
  instance.advance(2_000);
  t.strictSame(client.settle().map(said), [['Listener']]);
  instance.advance(20_000);
  t.strictSame(client.settle(), []);
  t.end();
});

t.test('the memory for withheld resources is bounded', (t) => {
  const { directory, client } = delta();
  const names = Array.from({ length: 150 }, (_, at) => sds(`n${at}`));
  for (const name of names) {
    directory.put(SDS, name, LARGE);
    client.subscribe(SDS, name);
    directory.answer();
    client.settle();
    client.unsubscribe(SDS, name);
  }
  t.equal(client.session.limit.withheld.length, 0);
  t.end();
});
