/**
 * Reads an Envoy ConfigSource (`envoy.config.core.v3.ConfigSource`, proto3 JSON) as a source. The
 * schema checks single fields; this module checks the rules that involve several fields.
 */
import {
  checkKeyPair,
  readMetadata,
  readRateLimit,
  readTarget,
  tlsSpec,
  type Endpoint,
  type SourceContext,
} from './channel-parts.js';
import type { Cursor } from './cursor.js';
import { MAX_DURATION_MS } from './durations.js';
import type { ClientTlsSpec, MetadataSpec } from './model.js';
import { didYouMean } from './nearest.js';
import {
  API_TYPE_NAMES,
  apiTypeName,
  remedyForApiType,
  SUPPORTED_API_TYPE,
} from './refused-fields.js';

/** The gRPC source of a ConfigSource. The source entry adds name, timers and node. */
export interface GrpcConfig extends Endpoint {
  readonly kind: 'grpc';
  readonly initialMetadata: readonly MetadataSpec[];
  readonly channelArgs: Readonly<Record<string, string | number>>;
  readonly rateLimit?: { readonly maxTokens: number; readonly fillRatePerSecond: number };
  readonly maxReceiveBytes?: number;
  readonly resourceTimeoutMs?: number;
}

export interface PathConfig {
  readonly kind: 'path';
  readonly path: string;
  readonly watchedDirectory?: string;
}

/** @returns undefined after a problem, reported here or by the schema */
export function readConfigSource(
  source: Cursor,
  insecure: boolean,
  context: SourceContext,
): GrpcConfig | PathConfig | undefined {
  const api = source.field('api_config_source');
  const pathSource = source.field('path_config_source');
  const path = source.field('path');
  const kinds = [api, pathSource, path].filter((kind) => kind.present);
  if (kinds.length > 1) {
    source.problem(
      'has more than one of api_config_source, path_config_source and path',
      'keep one',
      'key',
    );
    return undefined;
  }
  if (api.present) return readApiConfigSource(source, api, insecure, context);
  if (pathSource.present) return readPath(pathSource.field('path'), pathSource, context);
  if (path.present) return readPath(path, undefined, context);
  const unsupported =
    source.field('ads').value !== undefined || source.field('self').value !== undefined;
  if (source.object() !== undefined && !unsupported) {
    source.problem('has no source', 'write api_config_source or path_config_source', 'key');
  }
  return undefined;
}

function readPath(
  path: Cursor,
  source: Cursor | undefined,
  context: SourceContext,
): PathConfig | undefined {
  const watched = source?.field('watched_directory').field('path');
  const watchedDirectory =
    watched?.present === true ? context.existingPath(watched, 'directory') : undefined;
  const absolute = context.existingPath(path, 'file or directory');
  if (absolute === undefined) return undefined;
  return {
    kind: 'path',
    path: absolute,
    ...(watchedDirectory === undefined ? {} : { watchedDirectory }),
  };
}

function readApiConfigSource(
  source: Cursor,
  api: Cursor,
  insecure: boolean,
  context: SourceContext,
): GrpcConfig | undefined {
  checkApiType(api);
  const services = api.field('grpc_services');
  if (!services.present) api.problem('has no grpc_services', undefined, 'key');
  const [service, second] = services.items();
  second?.problem(
    'several grpc_services are not supported yet',
    'write one source per service and list them in order of preference under sources',
  );
  const rateLimit = readRateLimit(api.field('rate_limit_settings'));
  const timeoutMs = source.field('initial_fetch_timeout').durationMs('zero allowed');
  if (service === undefined) return undefined;
  const config = readGrpcService(service, insecure, context);
  if (config === undefined) return undefined;
  return {
    ...config,
    ...(rateLimit === undefined ? {} : { rateLimit }),
    // In Envoy, 0 waits for ever.
    ...(timeoutMs === undefined
      ? {}
      : { resourceTimeoutMs: timeoutMs === 0 ? MAX_DURATION_MS : timeoutMs }),
  };
}

function checkApiType(api: Cursor): void {
  const apiType = api.field('api_type');
  const { value } = apiType;
  if (typeof value !== 'string' && typeof value !== 'number') {
    if (!apiType.present) api.problem('has no api_type', `write ${SUPPORTED_API_TYPE}`, 'key');
    return;
  }
  const name = apiTypeName(value);
  if (name === SUPPORTED_API_TYPE) return;
  const remedy = remedyForApiType(name);
  if (remedy !== undefined) apiType.problem(`api_type ${name} is not supported yet`, remedy);
  else apiType.problem(`unknown api_type ${name}`, didYouMean(name, API_TYPE_NAMES));
}

