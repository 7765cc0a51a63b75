/**
 * The polls of a REST source: when each type is polled, what a poll says, and what an answer means.
 * It stands between `SotwStream`, which speaks as if on a stream, and a server without streams. Bulk
 * machine without IO; one per attempt.
 *
 * A server that knows the version in a request answers 304, even to a request with more names
 * (go-control-plane does). So a poll carries the version only while the last response answers exactly
 * these names, was accepted, and has no TTL that a response must renew.
 */
import { STATUS_CODE, type Decoded, type SotwRequest } from '../../../protos/discovery.js';
import { discoveryServiceOf } from '../../../protos/discovery-services.js';
import { decodeSotwRequest, encodeSotwRequest } from '../../../protos/sotw-codec.js';
import type { StreamEnd } from './source-health.js';
import type { StreamRequest } from './source-stream.js';

/** Spreads the polls of many gateways. */
const JITTER = 0.1;
const WILDCARD = '*';
/** Enough to recognise the error. */
const MAX_QUOTED_CHARS = 200;

/** A poll to perform: `POST path` with the request in JSON. */
export interface Poll {
  readonly typeUrl: string;
  readonly path: string;
  /** The encoded DiscoveryRequest. */
  readonly request: Uint8Array;
  /** Its version: the server may answer 304. Empty: the server must send everything. */
  readonly version: string;
}

export type PollOutcome =
  /** A body with content: read it, then call `handleRead`. */
  | {
      readonly kind: 'body';
      readonly text: string;
      readonly typeUrl: string;
      readonly digest: string;
      /** For a response that has none. */
      readonly nonce: string;
    }
  /** A response for the stream. */
  | { readonly kind: 'message'; readonly bytes: Uint8Array }
  /** The server has nothing new. */
  | { readonly kind: 'alive' }
  /** The server has no such type; its other types go on. */
  | { readonly kind: 'unserved'; readonly typeUrl: string; readonly reason: string }
  /** The attempt has failed. */
  | { readonly kind: 'end'; readonly end: StreamEnd };

/** A DiscoveryResponse in JSON that was read. */
export type ReadBody = Decoded<{
  /** The same in binary form. */
  readonly bytes: Uint8Array;
  /** A resource has a TTL. */
  readonly hasTtl: boolean;
}>;

export interface RestPollsOptions {
  readonly refreshDelayMs: number;
  /** In [0, 1). */
  readonly random: () => number;
}

interface TypePolls {
  /** The latest request of the stream. */
  request: SotwRequest;
  readonly path: string;
  /** A request had names. From then on, one without names subscribes nothing (xDS protocol). */
  hadNames: boolean;
  /** The names changed since the last poll began. */
  isChanged: boolean;
  isInFlight: boolean;
  /** The server said that it does not have the type. A proxy before it may say so for a while: the polls go on. */
  isUnserved: boolean;
  /** When the next poll begins at the latest. */
  dueMs: number;
  /** The last response, if it answers the present names. */
  last: { readonly digest: string; readonly hasTtl: boolean } | undefined;
}

export class RestPolls {
  readonly #options: RestPollsOptions;
  readonly #types = new Map<string, TypePolls>();
  #nonces = 0;

  constructor(options: RestPollsOptions) {
    this.#options = options;
  }

  /**
   * Remembers a request of the stream. A change of names is polled at once; an ACK or NACK only gives
   * the version of the next poll.
   *
   * @returns the type, if the server does not have it
   */
  handleRequest({ typeUrl, bytes }: StreamRequest): PollOutcome | undefined {
    const decoded = decodeSotwRequest(bytes, Infinity);
    /* c8 ignore next -- the stream encodes its requests itself */
    if (!decoded.ok) throw new Error(decoded.reason);
    const request = decoded.message;
    const path = discoveryServiceOf(typeUrl)?.restPath;
    const known = this.#types.get(typeUrl);
    const reason = 'the source has no service for this type';
    if (path === undefined) return { kind: 'unserved', typeUrl, reason };
    const type = known ?? { ...FIRST, request, path };
    this.#types.set(typeUrl, type);
    if (!isSameList(type.request.names, request.names)) {
      type.isChanged = !type.isUnserved;
      type.last = undefined;
    }
    type.hadNames ||= request.names.length > 0;
    type.request = request;
    return type.isUnserved ? { kind: 'unserved', typeUrl, reason } : undefined;
  }

  /** The polls that begin now: at most one of each type is in flight. */
  takeDue(nowMs: number): readonly Poll[] {
    const polls: Poll[] = [];
    for (const [typeUrl, type] of this.#types) {
      if (!isWaiting(type)) continue;
      if (!type.isChanged && nowMs < type.dueMs) continue;
      type.isChanged = false;
      type.isInFlight = true;
      polls.push(pollOf(typeUrl, type));
    }
    return polls;
  }

