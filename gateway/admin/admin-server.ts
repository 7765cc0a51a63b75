/**
 * The admin server: a small HTTP server on its own address. It has no authentication, so it listens on
 * loopback by default. It only converts HTTP to and from `AdminRequest` and `Reply`.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { listenError } from '../listen-error.js';
import { failure, type AdminContext, type AdminRequest, type Reply } from './reply.js';
import { answer } from './routes.js';

export interface AdminServerOptions {
  readonly host: string;
  readonly port: number;
  readonly context: AdminContext;
}

const REQUEST_TIMEOUT_MS = 10_000;
/** A name has up to 2,048 bytes, and three times that percent-encoded. */
const MAX_HEADER_BYTES = 16 * 1_024;
const MAX_CONNECTIONS = 256;

export class AdminServer {
  readonly #options: AdminServerOptions;
  readonly #server: Server;

  constructor(options: AdminServerOptions) {
    this.#options = options;
    this.#server = createServer(
      {
        requestTimeout: REQUEST_TIMEOUT_MS,
        headersTimeout: REQUEST_TIMEOUT_MS,
        maxHeaderSize: MAX_HEADER_BYTES,
      },
      (request, response) => {
        void this.#handle(request, response);
      },
    );
    this.#server.maxConnections = MAX_CONNECTIONS;
  }

  /** The bound `host:port`; before `listen`, the configured one. */
  get address(): string {
    const bound = this.#server.address() as AddressInfo | null;
    const { host } = this.#options;
    return `${host.includes(':') ? `[${host}]` : host}:${bound?.port ?? this.#options.port}`;
  }

  /** Rejects with a `ListenError` if the address is unavailable. */
  async listen(): Promise<void> {
    const { host, port } = this.#options;
    await new Promise<void>((resolve, reject) => {
      const refuse = (error: Error): void => {
        reject(listenError({ host, port, setting: 'admin' }, error));
      };
      this.#server.once('error', refuse);
      this.#server.listen(port, host, () => {
        this.#server.off('error', refuse);
        resolve();
      });
    });
  }

  async close(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#server.close(() => {
        resolve();
      });
      this.#server.closeAllConnections();
    });
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => undefined);
    // Discard the body: unread, it would block the connection.
    request.resume();
    let reply: Reply;
    try {
      reply = await answer(this.#options.context, readRequest(request));
    } catch (error) {
      this.#options.context.telemetry.say('admin_error', { err: error, path: request.url });
      reply = failure(500, error instanceof Error ? error.message : 'internal error');
    }
    response.writeHead(reply.status, {
      'content-type': reply.contentType,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      ...reply.headers,
    });
    response.end(request.method === 'HEAD' ? undefined : reply.body);
  }
}

function readRequest({ method = 'GET', url = '/', headers }: IncomingMessage): AdminRequest {
  const mark = url.indexOf('?');
  const path = mark === -1 ? url : url.slice(0, mark);
  const rawQuery = mark === -1 ? '' : url.slice(mark);
  return { method, path, rawQuery, query: new URLSearchParams(rawQuery), headers };
}
