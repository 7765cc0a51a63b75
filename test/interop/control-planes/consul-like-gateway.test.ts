/**
 * Goal: the gateway fronts two control planes like Consul: it passes on the token and the version of each
 * proxy, and ACKs at once, because the control plane waits for it.
 * Method: two look-alikes, the gateway as a process of its own, two Envoys, traffic.
 */
import t from 'tap';

import { frontsBoth } from '../peers/fronted.js';
import { skipWithoutGateway } from '../peers/gateway.js';
import { skipWithout } from '../peers/provisioned.js';

t.setTimeout(180_000);

const skip = skipWithout('envoy', 'control-plane') || skipWithoutGateway();
const proxies = ['web-1', 'api-1'] as const;
const proxy = (nodeId: string) => ({
  nodeId,
  headers: { 'x-consul-token': `secret-of-${nodeId}` },
});

t.test(
  'one proxy, whose token is in the map: it holds what it holds without the gateway, moves to the alternative and ' +
    'back, and loses no request (invariant 8)',
  { skip, timeout: 60_000 },
  async (t) => {
    const [nodeId] = proxies;
    const token = { key: 'x-consul-token', value: `secret-of-${nodeId}` };
    await frontsBoth(t, {
      plane: { like: 'consul' },
      source: { initial_metadata: [token] },
      clients: [proxy(nodeId)],
      publish: (plane, _client, resources) => plane.setResources(resources, nodeId),
    });
  },
);

t.test(
  'each proxy holds what it holds without the gateway, moves to the alternative and back, and loses no request ' +
    '(invariants 8, 17)',
  { skip, timeout: 60_000 },
  async (t) => {
    await frontsBoth(t, {
      plane: { like: 'consul' },
      source: { forward_node: 'all', forward_headers: ['x-consul-token'] },
      clients: [proxy(proxies[0]), proxy(proxies[1])],
      publish: (plane, client, resources) => plane.setResources(resources, proxies[client]),
    });
  },
);
