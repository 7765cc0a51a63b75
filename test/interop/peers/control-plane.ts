import { freePort } from '../../support/free-port.js';
import { httpJson } from '../../support/http.js';
import type { MeshResource } from '../../support/mesh.js';
import { until, type UntilOptions } from '../../support/until.js';
import { Child, removeScratch, scratchDirectory } from './child.js';
import { javaCommand, peerPath } from './provisioned.js';

export interface ControlPlaneTls {
  readonly cert: string;
  readonly key: string;
  /** If set, clients must have a certificate of this CA. */
  readonly clientCa?: string;
}

/**
 * Control planes whose behaviour the Go program imitates. Their resources belong to a scope: a
 * namespace (`istio`), a node id (`consul`), a network (`traffic-director`), or everyone (`contour`).
 */
export type LookAlike = 'istio' | 'consul' | 'contour' | 'traffic-director';

export interface ControlPlaneOptions {
  readonly name?: string;
  /** Default: go-control-plane. java-control-plane serves only snapshots, and has no TLS here. */
  readonly program?: 'control-plane' | 'java-control-plane';
  readonly like?: LookAlike;
  /** Default: a free port. */
  readonly xdsPort?: number;
  readonly tls?: ControlPlaneTls;
  /** Each node id has only resources of its own, those of {@link ControlPlane.setSnapshot}. */
  readonly byNode?: boolean;
  /** With `byNode`: for clients with a stream per type or REST, which never request all names at once. */
  readonly perType?: boolean;
}

/**
 * - `silent`: streams are accepted and never answered, open ones too. Leaving it ends those streams
 *   whose answers were swallowed.
 * - `die-after-first-response`: each stream ends with UNAVAILABLE after its next response.
 * - `unimplemented`, `unauthenticated`: new streams are refused with that status.
 */
export type Behaviour =
  'normal' | 'silent' | 'die-after-first-response' | 'unimplemented' | 'unauthenticated';

/** The requests of one stream for one type. For delta streams the lists cover all requests. */
export interface TypeRecord {
  readonly requests: number;
  /** From the stream's first request for the type. */
  readonly initialResourceVersions: Readonly<Record<string, string>> | null;
  readonly subscribed: readonly string[];
  readonly unsubscribed: readonly string[];
  /** Names subscribed now, unordered. */
  readonly subscriptions: readonly string[];
  readonly responses: number;
  readonly sentResources: number;
  readonly sentRemovals: number;
}

export interface StreamRecord {
  /** Counts from 1, over the life of the process. */
  readonly id: number;
  readonly open: boolean;
  /** `/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources`, … */
  readonly method: string;
  readonly peer: string;
  /** DNS names and URIs of the client's certificate. */
  readonly clientSans: readonly string[];
  readonly nodeId: string;
  /** The latest Node as protobuf JSON, without its extensions. */
  readonly node: Readonly<Record<string, unknown>> | null;
  /** The number of extensions in that Node. */
  readonly extensions: number;
  readonly requestsWithNode: number;
  readonly headers: Readonly<Record<string, readonly string[]>>;
  /** The gRPC status with which the server ended the stream; empty while it is open. */
  readonly ended: string;
  /** The last 20 requests, oldest first. `version` is that of state-of-the-world requests. */
  readonly recentRequests: readonly {
    readonly typeUrl: string;
    readonly hasNode: boolean;
    readonly version: string;
    readonly nonce: string;
  }[];
  readonly requests: number;
  readonly acks: number;
  readonly nacks: readonly { readonly typeUrl: string; readonly error: string }[];
  readonly responses: number;
  /** By type URL. */
  readonly types: Readonly<Record<string, TypeRecord>>;
}

export interface Streams {
  readonly mode: Behaviour;
  readonly open: number;
  readonly opened: number;
  /** Streams refused by `unimplemented` and `unauthenticated`. */
  readonly refused: number;
  readonly streams: readonly StreamRecord[];
  /** REST requests. */
  readonly fetches:
    | readonly {
        /** `/v3/discovery:clusters`, … */
        readonly path: string;
        readonly nodeId: string;
        readonly version: string;
        readonly names: readonly string[] | null;
        /** 304: the client has the latest version. */
        readonly status: number;
      }[]
    | null;
}

/** The sums of the load reports of one node id; finished requests by cluster. */
export interface ClientLoads {
  readonly streams: number;
  readonly reports: number;
  readonly succeeded: Readonly<Record<string, number>>;
  readonly failed: Readonly<Record<string, number>>;
}

/** The loads that a control plane asks for; without `clusters`, those of all clusters. */
export interface LoadsAsk {
  readonly intervalMs: number;
  readonly clusters?: readonly string[];
  readonly byEndpoint?: boolean;
}

/** All load reports about one cluster together. */
export interface ClusterTotals {
  readonly serviceName: string;
  readonly successful: number;
  readonly failed: number;
  readonly issued: number;
  readonly dropped: number;
  /** Of the latest report. */
  readonly inProgress: number;
  /** Issued requests by `region/zone/sub_zone`. */
  readonly localities: Readonly<Record<string, number>>;
  /** Issued requests by `address:port`. */
  readonly endpoints: Readonly<Record<string, number>>;
  /** Of the latest report. */
  readonly intervalMs: number;
}

export interface Loads {
  /** Streams so far. */
  readonly streams: number;
  readonly reports: number;
  readonly features: readonly string[];
  readonly clusters: Readonly<Record<string, ClusterTotals>>;
}

