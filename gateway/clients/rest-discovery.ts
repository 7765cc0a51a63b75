/**
 * REST discovery: `POST /v3/discovery:clusters` and so on, with JSON bodies (xDS protocol, "REST-JSON
 * polling subscriptions"). Reads the heads and bodies of requests that rest-http1.ts and rest-http2.ts
 * receive, and makes their responses.
 */
import { STATUS_CODE, type RpcStatus } from '../../protos/discovery.js';
import { wholeOf } from '../../protos/discovery-fields.js';
import { requestFromJson, responseToJson } from '../../protos/discovery-json.js';
import { DISCOVERY_SERVICES, type DiscoveryService } from '../../protos/discovery-services.js';
import type { PollPeer, PollReply, Polls } from './polls.js';

export interface RestHead {
  readonly method: string;
  /** With the query, if there is one. */
  readonly path: string;
  readonly contentType: string;
  /** Bytes; undefined: the head does not tell. */
  readonly contentLength: number | undefined;
}

export interface RestResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface RestOptions {
  readonly polls: Pick<Polls, 'poll'>;
  /** The largest body that the gateway accepts. Bytes. */
  readonly maxBodyBytes: number;
  /** A client sent a request, valid or not. */
  readonly onRequest: () => void;
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

const serviceAt = (path: string): DiscoveryService | undefined =>
  SERVICES.get(path.split('?')[0] ?? '');

/** Is the path one of REST? */
export const isRestPath = (path: string): boolean => serviceAt(path) !== undefined;

/** An error as JSON: `{"error": "…"}`. */
export function restError(
  status: number,
  error: string,
  headers: Readonly<Record<string, string>> = {},
): RestResponse {
  const body = `${JSON.stringify({ error })}\n`;
  return { status, headers: { 'content-type': 'application/json', ...headers }, body };
}

export class RestDiscovery {
  readonly #options: RestOptions;

  constructor(options: RestOptions) {
    this.#options = options;
  }

  get maxBodyBytes(): number {
    return this.#options.maxBodyBytes;
  }

  /** @returns the response if the head alone decides it; otherwise the body is read */
  refusal({ method, path, contentType, contentLength }: RestHead): RestResponse | undefined {
    if (!isRestPath(path)) return restError(404, `there is no ${path.slice(0, 200)}`);
    if (method !== 'POST') {
      return restError(405, 'only POST is supported', { allow: 'POST' });
    }
    if (!JSON_CONTENT.test(contentType)) {
      return restError(415, 'the content-type is not application/json');
    }
    return contentLength !== undefined && contentLength > this.maxBodyBytes
      ? this.tooLarge()
      : undefined;
  }

  tooLarge(): RestResponse {
    return restError(413, `the body exceeds ${this.maxBodyBytes} bytes`);
  }

  /**
   * Handles a request whose head was not refused.
   *
   * @param onResponse called once, unless the request is cancelled before
   * @returns cancels the request: the client is gone
   */
  handle(
    path: string,
    body: Buffer,
    peer: PollPeer,
    onResponse: (response: RestResponse) => void,
  ): () => void {
    const { polls, onRequest } = this.#options;
    onRequest();
    const service = serviceAt(path);
    const request = requestFromJson(body.toString());
    if (!service || !request.ok) {
      const reason = request.ok ? '' : `: ${request.reason.slice(0, 200)}`;
      onResponse(restError(400, `the body is not a DiscoveryRequest${reason}`));
      return () => undefined;
    }
    return polls.poll(service, request.value, peer, (reply) => {
      onResponse(this.#responseTo(service, reply));
    });
  }

  #responseTo(service: DiscoveryService, reply: PollReply): RestResponse {
    switch (reply.kind) {
      case 'response':
        return this.#content(service, wholeOf(reply.message));
      case 'unchanged':
        return { status: 304, headers: {}, body: '' };
      case 'unknown':
        return refused({
          code: STATUS_CODE.unavailable,
          message: 'the gateway does not know these resources yet',
        });
      case 'refused':
        return refused(reply.status);
    }
  }

  #content(service: DiscoveryService, bytes: Buffer): RestResponse {
    const json = responseToJson(bytes);
    if (json.ok) {
      return { status: 200, headers: { 'content-type': 'application/json' }, body: json.value };
    }
    this.#options.onUnwritable(service.typeUrl ?? '', json.reason);
    return restError(500, `the response cannot be written as JSON: ${json.reason}`);
  }
}

function refused({ code, message, retryAfterMs }: RpcStatus): RestResponse {
  const status = HTTP_STATUS.get(code) ?? 500;
  // Whole seconds (RFC 9110, 10.2.3).
  const retryAfter = retryAfterMs === undefined ? '' : String(Math.ceil(retryAfterMs / 1_000));
  const headers = retryAfter === '' ? REFUSAL_HEADERS.get(status) : { 'retry-after': retryAfter };
  return restError(status, message, headers);
}
