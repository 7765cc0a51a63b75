/** A ConfigSource as a failover group sees it: a management server or a directory. */
import type { ResourceName } from '../../../protos/resource-name.js';
import type { Listener, SourceContents } from './source-contents.js';

export interface SourceFacts {
  /** It responds now. */
  readonly live: boolean;
  readonly liveSinceMs: number;
  /** See `wellSinceMs` of source-health.ts. */
  readonly wellSinceMs: number | null;
  /** When its last stream with a response ended. Absent: it is live, or there was none. */
  readonly lostSinceMs?: number;
  readonly tripped: boolean;
  /** The attempt that has no response yet. Absent: none is under way. */
  readonly attempt?: UnansweredAttempt;
  /** When the next attempt is due. Absent: none is, or the source is a directory. */
  readonly retryAtMs?: number;
}

/** A stream without a response yet. */
export interface UnansweredAttempt {
  readonly sinceMs: number;
  /** Does the source owe a response? Visits every name. */
  readonly isOwed: () => boolean;
}

export interface Source {
  /** Its name in the authority map. */
  readonly name: string;
  /** The name; for the copy of a source that serves one node group, also the name of that group. */
  readonly id: string;
  readonly contents: SourceContents;
  /** It knows dynamic parameters (TP2). Absent: names are requested from it without. */
  readonly takesParameters?: boolean;
  /** It has sent responses that were not read to the end yet. Absent: its content is read at once. */
  readonly isMidResponse?: boolean;
  /** It removes what the first answer on its new stream lacks, in portions. Absent: never. */
  readonly isComparing?: boolean;
  facts(): SourceFacts;
  /** May further members of an answered glob come in other messages? Otherwise its answer is whole. */
  answersInParts(typeUrl: string, glob: ResourceName): boolean;
  subscribe(typeUrl: string, name: ResourceName, listener: Listener, nowMs: number): void;
  unsubscribe(typeUrl: string, name: ResourceName, listener: Listener, nowMs: number): void;
  /** Requests a subscribed name again; its content stays until the response differs. */
  askAgain(typeUrl: string, name: ResourceName, nowMs: number): void;
  /** If it is not connected, starts the next attempt now, rate-limited. */
  nudge(nowMs: number): void;
  /** Keeps it connected without subscriptions (`prewarm: connected`). */
  setWarmed(warmed: boolean, listener: Listener, nowMs: number): void;
  /** The names of all of its resources of a type. Absent: it knows only the subscribed ones, in `contents`. */
  names?(typeUrl: string): Iterable<string>;
}
