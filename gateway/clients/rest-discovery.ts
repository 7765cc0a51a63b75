/**
 * REST discovery: `POST /v3/discovery:clusters` and so on, with JSON bodies (xDS protocol, "REST-JSON
 * polling subscriptions"). Reads the heads and bodies of requests that rest-http1.ts and rest-http2.ts
 * receive, and makes their responses.
 */
import type { Turns } from '../../authorities/index.js';
import { STATUS_CODE, type RpcStatus } from '../../protos/discovery.js';
import type { Chunks } from '../../protos/discovery-fields.js';
import { preparingRequests, requestFromJson } from '../../protos/rest-client-json.js';
import { DISCOVERY_SERVICES, type DiscoveryService } from '../../protos/discovery-services.js';
import { LONG_REQUEST_BYTES, type PeerAccount, type Quotas } from '../core/quotas/quotas.js';
import { INTERNAL_ERROR } from './call-statuses.js';
import { JsonResponses } from './json-responses.js';
import {
  refusalOfBuffered,
  UNKNOWN_YET,
  type PollPeer,
  type PollReply,
  type Polls,
} from './polls.js';

export interface RestHead {
  readonly method: string;
  /** With the query, if there is one. */
  readonly path: string;
  readonly contentType: string;
  /** Bytes; undefined: the head does not tell. */
  readonly contentLength: number | undefined;
  /** See `PollPeer`. */
  readonly quotaKey: string;
}

export interface RestResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Empty: none. */
  readonly body: Chunks;
  /**
   * Counts the body for the client's peer; absent: it is too small to count.
   *
   * @returns call it when the client has read the body or has left
   */
  readonly holdUnread?: () => () => void;
}

/** What becomes of a request. Neither may throw. */
export interface RestCaller {
  /** The request is read, or will not be. Called at least once. */
  readonly onRead: () => void;
  /** Called once, unless the request is cancelled before. */
  readonly onResponse: (response: RestResponse) => void;
}

export interface RestOptions {
  readonly polls: Pick<Polls, 'poll'>;
  /** The largest body that the gateway accepts. Bytes. */
  readonly maxBodyBytes: number;
  readonly maxNamesPerRequest: number;
  readonly quotas: Quotas;
  /** A client sent a request, valid or not. */
  readonly onRequest: () => void;
  /** Reading JSON takes long: the requests take turns. */
  readonly turns: Turns;
  /** A response cannot be written as JSON. */
  readonly onUnwritable: (typeUrl: string, reason: string) => void;
}

const JSON_CONTENT = /^application\/json\s*(;|$)/i;

const SERVICES: ReadonlyMap<string, DiscoveryService> = new Map(
  DISCOVERY_SERVICES.flatMap((service) =>
    service.restPath === undefined ? [] : [[service.restPath, service] as const],
  ),
);

/** HTTP statuses of refusals: google.rpc.Code as HTTP (google/rpc/code.proto). */
const HTTP_STATUS: ReadonlyMap<number, number> = new Map([
  [STATUS_CODE.invalidArgument, 400],
  [STATUS_CODE.unauthenticated, 401],
  [STATUS_CODE.permissionDenied, 403],
  [STATUS_CODE.resourceExhausted, 429],
  [STATUS_CODE.unavailable, 503],
  [STATUS_CODE.cancelled, 503],
]);

/** A client that gets a 503 asks again. Seconds. */
const RETRY_AFTER_SECONDS = '1';

const REFUSAL_HEADERS: ReadonlyMap<number, Readonly<Record<string, string>>> = new Map([
  [401, { 'www-authenticate': 'Bearer' }],
  [503, { 'retry-after': RETRY_AFTER_SECONDS }],
]);

const JSON_HEADERS = { 'content-type': 'application/json' };

const serviceAt = (path: string): DiscoveryService | undefined =>
  SERVICES.get(path.split('?')[0] ?? '');

/** Is the path one of REST? */
export const isRestPath = (path: string): boolean => serviceAt(path) !== undefined;

/** An error as JSON: `{"error": "…"}`. */
function restError(
  status: number,
  error: string,
  headers: Readonly<Record<string, string>> = {},
): RestResponse {
  const body = [Buffer.from(`${JSON.stringify({ error })}\n`)];
  return { status, headers: { ...JSON_HEADERS, ...headers }, body };
}

/** The response to a poll that has content. */
type Content = Extract<PollReply, { readonly kind: 'response' }>;

export class RestDiscovery {
  readonly #json = new JsonResponses();
  readonly #options: RestOptions;

  constructor(options: RestOptions) {
    this.#options = options;
  }

  get maxBodyBytes(): number {
    return this.#options.maxBodyBytes;
  }

