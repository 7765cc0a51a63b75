/**
 * Drives a Federation against fake management servers with a manual clock. It does what the shells
 * do, in their order, and nothing else.
 */
import { Federation, type FederationEffect } from '../../authorities/core/federation.js';
import type { FailoverGroup, GroupEvent } from '../../authorities/core/failover/failover-group.js';
import type { LastKnown } from '../../authorities/core/failover/last-known.js';
import type { Projection } from '../../authorities/core/projection.js';
import type { StreamEnd } from '../../authorities/core/sources/source-health.js';
import type { ResourceWatcher } from '../../authorities/core/watcher.js';
import {
  DEFAULT_AUTHORITY,
  DEFAULT_FAILOVER,
  DEFAULT_PROTOCOL,
  DEFAULT_TIMERS,
} from '../../config/defaults.js';
import { DEFAULT_RESOLUTION, type ResolutionBounds } from '../../config/limits.js';
import type {
  AlternativeSpec,
  AuthorityMap,
  AuthoritySpec,
  FailoverPolicy,
  NodeSpec,
  SourceSpec,
  SourceTimers,
} from '../../config/model.js';
import type { ResourceDirectory } from '../../gateway/core/cache/resource-cache.js';
import { readAskedName } from '../../gateway/core/session/asked-name.js';
import type { RpcStatus } from '../../protos/discovery.js';
import { bodyOf } from '../../protos/resource-field.js';
import { encodeNode } from '../../protos/node-codec.js';
import { scopeOf, type NodeField } from '../../protos/node-scope.js';
import { withParameters, type ResourceName } from '../../protos/resource-name.js';
import { REDIRECT, textLocatorBytes } from './collection-messages.js';
import { nameOf } from './fake-directory.js';
import { FakeManagementServer, type FakeStream } from './fake-management-server.js';

export const THING = 'type.googleapis.com/test.v1.Thing';
/**
 * A collection of a server is complete after this time without new members: `switch_wait` and a
 * margin.
 */
export const WHOLE_MS = 2_500;

/** The scope of the node group of a node id, where `differ_by` is the id. */
export const scopeOfId = (id: string): string => scopeOf({ id }, ['id']);

export { nameOf };

/** A name as in a client's request: with lists and directives too, or `env=prod xdstp://…` with dynamic parameters (TP2). */
export function askedName(text: string, typeUrl = THING): ResourceName {
  const [, parameters, plain] = /^(\S+=\S+) (.*)$/.exec(text) ?? [];
  if (parameters !== undefined && plain !== undefined)
    return withParameters(askedName(plain, typeUrl), parameters);
  if (text.startsWith('\n')) return nameOf(text);
  const asked = readAskedName(typeUrl, text);
  if (!asked.ok) throw new Error(`${text}: ${asked.status.message}`);
  return asked.name;
}

/** `xdstp://<authority>/test.v1.Thing/<id>` */
export const thing = (authority: string, id: string): string =>
  `xdstp://${authority}/test.v1.Thing/${id}`;

export interface AuthoritySketch {
  readonly sources: readonly string[];
  readonly alternatives?: readonly Partial<AlternativeSpec>[];
  readonly failover?: Partial<FailoverPolicy>;
  readonly ignoreDeletion?: boolean;
  readonly mayLeadTo?: readonly string[];
}

export interface OldStyleSketch {
  readonly differBy?: readonly NodeField[];
  readonly servedBy: readonly (AuthoritySketch & { readonly types?: readonly string[] })[];
}

export interface MapSketch {
  readonly authorities: Readonly<Record<string, AuthoritySketch>>;
  readonly timers?: Partial<SourceTimers>;
  /** Sources that are directories; all others are management servers. */
  readonly paths?: readonly string[];
  /** By source: a target other than the default one. */
  readonly targets?: Readonly<Record<string, string>>;
  /** Sources with `dynamic_parameters: forward` (TP2). */
  readonly variants?: readonly string[];
  /** By source: a Node of its own. */
  readonly nodes?: Readonly<Record<string, NodeSpec>>;
  readonly oldStyle?: OldStyleSketch;
  /** `default_config_source`. */
  readonly defaultSource?: AuthoritySketch;
}

function authorityOf(name: string, sketch: AuthoritySketch): AuthoritySpec {
  const { sources, alternatives = [], failover, ignoreDeletion = false, mayLeadTo } = sketch;
  return {
    name,
    sources,
    alternatives: alternatives.map((one) => ({
      authority: '',
      fromPrefix: '',
      toPrefix: '',
      ...one,
    })),
    failover: { ...DEFAULT_FAILOVER, ...failover },
    ignoreDeletion,
    ...(mayLeadTo && { mayLeadTo }),
  };
}

