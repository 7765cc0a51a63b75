/**
 * Reads the addresses and the TLS of an Envoy cluster (`envoy.config.cluster.v3.Cluster`, proto3 JSON) as the
 * short form of the authority map. A field without a counterpart becomes a note.
 */
import { isObject } from '../../protos/json-object.js';
import { field, fieldAt, listOf, textOf, withoutUndefined, type Json } from './json-fields.js';

/** @param what a field of the cluster; empty: the cluster */
export type Note = (what: string, message: string) => void;

export interface ClusterServers {
  /** `host:port` or `unix:path`, in order of preference (Envoy's priorities). */
  readonly endpoints: readonly string[];
  /** The short form of TLS. Undefined: the cluster has no transport socket, so it is plaintext. */
  readonly tls: Json | undefined;
}

export function readEnvoyCluster(cluster: unknown, note: Note): ClusterServers {
  const groups = listOf(field(cluster, 'load_assignment'), 'endpoints');
  const byPriority = [...groups].sort((a, b) => priorityOf(a) - priorityOf(b));
  const endpoints = byPriority.flatMap((group) =>
    listOf(group, 'lb_endpoints').flatMap((one) => addressOf(one, note) ?? []),
  );
  const socket = field(cluster, 'transport_socket');
  return { endpoints, tls: socket === undefined ? undefined : readTransportSocket(socket, note) };
}

function priorityOf(group: unknown): number {
  const priority = field(group, 'priority');
  return typeof priority === 'number' ? priority : 0;
}

function addressOf(lbEndpoint: unknown, note: Note): string | undefined {
  const address = fieldAt(lbEndpoint, 'endpoint', 'address');
  const pipe = textOf(field(address, 'pipe'), 'path');
  if (pipe !== undefined) return `unix:${pipe}`;
  const socket = field(address, 'socket_address');
  const host = textOf(socket, 'address');
  const port = field(socket, 'port_value');
  if (host === undefined || (typeof port !== 'number' && typeof port !== 'string')) {
    note('load_assignment', 'has an endpoint without address and port');
    return undefined;
  }
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

function readTransportSocket(socket: unknown, note: Note): Json | undefined {
  const config = field(socket, 'typed_config');
  const type = textOf(config, '@type') ?? '';
  if (/RawBuffer/.test(type) || textOf(socket, 'name') === 'envoy.transport_sockets.raw_buffer') {
    return undefined;
  }
  if (!type.endsWith('.UpstreamTlsContext')) {
    note('transport_socket', `${type || 'without a type'} has no counterpart: TLS is assumed`);
    return {};
  }
  const common = field(config, 'common_tls_context');
  const validation =
    field(common, 'validation_context') ??
    fieldAt(common, 'combined_validation_context', 'default_validation_context');
  noteSecrets(common, note);
  const [certificate] = listOf(common, 'tls_certificates');
  const ca = fileOf(field(validation, 'trusted_ca'), 'trusted_ca', note);
  if (ca === undefined) {
    note(
      'transport_socket',
      'has no trusted_ca file: Envoy then accepts any certificate; the gateway checks it with the root ' +
        'certificates of Node.js',
    );
  }
  const sans = sansOf(validation, note);
  return withoutUndefined({
    ca,
    cert: fileOf(field(certificate, 'certificate_chain'), 'certificate_chain', note),
    key: fileOf(field(certificate, 'private_key'), 'private_key', note),
    sans: sans.length > 0 ? sans : undefined,
    server_name: textOf(config, 'sni'),
  });
}

/** Only files: the gateway reads them again when they change. */
function fileOf(source: unknown, what: string, note: Note): string | undefined {
  const filename = textOf(source, 'filename');
  if (filename === undefined && isObject(source)) {
    note(what, 'is not a file: write it to a file and name that under tls');
  }
  return filename;
}

const SDS = [
  'tls_certificate_sds_secret_configs',
  'validation_context_sds_secret_config',
  'combined_validation_context',
];

function noteSecrets(common: unknown, note: Note): void {
  for (const name of SDS) {
    if (field(common, name) === undefined) continue;
    note(name, 'has no counterpart (SDS): write the certificates to files and name them under tls');
  }
}

function sansOf(validation: unknown, note: Note): readonly string[] {
  const matchers = [
    ...listOf(validation, 'match_typed_subject_alt_names').map((one) => field(one, 'matcher')),
    ...listOf(validation, 'match_subject_alt_names'),
  ];
  return matchers.flatMap((matcher) => {
    const exact = textOf(matcher, 'exact');
    if (exact === undefined) {
      note('match_typed_subject_alt_names', 'only exact names have a counterpart (tls.sans)');
    }
    return exact ?? [];
  });
}
