/**
 * One REST request over HTTP/2, on the port and the connections of gRPC. Each callback of Node is
 * guarded, because an exception in one of them would end the process.
 */
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import { CollectedBytes } from '../../protos/collected-bytes.js';
import type { PollPeer } from './polls.js';
import type { ConnectionReading } from './read-in-turns.js';
import type { RestDiscovery, RestResponse } from './rest-discovery.js';

export interface RestHttp2Options {
  readonly rest: RestDiscovery;
  readonly peer: () => PollPeer;
  /** See `PollPeer`. */
  readonly quotaKey: string;
  readonly reading: ConnectionReading;
  readonly onError: (error: unknown) => void;
}

/** For the body. Milliseconds. */
const REQUEST_WITHIN_MS = 10_000;
/** For the client to read the response. Milliseconds. */
const READ_WITHIN_MS = 10_000;

/** The caller listens for errors of the stream. */
export function startRest(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  options: RestHttp2Options,
): void {
  new RestCall(stream, headers, options).start();
}

class RestCall {
  readonly #stream: ServerHttp2Stream;
  readonly #headers: IncomingHttpHeaders;
  readonly #options: RestHttp2Options;
  readonly #body = new CollectedBytes();
  #timer: NodeJS.Timeout | undefined;
  #cancel: () => void = () => undefined;
  /** Releases the quota that the body of the request takes. */
  #letBodyGo: () => void = () => undefined;
  #letUnreadGo: () => void = () => undefined;

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, options: RestHttp2Options) {
    this.#stream = stream;
    this.#headers = headers;
    this.#options = options;
  }

  start(): void {
    const stream = this.#stream;
    const headers = this.#headers;
    const length = Number(headers['content-length'] ?? NaN);
    const { rest, quotaKey } = this.#options;
    const head = {
      method: headers[':method'] ?? '',
      path: headers[':path'] ?? '',
      contentType: headers['content-type'] ?? '',
      contentLength: Number.isNaN(length) ? undefined : length,
      quotaKey,
    };
    const refusal = rest.refusal(head);
    stream.on('close', () => {
      clearTimeout(this.#timer);
      this.#guard(this.#cancel);
      this.#endBody();
      this.#letUnreadGo();
    });
    if (refusal) {
      this.#respond(refusal);
      return;
    }
    this.#letBodyGo = rest.holdBody(head);
    this.#within(REQUEST_WITHIN_MS);
    stream.on('data', (chunk: Buffer) => {
      this.#guard(() => {
        this.#take(chunk);
      });
    });
    stream.on('end', () => {
      this.#guard(() => {
        this.#handle();
      });
    });
  }

  #take(chunk: Buffer): void {
    const { rest } = this.#options;
    if (this.#stream.headersSent) return;
    const { maxBodyBytes } = rest;
    if (this.#body.length + chunk.length <= maxBodyBytes) this.#body.append(chunk, maxBodyBytes);
    else this.#respond(rest.tooLarge());
  }

  #endBody(): void {
    this.#letBodyGo();
    this.#letBodyGo = () => undefined;
  }

  #handle(): void {
    this.#endBody();
    if (this.#stream.headersSent) return;
    // The request itself waits for a bounded time.
    clearTimeout(this.#timer);
    const { rest, peer, reading } = this.#options;
    const path = this.#headers[':path'] ?? '';
    this.#cancel = rest.handle(path, this.#body.take(), peer(), {
      onRead: reading.wait(),
      onResponse: (response) => {
        this.#guard(() => {
          this.#respond(response);
        });
      },
    });
  }

  #respond({ status, headers, body, holdUnread }: RestResponse): void {
    const stream = this.#stream;
    this.#cancel = () => undefined;
    if (stream.destroyed || stream.closed || stream.headersSent) return;
    stream.respond({ ...headers, ':status': status }, { endStream: body.length === 0 });
    if (body.length > 0) {
      // Until the stream is closed, which it is once the client has read all.
      if (holdUnread) this.#letUnreadGo = holdUnread();
      stream.cork();
      for (const chunk of body) stream.write(chunk);
      stream.end();
    }
    this.#within(READ_WITHIN_MS);
    // Lets the client's side go, whose body may not end.
    stream.once('finish', () => {
      setImmediate(() => {
        if (!stream.destroyed) stream.close(constants.NGHTTP2_NO_ERROR);
      });
    });
  }

  #within(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#stream.close(constants.NGHTTP2_CANCEL);
    }, ms).unref();
  }

  #guard(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#options.onError(error);
      this.#stream.close(constants.NGHTTP2_INTERNAL_ERROR);
    }
  }
}
