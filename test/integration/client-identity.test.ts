/**
 * Goal: a control plane that tells proxies apart by Node, header or certificate gets these of each
 * client, and two clients with different identities never share content.
 * Method: a gateway in this process, a management server that authenticates each stream, delta clients,
 * all over real sockets.
 */
import t, { type Test } from 'tap';
import { encodeNode, type NodeFields } from '../../protos/node-codec.js';
import { DeltaClient, type DeltaClientOptions } from '../support/delta-client.js';
import { httpJson } from '../support/http.js';
import { startGateway } from '../support/identity-gateway.js';
import { IdentityUpstream, ownerIn } from '../support/identity-upstream.js';
import { TYPE_URLS } from '../support/mesh.js';
import { until } from '../support/until.js';

const CDS = TYPE_URLS.cluster;

const nodeOf = (fields: Partial<NodeFields> = {}): Uint8Array =>
  encodeNode({ id: 'n', cluster: 'c', userAgentName: 'envoy', userAgentVersion: '1', ...fields });

/** Token → owner; a token may be added or withdrawn. */
function startUpstream(t: Test, tokens: Map<string, string>, port = 0): Promise<IdentityUpstream> {
  const started = IdentityUpstream.start({
    port,
    ownerOf: (stream) => tokens.get(stream.header('authorization').join(',')),
  });
  t.teardown(async () => {
    (await started).stop();
  });
  return started;
}

const mapFor = (port: number, more = '', oldStyle = 'differ_by: [id]'): string => `
sources:
  s:
    target: "127.0.0.1:${port}"
    insecure: true
    forward_headers: [authorization]
    timers: { backoff_base: 20ms, backoff_max: 50ms, linger: 50ms }
    ${more}
old_style_names: { ${oldStyle}, served_by: [{ sources: [s], failover: { linger: 50ms } }] }
`;

function open(t: Test, options: DeltaClientOptions): DeltaClient {
  const client = new DeltaClient({ node: nodeOf(), ...options });
  t.teardown(() => {
    client.close();
  });
  client.subscribe(CDS, ['*']);
  return client;
}

const contentOf = (client: DeltaClient): string | undefined =>
  ownerIn(client.content(CDS).get('web'));

/** All contents that the client has ever received on its present stream. */
const receivedBy = (client: DeltaClient): readonly (string | undefined)[] =>
  client.responses.flatMap(({ resources }) => resources.map(({ body }) => ownerIn(body)));

const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });

t.test(
  'two clients with equal Nodes and different tokens never get the content of one another (invariant 21)',
  async (t) => {
    const tokens = new Map([
      ['Bearer token-of-alice', 'alice'],
      ['Bearer token-of-bob', 'bob'],
    ]);
    const upstream = await startUpstream(t, tokens);
    const map = mapFor(upstream.port);
    const gateway = await startGateway(t, map);
    const alice = open(t, { port: gateway.port, headers: bearer('token-of-alice') });
    const bob = open(t, { port: gateway.port, headers: bearer('token-of-bob') });
    const stranger = open(t, { port: gateway.port });
    const settled = (what: string, revision: number): Promise<boolean> =>
      until(
        what,
        () => contentOf(alice) === `alice/${revision}` && contentOf(bob) === `bob/${revision}`,
      );
    await settled('each client has its own content', 1);
    t.strictSame(upstream.streams.map((seen) => seen.header('authorization')).sort(), [
      ['Bearer token-of-alice'],
      ['Bearer token-of-bob'],
    ]);

    upstream.update('alice');
    upstream.update('bob');
    await settled('after an update', 2);

    gateway.reload(mapFor(upstream.port, 'max_receive: 1MiB'));
    upstream.update('alice');
    upstream.update('bob');
    await settled('after a reload that replaces the source', 3);

    upstream.stop();
    const again = await startUpstream(t, tokens, upstream.port);
    for (let revision = 1; revision < 4; revision++) {
      again.update('alice');
      again.update('bob');
    }
    await settled('after the source died and came back', 4);

    for (const [client, owner] of [
      [alice, 'alice'],
      [bob, 'bob'],
    ] as const) {
      t.ok(
        receivedBy(client).every((got) => got?.startsWith(`${owner}/`)),
        owner,
      );
    }
    t.strictSame(receivedBy(stranger), [], 'a client without a token gets nothing');
    t.ok(upstream.refusals > 0, 'the source refuses its stream');
  },
);

