/**
 * Goal: a gateway restart, with all control planes up or one down, removes nothing from gRPC
 * clients, which read an absent listener or cluster as a deletion; and updates reach them again.
 * Method: as in grpc-failover.test.ts, without an alternative. One more channel needs clusters of
 * both authorities in every response.
 */
import t from 'tap';

import {
  apiListener,
  assignment,
  grpcService,
  routeToCluster,
  xdstpName,
  type MeshResource,
} from '../support/mesh.js';
import { pause, until } from '../support/until.js';
import { tellingLogs } from './peers/child.js';
import {
  nothingLost,
  processesOf,
  skipWithoutGrpcRig,
  startGrpcRig,
  type GrpcRig,
} from './peers/grpc-rig.js';
import { cloud, onprem } from './peers/rig.js';

const ofCloud = `xds://${cloud}/shop`;
const ofOnprem = `xds://${onprem}/shop`;
/**
 * Its listener and routes are cloud's; calls go to onprem's cluster, and other paths to cloud's.
 */
const ofBoth = `xds://${cloud}/both`;
const targets = [ofCloud, ofOnprem, ofBoth];

/** gRPC clients give a new cluster up after 15 s, and some never get it then: it has to come well before. */
const newClusterWithinMs = 12_000;

/** A name of an unreachable authority is UNAVAILABLE after 15 s. */
const givenUpAfterMs = 15_000;

function both(authority: string): readonly MeshResource[] {
  const { json, ...route } = routeToCluster(authority, 'both', 'shop');
  const cluster = xdstpName(onprem, 'cluster', 'shop');
  const calls = { match: { prefix: '/grpc.health' }, route: { cluster } };
  const [host] = json['virtualHosts'] as readonly { readonly routes: readonly unknown[] }[];
  const virtualHosts = [{ ...host, routes: [calls, ...host!.routes] }];
  return [apiListener(authority, 'both'), { ...route, json: { ...json, virtualHosts } }];
}

async function start(t: Parameters<typeof startGrpcRig>[0]): Promise<GrpcRig> {
  const rig = await startGrpcRig(t, { targets, more: both });
  await rig.settle('cloud', [ofCloud]);
  await rig.settle('onprem', [ofOnprem, ofBoth]);
  return rig;
}

const skip = skipWithoutGrpcRig();
t.setTimeout(120_000);

t.test(
  'a restart of the gateway costs gRPC clients no call and no update (invariant 3)',
  { skip, timeout: 60_000 },
  async (t) => {
    const rig = await start(t);
    const { cloudPlane, onpremPlane, gateway, backends } = rig;
    await tellingLogs(processesOf(rig), async () => {
      await cloudPlane.patchResources([assignment(cloud, 'shop', backends.spare)]);
      await rig.settle('spare', [ofCloud]);

      for (const [end, ended, atCloud, atOnprem] of [
        ['terminate', 'exit code 0', 'cloud', 'spare'],
        ['kill', 'SIGKILL', 'spare', 'onprem'],
      ] as const) {
        await gateway[end]();
        t.equal(gateway.exited, ended, 'how it ended');
        await gateway.restart();
        const beganMs = performance.now();
        await cloudPlane.patchResources([assignment(cloud, 'shop', backends[atCloud])]);
        await onpremPlane.patchResources([assignment(onprem, 'shop', backends[atOnprem])]);
        await rig.settle(atCloud, [ofCloud]);
        await rig.settle(atOnprem, [ofOnprem, ofBoth]);
        const afterMs = Math.round(performance.now() - beganMs);
        t.comment(`${end}: updates reach all clients ${afterMs} ms after the restart`);
      }
      await nothingLost(t, rig.clients, {
        [ofCloud]: ['cloud', 'spare'],
        [ofOnprem]: ['onprem', 'spare'],
        [ofBoth]: ['onprem', 'spare'],
      });
    });
  },
);

t.test(
  'a restart while one authority is down deletes nothing at gRPC clients (invariant 3, GRPC 7)',
  { skip, timeout: 60_000 },
  async (t) => {
    const rig = await start(t);
    const { cloudPlane, onpremPlane, onpremResources, gateway, backends } = rig;
    await tellingLogs(processesOf(rig), async () => {
      await onpremPlane.kill();
      await gateway.kill();
      await gateway.restart();
      const beganMs = performance.now();
      await cloudPlane.patchResources([assignment(cloud, 'shop', backends.spare)]);
      await rig.settle('spare', [ofCloud]);
      const afterMs = Math.round(performance.now() - beganMs);
      t.comment(`an update reaches all clients ${afterMs} ms after the restart`);
      // No event to wait for: calls must not fail when those names become UNAVAILABLE.
      await pause(givenUpAfterMs + 1_000 - (performance.now() - beganMs));
      for (const client of rig.clients) {
        t.strictSame(client.failures, [], `${client.language}: no call failed so far`);
      }
      await onpremPlane.restart([...onpremResources, assignment(onprem, 'shop', backends.spare)]);
      await rig.settle('spare', [ofOnprem, ofBoth]);
      await nothingLost(t, rig.clients, {
        [ofCloud]: ['cloud', 'spare'],
        [ofOnprem]: ['onprem', 'spare'],
        [ofBoth]: ['onprem', 'spare'],
      });
    });
  },
);

t.test(
  'a service that moved to a new cluster while the gateway was down is served from it, though the source is silent about the ' +
    'old one (GRPC 7)',
  { skip, timeout: 60_000 },
  async (t) => {
    const rig = await startGrpcRig(t, { targets: [ofCloud] });
    const { cloudPlane, gateway, backends } = rig;
    await tellingLogs(processesOf(rig), async () => {
      await rig.settle('cloud', [ofCloud]);
      await gateway.kill();
      await cloudPlane.setResources(grpcService(cloud, 'shop', backends.spare, 'shop-2'));
      await gateway.restart();
      await rig.settle('spare', [ofCloud], newClusterWithinMs);
      for (const client of rig.clients) {
        t.comment(`${client.language}: ${client.failures.length} calls failed`);
      }
    });
    t.pass('all clients call the new cluster');
  },
);

t.test(
  'a control plane that restarts, and returns before its cache is filled, costs gRPC clients no call (invariant 3)',
  { skip, timeout: 60_000 },
  async (t) => {
    // Two names of each type: the gateway leaves out the version of one, and the control plane is silent about it.
    const pay = `xds://${cloud}/pay`;
    const rig = await startGrpcRig(t, { targets: [ofCloud, pay] });
    const { cloudPlane, cloudResources, gateway, backends } = rig;
    await tellingLogs(processesOf(rig), async () => {
      await rig.settle('cloud', [ofCloud, pay]);
      await cloudPlane.kill();
      await cloudPlane.restart([]);
      await until(
        'the deletion guard holds the names back',
        async () => (await gateway.metric('tributary_guarded_removals_total')) > 0,
      );
      await cloudPlane.setResources([...cloudResources, assignment(cloud, 'shop', backends.spare)]);
      await rig.settle('spare', [ofCloud]);
      await nothingLost(t, rig.clients, { [ofCloud]: ['cloud', 'spare'], [pay]: ['cloud'] });
    });
  },
);