export function mapOf(sketch: MapSketch): AuthorityMap {
  const { authorities, timers, paths = [], targets = {}, nodes = {}, variants = [] } = sketch;
  const specs = Object.entries(authorities).map(([name, one]) => authorityOf(name, one));
  const servedBy = (sketch.oldStyle?.servedBy ?? []).map((one, index) => ({
    ...authorityOf(`old-style/${index}`, one),
    types: one.types,
  }));
  const differBy = sketch.oldStyle?.differBy ?? ['id', 'cluster'];
  const sources = new Map<string, SourceSpec>();
  const defaultSource =
    sketch.defaultSource && authorityOf(DEFAULT_AUTHORITY, sketch.defaultSource);
  const all = [...specs, ...servedBy, ...(defaultSource ? [defaultSource] : [])];
  for (const name of all.flatMap((spec) => spec.sources)) {
    sources.set(
      name,
      paths.includes(name)
        ? { kind: 'path', name, path: `/srv/${name}` }
        : {
            kind: 'grpc',
            name,
            ...DEFAULT_PROTOCOL,
            target: targets[name] ?? `${name}.example.com:443`,
            tls: null,
            initialMetadata: [],
            channelArgs: {},
            maxReceiveBytes: 16 * 1024 * 1024,
            timers: { ...DEFAULT_TIMERS, ...timers },
            ...(nodes[name] ? { node: nodes[name] } : {}),
            ...(variants.includes(name) ? { dynamicParameters: 'forward' } : {}),
          },
    );
  }
  return {
    sources,
    authorities: new Map(specs.map((spec) => [spec.name, spec])),
    ...(servedBy.length > 0 ? { oldStyle: { differBy, servedBy } } : {}),
    ...(defaultSource ? { defaultSource } : {}),
  };
}

/**
 * Records notifications, as one word and the name, and keeps the content that a client would hold.
 */
export class RecordingWatcher implements ResourceWatcher {
  readonly told: string[] = [];
  readonly held = new Map<string, string>();
  readonly projections = new Map<string, Projection>();
  /** By glob: whether its last completion proved that there are no other members. */
  readonly proven = new Map<string, boolean>();
  /** The keys of what does not only come from the disk any more. */
  readonly confirmed: string[] = [];

  onConfirmed({ name }: Projection): void {
    this.confirmed.push(name.key);
  }

  onChanged(projection: Projection): void {
    const { key } = projection.name;
    const body = bodyOf(projection.field).toString();
    this.told.push(`changed ${key} ${body}`);
    this.held.set(key, body);
    this.projections.set(key, projection);
  }

  onRemoved(_typeUrl: string, name: ResourceName, status?: RpcStatus): void {
    this.told.push(`removed ${name.key}${reasonOf(status)}`);
    this.held.delete(name.key);
  }

  onMemberChanged(list: ResourceName, projection: Projection): void {
    const { key } = projection.name;
    const body = bodyOf(projection.field).toString();
    this.told.push(`member ${key} ${body} of ${list.key}`);
    this.held.set(key, body);
    this.projections.set(key, projection);
  }

  onMemberRemoved(_typeUrl: string, list: ResourceName, name: ResourceName): void {
    this.told.push(`gone ${name.key} of ${list.key}`);
    this.held.delete(name.key);
  }

  onDoesNotExist(_typeUrl: string, name: ResourceName, status?: RpcStatus): void {
    this.told.push(`absent ${name.key}${reasonOf(status)}`);
    this.held.delete(name.key);
  }

  onComplete(_typeUrl: string, glob: ResourceName, isProof: boolean, status?: RpcStatus): void {
    this.proven.set(glob.key, isProof);
    this.told.push(`complete ${glob.key}${reasonOf(status)}`);
  }

  onResourceError(_typeUrl: string, name: ResourceName, { code }: RpcStatus): void {
    this.told.push(`error ${code} ${name.key}`);
  }

  /** The notifications since the last call. */
  take(): readonly string[] {
    return this.told.splice(0);
  }
}

const reasonOf = (status: RpcStatus | undefined): string => (status ? ` (${status.code})` : '');

interface Connection {
  readonly epoch: number;
  readonly stream: FakeStream | undefined;
}

interface Scheduled {
  readonly atMs: number;
  readonly run: () => void;
}

const sourceNameOf = (id: string): string => id.split('\n', 1)[0] ?? id;

const REFUSED: StreamEnd = { code: 14, message: 'refused', detectedBy: 'stream' };

export interface FederationDriverOptions {
  readonly random?: () => number;
  readonly maxResources?: number;
  readonly bounds?: Partial<ResolutionBounds>;
  readonly movedNamesPerTurn?: number;
  readonly portionBytes?: number;
  /** The disk of the process. */
  readonly lastKnown?: LastKnown;
}

