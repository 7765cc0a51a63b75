/**
 * Reads `call_credentials`: tokens of the gateway itself for a source. The short form of a source has
 * one; Envoy's GoogleGrpc has a list, with the plug-in that reads a file.
 */
import { isGrpcHeaderName } from './header-names.js';
import type { SourceContext } from './channel-parts.js';
import type { Cursor } from './cursor.js';
import type { MetadataSpec } from './model.js';

export interface CallCredentials {
  /** Headers whose values come from files. */
  readonly metadata: readonly MetadataSpec[];
  readonly googleDefault: boolean;
}

const NONE: CallCredentials = { metadata: [], googleDefault: false };
const AUTHORIZATION = 'authorization';
const BEARER = 'Bearer ';

/** The ways to get a token; the first two fields are Tributary's own. */
const KINDS = [
  'access_token_file',
  'jwt_file',
  'google_default',
  'google_compute_engine',
  'from_plugin',
] as const;

/** @param at one item, or the object of the short form */
export function readCallCredential(at: Cursor, context: SourceContext): CallCredentials {
  if (at.object() === undefined) return NONE;
  const kinds = KINDS.filter((kind) => at.field(kind).value !== undefined);
  const [kind] = kinds;
  if (kind === undefined || kinds.length > 1) {
    // The schema has reported unsupported kinds by name.
    if (kind !== undefined || Object.keys(at.object() ?? {}).length === 0) {
      const has = kind === undefined ? 'has none of' : 'has more than one of';
      at.problem(`${has} ${KINDS.slice(0, 3).join(', ')}`, 'write exactly one', 'key');
    }
    return NONE;
  }
  switch (kind) {
    case 'access_token_file':
      return bearer(context.existingPath(at.field(kind), 'file'), {});
    case 'jwt_file':
      return bearer(context.existingPath(at.field(kind), 'file'), { isJwt: true });
    case 'google_default':
    case 'google_compute_engine':
      return { metadata: [], googleDefault: true };
    case 'from_plugin':
      return readPlugin(at.field(kind), context);
  }
}

/** The list of Envoy's GoogleGrpc. */
export function readCallCredentials(list: Cursor, context: SourceContext): CallCredentials {
  const read = list.items().map((item) => readCallCredential(item, context));
  return {
    metadata: read.flatMap(({ metadata }) => metadata),
    googleDefault: read.some(({ googleDefault }) => googleDefault),
  };
}

const bearer = (file: string | undefined, more: Pick<MetadataSpec, 'isJwt'>): CallCredentials =>
  file === undefined
    ? NONE
    : {
        metadata: [{ key: AUTHORIZATION, valueFile: file, prefix: BEARER, ...more }],
        googleDefault: false,
      };

const FILE_PLUGIN = 'envoy.grpc_credentials.file_based_metadata';

/** `envoy.config.grpc_credential.v3.FileBasedMetadataConfig`; its default header is `authorization`. */
function readPlugin(plugin: Cursor, context: SourceContext): CallCredentials {
  const name = plugin.field('name');
  if (name.string() !== FILE_PLUGIN) {
    const shown = JSON.stringify(name.value ?? '');
    (name.present ? name : plugin).problem(
      `unknown plug-in ${shown}`,
      `write ${FILE_PLUGIN}, access_token_file or jwt_file`,
    );
    return NONE;
  }
  const config = plugin.field('typed_config');
  const secret = config.field('secret_data').field('filename');
  if (!secret.present) {
    config.problem('has no secret_data.filename', 'write the file with the secret', 'key');
    return NONE;
  }
  const valueFile = context.existingPath(secret, 'file');
  const key = (config.field('header_key').string() ?? '').toLowerCase() || AUTHORIZATION;
  if (!isGrpcHeaderName(key)) {
    config
      .field('header_key')
      .problem(`${JSON.stringify(key)} is not a header name that gRPC allows`);
  }
  const prefix = config.field('header_prefix').string() ?? '';
  if (valueFile === undefined) return NONE;
  return {
    metadata: [{ key, valueFile, ...(prefix === '' ? {} : { prefix }) }],
    googleDefault: false,
  };
}
