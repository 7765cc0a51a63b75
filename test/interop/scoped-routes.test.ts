/**
 * Goal: a real Envoy that speaks state of the world keeps all scoped routes when one of them changes or is removed,
 * although it deletes the scopes that a response leaves out (ENVOY 22).
 * Method: a real go-control-plane, the gateway as a process of its own, and an Envoy with a listener that selects routes by
 * a header. The body of each scope's response is its content.
 */
import t from 'tap';

import { freePort } from '../support/free-port.js';
import { httpRequest } from '../support/http.js';
import { TYPE_URL } from '../../protos/type-urls.js';
import type { MeshResource } from '../support/mesh.js';
import { stoppedWith } from '../support/stopped-with.js';
import { until } from '../support/until.js';
import { tellingLogs } from './peers/child.js';
import { ControlPlane } from './peers/control-plane.js';
import { Envoy } from './peers/envoy.js';
import { Gateway, skipWithoutGateway } from './peers/gateway.js';
import { skipWithout } from './peers/provisioned.js';

t.setTimeout(60_000);
// They mostly wait.
t.jobs = 2;

const skip = skipWithout('envoy', 'control-plane') || skipWithoutGateway();
const SCOPE_HEADER = 'x-scope';
const OVER_ADS = { ads: {}, resourceApiVersion: 'V3' };

function scopedListener(port: number): MeshResource {
  const type = 'type.googleapis.com/envoy.extensions.filters';
  const manager = {
    '@type': `${type}.network.http_connection_manager.v3.HttpConnectionManager`,
    statPrefix: 'scoped',
    scopedRoutes: {
      name: 'scopes',
      scopeKeyBuilder: {
        fragments: [{ headerValueExtractor: { name: SCOPE_HEADER, index: 0 } }],
      },
      rdsConfigSource: OVER_ADS,
      scopedRds: { scopedRdsConfigSource: OVER_ADS },
    },
    httpFilters: [{ name: 'router', typedConfig: { '@type': `${type}.http.router.v3.Router` } }],
  };
  const json = {
    '@type': TYPE_URL.listener,
    name: 'scoped',
    address: { socketAddress: { address: '127.0.0.1', portValue: port } },
    filterChains: [{ filters: [{ name: 'http', typedConfig: manager }] }],
  };
  return { name: 'scoped', typeUrl: TYPE_URL.listener, json };
}

/** Without any cluster go-control-plane does not answer the request for clusters. */
const CLUSTER: MeshResource = {
  name: 'unused',
  typeUrl: TYPE_URL.cluster,
  json: { '@type': TYPE_URL.cluster, name: 'unused', type: 'STATIC', connectTimeout: '1s' },
};

function scope(name: string, content: string): MeshResource {
  const routes = [
    {
      match: { prefix: '/' },
      directResponse: { status: 200, body: { inlineString: content } },
    },
  ];
  const json = {
    '@type': TYPE_URL.scopedRouteConfiguration,
    name,
    key: { fragments: [{ stringKey: name }] },
    routeConfiguration: {
      name: `of ${name}`,
      virtualHosts: [{ name: 'all', domains: ['*'], routes }],
    },
  };
  return { name, typeUrl: TYPE_URL.scopedRouteConfiguration, json };
}

for (const apiType of ['AGGREGATED_DELTA_GRPC', 'AGGREGATED_GRPC']) {
  t.test(
    `behind a source with ${apiType}: scopes that did not change stay, and a removed one goes (ENVOY 22, invariants 2, 3)`,
    { skip, buffered: true },
    async (t) => {
      const port = await freePort();
      const plane = await stoppedWith(t, ControlPlane.start({ name: 'plane', byNode: true }));
      const nodeId = 'scoped';
      const publish = (scopes: Readonly<Record<string, string>>): Promise<void> => {
        const named = Object.entries(scopes).map(([name, content]) => scope(name, content));
        return plane.setSnapshot(nodeId, [CLUSTER, scopedListener(port), ...named]);
      };
      await publish({ a: 'a1', b: 'b1', c: 'c1' });
      const gateway = await stoppedWith(
        t,
        Gateway.start({
          authorityMap: {
            sources: {
              plane: {
                target: `127.0.0.1:${plane.xdsPort}`,
                insecure: true,
                api_type: apiType,
              },
            },
            old_style_names: {
              differ_by: ['id'],
              served_by: [{ sources: ['plane'], failover: { switch_wait: '100ms' } }],
            },
          },
        }),
      );
      const envoy = await stoppedWith(
        t,
        Envoy.start({
          xdsPort: gateway.port,
          nodeId,
          collections: 'wildcard',
          apiType: 'GRPC',
        }),
      );
      const served = async (name: string): Promise<string> => {
        const headers = { [SCOPE_HEADER]: name };
        const { status, body } = await httpRequest(`http://127.0.0.1:${port}/`, { headers });
        return status === 200 ? body : String(status);
      };
      const all = async (): Promise<readonly string[]> => Promise.all(['a', 'b', 'c'].map(served));
      await tellingLogs([gateway, plane, envoy], async () => {
        await envoy.ready({ timeoutMs: 30_000 });
        t.strictSame(await all(), ['a1', 'b1', 'c1']);
        await publish({ a: 'a1', b: 'b2', c: 'c1' });
        await until('the change is served', async () => (await served('b')) === 'b2');
        t.strictSame(await all(), ['a1', 'b2', 'c1'], 'the others stay');
        await publish({ a: 'a1', b: 'b2' });
        await until('the removed scope is gone', async () => (await served('c')) === '404');
        t.strictSame(await all(), ['a1', 'b2', '404'], 'the others stay');
        await gateway.kill();
        await gateway.restart();
        await publish({ a: 'a2', b: 'b2' });
        await until(
          'a change after a restart of the gateway is served',
          async () => (await served('a')) === 'a2',
        );
        t.strictSame(await all(), ['a2', 'b2', '404'], 'the others stay');
      });
    },
  );
}
