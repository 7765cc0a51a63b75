import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { stringify } from 'yaml';

/**
 * Builders for the resources of a small mesh: one listener, one route configuration, clusters with
 * their assignments, all under xdstp names of one authority. As protobuf JSON, which the test
 * control plane encodes.
 */

export const TYPE_URLS = {
  cluster: 'type.googleapis.com/envoy.config.cluster.v3.Cluster',
  assignment: 'type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment',
  listener: 'type.googleapis.com/envoy.config.listener.v3.Listener',
  route: 'type.googleapis.com/envoy.config.route.v3.RouteConfiguration',
} as const;

export type MeshType = keyof typeof TYPE_URLS;

/** The input of the test control plane: `json` is the JSON of a `google.protobuf.Any`. */
export interface MeshResource {
  readonly name: string;
  readonly typeUrl: string;
  readonly json: Readonly<Record<string, unknown>>;
}

export interface MeshSpec {
  /** Envoy also sends it in the header `x-config-of` of every response. */
  readonly authority: string;
  /** Empty, or ends with `/`. Default `edge/`. */
  readonly pathPrefix?: string;
  readonly backendPort: number;
  readonly listenerPort: number;
  /** Filler clusters with an assignment each are added up to this many resources. Default: none. */
  readonly totalResources?: number;
}

const loopback = '127.0.0.1';
const overAds = { ads: {}, resourceApiVersion: 'V3' } as const;

function address(port: number): unknown {
  return { socketAddress: { address: loopback, portValue: port } };
}

/** `xdstp://<authority>/<type>/<path>` */
export function xdstpName(authority: string, type: MeshType, path: string): string {
  return `xdstp://${authority}/${TYPE_URLS[type].slice('type.googleapis.com/'.length)}/${path}`;
}

/** The glob of everything of one type directly under `pathPrefix`. */
export function xdstpGlob(authority: string, type: MeshType, pathPrefix = 'edge/'): string {
  return xdstpName(authority, type, `${pathPrefix}*`);
}

/** Unused by Envoy: it makes the contents of two authorities differ as their names do. */
function configOf(authority: string): unknown {
  return { filterMetadata: { mesh: { configOf: authority } } };
}

function resource(type: MeshType, name: string, content: Record<string, unknown>): MeshResource {
  return { name, typeUrl: TYPE_URLS[type], json: { '@type': TYPE_URLS[type], ...content } };
}

/** A cluster whose endpoints come over ADS from the assignment at the same path. */
export function edsCluster(authority: string, path: string, connectTimeout = '1s'): MeshResource {
  const name = xdstpName(authority, 'cluster', path);
  return resource('cluster', name, {
    name,
    type: 'EDS',
    connectTimeout,
    metadata: configOf(authority),
    edsClusterConfig: {
      serviceName: xdstpName(authority, 'assignment', path),
      edsConfig: overAds,
    },
  });
}

export function assignment(authority: string, path: string, backendPort: number): MeshResource {
  const name = xdstpName(authority, 'assignment', path);
  const lbEndpoints = [{ endpoint: { address: address(backendPort) } }];
  return resource('assignment', name, {
    clusterName: name,
    // gRPC refuses endpoints without a locality, and ignores a locality without weight.
    endpoints: [{ locality: {}, loadBalancingWeight: 1, lbEndpoints }],
  });
}

/** Takes its routes over ADS. */
function connectionManager(authority: string, path: string): Readonly<Record<string, unknown>> {
  return {
    '@type':
      'type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager',
    statPrefix: 'ingress',
    rds: { routeConfigName: xdstpName(authority, 'route', path), configSource: overAds },
    httpFilters: [
      {
        name: 'envoy.filters.http.router',
        typedConfig: {
          '@type': 'type.googleapis.com/envoy.extensions.filters.http.router.v3.Router',
        },
      },
    ],
  };
}

/** A listener whose HTTP connection manager takes its routes over ADS. */
export function httpListener(authority: string, path: string, port: number): MeshResource {
  const name = xdstpName(authority, 'listener', path);
  const manager = connectionManager(authority, path);
  return resource('listener', name, {
    name,
    address: address(port),
    metadata: configOf(authority),
    filterChains: [{ filters: [{ name: 'http', typedConfig: manager }] }],
  });
}

/** The listener for a gRPC client: the same without an address. */
export function apiListener(authority: string, path: string): MeshResource {
  const name = xdstpName(authority, 'listener', path);
  const manager = connectionManager(authority, path);
  return resource('listener', name, { name, apiListener: { apiListener: manager } });
}

/** Routes everything to the cluster at `clusterPath`. */
export function routeToCluster(
  authority: string,
  path: string,
  clusterPath: string,
  headers: Readonly<Record<string, string>> = {},
): MeshResource {
  const name = xdstpName(authority, 'route', path);
  return resource('route', name, {
    name,
    responseHeadersToAdd: Object.entries(headers).map(([key, value]) => ({
      header: { key, value },
    })),
    virtualHosts: [
      {
        name: 'all',
        domains: ['*'],
        routes: [
          {
            match: { prefix: '/' },
            route: { cluster: xdstpName(authority, 'cluster', clusterPath) },
          },
        ],
      },
    ],
  });
}

/**
 * A whole mesh: listener and routes at `<prefix>ingress`, cluster and assignment at `<prefix>web`,
 * and fillers at `<prefix>filler-0000` and so on.
 */
export function mesh(spec: MeshSpec): readonly MeshResource[] {
  const { authority, pathPrefix = 'edge/', backendPort, listenerPort, totalResources = 0 } = spec;
  const [web, ingress] = [`${pathPrefix}web`, `${pathPrefix}ingress`];
  const resources = [
    edsCluster(authority, web),
    assignment(authority, web, backendPort),
    httpListener(authority, ingress, listenerPort),
    routeToCluster(authority, ingress, web, { 'x-config-of': authority }),
  ];
  for (let index = 0; resources.length < totalResources; index += 1) {
    const path = `${pathPrefix}filler-${String(index).padStart(4, '0')}`;
    resources.push(edsCluster(authority, path));
    if (resources.length < totalResources) {
      resources.push(assignment(authority, path, backendPort));
    }
  }
  return resources;
}

/**
 * The resources that a gRPC channel needs to call `service`. All have that path, except those that
 * `cluster` moves.
 */
export function grpcService(
  authority: string,
  service: string,
  backendPort: number,
  cluster = service,
): readonly MeshResource[] {
  return [
    edsCluster(authority, cluster),
    assignment(authority, cluster, backendPort),
    apiListener(authority, service),
    routeToCluster(authority, service, cluster),
  ];
}

/** The same resources under old-style names, which are the paths of their names. References too. */
export function inOldStyle(resources: readonly MeshResource[]): readonly MeshResource[] {
  const text = JSON.stringify(resources).replaceAll(/xdstp:\/\/[^/"]*\/[^/"]*\//g, '');
  return JSON.parse(text) as readonly MeshResource[];
}

/**
 * Writes the resources as one YAML file (`<fileName>.yaml`) into a filesystem source's directory.
 * An existing file is replaced in one step.
 */
export async function writeResourceFile(
  directory: string,
  resources: readonly MeshResource[],
  fileName = 'mesh',
): Promise<void> {
  const path = join(directory, `${fileName}.yaml`);
  await writeFile(`${path}.next`, stringify({ resources: resources.map(({ json }) => json) }));
  await rename(`${path}.next`, path);
}
