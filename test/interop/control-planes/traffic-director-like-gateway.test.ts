/**
 * Goal: the gateway fronts two control planes like Traffic Director, whose content depends on the network
 * in the metadata of the Node.
 * Method: two look-alikes, the gateway as a process of its own, two Envoys, traffic.
 */
import t from 'tap';

import { frontsBoth } from '../peers/fronted.js';
import { skipWithoutGateway } from '../peers/gateway.js';
import { skipWithout } from '../peers/provisioned.js';

t.setTimeout(180_000);

const skip = skipWithout('envoy', 'control-plane') || skipWithoutGateway();
const networks = ['prod', 'staging'] as const;
const clientIn = (network: string) => ({
  nodeId: `${network}-1`,
  metadata: {
    TRAFFICDIRECTOR_NETWORK_NAME: network,
    TRAFFICDIRECTOR_GCP_PROJECT_NUMBER: '123456789012',
  },
});

t.test(
  'each client holds what it holds without the gateway, moves to the alternative and back, and loses no request ' +
    '(invariants 8, 17)',
  { skip, timeout: 60_000 },
  async (t) => {
    await frontsBoth(t, {
      plane: { like: 'traffic-director' },
      source: { api_type: 'AGGREGATED_GRPC', forward_node: 'all' },
      oldStyle: { differ_by: 'all' },
      clients: [clientIn(networks[0]), clientIn(networks[1])],
      direct: { apiType: 'GRPC' },
      publish: (plane, client, resources) => plane.setResources(resources, networks[client]),
    });
  },
);
