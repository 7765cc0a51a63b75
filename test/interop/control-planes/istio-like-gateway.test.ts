/**
 * Goal: the gateway fronts two control planes like istiod: it passes on the whole Node and the token of
 * each proxy, and never mixes their content.
 * Method: two look-alikes, the gateway as a process of its own, Envoys with bootstraps like Istio's,
 * traffic.
 */
import t from 'tap';

import { frontsBoth } from '../peers/fronted.js';
import { skipWithoutGateway } from '../peers/gateway.js';
import { istioProxy } from '../peers/istio-proxy.js';
import { skipWithout } from '../peers/provisioned.js';

t.setTimeout(180_000);

const skip = skipWithout('envoy', 'control-plane') || skipWithoutGateway();

t.test(
  'one proxy, whose token and metadata keys are in the map: it holds what it holds without the ' +
    'gateway, moves to the alternative and back, and loses no request (invariant 8)',
  { skip, timeout: 60_000 },
  async (t) => {
    const proxy = istioProxy('web-1', 'shop');
    const { metadata, headers } = proxy;
    const token = { key: 'authorization', value: headers['authorization'] };
    await frontsBoth(t, {
      plane: { like: 'istio' },
      source: { initial_metadata: [token] },
      oldStyle: { differ_by: ['id', ...Object.keys(metadata).map((key) => `metadata.${key}`)] },
      clients: [proxy],
      publish: (plane, _client, resources) => plane.setResources(resources, 'shop'),
    });
  },
);
