import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { httpJson, httpRequest } from '../../support/http.js';
import { xdstpGlob, type MeshResource } from '../../support/mesh.js';
import { until, type UntilOptions } from '../../support/until.js';
import { Child, removeScratch, scratchDirectory } from './child.js';
import { peerPath } from './provisioned.js';

export interface EnvoyOptions {
  /** The management server, on loopback. */
  readonly xdsPort: number;
  readonly nodeId?: string;
  readonly nodeCluster?: string;
  /** The authority of its clusters and listeners. Default `cloud.example.com`. */
  readonly authority?: string;
  /** Default `edge/`. */
  readonly pathPrefix?: string;
  /**
   * How it subscribes clusters and listeners: by xdstp globs (the default), or by old-style
   * wildcards; `mixed` means old-style clusters and a glob of listeners.
   */
  readonly collections?: 'globs' | 'wildcard' | 'mixed';
  /** Default `DELTA_GRPC`. */
  readonly apiType?: 'DELTA_GRPC' | 'GRPC';
  /**
   * `ads` (the default): one stream for all types. `per-type`: a stream of the service of each type,
   * and one for each name where names are subscribed. `rest`: polls `restPort`. With the last two, the
   * resources of its control plane need {@link overSource}.
   */
  readonly over?: 'ads' | 'per-type' | 'rest';
  readonly restPort?: number;
  /** The metadata of its Node. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Headers of all its streams to the management server. */
  readonly headers?: Readonly<Record<string, string>>;
  /** TLS to the management server, with or without a client certificate. */
  readonly tls?: { readonly ca: string; readonly cert?: string; readonly key?: string };
  /** Default true. */
  readonly setNodeOnFirstMessageOnly?: boolean;
  /** HTTP/2 pings to the management server. Default: after 2 s, answered within 1 s. */
  readonly keepalive?: { readonly intervalMs: number; readonly timeoutMs: number };
  /** Delays before a new stream. Default 50 ms to 500 ms. */
  readonly backoff?: { readonly baseMs: number; readonly maxMs: number };
  /** Reports its load to the management server (`load_stats_config`). Default false. */
  readonly reportLoads?: boolean;
  /** For clusters and listeners: when Envoy stops waiting for the first ones; 0 means never. */
  readonly initialFetchTimeoutMs?: number;
}

export interface EnvoyClusterStatus {
  readonly name: string;
  /** `address:port` of each endpoint. */
  readonly endpoints: readonly string[];
}

function seconds(ms: number): string {
  return `${ms / 1_000}s`;
}

function transportSocket(tls: NonNullable<EnvoyOptions['tls']>): unknown {
  const own =
    tls.cert === undefined || tls.key === undefined
      ? []
      : [{ certificate_chain: { filename: tls.cert }, private_key: { filename: tls.key } }];
  return {
    name: 'envoy.transport_sockets.tls',
    typed_config: {
      '@type': 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext',
      common_tls_context: {
        alpn_protocols: ['h2'],
        tls_certificates: own,
        validation_context: { trusted_ca: { filename: tls.ca } },
      },
    },
  };
}

const httpProtocolOptions = 'envoy.extensions.upstreams.http.v3.HttpProtocolOptions';

/** The REST server, over HTTP/1.1. */
function restCluster(restPort: number): unknown {
  const address = { socket_address: { address: '127.0.0.1', port_value: restPort } };
  return {
    name: 'management-rest',
    type: 'STATIC',
    connect_timeout: '1s',
    load_assignment: {
      cluster_name: 'management-rest',
      endpoints: [{ lb_endpoints: [{ endpoint: { address } }] }],
    },
  };
}

function grpcService(options: Pick<EnvoyOptions, 'backoff' | 'headers'>): unknown {
  const { backoff = { baseMs: 50, maxMs: 500 }, headers = {} } = options;
  const retryBackOff = {
    base_interval: seconds(backoff.baseMs),
    max_interval: seconds(backoff.maxMs),
  };
  return {
    envoy_grpc: {
      cluster_name: 'management',
      retry_policy: { retry_back_off: retryBackOff },
    },
    initial_metadata: Object.entries(headers).map(([key, value]) => ({ key, value })),
  };
}

