/**
 * The client side of one xDS stream to a management server, as `ManagementServer` uses it. Each
 * flavour of the protocol implements it: `DeltaStream` and `SotwStream`. A machine outlives its
 * streams and restarts with each one (`handleOpened`).
 */
import type { Decoded, ResourceError, RpcStatus } from '../../../protos/discovery.js';
import { STATUS_CODE } from '../../../protos/discovery.js';
import type { AnswerWaits } from './answers.js';
import type { PublishingRights } from './published-name.js';
import type { SourceSubscription } from './source-contents.js';

/** A resource of a response that the gateway rejects, and why. */
export interface Refusal {
  readonly name: string;
  readonly reason: string;
}

/** The result of one response. */
export interface ResponseOutcome {
  readonly accepted: number;
  readonly refused: readonly Refusal[];
}

/** A response that was read. */
export interface ReceivedResponse {
  readonly typeUrl: string;
  readonly outcome: ResponseOutcome;
  /** Its TP3 errors. */
  readonly errors: readonly ResourceError[];
}

/** An encoded request, and the type that it is about: a source may have one stream per type. */
export interface StreamRequest {
  readonly typeUrl: string;
  readonly bytes: Uint8Array;
}

export interface StreamOptions extends PublishingRights, AnswerWaits {
  /** The encoded Node. */
  readonly node: Uint8Array;
  /** Each type has a stream of its own, whose first request needs the Node. */
  readonly isPerType: boolean;
  /** The server reads the Node of every request, not only of the first. */
  readonly nodeInEveryRequest: boolean;
  readonly maxResourcesPerResponse: number;
  /** The portions in which a large response is taken (response-portions.ts). */
  readonly portionBytes: number;
  /** May the stream begin with this type? If not, `handleReleased` may follow. Default: with every one. See `TypeTrials`. */
  readonly mayRequest?: (typeUrl: string) => boolean;
}

/**
 * The largest nonce that a source may send: the gateway repeats it in its ACK. Control planes send counters,
 * UUIDs and hashes. Bytes.
 */
export const MAX_NONCE_BYTES = 1_024;

/** @returns why the response is refused as a whole; undefined: its nonce is short enough */
export function refusalOfNonce(nonce: string): string | undefined {
  // No character has more than 3 bytes for each of its UTF-16 units.
  if (nonce.length * 3 <= MAX_NONCE_BYTES) return undefined;
  const bytes = Buffer.byteLength(nonce);
  return bytes > MAX_NONCE_BYTES
    ? `its nonce has ${bytes} bytes, at most ${MAX_NONCE_BYTES} are allowed`
    : undefined;
}

/** When a response came, and now: it may have waited behind another one. Milliseconds. */
export interface ResponseTimes {
  readonly nowMs: number;
  /** TTLs run from then. */
  readonly arrivedMs: number;
}

/** A decoded response, unless its nonce is too long. */
export function readable<T extends { readonly nonce: string }>(decoded: Decoded<T>): Decoded<T> {
  const reason = decoded.ok ? refusalOfNonce(decoded.message.nonce) : undefined;
  return reason === undefined ? decoded : { ok: false, code: 'malformed', reason };
}

/** A response that is read in portions (response-portions.ts). */
export interface InPortions {
  /** Portions of a response are left. */
  readonly isMidResponse: boolean;
  /** Could the present or last response be decoded? */
  readonly isDecoded: boolean;
  /** Reads the next portion. @returns as `handleMessage` of the stream */
  continue(nowMs: number): Decoded<ReceivedResponse> | undefined;
}

