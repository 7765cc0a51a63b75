/**
 * Goal: `*` and the empty first request follow the xDS protocol for delta streams, for clients of
 * one node group; an Envoy gets one response to an empty wildcard, and removals by name.
 * Method: as in delta-rules.test.ts; the scope of the client is given.
 */
import t from 'tap';
import type { ClientScope } from '../../../../../gateway/core/session/asked-name.js';
import { ROUTE_WAIT_MS } from '../../../../../gateway/core/session/push-order.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { TYPE_URL } from '../../../../../protos/type-urls.js';
import { nameOf } from '../../../../support/fake-directory.js';
import { CDS, LDS, cds } from '../../../../support/mesh-names.js';
import { request } from '../../../../support/model-client.js';
import {
  gist,
  Instance,
  SWITCH_WAIT_MS,
  type ConnectedClient,
} from '../../../../support/session-driver.js';

const SCOPE = '{"id":"a"}';
const key = (text: string): string => `\n${SCOPE}\n${text}`;

function inScope(scope: ClientScope = { kind: 'scope', scope: SCOPE }): Instance {
  return new Instance({ scopeOf: () => scope });
}

const clusters = (resources: readonly string[], removed: readonly string[] = []): unknown => ({
  type: 'Cluster',
  resources,
  removed,
});

/** The first request of a type, without names. */
const askAll = (client: ConnectedClient, versions: readonly (readonly [string, string])[] = []) =>
  client.send(request({ typeUrl: CDS, initialVersions: new Map(versions) }));

t.test('an empty first request is the wildcard, and so is `*`', (t) => {
  for (const ask of [askAll, (client: ConnectedClient) => client.subscribe(CDS, '*')]) {
    const instance = inScope();
    const client = instance.connect();
    instance.directory.put(CDS, key('x'), 'v1');
    ask(client);
    instance.directory.answer();
    t.strictSame(gist(client.poll()), clusters(['x']));
    instance.directory.remove(CDS, key('x'));
    client.ack();
    t.strictSame(gist(client.poll()), clusters([], ['x']), 'by its name');
  }
  t.end();
});

t.test('an empty wildcard is answered by one empty response, never by a removal of `*`', (t) => {
  const instance = inScope();
  const client = instance.connect();
  askAll(client);
  client.send(request({ typeUrl: LDS }));
  t.equal(client.poll(), undefined, 'nothing true is known yet (invariant 19)');
  instance.directory.answer();
  t.strictSame(client.settle().map(gist), [
    clusters([]),
    { type: 'Listener', resources: [], removed: [] },
  ]);
  instance.directory.put(CDS, key('x'), 'v1');
  t.strictSame(client.settle().map(gist), [clusters(['x'])]);
  instance.directory.remove(CDS, key('x'));
  t.strictSame(client.settle(), []);
  t.strictSame(client.settleAfter(ROUTE_WAIT_MS).map(gist), [clusters([], ['x'])]);
  t.end();
});

t.test('names that are added after an empty first request keep the wildcard', (t) => {
  const instance = inScope();
  const client = instance.connect();
  instance.directory.put(CDS, key('x'), 'v1');
  instance.directory.put(CDS, key('y'), 'v1');
  askAll(client);
  instance.directory.answer();
  client.settle();
  client.subscribe(CDS, 'x');
  instance.directory.answer();
  t.strictSame(client.settle().map(gist), [clusters(['x'])], 'asked again, sent again');
  instance.directory.put(CDS, key('y'), 'v2');
  t.strictSame(client.settle().map(gist), [clusters(['y'])]);
  client.unsubscribe(CDS, 'x');
  t.strictSame(client.settle().map(gist), [clusters(['x'])], 'the wildcard still covers it');
  client.subscribe(CDS, 'gone');
  instance.directory.answer();
  t.strictSame(client.settle().map(gist), [clusters([], ['gone'])]);
  client.unsubscribe(CDS, 'gone');
  t.strictSame(client.settle().map(gist), [clusters([], ['gone'])], 'and is answered');
  t.end();
});

t.test('an unsubscribed absent name is removed, also while the wildcard lacks proof', (t) => {
  const instance = inScope();
  const client = instance.connect();
  instance.directory.put(CDS, key('x'), 'v1');
  client.subscribe(CDS, '*', 'gone');
  instance.directory.answerWithoutProof();
  instance.cache.onDoesNotExist(CDS, nameOf(key('gone')));
  t.strictSame(client.settle().map(gist), [clusters(['x']), clusters([], ['gone'])]);
  client.unsubscribe(CDS, 'gone');
  t.strictSame(client.settle().map(gist), [clusters([], ['gone'])]);
  instance.directory.answer();
  t.strictSame(client.settle(), [], 'once');
  t.end();
});

