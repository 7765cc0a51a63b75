/**
 * Goal: a client without TP1 support gets the right resources, whatever the directives in a name.
 * Method: the real upstream core, cache and session together; manual requests and responses.
 */
import t from 'tap';
import { DeltaSession } from '../../../../../gateway/core/delta/delta-session.js';
import { ResourceCache } from '../../../../../gateway/core/cache/resource-cache.js';
import { wholeOf } from '../../../../../protos/discovery-fields.js';
import { decodeDeltaResponse } from '../../../../../protos/delta-codec.js';
import type { DeltaRequest, DeltaResponse } from '../../../../../protos/discovery.js';
import { TYPE_URL } from '../../../../../protos/type-urls.js';
import { inlineEntry, listBytes, textEntry } from '../../../../support/collection-messages.js';
import { FederationDriver, mapOf, THING, thing } from '../../../../support/federation-driver.js';
import { SWITCH_WAIT_MS } from '../../../../support/session-driver.js';
import { encode } from '../../../protos/envoy-messages.js';

const LISTS = `${THING}Collection`;
const all = 'xdstp://cloud/test.v1.ThingCollection/all';
const a = thing('cloud', 'a');
const far = thing('onprem', 'far');

class Rig {
  readonly driver = new FederationDriver(
    mapOf({
      authorities: {
        cloud: { sources: ['c'], mayLeadTo: ['onprem'] },
        onprem: { sources: ['o'] },
      },
    }),
  );
  readonly cache = new ResourceCache(this.driver.directory, {
    tombstonesPerCollection: 100,
    tombstoneMaxAgeMs: 3_600_000,
    unsubscribedLingerMs: 0,
    maxUnsubscribedNames: 10,
  });

  connect(): Client {
    return new Client(this);
  }
}

class Client {
  readonly #rig: Rig;
  readonly #session: DeltaSession;

  constructor(rig: Rig) {
    this.#rig = rig;
    this.#session = new DeltaSession({
      cache: rig.cache,
      scopeOf: () => ({ kind: 'not_served' }),
      maxNames: 1_000,
      chunkBytes: 1_000_000,
      ackDeadlineMs: 16_000,
      silentAbsentRoutes: false,
      onReady: () => undefined,
    });
  }

  send(request: Partial<DeltaRequest>): readonly DeltaResponse[] {
    const whole = {
      node: undefined,
      typeUrl: THING,
      subscribe: [],
      unsubscribe: [],
      initialVersions: new Map<string, string>(),
      responseNonce: '',
      errorDetail: undefined,
      ...request,
    };
    t.equal(this.#session.handleRequest(whole, this.#rig.driver.nowMs), undefined);
    this.#rig.driver.pump();
    return this.take();
  }

  subscribe(...names: readonly string[]): readonly DeltaResponse[] {
    return this.send({ subscribe: names });
  }

  /** Advances the clock first. */
  takeAfter(ms: number): readonly DeltaResponse[] {
    this.#rig.driver.advance(ms);
    return this.take();
  }

  /** All pending responses, each one ACKed. */
  take(): readonly DeltaResponse[] {
    const responses: DeltaResponse[] = [];
    for (;;) {
      const response = this.#session.takeResponse(this.#rig.driver.nowMs);
      if (!response) return responses;
      const decoded = decodeDeltaResponse(wholeOf(response.chunks), 10_000);
      if (!decoded.ok) throw new Error(decoded.reason);
      responses.push(decoded.message);
      const { typeUrl, nonce } = decoded.message;
      this.#session.handleRequest(
        {
          node: undefined,
          typeUrl,
          subscribe: [],
          unsubscribe: [],
          initialVersions: new Map(),
          responseNonce: nonce,
          errorDetail: undefined,
        },
        this.#rig.driver.nowMs,
      );
    }
  }
}

const told = (responses: readonly DeltaResponse[]): readonly string[] =>
  responses.flatMap(({ resources, removed }) => [
    ...resources.map(({ name, body }) => `${name} ${Buffer.from(body ?? []).toString()}`),
    ...removed.map((name) => `removed ${name}`),
  ]);