function readGrpcService(
  service: Cursor,
  insecure: boolean,
  context: SourceContext,
): GrpcConfig | undefined {
  const google = service.field('google_grpc');
  const envoy = service.field('envoy_grpc');
  if (service.field('timeout').present) {
    service.field('timeout').warn('has no effect: a stream has no timeout', 'leave it out', 'key');
  }
  const initialMetadata = readMetadata(service.field('initial_metadata'), context);
  if (google.present === envoy.present) {
    if (service.object() !== undefined) {
      service.problem('must have exactly one of google_grpc and envoy_grpc');
    }
    return undefined;
  }
  const config = google.present
    ? readGoogleGrpc(google, insecure, context)
    : readEnvoyGrpc(envoy, insecure, context);
  return config === undefined ? undefined : { ...config, initialMetadata };
}

type Channel = Omit<GrpcConfig, 'initialMetadata'>;

function readEnvoyGrpc(
  envoy: Cursor,
  insecure: boolean,
  context: SourceContext,
): Channel | undefined {
  const clusterName = envoy.field('cluster_name');
  const name = clusterName.string();
  const authority = envoy.field('authority').string();
  const maxReceiveBytes = envoy.field('max_receive_message_length').number();
  if (!clusterName.present) envoy.problem('has no cluster_name', undefined, 'key');
  if (name === undefined) return undefined;
  context.clusterUsed(name);
  const cluster = context.clusters.get(name);
  if (cluster === undefined) {
    const known = [...context.clusters.keys()];
    const remedy = didYouMean(name, known) ?? 'write its addresses in a section "clusters"';
    clusterName.problem(`unknown cluster ${JSON.stringify(name)}`, remedy);
    return undefined;
  }
  if (insecure && cluster.tls !== null) {
    envoy.problem(
      'insecure: true has no effect here',
      'write insecure: true in the cluster',
      'key',
    );
  }
  return {
    kind: 'grpc',
    ...cluster,
    channelArgs:
      authority === undefined || authority === '' ? {} : { 'grpc.default_authority': authority },
    ...(maxReceiveBytes === undefined ? {} : { maxReceiveBytes }),
  };
}

function readGoogleGrpc(
  google: Cursor,
  insecure: boolean,
  context: SourceContext,
): Channel | undefined {
  const target = readTarget(google.field('target_uri'));
  if (!google.field('target_uri').present) google.problem('has no target_uri', undefined, 'key');
  const tls = readChannelCredentials(google, insecure, context);
  const channelArgs = readChannelArgs(google.field('channel_args').field('args'));
  if (target === undefined || tls === undefined) return undefined;
  return { kind: 'grpc', target, tls, channelArgs };
}

function readChannelCredentials(
  google: Cursor,
  insecure: boolean,
  context: SourceContext,
): ClientTlsSpec | null | undefined {
  const credentials = google.field('channel_credentials');
  const ssl = credentials.field('ssl_credentials');
  const local = credentials.field('local_credentials');
  if (ssl.present) {
    if (insecure || local.present) {
      ssl.problem('contradicts plaintext', 'keep ssl_credentials or insecure: true', 'key');
    }
    return readSslCredentials(ssl, context);
  }
  if (insecure) return null;
  if (credentials.field('google_default').value !== undefined) return undefined;
  const plain = local.present ? 'local_credentials mean' : 'missing channel_credentials mean';
  const remedy = 'write ssl_credentials, or insecure: true in the source to allow plaintext';
  (credentials.present ? credentials : google).problem(`${plain} plaintext`, remedy, 'key');
  return undefined;
}

function readSslCredentials(ssl: Cursor, context: SourceContext): ClientTlsSpec {
  const file = (name: string): string | undefined => {
    const source = ssl.field(name);
    if (!source.present) return undefined;
    const filename = source.field('filename');
    if (filename.present) return context.existingPath(filename, 'file');
    // The schema has refused an inline form by name.
    if (source.object() !== undefined && Object.keys(source.object() ?? {}).length === 0) {
      source.problem('has no filename', undefined, 'key');
    }
    return undefined;
  };
  checkKeyPair(ssl, 'cert_chain', 'private_key');
  return tlsSpec({
    rootCertsFile: file('root_certs'),
    certChainFile: file('cert_chain'),
    privateKeyFile: file('private_key'),
  });
}

/** The map of Envoy's ChannelArgs. proto3 JSON allows text for int64. */
function readChannelArgs(args: Cursor): Readonly<Record<string, string | number>> {
  const result: [string, string | number][] = [];
  for (const [name, value] of args.entries()) {
    const text = value.field('string_value').string();
    const int = value.field('int_value').value;
    if (text !== undefined) result.push([name, text]);
    else if (typeof int === 'string' || typeof int === 'number') result.push([name, Number(int)]);
    else if (value.object() !== undefined) value.problem('has neither string_value nor int_value');
  }
  return Object.fromEntries(result);
}
