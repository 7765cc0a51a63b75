/**
 * Goal: a REST source means the same as a stream by state of the world: whole sets delete, partial ones
 * do not, names move to an alternative of another variant and back (invariants 3, 17).
 * Method: the upstream side over real sockets: a scripted HTTP server, and a gRPC server as the
 * alternative.
 */
import t, { type Test } from 'tap';
import { FederatedClient, sourceTransport } from '../../authorities/index.js';
import { parseAuthorityMap } from '../../config/authority-map.js';
import { DEFAULT_RESOLUTION } from '../../config/limits.js';
import { encodeNode } from '../../protos/node-codec.js';
import { resourceFromJson, redactedJson } from '../../protos/json-resources.js';
import { bodyOf } from '../../protos/resource-field.js';
import { TYPE_URL } from '../../protos/type-urls.js';
import { nameOf, RecordingWatcher } from '../support/federation-driver.js';
import { ScriptedRest } from '../support/scripted-rest.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { until } from '../support/until.js';

const CDS = TYPE_URL.cluster;
const EDS = TYPE_URL.clusterLoadAssignment;
const nameIn = (typeUrl: string, id: string, authority = 'cloud'): string =>
  `xdstp://${authority}/${typeUrl.slice('type.googleapis.com/'.length)}/${id}`;
const clusterOf = (id: string, mark = 'rest') => ({
  '@type': CDS,
  name: nameIn(CDS, id),
  alt_stat_name: mark,
});
const assignmentOf = (id: string) => ({ '@type': EDS, cluster_name: nameIn(EDS, id) });

/** The marks of the clusters that a watcher holds, by id. */
function held(watcher: RecordingWatcher): Record<string, unknown> {
  const entries = [...watcher.projections].filter(([key]) => watcher.held.has(key));
  return Object.fromEntries(
    entries.map(([key, { typeUrl, field }]) => [
      key.slice(key.lastIndexOf('/') + 1),
      redactedJson(typeUrl, bodyOf(field))['alt_stat_name'],
    ]),
  );
}

const TIMERS = { backoff_base: '20ms', backoff_max: '50ms', min_stable: '0s' };

/** @param source the REST source, besides its target @param timers of all sources */
function start(t: Test, rest: ScriptedRest, alternative?: ScriptedUpstream, timers = {}) {
  const target = (port: number) => ({ target: `127.0.0.1:${port}`, insecure: true });
  const all = { ...TIMERS, ...timers };
  return startWith(t, {
    sources: {
      rest: {
        ...target(rest.port),
        ...{ api_type: 'REST', refresh_delay: '25ms', request_timeout: '2s', timers: all },
      },
      ...(alternative && { delta: { ...target(alternative.port), timers: all } }),
    },
    authorities: {
      cloud: {
        sources: alternative ? ['rest', 'delta'] : ['rest'],
        failover: { hold: '100ms', switch_wait: '1s', deletion_guard: { count: 1_000 } },
      },
    },
  });
}

/** The upstream side with this authority map. */
function startWith(t: Test, map: unknown) {
  const parsed = parseAuthorityMap(JSON.stringify(map), { file: 'map.json' });
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems));
  const effects: { readonly kind: string }[] = [];
  const client = new FederatedClient({
    map: parsed.map,
    nodeFor: () =>
      encodeNode({ id: 'gw', cluster: 'c', userAgentName: 'tributary', userAgentVersion: '1' }),
    maxResourcesPerResponse: 100,
    bounds: DEFAULT_RESOLUTION,
    transport: sourceTransport,
    onEffect: (effect) => {
      effects.push(effect.kind === 'server' ? effect.effect : effect);
    },
    onFileProblems: () => undefined,
    onError: (error) => {
      t.fail(String(error));
    },
    clock: () => performance.now(),
  });
  t.teardown(() => {
    client.close();
  });
  client.start();
  const watcher = new RecordingWatcher();
  const watch = (typeUrl: string, id: string, authority?: string): void => {
    client.watch(typeUrl, nameOf(nameIn(typeUrl, id, authority)), watcher);
  };
  const kinds = (): readonly string[] => effects.map(({ kind }) => kind);
  return { watcher, watch, effects, kinds, client };
}

async function startRest(t: Test, port?: number): Promise<ScriptedRest> {
  const rest = await ScriptedRest.start(port);
  t.teardown(() => rest.stop());
  return rest;
}

t.test('a set of clusters is whole: a change and a deletion reach the watcher', async (t) => {
  const rest = await startRest(t);
  rest.set('clusters', '1', [clusterOf('a'), clusterOf('b')]);
  const { watcher, watch } = start(t, rest);
  watch(CDS, 'a');
  watch(CDS, 'b');
  await until('both', () => watcher.held.size === 2);
  t.match(rest.requests[0]?.json, {
    node: { id: 'gw' },
    resource_names: [nameIn(CDS, 'a'), nameIn(CDS, 'b')],
  });
  rest.set('clusters', '2', [clusterOf('a', 'new')]);
  await until('the change', () => held(watcher)['a'] === 'new');
  await until('the deletion', () => watcher.told.includes(`removed ${nameIn(CDS, 'b')}`));
  t.ok(
    rest.requests.slice(1).every(({ json }) => 'node' in json),
    'a server without streams needs the Node each time',
  );
  await rest.answered(({ status }) => status === 304);
});

