/**
 * Goal: the gateway fronts two java-control-planes, which read the Node of every request and ignore
 * initial_resource_versions.
 * Method: two real control planes, the gateway as a process of its own, two Envoys, traffic.
 */
import t from 'tap';

import { byNodeId, frontsBoth } from '../peers/fronted.js';
import { skipWithoutGateway } from '../peers/gateway.js';
import { skipWithout } from '../peers/provisioned.js';

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
