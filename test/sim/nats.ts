/**
 * NATS between the instances: at most once, nothing stored, one subject that reaches everyone but
 * the sender. Messages of one sender arrive in order at each receiver, unless they are duplicated.
 */
import type { EventQueue } from './heap.js';
import { Pipe } from './network.js';
import type { Random } from './random.js';

/** An instance at its end of the connection (gateway/peers/nats-exchange.ts). */
export interface NatsMember {
  /** Name of the instance, whatever its present process. */
  readonly name: string;
  handleConnected(): void;
  handleDisconnected(): void;
  handleMessage(bytes: Uint8Array): void;
}

interface Connection {
  readonly member: NatsMember;
  readonly pipes: Map<NatsMember, Pipe>;
}

const LATENCY_MS = 20;
/** Number of messages kept for replay. */
const REMEMBERED = 30;

export class Nats {
  readonly #queue: EventQueue;
  readonly #dice: Random;
  /** Members, connected or not. */
  readonly #members = new Set<NatsMember>();
  readonly #connected = new Map<NatsMember, Connection>();
  readonly #partitions = new Set<string>();
  readonly #heard: Uint8Array[] = [];
  #isUp = true;
  /** Share of messages that are lost; share that are duplicated. */
  lost = 0;
  doubled = 0;
  /** Number of published messages, by name of the publisher. */
  readonly published = new Map<string, number>();

  constructor(queue: EventQueue, dice: Random) {
    this.#queue = queue;
    this.#dice = dice;
  }

  get past(): readonly Uint8Array[] {
    return this.#heard;
  }

  /** A process has started. It connects when it can, and retries for ever. */
  join(member: NatsMember): void {
    this.#members.add(member);
    this.#connectLater(member);
  }

  /** The process is gone without a message. */
  leave(member: NatsMember): void {
    this.#members.delete(member);
    this.#drop(member);
  }

  /** @returns whether the message was accepted. */
  publish(from: NatsMember, bytes: Uint8Array): boolean {
    const connection = this.#connected.get(from);
    if (!connection) return false;
    this.published.set(from.name, (this.published.get(from.name) ?? 0) + 1);
    this.#remember(bytes);
    for (const to of this.#connected.keys()) {
      if (to === from || this.#partitions.has(pairOf(from, to))) continue;
      if (this.#dice.chance(this.lost)) continue;
      this.#send(connection, to, bytes);
      if (!this.#dice.chance(this.doubled)) continue;
      this.#queue.after(this.#dice.between(0, 5_000), () => {
        this.inject(to, bytes);
      });
    }
    return true;
  }

  /** A publisher sends any bytes to one member. */
  inject(to: NatsMember, bytes: Uint8Array): void {
    if (this.#connected.has(to)) to.handleMessage(bytes);
  }

  #send({ pipes }: Connection, to: NatsMember, bytes: Uint8Array): void {
    let pipe = pipes.get(to);
    if (!pipe) pipes.set(to, (pipe = new Pipe(this.#queue, this.#dice, LATENCY_MS)));
    pipe.send(0, () => {
      this.inject(to, bytes);
    });
  }

  /** Every member loses its connection and all messages on their way; NATS keeps nothing. */
  restart(downMs: number): void {
    this.#isUp = false;
    for (const member of this.#connected.keys()) this.cut(member);
    this.#queue.after(downMs, () => {
      this.#isUp = true;
    });
  }

  /** One connection is lost. */
  cut(member: NatsMember): void {
    if (!this.#connected.has(member)) return;
    this.#drop(member);
    member.handleDisconnected();
    this.#connectLater(member);
  }

  /** Messages that it sends from now on arrive only after the stall. */
  stall(member: NatsMember, ms: number): void {
    for (const pipe of this.#connected.get(member)?.pipes.values() ?? []) pipe.stall(ms);
  }

  /** Two members no longer reach each other: their NATS servers have lost each other. */
  partition(one: NatsMember, other: NatsMember, ms: number): void {
    const keys = [pairOf(one, other), pairOf(other, one)];
    for (const key of keys) this.#partitions.add(key);
    this.#queue.after(ms, () => {
      for (const key of keys) this.#partitions.delete(key);
    });
  }

  heal(): void {
    this.#isUp = true;
    this.lost = 0;
    this.doubled = 0;
    this.#partitions.clear();
  }

  get members(): readonly NatsMember[] {
    return [...this.#members];
  }

  #drop(member: NatsMember): void {
    const connection = this.#connected.get(member);
    for (const pipe of connection?.pipes.values() ?? []) pipe.lose();
    this.#connected.delete(member);
    for (const { pipes } of this.#connected.values()) {
      pipes.get(member)?.lose();
      pipes.delete(member);
    }
  }

  #connectLater(member: NatsMember): void {
    this.#queue.after(this.#dice.between(500, 1_500), () => {
      if (!this.#members.has(member) || this.#connected.has(member)) return;
      if (!this.#isUp) {
        this.#connectLater(member);
        return;
      }
      this.#connected.set(member, { member, pipes: new Map() });
      member.handleConnected();
    });
  }

  #remember(bytes: Uint8Array): void {
    this.#heard.push(bytes);
    if (this.#heard.length > REMEMBERED) this.#heard.shift();
  }
}

const pairOf = (from: NatsMember, to: NatsMember): string => `${from.name} ${to.name}`;