  /** @returns the response if the head alone decides it; otherwise the body is read */
  refusal(head: RestHead): RestResponse | undefined {
    const { method, path, contentType, contentLength } = head;
    if (!isRestPath(path)) return restError(404, `there is no ${path.slice(0, 200)}`);
    if (method !== 'POST') {
      return restError(405, 'only POST is supported', { allow: 'POST' });
    }
    if (!JSON_CONTENT.test(contentType)) {
      return restError(415, 'the content-type is not application/json');
    }
    if ((contentLength ?? 0) > this.maxBodyBytes) return this.tooLarge();
    const status = refusalOfBuffered(this.#accountOf(head));
    return status && refused(status);
  }

  /**
   * Counts a body for the client's peer, from its head on.
   *
   * @returns call it when the body has come, or will not come
   */
  holdBody(head: RestHead): () => void {
    // A body without a length may become as long as any. A short one costs a stream, too.
    const { contentLength = this.maxBodyBytes } = head;
    return this.#accountOf(head).holdRequest(Math.max(contentLength, LONG_REQUEST_BYTES));
  }

  #accountOf({ quotaKey }: Pick<RestHead, 'quotaKey'>): PeerAccount {
    return this.#options.quotas.account(quotaKey);
  }

  tooLarge(): RestResponse {
    return restError(413, `the body exceeds ${this.maxBodyBytes} bytes`);
  }

  /**
   * Handles a request whose head was not refused.
   *
   * @returns cancels the request: the client is gone
   */
  handle(
    path: string,
    body: Buffer,
    peer: PollPeer,
    { onRead, onResponse }: RestCaller,
  ): () => void {
    const { turns, onRequest } = this.#options;
    onRequest();
    // The body counts until it is read.
    const letBodyGo = this.#accountOf(peer).holdRequest(body.length);
    const letGo = (): void => {
      letBodyGo();
      onRead();
    };
    let cancel: (() => void) | undefined = () => undefined;
    const steps = preparingRequests();
    const work = (): void => {
      try {
        if (cancel && steps.next().done === false) {
          // Here, `runBounded` would run it at once: the turn counts this work when it ends.
          setImmediate(() => {
            turns.runBounded(work);
          });
          return;
        }
        letGo();
        if (!cancel) return;
        cancel = this.#handle(path, body, peer, onResponse);
      } catch (error) {
        letGo();
        onResponse(refused(INTERNAL_ERROR));
        throw error;
      }
    };
    // The number of streams bounds these.
    turns.runBounded(work);
    return () => {
      letGo();
      cancel?.();
      cancel = undefined;
    };
  }

  #handle(
    path: string,
    body: Buffer,
    peer: PollPeer,
    onResponse: (response: RestResponse) => void,
  ): () => void {
    const service = serviceAt(path);
    const request = requestFromJson(body, this.#options.maxNamesPerRequest);
    if (!service || !request.ok) {
      const reason = request.ok ? '' : `: ${request.reason.slice(0, 200)}`;
      onResponse(restError(400, `the body is not a DiscoveryRequest${reason}`));
      return () => undefined;
    }
    let cancelWriting = (): void => undefined;
    const cancel = this.#options.polls.poll(service, request.value, peer, (reply) => {
      if (reply.kind === 'response') cancelWriting = this.#write(service, reply, onResponse);
      else onResponse(responseWithout(reply));
    });
    return () => {
      cancel();
      cancelWriting();
    };
  }

  #write(
    { typeUrl = '' }: DiscoveryService,
    { message, account }: Content,
    onResponse: (response: RestResponse) => void,
  ): () => void {
    return this.#json.write(message, account, (json) => {
      if (!json.ok) {
        this.#options.onUnwritable(typeUrl, json.reason);
        onResponse(restError(500, `the response cannot be written as JSON: ${json.reason}`));
        return;
      }
      const body = json.value;
      const holdUnread = (): (() => void) => account.holdUnread(body);
      onResponse({ status: 200, headers: JSON_HEADERS, body, holdUnread });
    });
  }
}

function responseWithout(reply: Exclude<PollReply, Content>): RestResponse {
  switch (reply.kind) {
    case 'unchanged':
      return { status: 304, headers: {}, body: [] };
    case 'unknown':
      return refused(UNKNOWN_YET);
    case 'refused':
      return refused(reply.status);
  }
}

function refused({ code, message, retryAfterMs }: RpcStatus): RestResponse {
  const status = HTTP_STATUS.get(code) ?? 500;
  // Whole seconds (RFC 9110, 10.2.3).
  const retryAfter = retryAfterMs === undefined ? '' : String(Math.ceil(retryAfterMs / 1_000));
  const headers = retryAfter === '' ? REFUSAL_HEADERS.get(status) : { 'retry-after': retryAfter };
  return restError(status, message, headers);
}