t.test(
  '`*` is an ordinary name that can be unsubscribed; names subscribed by themselves stay',
  (t) => {
    const instance = inScope();
    const client = instance.connect();
    instance.directory.put(CDS, key('x'), 'v1');
    instance.directory.put(CDS, key('y'), 'v1');
    client.subscribe(CDS, '*', 'x');
    instance.directory.answer();
    client.settle();
    client.unsubscribe(CDS, '*');
    instance.directory.put(CDS, key('x'), 'v2');
    instance.directory.put(CDS, key('y'), 'v2');
    t.strictSame(client.settle().map(gist), [clusters(['x'])]);
    t.end();
  },
);

t.test(
  'a request without names is the wildcard only before any name was sent for the type',
  (t) => {
    const instance = inScope();
    const client = instance.connect();
    instance.directory.put(CDS, key('x'), 'v1');
    instance.directory.put(CDS, key('y'), 'v1');
    client.subscribe(CDS, 'x');
    askAll(client);
    instance.directory.answer();
    t.strictSame(client.settle().map(gist), [clusters(['x'])]);
    t.strictSame(instance.directory.watched, [key('x')]);
    t.end();
  },
);

t.test('a resumed wildcard gets changes, and removals of deleted members', (t) => {
  const instance = inScope();
  const client = instance.connect();
  const same = instance.directory.put(CDS, key('same'), 'v1');
  instance.directory.put(CDS, key('changed'), 'v2');
  askAll(client, [
    ['same', same.version],
    ['changed', 'old'],
    ['gone', 'old'],
  ]);
  instance.directory.answer();
  t.strictSame(client.settle().map(gist), [clusters(['changed'])]);
  t.strictSame(client.settleAfter(SWITCH_WAIT_MS).map(gist), [clusters([], ['gone'])]);
  t.end();
});

t.test(
  'while one source is unreachable, deletions of another are sent, and held names stay',
  (t) => {
    const instance = inScope();
    const client = instance.connect();
    instance.directory.put(CDS, key('x'), 'v1');
    instance.directory.put(CDS, key('y'), 'v1');
    askAll(client, [['of-the-silent-one', 'v']]);
    instance.directory.answerWithoutProof();
    client.settle();
    instance.directory.remove(CDS, key('x'));
    t.strictSame(client.settle().map(gist), [clusters([], ['x'])]);
    t.end();
  },
);

t.test('old-style names and xdstp names never share a response (invariant 16)', (t) => {
  const instance = inScope();
  const client = instance.connect();
  instance.directory.put(CDS, key('x'), 'v1');
  instance.directory.put(CDS, cds('edge/y'), 'v1');
  client.subscribe(CDS, '*', cds('edge/*'));
  instance.directory.answer();
  t.strictSame(client.settle().map(gist), [clusters(['x']), clusters([cds('edge/y')])]);
  t.end();
});

t.test('where the map has no old-style names, they are refused one by one', (t) => {
  const instance = inScope({ kind: 'not_served' });
  const client = instance.connect();
  client.subscribe(CDS, 'x');
  t.match(client.poll()?.errors, [{ name: 'x', status: { code: STATUS_CODE.unimplemented } }]);
  t.end();
});

t.test(
  'a client whose node group cannot be served has its stream ended, and keeps its content',
  (t) => {
    const status = { code: STATUS_CODE.resourceExhausted, message: 'too many node groups' };
    const client = inScope({ kind: 'refused', status }).connect();
    t.strictSame(askAll(client), status);
    t.end();
  },
);

t.test(
  'an empty name is refused, unless the only resource of its type has none (Istio, NameTable)',
  (t) => {
    const client = inScope().connect();
    client.subscribe(CDS, '');
    t.match(client.poll()?.errors, [{ name: '', status: { code: STATUS_CODE.invalidArgument } }]);
    const instance = inScope();
    instance.directory.put(TYPE_URL.nameTable, key(''), 'table');
    const other = instance.connect();
    other.subscribe(TYPE_URL.nameTable, '');
    instance.directory.answer();
    t.match(other.poll()?.resources, [{ name: '' }]);
    t.end();
  },
);

t.test('node groups are counted while anything is held for them', (t) => {
  const instance = inScope();
  const client = instance.connect();
  client.subscribe(CDS, 'x', '*');
  t.equal(instance.cache.scopeCount, 1);
  t.ok(instance.cache.hasScope(SCOPE));
  client.disconnect();
  instance.advance(60_000);
  t.equal(instance.cache.scopeCount, 0);
  t.end();
});
