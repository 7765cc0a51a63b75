/**
 * Services that clients call on the connection to their control plane, and that the gateway does not
 * serve: what an operator should know about each. The gateway answers UNIMPLEMENTED.
 */

/** By the full protobuf name of the service. */
const MEANINGS: ReadonlyMap<string, string> = new Map([
  [
    'envoy.service.health.v3.HealthDiscoveryService',
    'the client asks for hosts to health-check (HDS): no check runs; remove hds_config from its bootstrap',
  ],
  [
    'envoy.service.accesslog.v3.AccessLogService',
    'the client sends access logs (ALS): they are lost; send them to a log collector',
  ],
  [
    'envoy.service.metrics.v3.MetricsService',
    'the client sends metrics: they are lost; send them to a metrics collector',
  ],
  [
    'envoy.service.trace.v3.TraceService',
    'the client sends traces: they are lost; send them to a trace collector',
  ],
  [
    'opentelemetry.proto.collector.trace.v1.TraceService',
    'the client sends traces (OpenTelemetry): they are lost; send them to a trace collector',
  ],
  [
    'opentelemetry.proto.collector.metrics.v1.MetricsService',
    'the client sends metrics (OpenTelemetry): they are lost; send them to a metrics collector',
  ],
  [
    'opentelemetry.proto.collector.logs.v1.LogsService',
    'the client sends logs (OpenTelemetry): they are lost; send them to a log collector',
  ],
  [
    'envoy.service.status.v3.ClientStatusDiscoveryService',
    'the client asks for the status of clients (CSDS): call this service on the admin port',
  ],
  [
    'envoy.service.route.v3.VirtualHostDiscoveryService',
    'the client subscribes to virtual hosts (VHDS): send them inside the route configuration',
  ],
  [
    'envoy.service.endpoint.v3.LocalityEndpointDiscoveryService',
    'the client subscribes to endpoints by locality (LEDS): send them inside the ClusterLoadAssignment',
  ],
  [
    'envoy.service.auth.v3.Authorization',
    'the client asks whether it may forward a request: point the filter at an authorization service',
  ],
  [
    'envoy.service.ratelimit.v3.RateLimitService',
    'the client asks for a rate limit: point the filter at a rate limit service',
  ],
  [
    'envoy.service.rate_limit_quota.v3.RateLimitQuotaService',
    'the client asks for rate limit quotas: point the filter at a rate limit service',
  ],
  [
    'envoy.service.ext_proc.v3.ExternalProcessor',
    'the client asks to process a request: point the filter at a processing service',
  ],
  [
    'envoy.service.tap.v3.TapSinkService',
    'the client sends tapped traffic: it is lost; send it to a tap collector',
  ],
  [
    'envoy.service.event_reporting.v3.EventReportingService',
    'the client reports events: they are lost',
  ],
  [
    'grpc.reflection.v1.ServerReflection',
    'the client asks for the list of services (reflection): call the admin port, or see docs/SPEC.md',
  ],
]);

const VERSION_2 = /^envoy\.(service\.discovery|api)\.v2\./;

/**
 * @param path of a gRPC call, `/SERVICE/METHOD`
 * @returns what such a call means
 */
export function meaningOfUnserved(path: string): string {
  const service = path.slice(1, Math.max(1, path.lastIndexOf('/')));
  const known = MEANINGS.get(service);
  if (known !== undefined) return known;
  if (VERSION_2.test(service)) {
    return 'the client uses version 2 of xDS: set transport_api_version and resource_api_version to V3';
  }
  return 'the client calls a service that the gateway does not have';
}
