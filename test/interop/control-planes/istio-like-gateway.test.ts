/**
 * Goal: the gateway fronts two control planes like istiod: it passes on the whole Node and the token of
 * each proxy, and never mixes their content.
 * Method: two look-alikes, the gateway as a process of its own, Envoys with bootstraps like Istio's,
 * traffic.
 */
import t from 'tap';

import { stoppedWith } from '../../support/stopped-with.js';
import { until } from '../../support/until.js';
import { Envoy } from '../peers/envoy.js';
import { frontsBoth, type Fronted } from '../peers/fronted.js';
import { skipWithoutGateway } from '../peers/gateway.js';
import { istioBearer, istioProxy } from '../peers/istio-proxy.js';
import { skipWithout } from '../peers/provisioned.js';

t.setTimeout(180_000);

const skip = skipWithout('envoy', 'control-plane') || skipWithoutGateway();
const namespaces = ['shop', 'bank'] as const;
// A Node of about 60 KiB, as large sidecars have.
const annotations = Object.fromEntries(
  Array.from({ length: 550 }, (_, at) => [`annotation-${at}`, 'x'.repeat(90)]),
);

const like: Omit<Fronted, 'source'> = {
  plane: { like: 'istio' },
  oldStyle: { differ_by: 'all' },
  clients: [istioProxy('web-1', 'shop', { ANNOTATIONS: annotations }), istioProxy('web-1', 'bank')],
  publish: (plane, client, resources) => plane.setResources(resources, namespaces[client]),
};

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

for (const apiType of ['AGGREGATED_DELTA_GRPC', 'AGGREGATED_GRPC'] as const) {
  t.test(
    `${apiType}: each proxy holds what it holds without the gateway, moves to the alternative and back, and ` +
      'loses no request; a proxy with a wrong token gets nothing (invariants 8, 17)',
    { skip, timeout: 60_000 },
    async (t) => {
      const { gateway, cloud } = await frontsBoth(t, {
        ...like,
        source: { api_type: apiType, forward_node: 'all', forward_headers: ['authorization'] },
      });
      const thief = 'sidecar~10.0.0.1~thief-1';
      const envoy = await stoppedWith(
        t,
        Envoy.start({
          xdsPort: gateway.port,
          collections: 'wildcard',
          ...istioProxy('thief-1', 'shop'),
          headers: { authorization: istioBearer('bank', 'default') },
        }),
      );
      await until('the control plane has refused it', async () => {
        const { streams } = await cloud.streams();
        return streams.some(
          ({ nodeId, ended }) => nodeId.startsWith(thief) && ended === 'PermissionDenied',
        );
      });
      t.not(await envoy.state(), 'LIVE');
      const dump = await envoy.configDump();
      t.notMatch(dump, '"mesh-one"');
      t.notMatch(dump, '"mesh-two"');
    },
  );
}
