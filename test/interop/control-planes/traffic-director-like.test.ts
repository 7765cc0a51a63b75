/**
 * Goal: the look-alike of Traffic Director serves real clients as its documentation says: state of the
 * world, old-style and xdstp names, content by network, load reports. This is the baseline for such a
 * control plane behind the gateway.
 * Method: the look-alike in control-plane/like_traffic_director.go, Envoys and a grpc-go client connected
 * directly, traffic.
 */
import t, { type Test } from 'tap';

import { grpcService, inOldStyle, type MeshResource } from '../../support/mesh.js';
import { stoppedWith } from '../../support/stopped-with.js';
import { until } from '../../support/until.js';
import { ControlPlane } from '../peers/control-plane.js';
import { Envoy } from '../peers/envoy.js';
import { startGrpcBackend } from '../peers/grpc-backend.js';
import { grpcBootstrap, GrpcClient, skipWithoutGrpcClient } from '../peers/grpc-client.js';
import { startHttpBackend } from '../peers/http-backend.js';
import {
  changesArrive,
  isApart,
  nothingLost,
  plainMesh,
  startClient,
  type PlainMesh,
} from '../peers/plain-mesh.js';
import { skipWithout } from '../peers/provisioned.js';

t.setTimeout(120_000);

const skip = skipWithout('envoy', 'control-plane');
const skipGrpc = skipWithout('control-plane') || skipWithoutGrpcClient('go');
const authority = 'traffic-director-global.xds.googleapis.com';

const metadataOf = (network: string) => ({
  TRAFFICDIRECTOR_NETWORK_NAME: network,
  TRAFFICDIRECTOR_GCP_PROJECT_NUMBER: '123456789012',
});
const idIn = (network: string): string =>
  `projects/123456789012/networks/${network}/nodes/0b3b1a4c`;

async function startPlane(t: Test) {
  const plane = await stoppedWith(t, ControlPlane.start({ like: 'traffic-director' }));
  const backend = await stoppedWith(t, startHttpBackend('cloud'));
  const [prod, staging] = [
    await plainMesh('prod', backend.port),
    await plainMesh('staging', backend.port),
  ];
  await plane.setResources(prod.resources, 'prod');
  await plane.setResources(staging.resources, 'staging');
  return { plane, prod, staging };
}

t.test(
  'state of the world: a client gets the content of its network, and reports its load (LRS)',
  { skip },
  async (t) => {
    const { plane, prod, staging } = await startPlane(t);
    const client = (mesh: PlainMesh, nodeId: string) =>
      startClient(t, mesh, {
        xdsPort: plane.xdsPort,
        apiType: 'GRPC',
        nodeId,
        metadata: metadataOf(mesh.owner),
        reportLoads: true,
      });
    const [first, second] = [await client(prod, 'prod-1'), await client(staging, 'staging-1')];
    await Promise.all([first, second].map(({ traffic }) => traffic.untilOnly('cloud')));
    await isApart(t, first, prod, staging);
    await isApart(t, second, staging, prod);
    const reported = async (): Promise<number | undefined> =>
      (await plane.clientLoads())['prod-1']?.succeeded['edge/web'];
    // Envoy counts a cluster from the beginning of the first period in which it has the cluster.
    await until('the cluster is reported', async () => (await reported()) !== undefined);
    const counted = (await reported()) ?? 0;
    const before = first.traffic.totals().requests;
    await changesArrive(t, first, prod, (resources) => plane.setResources(resources, 'prod'));
    await first.traffic.untilOnly('cloud');
    await nothingLost(t, first);
    await nothingLost(t, second);
    const { requests } = first.traffic.totals();
    const succeeded = await until('all requests since then are reported', async () => {
      const count = (await reported()) ?? 0;
      return count - counted >= requests - before && count;
    });
    t.ok(succeeded <= requests, `${succeeded} of ${requests} requests are reported`);
    const loads = (await plane.clientLoads())['prod-1'];
    t.strictSame([loads?.streams, loads?.failed['edge/web']], [1, 0]);
  },
);

t.test('a client whose Node names no network and project is refused', { skip }, async (t) => {
  const { plane, prod } = await startPlane(t);
  const options = { xdsPort: plane.xdsPort, collections: 'wildcard', apiType: 'GRPC' } as const;
  const envoy = await stoppedWith(t, Envoy.start({ ...options, nodeId: 'nobody' }));
  const ended = await until('two streams have ended', async () => {
    const { streams } = await plane.streams();
    const own = streams.filter((stream) => stream.ended !== '');
    return own.length >= 2 && own;
  });
  t.ok(ended.every((stream) => stream.ended === 'PermissionDenied' && stream.responses === 0));
  t.not(await envoy.state(), 'LIVE');
  const named = await startClient(t, prod, { ...options, nodeId: idIn('prod') });
  await named.traffic.untilOnly('cloud');
  await nothingLost(t, named);
});

for (const [style, target, styled] of [
  ['old-style', 'xds:///shop', inOldStyle],
  ['xdstp', `xds://${authority}/shop`, (resources: readonly MeshResource[]) => resources],
] as const) {
  t.test(
    `grpc-go follows ${style} names, and reports its load to the server that names itself (LRS)`,
    { skip: skipGrpc },
    async (t) => {
      const plane = await stoppedWith(t, ControlPlane.start({ like: 'traffic-director' }));
      const first = await stoppedWith(t, startGrpcBackend('first'));
      const second = await stoppedWith(t, startGrpcBackend('second'));
      const serviceAt = (port: number): readonly MeshResource[] =>
        styled(grpcService(authority, 'shop', port)).map((resource) =>
          resource.typeUrl.endsWith('Cluster')
            ? { ...resource, json: { ...resource.json, lrsServer: { self: {} } } }
            : resource,
        );
      await plane.setResources(serviceAt(first.port), 'prod');
      const bootstrap = grpcBootstrap(plane.xdsPort, [authority], {
        node: { id: idIn('prod') },
      });
      const client = await stoppedWith(
        t,
        GrpcClient.start({ language: 'go', targets: [target], bootstrap }),
      );
      await client.settles(target, 'first');
      await plane.setResources(serviceAt(second.port), 'prod');
      await client.settles(target, 'second');
      await until('its load is reported', async () => {
        const loads = (await plane.clientLoads())[idIn('prod')];
        return Object.values(loads?.succeeded ?? {}).some((count) => count > 20);
      });
      t.strictSame(client.failures, []);
    },
  );
}
