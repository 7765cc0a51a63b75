/**
 * Follows changes of resources from the response of the source to the ACKs of the clients, each for 10 s. No IO: times
 * come in, finished traces go out.
 *
 * A response to a client brings a change if it has the version of a changed resource (delta), or its name (state of the
 * world, and removals). So clients and their sessions do no work for traces.
 */
import type { Chunks } from '../../../protos/discovery-fields.js';
import type { FederationEffect } from '../../../authorities/index.js';
import { sourceNameOf } from '../../../authorities/index.js';
import { wireText } from '../../../protos/resource-name.js';
import type { HeldChange } from '../../core/cache/resource-cache.js';
import type { ClientStreamEvent } from '../../clients/client-stream.js';

/** The parts of a client stream that a trace shows. */
export interface TracedStream {
  readonly id: number;
  readonly flavour: 'delta' | 'sotw' | 'poll';
  readonly node: { readonly id: string } | undefined;
}

/** The first response with the change to one client. Times of the monotonic clock, in milliseconds. */
export interface ClientSpan {
  readonly client: number;
  /** The client's node id; empty: none. */
  readonly nodeId: string;
  readonly protocol: 'delta' | 'sotw';
  readonly sentMs: number;
  /** When the ACK or NACK came; undefined: not within the time. */
  answeredMs: number | undefined;
  /** The message of the NACK; undefined: no NACK. */
  refusal: string | undefined;
}

export interface ChangeTrace {
  /** When the gateway received the response of the source. */
  readonly startMs: number;
  /** Undefined: no response of a stream led to it: a file, a switch, a TTL. */
  readonly source: string | undefined;
  readonly typeUrl: string;
  /** Changed and removed resources. */
  readonly resources: number;
  /** The followed names: the first ones. */
  readonly names: readonly string[];
  readonly clients: readonly ClientSpan[];
  /** Clients beyond the bound, which have no span. */
  readonly moreClients: number;
}

const FOLLOWED_MS = 10_000;
/** Changes in these 10 s; further ones are counted as dropped. */
const MAX_OPEN = 50;
/** A response is searched for each of them. */
const MAX_NAMES = 8;
const MAX_CLIENTS = 200;

interface Marker {
  readonly name: string;
  /** Undefined: removed. */
  readonly version: string | undefined;
}

class OpenChange {
  readonly clients = new Map<number, ClientSpan>();
  moreClients = 0;

  constructor(
    readonly startMs: number,
    readonly source: string | undefined,
    readonly typeUrl: string,
    readonly resources: number,
    readonly markers: readonly Marker[],
  ) {}

  isIn(flavour: 'delta' | 'sotw', message: Chunks): boolean {
    const has = (text: string): boolean => message.some((chunk) => chunk.includes(text));
    if (!has(this.typeUrl)) return false;
    return this.markers.some(({ name, version }) => {
      if (flavour === 'delta') return has(version ?? name);
      // A removal shows in the whole set without the name.
      return version === undefined ? !has(name) : has(name);
    });
  }
}

interface Received {
  readonly atMs: number;
  readonly source: string;
  readonly typeUrl: string;
}

export class ChangeTraces {
  readonly #clock: () => number;
  readonly #open: OpenChange[] = [];
  /** Of this turn of the event loop: the cache hears of a change before the source's effect is performed. */
  #received: Received[] = [];
  #held: HeldChange[] = [];
  #turnStartMs = 0;
  /** Changes that were not followed. */
  dropped = 0;

  constructor(clock: () => number) {
    this.#clock = clock;
  }

  handleFederation(effect: FederationEffect): void {
    if (effect.kind !== 'server' || effect.effect.kind !== 'received') return;
    const { typeUrl } = effect.effect;
    this.#noteTurn();
    this.#received.push({ atMs: this.#clock(), source: sourceNameOf(effect.source), typeUrl });
  }

  handleHeld(change: HeldChange): void {
    if (change.cause !== 'said') return;
    this.#noteTurn();
    this.#held.push(change);
  }

  /**
   * The gateway wrote a response.
   *
   * @param atMs the time at which the session made it
   */
  handleWritten(stream: TracedStream, message: Chunks, atMs: number): void {
    this.#endTurn();
    const { id: client, flavour: protocol, node } = stream;
    if (protocol === 'poll') return;
    for (const change of this.#open) {
      if (change.clients.has(client) || !change.isIn(protocol, message)) continue;
      if (change.clients.size >= MAX_CLIENTS) {
        change.moreClients++;
        continue;
      }
      const unanswered = { answeredMs: undefined, refusal: undefined };
      const span = { client, nodeId: node?.id ?? '', protocol, sentMs: atMs, ...unanswered };
      change.clients.set(client, span);
    }
  }

  handleClient({ id }: TracedStream, event: ClientStreamEvent): void {
    if (event.kind !== 'ack' && event.kind !== 'nack') return;
    const nowMs = this.#clock();
    for (const { typeUrl, clients } of this.#open) {
      const span = typeUrl === event.typeUrl ? clients.get(id) : undefined;
      if (span?.answeredMs !== undefined || !span) continue;
      // The ACK of an earlier response says nothing; that of a later one covers this one.
      if (event.kind === 'ack' && nowMs - event.sinceMs < span.sentMs) continue;
      span.answeredMs = nowMs;
      if (event.kind === 'nack') span.refusal = event.detail.message;
    }
  }

  /** @returns the traces whose time is over */
  takeFinished(nowMs: number): readonly ChangeTrace[] {
    this.#endTurn();
    const open = this.#open.findIndex(({ startMs }) => nowMs - startMs < FOLLOWED_MS);
    return this.#open.splice(0, open === -1 ? this.#open.length : open).map(traceOf);
  }

  /** @returns all traces, at the end of the process */
  takeAll(): readonly ChangeTrace[] {
    return this.takeFinished(Infinity);
  }

  #noteTurn(): void {
    if (this.#received.length + this.#held.length > 0) return;
    this.#turnStartMs = this.#clock();
    queueMicrotask(() => {
      this.#endTurn();
    });
  }

  #endTurn(): void {
    const [received, held] = [this.#received, this.#held];
    if (received.length + held.length === 0) return;
    this.#received = [];
    this.#held = [];
    for (const typeUrl of new Set(held.map((change) => change.typeUrl))) {
      const changes = held.filter((change) => change.typeUrl === typeUrl);
      const from = received.find((each) => each.typeUrl === typeUrl);
      if (this.#open.length >= MAX_OPEN) {
        this.dropped++;
        continue;
      }
      const markers = changes
        .slice(0, MAX_NAMES)
        .map(({ name, after }) => ({ name: wireText(name.key), version: after }));
      const startMs = Math.min(from?.atMs ?? Infinity, this.#turnStartMs);
      this.#open.push(new OpenChange(startMs, from?.source, typeUrl, changes.length, markers));
    }
  }
}

const traceOf = (change: OpenChange): ChangeTrace => ({
  startMs: change.startMs,
  source: change.source,
  typeUrl: change.typeUrl,
  resources: change.resources,
  names: change.markers.map(({ name }) => name),
  clients: [...change.clients.values()],
  moreClients: change.moreClients,
});
