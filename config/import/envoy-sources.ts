/** Turns the ConfigSources of an Envoy bootstrap into sources of the authority map. */
import { basename } from 'node:path';
import { isObject } from '../../protos/json-object.js';
import { readEnvoyCluster, type Note } from './envoy-cluster.js';
import {
  field,
  fieldAt,
  listOf,
  textOf,
  textsOf,
  withoutUndefined,
  type Json,
} from './json-fields.js';
import { nameOfTarget, type MapDraft } from './map-draft.js';

export interface EnvoySourcesOptions {
  readonly draft: MapDraft;
  /** `static_resources.clusters`, by name. */
  readonly clusters: ReadonlyMap<string, unknown>;
  /** `dynamic_resources.ads_config`; undefined: none. */
  readonly ads: unknown;
}

/** In Envoy's `ads_config`, both words mean ADS. */
const ADS_TYPE: Readonly<Record<string, string>> = {
  GRPC: 'AGGREGATED_GRPC',
  DELTA_GRPC: 'AGGREGATED_DELTA_GRPC',
};
const DEFAULT_TYPE = 'AGGREGATED_DELTA_GRPC';

const LEFT_OUT: readonly (readonly [string, string])[] = [['config_validators', 'stays in Envoy']];

export class EnvoySources {
  readonly #options: EnvoySourcesOptions;
  readonly usedClusters = new Set<string>();

  constructor(options: EnvoySourcesOptions) {
    this.#options = options;
  }

  /**
   * @param source a ConfigSource
   * @param path of it in the bootstrap
   * @returns the names of its sources, in order of preference
   */
  of(source: unknown, path: string): readonly string[] {
    const { draft } = this.#options;
    const api = field(source, 'api_config_source');
    const timeout = textOf(source, 'initial_fetch_timeout');
    if (field(source, 'ads') !== undefined) return this.ofAds(path);
    if (api !== undefined) {
      const type = textOf(api, 'api_type') ?? '';
      return this.#ofApi(api, `${path}.api_config_source`, type, timeout);
    }
    const file = textOf(field(source, 'path_config_source'), 'path') ?? textOf(source, 'path');
    if (file !== undefined) {
      const watched = textOf(fieldAt(source, 'path_config_source', 'watched_directory'), 'path');
      const entry = withoutUndefined({ path: file, watched_directory: watched });
      return [draft.addSource(basename(file), entry)];
    }
    draft.note(path, 'names no source');
    return [];
  }

