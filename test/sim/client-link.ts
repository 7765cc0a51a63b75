/**
 * A client's connection to one of the instances, and its behaviour there apart from subscriptions.
 */
import { AckDelays } from './ack-manners.js';
import type { ClientPort, Instance, ServedStream } from './instance.js';
import type { ModelClient, Received, WhichResponse, Written } from './model-client.js';
import { CDS } from './names.js';
import { Connection } from './network.js';
import { requesterOf } from './rights.js';
import { RightsWatch } from './rights-watch.js';
import type { Resume } from './resumes.js';
import type { Site } from './site.js';

interface Open {
  readonly instance: Instance;
  readonly connection: Connection;
  readonly stream: ServedStream;
  /** Responses that have arrived and are unread. */
  readonly unread: Written[];
  /** Maximum number of responses that are written and unread. */
  window: number;
}

export class ClientLink {
  readonly client: ModelClient;
  readonly #site: Site;
  #open: Open | undefined;
  #isPaused = false;
  /** What it claims to hold on its next stream. */
  nextResume: Resume = 'full';
  #connectedMs = 0;
  /** When it was last connected to an instance, by name. */
  readonly #leftMs = new Map<string, number>();
  #wantsToBeOpen = false;
  /** Its stream lacks the request for clusters: while one of them warms, it sends none (ENVOY 24). */
  #isWarming = false;
  /** Delay of its ACKs, and the share of responses that it refuses. */
  ackMs = 0;
  refuses = 0;
  /** Undefined: it acknowledges every response in order. */
  readonly #delays: AckDelays | undefined;
  /** Responses without an ACK, each with the action that sends it. */
  #withheld: (() => void)[] = [];

  constructor(site: Site, client: ModelClient) {
    this.#site = site;
    this.client = client;
    const { acks, name } = client.spec;
    this.#delays = acks && new AckDelays(acks, site.spec.seed, name);
  }

  get isOpen(): boolean {
    return this.#open !== undefined;
  }

  /** Does it read, and acknowledge in time what it reads? */
  get isPrompt(): boolean {
    return this.isOpen && !this.#isPaused && this.refuses === 0 && !this.#delays;
  }

  /** When its stream started. */
  get connectedMs(): number {
    return this.#connectedMs;
  }

  get instance(): Instance | undefined {
    return this.#open?.instance;
  }

