import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Test } from 'tap';

import { freePort } from '../../support/free-port.js';
import {
  assignment,
  edsCluster,
  httpListener,
  inOldStyle,
  TYPE_URLS,
  xdstpName,
  type MeshResource,
} from '../../support/mesh.js';
import { stoppedWith } from '../../support/stopped-with.js';
import { pause, until } from '../../support/until.js';
import { removeScratch, scratchDirectory } from './child.js';
import { readConfigDump } from './envoy-config.js';
import { Envoy, type EnvoyOptions } from './envoy.js';
import { Gateway } from './gateway.js';
import { startHttpBackend } from './http-backend.js';
import { cloud } from './rig.js';
import { ScriptedControlPlane } from './scripted-control-plane.js';
import { startTraffic, type Traffic } from './traffic.js';

/** How Envoy subscribes its clusters and listeners. */
export interface Variant {
  readonly title: string;
  readonly collections: 'globs' | 'wildcard';
  readonly apiType: NonNullable<EnvoyOptions['apiType']>;
}

export const deltaGlob: Variant = {
  title: 'delta, xdstp glob',
  collections: 'globs',
  apiType: 'DELTA_GRPC',
};
export const deltaWildcard: Variant = {
  title: 'delta, old-style wildcard',
  collections: 'wildcard',
  apiType: 'DELTA_GRPC',
};
export const sotwGlob: Variant = {
  title: 'state of the world, xdstp glob',
  collections: 'globs',
  apiType: 'GRPC',
};
export const sotwWildcard: Variant = {
  title: 'state of the world, old-style wildcard',
  collections: 'wildcard',
  apiType: 'GRPC',
};

/** The number of clusters that carry traffic. */
export const busyClusters = 62;
const busyPath = (index: number): string => `edge/busy-${String(index).padStart(2, '0')}`;
/** A cluster without traffic: tests change and delete it. */
const sparePath = 'edge/spare';
/** Quick to leave a silent source and to return to it; all else has its default. */
const timers = {
  backoff_base: '100ms',
  backoff_max: '500ms',
  probe_interval: '1s',
  first_response_timeout: '5s',
};

export interface ColdRigOptions {
  readonly variant: Variant;
  /** The gateway has a `state_file`, and has written all names before the test continues. */
  readonly hasStateFile?: boolean;
  /** The gateway keeps content on disk. */
  readonly keepsContent?: boolean;
  /** More resources of the control plane, with xdstp names of `cloud`. */
  readonly more?: readonly MeshResource[];
}

/** A control plane, the gateway, a live Envoy, and traffic to all of its clusters. */
export interface ColdRig {
  readonly plane: ScriptedControlPlane;
  readonly gateway: Gateway;
  readonly envoy: Envoy;
  readonly traffic: Traffic;
  /** More traffic, from a moment at which all clusters answer. */
  readonly startBusyTraffic: () => Promise<Traffic>;
  readonly backendPort: number;
  /** The resource under the name that the variant uses. */
  readonly named: (resource: MeshResource) => MeshResource;
}

/** The teardown of the test stops all of it. */
export async function startColdRig(t: Test, options: ColdRigOptions): Promise<ColdRig> {
  const { variant, hasStateFile = false, keepsContent = false, more = [] } = options;
  const backend = await stoppedWith(t, startHttpBackend('cloud'));
  const listenerPort = await freePort();
  const resources = inStyle(variant, [
    ...busyMesh(backend.port, listenerPort, await freePort()),
    ...more,
  ]);
  const plane = await stoppedWith(t, ScriptedControlPlane.start(resources));
  const state = await scratchDirectory('state');
  t.teardown(() => removeScratch(state));
  const stateFile = join(state, 'names.json');
  const gateway = await startGateway(t, variant, plane.port, [
    ...(hasStateFile ? ['--state-file', stateFile] : []),
    ...(keepsContent ? ['--content-dir', join(state, 'content')] : []),
  ]);
  const envoy = await stoppedWith(t, Envoy.start({ xdsPort: gateway.port, ...variant }));
  await envoy.ready({ timeoutMs: 30_000 });
  const startBusyTraffic = async (): Promise<Traffic> => {
    let next = 0;
    const nextUrl = (): string =>
      `http://127.0.0.1:${listenerPort}/${busyPath(next++ % busyClusters)}`;
    const started = startTraffic(nextUrl, 15);
    t.teardown(() => started.stop());
    await started.untilOnly('cloud', { count: 2 * busyClusters });
    return started;
  };
  const traffic = await startBusyTraffic();
  if (hasStateFile) {
    const names = resources.filter(({ typeUrl }) =>
      [TYPE_URLS.cluster, TYPE_URLS.listener].some((each) => each === typeUrl),
    );
    await until('the state file has all names', async () => {
      const written = await readFile(stateFile, 'utf8');
      return names.every(({ name }) => written.includes(name));
    });
  }
  const named = (resource: MeshResource): MeshResource => inStyle(variant, [resource])[0]!;
  return { plane, gateway, envoy, traffic, startBusyTraffic, backendPort: backend.port, named };
}