t.test(
  'a refused token fails the stream of its group only, and a new token is tried at once',
  async (t) => {
    const tokens = new Map([
      ['Bearer good-token', 'alice'],
      ['Bearer new-token', 'bob'],
    ]);
    const upstream = await startUpstream(t, tokens);
    const gateway = await startGateway(t, mapFor(upstream.port));
    const alice = open(t, { port: gateway.port, headers: bearer('good-token') });
    await until('alice is served', () => contentOf(alice) === 'alice/1');
    const bob = open(t, { port: gateway.port, headers: bearer('expired-token') });
    await until('the source refuses bob', () => upstream.refusals > 0);

    const { servers } = gateway.gateway.upstream.view;
    await until('one stream is refused', () =>
      servers.some(({ health }) => health.tripped !== null),
    );
    t.equal(servers.filter(({ health }) => health.kind === 'live').length, 1, 'the other is live');
    upstream.update('alice');
    await until('alice gets updates', () => contentOf(alice) === 'alice/2');

    const startMs = performance.now();
    bob.reopenWith(bearer('new-token'));
    await until('bob is served', () => contentOf(bob) === 'bob/1');
    t.ok(performance.now() - startMs < 10_000, 'sooner than the retry of a refused source');
  },
);

t.test(
  'a client that returns with a renewed token moves to a new group and is sent nothing that it has',
  async (t) => {
    const tokens = new Map([
      ['Bearer first-token', 'alice'],
      ['Bearer second-token', 'alice'],
    ]);
    const upstream = await startUpstream(t, tokens);
    const gateway = await startGateway(t, mapFor(upstream.port), ['--unsubscribed-linger', '50ms']);
    const alice = open(t, {
      port: gateway.port,
      headers: bearer('first-token'),
      resumesMembers: true,
    });
    await until('alice is served', () => contentOf(alice) === 'alice/1');
    alice.reopenWith(bearer('second-token'));
    await until('the new stream is answered', () => alice.responses.length > 0);
    await until('the source has the new token', () =>
      upstream.streams.some((seen) => seen.header('authorization')[0] === 'Bearer second-token'),
    );
    t.strictSame(receivedBy(alice), [], 'equal content has an equal version');
    t.equal(contentOf(alice), 'alice/1');
    await until('the old group ends', () => upstream.openStreams('alice').length === 1);
    const { nodeGroups } = gateway.gateway.upstream.view;
    await until('and is forgotten', () => nodeGroups.identities.size === 1);
    upstream.update('alice');
    await until('updates come by the new group', () => contentOf(alice) === 'alice/2');
    alice.close();
    await until('a group without clients is forgotten', () => nodeGroups.identities.size === 0);
    await until('with its stream', () => upstream.openStreams('alice').length === 0);
  },
);

t.test(
  'a client that returns with another token gets its content from a control plane that allows one stream for each client (Kuma)',
  async (t) => {
    const upstream: IdentityUpstream = await IdentityUpstream.start({
      ownerOf: () => (upstream.openStreams('alice').length === 0 ? 'alice' : undefined),
    });
    t.teardown(() => {
      upstream.stop();
    });
    const gateway = await startGateway(t, mapFor(upstream.port));
    const before = open(t, { port: gateway.port, headers: bearer('before') });
    await until('it has its content', () => contentOf(before) === 'alice/1');
    before.close();
    upstream.update('alice');
    const after = open(t, { port: gateway.port, headers: bearer('after') });
    await until('it has its content again', () => contentOf(after) === 'alice/2');
    t.strictSame(upstream.openStreams('alice')[0]?.header('authorization'), ['Bearer after']);

    const { refusals } = upstream;
    const other = open(t, {
      port: gateway.port,
      headers: bearer('other'),
      node: nodeOf({ id: 'other' }),
    });
    await until('another client is refused', () => upstream.refusals > refusals);
    t.equal(upstream.openStreams('alice').length, 1, 'and ends nothing');
    t.equal(contentOf(other), undefined);
  },
);

