/** The state of a delta client: per type, per response, and per stream. */
import type { Ordered } from './delta-order.js';
import type { Held } from './model-client.js';
import type { Resume } from './resumes.js';

export interface DeltaHeld extends Held {
  readonly version: string;
  /** It came from a process where this client had subscribed a glob that contains it. */
  readonly asMember: boolean;
  /** Requests of its stream that the instance had read when it sent this. */
  readonly readRequests: number;
}

export interface TypeState {
  readonly subscribed: Set<string>;
  /** Sent to the client, whether it accepted or refused; `held`: accepted. */
  readonly offered: Map<string, DeltaHeld>;
  readonly held: Map<string, DeltaHeld>;
}

export interface Unanswered extends Ordered {
  /** Number among the responses of this client. */
  readonly order: number;
  readonly names: readonly string[];
  /** The resources in it that the client still wants. */
  readonly taken: Map<string, DeltaHeld>;
}

export class DeltaStream {
  readonly process: string;
  readonly connectedMs: number;
  /** Every name ever subscribed: a response may be on its way when it is unsubscribed. */
  readonly everAsked = new Set<string>();
  /**
   * Names that the client holds, but subscribed again or did not mention to the instance: the next
   * message about them is a response.
   */
  readonly untold = new Set<string>();
  /** Names that were unsubscribed on this stream. */
  readonly left = new Set<string>();
  readonly nonces = new Set<string>();
  readonly unacknowledged: Unanswered[] = [];
  /** By name: the newest accepted response that contained it. */
  readonly accepted = new Map<string, number>();
  /** Globs that the gateway reported as empty. */
  readonly toldEmpty = new Set<string>();
  /** While the request for clusters is still to come (ENVOY 24): how the client resumes them. */
  clustersResume: Resume | undefined;
  /** The versions of its endpoints say that the client has clusters. */
  toldOfClusters = false;
  requests = 0;
  saidNode = false;

  constructor(process: string, connectedMs: number) {
    this.process = process;
    this.connectedMs = connectedMs;
  }
}
