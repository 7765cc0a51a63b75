/**
 * Goal: an ordinary Envoy, without any xdstp name in its configuration, is served from control
 * planes that answer by node id, moves from one to the other and back without a lost request, and
 * never gets content of another node.
 * Method: two real control planes (go-control-plane's SnapshotCache), the gateway as a process of
 * its own, real Envoys with plain `cds_config` and `lds_config` on delta ADS, and traffic all
 * along.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';

import { freePort } from '../support/free-port.js';
import {
  inOldStyle,
  mesh,
  TYPE_URLS,
  writeResourceFile,
  type MeshResource,
} from '../support/mesh.js';
import { until } from '../support/until.js';
import { tellingLogs } from './peers/child.js';
import { ControlPlane } from './peers/control-plane.js';
import { readConfigDump } from './peers/envoy-config.js';
import { Envoy, type EnvoyOptions } from './peers/envoy.js';
import { Gateway, skipWithoutGateway } from './peers/gateway.js';
import { startHttpBackend } from './peers/http-backend.js';
import { skipWithout } from './peers/provisioned.js';
import { quickTimers } from './peers/rig.js';
import { startTraffic, type Traffic } from './peers/traffic.js';

t.setTimeout(180_000);

const skip = skipWithout('envoy', 'control-plane') || skipWithoutGateway();
const meshAuthority = 'mesh.example.com';

type Stoppable = { stop(): Promise<unknown> };

function stopper(t: Test) {
  return async <S extends Stoppable>(starting: Promise<S>): Promise<S> => {
    const started = await starting;
    t.teardown(() => started.stop());
    return started;
  };
}

/** Two control planes with a snapshot for each node, and a backend each. */
async function startPlanes(t: Test) {
  const stopping = stopper(t);
  const [cloudBackend, onpremBackend] = [
    await stopping(startHttpBackend('cloud')),
    await stopping(startHttpBackend('onprem')),
  ];
  const [cloud, onprem] = [
    await stopping(ControlPlane.start({ name: 'cloud', byNode: true })),
    await stopping(ControlPlane.start({ name: 'onprem', byNode: true })),
  ];
  const resourcesOf = (authority: string, backendPort: number, listenerPort: number) =>
    inOldStyle(mesh({ authority, backendPort, listenerPort, totalResources: 60 }));
  return {
    cloud,
    onprem,
    ofCloud: (port: number) => resourcesOf('cloud', cloudBackend.port, port),
    ofOnprem: (port: number) => resourcesOf('onprem', onpremBackend.port, port),
  };
}

const source = ({ xdsPort }: ControlPlane) => ({
  target: `127.0.0.1:${xdsPort}`,
  insecure: true,
  timers: quickTimers,
});

/** An Envoy that has its configuration, and the traffic through its listener. */
async function startEnvoy(
  t: Test,
  listenerPort: number,
  options: EnvoyOptions,
): Promise<{ envoy: Envoy; traffic: Traffic }> {
  const envoy = await stopper(t)(Envoy.start({ collections: 'wildcard', ...options }));
  await envoy.ready({ timeoutMs: 30_000 });
  const traffic = startTraffic(`http://127.0.0.1:${listenerPort}/`);
  t.teardown(() => traffic.stop());
  return { envoy, traffic };
}

async function nothingLost(t: Test, { traffic, envoy }: { traffic: Traffic; envoy: Envoy }) {
  const { requests, failures } = await traffic.stop();
  t.strictSame(failures, [], `0 of ${requests} requests lost`);
  const refused = [...(await envoy.stats(''))].filter(
    ([name, count]) => name.endsWith('.update_rejected') && count > 0,
  );
  t.strictSame(refused, [], 'Envoy refused nothing');
}

