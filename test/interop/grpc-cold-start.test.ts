/**
 * Goal: a gateway that starts cold removes nothing from gRPC clients, whatever version they resume
 * with and whatever its control planes answer; and a resource that a client refused is not sent to
 * it again.
 * Method: as in grpc-restart.test.ts. All clients refuse one of the two clusters of a route, and
 * grpc-js, which requests all listeners on one stream, refuses one of its listeners too.
 */
import t, { type Test } from 'tap';

import {
  apiListener,
  assignment,
  edsCluster,
  grpcService,
  routeToCluster,
  xdstpName,
  type MeshResource,
} from '../support/mesh.js';
import { stoppedWith } from '../support/stopped-with.js';
import { pause, until } from '../support/until.js';
import { tellingLogs } from './peers/child.js';
import type { GrpcClient } from './peers/grpc-client.js';
import {
  namesOf,
  nothingLost,
  processesOf,
  skipWithoutGrpcRig,
  startGrpcRig,
  streamsOf,
  type GrpcRig,
  type GrpcRigOptions,
} from './peers/grpc-rig.js';
import { cloud, onprem, quickTimers } from './peers/rig.js';
import { ScriptedControlPlane } from './peers/scripted-control-plane.js';

/** More than twice the time from a change at the gateway to its response. */
const quietMs = 2_000;

const target = (service: string, authority = cloud): string => `xds://${authority}/${service}`;
/** Clients accept all resources of this service. */
const whole = 'shop';
/** The route of this service names a good cluster, for the calls, and one that clients refuse. */
const partial = 'partial';
/** Clients refuse the listener of this service. */
const broken = 'broken';
const refusedCluster = 'refused';

/** Calls go to the cluster of the same path, and other requests to `others`. */
function partialRoute(others: readonly string[]): MeshResource {
  const { json, ...rest } = routeToCluster(cloud, partial, partial);
  const [host] = json['virtualHosts'] as readonly Record<string, unknown>[];
  const routes = [
    {
      match: { prefix: '/grpc.health' },
      route: { cluster: xdstpName(cloud, 'cluster', partial) },
    },
    ...others.map((cluster, index) => ({ match: { prefix: `/${index}` }, route: { cluster } })),
  ];
  return { ...rest, json: { ...json, virtualHosts: [{ ...host, routes }] } };
}

/** Lacks the name of its assignment, which a client does not derive from an `xdstp:` name. */
function clusterToRefuse(): MeshResource {
  const { json, ...rest } = edsCluster(cloud, refusedCluster);
  return { ...rest, json: { ...json, edsClusterConfig: { edsConfig: { ads: {} } } } };
}

/** Has content of another type. */
function listenerToRefuse(): MeshResource {
  const { json, ...rest } = apiListener(cloud, broken);
  return {
    ...rest,
    json: { ...json, apiListener: { apiListener: edsCluster(cloud, broken).json } },
  };
}

const refusedName = xdstpName(cloud, 'cluster', refusedCluster);

/** All clients have NACKed their first response of clusters, and call the accepted ones. */
async function startRefusing(t: Test, options: Partial<GrpcRigOptions> = {}): Promise<GrpcRig> {
  const rig = await startGrpcRig(t, {
    targets: [target(whole), target(partial)],
    targetsOf: { js: [target(broken)] },
    more: (of) =>
      of === cloud
        ? [apiListener(cloud, partial), partialRoute([refusedName]), listenerToRefuse()]
        : [],
    ...options,
  });
  const { cloudPlane, clients, gateway, backends } = rig;
  await tellingLogs(processesOf(rig), async () => {
    // Only a first response with both leaves a client with an empty version.
    await asksForClusters(rig, 3);
    await cloudPlane.patchResources([
      edsCluster(cloud, partial),
      clusterToRefuse(),
      assignment(cloud, partial, backends.cloud),
    ]);
    await rig.settle('cloud', [target(whole), target(partial)]);
    await until('each client has refused a cluster, and grpc-js a listener', async () => {
      const of = (type: string): Promise<number> =>
        gateway.metric('tributary_client_nacks_total', { type });
      return (await of('Cluster')) >= clients.length && (await of('Listener')) >= 1;
    });
  });
  return rig;
}

/** Waits until each client subscribes `count` clusters. */
async function asksForClusters({ gateway, clients }: GrpcRig, count: number): Promise<void> {
  for (const { language } of clients) {
    await until(`${language} asks for ${count} clusters`, async () => {
      const streams = await streamsOf(gateway, language);
      const names = streams.map(({ subscriptions }) => namesOf(subscriptions, 'Cluster'));
      return names.reduce((sum, each) => sum + each, 0) === count;
    });
  }
}

/**
 * Waits until all clients have reconnected, and then until they had no event for a while.
 *
 * @param targets Each has a stream of its own; grpc-js has one for all.
 * @param forMs The least time to wait.
 */
