/**
 * Runs one seed. First the workload and the faults, with every rule checked at every step; then all
 * faults are healed, and every client must hold exactly the truth in time.
 */
import type { ServerEffect } from '../../authorities/core/sources/management-server.js';
import type { FederationEffect } from '../../authorities/core/federation.js';
import type { AuthorityMap } from '../../config/model.js';
import {
  askForTheSame,
  changeHalfTold,
  checkDigests,
  checkHeard,
  cutOneWhoIsLate,
  DIGEST_MS,
  HINT_MS,
} from './agreement.js';
import { AnswerWatch } from './answer-watch.js';
import { Client } from './client.js';
import { ClientLink } from './client-link.js';
import { ColdFaults } from './cold-faults.js';
import { MachineClock } from './clocks.js';
import { checkEnd, checkLeft } from './end-checks.js';
import { Directory } from './directory.js';
import { ContentDisk } from './content-disk.js';
import { ContentFaults } from './content-faults.js';
import { Disk } from './disk.js';
import { ExtraFaults } from './extra-faults.js';
import { GroupWatch } from './group-watch.js';
import { EventQueue } from './heap.js';
import { startHeartbeats } from './heartbeats.js';
import { Instance, type Machine } from './instance.js';
import { History } from './history.js';
import { HintWatch } from './hint-watch.js';
import { Log } from './log.js';
import { ListWorkload } from './lists.js';
import { Nats } from './nats.js';
import { Oracle, Violation } from './oracle.js';
import type { PeerNet } from './peer.js';
import { Random } from './random.js';
import { RollBacks } from './roll-backs.js';
import type { Scene } from './scene.js';
import { RightsFaults } from './rights-faults.js';
import { SotwClient } from './sotw-client.js';
import { SourceLinks } from './source-links.js';
import { DeltaUpstreamStream } from './delta-upstream.js';
import { SotwUpstreamStream } from './sotw-upstream.js';
import { Upstream } from './upstream.js';
import { Faults } from './faults.js';
import { Workload } from './workload.js';
import { TripWatch } from './trip-watch.js';
import { TtlWatch } from './ttl-watch.js';
import { WildcardToggles } from './wildcard-toggles.js';
import { makeWorld, timersOf, type WorldSpec } from './world.js';

const START_MS = 1_000_000;
/** Longer than all holds, backoffs, lingers and guards of a world together. */
const HEALING_MS = 600_000;
/** For this part of the healing time, every request must be answered in time. */
const ANSWERING_MS = 150_000;
const MAX_EVENTS = 2_000_000;

export interface Outcome {
  readonly seed: number;
  readonly hash: string;
  readonly events: number;
  readonly responses: number;
  readonly violation: { readonly rule: string; readonly message: string } | undefined;
  readonly faults: readonly string[];
}

export interface RunOptions {
  /** Called with every line of the log. */
  readonly onLine?: (line: string) => void;
  /** Kinds of faults to leave out. */
  readonly switchedOff?: ReadonlySet<string>;
}

export function runSeed(seed: number, options: RunOptions = {}): Outcome {
  const simulation = new Simulation(seed, options);
  let violation: Outcome['violation'];
  try {
    simulation.run();
  } catch (error) {
    const rule = error instanceof Violation ? error.rule : 'exception';
    const message = error instanceof Violation ? error.message : String((error as Error).stack);
    violation = { rule, message };
    simulation.log(`VIOLATION ${rule}: ${message}`);
  }
  return {
    seed,
    hash: simulation.hash,
    events: simulation.events,
    responses: simulation.clients.reduce((sum, { client }) => sum + client.responses, 0),
    violation,
    faults: [...simulation.spec.faults, ...simulation.spec.extras],
  };
}

export class Simulation implements Machine, Scene {
  readonly spec: WorldSpec;
  readonly queue = new EventQueue(START_MS);
  readonly netDice: Random;
  readonly coreDice: Random;
  readonly oracle: Oracle;
  readonly ttls: TtlWatch | undefined;
  readonly upstreams = new Map<string, Upstream>();
  readonly instances: Instance[] = [];
  readonly clients: ClientLink[] = [];
  readonly links: SourceLinks;
  readonly groups: GroupWatch;
  readonly trips: TripWatch;
  readonly peerNet: PeerNet | undefined;
  readonly #log: Log;
  readonly disks: Disk[] = [];
  readonly #contentDisks: ContentDisk[] = [];
  readonly directories: Directory[] = [];
  readonly machineClocks: MachineClock[] = [];
  #map: AuthorityMap;
  #incarnations = 0;
  events = 0;

