/**
 * One gateway process: the real cores of both sides on the simulated clock. The code around them
 * repeats the shells, in their order (authorities/federated-client.ts,
 * authorities/source-connection.ts, gateway/clients/client-stream.ts, gateway/clients/fan-out.ts,
 * gateway/state-file/collection-memory.ts, gateway/compose.ts).
 */
import { isDeepStrictEqual } from 'node:util';
import { Federation, type FederationEffect } from '../../authorities/core/federation.js';
import type { StreamEnd } from '../../authorities/core/sources/source-health.js';
import { sourceNameOf } from '../../authorities/core/sources/source-ids.js';
import type { AuthorityMap } from '../../config/model.js';
import { DEFAULT_LIMITS, DEFAULT_RESOLUTION } from '../../config/limits.js';
import type { Flavour, StreamProtocol } from '../../gateway/clients/client-stream.js';
import type { ClientScope } from '../../gateway/core/session/asked-name.js';
import {
  clientScopeOf,
  readGroupedNode,
  type GroupedNode,
} from '../../gateway/core/session/client-scope.js';
import { ResourceCache } from '../../gateway/core/cache/resource-cache.js';
import type { Requester } from '../../gateway/core/rights/requester.js';
import { rightsOf, verdictOf } from '../../gateway/core/rights/rights.js';
import type { StreamSession } from '../../gateway/core/session/stream-session.js';
import { streamProtocols } from '../../gateway/clients/stream-protocols.js';
import { wholeOf } from '../../protos/discovery-fields.js';
import { encodeNode } from '../../protos/node-codec.js';
import type { ResourceName } from '../../protos/resource-name.js';
import {
  decodeCollections,
  encodeCollections,
  FILE_START,
  shiftsAt,
} from '../../gateway/state-file/collection-file.js';
import type { RpcStatus } from '../../protos/discovery.js';
import type { ProcessClock } from './clocks.js';
import { ProcessContent, type ContentDisk } from './content-disk.js';
import type { Disk } from './disk.js';
import type { EventQueue } from './heap.js';
import { Violation } from './oracle.js';
import { Peer, type PeerNet } from './peer.js';
import type { Random } from './random.js';
import type { Told } from './told-apart.js';
import { ACK_DEADLINE_MS, type WorldSpec } from './world.js';

/** What an instance needs from its simulated machine. */
export interface Machine {
  readonly spec: WorldSpec;
  readonly queue: EventQueue;
  readonly netDice: Random;
  readonly coreDice: Random;
  /** Undefined: instances do not exchange hints. */
  readonly peerNet: PeerNet | undefined;
  dial(instance: Instance, source: string, epoch: number): void;
  send(instance: Instance, source: string, bytes: Uint8Array): void;
  hangUp(instance: Instance, source: string): void;
  /** Starts to watch the directories of the instance's map. */
  openDirectories(instance: Instance): void;
  onEffect(instance: Instance, effect: FederationEffect): void;
  log(line: string): void;
}

/** A client's stream as the instance sees it. */
export interface ClientPort {
  /** @returns false if the instance must wait until the client has read. */
  write(bytes: Buffer): boolean;
  end(status: RpcStatus): void;
}

/** One name, and one member of a collection, for each portion. */
const SMALL_PORTIONS = { namesPerPortion: 0, membersPerPortion: 1, looksPerPortion: 1 };
/** One resource for each portion of a response. */
const SMALL_PORTION_BYTES = 1_500;
const TICK_MS = 1_000;
const STATE_FILE_INTERVAL_MS = 2_000;
const CONTENT_INTERVAL_MS = 200;
/** For so much of each period the clients have too much unread: responses are small, and whole sets wait. */
const BUFFER_PERIOD_MS = 20_000;
const BUFFER_FULL_MS = 2_000;

const MAX_ROUNDS = 1_000;
const OURS = { id: 'n', cluster: '' };
const USER_AGENT = { userAgentName: 'tributary', userAgentVersion: 'simulated' };

export class Instance {
  readonly name: string;
  /** Name and incarnation; what clients hold from a process refers to it. */
  readonly process: string;
  readonly machine: Machine;
  readonly clock: ProcessClock;
  readonly federation: Federation;
  readonly cache: ResourceCache;
  readonly peer: Peer | undefined;
  readonly streams = new Set<ServedStream>();
  readonly #protocols: Readonly<Record<Flavour, StreamProtocol>>;
  readonly #ready = new Set<ServedStream>();
  #isAlive = true;
  #timer = 0;
  #timerDueMs = Infinity;
  #fanOutScheduled = false;
  #pumping = false;
  #written = 0;
  #isForeign = false;

