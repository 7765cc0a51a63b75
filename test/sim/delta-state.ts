/** What a delta client knows of one type, and of a response. */
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
