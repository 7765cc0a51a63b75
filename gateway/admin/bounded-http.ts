/**
 * An HTTP/1.1 server that no client can occupy: connections, headers, bodies and times are bounded. The oldest connection without
 * an open request makes room for a new one. If all others have an open request, the server closes the new one.
 * Connections of HTTP/2 go to another server, if there is one.
 */
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { BACKLOG } from '../backlog.js';
import { protocolOf, readPreface } from '../clients/connection-preface.js';
import { ReadInTurns, type ConnectionReading } from '../clients/read-in-turns.js';
import { boundRequests } from '../clients/request-parser.js';
import type { TlsMaterial } from '../clients/tls-files.js';
import { listenError, type ListenerWords } from '../listen-error.js';

export interface BoundedHttpOptions {
  readonly host: string;
  readonly port: number;
  /** For errors. */
  readonly setting: ListenerWords['setting'];
  readonly maxConnections: number;
  /** Absent: plaintext. With a client CA, only clients with a certificate that it signed. */
  readonly tls?: TlsMaterial | undefined;
  /** The handler must answer each request; an exception closes the connection. */
  readonly onRequest: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
  /**
   * Takes over each connection that begins with the preface of HTTP/2, after the TLS handshake; absent: the
   * server speaks HTTP/1.1 only.
   */
  readonly onHttp2?: (socket: Socket) => void;
  /** A handler threw. */
  readonly onError: (error: unknown) => void;
}

/** For the headers of a request, since the connection or the last response; also for the TLS handshake. */
const HEADERS_WITHIN_MS = 5_000;
/** For a whole request. */
const REQUEST_WITHIN_MS = 10_000;
/** A connection on which nothing is read or written is closed, such as one that leaves a response unread. */
const SILENT_MS = 30_000;
/** How often Node looks for connections over these times; its default is 30 s. */
const CHECK_EVERY_MS = 1_000;
/** A name has up to 2,048 bytes, and three times that percent-encoded. */
const MAX_HEADER_BYTES = 16 * 1_024;
/** Requests of one connection without a response. A count. */
const MAX_PIPELINED = 16;
/** Only the form of the sign-in is read. A larger body closes the connection. */
export const MAX_BODY_BYTES = 64 * 1_024;

interface Connection {
  readonly socket: Socket;
  readonly reading: ConnectionReading;
  /** The responses of the requests that are being answered. */
  readonly unanswered: Set<ServerResponse>;
}

export class BoundedHttp {
  readonly #options: BoundedHttpOptions;
  readonly #server: Server;
  readonly #reading = new ReadInTurns();
  /** In the order in which they came. By the address of the peer, since a request over TLS has another socket. */
  readonly #connections = new Map<string, Connection>();

