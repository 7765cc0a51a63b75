/** A ConfigSource as a failover group sees it, whatever is behind it. */
import type { ResourceName } from '../../../protos/resource-name.js';
import type { Listener, SourceContents } from './source-contents.js';

export interface SourceFacts {
  /** It answers now. */
  readonly live: boolean;
  readonly liveSinceMs: number;
  readonly tripped: boolean;
}

export interface Source {
  /** As the map has it. */
  readonly name: string;
  /** The name, and for a source that answers one node group the group too. */
  readonly id: string;
  readonly contents: SourceContents;
  /** A collection may come in several messages. Otherwise its first answer is all of it. */
  readonly answersInParts: boolean;
  facts(): SourceFacts;
  subscribe(typeUrl: string, name: ResourceName, listener: Listener, nowMs: number): void;
  unsubscribe(typeUrl: string, name: ResourceName, listener: Listener, nowMs: number): void;
  /** Asks for a subscribed name once more; what is held of it stays until the answer differs. */
  askAgain(typeUrl: string, name: ResourceName, nowMs: number): void;
  /** If it is not connected: the next attempt is made now, within bounds. */
  nudge(nowMs: number): void;
  /** Keep it connected though nothing is subscribed (`prewarm: connected`). */
  setWarmed(warmed: boolean, listener: Listener, nowMs: number): void;
}