for (const [flavour, apiType] of [
  ['delta', 'DELTA_GRPC'],
  ['state of the world', 'GRPC'],
] as const) {
  t.test(
    `${flavour}: an Envoy with only old-style names moves to the other source of the entry and back, and loses no ` +
      'request; each node gets its own content (invariants 8, 17)',
    { skip, timeout: 120_000 },
    async (t) => {
      const { cloud, onprem, ofCloud, ofOnprem } = await startPlanes(t);
      const ports = { 'envoy-1': await freePort(), 'envoy-2': await freePort() };
      const setAll = async (): Promise<void> => {
        for (const [node, port] of Object.entries(ports)) {
          await cloud.setSnapshot(node, ofCloud(port));
        }
      };
      await setAll();
      for (const [node, port] of Object.entries(ports)) {
        await onprem.setSnapshot(node, ofOnprem(port));
      }
      const gateway = await stopper(t)(
        Gateway.start({
          authorityMap: {
            sources: { cloud: source(cloud), onprem: source(onprem) },
            old_style_names: {
              served_by: [{ sources: ['cloud', 'onprem'], failover: { hold: '3s' } }],
            },
          },
        }),
      );
      const one = await startEnvoy(t, ports['envoy-1'], { xdsPort: gateway.port, apiType });
      const two = await startEnvoy(t, ports['envoy-2'], {
        xdsPort: gateway.port,
        nodeId: 'envoy-2',
        apiType,
      });
      await tellingLogs([gateway, one.envoy, cloud, onprem], async () => {
        await one.traffic.untilOnly('cloud');
        await two.traffic.untilOnly('cloud');
        const { streams } = await cloud.streams();
        const open = streams.filter((stream) => stream.open);
        t.strictSame(open.map(({ nodeId }) => nodeId).sort(), ['envoy-1', 'envoy-2']);
        const [first, second] = [ports['envoy-1'], ports['envoy-2']].map(String);
        for (const [{ envoy }, own, other] of [
          [one, first, second],
          [two, second, first],
        ] as const) {
          const dump = await envoy.configDump();
          t.match(dump, `"port_value": ${own}`, 'its own listener');
          t.notMatch(dump, `"port_value": ${other}`, 'not that of the other');
        }

        await cloud.kill();
        await Promise.all([one, two].map(({ traffic }) => traffic.untilOnly('onprem')));
        await cloud.restart();
        await setAll();
        await Promise.all([one, two].map(({ traffic }) => traffic.untilOnly('cloud')));

        // Deleted in the snapshot of one node only.
        const isKept = ({ name }: MeshResource): boolean => !name.endsWith('filler-0003');
        await cloud.setSnapshot('envoy-1', ofCloud(ports['envoy-1']).filter(isKept));
        const has = async ({ envoy }: { envoy: Envoy }): Promise<boolean> =>
          readConfigDump(await envoy.configDump()).clusters.has('edge/filler-0003');
        await until('the deleted cluster is gone', async () => !(await has(one)));
        t.ok(await has(two), 'the other node keeps it');
      });
      await nothingLost(t, one);
      await nothingLost(t, two);
    },
  );
}

/** What wrong removals would have to wait for is short. */
const failover = { switch_wait: '100ms', deletion_guard: { wait: '200ms' } };
const CLUSTERS = ['Cluster', 'ClusterLoadAssignment'];
const LISTENERS = ['Listener', 'RouteConfiguration'];

/** Maps, one after the other, and who serves then. */
const EDITS = [
  { served_by: [{ sources: ['cloud'] }], from: 'cloud' },
  { served_by: [{ sources: ['renamed'] }], from: 'cloud' },
  {
    served_by: [
      { sources: ['renamed'], types: CLUSTERS },
      { sources: ['renamed'], types: LISTENERS },
    ],
    from: 'cloud',
  },
  {
    served_by: [
      { sources: ['renamed'], types: CLUSTERS },
      { sources: ['onprem'], types: LISTENERS },
    ],
    from: 'cloud',
  },
  { served_by: [{ sources: ['cloud'] }], from: 'cloud' },
  { served_by: [{ sources: ['onprem'] }, { sources: ['cloud'] }], from: 'onprem' },
  { served_by: [{ sources: ['cloud'] }, { sources: ['onprem'] }], from: 'cloud' },
  { served_by: [{ sources: ['onprem'] }], from: 'onprem' },
] as const;

