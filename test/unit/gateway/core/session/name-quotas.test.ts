/**
 * Goal: a name beyond a quota is refused with RESOURCE_EXHAUSTED, a client keeps what it holds, and it
 * subscribes again once there is room (docs/SECURITY.md, "Quotas").
 * Method: model clients on sessions over one cache, with the account of one peer.
 */
import t from 'tap';
import type { OldStyleSpec } from '../../../../../config/model.js';
import {
  clientScopeOf,
  readGroupedNode,
} from '../../../../../gateway/core/session/client-scope.js';
import { Quotas } from '../../../../../gateway/core/quotas/quotas.js';
import { StreamNames } from '../../../../../gateway/core/quotas/stream-names.js';
import { STATUS_CODE, type RpcStatus } from '../../../../../protos/discovery.js';
import { CDS, cds, EDS, eds } from '../../../../support/mesh-names.js';
import { Instance } from '../../../../support/session-driver.js';
import { SotwClient } from '../../../../support/sotw-driver.js';

function start(most: { readonly names?: number; readonly upstream?: number }) {
  const { names = 100, upstream = 100 } = most;
  const global = {
    streams: 9,
    connections: 9,
    names,
    upstream_names: upstream,
    node_groups: 1,
    first_syncs: 9,
    buffered: 9,
  };
  const own = {
    streams: 9,
    connections: 9,
    names: 999,
    upstream_names: 999,
    node_groups: 9,
    first_syncs: 9,
    buffered: 9,
  };
  const quotas = new Quotas({
    global,
    peerShare: 1,
    peer: { counts: own, requestsPerSecond: Infinity },
  });
  const nameQuota = new StreamNames(quotas.account('peer'));
  const instance = new Instance({ nameQuota });
  for (const id of ['a', 'b', 'c']) {
    instance.directory.put(EDS, eds(id), id);
    instance.directory.put(CDS, cds(id), id);
  }
  return { quotas, instance, nameQuota };
}

const errorsOf = (
  responses: readonly { readonly errors: readonly { name: string; status: RpcStatus }[] }[],
) => responses.flatMap(({ errors }) => errors.map(({ name, status }) => `${name} ${status.code}`));

t.test(
  'a delta client gets an error and no removal for a name without room, and keeps its stream',
  (t) => {
    const { quotas, instance } = start({ upstream: 2 });
    const client = instance.connect();
    t.equal(client.subscribe(EDS, eds('a'), eds('b'), eds('c')), undefined);
    const responses = client.settle();
    t.strictSame(errorsOf(responses), [`${eds('c')} ${STATUS_CODE.resourceExhausted}`]);
    t.strictSame(
      responses.flatMap(({ removed }) => removed),
      [],
    );
    t.strictSame(
      client.session.takeEvents().filter(({ kind }) => kind === 'refused_name'),
      [],
      'the account reports it',
    );
    t.equal(quotas.used('upstream_names'), 2);
    t.equal(quotas.used('names'), 2);
    t.equal(client.subscribe(EDS, eds('a')), undefined, 'a subscribed name has room');
    const other = instance.connect();
    t.equal(other.subscribe(EDS, eds('b')), undefined);
    t.strictSame(
      errorsOf(other.settle()),
      [],
      'a name that another client watches costs nothing upstream',
    );
    t.end();
  },
);

t.test('the names of one request count one by one (docs/SECURITY.md, "Quotas")', (t) => {
  const { quotas, instance } = start({ names: 2 });
  const client = instance.connect();
  client.subscribe(EDS, eds('a'), eds('b'), eds('c'));
  t.strictSame(errorsOf(client.settle()), [`${eds('c')} ${STATUS_CODE.resourceExhausted}`]);
  t.equal(quotas.used('names'), 2);
  client.session.close(0);
  t.equal(quotas.used('names'), 0);
  t.end();
});

t.test('a name that nothing serves counts until its client has read the error', (t) => {
  const { quotas, instance } = start({ names: 3 });
  const client = instance.connect();
  t.equal(client.subscribe(EDS, ...Array.from({ length: 9 }, (_, at) => `xdstp:${at}`)), undefined);
  t.equal(quotas.used('names'), 3);
  const reported = client.session.takeEvents().filter(({ kind }) => kind === 'refused_name');
  t.equal(reported.length, 3, 'the others get no error: to keep it takes memory');
  t.equal(errorsOf(client.settle()).length, 3);
  t.equal(quotas.used('names'), 0);
  t.end();
});