  constructor(
    name: string,
    process: string,
    machine: Machine,
    map: AuthorityMap,
    { disk, content, clock }: Host,
  ) {
    this.name = name;
    this.process = process;
    this.machine = machine;
    this.clock = clock;
    const lastKnown = content && new ProcessContent(content, (id) => this.#targetOf(id));
    this.federation = new Federation({
      map,
      ...(lastKnown && { lastKnown }),
      nodeFor: (source, group) => {
        const own = source.kind === 'grpc' ? source.node : undefined;
        return encodeNode({ ...(own ?? OURS), ...group, ...USER_AGENT });
      },
      maxResourcesPerResponse: 10_000,
      ...(machine.spec.hasSmallPortions && {
        portionBytes: SMALL_PORTION_BYTES,
        movedNamesPerTurn: 1,
      }),
      bounds: DEFAULT_RESOLUTION,
      random: () => machine.coreDice.next(),
    });
    const nowMs = (): number => this.nowMs;
    const directory = {
      get nowMs() {
        return nowMs();
      },
      watch: (...[typeUrl, asked, watcher]: Parameters<WatchCall>) => {
        this.federation.watch(typeUrl, asked, watcher, this.nowMs);
      },
      unwatch: (...[typeUrl, asked, watcher, leftMs]: Parameters<UnwatchCall>) => {
        this.federation.unwatch(typeUrl, asked, watcher, this.nowMs, leftMs);
      },
      isCurrent: this.federation.isCurrent.bind(this.federation),
      guardedUntilMs: (typeUrl: string, name: ResourceName) =>
        this.federation.guardedUntilMs(typeUrl, name, this.nowMs),
      isSilentAbout: this.federation.isSilentAbout.bind(this.federation),
      removalPolicyOf: this.federation.removalPolicyOf.bind(this.federation),
    };
    const peer = machine.peerNet && new Peer(this, machine.peerNet);
    this.peer = peer;
    this.cache = new ResourceCache(directory, {
      ...(peer ? { onHeld: peer.handleHeld.bind(peer), onAsked: peer.handleAsked.bind(peer) } : {}),
      tombstonesPerCollection: 1_000,
      tombstoneMaxAgeMs: 3_600_000,
      unsubscribedLingerMs: machine.spec.unsubscribedLingerMs,
      maxUnsubscribedNames: machine.spec.maxUnsubscribedNames,
    });
    this.#protocols = protocolsOf(machine.spec, this.cache);
    this.#restore(disk);
    machine.openDirectories(this);
    peer?.start();
    this.#every(TICK_MS, () => {
      this.#tick();
    });
    if (lastKnown) {
      this.#every(CONTENT_INTERVAL_MS, () => {
        lastKnown.write();
      });
    }
    if (machine.spec.hasStateFile) {
      this.#every(STATE_FILE_INTERVAL_MS, () => {
        this.#writeState(disk);
      });
    }
  }

  /** By the process's own clock. */
  get nowMs(): number {
    return this.clock.nowMs;
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  /** Kills the process with everything in its memory. */
  kill(): void {
    this.#isAlive = false;
    this.peer?.close();
  }

  /** Runs an input of the cores, then performs all effects. */
  act(work: () => void): void {
    if (!this.#isAlive) return;
    work();
    this.#pump();
  }

  handleMessage(source: string, epoch: number, bytes: Uint8Array): void {
    this.act(() => {
      this.federation.handleMessage(source, epoch, bytes, this.nowMs);
    });
  }

  handleWritable(source: string, epoch: number): void {
    this.act(() => {
      this.federation.handleAttemptEvent(source, epoch, { kind: 'writable' }, this.nowMs);
    });
  }

  handleEnded(source: string, epoch: number, end: StreamEnd): void {
    this.act(() => {
      this.federation.handleAttemptEvent(source, epoch, { kind: 'ended', end }, this.nowMs);
    });
  }

  reload(map: AuthorityMap): void {
    this.act(() => {
      this.federation.reload(map, this.nowMs);
      this.machine.openDirectories(this);
    });
    for (const { session } of this.streams) session.handleRightsChanged();
    for (const stream of [...this.streams]) stream.endIfRegrouped();
  }

  // ---- the upstream side --------------------------------------------------------------------

  #pump(): void {
    if (this.#pumping) return;
    this.#pumping = true;
    for (let round = 0; ; round++) {
      if (round > MAX_ROUNDS) throw new Violation('rest', 'effects without end');
      const effects = this.federation.flush(this.nowMs);
      if (effects.length === 0) break;
      for (const effect of effects) this.#perform(effect);
    }
    this.#pumping = false;
    this.#armTimer();
  }

  #perform(effect: FederationEffect): void {
    this.machine.onEffect(this, effect);
    if (effect.kind === 'group' && effect.event.kind === 'switched') {
      const { id, candidates } = effect.group;
      this.peer?.handleSwitched(id, candidates[effect.event.to]!.source.name);
    }
    if (effect.kind === 'closed') this.machine.hangUp(this, effect.source);
    if (effect.kind !== 'server') return;
    const { source, effect: what } = effect;
    switch (what.kind) {
      case 'dial':
        this.machine.dial(this, source, what.epoch);
        return;
      case 'send':
        this.machine.send(this, source, what.bytes);
        return;
      case 'hang_up':
        this.machine.hangUp(this, source);
        return;
      case 'malformed': {
        const { epoch } = this.federation.servers.find(({ id }) => id === source)!.health;
        this.machine.hangUp(this, source);
        const end = { code: 13, message: 'unreadable response', detectedBy: 'stream' } as const;
        this.federation.handleAttemptEvent(source, epoch, { kind: 'ended', end }, this.nowMs);
        return;
      }
      default:
    }
  }

  #armTimer(): void {
    const dueMs = this.federation.nextDeadlineMs(this.nowMs) ?? Infinity;
    if (dueMs === this.#timerDueMs) return;
    // What is due already waits for one turn, however much comes meanwhile.
    if (dueMs <= this.nowMs && this.#timerDueMs <= this.nowMs) return;
    this.#timerDueMs = dueMs;
    const armed = ++this.#timer;
    if (dueMs === Infinity) return;
    this.clock.at(Math.max(dueMs, this.nowMs + this.machine.spec.turnMs), () => {
      if (armed !== this.#timer) return;
      this.#timerDueMs = Infinity;
      this.act(() => {
        this.federation.handleTimer(this.nowMs);
      });
    });
  }

  // ---- the client side ----------------------------------------------------------------------

  /** @param headers of the client's stream */
  open(
    flavour: Flavour,
    headers: Told['headers'],
    port: ClientPort,
    requester: Requester,
  ): ServedStream {
    const stream = new ServedStream(
      this,
      this.#protocols[flavour],
      headers,
      port,
      requester,
      () => {
        this.#schedule(stream);
      },
    );
    this.streams.add(stream);
    return stream;
  }

  #schedule(stream: ServedStream): void {
    this.#ready.add(stream);
    if (this.#fanOutScheduled) return;
    this.#fanOutScheduled = true;
    // Changes that come before this runs are merged.
    this.machine.queue.after(this.machine.netDice.chance(0.8) ? 0 : 5, () => {
      this.#fanOutScheduled = false;
      const ready = [...this.#ready];
      this.#ready.clear();
      this.act(() => {
        for (const one of ready) one.pump();
      });
    });
  }

  close(stream: ServedStream): void {
    if (!this.streams.delete(stream)) return;
    this.#ready.delete(stream);
    stream.session.close(this.nowMs);
    stream.leaveGroup();
    this.#pump();
  }

  // ---- the process --------------------------------------------------------------------------

  /** Runs each second, like the timer in compose.ts. Has no effect if nothing is due. */
  #tick(): void {
    const isDue = (this.cache.nextDeadlineMs() ?? Infinity) <= this.nowMs;
    while (this.cache.handleTimer(this.nowMs));
    if (isDue) this.#pump();
    for (const stream of [...this.streams]) stream.endIfDue();
  }

  #every(ms: number, work: () => void): void {
    this.machine.queue.after(ms, () => {
      if (!this.#isAlive) return;
      work();
      this.#every(ms, work);
    });
  }

  /** Content of directories is not kept, as in gateway/compose.ts. */
  #targetOf(id: string): string | undefined {
    const spec = this.federation.map.sources.get(sourceNameOf(id));
    return spec?.kind === 'grpc' ? spec.target : undefined;
  }

  /** Reads and writes it like gateway/state-file/collection-memory.ts. */
  #restore(disk: Disk): void {
    const { file } = disk;
    if (file === undefined) return;
    if (file !== '' && !file.startsWith(FILE_START)) {
      this.#isForeign = true;
      return;
    }
    const { fromWallClock } = shiftsAt(this.nowMs, this.clock.machine.wallMs);
    const decoded = decodeCollections(file, fromWallClock);
    if (decoded.ok) this.cache.restoreCollections(decoded.collections, this.nowMs);
    else if (disk.isDamaged) disk.file = undefined;
    else throw new Violation('18', `the state file cannot be read: ${decoded.reason}`);
    this.#written = this.cache.collectionChanges;
  }

  #writeState(disk: Disk): void {
    if (this.#isForeign || this.#written === this.cache.collectionChanges) return;
    this.#written = this.cache.collectionChanges;
    const { toWallClock } = shiftsAt(this.nowMs, this.clock.machine.wallMs);
    const names = this.cache.collectionNames(this.nowMs);
    disk.write([...encodeCollections(names, toWallClock)].join(''));
  }
}