  constructor(seed: number, { onLine, switchedOff = new Set() }: RunOptions) {
    this.spec = makeWorld(seed, switchedOff);
    this.#map = this.spec.map;
    this.oracle = new Oracle(new History(this.spec.hasEndpoints));
    this.#log = new Log(onLine);
    this.netDice = new Random(seed, 'net');
    this.coreDice = new Random(seed, 'core');
    this.links = new SourceLinks(this);
    this.groups = new GroupWatch();
    this.trips = new TripWatch(timersOf(this.spec));
    for (const name of this.spec.map.sources.keys()) this.#addUpstream(name);
    for (const { name, kind } of this.spec.map.sources.values()) {
      if (kind !== 'path') continue;
      this.directories.push(new Directory(this, this.upstreams.get(name)!));
    }
    this.oracle.history.noteMap(this.spec.map, START_MS);
    const { extras, hasSmallPortions, turnMs } = this.spec;
    this.ttls = extras.has('ttls') ? new TtlWatch(this.queue, this.oracle, turnMs) : undefined;
    this.oracle.ends = this.ttls;
    this.oracle.readsInPortions = hasSmallPortions;
    this.oracle.splits = (source) => this.upstreams.get(source)?.pieces !== undefined;
    const clockDice = this.spec.extras.has('clocks') ? new Random(seed, 'clocks') : undefined;
    this.peerNet = this.spec.extras.has('nats') ? makePeerNet(seed, this.queue) : undefined;
    for (let index = 0; index < this.spec.instances; index++) {
      this.machineClocks.push(new MachineClock(this.queue, clockDice));
      this.disks.push(new Disk());
      if (this.spec.keepsContent) this.#contentDisks.push(new ContentDisk());
      this.#start(index);
    }
    for (const client of this.spec.clients) {
      const made = client.sotw
        ? new SotwClient(client, client.sotw, this.spec, this.oracle)
        : new Client(client, this.spec, this.oracle);
      this.clients.push(new ClientLink(this, made));
    }
  }

