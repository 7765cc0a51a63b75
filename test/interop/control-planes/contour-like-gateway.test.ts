/**
 * Goal: the gateway fronts two control planes like Contour over each variant that it serves: Contour's own
 * bootstrap has state of the world for each subscription (`GRPC`), for which the gateway has a stream for each type.
 * Method: two go-control-planes as Contour arranges them, the gateway as a process of its own, an Envoy, traffic.
 */
import t from 'tap';

import { frontsBoth } from '../peers/fronted.js';
import { skipWithoutGateway } from '../peers/gateway.js';
import { skipWithout } from '../peers/provisioned.js';

t.setTimeout(180_000);

const skip = skipWithout('envoy', 'control-plane') || skipWithoutGateway();

for (const apiType of ['GRPC', 'AGGREGATED_GRPC', 'AGGREGATED_DELTA_GRPC', 'DELTA_GRPC'] as const) {
  t.test(
    `${apiType}: Envoys hold what they hold without the gateway, move to the alternative and back, and lose no ` +
      'request (invariants 8, 17)',
    { skip, timeout: 60_000 },
    async (t) => {
      await frontsBoth(t, {
        plane: { like: 'contour' },
        source: { api_type: apiType },
        oldStyle: { differ_by: [] },
        clients: [{ nodeId: 'contour-1' }],
        publish: (plane, _client, resources) => plane.setResources(resources),
      });
    },
  );
}