type UnwatchCall = (...parameters: [...Parameters<WatchCall>, leftMs?: number]) => void;
type WatchCall = (
  ...args: Parameters<Federation['watch']> extends [...infer Rest, number] ? Rest : never
) => void;

type AnyRequest = Parameters<ReturnType<StreamProtocol['open']>['handleRequest']>[0];

function protocolsOf(
  spec: WorldSpec,
  cache: ResourceCache,
): Readonly<Record<Flavour, StreamProtocol>> {
  return streamProtocols(
    {
      limits: {
        ...DEFAULT_LIMITS,
        maxNamesPerClient: 1_000,
        responseChunkBytes: spec.chunkBytes,
        ackDeadlineMs: ACK_DEADLINE_MS,
      },
      absentRouteAnswer: spec.silentAbsentRoutes ? 'silence' : 'removed',
      missingClusterAnswer: spec.sotw.placeholders ? 'placeholder' : 'silence',
      unanswerableStream: spec.sotw.endsUnanswerable ? 'end' : 'silence',
    },
    cache,
    spec.hasSmallPortions ? SMALL_PORTIONS : undefined,
  );
}

/** What a process runs on. */
export interface Host {
  readonly disk: Disk;
  /** Undefined: it keeps no content. */
  readonly content: ContentDisk | undefined;
  readonly clock: ProcessClock;
}