  #addUpstream(name: string): void {
    const spec = this.spec.map.sources.get(name);
    const isSotw = spec?.kind === 'grpc' && spec.apiType === 'AGGREGATED_GRPC';
    const server = new Upstream(name, isSotw, (of, peer, port) =>
      isSotw ? new SotwUpstreamStream(of, port) : new DeltaUpstreamStream(of, peer, port),
    );
    // Nothing shows that a set of state of the world has another part.
    server.pieces = isSotw ? undefined : this.spec.pieces.of(name);
    this.upstreams.set(name, server);
  }

  get hash(): string {
    return this.#log.hash;
  }

  get map(): AuthorityMap {
    return this.#map;
  }

  log(line: string): void {
    this.#log.add(this.queue.nowMs - START_MS, line);
  }

  explain(line: () => string): void {
    this.#log.explain(this.queue.nowMs - START_MS, line);
  }

  run(): void {
    const workload = new Workload(this);
    const lists = new ListWorkload(this);
    const rollBacks = new RollBacks(this);
    const toggles = new WildcardToggles(this);
    const faults = new Faults(this);
    const extraFaults = new ExtraFaults(this);
    const coldFaults = new ColdFaults(this);
    const rightsFaults = new RightsFaults(this);
    const contentFaults = new ContentFaults(this);
    const answers = new AnswerWatch(this);
    if (this.spec.extras.has('ttls')) startHeartbeats(this);
    workload.start();
    lists.start();
    rollBacks.start();
    toggles.start();
    for (const directory of this.directories) directory.open();
    faults.start();
    extraFaults.start();
    coldFaults.start();
    rightsFaults.start();
    contentFaults.start();
    if (this.spec.hasColdRules) answers.start();
    this.#runFor(this.spec.faultsMs);
    workload.stop();
    lists.stop();
    rollBacks.stop();
    toggles.stop();
    faults.heal();
    extraFaults.heal();
    coldFaults.heal();
    rightsFaults.heal();
    contentFaults.heal();
    this.log('HEALED');
    this.#runFor(ANSWERING_MS);
    answers.stop();
    this.#runFor(HEALING_MS - ANSWERING_MS);
    checkEnd(this);
    // Whatever works now must go on working.
    workload.publishSomeOfAll();
    lists.publishSome();
    // The deletion guard may judge a client only now: a list told it which entries exist, or the first assignment that its
    // source sends has no endpoints.
    const isLong = this.spec.redirects.length > 0 || (this.spec.hasLists && this.spec.hasEntries);
    this.#runFor(this.#guardMs + (isLong ? this.#silenceMs : 0));
    checkEnd(this);
    this.#agree();
    for (const client of this.clients) client.disconnect(false);
    this.#runFor(200_000);
    checkLeft(this);
  }

  /**
   * A source of the state of the world does not say that a name is absent: it times out first, and
   * perhaps once more on another stream.
   */
  get #silenceMs(): number {
    return [...this.upstreams.values()].some((server) => server.isSotw) ? ANSWERING_MS : 0;
  }

  /** The deletion guard may hold deleted names back for this long. */
  get #guardMs(): number {
    const { authorities } = this.#map;
    const guardsMs = [...authorities.values()].map(({ failover }) => failover.deletionGuard.waitMs);
    return Math.max(60_000, ...guardsMs.map((ms) => ms + 10_000));
  }

  /** Sends changes to one instance only; all instances must come to agree through hints. */
  #agree(): void {
    // With rights, instances hold what their own clients may ask for.
    if (!this.peerNet || this.instances.length < 2 || this.spec.map.clients) return;
    const { nats } = this.peerNet;
    const dice = new Random(this.spec.seed, 'agreement');
    askForTheSame(this, dice);
    this.#runFor(this.#silenceMs + this.#guardMs);
    checkEnd(this);
    checkDigests(this);
    const isHeard = dice.chance(0.7);
    nats.lost = isHeard ? 0 : 1;
    const changes = changeHalfTold(this, dice);
    if (isHeard && dice.chance(0.5)) cutOneWhoIsLate(this, changes);
    this.#runFor(HINT_MS);
    nats.lost = 0;
    if (isHeard) checkHeard(this, changes);
    this.#runFor(DIGEST_MS + this.#silenceMs);
    checkEnd(this);
    checkDigests(this);
  }

  #runFor(ms: number): void {
    const untilMs = this.queue.nowMs + ms;
    while (this.queue.step(untilMs)) {
      if (++this.events > MAX_EVENTS) throw new Violation('rest', 'events without end');
    }
    this.queue.nowMs = untilMs;
  }

  // ---- instances ----------------------------------------------------------------------------

  #start(index: number): void {
    const process = `gateway${index}.${++this.#incarnations}`;
    this.oracle.history.noteStarted(process, this.queue.nowMs);
    const host = {
      disk: this.disks[index]!,
      content: this.#contentDisks[index],
      clock: this.machineClocks[index]!.start(),
    };
    this.instances[index] = new Instance(`gateway${index}`, process, this, this.#map, host);
    this.groups.forget(`gateway${index}`);
    this.trips.forget(`gateway${index}`);
  }

  /** The process dies and restarts later with the contents of its disk. */
  crash(index: number, awayMs: number): void {
    const instance = this.instances[index]!;
    if (!instance.isAlive) return;
    this.log(`crash ${instance.name}`);
    instance.kill();
    this.links.cutAll(instance);
    for (const client of this.clients) client.handleCrash(instance);
    this.queue.after(awayMs, () => {
      this.log(`start ${instance.name}`);
      this.#start(index);
    });
  }

  reload(map: AuthorityMap): void {
    this.#map = map;
    for (const name of map.sources.keys()) {
      if (!this.upstreams.has(name)) this.#addUpstream(name);
    }
    this.oracle.history.noteMap(map, this.queue.nowMs);
    for (const instance of this.instances) {
      this.groups.forget(instance.name);
      instance.reload(map);
    }
  }

  // ---- effects of instances on the machine --------------------------------------------------

  dial(instance: Instance, source: string, epoch: number): void {
    this.links.dial(instance, source, epoch);
  }

  send(instance: Instance, source: string, bytes: Uint8Array): void {
    this.logBytes(bytes);
    this.links.send(instance, source, bytes);
  }

  hangUp(instance: Instance, source: string): void {
    this.links.hangUp(instance, source);
  }

  openDirectories(instance: Instance): void {
    for (const directory of this.directories) directory.watch(instance);
  }

  logBytes(bytes: Uint8Array): void {
    this.#log.addBytes(this.queue.nowMs - START_MS, bytes);
  }

  /** Not the end of a stable stream, nor one that the gateway ended, or that a type explains. */
  #isFailure({ end, livedMs }: Extract<ServerEffect, { kind: 'lost' }>): boolean {
    const isStable = livedMs !== null && livedMs >= timersOf(this.spec).minStableMs;
    if (end.detectedBy === 'gateway' || end.detectedBy === 'type') return false;
    return !isStable || end.detectedBy !== 'stream';
  }

  /** After a trip a source may be live for a while and fail again; that is not another trip. */
  #hasTripped({ federation }: Instance, source: string): boolean {
    return federation.servers.some(({ id, health }) => id === source && health.tripped);
  }

  onEffect(instance: Instance, effect: FederationEffect): void {
    if (effect.kind === 'server') {
      const { kind } = effect.effect;
      this.log(`${instance.name} ${effect.source} ${kind}`);
      const key = `${instance.name} ${effect.source}`;
      this.trips.onEffect(key, effect.effect, instance.nowMs);
      if (effect.effect.kind === 'lost' && this.#isFailure(effect.effect)) {
        this.groups.noteFailure(key, instance.nowMs);
      }
      if (kind === 'tripped' || (kind === 'lost' && this.#hasTripped(instance, effect.source))) {
        this.groups.noteTrip(key, instance.nowMs);
      }
    } else if (effect.kind === 'group') {
      this.groups.onEvent(instance, effect.group, effect.event, (line) => {
        this.log(line);
      });
    }
  }
}

function makePeerNet(seed: number, queue: EventQueue): PeerNet {
  const nats = new Nats(queue, new Random(seed, 'nats'));
  return { nats, dice: new Random(seed, 'hints'), watch: new HintWatch() };
}
