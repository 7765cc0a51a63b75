/** A client as the rest of the simulation sees it, whichever flavour of the protocol it speaks. */
import type { Publication } from './history.js';
import type { Random } from './random.js';
import type { Resume } from './resumes.js';
import type { ClientSpec } from './world.js';

export interface Held {
  readonly body: Uint8Array;
  readonly publications: readonly Publication[];
  /** What its payload refers to; empty: nothing. */
  readonly reference: string;
  /** Of all responses of this client, the one in which it came last, and last with another content. */
  readonly order: number;
  readonly changedAt: number;
  /** The process that it came from. */
  readonly process: string;
  readonly sentMs: number;
}

export interface HeldOfType {
  readonly subscribed: ReadonlySet<string>;
  /** What was sent, refused or not. */
  readonly offered: ReadonlyMap<string, Held>;
}

/** What a response brought. */
export interface Received {
  readonly typeUrl: string;
  readonly nonce: string;
  readonly resources: readonly { readonly name: string }[];
  readonly removed: readonly string[];
  /** Of which it says why they are not there. */
  readonly errors: readonly string[];
}

/** A response on its way to the client. */
export interface Written {
  readonly bytes: Uint8Array;
  readonly sentMs: number;
  /** How many requests of the stream the instance had read when it wrote this. */
  readonly readRequests: number;
}

/** Chooses among the unacknowledged responses, of which the oldest comes first. */
export type WhichResponse = (response: {
  readonly typeUrl: string;
  readonly nonce: string;
}) => boolean;

export interface ModelClient {
  readonly spec: ClientSpec;
  readonly responses: number;
  /** When the oldest was sent that it has not acknowledged, and will. */
  readonly unacknowledgedSinceMs: number | undefined;
  readonly typeUrls: readonly string[];
  /** Names about which the client may be wrong, by the limits that docs/SPEC.md names. */
  readonly excused: ReadonlySet<string>;
  /** Refused at some time. */
  readonly nacked: ReadonlySet<string>;
  type(typeUrl: string): HeldOfType;
  /** The list of this type that it asks for. */
  listOf(typeUrl: string): string | undefined;
  /** Is an assignment to be sent again after its cluster changed: was it asked for by its name? */
  expectsAgain(assignment: string): boolean;
  /** Has this stream asked for anything of this type? */
  hasAsked(typeUrl: string): boolean;
  change(
    typeUrl: string,
    subscribe: readonly string[],
    unsubscribe: readonly string[],
    nowMs: number,
  ): Uint8Array;
  /** What no correct client sends, and no server should mind. */
  oddRequest(typeUrl: string, kind: number): Uint8Array;
  /** The first requests on a new stream. */
  reconnect(process: string, resume: Resume, nowMs: number): readonly Uint8Array[];
  /** It drops some of what it holds, and its versions stay as they are. */
  dropSome(dice: Random): void;
  /** It loses what it held, and will tell versions that nobody gave. */
  lie(): void;
  /** A process is gone; what it knew of members goes with it. */
  noteCrash(instance: string, nowMs: number): void;
  /** The instance ended the stream. @throws Violation */
  noteEnded(nowMs: number): void;
  /** @throws Violation */
  receive(written: Written): Received;
  /** Has it so much of a type unacknowledged that nothing more may be sent for this name? */
  isFull(typeUrl: string, name: string): boolean;
  /** Answers the first of these responses; without a choice, the oldest. */
  acknowledge(accept: boolean, nowMs: number, which?: WhichResponse): Uint8Array | undefined;
}