t.test('a list is subscribed like a glob: members as ordinary resources (TP1 lists)', (t) => {
  const whole = new Rig();
  whole.driver.publish('c', a, '1');
  whole.driver.publish('o', far, '2');
  const publish = (...entries: readonly Uint8Array[]): void => {
    whole.driver.publish('c', all, listBytes(...entries), LISTS);
  };
  publish(textEntry(a), textEntry(far), inlineEntry('x', THING, '3'));
  const client = whole.connect();
  t.strictSame([...told(client.subscribe(all))].sort(), [
    `${a} 1`,
    `${thing('cloud', 'all/x')} 3`,
    `${far} 2`,
  ]);
  whole.driver.publish('o', far, '2b');
  t.strictSame(told(client.take()), [`${far} 2b`]);
  publish(textEntry(a));
  t.strictSame(
    told(client.take()),
    [`removed ${far}`, `removed ${thing('cloud', 'all/x')}`].sort().reverse(),
  );
  publish();
  t.strictSame([...told(client.take())].sort(), [`removed ${a}`, `removed ${all}`]);
  t.strictSame(
    told(client.send({ typeUrl: LISTS, subscribe: [all] })),
    [`${all} `],
    'the list itself',
  );
  t.end();
});

t.test('a member that leaves a list stays with a client that subscribes it by name', (t) => {
  const rig = new Rig();
  rig.driver.publish('c', a, '1');
  rig.driver.publish('o', far, '2');
  rig.driver.publish('c', all, listBytes(textEntry(a), textEntry(far)), LISTS);
  const client = rig.connect();
  client.subscribe(all, a, far);
  rig.driver.publish('c', all, listBytes(), LISTS);
  t.strictSame(told(client.take()), [`removed ${all}`], 'of its authority and of another');
  t.strictSame(told(client.send({ unsubscribe: [far] })), []);
  rig.driver.publish('c', all, listBytes(textEntry(far)), LISTS);
  t.strictSame(told(client.take()), [`${far} 2`]);
  t.strictSame(told(client.send({ unsubscribe: [a], subscribe: [far] })), [`${far} 2`]);
  t.strictSame(told(client.send({ unsubscribe: [all] })), []);
  t.end();
});

t.test('an unsubscribed name that a list covers too is answered (xDS protocol)', (t) => {
  const rig = new Rig();
  rig.driver.publish('c', a, '1');
  rig.driver.publish('c', all, listBytes(textEntry(a)), LISTS);
  const client = rig.connect();
  client.subscribe(all, a);
  t.strictSame(told(client.send({ unsubscribe: [a] })), [`${a} 1`]);
  t.end();
});

t.test('a client that resumes a list gets its changes and removals', (t) => {
  const rig = new Rig();
  rig.driver.publish('c', a, '1');
  rig.driver.publish('c', all, listBytes(textEntry(a), inlineEntry('x', THING, '2')), LISTS);
  const [first] = rig.connect().subscribe(all);
  const held = new Map(first?.resources.map(({ name, version }) => [name, version]));
  held.set(thing('cloud', 'all/gone'), 'old');
  rig.driver.publish('c', a, '1b');
  const client = rig.connect();
  t.strictSame(told(client.send({ subscribe: [all], initialVersions: held })), [`${a} 1b`]);
  t.strictSame(told(client.takeAfter(SWITCH_WAIT_MS)), [`removed ${thing('cloud', 'all/gone')}`]);
  t.end();
});

t.test('members of another authority than the list resume the same way', (t) => {
  // Found by the simulation, seed 8302.
  const rig = new Rig();
  rig.driver.publish('o', far, '1');
  rig.driver.publish('c', all, listBytes(textEntry(far)), LISTS);
  const [first] = rig.connect().subscribe(all);
  const held = new Map(first?.resources.map(({ name, version }) => [name, version]));
  held.set(thing('onprem', 'gone'), 'old');
  const client = rig.connect();
  client.send({ subscribe: [all], initialVersions: held });
  t.strictSame(told(client.takeAfter(SWITCH_WAIT_MS)), [`removed ${thing('onprem', 'gone')}`]);
  t.end();
});

t.test('content replaced by a redirect is held until its target answers, or is removed', (t) => {
  const rig = new Rig();
  const [glob, x] = ['g/*', 'g/x'].map((id) => thing('cloud', id));
  rig.driver.publish('c', x!, '1');
  rig.driver.publish('c', all, listBytes(textEntry(x!)), LISTS);
  rig.driver.server('o').stalled.add(far);
  const clients = [glob!, all, x!].map((asked) => {
    const client = rig.connect();
    client.subscribe(asked);
    return client;
  });
  rig.driver.redirect('c', x!, far);
  for (const client of clients) t.strictSame(told(client.take()), []);
  t.strictSame(
    told(rig.connect().subscribe(x!)),
    [`${x!} 1`],
    'a new client gets the held content',
  );
  rig.driver.send('o', { typeUrl: THING, nonce: 'n', removed: [far] });
  for (const client of clients) t.ok(told(client.take()).includes(`removed ${x!}`));
  t.end();
});

