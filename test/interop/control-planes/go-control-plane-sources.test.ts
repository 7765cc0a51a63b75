/**
 * Goal: the gateway fronts two go-control-planes with a snapshot for each node id over every variant of
 * the protocol, as go-control-plane.test.ts shows them without it.
 * Method: two real control planes, the gateway as a process of its own, two Envoys, traffic.
 */
import t from 'tap';

import { byNodeId, frontsBoth } from '../peers/fronted.js';
import { skipWithoutGateway } from '../peers/gateway.js';
import { skipWithout } from '../peers/provisioned.js';

t.setTimeout(180_000);

const skip = skipWithout('envoy', 'control-plane') || skipWithoutGateway();

for (const apiType of ['AGGREGATED_GRPC', 'DELTA_GRPC', 'GRPC', 'REST'] as const) {
  t.test(
    `${apiType}: each Envoy holds what it holds without the gateway, moves to the alternative and back, and ` +
      'loses no request (invariants 8, 17)',
    { skip, timeout: 60_000 },
    async (t) => {
      const rest = { refresh_delay: '200ms' };
      await frontsBoth(t, {
        plane: { byNode: true, perType: apiType !== 'AGGREGATED_GRPC' },
        source: { api_type: apiType, ...(apiType === 'REST' && rest) },
        ...(apiType === 'REST' && { port: ({ restPort }) => restPort }),
        // Through an ADS stream, in any case, for resources that refer to ADS.
        direct: { apiType: 'DELTA_GRPC' },
        ...byNodeId,
      });
    },
  );
}
