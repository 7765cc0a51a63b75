/**
 * The services of the xDS protocol for single types (`envoy.service.*.v3`), and that of all types.
 * Names and paths are those of the protos, whose `google.api.http` options give the REST paths.
 */
import { TYPE_URL } from './type-urls.js';

export interface DiscoveryService {
  readonly typeUrl: string;
  /** Full name, as in a gRPC path. */
  readonly service: string;
  /** The end of each method's name: `Listeners` for `StreamListeners`. */
  readonly noun: string;
  /** The end of the REST path: `listeners` for `POST /v3/discovery:listeners`. */
  readonly restPath: string;
}

export const AGGREGATED_SERVICE = 'envoy.service.discovery.v3.AggregatedDiscoveryService';

export const DISCOVERY_SERVICES: readonly DiscoveryService[] = [
  {
    typeUrl: TYPE_URL.listener,
    service: 'envoy.service.listener.v3.ListenerDiscoveryService',
    noun: 'Listeners',
    restPath: 'listeners',
  },
  {
    typeUrl: TYPE_URL.cluster,
    service: 'envoy.service.cluster.v3.ClusterDiscoveryService',
    noun: 'Clusters',
    restPath: 'clusters',
  },
  {
    typeUrl: TYPE_URL.clusterLoadAssignment,
    service: 'envoy.service.endpoint.v3.EndpointDiscoveryService',
    noun: 'Endpoints',
    restPath: 'endpoints',
  },
  {
    typeUrl: TYPE_URL.routeConfiguration,
    service: 'envoy.service.route.v3.RouteDiscoveryService',
    noun: 'Routes',
    restPath: 'routes',
  },
  {
    typeUrl: TYPE_URL.scopedRouteConfiguration,
    service: 'envoy.service.route.v3.ScopedRoutesDiscoveryService',
    noun: 'ScopedRoutes',
    restPath: 'scoped-routes',
  },
  {
    typeUrl: TYPE_URL.secret,
    service: 'envoy.service.secret.v3.SecretDiscoveryService',
    noun: 'Secrets',
    restPath: 'secrets',
  },
  {
    typeUrl: TYPE_URL.runtime,
    service: 'envoy.service.runtime.v3.RuntimeDiscoveryService',
    noun: 'Runtime',
    restPath: 'runtime',
  },
  {
    typeUrl: TYPE_URL.typedExtensionConfig,
    service: 'envoy.service.extension.v3.ExtensionConfigDiscoveryService',
    noun: 'ExtensionConfigs',
    restPath: 'extension_configs',
  },
];

const BY_TYPE = new Map(DISCOVERY_SERVICES.map((service) => [service.typeUrl, service]));

/** The service of one type; undefined: the protocol has none. */
export const discoveryServiceOf = (typeUrl: string): DiscoveryService | undefined =>
  BY_TYPE.get(typeUrl);
