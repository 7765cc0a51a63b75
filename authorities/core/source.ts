/** A ConfigSource as a failover group sees it, whatever is behind it. */
import type { ResourceName } from '../../protos/resource-name.js';
import type { Listener, SourceContents } from './source-contents.js';

export interface SourceFacts {
  /** It answers now. */
  readonly live: boolean;
  readonly liveSinceMs: number;
  readonly tripped: boolean;
}

export interface Source {
  readonly name: string;
  readonly contents: SourceContents;
  facts(): SourceFacts;
  subscribe(typeUrl: string, name: ResourceName, listener: Listener, nowMs: number): void;
  unsubscribe(typeUrl: string, name: ResourceName, listener: Listener, nowMs: number): void;
  /** Keep it connected though nothing is subscribed (`prewarm: connected`). */
  setWarmed(warmed: boolean, listener: Listener, nowMs: number): void;
}
