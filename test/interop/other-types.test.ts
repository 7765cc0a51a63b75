/**
 * Goal: a real Envoy gets filters (ECDS), runtime values (RTDS) and clusters on demand (ODCDS), and keeps them while the gateway
 * and the control plane restart (docs/SPEC.md, "What the gateway serves").
 * Method: a real go-control-plane, the gateway as a process of its own, and an Envoy under traffic whose filter adds a header to
 * responses. The cluster on demand is outside of the glob.
 */
import t from 'tap';

import { TYPE_URL } from '../../protos/type-urls.js';
import { freePort } from '../support/free-port.js';
import { httpJson, httpRequest } from '../support/http.js';
import type { MeshResource } from '../support/mesh.js';
import { stoppedWith } from '../support/stopped-with.js';
import { until } from '../support/until.js';
import { tellingLogs } from './peers/child.js';
import { ControlPlane } from './peers/control-plane.js';
import { bootstrap, Envoy } from './peers/envoy.js';
import { Gateway, skipWithoutGateway } from './peers/gateway.js';
import { startHttpBackend } from './peers/http-backend.js';
import { skipWithout } from './peers/provisioned.js';
import { startTraffic } from './peers/traffic.js';

t.setTimeout(60_000);
// They mostly wait.
t.jobs = 2;

const skip = skipWithout('envoy', 'control-plane') || skipWithoutGateway();
const AUTHORITY = 'cloud.example.com';
const PREFIX = 'type.googleapis.com/';
const FILTERS = `${PREFIX}envoy.extensions.filters`;
const MUTATION = `${FILTERS}.http.header_mutation.v3.HeaderMutation`;
const OVER_ADS = { ads: {}, resourceApiVersion: 'V3' };
const EXTENSION = `${PREFIX}envoy.config.core.v3.TypedExtensionConfig`;
const RUNTIME = `${PREFIX}envoy.service.runtime.v3.Runtime`;

const nameOf = (typeUrl: string, path: string): string =>
  `xdstp://${AUTHORITY}/${typeUrl.slice(PREFIX.length)}/${path}`;

function resource(typeUrl: string, path: string, content: object): MeshResource {
  const name = nameOf(typeUrl, path);
  return { name, typeUrl, json: { '@type': typeUrl, name, ...content } };
}

const FILTER = nameOf(EXTENSION, 'edge/header');
const VALUES = nameOf(RUNTIME, 'edge/values');
const LAZY = nameOf(TYPE_URL.cluster, 'lazy/backend');
const address = (port: number) => ({
  socketAddress: { address: '127.0.0.1', portValue: port },
});

function clusterTo(path: string, port: number): MeshResource {
  const endpoints = [{ lbEndpoints: [{ endpoint: { address: address(port) } }] }];
  return resource(TYPE_URL.cluster, path, {
    type: 'STATIC',
    connectTimeout: '1s',
    loadAssignment: { clusterName: path, endpoints },
  });
}

/** `/lazy` leads to the cluster on demand, everything else to the one of the glob. */
function listener(port: number): MeshResource {
  const onDemand = {
    '@type': `${FILTERS}.http.on_demand.v3.OnDemand`,
    odcds: { source: OVER_ADS, timeout: '5s' },
  };
  const routes = [
    { match: { prefix: '/lazy' }, route: { cluster: LAZY } },
    { match: { prefix: '/' }, route: { cluster: nameOf(TYPE_URL.cluster, 'edge/backend') } },
  ];
  const manager = {
    '@type': `${FILTERS}.network.http_connection_manager.v3.HttpConnectionManager`,
    statPrefix: 'other',
    routeConfig: {
      name: 'inline',
      validateClusters: false,
      virtualHosts: [{ name: 'all', domains: ['*'], routes }],
    },
    httpFilters: [
      { name: FILTER, configDiscovery: { configSource: OVER_ADS, typeUrls: [MUTATION] } },
      { name: 'on-demand', typedConfig: onDemand },
      { name: 'router', typedConfig: { '@type': `${FILTERS}.http.router.v3.Router` } },
    ],
  };
  return resource(TYPE_URL.listener, 'edge/listener', {
    address: address(port),
    filterChains: [{ filters: [{ name: 'http', typedConfig: manager }] }],
  });
}

/** The content `version` of the filter and of the runtime layer. */
const versioned = (version: string): readonly MeshResource[] => [
  resource(EXTENSION, 'edge/header', {
    typedConfig: {
      '@type': MUTATION,
      mutations: {
        responseMutations: [{ append: { header: { key: 'x-version', value: version } } }],
      },
    },
  }),
  resource(RUNTIME, 'edge/values', { layer: { version } }),
];

for (const apiType of ['DELTA_GRPC', 'GRPC'] as const) {
  t.test(
    `${apiType}: filters, runtime values and a cluster on demand come, change, and stay through restarts (invariants 2, 3)`,
    { skip, buffered: true },
    async (t) => {
      const backend = await startHttpBackend('backend');
      t.teardown(() => backend.stop());
      const port = await freePort();
      const plane = await stoppedWith(t, ControlPlane.start({ name: 'plane' }));
      const publish = (version: string): Promise<void> => {
        const clusters = ['edge', 'lazy'].map((path) => clusterTo(`${path}/backend`, backend.port));
        return plane.setResources([...clusters, listener(port), ...versioned(version)]);
      };
      await publish('1');
      const source = { target: `127.0.0.1:${plane.xdsPort}`, insecure: true };
      const timers = { backoff_base: '100ms', backoff_max: '500ms' };
      const gateway = await stoppedWith(
        t,
        Gateway.start({
          authorityMap: {
            sources: { plane: { ...source, timers } },
            authorities: {
              [AUTHORITY]: { sources: ['plane'], failover: { switch_wait: '100ms' } },
            },
          },
        }),
      );
      const layers = [
        {
          name: 'values',
          rtds_layer: { name: VALUES, rtds_config: { ads: {}, resource_api_version: 'V3' } },
        },
      ];
      const written = bootstrap({ xdsPort: gateway.port, authority: AUTHORITY, apiType }) as object;
      const envoy = await stoppedWith(
        t,
        Envoy.startWith({ ...written, layered_runtime: { layers } }),
      );
      const isAt = async (version: string): Promise<boolean> => {
        const answer = await fetch(`http://127.0.0.1:${port}/`);
        await answer.text();
        const { entries } = (await httpJson(`${envoy.admin}/runtime`)) as {
          readonly entries: Readonly<Record<string, { readonly final_value: string }>>;
        };
        return (
          answer.headers.get('x-version') === version && entries['version']?.final_value === version
        );
      };
      await tellingLogs([gateway, plane, envoy], async () => {
        await envoy.ready({ timeoutMs: 30_000 });
        await until('the first content is in effect', () => isAt('1'));
        const lazy = await httpRequest(`http://127.0.0.1:${port}/lazy`);
        t.strictSame([lazy.status, lazy.body], [200, 'backend'], 'a cluster on demand');
        let requests = 0;
        const traffic = startTraffic(
          () => `http://127.0.0.1:${port}/${requests++ % 2 ? 'lazy' : ''}`,
        );
        t.teardown(() => traffic.stop());
        await publish('2');
        await until('a change is in effect', () => isAt('2'));
        await gateway.kill();
        await publish('3');
        await gateway.restart();
        await until('a change during a restart of the gateway is in effect', () => isAt('3'));
        await plane.kill();
        await plane.restart([]);
        await publish('4');
        await until('a change after a restart of the control plane is in effect', () => isAt('4'));
        const { failures } = await traffic.stop();
        t.strictSame(failures, [], 'no request fails');
      });
    },
  );
}