t.test('a client that one address of a source refuses is served by another one', async (t) => {
  // Consul bounds the streams of each of its servers.
  const full = await startUpstream(t, new Map());
  const upstream = await startUpstream(t, new Map([['Bearer token', 'alice']]));
  const addresses = [full.port, upstream.port].map((port) => `127.0.0.1:${port}`).join(',');
  const map = mapFor(0).replace('127.0.0.1:0', `ipv4:${addresses}`);
  const gateway = await startGateway(t, map);
  for (const id of ['a', 'b', 'c', 'd']) {
    const client = open(t, {
      port: gateway.port,
      headers: bearer('token'),
      node: nodeOf({ id }),
    });
    await until('it has its content', () => contentOf(client) === 'alice/1');
  }
});

t.test('`forward_node: all` sends the Node as received, with nested metadata', async (t) => {
  const upstream = await startUpstream(t, new Map([['Bearer the-token', 'alice']]));
  const gateway = await startGateway(
    t,
    mapFor(upstream.port, 'forward_node: all', 'differ_by: all'),
  );
  const node = nodeOf({
    id: 'sidecar~10.0.0.1~web.default~default.svc.cluster.local',
    metadata: { NAMESPACE: 'default', nothing: null, LABELS: { app: 'web', list: [1, null] } },
    dynamicParameters: { [CDS]: { zone: 'a' } },
  });
  const client = open(t, { port: gateway.port, headers: bearer('the-token'), node });
  await until('the client is served', () => contentOf(client) === 'alice/1');
  const [sent] = upstream.streams[0]?.nodes ?? [];
  t.strictSame(Buffer.from(sent ?? []), Buffer.from(node), 'byte for byte');
  t.equal(upstream.streams[0]?.nodes.length, 1, 'in the first request only');
});

t.test(
  'a metadata key that the Node lacks is not sent, and one with the value null is',
  async (t) => {
    const upstream = await startUpstream(t, new Map([['Bearer the-token', 'alice']]));
    const oldStyle = 'differ_by: [id, metadata.has, metadata.lacks]';
    const gateway = await startGateway(t, mapFor(upstream.port, '', oldStyle));
    const node = nodeOf({ metadata: { has: null, other: 'x' } });
    const client = open(t, { port: gateway.port, headers: bearer('the-token'), node });
    await until('the client is served', () => contentOf(client) === 'alice/1');
    const sent = Buffer.from(upstream.streams[0]?.nodes[0] ?? []);
    // Struct { fields { key: "has", value { null_value: NULL_VALUE } } }.
    t.ok(sent.includes(Buffer.from([0x0a, 3, ...Buffer.from('has'), 0x12, 2, 0x08, 0])));
    t.notOk(sent.includes('lacks'));
    t.notOk(sent.includes('other'));
  },
);

t.test(
  '`for` chooses the entries of a client, and a client without an entry is told so',
  async (t) => {
    const [prod, test] = await Promise.all(
      ['prod', 'test'].map(async (owner) => {
        const started = await IdentityUpstream.start({ ownerOf: () => owner });
        t.teardown(() => {
          started.stop();
        });
        return started;
      }),
    );
    const gateway = await startGateway(
      t,
      `
sources:
  p: { target: "127.0.0.1:${prod?.port ?? 0}", insecure: true }
  t: { target: "127.0.0.1:${test?.port ?? 0}", insecure: true }
old_style_names:
  differ_by: [id]
  served_by:
    - { sources: [p], for: { metadata.MESH_ID: prod } }
    - { sources: [t], for: { metadata.MESH_ID: test, cluster: c } }
`,
    );
    const inMesh = (mesh: string, cluster = 'c'): DeltaClient =>
      open(t, { port: gateway.port, node: nodeOf({ cluster, metadata: { MESH_ID: mesh } }) });
    const clients = [inMesh('prod'), inMesh('test')];
    await until('each is served', () => clients.every((client) => contentOf(client) !== undefined));
    t.strictSame(clients.map(contentOf), ['prod/1', 'test/1']);
    const neither = inMesh('test', 'other');
    await until('the third is told', () => neither.errors().length > 0);
    t.match(neither.errors(), [{ name: '*', code: 12 }]);
    t.match(
      neither.responses[0]?.errors[0]?.status.message,
      /no entry of old_style_names.served_by applies to this client: no "for" matches its Node/,
    );
    const explained = await httpJson(
      `http://${gateway.admin}/explain/web?type=envoy.config.cluster.v3.Cluster`,
    );
    t.match(explained, { entries: [{ for: { 'metadata.MESH_ID': 'prod' } }, {}] });
  },
);

