/** What a delta client knows of one type, of a response, and of its stream. */
import type { Ordered } from './delta-order.js';
import type { Held } from './model-client.js';

export interface DeltaHeld extends Held {
  readonly version: string;
  /** It came from a process that had a glob of this client which it is a member of. */
  readonly asMember: boolean;
}

export interface TypeState {
  readonly subscribed: Set<string>;
  /** What was sent, refused or not; and what was accepted. */
  readonly offered: Map<string, DeltaHeld>;
  readonly held: Map<string, DeltaHeld>;
}

export interface Unanswered extends Ordered {
  /** Of the responses of this client. */
  readonly order: number;
  readonly names: readonly string[];
  /** What the client has of it, as long as it wants it. */
  readonly taken: Map<string, DeltaHeld>;
}

export class DeltaStream {
  readonly process: string;
  readonly connectedMs: number;
  /** Asked for at some time: what is on its way when it is left may still come. */
  readonly everAsked = new Set<string>();
  /** Held, and asked for anew or not told to the instance: what it says of it is an answer. */
  readonly untold = new Set<string>();
  readonly nonces = new Set<string>();
  readonly unacknowledged: Unanswered[] = [];
  /** By name: the newest response that was accepted and said something of it. */
  readonly accepted = new Map<string, number>();
  /** Globs that are told to have nothing. */
  readonly toldEmpty = new Set<string>();
  requests = 0;
  saidNode = false;

  constructor(process: string, connectedMs: number) {
    this.process = process;
    this.connectedMs = connectedMs;
  }
}
