/**
 * Goal: go-control-plane with a snapshot for each node id serves real Envoys in each variant of the
 * protocol. This is the baseline for the same variants through the gateway.
 * Method: go-control-plane's own server and SnapshotCache, two Envoys connected directly, traffic.
 */
import t, { type Test } from 'tap';

import type { MeshResource } from '../../support/mesh.js';
import { stoppedWith } from '../../support/stopped-with.js';
import { ControlPlane } from '../peers/control-plane.js';
import { overSource, sourceWithoutAds, type EnvoyOptions } from '../peers/envoy.js';
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
import { grpcVariants } from '../peers/variants.js';

t.setTimeout(120_000);

const skip = skipWithout('envoy', 'control-plane');
const rule =
  'additions, changes and deletions in a snapshot reach the Envoy of its node id and no other (xDS protocol)';

/** Two Envoys with a snapshot each; the content of the first one changes. */
async function serveTwo(t: Test, options: Pick<EnvoyOptions, 'apiType' | 'over'>) {
  const perType = (options.over ?? 'ads') !== 'ads';
  const plane = await stoppedWith(t, ControlPlane.start({ byNode: true, perType }));
  const backend = await stoppedWith(t, startHttpBackend('cloud'));
  const meshes = [
    await plainMesh('mesh-one', backend.port),
    await plainMesh('mesh-two', backend.port),
  ] as const;
  const source = sourceWithoutAds(options);
  const publish = (node: string) => (resources: readonly MeshResource[]) =>
    plane.setSnapshot(node, perType ? overSource(resources, source) : resources);
  await publish('envoy-1')(meshes[0].resources);
  await publish('envoy-2')(meshes[1].resources);
  const client = (mesh: PlainMesh, nodeId: string) =>
    startClient(t, mesh, {
      ...options,
      xdsPort: plane.xdsPort,
      restPort: plane.restPort,
      nodeId,
    });
  const [first, second] = [await client(meshes[0], 'envoy-1'), await client(meshes[1], 'envoy-2')];
  await Promise.all([first, second].map(({ traffic }) => traffic.untilOnly('cloud')));
  await isApart(t, first, meshes[0], meshes[1]);
  await isApart(t, second, meshes[1], meshes[0]);
  await changesArrive(t, first, meshes[0], publish('envoy-1'));
  await nothingLost(t, first);
  await nothingLost(t, second);
  return plane.streams();
}

for (const { title, envoy, method } of grpcVariants) {
  t.test(`${title}: ${rule}`, { skip }, async (t) => {
    const { streams } = await serveTwo(t, envoy);
    const others = streams.filter((stream) => !method.test(stream.method));
    t.strictSame(others, [], 'all streams are of the variant');
    t.strictSame([...new Set(streams.map(({ nodeId }) => nodeId))].sort(), ['envoy-1', 'envoy-2']);
  });
}

t.test(`REST: ${rule}`, { skip }, async (t) => {
  const { streams, fetches } = await serveTwo(t, { over: 'rest' });
  t.strictSame(streams, [], 'it opened no stream');
  const paths = new Set((fetches ?? []).map(({ path }) => path));
  t.strictSame(
    [...paths].sort(),
    ['clusters', 'endpoints', 'listeners', 'routes'].map((type) => `/v3/discovery:${type}`),
  );
  const unchanged = (fetches ?? []).filter(({ status }) => status === 304);
  t.ok(unchanged.length > 0, 'a request with the latest version has no body in response');
});