  /** Is it connected to the instance of this name, or was it since then? */
  wasAt(instance: string, sinceMs: number): boolean {
    return this.instance?.name === instance || (this.#leftMs.get(instance) ?? 0) >= sinceMs;
  }

  connect(instance: Instance, withVersions: boolean): void {
    this.#wantsToBeOpen = true;
    if (this.#open) return;
    const { queue, netDice, spec } = this.#site;
    if (!instance.isAlive) {
      this.#later(withVersions);
      return;
    }
    const connection = new Connection(queue, netDice, spec.latencyMs);
    const flavour = this.client.spec.sotw ? 'sotw' : 'delta';
    const rights = new RightsWatch(this.client.spec);
    const port: ClientPort = {
      write: (bytes) => {
        rights.check(instance.federation.map, bytes);
        open.window++;
        this.#site.logBytes(bytes);
        const { readRequests } = open.stream;
        const written = { bytes, sentMs: queue.nowMs, readRequests };
        connection.back.send(0, () => {
          this.#arrive(open, written);
        });
        return open.window < this.client.spec.windowResponses;
      },
      end: (status) => {
        this.#log(`ended ${status.message}`);
        this.client.noteEnded(queue.nowMs);
        connection.back.send(0, () => {
          this.#lose(open);
        });
      },
    };
    const stream = instance.open(
      flavour,
      this.client.spec.told.headers,
      port,
      requesterOf(this.client.spec.name),
    );
    const open: Open = { instance, connection, stream, unread: [], window: 0 };
    this.#open = open;
    this.#connectedMs = queue.nowMs;
    this.#log(`connects to ${instance.name}${withVersions ? '' : ' without versions'}`);
    const resume = withVersions ? this.nextResume : 'none';
    this.nextResume = 'full';
    if (resume !== 'full') this.#log(`resumes with ${resume}`);
    const warmingMs = this.#delays?.warmingMs();
    this.#isWarming = warmingMs !== undefined;
    const requests = this.client.reconnect(instance.process, resume, queue.nowMs, this.#isWarming);
    rights.noteClaimed(this.client);
    for (const request of requests) this.#send(request);
    if (warmingMs === undefined) return;
    this.#log(`warms a cluster for ${warmingMs} ms`);
    queue.after(warmingMs, () => {
      if (this.#open === open) this.#endWarming();
    });
  }

  #endWarming(): void {
    if (!this.#isWarming) return;
    this.#isWarming = false;
    const request = this.client.endWarming(this.#site.queue.nowMs);
    if (request && this.#open) this.#send(request);
  }

  /** @param mayReturn it reconnects by itself, like a client whose stream broke */
  disconnect(mayReturn: boolean): void {
    this.#wantsToBeOpen = mayReturn;
    const open = this.#open;
    if (!open) return;
    this.#log('disconnects');
    this.#leave(open);
    open.connection.lose();
    // The instance notices a little later.
    this.#site.queue.after(this.#site.netDice.between(0, 50), () => {
      if (open.instance.isAlive) open.stream.handleClosed();
    });
    if (mayReturn) this.#later(true);
  }

  handleCrash(instance: Instance): void {
    this.client.noteCrash(instance.name, this.#site.queue.nowMs);
    if (this.#open?.instance === instance) this.#lose(this.#open);
  }

  #lose(open: Open): void {
    open.connection.lose();
    if (this.#open !== open) return;
    this.#leave(open);
    if (this.#wantsToBeOpen) this.#later(true);
  }

  #leave({ instance }: Open): void {
    this.#open = undefined;
    this.#isWarming = false;
    this.#leftMs.set(instance.name, this.#site.queue.nowMs);
  }

  #later(withVersions: boolean): void {
    const { queue, netDice, instances } = this.#site;
    queue.after(netDice.between(10, 3_000), () => {
      if (!this.#wantsToBeOpen || this.#open) return;
      const living = instances.filter(({ isAlive }) => isAlive);
      if (living.length === 0) this.#later(withVersions);
      else this.connect(netDice.pick(living), withVersions);
    });
  }

  // ---- traffic ------------------------------------------------------------------------------

  change(typeUrl: string, subscribe: readonly string[], unsubscribe: readonly string[]): void {
    if (this.#isWarming && typeUrl === CDS) return;
    this.#log(`+[${subscribe.join(' ')}] -[${unsubscribe.join(' ')}]`);
    const { nowMs } = this.#site.queue;
    const request = this.client.change(typeUrl, subscribe, unsubscribe, nowMs);
    if (this.#open) this.#send(request);
  }

  /** From now on it acknowledges in time, also what it withheld, unless it stays mute. */
  heal(): void {
    this.refuses = 0;
    this.#delays?.heal();
    this.#endWarming();
    for (const answer of this.#withheld.splice(0)) answer();
    this.resume();
  }

  /** Sends any bytes, including requests that no correct client would send. */
  send(request: Uint8Array): void {
    if (this.#open) this.#send(request);
  }

  #send(request: Uint8Array): void {
    const open = this.#open!;
    this.#site.logBytes(request);
    open.connection.there.send(0, () => {
      open.stream.handleMessage(request);
    });
  }

  pause(ms: number): void {
    this.#isPaused = true;
    this.#site.queue.after(ms, () => {
      this.resume();
    });
  }

  resume(): void {
    this.#isPaused = false;
    const open = this.#open;
    if (!open) return;
    for (const written of open.unread.splice(0)) this.#read(open, written);
  }

  #arrive(open: Open, written: Written): void {
    if (this.#isPaused) open.unread.push(written);
    else this.#read(open, written);
  }

  #read(open: Open, written: Written): void {
    if (this.#open !== open) return;
    const { queue, netDice } = this.#site;
    const received = this.client.receive(written);
    this.#site.explain(() => `${this.client.spec.name} gets ${textOf(received)}`);
    const wasFull = open.window >= this.client.spec.windowResponses;
    open.window--;
    if (wasFull)
      open.connection.there.send(0, () => {
        open.stream.handleDrain();
      });
    const accept = !netDice.chance(this.refuses);
    this.#answerLater(open, received, queue.nowMs + netDice.between(0, this.ackMs), accept);
  }

  #answerLater(open: Open, received: Received, thoughtMs: number, accept: boolean): void {
    const { queue } = this.#site;
    const delays = this.#delays;
    const { typeUrl, nonce } = received;
    const isIt: WhichResponse = (one) =>
      delays?.keepsOrder === true ? one.typeUrl === typeUrl : one.nonce === nonce;
    const answer = (): void => {
      if (this.#open !== open) return;
      const bytes = this.client.acknowledge(accept, queue.nowMs, delays && isIt);
      if (bytes) this.#send(bytes);
    };
    const dueMs = delays ? delays.dueMs(typeUrl, queue.nowMs) : thoughtMs;
    if (dueMs === undefined) {
      this.#withheld.push(() => {
        this.#answerLater(open, received, queue.nowMs, accept);
      });
      return;
    }
    queue.at(Math.max(dueMs, thoughtMs), answer);
  }

  #log(line: string): void {
    this.#site.log(`${this.client.spec.name} ${line}`);
  }
}

function textOf({ resources, removed, errors }: Received): string {
  const came = resources.map(({ name }) => `+${name}`);
  const went = removed.map((name) => `-${name}`);
  return [...came, ...went, ...errors.map((error) => `!${error}`)].join(' ');
}