t.test('a reload that groups clients in another way makes them reconnect', async (t) => {
  const upstream = await startUpstream(
    t,
    new Map([
      ['', 'nobody'],
      ['Bearer the-token', 'alice'],
    ]),
  );
  const plain = mapFor(upstream.port).replace('forward_headers: [authorization]', '');
  const gateway = await startGateway(t, plain);
  const client = open(t, { port: gateway.port, headers: bearer('the-token') });
  await until('the client is served without its token', () => contentOf(client) === 'nobody/1');
  gateway.reload(mapFor(upstream.port));
  await until('its stream ends', () => client.status !== undefined);
  t.match(client.status, { code: 14, details: /reconnect/ });
  await client.reconnect();
  await until('it is served with its token', () => contentOf(client) === 'alice/1');
});

t.test(
  'a client in one group more than allowed is refused, until another group is forgotten',
  async (t) => {
    const tokens = new Map(['a', 'b'].map((name) => [`Bearer token-of-${name}`, name]));
    const upstream = await startUpstream(t, tokens);
    const gateway = await startGateway(t, mapFor(upstream.port), [
      ...['--max-node-groups', '1', '--unsubscribed-linger', '50ms'],
    ]);
    const first = open(t, { port: gateway.port, headers: bearer('token-of-a') });
    await until('the first group is served', () => contentOf(first) === 'a/1');
    first.send({ typeUrl: CDS, unsubscribe: ['*'] });
    const { cache } = gateway.gateway;
    await until('the cache has no name of it', () => cache.scopeCount === 0);
    const second = open(t, { port: gateway.port, headers: bearer('token-of-b') });
    await until('the second is refused', () => second.status !== undefined);
    t.match(second.status, {
      code: 8,
      details: 'more than 1 node groups (old_style_names.differ_by: id; headers: authorization)',
    });
    first.close();
    await second.reconnect();
    await until('the second is served', () => contentOf(second) === 'b/1');
  },
);

t.test(
  'two clients that poll from one address with different tokens never get the content of one another (invariant 21)',
  async (t) => {
    const tokens = new Map([
      ['Bearer token-of-alice', 'alice'],
      ['Bearer token-of-bob', 'bob'],
    ]);
    const upstream = await startUpstream(t, tokens);
    const gateway = await startGateway(t, mapFor(upstream.port), ['--poll-wait', '300ms']);
    const poll = async (token: string, version = ''): Promise<string | undefined> => {
      const response = await fetch(`http://127.0.0.1:${gateway.port}/v3/discovery:clusters`, {
        method: 'POST',
        headers: { ...bearer(token), 'content-type': 'application/json' },
        body: JSON.stringify({ node: { id: 'n', cluster: 'c' }, version_info: version }),
      });
      const body = await response.text();
      return response.status === 200 ? body : undefined;
    };
    const untilServed = (token: string, version?: string): Promise<string> =>
      until(`${token} is served`, () => poll(token, version));
    const alice = await untilServed('token-of-alice');
    t.match(alice, /alice/);
    const { versionInfo } = JSON.parse(alice) as { readonly versionInfo: string };
    // In the session of alice, a poll with her version would find nothing new.
    const bob = await untilServed('token-of-bob', versionInfo);
    t.match(bob, /bob/);
    t.notMatch(bob, /alice/);
  },
);
