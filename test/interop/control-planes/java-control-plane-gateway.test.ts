/**
 * Goal: the gateway fronts two java-control-planes, which read the Node of every request and ignore
 * initial_resource_versions.
 * Method: two real control planes, the gateway as a process of its own, two Envoys, traffic.
 */
import t from 'tap';

import { freePort } from '../../support/free-port.js';
import { httpListener, inOldStyle, routeToCluster, TYPE_URLS } from '../../support/mesh.js';
import { stoppedWith } from '../../support/stopped-with.js';
import { until } from '../../support/until.js';
import { tellingLogs } from '../peers/child.js';
import { ControlPlane } from '../peers/control-plane.js';
import { readConfigDump } from '../peers/envoy-config.js';
import { byNodeId, frontsBoth } from '../peers/fronted.js';
import { Gateway, skipWithoutGateway } from '../peers/gateway.js';
import { startHttpBackend } from '../peers/http-backend.js';
import { nothingLost, plainMesh, plainMeshAt, startClient } from '../peers/plain-mesh.js';
import { skipWithout } from '../peers/provisioned.js';
import { quickTimers } from '../peers/rig.js';

t.setTimeout(180_000);

const skip = skipWithout('envoy', 'java-control-plane') || skipWithoutGateway();

for (const apiType of ['AGGREGATED_DELTA_GRPC', 'AGGREGATED_GRPC', 'DELTA_GRPC', 'GRPC'] as const) {
  t.test(
    `${apiType}: each Envoy holds what it holds without the gateway, moves to the alternative and back, and ` +
      'loses no request (invariants 8, 17)',
    { skip, timeout: 60_000 },
    async (t) => {
      const fresh = apiType.includes('DELTA') ? { resume: 'fresh' } : {};
      await frontsBoth(t, {
        plane: { program: 'java-control-plane' },
        source: { api_type: apiType, node_in: 'every_request', ...fresh },
        direct: { setNodeOnFirstMessageOnly: false },
        ...byNodeId,
      });
    },
  );
}

t.test(
  'AGGREGATED_GRPC: a prewarmed alternative serves its changes, although its stream requests a route and endpoints ' +
    'that it lacks (docs/SPEC.md, "What each variant of a source does")',
  { skip, timeout: 90_000 },
  async (t) => {
    const nodeId = 'envoy-1';
    const start = (name: string) =>
      stoppedWith(t, ControlPlane.start({ name, program: 'java-control-plane' }));
    const [cloud, onprem] = [await start('cloud'), await start('onprem')];
    const backend = (name: string) => stoppedWith(t, startHttpBackend(name));
    const [first, second, late] = [
      await backend('cloud'),
      await backend('onprem'),
      await backend('late'),
    ];
    const mesh = await plainMesh('cloud', first.port);
    await cloud.setSnapshot(nodeId, mesh.resources);
    const { resources: early } = plainMeshAt('onprem', second.port, mesh.listenerPort);
    await onprem.setSnapshot(nodeId, early);
    const source = ({ xdsPort }: ControlPlane): unknown => ({
      target: `127.0.0.1:${xdsPort}`,
      insecure: true,
      timers: quickTimers,
      api_type: 'AGGREGATED_GRPC',
      node_in: 'every_request',
    });
    const authorityMap = {
      sources: { cloud: source(cloud), onprem: source(onprem) },
      old_style_names: {
        served_by: [{ sources: ['cloud', 'onprem'], failover: { prewarm: 'subscribed' } }],
      },
    };
    const gateway = await stoppedWith(t, Gateway.start({ authorityMap }));
    await tellingLogs([gateway, cloud, onprem], async () => {
      const client = await startClient(t, mesh, { xdsPort: gateway.port, nodeId });
      await client.traffic.untilOnly('cloud');
      await onprem.waitForStream('the alternative is prewarmed', ({ types }) =>
        [TYPE_URLS.assignment, TYPE_URLS.route].every((type) => (types[type]?.responses ?? 0) > 0),
      );

      const other = 'edge/other';
      const more = [
        httpListener('cloud', other, await freePort()),
        routeToCluster('cloud', other, 'edge/web'),
      ];
      await cloud.setSnapshot(nodeId, [...mesh.resources, ...inOldStyle(more)]);
      const routes = async () => readConfigDump(await client.envoy.configDump()).routes;
      await until('the Envoy has its route', async () => (await routes()).has(other));

      const { resources: changed } = plainMeshAt('onprem-late', late.port, mesh.listenerPort);
      const gone = changed.findLast(({ typeUrl }) => typeUrl === TYPE_URLS.assignment)?.name;
      await onprem.setSnapshot(
        nodeId,
        changed.filter(({ name }) => name !== gone),
      );
      await cloud.kill();
      await client.traffic.untilOnly('late');
      await until('the route is that of the alternative', async () =>
        JSON.stringify((await routes()).get('edge/ingress')).includes('onprem-late'),
      );
      await nothingLost(t, client);
    });
  },
);