/** The source of a resource of an Envoy that does not use ADS (`envoy.config.core.v3.ConfigSource`). */
export function sourceWithoutAds(
  options: Pick<EnvoyOptions, 'apiType' | 'over' | 'backoff' | 'headers'>,
): Readonly<Record<string, unknown>> {
  const api =
    options.over === 'rest'
      ? {
          api_type: 'REST',
          cluster_names: ['management-rest'],
          refresh_delay: '0.1s',
          request_timeout: '6s',
        }
      : { api_type: options.apiType ?? 'DELTA_GRPC', grpc_services: [grpcService(options)] };
  return {
    api_config_source: { transport_api_version: 'V3', ...api },
    resource_api_version: 'V3',
  };
}

/** The same resources, whose own references name this source in place of ADS. */
export function overSource(
  resources: readonly MeshResource[],
  source: Readonly<Record<string, unknown>>,
): readonly MeshResource[] {
  const replaced = (_key: string, value: unknown): unknown =>
    typeof value === 'object' && value !== null && 'ads' in value ? source : value;
  return JSON.parse(JSON.stringify(resources, replaced)) as readonly MeshResource[];
}

function managementCluster(options: EnvoyOptions): unknown {
  const { keepalive = { intervalMs: 2_000, timeoutMs: 1_000 } } = options;
  const address = { socket_address: { address: '127.0.0.1', port_value: options.xdsPort } };
  return {
    name: 'management',
    type: 'STATIC',
    connect_timeout: '1s',
    typed_extension_protocol_options: {
      [httpProtocolOptions]: {
        '@type': `type.googleapis.com/${httpProtocolOptions}`,
        explicit_http_config: {
          http2_protocol_options: {
            connection_keepalive: {
              interval: seconds(keepalive.intervalMs),
              timeout: seconds(keepalive.timeoutMs),
            },
          },
        },
      },
    },
    load_assignment: {
      cluster_name: 'management',
      endpoints: [{ lb_endpoints: [{ endpoint: { address } }] }],
    },
    ...(options.tls === undefined ? {} : { transport_socket: transportSocket(options.tls) }),
  };
}

const loadStats = {
  load_stats_config: {
    api_type: 'GRPC',
    transport_api_version: 'V3',
    grpc_services: [{ envoy_grpc: { cluster_name: 'management' } }],
  },
};

/** The bootstrap (`envoy.config.bootstrap.v3.Bootstrap`) as JSON. */
export function bootstrap(options: EnvoyOptions): unknown {
  const { authority = 'cloud.example.com', pathPrefix = 'edge/' } = options;
  const lds = { lds_resources_locator: xdstpGlob(authority, 'listener', pathPrefix) };
  const cds = { cds_resources_locator: xdstpGlob(authority, 'cluster', pathPrefix) };
  const locators = { globs: { ...cds, ...lds }, mixed: lds, wildcard: {} };
  const { over = 'ads', apiType = 'DELTA_GRPC', restPort = 0, metadata } = options;
  const collections = {
    ...(over === 'ads' ? { ads: {}, resource_api_version: 'V3' } : sourceWithoutAds(options)),
    ...(options.initialFetchTimeoutMs === undefined
      ? {}
      : { initial_fetch_timeout: seconds(options.initialFetchTimeoutMs) }),
  };
  const source = {
    transport_api_version: 'V3',
    set_node_on_first_message_only: options.setNodeOnFirstMessageOnly ?? true,
    grpc_services: [grpcService(options)],
  };
  return {
    node: {
      id: options.nodeId ?? 'envoy-1',
      cluster: options.nodeCluster ?? 'edge',
      ...(metadata && { metadata }),
    },
    admin: { address: { socket_address: { address: '127.0.0.1', port_value: 0 } } },
    dynamic_resources: {
      ...(over === 'ads' && { ads_config: { api_type: apiType, ...source } }),
      cds_config: collections,
      lds_config: collections,
      ...locators[options.collections ?? 'globs'],
    },
    ...(options.reportLoads === true ? { cluster_manager: loadStats } : {}),
    static_resources: {
      clusters: [managementCluster(options), ...(over === 'rest' ? [restCluster(restPort)] : [])],
    },
  };
}

