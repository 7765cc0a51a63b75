/**
 * The discovery services of the xDS API v3 and their methods. A client uses either the aggregated
 * service (ADS), where each request names its type, or one service for each type. Source: the
 * `service` blocks of `envoy/service/…/v3/*.proto`; a test compares this table with them.
 */
import { TYPE_URL, TYPE_URL_PREFIX } from './type-urls.js';

export interface DiscoveryService {
  /** The name in documents of Envoy, such as `CDS`. */
  readonly shortName: string;
  /** The full protobuf name. */
  readonly service: string;
  /** The type of every request of a per-type service; undefined: each request names its type (ADS). */
  readonly typeUrl: string | undefined;
  readonly methods: {
    /** State of the world, a bidirectional stream. */
    readonly stream: string;
    /** Incremental, a bidirectional stream. */
    readonly delta: string;
    /** State of the world, one request and one response; undefined: ADS has none. */
    readonly fetch: string | undefined;
  };
  /** The path of `fetch` over REST (`google.api.http`); undefined: ADS has none. */
  readonly restPath: string | undefined;
}

/** @param noun the plural in the names of the methods and, in lower case, in the REST path */
function perType(
  shortName: string,
  service: string,
  typeUrl: string,
  noun: string,
  restNoun = noun.toLowerCase(),
): DiscoveryService {
  return {
    shortName,
    service: `envoy.service.${service}`,
    typeUrl,
    methods: { stream: `Stream${noun}`, delta: `Delta${noun}`, fetch: `Fetch${noun}` },
    restPath: `/v3/discovery:${restNoun}`,
  };
}

export const ADS: DiscoveryService = {
  shortName: 'ADS',
  service: 'envoy.service.discovery.v3.AggregatedDiscoveryService',
  typeUrl: undefined,
  methods: {
    stream: 'StreamAggregatedResources',
    delta: 'DeltaAggregatedResources',
    fetch: undefined,
  },
  restPath: undefined,
};

export const DISCOVERY_SERVICES: readonly DiscoveryService[] = [
  ADS,
  perType('CDS', 'cluster.v3.ClusterDiscoveryService', TYPE_URL.cluster, 'Clusters'),
  perType(
    'EDS',
    'endpoint.v3.EndpointDiscoveryService',
    TYPE_URL.clusterLoadAssignment,
    'Endpoints',
  ),
  perType('LDS', 'listener.v3.ListenerDiscoveryService', TYPE_URL.listener, 'Listeners'),
  perType('RDS', 'route.v3.RouteDiscoveryService', TYPE_URL.routeConfiguration, 'Routes'),
  perType(
    'SRDS',
    'route.v3.ScopedRoutesDiscoveryService',
    `${TYPE_URL_PREFIX}envoy.config.route.v3.ScopedRouteConfiguration`,
    'ScopedRoutes',
    'scoped-routes',
  ),
  perType('SDS', 'secret.v3.SecretDiscoveryService', TYPE_URL.secret, 'Secrets'),
  perType(
    'RTDS',
    'runtime.v3.RuntimeDiscoveryService',
    `${TYPE_URL_PREFIX}envoy.service.runtime.v3.Runtime`,
    'Runtime',
  ),
  perType(
    'ECDS',
    'extension.v3.ExtensionConfigDiscoveryService',
    TYPE_URL.typedExtensionConfig,
    'ExtensionConfigs',
    'extension_configs',
  ),
];

const BY_TYPE = new Map(DISCOVERY_SERVICES.map((service) => [service.typeUrl, service]));

/** The service of one type; undefined: the protocol has none. */
export const discoveryServiceOf = (typeUrl: string): DiscoveryService | undefined =>
  BY_TYPE.get(typeUrl);
