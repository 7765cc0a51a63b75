/**
 * A small mesh under old-style names, as most control planes serve it, for a listener that an Envoy
 * opens; and what tests of every control plane do with it.
 */
import type { Test } from 'tap';

import { freePort } from '../../support/free-port.js';
import { assignment, edsCluster, inOldStyle, mesh, type MeshResource } from '../../support/mesh.js';
import { stoppedWith } from '../../support/stopped-with.js';
import { until } from '../../support/until.js';
import { readConfigDump } from './envoy-config.js';
import { Envoy, type EnvoyOptions } from './envoy.js';
import { startTraffic, type Traffic } from './traffic.js';

/** The content of one identity: its resources name the owner, and its listener has its own port. */
export interface PlainMesh {
  readonly owner: string;
  readonly listenerPort: number;
  readonly backendPort: number;
  readonly resources: readonly MeshResource[];
}

export async function plainMesh(owner: string, backendPort: number): Promise<PlainMesh> {
  const listenerPort = await freePort();
  return { ...plainMeshAt(owner, backendPort, listenerPort) };
}

/** The mesh of another control plane for the same listener. */
export function plainMeshAt(owner: string, backendPort: number, listenerPort: number): PlainMesh {
  const resources = inOldStyle(
    mesh({ authority: owner, backendPort, listenerPort, totalResources: 12 }),
  );
  return { owner, listenerPort, backendPort, resources };
}

export interface Client {
  readonly envoy: Envoy;
  /** Through the listener of the mesh. */
  readonly traffic: Traffic;
}

/** An Envoy that has its configuration, with plain `cds_config` and `lds_config`. */
export async function startClient(
  t: Test,
  { listenerPort }: Pick<PlainMesh, 'listenerPort'>,
  options: EnvoyOptions,
): Promise<Client> {
  const envoy = await stoppedWith(t, Envoy.start({ collections: 'wildcard', ...options }));
  await envoy.ready({ timeoutMs: 30_000 });
  const traffic = startTraffic(`http://127.0.0.1:${listenerPort}/`);
  t.teardown(() => traffic.stop());
  return { envoy, traffic };
}

/** All requests had a response, and Envoy refused no resource. */
export async function nothingLost(t: Test, { envoy, traffic }: Client): Promise<void> {
  const { requests, failures } = await traffic.stop();
  t.strictSame(failures, [], `0 of ${requests} requests lost`);
  const refused = [...(await envoy.stats(''))].filter(
    ([name, count]) => name.endsWith('.update_rejected') && count > 0,
  );
  t.strictSame(refused, [], 'Envoy refused nothing');
}

/** The Envoy has the content of its own mesh and nothing of the other. */
export async function isApart(
  t: Test,
  { envoy }: Client,
  own: PlainMesh,
  other: PlainMesh,
): Promise<void> {
  const dump = await envoy.configDump();
  t.match(dump, `"port_value": ${own.listenerPort}`, `the listener of ${own.owner}`);
  t.match(dump, JSON.stringify(own.owner), `content of ${own.owner}`);
  t.notMatch(dump, `"port_value": ${other.listenerPort}`, `no listener of ${other.owner}`);
  t.notMatch(dump, JSON.stringify(other.owner), `no content of ${other.owner}`);
}

const late = 'edge/late';

/**
 * A cluster is added, its endpoints change, and it is deleted again; each time all else stays.
 *
 * @param publish gives the control plane the complete content of the mesh
 */
export async function changesArrive(
  t: Test,
  { envoy }: Client,
  { owner, backendPort, resources }: PlainMesh,
  publish: (resources: readonly MeshResource[]) => Promise<void>,
): Promise<void> {
  const before = [...readConfigDump(await envoy.configDump()).clusters.keys()].sort();
  const withLate = (port: number): readonly MeshResource[] => [
    ...resources,
    ...inOldStyle([edsCluster(owner, late), assignment(owner, late, port)]),
  ];
  const step = async (
    what: string,
    next: readonly MeshResource[],
    arrived: () => Promise<unknown>,
  ) => {
    const beganMs = performance.now();
    await publish(next);
    await arrived();
    t.comment(`${what} after ${Math.round(performance.now() - beganMs)} ms`);
  };
  const hasPort = (port: number) => async () => envoy.waitForCluster(late, { port });
  await step('added', withLate(backendPort), hasPort(backendPort));
  await step('changed', withLate(backendPort + 1), hasPort(backendPort + 1));
  await step('deleted', resources, () =>
    until('the cluster is gone', async () => !(await envoy.clustersTable()).has(late)),
  );
  const after = [...readConfigDump(await envoy.configDump()).clusters.keys()].sort();
  t.strictSame(after, before, 'the other clusters stay');
}