t.test(
  'edits of the entries of old-style names lose no request: sources renamed, split, merged, replaced (invariants 12, 17)',
  { skip, timeout: 120_000 },
  async (t) => {
    const { cloud, onprem, ofCloud, ofOnprem } = await startPlanes(t);
    const nodes = { delta: await freePort(), sotw: await freePort() };
    for (const [node, port] of Object.entries(nodes)) {
      await cloud.setSnapshot(node, ofCloud(port));
      await onprem.setSnapshot(node, ofOnprem(port));
    }
    const mapOf = ({ served_by: entries }: (typeof EDITS)[number]): unknown => {
      const used = new Set<string>(entries.flatMap(({ sources }) => sources));
      const sources = { cloud: source(cloud), renamed: source(cloud), onprem: source(onprem) };
      return {
        sources: Object.fromEntries(Object.entries(sources).filter(([name]) => used.has(name))),
        old_style_names: { served_by: entries.map((entry) => ({ ...entry, failover })) },
      };
    };
    const gateway = await stopper(t)(Gateway.start({ authorityMap: mapOf(EDITS[0]) }));
    const options = { xdsPort: gateway.port };
    const clients = [
      await startEnvoy(t, nodes.delta, { ...options, nodeId: 'delta', apiType: 'DELTA_GRPC' }),
      await startEnvoy(t, nodes.sotw, { ...options, nodeId: 'sotw', apiType: 'GRPC' }),
    ];
    await tellingLogs([gateway, cloud, onprem], async () => {
      for (const [at, edit] of EDITS.entries()) {
        if (at > 0) await gateway.setAuthorityMap(mapOf(edit));
        await until('the map is in force', async () => {
          return (
            (await gateway.metric('tributary_map_reloads_total', { reason: 'applied' })) === at
          );
        });
        const count = 200;
        await Promise.all(clients.map(({ traffic }) => traffic.untilOnly(edit.from, { count })));
      }
    });
    for (const client of clients) {
      const stats = await client.envoy.stats('');
      t.equal(stats.get('listener_manager.listener_removed'), 0);
      t.equal(stats.get('cluster_manager.cluster_removed'), 0);
      await nothingLost(t, client);
    }
  },
);

t.test(
  'old-style clusters and a glob of listeners are served on one stream, each with its own failover',
  { skip, timeout: 120_000 },
  async (t) => {
    const { cloud, onprem, ofCloud, ofOnprem } = await startPlanes(t);
    const port = await freePort();
    const isCluster = ({ typeUrl }: MeshResource): boolean =>
      typeUrl === TYPE_URLS.cluster || typeUrl === TYPE_URLS.assignment;
    const setCloud = (): Promise<void> =>
      cloud.setSnapshot('envoy-1', ofCloud(port).filter(isCluster));
    await setCloud();
    await onprem.setSnapshot('envoy-1', ofOnprem(port).filter(isCluster));
    const directory = await mkdtemp(join(tmpdir(), 'tributary-listeners-'));
    t.teardown(() => rm(directory, { recursive: true }));
    const listeners = mesh({ authority: meshAuthority, backendPort: 1, listenerPort: port })
      .filter((resource) => !isCluster(resource))
      .map((resource) => ({
        ...resource,
        json: JSON.parse(
          JSON.stringify(resource.json).replace(/xdstp:[^"]*Cluster\/edge/, 'edge'),
        ) as MeshResource['json'],
      }));
    await writeResourceFile(directory, listeners);
    const gateway = await stopper(t)(
      Gateway.start({
        authorityMap: {
          sources: {
            cloud: source(cloud),
            onprem: source(onprem),
            listeners: { path: directory },
          },
          authorities: { [meshAuthority]: { sources: ['listeners'] } },
          old_style_names: {
            differ_by: ['id'],
            served_by: [{ sources: ['cloud', 'onprem'], failover: { hold: '3s' } }],
          },
        },
      }),
    );
    const rig = await startEnvoy(t, port, {
      xdsPort: gateway.port,
      collections: 'mixed',
      authority: meshAuthority,
    });
    await tellingLogs([gateway, rig.envoy, cloud], async () => {
      await rig.traffic.untilOnly('cloud');
      await cloud.kill();
      await rig.traffic.untilOnly('onprem');
      await cloud.restart();
      await setCloud();
      await rig.traffic.untilOnly('cloud');
    });
    await nothingLost(t, rig);
  },
);