/** The stream of one client at the instance. */
export class ServedStream {
  readonly session: StreamSession<AnyRequest>;
  readonly #instance: Instance;
  readonly #protocol: StreamProtocol;
  readonly #port: ClientPort;
  readRequests = 0;
  /** A long request is under way, or messages wait that came meanwhile. */
  #isBehind = false;
  readonly #waiting: Uint8Array[] = [];
  readonly #headers: Told['headers'];
  #node: GroupedNode | undefined;
  #leaveGroup: (() => void) | undefined;
  #writable = true;
  #closed = false;
  #timer = 0;

  constructor(
    instance: Instance,
    protocol: StreamProtocol,
    headers: Told['headers'],
    port: ClientPort,
    requester: Requester,
    onReady: () => void,
  ) {
    this.#instance = instance;
    this.#protocol = protocol;
    this.#headers = headers;
    this.#port = port;
    this.session = protocol.open({
      onReady,
      scopeOf: () => this.#enterGroup(),
      maxMessageBytes: () => Infinity,
      isOfOneType: false,
      nameQuota: undefined,
      isBufferFull: () => this.#nowMs % BUFFER_PERIOD_MS < BUFFER_FULL_MS,
      judge: (typeUrl, name) =>
        verdictOf(rightsOf(instance.federation.map.clients, requester, ''), typeUrl, name),
    });
  }