export class FederationDriver {
  nowMs = 1_000_000;
  readonly federation: Federation;
  readonly effects: FederationEffect[] = [];
  readonly servers = new Map<string, FakeManagementServer>();
  /** The connect attempts of each source. */
  readonly dials: { readonly source: string; readonly atMs: number }[] = [];
  readonly #connections = new Map<string, Connection>();
  #scheduled: Scheduled[] = [];

  constructor(
    map: AuthorityMap,
    {
      random = () => 0.5,
      maxResources = 10_000,
      bounds = {},
      movedNamesPerTurn = Infinity,
      portionBytes = Infinity,
      lastKnown,
    }: FederationDriverOptions = {},
  ) {
    this.federation = new Federation({
      map,
      nodeFor: (_source, group) =>
        encodeNode({ id: 'n', cluster: '', ...group, userAgentName: '', userAgentVersion: '' }),
      maxResourcesPerResponse: maxResources,
      bounds: { ...DEFAULT_RESOLUTION, ...bounds },
      movedNamesPerTurn,
      portionBytes,
      random,
      ...(lastKnown && { lastKnown }),
    });
    for (const name of map.sources.keys()) this.server(name);
  }

  /** @param id of a source; the sources of its node groups share the server. */
  server(id: string): FakeManagementServer {
    const name = sourceNameOf(id);
    let server = this.servers.get(name);
    if (!server) this.servers.set(name, (server = new FakeManagementServer()));
    return server;
  }

  /** The federation as a resource cache sees it. */
  get directory(): ResourceDirectory {
    const { federation } = this;
    const nowMs = (): number => this.nowMs;
    return {
      get nowMs() {
        return nowMs();
      },
      watch: (typeUrl, name, watcher) => {
        federation.watch(typeUrl, name, watcher, nowMs());
      },
      unwatch: (typeUrl, name, watcher, leftMs) => {
        federation.unwatch(typeUrl, name, watcher, nowMs(), leftMs);
      },
      isCurrent: (typeUrl, name) => federation.isCurrent(typeUrl, name),
      guardedUntilMs: (typeUrl, name) => federation.guardedUntilMs(typeUrl, name, nowMs()),
      isSilentAbout: (typeUrl, name) => federation.isSilentAbout(typeUrl, name),
      removalPolicyOf: (typeUrl, name) => federation.removalPolicyOf(typeUrl, name),
    };
  }

  group(id: string): FailoverGroup {
    const group = this.federation.groups.find((one) => one.id === id);
    if (!group) throw new Error(`no group ${id}`);
    return group;
  }

  watch(text: string, watcher: ResourceWatcher = new RecordingWatcher(), typeUrl = THING): void {
    this.federation.watch(typeUrl, askedName(text, typeUrl), watcher, this.nowMs);
    this.pump();
  }

  /** A new watcher of these names. */
  watching(...texts: readonly string[]): RecordingWatcher {
    const watcher = new RecordingWatcher();
    for (const text of texts) {
      this.federation.watch(THING, askedName(text), watcher, this.nowMs);
    }
    this.pump();
    return watcher;
  }

  unwatch(text: string, watcher: ResourceWatcher, typeUrl = THING): void {
    this.federation.unwatch(typeUrl, askedName(text, typeUrl), watcher, this.nowMs);
    this.pump();
  }

  reload(map: AuthorityMap): void {
    for (const name of map.sources.keys()) this.server(name);
    this.federation.reload(map, this.nowMs);
    this.pump();
  }

  force(group: string, candidate: number, forMs = Infinity): void {
    this.federation.force(group, candidate, this.nowMs, this.nowMs + forMs);
    this.pump();
  }

  release(group: string): void {
    this.federation.release(group, this.nowMs);
    this.pump();
  }

  /** Changes a resource of a server, and announces it if a stream is open. */
  publish(source: string, name: string, body: string | Uint8Array, typeUrl = THING): void {
    this.server(source).set(typeUrl, name, body);
    this.announce(source, typeUrl, name);
  }

  /** A redirect, in the form of the TP1 text. */
  redirect(source: string, name: string, to: string, typeUrl = THING): void {
    this.server(source).set(typeUrl, name, textLocatorBytes(to), REDIRECT);
    this.announce(source, typeUrl, name);
  }

  delete(source: string, name: string, typeUrl = THING): void {
    this.server(source).delete(typeUrl, name);
    this.announce(source, typeUrl, name);
  }

  announce(source: string, typeUrl: string, ...names: readonly string[]): void {
    for (const [id, { stream }] of this.#connections) {
      if (sourceNameOf(id) === source) stream?.announce(typeUrl, names);
    }
    this.pump();
  }

