/** A client as the rest of the simulation sees it, in either protocol variant. */
import type { Publication } from './history.js';
import type { Random } from './random.js';
import type { Resume } from './resumes.js';
import type { ClientSpec } from './world.js';

export interface Held {
  readonly body: Uint8Array;
  readonly publications: readonly Publication[];
  /** The name that its payload refers to; empty: none. */
  readonly reference: string;
  /** `order`: the last response with the resource; `changedAt`: the last one with other content. */
  readonly order: number;
  readonly changedAt: number;
  /** The process that sent it. */
  readonly process: string;
  readonly sentMs: number;
}

export interface HeldOfType {
  readonly subscribed: ReadonlySet<string>;
  /** Sent to the client, whether accepted or refused. */
  readonly offered: ReadonlyMap<string, Held>;
}

/** The content of a response. */
export interface Received {
  readonly typeUrl: string;
  readonly nonce: string;
  readonly resources: readonly { readonly name: string }[];
  readonly removed: readonly string[];
  /** The names in it with an error. */
  readonly errors: readonly string[];
}

/** A response on its way to the client. */
export interface Written {
  readonly bytes: Uint8Array;
  readonly sentMs: number;
  /** Requests of the stream that the instance had read when it wrote this. */
  readonly readRequests: number;
}

/** Chooses among the unacknowledged responses, oldest first. */
export type WhichResponse = (response: {
  readonly typeUrl: string;
  readonly nonce: string;
}) => boolean;

export interface ModelClient {
  readonly spec: ClientSpec;
  readonly responses: number;
  /** When the oldest response was sent that the client will still acknowledge. */
  readonly unacknowledgedSinceMs: number | undefined;
  readonly typeUrls: readonly string[];
  /** Names that the client may hold wrongly; docs/SPEC.md names these limits. */
  readonly excused: ReadonlySet<string>;
  /** Names refused at some time. */
  readonly nacked: ReadonlySet<string>;
  type(typeUrl: string): HeldOfType;
  /** The list of this type that is subscribed. */
  listOf(typeUrl: string): string | undefined;
  /** Must the assignment be resent after its cluster changed? Only if it was subscribed by name. */
  expectsAgain(assignment: string): boolean;
  /** Has this stream sent a request for this type? */
  hasAsked(typeUrl: string): boolean;
  change(
    typeUrl: string,
    subscribe: readonly string[],
    unsubscribe: readonly string[],
    nowMs: number,
  ): Uint8Array;
  /** A request that no correct client sends; a server must tolerate it. */
  oddRequest(typeUrl: string, kind: number): Uint8Array;
  /** By name: what the versions of sets claim with which its stream started. */
  claimed(): Iterable<readonly [string, Held]>;
  /**
   * The first requests on a new stream.
   *
   * @param isWarming as from an Envoy with a cluster that warms: without the request for clusters (ENVOY 24)
   */
  reconnect(
    process: string,
    resume: Resume,
    nowMs: number,
    isWarming: boolean,
  ): readonly Uint8Array[];
  /** The request for clusters, if the stream began without it. */
  endWarming(nowMs: number): Uint8Array | undefined;
  /** Drops some held resources; the versions that it sends stay. */
  dropSome(dice: Random): void;
  /** The client loses what it holds and will send versions that no server gave it. */
  lie(): void;
  /** A process died with its knowledge of members. */
  noteCrash(instance: string, nowMs: number): void;
  /** The instance ended the stream. @throws Violation */
  noteEnded(nowMs: number): void;
  /** @throws Violation */
  receive(written: Written): Received;
  /** Is the limit of unacknowledged responses reached for this name? */
  isFull(typeUrl: string, name: string): boolean;
  /** Acknowledges the first response chosen by `which`, by default the oldest. */
  acknowledge(accept: boolean, nowMs: number, which?: WhichResponse): Uint8Array | undefined;
}
