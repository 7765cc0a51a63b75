import { httpJson } from '../../support/http.js';
import type { MeshResource } from '../../support/mesh.js';
import { until, type UntilOptions } from '../../support/until.js';
import { Child, removeScratch, scratchDirectory } from './child.js';
import { peerPath } from './provisioned.js';

export interface ControlPlaneTls {
  readonly cert: string;
  readonly key: string;
  /** If set, clients must have a certificate of this CA. */
  readonly clientCa?: string;
}

export interface ControlPlaneOptions {
  readonly name?: string;
  /** Default: a free port. */
  readonly xdsPort?: number;
  readonly tls?: ControlPlaneTls;
  /** Each node id has only resources of its own, those of {@link ControlPlane.setSnapshot}. */
  readonly byNode?: boolean;
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
}

function readyLine(line: string): Ports | undefined {
  return line.startsWith('{') ? (JSON.parse(line) as Ports) : undefined;
}

/** A real go-control-plane. After a kill it restarts empty, on the same ports. */
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
    const child = launch(options, directory, { xdsPort: options.xdsPort ?? 0, controlPort: 0 });
    return new ControlPlane(options, directory, child, await child.line(readyLine));
  }

  get xdsPort(): number {
    return this.#ports.xdsPort;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Replaces all resources. */
  async setResources(resources: readonly MeshResource[]): Promise<void> {
    await this.#ask('/resources', 'PUT', resources);
  }

  /** With `byNode`: replaces all resources of one node id. */
  async setSnapshot(node: string, resources: readonly MeshResource[]): Promise<void> {
    const query = new URLSearchParams({ node }).toString();
    await this.#ask(`/snapshots?${query}`, 'PUT', resources);
  }

  /** Adds or replaces resources. */
  async patchResources(resources: readonly MeshResource[]): Promise<void> {
    await this.#ask('/resources', 'PATCH', resources);
  }

  async deleteResource(typeUrl: string, name: string): Promise<void> {
    const query = new URLSearchParams({ typeUrl, name }).toString();
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
    await this.setResources(resources);
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
  const { tls } = options;
  const args = [`-xds-port=${ports.xdsPort}`, `-control-port=${ports.controlPort}`];
  if (options.byNode === true) args.push('-by-node');
  if (tls !== undefined) args.push(`-cert=${tls.cert}`, `-key=${tls.key}`);
  if (tls?.clientCa !== undefined) args.push(`-client-ca=${tls.clientCa}`);
  const name = options.name ?? 'control-plane';
  return new Child({ name, command: peerPath('control-plane'), args, directory });
}
