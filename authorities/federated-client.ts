/**
 * The shell of the upstream side: one clock, one timer, the shells of the sources, and the pump
 * that performs the effects of the machine. It decides nothing about the protocol.
 */
import { DEFAULT_LIMITS, type ResolutionBounds } from '../config/limits.js';
import type { AuthorityMap, GrpcSourceSpec, RemovalPolicy, SourceSpec } from '../config/model.js';
import type { ResourceName } from '../protos/resource-name.js';
import { runComparison, type ComparisonEnd } from './comparison-run.js';
import { SourceConnection } from './source-connection.js';
import {
  Federation,
  type FederationEffect,
  type FederationOptions,
  type FederationView,
} from './core/federation.js';
import type { Asked } from './core/failover/candidate-content.js';
import type { LastKnown } from './core/failover/last-known.js';
import type { LoadStreamEvent } from './core/load-reports/source-loads.js';
import {
  dialIdentityOf,
  type ClientIdentity,
  type DialIdentity,
} from './core/sources/client-identity.js';
import { ContentTotal, type ContentLimits } from './core/sources/content-budget.js';
import { FileSource } from './core/sources/file-source.js';
import { ManagementServer, type ServerEffect } from './core/sources/management-server.js';
import { scopeOfSource } from './core/sources/source-ids.js';
import type { Source } from './core/sources/source.js';
import type { ResourceWatcher } from './core/watcher.js';
import { FilesystemSource } from './filesystem-source.js';
import { LoadReportCalls } from './load-report-calls.js';
import type { BreakerState } from './source-breaker.js';
import type { Transport } from './transport.js';

export interface FederatedClientOptions {
  readonly map: AuthorityMap;
  readonly nodeFor: FederationOptions['nodeFor'];
  readonly maxResourcesPerResponse: number;
  /** The bounds of the content that the gateway keeps of each source; default: none. */
  readonly contentLimits?: ContentLimits;
  /** The content of all sources together; default: no bound. */
  readonly contentTotal?: ContentTotal;
  readonly bounds: ResolutionBounds;
  /** Absent: no content is kept beyond the process. */
  readonly lastKnown?: LastKnown;
  readonly transport: Transport;
  /** For logs and metrics. Must not throw. */
  readonly onEffect: (effect: FederationEffect) => void;
  readonly onFileProblems: (source: string, problems: readonly string[]) => void;
  /** Bound and telemetry of load reports; absent: the default bound, no telemetry. */
  readonly loads?: {
    /** Clusters, localities, endpoints, metrics and categories in the sums for one source. */
    readonly maxEntriesPerSource: number;
    /** @param source its id. Must not throw. */
    readonly onEvent: (source: string, event: LoadStreamEvent) => void;
  };
  /** The gateway threw while it handled a message of a source; that source's stream is ended. */
  readonly onError: (error: unknown) => void;
  /** Milliseconds, monotonic. */
  readonly clock: () => number;
}

/** Node.js may fire a timer early by rounding, and nothing would be due. */
const TIMER_SLACK_MS = 1;
/** Node.js fires longer timers at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The effects with which the stream of a source goes up or down. */
const STREAM_CHANGES: ReadonlySet<ServerEffect['kind']> = new Set(['up', 'lost', 'hang_up']);

export class FederatedClient {
  readonly #options: FederatedClientOptions;
  readonly #federation: Federation;
  /** Load reports of clients, which go to the sources on streams of their own. */
  readonly loads: LoadReportCalls;
  readonly #sources = new Map<
    string,
    { readonly machine: Source; readonly shell: SourceConnection | FilesystemSource }
  >();
  #timer: NodeJS.Timeout | undefined;
  #immediate: NodeJS.Immediate | undefined;
  #pumping = false;
  #pumpScheduled = false;
  #closed = false;

  constructor(options: FederatedClientOptions) {
    this.#options = options;
    const contentTotal = options.contentTotal ?? new ContentTotal();
    this.#federation = new Federation({ ...options, contentTotal, random: Math.random });
    const { loads, onError, clock } = options;
    this.loads = new LoadReportCalls({
      view: this.#federation,
      maxEntriesPerSource: loads?.maxEntriesPerSource ?? DEFAULT_LIMITS.maxLoadEntriesPerSource,
      openCall: (source, handlers) => {
        const shell = this.#sources.get(source)?.shell;
        return shell instanceof SourceConnection ? shell.reportLoads(handlers) : undefined;
      },
      onEvent: loads?.onEvent ?? (() => undefined),
      onError,
      clock,
    });
  }