t.test('a response without endpoints that are held deletes nothing (invariant 3)', async (t) => {
  const rest = await startRest(t);
  rest.set('endpoints', '1', [assignmentOf('a'), assignmentOf('b')]);
  const { watcher, watch } = start(t, rest);
  watch(EDS, 'a');
  watch(EDS, 'b');
  await until('both', () => watcher.held.size === 2);
  rest.set('endpoints', '2', [assignmentOf('a')]);
  await rest.answered(({ json, status }) => json['version_info'] === '2' && status === 304);
  t.equal(watcher.held.size, 2);
});

t.test('a new name is polled at once, whatever the version', async (t) => {
  const rest = await startRest(t);
  rest.set('endpoints', '1', [assignmentOf('a'), assignmentOf('b')]);
  const { watcher, watch } = start(t, rest);
  watch(EDS, 'a');
  await rest.answered(({ status }) => status === 304);
  watch(EDS, 'b');
  await until('the new name', () => watcher.held.has(nameIn(EDS, 'b')));
});

t.test(
  'an empty set proves that the source is alive; a name that it lacks is absent after resource_timeout',
  async (t) => {
    const rest = await startRest(t);
    rest.set('clusters', '1', []);
    const { watcher, watch, kinds } = start(t, rest, undefined, { resource_timeout: '200ms' });
    watch(CDS, 'a');
    await until('the source is up', () => kinds().includes('up'));
    await until('its deadline', () => watcher.told.some((told) => told.startsWith('absent')));
    t.notOk(kinds().includes('lost'));
  },
);

t.test('a first answer of 304 proves that the source is alive, and deletes nothing', async (t) => {
  const rest = await startRest(t);
  rest.script = (_request, response) => !!response.writeHead(304).end();
  const { watcher, watch, kinds } = start(t, rest);
  watch(CDS, 'a');
  await until('the source is up', () => kinds().includes('up'));
  t.strictSame(watcher.told, []);
});

t.test('a resource that cannot be encoded is rejected alone, and the last one stays', async (t) => {
  const rest = await startRest(t);
  rest.set('clusters', '1', [clusterOf('a'), clusterOf('b')]);
  const { watcher, watch } = start(t, rest);
  watch(CDS, 'a');
  watch(CDS, 'b');
  await until('both', () => watcher.held.size === 2);
  const odd = { ...clusterOf('b'), typed_extension_protocol_options: { x: { '@type': 'a/b' } } };
  rest.set('clusters', '2', [clusterOf('a', 'new'), odd]);
  await until('the change', () => held(watcher)['a'] === 'new');
  const nack = await rest.answered(({ json }) => 'error_detail' in json);
  t.match(nack.json, { error_detail: { message: /Cluster\/b carries unreadable JSON/ } });
  t.strictSame(held(watcher), { a: 'new', b: 'rest' });
});

t.test(
  'a killed source is replaced by one of another variant, and returns (invariant 17)',
  async (t) => {
    const rest = await startRest(t);
    rest.set('clusters', '1', [clusterOf('a')]);
    const delta = await ScriptedUpstream.start();
    t.teardown(() => delta.stop());
    const other = resourceFromJson(clusterOf('a', 'delta'));
    if (!other.ok) throw new Error(other.message);
    delta.put(CDS, nameIn(CDS, 'a'), other.body);
    const { watcher, watch } = start(t, rest, delta);
    watch(CDS, 'a');
    await until('the primary', () => held(watcher)['a'] === 'rest');
    await rest.stop();
    await until('the alternative', () => held(watcher)['a'] === 'delta');
    const again = await startRest(t, rest.port);
    again.set('clusters', '1', [clusterOf('a')]);
    await until('the return', () => held(watcher)['a'] === 'rest');
    t.notMatch(watcher.told.join('\n'), /removed|absent/);
  },
);

t.test(
  'entries with the same REST ConfigSource are one source, in whatever form: each poll has the names of all of them (invariant 8)',
  async (t) => {
    const rest = await startRest(t);
    const others = ['cloud', 'pasted', 'every'].map((authority) => ({
      '@type': CDS,
      name: nameIn(CDS, 'a', authority),
    }));
    rest.set('clusters', '1', others);
    const pasted = (authority: string, more = {}) => ({
      authorities: [{ name: authority }],
      insecure: true,
      timers: TIMERS,
      api_config_source: {
        transport_api_version: 'V3',
        ...{ api_type: 'REST', cluster_names: ['plane'], ...more },
        ...{ refresh_delay: '0.025s', request_timeout: '2s' },
      },
    });
    const { watcher, watch, client } = startWith(t, {
      clusters: { plane: { insecure: true, endpoints: [`127.0.0.1:${rest.port}`] } },
      sources: {
        short: {
          ...{ target: `127.0.0.1:${rest.port}`, insecure: true, timers: TIMERS },
          ...{ api_type: 'REST', refresh_delay: '25ms', request_timeout: '2s' },
        },
      },
      authorities: { cloud: { sources: ['short'] } },
      // The second one says what REST does anyway: every poll has the Node.
      config_sources: [
        pasted('pasted'),
        pasted('every', { set_node_on_first_message_only: false }),
      ],
    });
    for (const authority of ['cloud', 'pasted', 'every']) watch(CDS, 'a', authority);
    await until('all of them', () => watcher.held.size === 3);
    await rest.answered(({ status }) => status === 304);
    const names = rest.requests.map(({ json }) => json['resource_names']);
    t.strictSame(
      new Set(names.map((all) => JSON.stringify((all as string[]).sort()))),
      new Set([JSON.stringify(others.map(({ name }) => name).sort())]),
    );
    const { view } = client;
    t.equal(view.source('config_sources[0]'), view.source('short'));
    t.equal(view.source('config_sources[1]'), view.source('short'));
  },
);
