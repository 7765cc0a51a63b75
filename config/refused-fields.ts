/**
 * Envoy fields that the gateway does not support: schema title of the message → field → what to write
 * in its place. For these, the error is "not supported yet" with the remedy. A field that is neither in
 * this table nor in the schema is reported as unknown.
 */
const REMEDIES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  ConfigSource: {
    ads: 'write api_config_source with the address of the ADS server',
    self: 'write api_config_source with the address of the server',
  },
  ApiConfigSource: {
    cluster_names: 'it is for REST; write grpc_services',
    refresh_delay: 'it is for REST; leave it out',
    request_timeout: 'it is for REST; leave it out',
    config_validators: 'leave it out',
  },
  GrpcService: { retry_policy: 'leave it out; timers configure reconnects' },
  EnvoyGrpc: { retry_policy: 'leave it out; timers configure reconnects' },
  GoogleGrpc: {
    call_credentials: 'write initial_metadata with key authorization and value_file',
    credentials_factory_name: 'write channel_credentials.ssl_credentials',
    config: 'write channel_credentials.ssl_credentials',
  },
  ChannelCredentials: { google_default: 'write ssl_credentials' },
  DataSource: {
    inline_bytes: 'write it to a file and give its filename',
    inline_string: 'write it to a file and give its filename',
    environment_variable: 'write it to a file and give its filename',
  },
  HeaderValue: { raw_value: 'write value or value_file' },
};

const API_TYPE_REMEDIES: Readonly<Record<string, string>> = {
  REST: 'serve ADS over gRPC and write AGGREGATED_DELTA_GRPC',
  GRPC: 'one stream per type is not supported: write AGGREGATED_DELTA_GRPC',
  DELTA_GRPC: 'one stream per type is not supported: write AGGREGATED_DELTA_GRPC',
  AGGREGATED_GRPC: 'the state-of-the-world protocol is not supported: write AGGREGATED_DELTA_GRPC',
};

/** Values of `ApiConfigSource.ApiType`, by number. */
const API_TYPES: Readonly<Record<number, string>> = {
  0: 'DEPRECATED_AND_UNAVAILABLE_DO_NOT_USE',
  1: 'REST',
  2: 'GRPC',
  3: 'DELTA_GRPC',
  5: 'AGGREGATED_GRPC',
  6: 'AGGREGATED_DELTA_GRPC',
};

export const SUPPORTED_API_TYPE = 'AGGREGATED_DELTA_GRPC';

/**
 * The remedy for the unsupported field `name` (snake_case) of a message; undefined for any other
 * field.
 */
export function remedyForField(title: string, name: string): string | undefined {
  const table = REMEDIES[title === 'NamedConfigSource' ? 'ConfigSource' : title];
  return table !== undefined && Object.hasOwn(table, name) ? table[name] : undefined;
}

/** The name of an api_type. proto3 JSON allows its name or its number. */
export function apiTypeName(value: string | number): string {
  return typeof value === 'number' ? (API_TYPES[value] ?? String(value)) : value;
}

/** The remedy for an unsupported api_type; undefined for any other value. */
export function remedyForApiType(name: string): string | undefined {
  return Object.hasOwn(API_TYPE_REMEDIES, name) ? API_TYPE_REMEDIES[name] : undefined;
}

export const API_TYPE_NAMES: readonly string[] = Object.values(API_TYPES).slice(1);