  constructor(options: BoundedHttpOptions) {
    this.#options = options;
    const listener: RequestListener = (request, response) => {
      void this.#handle(request, response);
    };
    const bounds: ServerOptions = {
      headersTimeout: HEADERS_WITHIN_MS,
      requestTimeout: REQUEST_WITHIN_MS,
      connectionsCheckingInterval: CHECK_EVERY_MS,
      maxHeaderSize: MAX_HEADER_BYTES,
    };
    const { tls, onHttp2 } = options;
    // Browsers and HTTP clients offer both, and are to get HTTP/1.1. Clients of gRPC offer HTTP/2 alone.
    const alpn = onHttp2 ? { ALPNProtocols: ['http/1.1', 'h2'] } : {};
    this.#server = tls
      ? createTlsServer(
          { ...bounds, ...contextOf(tls), ...alpn, handshakeTimeout: HEADERS_WITHIN_MS },
          listener,
        )
      : createServer(bounds, listener);
    this.#server.setTimeout(SILENT_MS);
    const event = tls ? 'secureConnection' : 'connection';
    if (onHttp2) this.#handOver(event, onHttp2);
    else this.#server.on(event, this.#bound);
    this.#server.on('connection', (socket: Socket) => {
      this.#admit(socket);
    });
  }

  /** The bound `host:port`; before `listen`, the configured one. */
  get address(): string {
    const bound = this.#server.address() as AddressInfo | null;
    const { host, port } = this.#options;
    return addressOf(host, bound?.port ?? port);
  }

  /** Rejects with a `ListenError` if the address is unavailable. */
  async listen(): Promise<void> {
    const { host, port, setting } = this.#options;
    await new Promise<void>((resolve, reject) => {
      const refuse = (error: Error): void => {
        reject(listenError({ host, port, setting }, error));
      };
      this.#server.once('error', refuse);
      this.#server.listen(port, host, BACKLOG, () => {
        this.#server.off('error', refuse);
        resolve();
      });
    });
  }

  /** New connections use this certificate, and their certificates are checked against this client CA. */
  useTls(tls: TlsMaterial): void {
    if ('setSecureContext' in this.#server) {
      (this.#server as ReturnType<typeof createTlsServer>).setSecureContext(contextOf(tls));
    }
  }

  async close(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#server.close(() => {
        resolve();
      });
      for (const { socket } of this.#connections.values()) socket.destroy();
    });
  }

  /**
   * Looks at each new connection before Node's server gets it.
   *
   * @param event by which Node's server gets its connections
   */
  #handOver(event: string, onHttp2: (socket: Socket) => void): void {
    const server = this.#server;
    const takers = server.listeners(event);
    server.removeAllListeners(event);
    server.on(event, (socket: Socket) => {
      socket.on('error', () => undefined);
      readPreface(socket, {
        kindOf: protocolOf,
        withinMs: HEADERS_WITHIN_MS,
        onDecided: (protocol) => {
          if (protocol === 'http2') {
            onHttp2(socket);
            return;
          }
          for (const take of takers) take.call(server, socket);
          this.#bound(socket);
        },
        onError: this.#options.onError,
      });
    });
  }

  /** Node's server has taken the connection. */
  readonly #bound = (socket: Socket): void => {
    const peer = peerOf(socket);
    boundRequests(socket, {
      mayTake: () => {
        const connection = this.#connections.get(peer);
        return connection === undefined || connection.unanswered.size < MAX_PIPELINED;
      },
      isDribble: (bytes) => this.#connections.get(peer)?.reading.notePart(bytes) === true,
    });
  };

  #admit(socket: Socket): void {
    const peer = peerOf(socket);
    const unanswered = new Set<ServerResponse>();
    const connection = { socket, reading: this.#reading.add(socket), unanswered };
    this.#connections.set(peer, connection);
    socket.once('close', () => {
      connection.reading.end();
      // After Node's own listeners, which report the close of the response under way.
      setImmediate(closeAll, unanswered);
      if (this.#connections.get(peer) === connection) this.#connections.delete(peer);
    });
    if (this.#connections.size <= this.#options.maxConnections) return;
    for (const [key, idle] of this.#connections) {
      if (idle.unanswered.size > 0) continue;
      this.#connections.delete(key);
      idle.socket.destroy();
      return;
    }
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { socket } = request;
    const connection = this.#connections.get(peerOf(socket));
    if (connection) {
      const { reading, unanswered } = connection;
      unanswered.add(response);
      reading.noteEvent();
      response.once('close', () => unanswered.delete(response));
    }
    response.on('error', () => undefined);
    request.on('error', () => undefined);
    if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) {
      response.writeHead(413, { connection: 'close' }).end(() => socket.destroy());
      return;
    }
    // Unread, the body would block the connection.
    let bodyBytes = 0;
    request.on('data', (chunk: Buffer) => {
      bodyBytes += chunk.length;
      if (bodyBytes > MAX_BODY_BYTES) socket.destroy();
    });
    try {
      await this.#options.onRequest(request, response);
    } catch (error) {
      socket.destroy();
      this.#options.onError(error);
    }
  }
}

export const addressOf = (host: string, port: number): string =>
  `${host.includes(':') ? `[${host}]` : host}:${port}`;

/** Node reports no 'close' of a response that waits for the one before it (pipelining) when its connection ends. */
function closeAll(responses: ReadonlySet<ServerResponse>): void {
  for (const response of responses) {
    response.destroy();
    response.emit('close');
  }
}

const peerOf = ({ remoteAddress, remotePort }: Socket): string =>
  `${remoteAddress ?? ''} ${remotePort ?? ''}`;

function contextOf({ cert, key, clientCa }: TlsMaterial) {
  return { cert, key, ...(clientCa ? { ca: clientCa, requestCert: true } : {}) };
}