interface Ports {
  readonly xdsPort: number;
  readonly controlPort: number;
  readonly restPort?: number;
}

function readyLine(line: string): Ports | undefined {
  return line.startsWith('{') ? (JSON.parse(line) as Ports) : undefined;
}

/**
 * A real go-control-plane or java-control-plane, or a look-alike of another. After a kill it restarts
 * empty, on the same ports.
 */
export class ControlPlane {
  readonly #options: ControlPlaneOptions;
  readonly #directory: string;
  #child: Child;
  #ports: Ports;

  private constructor(options: ControlPlaneOptions, directory: string, child: Child, ports: Ports) {
    this.#options = options;
    this.#directory = directory;
    this.#child = child;
    this.#ports = ports;
  }

  static async start(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
    const directory = await scratchDirectory(options.name ?? 'control-plane');
    const child = launch(options, directory, {
      xdsPort: options.xdsPort ?? (await freePort()),
      controlPort: await freePort(),
      restPort: await freePort(),
    });
    return new ControlPlane(options, directory, child, await child.line(readyLine));
  }

  get xdsPort(): number {
    return this.#ports.xdsPort;
  }

  /** The port of the REST server; 0 without one. */
  get restPort(): number {
    return this.#ports.restPort ?? 0;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Replaces all resources, those of a scope of a {@link LookAlike}. */
  async setResources(resources: readonly MeshResource[], scope = ''): Promise<void> {
    const query = new URLSearchParams({ scope }).toString();
    await this.#ask(`/resources?${query}`, 'PUT', resources);
  }

  /** With `byNode`, and of java-control-plane: replaces all resources of one node id. */
  async setSnapshot(node: string, resources: readonly MeshResource[]): Promise<void> {
    const query = new URLSearchParams({ node }).toString();
    await this.#ask(`/snapshots?${query}`, 'PUT', resources);
  }

  /** Adds or replaces resources. */
  async patchResources(resources: readonly MeshResource[], scope = ''): Promise<void> {
    const query = new URLSearchParams({ scope }).toString();
    await this.#ask(`/resources?${query}`, 'PATCH', resources);
  }

  async deleteResource(typeUrl: string, name: string, scope = ''): Promise<void> {
    const query = new URLSearchParams({ typeUrl, name, scope }).toString();
    await this.#ask(`/resources?${query}`, 'DELETE');
  }

  /** @param endStreams also end all open streams, with UNAVAILABLE */
  async behave(mode: Behaviour, { endStreams = false } = {}): Promise<void> {
    await this.#ask('/behaviour', 'POST', { mode, endStreams });
  }

  async streams(): Promise<Streams> {
    return (await this.#ask('/streams', 'GET')) as Streams;
  }

  /** Turns on load reports. Until then they are UNIMPLEMENTED. */
  async askForLoads(ask: LoadsAsk): Promise<void> {
    await this.#ask('/loads', 'PUT', ask);
  }

  async loads(): Promise<Loads> {
    return (await this.#ask('/loads', 'GET')) as Loads;
  }

  /** Load reports by node id, of the look-alike of Traffic Director. */
  async clientLoads(): Promise<Readonly<Record<string, ClientLoads>>> {
    return (await this.#ask('/loads', 'GET')) as Readonly<Record<string, ClientLoads>>;
  }

  /** The first open stream for which `holds` is true. */
  waitForStream(
    what: string,
    holds: (stream: StreamRecord) => boolean,
    options: UntilOptions = {},
  ): Promise<StreamRecord> {
    const probe = async (): Promise<StreamRecord | undefined> =>
      (await this.streams()).streams.find((stream) => stream.open && holds(stream));
    return until(what, probe, options);
  }

  logs(): string {
    return this.#child.logs();
  }

  kill(): Promise<void> {
    return this.#child.kill();
  }

  freeze(): void {
    this.#child.freeze();
  }

  thaw(): void {
    this.#child.thaw();
  }

  /** After {@link kill}: starts a new process on the same ports, with these resources. */
  async restart(resources: readonly MeshResource[] = []): Promise<void> {
    this.#child = launch(this.#options, this.#directory, this.#ports);
    this.#ports = await this.#child.line(readyLine);
    if (this.#options.program !== 'java-control-plane') await this.setResources(resources);
  }

  async stop(): Promise<void> {
    await this.#child.stop();
    await removeScratch(this.#directory);
  }

  #ask(path: string, method: string, json?: unknown): Promise<unknown> {
    return httpJson(`http://127.0.0.1:${this.#ports.controlPort}${path}`, { method, json });
  }
}

function launch(options: ControlPlaneOptions, directory: string, ports: Ports): Child {
  const { tls, program = 'control-plane' } = options;
  const name = options.name ?? program;
  const args = [`-xds-port=${ports.xdsPort}`, `-control-port=${ports.controlPort}`];
  if (program === 'java-control-plane') {
    const [command, ...java] = javaCommand(program);
    return new Child({ name, command, args: [...java, ...args], directory });
  }
  args.push(`-rest-port=${ports.restPort ?? 0}`);
  if (options.like !== undefined) args.push(`-like=${options.like}`);
  if (options.byNode === true) args.push('-by-node');
  if (options.perType === true) args.push('-per-type');
  if (tls !== undefined) args.push(`-cert=${tls.cert}`, `-key=${tls.key}`);
  if (tls?.clientCa !== undefined) args.push(`-client-ca=${tls.clientCa}`);
  return new Child({ name, command: peerPath(program), args, directory });
}