t.test('names without subscribers are given back when the cache drops them', (t) => {
  const { quotas, instance } = start({});
  const client = instance.connect();
  client.subscribe(EDS, eds('a'), eds('*'));
  client.settle();
  t.equal(quotas.used('upstream_names'), 2);
  client.disconnect();
  t.equal(quotas.used('names'), 0);
  t.equal(quotas.used('upstream_names'), 2, 'lingering');
  instance.advance(30_000);
  t.equal(quotas.used('upstream_names'), 0);
  t.end();
});

t.test('a stream whose names were refused ends once there is room again', (t) => {
  const { quotas, instance } = start({ upstream: 1 });
  const client = instance.connect();
  client.subscribe(EDS, eds('a'), eds('b'));
  client.settle();
  t.equal(client.session.endStatus(9_999), undefined);
  t.equal(client.session.endStatus(60_000), undefined, 'no room yet');
  quotas.account('peer').change('upstream_names', -1);
  t.equal(client.session.endStatus(9_999), undefined, 'not at once');
  t.match(client.session.endStatus(10_000), {
    code: STATUS_CODE.unavailable,
    message: /room again/,
  });
  t.end();
});

t.test('of many names without room, the first hundred get an error', (t) => {
  const { instance } = start({ names: 1 });
  const client = instance.connect();
  const ids = Array.from({ length: 300 }, (_, at) => eds(`x${at}`));
  client.subscribe(EDS, eds('a'));
  t.equal(client.subscribe(EDS, ...ids), undefined);
  t.equal(errorsOf(client.settle()).length, 100);
  t.end();
});

t.test(
  'while memory is short, names that a client has are served, and new ones are refused',
  (t) => {
    const { quotas, instance } = start({});
    const client = instance.connect();
    client.subscribe(EDS, eds('a'));
    instance.directory.answer();
    client.settle();
    quotas.setShort(true);
    client.subscribe(EDS, eds('b'));
    t.strictSame(errorsOf(client.settle()), [`${eds('b')} ${STATUS_CODE.resourceExhausted}`]);
    instance.directory.put(EDS, eds('a'), 'changed');
    const [response] = client.settle();
    t.strictSame(
      response?.resources.map(({ name }) => name),
      [eds('a')],
    );
    t.end();
  },
);

t.test('a client at its limit may replace one name by another in one request', (t) => {
  const delta = start({ names: 2 });
  const client = delta.instance.connect();
  client.subscribe(EDS, eds('a'), eds('b'));
  client.settle();
  client.send(client.model.change(EDS, [eds('c')], [eds('a')]));
  t.strictSame(errorsOf(client.settle()), []);
  t.equal(delta.quotas.used('names'), 2);
  client.send(client.model.change(EDS, [eds('a')], []));
  t.strictSame(errorsOf(client.settle()), [`${eds('a')} ${STATUS_CODE.resourceExhausted}`]);

  const sotw = start({ names: 2 });
  const other = new SotwClient(sotw.instance, { nameQuota: sotw.nameQuota });
  other.ask(EDS, eds('a'), eds('b'));
  other.settle();
  other.ask(EDS, eds('b'), eds('c'));
  t.strictSame(
    other.settle().flatMap(({ errors }) => errors),
    [],
  );
  t.equal(sotw.quotas.used('names'), 2);
  other.ask(EDS, eds('c').replace(/c$/, '%63'), eds('a'), eds('b'));
  t.strictSame(
    other.settle().flatMap(({ errors }) => errors.map(({ name }) => name)),
    [eds('a')],
    'a name in another spelling stays, so none has left',
  );
  t.end();
});