  get nowMs(): number {
    return this.#options.clock();
  }

  /** The groups and sources as they are now, to read only. */
  get view(): FederationView {
    return this.#federation;
  }

  start(): void {
    this.#syncSources(this.#options.map);
    this.#pump();
  }

  /**
   * Keeps the identity of a node group for the streams of its sources. Call it before the group's first
   * name is watched.
   *
   * @returns ends the hold
   */
  holdIdentity(scope: string, identity: ClientIdentity): () => void {
    return this.#federation.nodeGroups.identities.hold(scope, identity);
  }

  /**
   * The names of a node group that no client needs any more. Empty unless each source in use is live: the gateway could not request
   * a dropped name again.
   */
  retirable(scope: string): Iterable<Asked> {
    const nodeGroup = this.#federation.nodeGroups.at(scope);
    return nodeGroup?.isConnected === true ? [...nodeGroup.demands()] : [];
  }

  watch(typeUrl: string, name: ResourceName, watcher: ResourceWatcher): void {
    this.#federation.watch(typeUrl, name, watcher, this.nowMs);
    this.#schedulePump();
  }

  /** @param leftMs since when no client subscribes to the name; `failover.linger` counts from then */
  unwatch(typeUrl: string, name: ResourceName, watcher: ResourceWatcher, leftMs?: number): void {
    this.#federation.unwatch(typeUrl, name, watcher, this.nowMs, leftMs);
    this.#schedulePump();
  }

  /** Does a failover group serve this name now, with or without its source? */
  isServed(typeUrl: string, name: ResourceName): boolean {
    if (name.isGlob) return this.#federation.isWatched(typeUrl, name);
    return this.#federation.groupServing(typeUrl, name)?.served(typeUrl, name) !== undefined;
  }

  /** Does a live primary confirm the state of this name on its present stream? */
  isCurrent(typeUrl: string, name: ResourceName): boolean {
    return this.#federation.isCurrent(typeUrl, name);
  }

  /** When the deletion guard lets held-back names of this collection go at the earliest: its source may have failed meanwhile. */
  guardedUntilMs(typeUrl: string, name: ResourceName): number {
    return this.#federation.guardedUntilMs(typeUrl, name, this.nowMs);
  }

  /** Are the primary sources of this name live, and has none of them sent the name or an error for it? */
  isSilentAbout(typeUrl: string, name: ResourceName): boolean {
    return this.#federation.isSilentAbout(typeUrl, name);
  }

  /** The deletion guard for removals of a name or collection that no source announced. */
  removalPolicyOf(typeUrl: string, name: ResourceName): RemovalPolicy {
    return this.#federation.removalPolicyOf(typeUrl, name);
  }

  /** @param map a validated map */
  reload(map: AuthorityMap): void {
    this.#federation.reload(map, this.nowMs);
    // Shells first: the new machines send them effects.
    this.#syncSources(map);
    this.#pump();
    this.loads.handleMapChanged();
  }

  force(groupId: string, candidate: number, forMs: number): void {
    const nowMs = this.nowMs;
    this.#federation.force(groupId, candidate, nowMs, nowMs + forMs);
    this.#pump();
  }

  release(groupId: string): void {
    this.#federation.release(groupId, this.nowMs);
    this.#pump();
  }

  /** Groups of the authority that begin within this time begin at this source. */
  giveForceOrder(authority: string, source: string, forMs: number): void {
    this.#federation.forceOrders.give(authority, { source, untilMs: this.nowMs + forMs });
  }

  /** @returns whether there was an order */
  endForceOrder(authority: string): boolean {
    return this.#federation.forceOrders.end(authority, this.nowMs);
  }