async function nothingHappens(
  t: Test,
  { gateway, clients }: GrpcRig,
  targets: number,
  forMs: number,
): Promise<void> {
  const beganMs = performance.now();
  const isBack = async ({ language }: GrpcClient): Promise<boolean> =>
    (await streamsOf(gateway, language)).length === (language === 'js' ? 1 : targets);
  for (const client of clients) await until(`${client.language} is back`, () => isBack(client));
  const backMs = performance.now() - beganMs;
  t.comment(`all clients are back after ${Math.round(backMs)} ms`);
  await pause(Math.max(forMs - backMs, quietMs));
}

/** No call of these targets has failed. */
function noneFailed(t: Test, { clients }: GrpcRig, targets: readonly string[]): void {
  for (const { language, failures } of clients) {
    const failed = failures.filter((failure) => targets.includes(failure.target));
    const errors = [...new Set(failed.map(({ error }) => error))];
    t.equal(failed.length, 0, `${language}: ${failed.length} calls failed`, { errors });
  }
}

const skip = skipWithoutGrpcRig();
t.setTimeout(180_000);

t.test(
  'a client that refused a part of its first clusters loses nothing when the gateway is killed and ' +
    'starts while no source is reachable: no set is sent because of an error (GRPC 7)',
  { skip, timeout: 90_000 },
  async (t) => {
    const rig = await startRefusing(t);
    const { cloudPlane, onpremPlane, cloudResources, gateway, backends } = rig;
    const targets = [target(whole), target(partial)];
    await tellingLogs(processesOf(rig), async () => {
      await cloudPlane.kill();
      await onpremPlane.kill();
      await gateway.kill();
      await gateway.restart();
      await nothingHappens(t, rig, targets.length, 10_000);
      noneFailed(t, rig, targets);
      await cloudPlane.restart([
        ...cloudResources,
        edsCluster(cloud, partial),
        clusterToRefuse(),
        ...[whole, partial].map((service) => assignment(cloud, service, backends.spare)),
      ]);
      await rig.settle('spare', targets);
      noneFailed(t, rig, targets);
    });
  },
);

t.test(
  'a gateway that starts together with a control plane that has nothing for its first seconds deletes ' +
    'no resource that its clients resume: the deletion guard holds it back',
  { skip, timeout: 90_000 },
  async (t) => {
    // Enough for the deletion guard.
    const services = ['list', 'pay', 'ship', 'shop'];
    const targets = services.map((service) => target(service));
    const plane = await stoppedWith(t, ScriptedControlPlane.start());
    const rig = await startGrpcRig(t, { targets, cloudPort: plane.port });
    const { gateway, backends } = rig;
    const meshTo = (port: number): readonly MeshResource[] =>
      services.flatMap((service) => grpcService(cloud, service, port));
    const put = (resources: readonly MeshResource[]): void => {
      for (const resource of resources) plane.put(resource);
    };
    await tellingLogs(processesOf(rig), async () => {
      put(meshTo(backends.cloud));
      await rig.settle('cloud', targets);
      plane.crash();
      await gateway.kill();
      for (const { typeUrl, name } of meshTo(backends.cloud)) plane.delete(typeUrl, name);
      await plane.restart();
      await gateway.restart();
      await nothingHappens(t, rig, targets.length, 5_000);
      noneFailed(t, rig, targets);
      put(meshTo(backends.spare));
      await rig.settle('spare', targets);
      const answers = targets.map((each) => [each, ['cloud', 'spare']] as const);
      await nothingLost(t, rig.clients, Object.fromEntries(answers));
    });
  },
);

t.test(
  'an unavailable name resends neither a refused resource nor held ones',
  { skip, timeout: 90_000 },
  async (t) => {
    const rig = await startRefusing(t, {
      targetsOf: { js: [target(broken), target('shop', onprem)] },
      // Onprem gives no response, and the gateway must not know that before its control plane is
      // killed.
      timers: { ...quickTimers, first_response_timeout: '30s' },
      silent: 'onprem',
    });
    const { cloudPlane, onpremPlane, gateway } = rig;
    const targets = [target(whole), target(partial)];
    const sent = async (): Promise<Record<string, number>> =>
      Object.fromEntries(
        await Promise.all(
          ['Cluster', 'Listener'].map(async (type): Promise<[string, number]> => [
            type,
            await gateway.metric('tributary_client_responses_total', { type }),
          ]),
        ),
      );
    await tellingLogs(processesOf(rig), async () => {
      const missing = xdstpName(onprem, 'cluster', 'missing');
      await cloudPlane.patchResources([partialRoute([refusedName, missing])]);
      await asksForClusters(rig, 4);
      const before = await sent();
      await onpremPlane.kill();
      await until('the gateway considers onprem lost', async () => {
        const groups = await gateway.groups(onprem);
        return groups.some(({ state }) => state === 'cached');
      });
      // No event to wait for: nothing may be sent.
      await pause(quietMs);
      t.strictSame(await sent(), before, 'responses with full sets');
      noneFailed(t, rig, targets);
    });
  },
);