  #enterGroup(): ClientScope {
    const entered = this.#scopeNow();
    const { identities } = this.#instance.federation.nodeGroups;
    if (entered.kind === 'scope') {
      this.#leaveGroup = identities.hold(entered.scope, this.#groupedNode().identity);
    }
    return entered;
  }

  #scopeNow(): ClientScope {
    const { federation, cache } = this.#instance;
    const { oldStyle } = federation.map;
    const { scopeCount } = cache;
    const room = { maxNodeGroups: 1_000, scopeCount, hasScope: cache.hasScope.bind(cache) };
    return clientScopeOf(this.#groupedNode(), oldStyle, room);
  }

  #groupedNode(): GroupedNode {
    return this.#node ?? this.#readIdentity(undefined);
  }

  #readIdentity(node: Uint8Array | undefined): GroupedNode {
    return readGroupedNode(node, this.#instance.federation.map.oldStyle, {
      headerValues: (key) => this.#headers.get(key) ?? [],
      certificate: undefined,
    });
  }

  /** A new map may move the client to another node group. */
  endIfRegrouped(): void {
    const { scope } = this.session;
    if (!scope || isDeepStrictEqual(scope, this.#scopeNow())) return;
    this.#end({ code: 14, message: 'the authority map serves old-style names in another way' });
  }

  get #nowMs(): number {
    return this.#instance.nowMs;
  }

  handleMessage(bytes: Uint8Array): void {
    if (this.#closed) return;
    if (this.#isBehind) this.#waiting.push(bytes);
    else this.#takeMessage(bytes);
  }

  /** Handles the next portion of a long request, or one message that came meanwhile. */
  #continueRequest(): void {
    if (this.#closed) return;
    const bytes = this.session.isMidRequest ? undefined : this.#waiting.shift();
    if (bytes) {
      this.#takeMessage(bytes);
      return;
    }
    this.#instance.act(() => {
      this.#endPortion(this.session.continueRequest(this.#nowMs));
    });
  }

  #endPortion(refusal: RpcStatus | undefined): void {
    this.#tellEvents();
    if (refusal) this.#end(refusal);
    this.#noteBehind();
  }

  #noteBehind(): void {
    this.#isBehind = this.session.isMidRequest || this.#waiting.length > 0;
    if (!this.#isBehind || this.#closed) return;
    const { queue, netDice } = this.#instance.machine;
    queue.after(netDice.chance(0.8) ? 0 : 5, () => {
      this.#continueRequest();
    });
  }

  #takeMessage(bytes: Uint8Array): void {
    this.#instance.act(() => {
      this.readRequests++;
      if (this.session.handleAck?.(bytes, this.#nowMs) === true) {
        this.#tellEvents();
        this.#noteBehind();
        return;
      }
      const decoded = this.#protocol.decode(bytes, 1_000);
      if (!decoded.ok) throw new Violation('wire', decoded.reason);
      this.#node ??= this.#readIdentity(decoded.message.node);
      this.#endPortion(this.session.handleRequest(decoded.message, this.#nowMs));
    });
  }

  handleDrain(): void {
    this.#writable = true;
    this.#instance.act(() => {
      this.pump();
    });
  }

  pump(): void {
    if (this.#closed) return;
    const armed = ++this.#timer;
    for (let round = 0; this.#writable; round++) {
      if (round > MAX_ROUNDS) throw new Violation('rest', 'responses without end');
      const response = this.session.takeResponse(this.#nowMs);
      if (!response) break;
      this.#writable = this.#port.write(wholeOf(response.chunks));
    }
    this.#tellEvents();
    const dueMs = this.session.nextDeadlineMs;
    if (dueMs === undefined || !this.#writable) return;
    this.#instance.clock.at(Math.max(dueMs, this.#nowMs + 1), () => {
      if (armed === this.#timer) {
        this.#instance.act(() => {
          this.pump();
        });
      }
    });
  }

  endIfDue(): void {
    const status = this.session.endStatus(this.#nowMs);
    if (status) this.#end(status);
  }

  leaveGroup(): void {
    this.#leaveGroup?.();
  }

  handleClosed(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#instance.close(this);
  }

  #end(status: RpcStatus): void {
    if (this.#closed) return;
    this.#port.end(status);
    this.handleClosed();
  }

  #tellEvents(): void {
    for (const event of this.session.takeEvents()) {
      this.#instance.machine.log(
        `  ${this.#instance.name} ${event.kind} ${'typeUrl' in event ? event.typeUrl : 'authority' in event ? event.authority : ''}`,
      );
    }
  }
}