export interface SourceStream {
  /** The contents have a new subscription. */
  handleSubscribed(subscription: SourceSubscription, nowMs: number): void;
  handleUnsubscribed(subscription: SourceSubscription, nowMs: number): void;
  /** The stream may begin with this type now. */
  handleReleased(typeUrl: string): void;
  /** Requests a name again, whatever its status. Held content stays, and no deadline moves. */
  handleAskedAgain(subscription: SourceSubscription): void;
  handleOpened(): void;
  handleEnded(): void;
  /**
   * The source ended the stream with RESOURCE_EXHAUSTED and never responded on it: it was busy, or a request was too
   * large for it.
   */
  handleExhausted(): void;
  /** Does one response have all members of this glob? */
  answersAtOnce(glob: SourceSubscription): boolean;
  /** Does the server owe a response on this stream? Only then is its silence a failure. */
  owesResponse(): boolean;
  /** Only a new stream can make the server send what is subscribed. */
  readonly mustRestart: boolean;
  /** The number of types that the present stream remembers, with or without subscriptions. */
  readonly typeCount: number;
  /** The server sent nothing, but it is alive. */
  handleQuietResume(nowMs: number): void;
  /** Is there a request to write? Changes are merged until it is polled. */
  readonly hasRequest: boolean;
  /** The size of the ACKs and NACKs that were not polled yet. Unlike changes, they do not merge. */
  readonly ackBytes: number;
  /** The next request to write, or undefined. */
  pollRequest(nowMs: number): StreamRequest | undefined;
  /**
   * Not while `inPortions.isMidResponse`.
   *
   * @returns the response, or why the bytes are not one; undefined: portions of it are left
   */
  handleMessage(bytes: Uint8Array, times: ResponseTimes): Decoded<ReceivedResponse> | undefined;
  /** The response that is being read. */
  readonly inPortions: InPortions;
  /** See `Source`. */
  readonly isComparing?: boolean;
  nextDeadlineMs(): number | undefined;
  /** Not while a response is read in portions, or waits: it would judge names that the response has. */
  handleTimer(nowMs: number): void;
}

/** Which requests carry the Node: the first of each stream, or every one. */
export class NodeSender {
  readonly #options: StreamOptions;
  readonly #sentOn = new Set<string>();

  constructor(options: StreamOptions) {
    this.#options = options;
  }

  /** New streams begin. */
  restart(): void {
    this.#sentOn.clear();
  }

  /** The Node for the next request about this type; undefined: the server has it. */
  nodeFor(typeUrl: string): Uint8Array | undefined {
    const { node, isPerType, nodeInEveryRequest } = this.#options;
    const stream = isPerType ? typeUrl : '';
    if (this.#sentOn.has(stream) && !nodeInEveryRequest) return undefined;
    this.#sentOn.add(stream);
    return node;
  }
}

/** Enough to find the mistake; the whole list would exceed a header. */
const MAX_REFUSALS_REPORTED = 10;

/** The `error_detail` of the NACK; undefined: an ACK. */
export function nackDetail(refused: readonly Refusal[]): RpcStatus | undefined {
  if (refused.length === 0) return undefined;
  const shown = refused
    .slice(0, MAX_REFUSALS_REPORTED)
    .map(({ name, reason }) => `${name} ${reason}`);
  const more = refused.length - shown.length;
  const message = shown.join('; ') + (more > 0 ? `; and ${more} more` : '');
  return { code: STATUS_CODE.invalidArgument, message };
}

/** Some milliseconds. A count. */
const COMPARED_PER_PORTION = 2_500;

/**
 * xDS protocol: a name that occurs twice in one response, removed or not, invalidates the response. A response may have 100,000
 * names, so the search goes on in portions.
 */
export class DuplicateSearch {
  readonly #names: Iterator<string>;
  readonly #seen = new Set<string>();
  /** One at most. */
  refusals: readonly Refusal[] = [];

  constructor(names: Iterable<string>) {
    this.#names = names[Symbol.iterator]();
  }

  /**
   * @param inPortions false: to its end
   * @returns whether it is over
   */
  continue(inPortions: boolean): boolean {
    for (let left = inPortions ? COMPARED_PER_PORTION : Infinity; left > 0; left--) {
      const next = this.#names.next();
      if (next.done === true) return true;
      const name = next.value;
      if (this.#seen.has(name)) {
        this.refusals = [{ name, reason: 'occurs twice in one response' }];
        return true;
      }
      this.#seen.add(name);
    }
    return false;
  }
}