  /** When `takeDue` has the next poll; undefined: not before another input. */
  nextDeadlineMs(): number | undefined {
    let soonestMs: number | undefined;
    for (const type of this.#types.values()) {
      if (!isWaiting(type)) continue;
      const dueMs = type.isChanged ? 0 : type.dueMs;
      soonestMs = Math.min(soonestMs ?? Infinity, dueMs);
    }
    return soonestMs;
  }

  /**
   * The server answered a poll.
   *
   * @param answer its `body` is empty without one; equal bodies have equal digests
   * @returns undefined: the server still does not have the type, which is no sign that it serves any
   */
  handleAnswer(
    typeUrl: string,
    answer: { readonly status: number; readonly body: string; readonly digest: string },
    nowMs: number,
  ): PollOutcome | undefined {
    const type = this.#types.get(typeUrl);
    /* c8 ignore next -- only polls of known types are answered */
    if (!type) return undefined;
    const { status, body, digest } = answer;
    const wasUnserved = type.isUnserved;
    type.isUnserved = status === 404;
    // Names that the error concerned are answered by the same body too.
    if (wasUnserved && !type.isUnserved) type.last = undefined;
    const isSame = type.last?.hasTtl === false && type.last.digest === digest;
    if (status === 200 && !isSame) {
      // The poll goes on until the body is read.
      const nonce = `poll-${++this.#nonces}`;
      return { kind: 'body', text: body, typeUrl, digest, nonce };
    }
    this.#endPoll(type, nowMs);
    if (status === 304 || status === 200) return { kind: 'alive' };
    const reason = `HTTP ${status}${quoted(body)}`;
    const isServing = [...this.#types.values()].some(({ isUnserved }) => !isUnserved);
    if (status === 404 && isServing) {
      return wasUnserved ? undefined : { kind: 'unserved', typeUrl, reason };
    }
    return ended(codeOf(status), reason);
  }

  /** The body of an answer was read. */
  handleRead(typeUrl: string, digest: string, read: ReadBody, nowMs: number): PollOutcome {
    const type = this.#types.get(typeUrl);
    /* c8 ignore next -- only polls of known types are answered */
    if (!type) return { kind: 'alive' };
    this.#endPoll(type, nowMs);
    if (!read.ok) return ended(STATUS_CODE.internal, `unreadable response: ${read.reason}`);
    const { bytes, hasTtl } = read.message;
    // The names may have changed meanwhile; then this response does not answer them.
    if (!type.isChanged) type.last = { digest, hasTtl };
    return { kind: 'message', bytes };
  }

  #endPoll(type: TypePolls, nowMs: number): void {
    type.isInFlight = false;
    type.dueMs = nowMs + this.#delayMs();
  }

  #delayMs(): number {
    const { refreshDelayMs, random } = this.#options;
    return refreshDelayMs * (1 - JITTER + 2 * JITTER * random());
  }
}

/** A type before its first poll. */
const FIRST = {
  hadNames: false,
  isChanged: true,
  isInFlight: false,
  isUnserved: false,
  dueMs: 0,
  last: undefined,
} as const;

/** Is there a next poll? One without names would mean the wildcard. */
const isWaiting = ({ request, hadNames, isInFlight }: TypePolls): boolean =>
  !isInFlight && (!hadNames || request.names.length > 0);

function pollOf(typeUrl: string, { path, request, last }: TypePolls): Poll {
  const { versionInfo, errorDetail } = request;
  const hasAll = last !== undefined && !last.hasTtl && errorDetail === undefined;
  const version = hasAll ? versionInfo : '';
  // In a request that is not on a stream, only the absence of names is the wildcard.
  const names = request.names.includes(WILDCARD) ? [] : request.names;
  const parts = { ...request, typeUrl, names, versionInfo: version, responseNonce: '' };
  return { typeUrl, path, version, request: encodeSotwRequest(parts) };
}

const isSameList = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((name, index) => name === b[index]);

function ended(code: number, message: string): PollOutcome {
  return { kind: 'end', end: { code, message, detectedBy: 'stream' } };
}

/** The gRPC code of an HTTP status (gRPC, "HTTP to gRPC Status Code Mapping"). */
function codeOf(status: number): number {
  if (status === 401) return STATUS_CODE.unauthenticated;
  if (status === 403) return STATUS_CODE.permissionDenied;
  if (status === 404) return STATUS_CODE.unimplemented;
  if (status === 429 || status >= 500) return STATUS_CODE.unavailable;
  return status === 400 ? STATUS_CODE.internal : STATUS_CODE.unknown;
}

/** The beginning of a body, on one line. */
function quoted(body: string): string {
  const text = body.slice(0, MAX_QUOTED_CHARS).replace(/[^\x20-\x7e]+/g, ' ');
  return text.trim() === '' ? '' : `: ${text.trim()}`;
}
