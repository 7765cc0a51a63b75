/**
 * Goal: a control plane replaces a cluster, its endpoints and its route in one change, and no request fails.
 * Method: a real control plane whose types are independent caches, so each change sends them in any order; a real Envoy,
 * and traffic all along.
 */
import t from 'tap';

import { assignment, edsCluster, routeToCluster } from '../support/mesh.js';
import { tellingLogs } from './peers/child.js';
import { skipWithoutGateway } from './peers/gateway.js';
import { skipWithout } from './peers/provisioned.js';
import { cloud, startRig } from './peers/rig.js';

const skip = skipWithout('envoy', 'control-plane') || skipWithoutGateway();
const ROUNDS = 10;

t.test(
  'a change that deletes a cluster and moves its route to another one loses no request of a delta client (invariant 6)',
  { skip, timeout: 60_000 },
  async (t) => {
    const { cloudPlane, cloudResources, gateway, envoy, traffic, backends } = await startRig(t);
    await tellingLogs([gateway, envoy, cloudPlane], async () => {
      await traffic.untilOnly('cloud');
      for (let round = 0; round < ROUNDS; round++) {
        const path = `edge/next-${String(round)}`;
        await cloudPlane.patchResources([
          edsCluster(cloud, path),
          assignment(cloud, path, backends.onprem),
          routeToCluster(cloud, 'edge/ingress', path),
        ]);
        await traffic.untilOnly('onprem');
        await cloudPlane.setResources(cloudResources);
        await traffic.untilOnly('cloud');
      }
      t.strictSame((await traffic.stop()).failures, []);
    });
  },
);