t.test('further types of a delta client ask for room too', (t) => {
  const { quotas, instance } = start({ names: 5 });
  const client = instance.connect();
  const types = Array.from({ length: 20 }, (_, at) => `type.googleapis.com/test.v1.T${at}`);
  const statuses = types.map((type) => client.subscribe(type, 'xdstp:'));
  t.equal(
    statuses.findIndex((status) => status !== undefined),
    10,
    'ten types are free, and errors take all places',
  );
  t.match(statuses[10], { code: STATUS_CODE.resourceExhausted });
  t.equal(errorsOf(client.settle()).length, 5);
  t.equal(quotas.used('names'), 0);
  client.session.close(0);
  t.equal(quotas.used('names'), 0);
  t.end();
});

t.test('refused names and further types of a state-of-the-world client ask for room too', (t) => {
  const { quotas, instance, nameQuota } = start({ names: 5 });
  const client = new SotwClient(instance, { nameQuota });
  client.ask(EDS, ...Array.from({ length: 50 }, (_, at) => `xdstp:${at}`));
  client.settle();
  t.equal(quotas.used('names'), 5);
  const types = Array.from({ length: 20 }, (_, at) => `type.googleapis.com/test.v1.T${at}`);
  const statuses = types.map((type) => client.ask(type));
  t.equal(
    statuses.findIndex((status) => status !== undefined),
    9,
    'ten types are free',
  );
  t.match(statuses[9], { code: STATUS_CODE.resourceExhausted });
  t.end();
});

t.test('a state-of-the-world client gets an error for a name without room', (t) => {
  const { quotas, instance, nameQuota } = start({ upstream: 1 });
  const client = new SotwClient(instance, { nameQuota });
  t.equal(client.ask(EDS, eds('a')), undefined);
  client.settle();
  t.equal(client.ask(EDS, eds('a'), eds('b')), undefined);
  const errors = client.settle().flatMap((response) => response.errors);
  t.strictSame(
    errors.map(({ name, code }) => `${name} ${code}`),
    [`${eds('b')} ${STATUS_CODE.resourceExhausted}`],
  );
  t.equal(quotas.used('names'), 2, 'the session remembers it');
  t.equal(client.session.endStatus(60_000), undefined);
  client.session.close(0);
  t.equal(quotas.used('names'), 0);
  t.end();
});

t.test(
  'a state-of-the-world client that may hold the name has its stream ended, so it keeps it',
  (t) => {
    const { instance, nameQuota } = start({ upstream: 1 });
    const client = new SotwClient(instance, { nameQuota });
    t.match(client.ask(CDS, cds('a'), cds('b')), { code: STATUS_CODE.resourceExhausted });
    t.end();
  },
);

t.test(
  'of many names without room, a state-of-the-world client gets an error for a hundred',
  (t) => {
    const { quotas, instance, nameQuota } = start({ upstream: 1, names: 100_000 });
    const client = new SotwClient(instance, { nameQuota, maxNames: 10_000 });
    const ids = Array.from({ length: 2_000 }, (_, at) => eds(`x${at}`));
    t.equal(client.ask(EDS, eds('a'), ...ids), undefined);
    const errors = client.settle().flatMap((response) => response.errors);
    t.equal(errors.length, 100);
    t.equal(quotas.used('names'), 101);
    t.equal(client.ask(EDS, eds('a'), ...ids), undefined, 'its stream goes on');
    t.strictSame(client.settle(), [], 'each error is sent once');
    quotas.account('peer').change('upstream_names', -1);
    t.equal(client.ask(EDS, eds('a'), ...ids), undefined);
    t.equal(quotas.used('upstream_names'), 1, 'and a name may have room later');
    t.end();
  },
);

t.test('a client may enter a new node group only if its peer may', (t) => {
  const spec: OldStyleSpec = { differBy: ['id'], servedBy: [] };
  const status = { code: STATUS_CODE.resourceExhausted, message: 'full' };
  const scopeWith = (enter: () => RpcStatus | undefined, has = false) =>
    clientScopeOf(readGroupedNode(undefined, spec), spec, {
      maxNodeGroups: 9,
      scopeCount: 0,
      hasScope: () => has,
      enter,
    });
  t.strictSame(
    scopeWith(() => status),
    { kind: 'refused', status },
  );
  t.equal(scopeWith(() => undefined).kind, 'scope');
  t.equal(scopeWith(() => status, true).kind, 'scope', 'a group in use is open');
  t.end();
});