  /**
   * What clients of a group would receive from another of its candidates. Changes nothing that is served.
   *
   * @param sides indices of candidates; `from` undefined: what the group serves
   * @param refusal why the gateway has no room for further content; asked before each part of the work
   */
  async compare(
    groupId: string,
    sides: { readonly from: number | undefined; readonly to: number },
    waitMs: number,
    refusal: () => string | undefined,
  ): Promise<ComparisonEnd> {
    const deadlineMs = this.nowMs + waitMs;
    const comparison = this.#federation.comparison(groupId, { ...sides, deadlineMs });
    if (!comparison) return { kind: 'group_gone' };
    return runComparison(comparison, {
      nowMs: () => this.nowMs,
      pump: () => {
        this.#pump();
      },
      refusal: () => (this.#closed ? 'the gateway stops' : refusal()),
    });
  }

  /** @returns whether the name is watched. */
  revalidate(typeUrl: string, name: ResourceName): boolean {
    this.#schedulePump();
    return this.#federation.revalidate(typeUrl, name, this.nowMs);
  }

  /** @returns number of names and globs requested again. */
  revalidateAuthority(authority: string): number {
    this.#schedulePump();
    const groups = this.#federation.groupsOf(authority);
    return groups.reduce((sum, group) => sum + group.revalidateAll(this.nowMs), 0);
  }

  nudge(groupId: string): void {
    this.#schedulePump();
    this.#federation.groups.find(({ id }) => id === groupId)?.nudge(this.nowMs);
  }

  breakerState(source: string): BreakerState | undefined {
    const shell = this.#sources.get(this.#idOf(source))?.shell;
    return shell instanceof SourceConnection ? shell.breakerState : undefined;
  }

  /**
   * The problems of a directory: files that cannot be read, as `onFileProblems` got them, and resources that
   * cannot be served. Empty for a management server.
   */
  fileProblems(source: string): readonly string[] {
    const { shell, machine } = this.#sources.get(source) ?? {};
    if (!(shell instanceof FilesystemSource) || !(machine instanceof FileSource)) return [];
    return [...shell.problems, ...machine.refused.map(({ name, reason }) => `${name}: ${reason}`)];
  }

  close(): void {
    this.#closed = true;
    this.loads.close();
    this.#disarm();
    for (const { shell } of this.#sources.values()) shell.close();
    this.#sources.clear();
  }

  #syncSources(map: AuthorityMap): void {
    this.#pumping = true;
    try {
      const before = [...this.#sources];
      this.#sources.clear();
      for (const [, opened] of before) {
        const { machine, shell } = opened;
        // A source that only changed its name keeps its stream.
        if (this.#federation.source(machine.id) === machine) this.#sources.set(machine.id, opened);
        else {
          shell.close();
          // A shell that replaces it tells its own problems.
          if (shell instanceof FilesystemSource && shell.problems.length > 0)
            this.#options.onFileProblems(machine.id, []);
        }
      }
      for (const [name, spec] of map.sources) this.#shellOf(this.#idOf(name), spec);
    } finally {
      this.#pumping = false;
    }
  }

  #closeSource(id: string): void {
    const opened = this.#sources.get(id);
    opened?.shell.close();
    this.#sources.delete(id);
    if (opened?.machine instanceof ManagementServer) this.loads.handleSource(opened.machine);
  }

  #shellOf(id: string, spec: SourceSpec): SourceConnection | FilesystemSource {
    const known = this.#sources.get(id);
    if (known) return known.shell;
    const machine = this.#federation.source(id);
    /* c8 ignore next -- shells are made only for machines of the federation */
    if (!machine) throw new Error(`no source ${id}`);
    const shell = this.#open(machine, spec);
    this.#sources.set(id, { machine, shell });
    return shell;
  }

  /** Equal management servers in the map share one shell. */
  #idOf(name: string): string {
    return this.#federation.source(name)?.id ?? name;
  }