/** The gateway with one source, which serves the names of the variant. */
export async function startGateway(
  t: Test,
  { collections }: Variant,
  planePort: number,
  args: readonly string[] = [],
): Promise<Gateway> {
  const served =
    collections === 'globs'
      ? { authorities: { [cloud]: { sources: ['plane'] } } }
      : { old_style_names: { served_by: [{ sources: ['plane'] }] } };
  const plane = { target: `127.0.0.1:${planePort}`, insecure: true, timers };
  return stoppedWith(
    t,
    Gateway.start({
      authorityMap: { sources: { plane }, ...served },
      clientPort: await freePort(),
      args,
    }),
  );
}

const inStyle = ({ collections }: Variant, resources: readonly MeshResource[]) =>
  collections === 'globs' ? resources : inOldStyle(resources);

/** The listener with the traffic comes last: an answer in several responses starts without it. */
export function busyMesh(
  backendPort: number,
  listenerPort: number,
  spareListenerPort: number,
): readonly MeshResource[] {
  const busy = Array.from({ length: busyClusters }, (_, index) => busyPath(index));
  return [
    ...[sparePath, ...busy].flatMap((path) => [
      edsCluster(cloud, path),
      assignment(cloud, path, backendPort),
    ]),
    httpListener(cloud, 'edge/spare', spareListenerPort),
    httpListener(cloud, 'edge/busy', listenerPort),
    routesTo(busy, 'edge/busy'),
    routesTo(busy, 'edge/spare'),
  ];
}

/** A request for `/<path>` goes to the cluster at that path. */
function routesTo(paths: readonly string[], routePath: string): MeshResource {
  const name = xdstpName(cloud, 'route', routePath);
  const routes = paths.map((path) => ({
    match: { path: `/${path}` },
    route: { cluster: xdstpName(cloud, 'cluster', path) },
  }));
  const virtualHosts = [{ name: 'all', domains: ['*'], routes }];
  const typeUrl = TYPE_URLS.route;
  return { name, typeUrl, json: { '@type': typeUrl, name, virtualHosts } };
}

/** Waits `forMs` under traffic; no request since the start may have failed. */
export async function nothingFails(t: Test, { traffic }: ColdRig, forMs: number): Promise<void> {
  await pause(forMs);
  const { requests, failures } = traffic.totals();
  const [first] = failures;
  const example = first && `, the first after ${first.atMs} ms: ${first.text}`;
  t.equal(failures.length, 0, `${failures.length} of ${requests} requests failed${example ?? ''}`);
}

/** Envoy has removed no cluster and no listener so far, not even one without traffic. */
export async function nothingIsRemoved(t: Test, { envoy }: ColdRig): Promise<void> {
  for (const stat of ['cluster_manager.cluster_removed', 'listener_manager.listener_removed']) {
    const removed = (await envoy.stats(stat)).get(stat);
    t.equal(removed, 0, `${stat} of Envoy is ${removed}`);
  }
}

/** Envoy has every busy cluster, and gets a change and a deletion of the control plane. */
export async function envoyFollows(t: Test, rig: ColdRig): Promise<void> {
  const { plane, envoy, named } = rig;
  const spare = named(edsCluster(cloud, sparePath, '7s'));
  plane.put(spare);
  await until('the changed cluster is active in Envoy', async () => {
    const { clusters, warming } = readConfigDump(await envoy.configDump());
    return clusters.get(spare.name)?.['connect_timeout'] === '7s' && !warming.has(spare.name);
  });
  plane.delete(TYPE_URLS.cluster, spare.name);
  await until('the deleted cluster is gone from Envoy', async () => {
    const { clusters } = readConfigDump(await envoy.configDump());
    return !clusters.has(spare.name);
  });
  const { clusters } = readConfigDump(await envoy.configDump());
  const busy = [...clusters.keys()].filter((name) => name.includes('edge/busy-'));
  t.equal(busy.length, busyClusters, 'Envoy has all other clusters');
}
