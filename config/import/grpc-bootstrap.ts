/** Turns a gRPC bootstrap (gRFC A27, with A47, A57, A71) into an authority map. */
import { isObject } from '../../protos/json-object.js';
import {
  entriesOf,
  field,
  listOf,
  textOf,
  textsOf,
  withoutUndefined,
  type Json,
} from './json-fields.js';
import { MapDraft, nameOfTarget } from './map-draft.js';

/** Fields that the map cannot express: they stay in the bootstraps of the clients. */
const NOTES: Readonly<Record<string, string>> = {
  certificate_providers: 'stays in the bootstrap of the clients: they use it among themselves',
  client_default_listener_resource_name_template: 'stays in the bootstrap of the clients',
  server_listener_resource_name_template: 'stays in the bootstrap of the servers',
};

/** @param file the name of the bootstrap, for the comment. @returns YAML */
export function importGrpcBootstrap(bootstrap: unknown, file: string): string {
  const draft = new MapDraft();
  const top = serversOf(bootstrap, 'xds_servers', draft);
  draft.oldStyle = top.sources.length === 0 ? [] : [{ sources: top.sources }];
  for (const [name, authority] of entriesOf(bootstrap, 'authorities')) {
    const path = `authorities.${name}.xds_servers`;
    const own = listOf(authority, 'xds_servers').length > 0;
    const servers = own ? serversOf(authority, path, draft) : top;
    draft.addAuthority(name, servers.sources, servers.ignoresDeletion);
    if (field(authority, 'client_listener_resource_name_template') !== undefined) {
      draft.note(
        `authorities.${name}.client_listener_resource_name_template`,
        'stays in the bootstrap of the clients',
      );
    }
  }
  if (field(bootstrap, 'node') !== undefined) {
    draft.note(
      'node',
      'each client sends its own; old_style_names.differ_by says which of its fields sources get',
    );
  }
  const known = new Set(['xds_servers', 'authorities', 'node']);
  for (const name of Object.keys(isObject(bootstrap) ? bootstrap : {})) {
    if (!known.has(name)) draft.note(name, NOTES[name] ?? 'has no counterpart');
  }
  return draft.toYaml([
    `Imported from the gRPC bootstrap ${file}. Check it with: tributary validate`,
    'Clients then need a bootstrap that leads to the gateway: tributary bootstrap grpc',
  ]);
}

interface Servers {
  readonly sources: readonly string[];
  /** The first server has the feature `ignore_resource_deletion` (gRFC A53). */
  readonly ignoresDeletion: boolean;
}

function serversOf(of: unknown, path: string, draft: MapDraft): Servers {
  const servers = listOf(of, 'xds_servers');
  const sources = servers.flatMap((server, index) =>
    sourceOf(server, path.endsWith(']') ? path : `${path}[${index}]`, draft),
  );
  const [first] = servers;
  return {
    sources,
    ignoresDeletion: listOf(first, 'server_features').includes('ignore_resource_deletion'),
  };
}

const KNOWN_FEATURES = new Set(['xds_v3', 'ignore_resource_deletion']);

function sourceOf(server: unknown, path: string, draft: MapDraft): readonly string[] {
  const target = textOf(server, 'server_uri');
  if (target === undefined) {
    draft.note(path, 'has no server_uri');
    return [];
  }
  for (const feature of textsOf(server, 'server_features')) {
    if (!KNOWN_FEATURES.has(feature)) {
      draft.note(`${path}.server_features`, `${feature} has no counterpart`);
    }
  }
  const security = securityOf(listOf(server, 'channel_creds'), path, draft);
  // gRPC's own clients speak state of the world, so the server is known to.
  const entry = { target, ...security, api_type: 'AGGREGATED_GRPC' };
  return [draft.addSource(nameOfTarget(target), entry)];
}

/** The first credentials that the gateway has too, as a gRPC client chooses. */
function securityOf(credentials: readonly unknown[], path: string, draft: MapDraft): Json {
  for (const one of credentials) {
    const config = field(one, 'config');
    switch (textOf(one, 'type')) {
      case 'insecure':
        return { insecure: true };
      case 'google_default':
        return { call_credentials: { google_default: {} } };
      case 'tls': {
        const tls = withoutUndefined({
          ca: textOf(config, 'ca_certificate_file'),
          cert: textOf(config, 'certificate_file'),
          key: textOf(config, 'private_key_file'),
        });
        return Object.keys(tls).length > 0 ? { tls } : {};
      }
      default:
        draft.note(`${path}.channel_creds`, `${textOf(one, 'type') ?? ''} has no counterpart`);
    }
  }
  draft.note(`${path}.channel_creds`, 'has no type that the gateway knows: TLS is assumed');
  return {};
}