  /** @param machine its id may change on a reload */
  #open(machine: Source, spec: SourceSpec): SourceConnection | FilesystemSource {
    if (spec.kind === 'grpc') {
      const identity = this.#identityAt(machine.id, spec);
      return new SourceConnection(spec, identity, this.#options.transport, {
        onMessage: (epoch, bytes) => {
          this.#guard(() => {
            this.#takeMessage(machine.id, epoch, bytes);
          });
        },
        onEvent: (epoch, event) => {
          this.#guard(() => {
            this.#federation.handleAttemptEvent(machine.id, epoch, event, this.nowMs);
          });
        },
        onCredentialsChanged: () => {
          this.#guard(() => {
            this.#federation.handleCredentialsChanged(machine.id, this.nowMs);
          });
        },
      });
    }
    const files = new FilesystemSource(spec, {
      onPart: (resources) => {
        this.#guard(() => {
          this.#federation.handlePart(machine.id, { resources, nowMs: this.nowMs });
        });
      },
      onLoaded: (loaded) => {
        this.#guard(() => {
          this.#federation.handleLoaded(machine.id, { ...loaded, nowMs: this.nowMs });
        });
      },
      onUnreadable: () => {
        this.#guard(() => {
          this.#federation.handleUnreadable(machine.id, this.nowMs);
        });
      },
      onProblems: (problems) => {
        this.#options.onFileProblems(machine.id, problems);
      },
    });
    files.start();
    return files;
  }

  /** The streams of a node group add the identity of its clients. */
  #identityAt(id: string, spec: GrpcSourceSpec): DialIdentity {
    const { identities } = this.#federation.nodeGroups;
    return dialIdentityOf(spec, identities.of(scopeOfSource(id)));
  }

  #takeMessage(source: string, epoch: number, bytes: Uint8Array): void {
    try {
      this.#federation.handleMessage(source, epoch, bytes, this.nowMs);
    } catch (error) {
      this.#options.onError(error);
      this.#hangUp(source);
    }
  }

  #hangUp(name: string): void {
    const shell = this.#sources.get(name)?.shell;
    const reason = 'internal error';
    if (shell instanceof SourceConnection) shell.perform({ kind: 'malformed', reason });
  }

  /**
   * Runs a callback of a library or timer: an exception in the gateway must not end the process.
   */
  #guard(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#options.onError(error);
    }
    this.#pump();
  }

  /** For calls that come in bursts and from within watchers. */
  #schedulePump(): void {
    if (this.#pumpScheduled) return;
    this.#pumpScheduled = true;
    queueMicrotask(() => {
      this.#pumpScheduled = false;
      this.#pump();
    });
  }

  #pump(): void {
    // Performing an effect may produce the next input at once; the loop below handles it.
    if (this.#pumping || this.#closed) return;
    this.#pumping = true;
    try {
      for (;;) {
        const effects = this.#federation.flush(this.nowMs);
        if (effects.length === 0) break;
        for (const effect of effects) this.#perform(effect);
      }
    } catch (error) {
      this.#options.onError(error);
    } finally {
      this.#pumping = false;
    }
    this.#armTimer();
  }

  #perform(effect: FederationEffect): void {
    this.#options.onEffect(effect);
    if (effect.kind === 'closed') this.#closeSource(effect.source);
    if (effect.kind !== 'server') return;
    const { source, effect: asked } = effect;
    const machine = this.#federation.source(source);
    // Sources of node groups are created at run time.
    const shell =
      machine instanceof ManagementServer
        ? this.#shellOf(source, machine.spec)
        : this.#sources.get(source)?.shell;
    if (shell instanceof SourceConnection) shell.perform(asked);
    if (machine instanceof ManagementServer && STREAM_CHANGES.has(asked.kind)) {
      this.loads.handleSource(machine);
    }
  }

  #armTimer(): void {
    this.#disarm();
    const nowMs = this.nowMs;
    const dueMs = this.#federation.nextDeadlineMs(nowMs);
    if (dueMs === undefined) return;
    const fire = (): void => {
      this.#guard(() => {
        this.#federation.handleTimer(this.nowMs);
      });
    };
    // Such as the next portion of a response. A timer waits for a millisecond at least, and a response has hundreds.
    const fireSoon = (): void => {
      this.#immediate = setImmediate(fire);
    };
    if (dueMs <= nowMs) fireSoon();
    // Node runs immediates after timers: a portion in the timer would share its turn with the next one.
    else this.#timer = setTimeout(fireSoon, Math.min(dueMs - nowMs + TIMER_SLACK_MS, MAX_TIMER_MS));
  }

  #disarm(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
  }
}