/** A running Envoy whose admin side is up. It may still wait for its configuration. */
export class Envoy {
  readonly #directory: string;
  readonly #child: Child;
  readonly #admin: string;

  private constructor(directory: string, child: Child, admin: string) {
    this.#directory = directory;
    this.#child = child;
    this.#admin = admin;
  }

  static start(options: EnvoyOptions): Promise<Envoy> {
    return Envoy.startWith(bootstrap(options));
  }

  /** @param written the bootstrap as JSON */
  static async startWith(written: unknown): Promise<Envoy> {
    const directory = await scratchDirectory('envoy');
    const [config, addressFile] = [join(directory, 'bootstrap.json'), join(directory, 'admin')];
    await writeFile(config, JSON.stringify(written, undefined, 2));
    const quiet = ['--disable-hot-restart', '--concurrency', '1', '--log-level', 'info'];
    const child = new Child({
      name: 'envoy',
      command: peerPath('envoy'),
      args: ['-c', config, '--admin-address-path', addressFile, ...quiet],
      directory,
    });
    const admin = await child.ready(
      until('Envoy has written its admin address', async () => {
        const address = await readFile(addressFile, 'utf8');
        return address !== '' && address;
      }),
    );
    return new Envoy(directory, child, `http://${admin}`);
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get admin(): string {
    return this.#admin;
  }

  /** `LIVE`; before that `PRE_INITIALIZING` and `INITIALIZING`. */
  async state(): Promise<string> {
    return (await httpRequest(`${this.#admin}/ready`)).body.trim();
  }

  /** Waits until Envoy is LIVE: its first configuration is in effect. */
  async ready(options: UntilOptions = {}): Promise<void> {
    const live = async (): Promise<boolean> => (await this.state()) === 'LIVE';
    try {
      await until('Envoy is LIVE', live, options);
    } catch (error) {
      if (error instanceof Error) error.message += `\n${this.logs()}`;
      throw error;
    }
  }

  /** `/config_dump` with endpoints, as text: tests search names and values without parsing. */
  async configDump(): Promise<string> {
    return (await httpRequest(`${this.#admin}/config_dump?include_eds`)).body;
  }

  /** Every active cluster, by name. */
  async clustersTable(): Promise<ReadonlyMap<string, EnvoyClusterStatus>> {
    const body = (await httpJson(`${this.#admin}/clusters?format=json`)) as {
      cluster_statuses?: readonly {
        name: string;
        host_statuses?: readonly {
          address: { socket_address: { address: string; port_value: number } };
        }[];
      }[];
    };
    const statuses = (body.cluster_statuses ?? []).map((status) => ({
      name: status.name,
      endpoints: (status.host_statuses ?? []).map(({ address: { socket_address: at } }) =>
        [at.address, at.port_value].join(':'),
      ),
    }));
    return new Map(statuses.map((status) => [status.name, status]));
  }

  /** Waits until the cluster is active, and has an endpoint at `port` if one is given. */
  waitForCluster(
    name: string,
    { port, ...options }: UntilOptions & { readonly port?: number } = {},
  ): Promise<EnvoyClusterStatus> {
    const probe = async (): Promise<EnvoyClusterStatus | undefined> => {
      const found = (await this.clustersTable()).get(name);
      const there = port === undefined || found?.endpoints.includes(`127.0.0.1:${port}`);
      return there ? found : undefined;
    };
    return until(`Envoy has the cluster ${name} at ${port ?? 'any port'}`, probe, options);
  }

  /** Counters and gauges with this prefix, e.g. `control_plane.`. */
  async stats(prefix: string): Promise<ReadonlyMap<string, number>> {
    const filter = `^${prefix.replaceAll('.', '\\.')}`;
    const query = new URLSearchParams({ format: 'json', filter }).toString();
    const body = (await httpJson(`${this.#admin}/stats?${query}`)) as {
      stats: readonly { name?: string; value?: number }[];
    };
    return new Map(body.stats.map(({ name = '', value = Number.NaN }) => [name, value]));
  }

  logs(): string {
    return this.#child.logs();
  }

  kill(): Promise<void> {
    return this.#child.kill();
  }

  async stop(): Promise<void> {
    await this.#child.stop();
    await removeScratch(this.#directory);
  }
}