t.test('with two lists, a resumed member cannot be assigned to either: it is sent again', (t) => {
  const rig = new Rig();
  const other = 'xdstp://cloud/test.v1.ThingCollection/other';
  for (const list of [all, other]) {
    rig.driver.publish('c', list, listBytes(inlineEntry('x', THING, list)), LISTS);
  }
  const held = new Map(
    rig
      .connect()
      .subscribe(all, other)
      .flatMap(({ resources }) => resources.map(({ name, version }) => [name, version] as const)),
  );
  held.set(thing('cloud', 'gone'), 'old');
  const resumed = rig.connect().send({ subscribe: [all, other], initialVersions: held });
  t.strictSame(
    [...told(resumed)].sort(),
    [`${thing('cloud', 'all/x')} ${all}`, `${thing('cloud', 'other/x')} ${other}`].sort(),
    'and no member is removed on a guess',
  );
  t.end();
});

t.test('a #alt= that Envoy rewrote is answered in the form that Envoy needs (ENVOY 10)', (t) => {
  const rig = new Rig();
  const typeUrl = TYPE_URL.clusterLoadAssignment;
  const type = 'envoy.config.endpoint.v3.ClusterLoadAssignment';
  const bare = `xdstp://cloud/${type}/e1`;
  const raw = `${bare}#alt=xdstp://onprem/${type}/x`;
  const body = (name: string): Uint8Array => encode(type, { cluster_name: name });
  rig.driver.publish('c', bare, body(bare), typeUrl);
  const client = rig.connect();
  const escaped = raw.replace('#', '%23');
  const [response] = client.send({ typeUrl, subscribe: [escaped] });
  t.equal(response?.resources[0]?.name, raw);
  t.strictSame(Buffer.from(response?.resources[0]?.body ?? []), Buffer.from(body(raw)));
  rig.driver.delete('c', bare, typeUrl);
  t.strictSame(
    told(client.take()),
    [`removed ${escaped}`],
    'a removal repeats the name of the subscription',
  );
  t.end();
});

t.test('a plain #alt= is answered under the name as it was written', (t) => {
  const rig = new Rig();
  rig.driver.publish('c', a, '1');
  rig.driver.publish('o', far, '2');
  const client = rig.connect();
  const asked = `${a}#alt=${far}`;
  t.strictSame(told(client.subscribe(asked)), [`${asked} 1`]);
  rig.driver.kill('c');
  rig.driver.advance(5_000);
  t.strictSame(told(client.take()), [`${asked} 2`]);
  t.strictSame(
    told(client.subscribe(`${thing('cloud', 'g/*')}#alt=${thing('onprem', 'g/*')}`)),
    [],
  );
  t.end();
});

t.test('endpoints of a cluster in a list follow it, whatever its authority (ENVOY 5)', (t) => {
  for (const at of ['cloud', 'onprem']) {
    const rig = new Rig();
    const name = `xdstp://${at}/envoy.config.cluster.v3.Cluster/c`;
    const endpoints = `xdstp://cloud/envoy.config.endpoint.v3.ClusterLoadAssignment/e`;
    const list = 'xdstp://cloud/envoy.config.cluster.v3.ClusterCollection/all';
    const source = at === 'cloud' ? 'c' : 'o';
    const cluster = (seconds: number): Uint8Array =>
      encode('envoy.config.cluster.v3.Cluster', {
        name,
        type: 3,
        eds_cluster_config: { service_name: endpoints },
        connect_timeout: { seconds },
      });
    const assignment = encode('envoy.config.endpoint.v3.ClusterLoadAssignment', {
      cluster_name: endpoints,
    });
    rig.driver.publish(source, name, cluster(1), TYPE_URL.cluster);
    rig.driver.publish('c', endpoints, assignment, TYPE_URL.clusterLoadAssignment);
    rig.driver.publish('c', list, listBytes(textEntry(name)), `${TYPE_URL.cluster}Collection`);
    const client = rig.connect();
    client.send({ typeUrl: TYPE_URL.cluster, subscribe: [list] });
    client.send({ typeUrl: TYPE_URL.clusterLoadAssignment, subscribe: [endpoints] });
    rig.driver.publish(source, name, cluster(2), TYPE_URL.cluster);
    const types = client.take().map(({ typeUrl }) => typeUrl);
    t.strictSame(types, [TYPE_URL.cluster, TYPE_URL.clusterLoadAssignment], at);
  }
  t.end();
});
