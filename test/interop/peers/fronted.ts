/** Two control planes of one kind, the gateway in front of them, and Envoys of different identity. */
import type { Test } from 'tap';

import type { MeshResource } from '../../support/mesh.js';
import { stoppedWith } from '../../support/stopped-with.js';
import { until } from '../../support/until.js';
import { tellingLogs } from './child.js';
import { ControlPlane, type ControlPlaneOptions } from './control-plane.js';
import { readConfigDump, type EnvoyConfig } from './envoy-config.js';
import type { Envoy, EnvoyOptions } from './envoy.js';
import { Gateway } from './gateway.js';
import { startHttpBackend } from './http-backend.js';
import {
  changesArrive,
  isApart,
  nothingLost,
  plainMesh,
  plainMeshAt,
  startClient,
  type Client,
} from './plain-mesh.js';
import { quickTimers } from './rig.js';

type Json = Readonly<Record<string, unknown>>;

export interface Fronted {
  readonly plane: ControlPlaneOptions;
  /** Members of both sources in the authority map, besides target and timers. */
  readonly source?: Json;
  /** The port of the control plane that the source names. Default: `xdsPort`. */
  readonly port?: (plane: ControlPlane) => number;
  /** Members of `old_style_names`, besides `served_by`. */
  readonly oldStyle?: Json;
  /** The identities of one or two Envoys. */
  readonly clients: readonly Partial<EnvoyOptions>[];
  /** How an Envoy connects directly; the Envoys connect to the gateway over delta ADS. */
  readonly direct?: Partial<EnvoyOptions>;
  /** Gives a control plane the complete content for one of the Envoys, counted from 0. */
  readonly publish: (
    plane: ControlPlane,
    client: number,
    resources: readonly MeshResource[],
  ) => Promise<void>;
}

/** All names in use, with the content of clusters, listeners and routes. */
async function settledConfig(envoy: Envoy): Promise<Readonly<Record<string, unknown>>> {
  const sorted = (of: ReadonlyMap<string, unknown>) => [...of].sort(([a], [b]) => (a < b ? -1 : 1));
  const read = async (): Promise<EnvoyConfig | false> => {
    const config = readConfigDump(await envoy.configDump());
    return config.warming.size === 0 && config;
  };
  const { clusters, assignments, listeners, routes } = await until('nothing warms', read);
  return {
    clusters: sorted(clusters),
    assignments: sorted(assignments),
    listeners: sorted(listeners),
    routes: sorted(routes),
  };
}

/**
 * The content of each Envoy is that of a direct connection; the control plane is killed, the Envoys move
 * to the other one and back; changes arrive before and afterwards; no request is lost.
 *
 * @returns the gateway and its first source, which still run
 */
export async function frontsBoth(
  t: Test,
  fronted: Fronted,
): Promise<{ readonly gateway: Gateway; readonly cloud: ControlPlane }> {
  const start = (name: string) => stoppedWith(t, ControlPlane.start({ name, ...fronted.plane }));
  const [cloud, onprem] = [await start('cloud'), await start('onprem')];
  const [cloudBackend, onpremBackend] = [
    await stoppedWith(t, startHttpBackend('cloud')),
    await stoppedWith(t, startHttpBackend('onprem')),
  ];
  const owners = ['mesh-one', 'mesh-two'].slice(0, fronted.clients.length);
  const meshes = await Promise.all(owners.map((owner) => plainMesh(owner, cloudBackend.port)));
  const setCloud = async (): Promise<void> => {
    for (const [at, { resources }] of meshes.entries()) await fronted.publish(cloud, at, resources);
  };
  await setCloud();
  for (const [at, { owner, listenerPort }] of meshes.entries()) {
    const { resources } = plainMeshAt(owner, onpremBackend.port, listenerPort);
    await fronted.publish(onprem, at, resources);
  }

  const direct = await startClient(t, meshes[0]!, {
    xdsPort: cloud.xdsPort,
    ...fronted.clients[0],
    ...fronted.direct,
  });
  const expected = await settledConfig(direct.envoy);
  await direct.traffic.stop();
  await direct.envoy.stop();

  const source = (plane: ControlPlane): Json => ({
    target: `127.0.0.1:${fronted.port?.(plane) ?? plane.xdsPort}`,
    insecure: true,
    timers: quickTimers,
    ...fronted.source,
  });
  const authorityMap = {
    sources: { cloud: source(cloud), onprem: source(onprem) },
    old_style_names: {
      ...fronted.oldStyle,
      served_by: [{ sources: ['cloud', 'onprem'], failover: { hold: '3s' } }],
    },
  };
  const gateway = await stoppedWith(t, Gateway.start({ authorityMap }));
  await tellingLogs([gateway, cloud, onprem], async () => {
    const all: Client[] = [];
    for (const [at, mesh] of meshes.entries()) {
      const identity = fronted.clients[at];
      all.push(await startClient(t, mesh, { xdsPort: gateway.port, ...identity }));
    }
    const everyone = (backend: string): Promise<unknown> =>
      Promise.all(all.map(({ traffic }) => traffic.untilOnly(backend)));
    const areApart = async (): Promise<void> => {
      const [one, two] = meshes;
      if (two === undefined) return;
      await isApart(t, all[0]!, one!, two);
      await isApart(t, all[1]!, two, one!);
    };
    await everyone('cloud');
    t.strictSame(await settledConfig(all[0]!.envoy), expected, 'as with a direct connection');
    await areApart();
    // Ends with a deletion. A name that was deleted just before the outage must not delay the return.
    await changesArrive(t, all[0]!, meshes[0]!, (next) => fronted.publish(cloud, 0, next));

    await cloud.kill();
    await everyone('onprem');
    await cloud.restart();
    await setCloud();
    await everyone('cloud');
    await areApart();
    await changesArrive(t, all[0]!, meshes[0]!, (next) => fronted.publish(cloud, 0, next));
    for (const each of all) await nothingLost(t, each);
    const { streams } = await cloud.streams();
    t.strictSame(
      streams.flatMap(({ nacks }) => nacks),
      [],
      'the gateway refused nothing',
    );
  });
  return { gateway, cloud };
}

/** Two Envoys with the content of their node ids, of go-control-plane and java-control-plane. */
export const byNodeId = {
  clients: [{ nodeId: 'envoy-1' }, { nodeId: 'envoy-2' }],
  publish: (plane, client, resources) => plane.setSnapshot(`envoy-${client + 1}`, resources),
} satisfies Pick<Fronted, 'clients' | 'publish'>;
