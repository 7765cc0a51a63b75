/**
 * Reads an Envoy ConfigSource (`envoy.config.core.v3.ConfigSource`, proto3 JSON) as a source. The
 * schema checks single fields; this module checks the rules that involve several fields.
 */
import { readCallCredentials } from './call-credentials.js';
import {
  checkKeyPair,
  readMetadata,
  readRateLimit,
  tlsSpec,
  type Endpoint,
  type SourceContext,
} from './channel-parts.js';
import type { Cursor } from './cursor.js';
import { MAX_DURATION_MS } from './durations.js';
import { warnOfPlaintext } from './forwarding-entries.js';
import type { ApiType, ClientTlsSpec, GrpcSourceSpec, MetadataSpec } from './model.js';
import { didYouMean } from './nearest.js';
import { readApiType, readPolling, REST_FIELDS } from './api-type.js';
import { readTarget } from './target.js';

/** The management server of a ConfigSource. The source entry adds name, timers and node. */
export interface GrpcConfig extends Endpoint {
  readonly kind: 'grpc';
  readonly apiType: ApiType;
  readonly rest?: NonNullable<GrpcSourceSpec['rest']>;
  readonly initialMetadata: readonly MetadataSpec[];
  readonly channelArgs: Readonly<Record<string, string | number>>;
  readonly rateLimit?: { readonly maxTokens: number; readonly fillRatePerSecond: number };
  readonly maxReceiveBytes?: number;
  readonly googleDefault?: boolean;
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
  const apiType = readApiType(api, 'needed');
  const rateLimit = readRateLimit(api.field('rate_limit_settings'));
  const timeoutMs = source.field('initial_fetch_timeout').durationMs('zero allowed');
  const config =
    apiType === 'REST'
      ? readRestServer(api, insecure, context)
      : readGrpcServer(api, insecure, context);
  if (config === undefined || apiType === undefined) return undefined;
  return {
    ...config,
    apiType,
    ...(rateLimit === undefined ? {} : { rateLimit }),
    // In Envoy, 0 waits for ever.
    ...(timeoutMs === undefined
      ? {}
      : { resourceTimeoutMs: timeoutMs === 0 ? MAX_DURATION_MS : timeoutMs }),
  };
}

type Server = Omit<GrpcConfig, 'apiType'>;

function readGrpcServer(
  api: Cursor,
  insecure: boolean,
  context: SourceContext,
): Server | undefined {
  for (const name of REST_FIELDS) {
    if (api.field(name).present) api.field(name).problem('is for REST', 'leave it out', 'key');
  }
  const services = api.field('grpc_services');
  if (!services.present) api.problem('has no grpc_services', undefined, 'key');
  const [service, second] = services.items();
  second?.problem(
    'several grpc_services are not supported yet',
    'write one source per service and list them in order of preference under sources',
  );
  return service && readGrpcService(service, insecure, context);
}

function readRestServer(
  api: Cursor,
  insecure: boolean,
  context: SourceContext,
): Server | undefined {
  const services = api.field('grpc_services');
  if (services.present) services.problem('is for gRPC', 'write cluster_names', 'key');
  const names = api.field('cluster_names');
  if (!names.present) api.problem('has no cluster_names', undefined, 'key');
  const [name, second] = names.items();
  second?.problem(
    'several cluster_names are not supported yet',
    'write one source per cluster and list them in order of preference under sources',
  );
  const rest = readPolling(api);
  const cluster = name && readCluster(name, insecure, context);
  return cluster && { kind: 'grpc', ...cluster, initialMetadata: [], channelArgs: {}, rest };
}

function readGrpcService(
  service: Cursor,
  insecure: boolean,
  context: SourceContext,
): Server | undefined {
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
  if (config === undefined) return undefined;
  const { callMetadata = [], ...channel } = config;
  return { ...channel, initialMetadata: [...initialMetadata, ...callMetadata] };
}

type Channel = Omit<Server, 'initialMetadata'> & {
  readonly callMetadata?: readonly MetadataSpec[];
};

function readEnvoyGrpc(
  envoy: Cursor,
  insecure: boolean,
  context: SourceContext,
): Channel | undefined {
  const clusterName = envoy.field('cluster_name');
  const authority = envoy.field('authority').string();
  const maxReceiveBytes = envoy.field('max_receive_message_length').number();
  if (!clusterName.present) envoy.problem('has no cluster_name', undefined, 'key');
  const cluster = readCluster(clusterName, insecure, context);
  if (cluster === undefined) return undefined;
  return {
    kind: 'grpc',
    ...cluster,
    channelArgs:
      authority === undefined || authority === '' ? {} : { 'grpc.default_authority': authority },
    ...(maxReceiveBytes === undefined ? {} : { maxReceiveBytes }),
  };
}

/** @param at the name of a cluster in the section `clusters` */
function readCluster(at: Cursor, insecure: boolean, context: SourceContext): Endpoint | undefined {
  const name = at.string();
  if (name === undefined) return undefined;
  context.clusterUsed(name);
  const cluster = context.clusters.get(name);
  if (cluster === undefined) {
    const known = [...context.clusters.keys()];
    const remedy = didYouMean(name, known) ?? 'write its addresses in a section "clusters"';
    at.problem(`unknown cluster ${JSON.stringify(name)}`, remedy);
    return undefined;
  }
  if (insecure && cluster.tls !== null) {
    at.problem('insecure: true has no effect here', 'write insecure: true in the cluster');
  }
  return cluster;
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
  const list = google.field('call_credentials');
  const { metadata, googleDefault } = readCallCredentials(list, context);
  if (target === undefined || tls === undefined) return undefined;
  const isGoogle = googleDefault || isGoogleChannel(google);
  if (metadata.length > 0) warnOfPlaintext(list, { tls, target });
  if (isGoogle && tls === null) list.problem('google_default needs TLS', undefined, 'key');
  return {
    kind: 'grpc',
    target,
    tls,
    channelArgs,
    callMetadata: metadata,
    ...(isGoogle ? { googleDefault: true } : {}),
  };
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
  // TLS with the root certificates of the process, and tokens (gRPC, "GoogleDefaultCredentials").
  if (isGoogleChannel(google)) return tlsSpec(NO_FILES);
  const plain = local.present ? 'local_credentials mean' : 'missing channel_credentials mean';
  const remedy = 'write ssl_credentials, or insecure: true in the source to allow plaintext';
  (credentials.present ? credentials : google).problem(`${plain} plaintext`, remedy, 'key');
  return undefined;
}

const NO_FILES = { rootCertsFile: undefined, certChainFile: undefined, privateKeyFile: undefined };

const isGoogleChannel = (google: Cursor): boolean =>
  google.field('channel_credentials').field('google_default').value !== undefined;

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
  const spec = tlsSpec({
    rootCertsFile: file('root_certs'),
    certChainFile: file('cert_chain'),
    privateKeyFile: file('private_key'),
  });
  const at = (name: string): Cursor => ssl.field(name).field('filename');
  context.checkTls(spec, { ca: at('root_certs'), cert: at('cert_chain'), key: at('private_key') });
  return spec;
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
