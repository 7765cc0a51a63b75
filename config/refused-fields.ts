/**
 * Fields of an Envoy ConfigSource that exist and are not supported, by the schema's title of their
 * message: an operator who pastes one is told so by name, with what to write instead. Fields that
 * are in no table and no schema are misspellings.
 */
const REMEDIES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  ConfigSource: {
    ads: 'write api_config_source with the address of the ADS server',
    self: 'write api_config_source with the address of the server',
  },
  ApiConfigSource: {
    cluster_names: 'these are for REST; write grpc_services',
    refresh_delay: 'this is for REST; leave it out',
    request_timeout: 'this is for REST; leave it out',
    config_validators: 'leave it out',
  },
  GrpcService: { retry_policy: 'leave it out; reconnects are set with timers' },
  EnvoyGrpc: { retry_policy: 'leave it out; reconnects are set with timers' },
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

/** What to write instead of the known but unsupported field `name` (snake_case) of a message, if it is one. */
export function remedyForField(title: string, name: string): string | undefined {
  const table = REMEDIES[title === 'NamedConfigSource' ? 'ConfigSource' : title];
  return table !== undefined && Object.hasOwn(table, name) ? table[name] : undefined;
}

/** The name of an api_type that proto3 JSON gives by name or by number. */
export function apiTypeName(value: string | number): string {
  return typeof value === 'number' ? (API_TYPES[value] ?? String(value)) : value;
}

/** What to write instead of a known but unsupported api_type, if it is one. */
export function remedyForApiType(name: string): string | undefined {
  return Object.hasOwn(API_TYPE_REMEDIES, name) ? API_TYPE_REMEDIES[name] : undefined;
}

export const API_TYPE_NAMES: readonly string[] = Object.values(API_TYPES).slice(1);
