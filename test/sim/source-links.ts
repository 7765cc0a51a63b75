/** The network between instances and their sources: attempts, streams, and how they end. */
import { dialIdentityOf } from '../../authorities/core/sources/client-identity.js';
import type { StreamEnd } from '../../authorities/core/sources/source-health.js';
import type { Instance } from './instance.js';
import { Connection } from './network.js';
import { Violation } from './oracle.js';
import type { Site } from './site.js';
import { nodeOfTold } from './told-apart.js';
import type { ServerStream } from './upstream-wire.js';
import { timersOf } from './world.js';

export interface Link {
  readonly instance: Instance;
  readonly source: string;
  readonly epoch: number;
  readonly connection: Connection;
  /** Undefined: the source does not respond. */
  stream: ServerStream | undefined;
  isHalfOpen: boolean;
  /** The instance knows that it is connected. */
  isWritable: boolean;
}

const UNAVAILABLE: StreamEnd = { code: 14, message: 'unavailable', detectedBy: 'stream' };
/** The gateway's probe or deadline ends an attempt that gets no response. */
const PROBE: StreamEnd = { code: 4, message: 'no life', detectedBy: 'probe' };
const FAST_DIALS = 60;
const FAST_DIALS_WITHIN_MS = 20_000;

export class SourceLinks {
  readonly #site: Site;
  readonly #links = new Map<string, Link>();
  readonly #partitions = new Set<string>();
  readonly #dialsMs = new Map<string, number[]>();

  constructor(site: Site) {
    this.#site = site;
  }

  get all(): readonly Link[] {
    return [...this.#links.values()];
  }

  of(source: string): readonly Link[] {
    return this.all.filter((link) => nameOf(link.source) === source);
  }

  /** For this time nothing passes between the two; open streams hang. */
  partition(instance: Instance, source: string, ms: number): void {
    const key = keyOf(instance, source);
    this.#partitions.add(key);
    for (const link of this.of(source)) if (link.instance === instance) this.halfOpen(link);
    this.#site.queue.after(ms, () => this.#partitions.delete(key));
  }

  healPartitions(): void {
    this.#partitions.clear();
  }

  // ---- actions of the gateway ---------------------------------------------------------------

  dial(instance: Instance, source: string, epoch: number): void {
    const { queue, netDice, spec, upstreams } = this.#site;
    const key = keyOf(instance, source);
    if (this.#links.has(key))
      throw new Violation('8', `${source} gets a connection beside another`);
    this.#countDial(key);
    const connection = new Connection(queue, netDice, spec.latencyMs);
    const link: Link = {
      instance,
      source,
      epoch,
      connection,
      stream: undefined,
      isHalfOpen: false,
      isWritable: false,
    };
    this.#links.set(key, link);
    const server = upstreams.get(nameOf(source))!;
    const { reachability } = server.temper;
    const isCutOff = this.#partitions.has(keyOf(instance, nameOf(source)));
    if (reachability === 'black_hole' || isCutOff) {
      this.halfOpen(link);
    } else if (reachability === 'up') {
      connection.back.send(0, () => {
        link.isWritable = true;
        instance.handleWritable(source, epoch);
      });
      const headers = headersTo(instance, source);
      link.stream = server.open(instance.process, {
        nodeOf: (node) => {
          const at = spec.map.sources.get(nameOf(source));
          if (at?.kind === 'grpc' && at.node) return at.node.id;
          return nodeOfTold(spec.mark, { node, headers });
        },
        write: (bytes, delayMs, delivered) => {
          connection.back.send(delayMs, () => {
            this.#site.logBytes(bytes);
            this.#site.oracle.history.noteHeard(instance.process, nameOf(source), queue.nowMs);
            this.#site.ttls?.noteDelivered(instance, source, delivered);
            instance.handleMessage(source, epoch, bytes);
          });
        },
        end: (afterMs) => {
          connection.back.send(afterMs, () => {
            this.cut(link, { code: 0, message: 'OK', detectedBy: 'stream' });
          });
        },
      });
    } else {
      const code = reachability === 'reject' ? 16 : 14;
      connection.back.send(0, () => {
        this.cut(link, { ...UNAVAILABLE, code });
      });
    }
  }

  /** Attempts must follow the backoff: a few a second would be a storm. */
  #countDial(key: string): void {
    const { nowMs } = this.#site.queue;
    const before = this.#dialsMs.get(key) ?? [];
    const recent = before.filter((atMs) => atMs > nowMs - FAST_DIALS_WITHIN_MS);
    recent.push(nowMs);
    this.#dialsMs.set(key, recent);
    if (recent.length > FAST_DIALS)
      throw new Violation('23', `${key} gets connections without backoff`);
  }

  send(instance: Instance, source: string, bytes: Uint8Array): void {
    const link = this.#links.get(keyOf(instance, source));
    if (!link?.isWritable) throw new Violation('wire', `${source} gets a message without a stream`);
    link.connection.there.send(0, () => link.stream?.receive(bytes));
  }

  hangUp(instance: Instance, source: string): void {
    const link = this.#links.get(keyOf(instance, source));
    if (link) this.#drop(link);
  }

  // ---- faults of streams --------------------------------------------------------------------

  /** The stream ends, and both sides know. Messages on their way are lost. */
  cut(link: Link, end: StreamEnd = UNAVAILABLE): void {
    if (this.#links.get(keyOf(link.instance, link.source)) !== link) return;
    this.#drop(link);
    link.instance.handleEnded(link.source, link.epoch, end);
  }

  /** Nothing passes any more; the gateway's probe detects that. */
  halfOpen(link: Link): void {
    if (link.isHalfOpen) return;
    link.isHalfOpen = true;
    const source = nameOf(link.source);
    if (this.#site.upstreams.get(source)?.pieces) {
      this.#site.oracle.history.noteInterrupted(link.instance.process, source);
    }
    link.connection.lose();
    this.#closeStream(link);
    const { queue, netDice } = this.#site;
    const { probeIntervalMs, probeTimeoutMs } = timersOf(this.#site.spec);
    const foundMs = netDice.between(1, probeIntervalMs) + probeTimeoutMs;
    queue.after(foundMs, () => {
      this.cut(link, PROBE);
    });
  }

  cutAll(instance: Instance): void {
    for (const link of this.all) if (link.instance === instance) this.#drop(link);
  }

  #drop(link: Link): void {
    this.#links.delete(keyOf(link.instance, link.source));
    link.connection.lose();
    this.#closeStream(link);
  }

  #closeStream(link: Link): void {
    const { stream } = link;
    if (stream) this.#site.upstreams.get(nameOf(link.source))?.streams.delete(stream);
    link.stream = undefined;
  }
}

/** The headers that this instance adds for the clients of the stream's node group. */
function headersTo({ federation }: Instance, id: string): ReadonlyMap<string, readonly string[]> {
  const spec = federation.map.sources.get(nameOf(id));
  if (spec?.kind !== 'grpc') return new Map();
  const identity = federation.nodeGroups.identities.of(id.slice(nameOf(id).length + 1));
  const { headers } = dialIdentityOf(spec, identity);
  return new Map(headers.map(([key, value]) => [key, [value]]));
}

/** A source has one stream per node group, whose id contains both names. */
export const nameOf = (source: string): string => source.split('\n', 1)[0]!;

const keyOf = (instance: Instance, source: string): string => `${instance.name} ${source}`;
