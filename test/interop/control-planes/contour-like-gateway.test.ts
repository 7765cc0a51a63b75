/**
 * Goal: the gateway fronts two control planes like Contour: a newer one over ADS, and its own server over
 * a stream per type, where it reads the next request only when it has a response to send.
 * Method: two look-alikes, the gateway as a process of its own, an Envoy, traffic.
 */
import t from 'tap';

import { frontsBoth } from '../peers/fronted.js';
import { skipWithoutGateway } from '../peers/gateway.js';
import { skipWithout } from '../peers/provisioned.js';

t.setTimeout(180_000);

const skip = skipWithout('envoy', 'control-plane') || skipWithoutGateway();

for (const apiType of ['AGGREGATED_GRPC', 'GRPC'] as const) {
  t.test(
    `${apiType}: Envoys hold what they hold without the gateway, move to the alternative and back, and lose no ` +
      'request (invariants 8, 17)',
    {
      skip,
      timeout: 60_000,
      // Contour's own server reads a request only when it has a response to send, so it wants a stream
      // for each name, as Envoy has it (docs/CONTROL-PLANES.md).
      ...(apiType === 'GRPC' && { skip: 'a source has one stream per type' }),
    },
    async (t) => {
      await frontsBoth(t, {
        plane: { like: 'contour' },
        source: { api_type: apiType },
        oldStyle: { differ_by: [] },
        clients: [{ nodeId: 'contour-1' }],
        direct: { apiType: 'GRPC' },
        publish: (plane, _client, resources) => plane.setResources(resources),
      });
    },
  );
}