  /** The sources of `ads_config`. */
  ofAds(path: string): readonly string[] {
    const { ads, draft } = this.#options;
    if (ads === undefined) {
      draft.note(path, 'means ADS, and dynamic_resources has no ads_config');
      return [];
    }
    const written = textOf(ads, 'api_type') ?? '';
    return this.#ofApi(
      ads,
      'dynamic_resources.ads_config',
      ADS_TYPE[written] ?? written,
      undefined,
    );
  }

  #ofApi(api: unknown, path: string, type: string, timeout: string | undefined): readonly string[] {
    const { draft } = this.#options;
    for (const [name, message] of LEFT_OUT) {
      if (field(api, name) !== undefined) draft.note(`${path}.${name}`, message);
    }
    if (field(api, 'transport_api_version') === 'V2') {
      draft.note(`${path}.transport_api_version`, 'the gateway speaks v3 only');
    }
    const isRest = type === 'REST';
    const common = withoutUndefined({
      api_type: type === '' || type === DEFAULT_TYPE ? undefined : type,
      rate_limit: rateLimitOf(field(api, 'rate_limit_settings')),
      // Envoy repeats its Node unless it is told not to, and some servers need it.
      node_in: field(api, 'set_node_on_first_message_only') === true ? undefined : 'every_request',
      timers: timeout === undefined || timeout === '0s' ? undefined : { resource_timeout: timeout },
      refresh_delay: isRest ? textOf(api, 'refresh_delay') : undefined,
      request_timeout: isRest ? textOf(api, 'request_timeout') : undefined,
    });
    if (isRest) {
      return textsOf(api, 'cluster_names').flatMap((name) =>
        this.#ofCluster(name, { ...common, node_in: undefined }, `${path}.cluster_names`),
      );
    }
    return listOf(api, 'grpc_services').flatMap((service, index) =>
      this.#ofService(service, common, `${path}.grpc_services[${index}]`),
    );
  }

  #ofService(service: unknown, common: Json, path: string): readonly string[] {
    const { draft } = this.#options;
    const metadata = headersOf(service, path, draft);
    const more = { ...common, ...(metadata.length > 0 ? { initial_metadata: metadata } : {}) };
    const envoy = field(service, 'envoy_grpc');
    const google = field(service, 'google_grpc');
    if (google !== undefined) return this.#ofGoogle(google, more, `${path}.google_grpc`);
    const cluster = textOf(envoy, 'cluster_name');
    if (cluster === undefined) {
      draft.note(path, 'has no envoy_grpc.cluster_name and no google_grpc');
      return [];
    }
    const authority = textOf(envoy, 'authority');
    const args = authority === undefined ? {} : { 'grpc.default_authority': authority };
    const channel = authority === undefined ? more : { ...more, channel_args: args };
    return this.#ofCluster(cluster, channel, `${path}.envoy_grpc.cluster_name`);
  }

  #ofCluster(name: string, common: Json, path: string): readonly string[] {
    const { clusters, draft } = this.#options;
    const cluster = clusters.get(name);
    if (cluster === undefined) {
      draft.note(path, `static_resources has no cluster ${JSON.stringify(name)}`);
      return [];
    }
    this.usedClusters.add(name);
    const at = `static_resources.clusters.${name}`;
    const note: Note = (what, message) => {
      draft.note(what === '' ? at : `${at}.${what}`, message);
    };
    const { endpoints, tls } = readEnvoyCluster(cluster, note);
    if (endpoints.length === 0) note('load_assignment', 'has no endpoints');
    const security =
      tls === undefined ? { insecure: true } : Object.keys(tls).length > 0 ? { tls } : {};
    return targetsOf(endpoints).map((target) =>
      draft.addSource(name, withoutUndefined({ target, ...security, ...common })),
    );
  }

  #ofGoogle(google: unknown, common: Json, path: string): readonly string[] {
    const { draft } = this.#options;
    const target = textOf(google, 'target_uri');
    if (target === undefined) {
      draft.note(path, 'has no target_uri');
      return [];
    }
    const credentials = field(google, 'channel_credentials');
    const ssl = field(credentials, 'ssl_credentials');
    const isGoogle = field(credentials, 'google_default') !== undefined;
    const file = (name: string): string | undefined => {
      const filename = textOf(field(ssl, name), 'filename');
      if (filename === undefined && isObject(field(ssl, name))) {
        draft.note(`${path}.${name}`, 'is not a file: write it to a file and name that under tls');
      }
      return filename;
    };
    const tls = withoutUndefined({
      ca: file('root_certs'),
      cert: file('cert_chain'),
      key: file('private_key'),
    });
    const security =
      ssl === undefined && !isGoogle
        ? { insecure: true }
        : Object.keys(tls).length > 0
          ? { tls }
          : {};
    const calls = listOf(google, 'call_credentials');
    const call = isGoogle ? { google_default: {} } : callCredentialOf(calls, path, draft);
    const args = channelArgsOf(field(google, 'channel_args'));
    const name = textOf(google, 'stat_prefix') ?? nameOfTarget(target);
    const entry = withoutUndefined({
      target,
      ...security,
      call_credentials: call,
      channel_args: args,
      ...common,
    });
    return [draft.addSource(name, entry)];
  }
}

function rateLimitOf(limit: unknown): Json | undefined {
  if (!isObject(limit)) return undefined;
  const rate = { max_tokens: field(limit, 'max_tokens'), fill_rate: field(limit, 'fill_rate') };
  return withoutUndefined(rate);
}

function headersOf(service: unknown, path: string, draft: MapDraft): readonly Json[] {
  return listOf(service, 'initial_metadata').flatMap((header) => {
    const key = textOf(header, 'key');
    const value = field(header, 'value');
    if (key !== undefined && typeof value === 'string') return [{ key, value }];
    draft.note(`${path}.initial_metadata`, `${key ?? 'a header'} has no text value`);
    return [];
  });
}

/** The plug-in and the Google credentials have the same form in the map. */
function callCredentialOf(calls: readonly unknown[], path: string, draft: MapDraft): unknown {
  const [first, second] = calls;
  if (second !== undefined)
    draft.note(`${path}.call_credentials`, 'only the first one is imported');
  if (first === undefined) return undefined;
  const kept = ['google_compute_engine', 'from_plugin'].find(
    (name) => field(first, name) !== undefined,
  );
  if (kept !== undefined) return { [kept]: field(first, kept) };
  const kind = isObject(first) ? (Object.keys(first)[0] ?? '') : '';
  draft.note(`${path}.call_credentials.${kind}`, 'has no counterpart: see call_credentials');
  return undefined;
}

function channelArgsOf(args: unknown): Json | undefined {
  const values = field(args, 'args');
  if (!isObject(values)) return undefined;
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => {
      // proto3 JSON allows text for int64.
      const int = field(value, 'int_value');
      const isInt = typeof int === 'number' || typeof int === 'string';
      return [name, isInt ? Number(int) : textOf(value, 'string_value')];
    }),
  );
}

/** One gRPC target with several addresses if it can be one, otherwise one for each address. */
function targetsOf(endpoints: readonly string[]): readonly string[] {
  if (endpoints.length < 2) return endpoints;
  if (endpoints.every((one) => /^\d{1,3}(\.\d{1,3}){3}:\d+$/.test(one))) {
    return [`ipv4:${endpoints.join(',')}`];
  }
  if (endpoints.every((one) => one.startsWith('['))) return [`ipv6:${endpoints.join(',')}`];
  return endpoints;
}
