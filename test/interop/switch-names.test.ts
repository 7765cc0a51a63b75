/**
 * Goal: a switch to an alternative with other clusters and routes, under other paths, loses no
 * request on the way there and back, and a primary that comes back empty removes nothing.
 * Method: as in failover.test.ts, but onprem's names are at another path, its route leads to a
 * cluster that cloud lacks, and cloud has clusters that onprem lacks.
 */
import t, { type Test } from 'tap';

import {
  assignment,
  edsCluster,
  routeToCluster,
  TYPE_URLS,
  xdstpName,
  type MeshResource,
} from '../support/mesh.js';
import { until } from '../support/until.js';
import { tellingLogs } from './peers/child.js';
import { skipWithoutGateway } from './peers/gateway.js';
import { skipWithout } from './peers/provisioned.js';
import { cloud, onprem, quickTimers, startRig, type Rig } from './peers/rig.js';

t.setTimeout(120_000);

const skip = skipWithout('envoy', 'control-plane') || skipWithoutGateway();
const holdMs = 3_000;
const onpremPath = 'site-7/';
const newCluster = xdstpName(cloud, 'cluster', 'edge/y');
const ownCluster = xdstpName(cloud, 'cluster', 'edge/web');
const route = xdstpName(cloud, 'route', 'edge/ingress');

/** Onprem's mesh without `web`: its route leads to `y`, which cloud lacks. */
function withNewNames({ onpremResources, backends }: Rig): readonly MeshResource[] {
  const web = (['cluster', 'assignment'] as const).map((type) =>
    xdstpName(onprem, type, `${onpremPath}web`),
  );
  const replaced = new Set([...web, xdstpName(onprem, 'route', `${onpremPath}ingress`)]);
  return [
    ...onpremResources.filter(({ name }) => !replaced.has(name)),
    edsCluster(onprem, `${onpremPath}y`),
    assignment(onprem, `${onpremPath}y`, backends.onprem),
    routeToCluster(onprem, `${onpremPath}ingress`, `${onpremPath}y`),
  ];
}

/** The cluster that Envoy's route leads to. */
async function routeLeadsTo(rig: Rig, cluster: string): Promise<void> {
  await until(`Envoy's route leads to ${cluster}`, async () => {
    const { routes, clusters, warming } = await rig.envoyConfig();
    const content = JSON.stringify(routes.get(route) ?? {});
    return content.includes(`"${cluster}"`) && clusters.has(cluster) && !warming.has(cluster);
  });
}

async function startAtCloud(t: Test): Promise<Rig> {
  const rig = await startRig(t, {
    totalResources: 60,
    onpremPath,
    // A go-control-plane is silent about names that it lacks, and y's endpoints are requested from
    // cloud.
    timers: { ...quickTimers, resource_timeout: '3s' },
    authority: {
      alternatives: [{ match: 'edge/*', authority: onprem, path: `${onpremPath}*` }],
      failover: { hold: `${holdMs}ms` },
    },
  });
  await rig.onpremPlane.setResources(withNewNames(rig));
  await rig.traffic.untilOnly('cloud');
  return rig;
}

/** Fails over to onprem, and waits until Envoy has onprem's content under cloud's names. */
async function moveToOnprem(t: Test, rig: Rig): Promise<void> {
  const { cloudPlane, onpremPlane, traffic, backends } = rig;
  const late = xdstpName(onprem, 'assignment', `${onpremPath}y`);
  await onpremPlane.deleteResource(TYPE_URLS.assignment, late);
  await cloudPlane.kill();
  await until('the new cluster warms', async () => {
    const { warming } = await rig.envoyConfig();
    return warming.has(newCluster);
  });
  // If the route arrived too early, these would be lost.
  await traffic.untilOnly('cloud', { count: 100 });
  await routeLeadsTo(rig, ownCluster);
  const moved = traffic.untilOnly('onprem');
  moved.catch(() => undefined);
  await onpremPlane.patchResources([assignment(onprem, `${onpremPath}y`, backends.onprem)]);
  t.comment(`50 responses in a row from onprem ${await moved} ms after y has endpoints`);
  await routeLeadsTo(rig, newCluster);
  t.notMatch(await rig.envoy.configDump(), `xdstp://${onprem}/`, 'no name of onprem');
  t.ok((await rig.envoyConfig()).clusters.has(ownCluster), 'an absent alternative proves nothing');
}

async function nothingLost(t: Test, { traffic, envoy }: Rig): Promise<void> {
  const { requests, failures } = await traffic.stop();
  t.strictSame(failures, [], `0 of ${requests} requests lost`);
  const refused = [...(await envoy.stats(''))].filter(
    ([name, count]) => name.endsWith('.update_rejected') && count > 0,
  );
  t.strictSame(refused, [], 'Envoy refused nothing');
}

const logsOf = ({ gateway, envoy, cloudPlane, onpremPlane }: Rig) => [
  gateway,
  envoy,
  cloudPlane,
  onpremPlane,
];

t.test(
  'routes wait for the ACK of clusters that are new to the client, and removals come last, so that ' +
    'a switch to other names and back loses no request (make before break)',
  { skip, timeout: 60_000 },
  async (t) => {
    const rig = await startAtCloud(t);
    await tellingLogs(logsOf(rig), async () => {
      await moveToOnprem(t, rig);
      const back = rig.traffic.untilOnly('cloud', { timeoutMs: 20_000 });
      back.catch(() => undefined);
      await rig.cloudPlane.restart(rig.cloudResources);
      t.comment(`50 responses in a row from cloud again after ${await back} ms`);
      await routeLeadsTo(rig, ownCluster);
      await until('the primary removes what only onprem had', async () => {
        const { clusters } = await rig.envoyConfig();
        return !clusters.has(newCluster);
      });
      await nothingLost(t, rig);
    });
  },
);

/** The names of clusters in Envoy's configuration. */
async function clustersOf(rig: Rig): Promise<readonly string[]> {
  return [...(await rig.envoyConfig()).clusters.keys()].sort();
}

async function guardedNames({ gateway }: Rig): Promise<number> {
  return gateway.metric('tributary_guarded_names', { authority: cloud });
}

t.test(
  'a primary that comes back empty removes nothing while the deletion guard waits (invariant of ' +
    'docs/FAILOVER.md), the guard is visible in metrics and in /authorities, and ends when the names return',
  { skip, timeout: 60_000 },
  async (t) => {
    const rig = await startAtCloud(t);
    await tellingLogs(logsOf(rig), async () => {
      const { gateway, cloudPlane, cloudResources, traffic } = rig;
      const before = await clustersOf(rig);
      await cloudPlane.kill();
      await cloudPlane.restart([]);
      const guarded = await until(
        'the guard holds removals',
        async () => (await guardedNames(rig)) || false,
      );
      t.comment(`${guarded} removals held back`);
      t.ok(guarded >= cloudResources.length / 2, 'at least half of the served names');
      const rows = await gateway.groups(cloud);
      const inTable = rows.reduce((sum, row) => sum + row.guarded, 0);
      t.equal(inTable, await guardedNames(rig), '/authorities and /metrics agree');
      await traffic.untilOnly('cloud', { count: 100 });
      t.strictSame(await clustersOf(rig), before, 'Envoy keeps all clusters');

      await cloudPlane.setResources(cloudResources);
      await until('nothing is held back any more', async () => (await guardedNames(rig)) === 0);
      await traffic.untilOnly('cloud', { count: 100 });
      t.strictSame(await clustersOf(rig), before, 'and keeps them when the names are back');
      await nothingLost(t, rig);
    });
  },
);
