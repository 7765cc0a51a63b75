/** A ConfigSource in place of the name of a source. */
const NAMED =
  'give the source a name under sources, and write default_config_source: { sources: [name] }';

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
  DefaultConfigSource: {
    ads: NAMED,
    self: NAMED,
    api_config_source: NAMED,
    path_config_source: NAMED,
    path: NAMED,
  },
  ApiConfigSource: {
    config_validators: 'leave it out',
  },
  GrpcService: { retry_policy: 'leave it out; timers configure reconnects' },
  EnvoyGrpc: { retry_policy: 'leave it out; timers configure reconnects' },
  GoogleGrpc: {
    credentials_factory_name: 'write channel_credentials.ssl_credentials',
    config: 'write channel_credentials.ssl_credentials',
  },
  CallCredentials: {
    access_token: 'write the token to a file and give access_token_file',
    google_refresh_token: 'write google_default: {}, which reads the same file',
    service_account_jwt_access: 'write google_default: {} and set GOOGLE_APPLICATION_CREDENTIALS',
    google_iam: 'write google_default: {}',
    sts_service: 'write google_default: {} with external account credentials',
  },
  DataSource: {
    inline_bytes: 'write it to a file and give its filename',
    inline_string: 'write it to a file and give its filename',
    environment_variable: 'write it to a file and give its filename',
  },
  HeaderValue: { raw_value: 'write value or value_file' },
};

/**
 * The remedy for the unsupported field `name` (snake_case) of a message; undefined for any other
 * field.
 */
export function remedyForField(title: string, name: string): string | undefined {
  const table = REMEDIES[title === 'NamedConfigSource' ? 'ConfigSource' : title];
  return table !== undefined && Object.hasOwn(table, name) ? table[name] : undefined;
}