  /** Ends the server's streams; the federation may reconnect if it is `up`. */
  cut(source: string, end: Partial<StreamEnd> = {}): void {
    for (const [id, { epoch }] of [...this.#connections]) {
      if (id !== source && sourceNameOf(id) !== source) continue;
      this.#connections.delete(id);
      this.federation.handleAttemptEvent(
        id,
        epoch,
        { kind: 'ended', end: { ...REFUSED, ...end } },
        this.nowMs,
      );
    }
    this.pump();
  }

  /** Open streams of a source, including those of node groups. */
  streamsOf(source: string): readonly FakeStream[] {
    return [...this.#connections].flatMap(([id, { stream }]) =>
      stream && sourceNameOf(id) === source ? [stream] : [],
    );
  }

  /** Makes the server unreachable: its stream ends and new ones are refused. */
  kill(source: string): void {
    this.server(source).reachability = 'refuse';
    this.cut(source);
  }

  /**
   * Makes the server reachable. Requests that a black hole swallowed are lost, and with them their
   * stream.
   */
  revive(source: string): void {
    const server = this.server(source);
    const wasHung = server.reachability === 'black_hole';
    server.reachability = 'up';
    if (wasHung) this.cut(source);
  }

  isConnected(source: string): boolean {
    return this.#connections.get(source)?.stream !== undefined;
  }

  /** Sends any response on the open stream of a source. */
  send(source: string, response: Parameters<FakeStream['send']>[0]): void {
    this.server(source).stream.send(response);
    this.pump();
  }

  /** Sends any bytes. */
  sendBytes(source: string, bytes: Uint8Array): void {
    this.server(source).stream.sendBytes(bytes);
    this.pump();
  }

  /** One turn: what is due next. */
  turn(): void {
    const dueMs = this.federation.nextDeadlineMs(this.nowMs) ?? this.nowMs;
    this.nowMs = Math.max(this.nowMs, dueMs);
    this.federation.handleTimer(this.nowMs);
    this.pump();
  }

  /** Advances the clock, stopping at every deadline. */
  advance(ms: number): void {
    const untilMs = this.nowMs + ms;
    for (let steps = 0; ; steps++) {
      if (steps > 100_000) throw new Error('time does not pass: a deadline is always due');
      const dueMs = Math.min(
        this.federation.nextDeadlineMs(this.nowMs) ?? Infinity,
        ...this.#scheduled.map(({ atMs }) => atMs),
      );
      if (dueMs > untilMs) break;
      this.nowMs = Math.max(this.nowMs, dueMs);
      this.federation.handleTimer(this.nowMs);
      this.pump();
    }
    this.nowMs = untilMs;
  }

  takeEffects(): readonly FederationEffect[] {
    return this.effects.splice(0);
  }

  /** Takes the group events since the last call. */
  takeGroupEvents(): readonly GroupEvent[] {
    return this.takeEffects().flatMap((effect) => (effect.kind === 'group' ? [effect.event] : []));
  }

  /** Moves bytes and effects until nothing is left to do now. */
  pump(): void {
    for (;;) {
      const effects = this.federation.flush(this.nowMs);
      this.effects.push(...effects);
      for (const effect of effects) this.#perform(effect);
      const due = this.#scheduled.filter(({ atMs }) => atMs <= this.nowMs);
      this.#scheduled = this.#scheduled.filter(({ atMs }) => atMs > this.nowMs);
      for (const { run } of due) run();
      if (effects.length === 0 && due.length === 0) return;
    }
  }

  #perform(effect: FederationEffect): void {
    if (effect.kind !== 'server') return;
    const { source, effect: what } = effect;
    switch (what.kind) {
      case 'dial':
        this.#dial(source, what.epoch);
        return;
      case 'send':
        this.#connections.get(source)?.stream?.receive(what.bytes);
        return;
      case 'hang_up':
        this.#connections.delete(source);
        return;
      case 'malformed':
        this.cut(source, { code: 13 });
        return;
      default:
    }
  }

  #dial(source: string, epoch: number): void {
    this.dials.push({ source, atMs: this.nowMs });
    const server = this.server(source);
    const here = (): boolean => this.#connections.get(source)?.epoch === epoch;
    if (server.reachability === 'refuse') {
      this.#connections.set(source, { epoch, stream: undefined });
      this.#later(() => {
        if (!here()) return;
        this.#connections.delete(source);
        this.federation.handleAttemptEvent(
          source,
          epoch,
          { kind: 'ended', end: REFUSED },
          this.nowMs,
        );
      });
      return;
    }
    const stream = server.open((bytes) => {
      this.#later(() => {
        if (here()) this.federation.handleMessage(source, epoch, bytes, this.nowMs);
      });
    });
    this.#connections.set(source, { epoch, stream });
    this.#later(() => {
      if (here())
        this.federation.handleAttemptEvent(source, epoch, { kind: 'writable' }, this.nowMs);
    });
  }

  #later(run: () => void): void {
    this.#scheduled.push({ atMs: this.nowMs, run });
  }
}
