/**
 * Reads the settings of a source that pass on the identity of clients: `forward_node`,
 * `forward_headers`, `client_identity`, `tls_by_identity`, and `node_in`.
 */
import { isGrpcHeaderName } from './header-names.js';
import type { SourceContext } from './channel-parts.js';
import type { Cursor } from './cursor.js';
import type { GrpcSourceSpec } from './model.js';
import { readNodeFields } from './node-fields.js';

export type Forwarding = Pick<
  GrpcSourceSpec,
  'nodeIn' | 'forwardNode' | 'forwardHeaders' | 'clientIdentity' | 'tlsByIdentity'
>;

/** The settings that pass on the identity of the clients of a node group. */
export const IDENTITY_SETTINGS = [
  'forward_node',
  'forward_headers',
  'client_identity',
  'tls_by_identity',
] as const;

/** @param spec the source without these settings */
export function readForwarding(
  entry: Cursor,
  spec: Omit<GrpcSourceSpec, keyof Forwarding>,
  context: SourceContext,
): Forwarding {
  const forwardNode = entry.field('forward_node');
  if (forwardNode.present && spec.node) {
    forwardNode.problem('contradicts node', 'keep node or forward_node', 'key');
  }
  const headers = readHeaders(entry.field('forward_headers'), spec);
  const isCertificateForwarded = entry.field('client_identity').string() === 'forward';
  const directory = entry.field('tls_by_identity');
  if (directory.present && spec.tls === null) {
    directory.problem('needs TLS', 'leave out insecure: true', 'key');
  }
  const tlsByIdentity = directory.present
    ? context.existingPath(directory, 'directory')
    : undefined;
  if (headers.length > 0) warnOfPlaintext(entry.field('forward_headers'), spec);
  return {
    ...readNodeIn(entry, spec),
    ...(forwardNode.present ? { forwardNode: readNodeFields(forwardNode, 'forward_node') } : {}),
    ...(headers.length > 0 ? { forwardHeaders: headers } : {}),
    ...(isCertificateForwarded ? { clientIdentity: 'forward' as const } : {}),
    ...(tlsByIdentity === undefined ? {} : { tlsByIdentity }),
  };
}

/** Anyone on the path can read a secret that a plaintext connection carries. */
export function warnOfPlaintext(
  at: Cursor,
  { tls, target }: Pick<GrpcSourceSpec, 'tls' | 'target'>,
): void {
  if (tls !== null || target.startsWith('unix:')) return;
  at.warn('sends secrets in plaintext', 'use TLS, or a unix: target', 'key');
}

/**
 * A setting of Tributary, or the field of a pasted ConfigSource. Every poll has the Node, so REST sources that
 * differ in this alone are one source.
 */
function readNodeIn(
  entry: Cursor,
  { apiType }: Pick<GrpcSourceSpec, 'apiType'>,
): Pick<GrpcSourceSpec, 'nodeIn'> {
  const own = entry.field('node_in');
  const config = entry.field('config_source').present ? entry.field('config_source') : entry;
  const pasted = config.field('api_config_source').field('set_node_on_first_message_only');
  const isEvery = own.string() === 'every_request' || pasted.boolean() === false;
  if (own.present && pasted.present && (own.string() === 'first_request') !== pasted.boolean()) {
    own.problem('contradicts set_node_on_first_message_only', 'keep one', 'key');
  }
  return isEvery && apiType !== 'REST' ? { nodeIn: 'every_request' } : {};
}

/** Headers of HTTP/2 and gRPC, which belong to the connection and not to the client. */
const TRANSPORT_HEADERS: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'content-type',
  'host',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'user-agent',
]);

function readHeaders(
  at: Cursor,
  { initialMetadata }: Pick<GrpcSourceSpec, 'initialMetadata'>,
): readonly string[] {
  const keys: string[] = [];
  for (const item of at.items()) {
    const key = item.string()?.toLowerCase();
    if (key === undefined || key === '') continue;
    const [message, remedy] = problemOfHeader(key) ?? [];
    if (message !== undefined) item.problem(message, remedy);
    else if (keys.includes(key)) item.problem(`${JSON.stringify(key)} is listed twice`);
    else if (initialMetadata.some((entry) => entry.key === key)) {
      item.problem(
        `the source sends a header ${key} of its own`,
        'keep the header of the gateway (initial_metadata, call_credentials) or that of the client',
      );
    } else keys.push(key);
  }
  return keys;
}

function problemOfHeader(key: string): readonly [string, string] | undefined {
  const shown = JSON.stringify(key);
  if (key === 'x-forwarded-client-cert') {
    return [
      `${shown} would let a client claim any certificate`,
      'write client_identity: forward, which takes the verified certificate',
    ];
  }
  if (!isGrpcHeaderName(key)) {
    return [`${shown} is not a header name that gRPC allows`, 'leave it out'];
  }
  if (TRANSPORT_HEADERS.has(key)) {
    return [`${shown} belongs to the connection, not to the client`, 'leave it out'];
  }
  // grpc-js decodes and encodes such values, so they would not stay exact.
  return key.endsWith('-bin')
    ? [`${shown} is a binary header, which the gateway cannot forward`, 'leave it out']
    : undefined;
}
