/**
 * REST over HTTP/1.1, which Envoy uses by default. The listener hands over sockets; Node's server here
 * has no port of its own, and so none of its timeouts run. One timer for each connection bounds each of
 * its states instead.
 *
 * An exception in a callback of Node would end the process, so every callback is guarded.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { CollectedBytes } from '../../protos/collected-bytes.js';
import { sizeOf } from '../../protos/discovery-fields.js';
import type { ClientCertificate } from '../../authorities/index.js';
import { readClientCertificate } from './client-certificate.js';
import { MAX_HEADER_BYTES } from './grpc-headers.js';
import { headerValuesIn, peerOf, quotaKeyOf } from './peer.js';
import type { ConnectionReading, ReadInTurns } from './read-in-turns.js';
import { boundRequests } from './request-parser.js';
import type { RestDiscovery, RestResponse } from './rest-discovery.js';

export interface RestHttp1Options {
  readonly rest: RestDiscovery;
  readonly reading: ReadInTurns;
  readonly onError: (error: unknown) => void;
}

/** For the head of the first request, and for each body. Milliseconds. */
const REQUEST_WITHIN_MS = 10_000;
/** For the client to read a response. Milliseconds. */
const READ_WITHIN_MS = 10_000;
/** Between two requests, the head of the next one included. Envoy polls every few seconds. Milliseconds. */
const IDLE_MS = 60_000;
/** Requests of one connection without a response. More is abuse: no xDS client pipelines. A count. */
const MAX_PIPELINED = 1;

export class RestHttp1 {
  readonly #options: RestHttp1Options;
  readonly #server: Server;
  readonly #connections = new Map<Socket, Connection>();

  constructor(options: RestHttp1Options) {
    this.#options = options;
    this.#server = createServer({ maxHeaderSize: MAX_HEADER_BYTES, keepAlive: true });
    // The timer of the connection bounds it.
    this.#server.keepAliveTimeout = 0;
    this.#server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      this.#connections.get(request.socket)?.take(request, response);
    });
    // An invalid request: the error of its parser.
    this.#server.on('clientError', (_error, socket) => {
      socket.destroy();
    });
  }

  accept(socket: Socket): void {
    const connection = new Connection(socket, this.#options);
    this.#connections.set(socket, connection);
    socket.on('error', ignore);
    socket.once('close', () => {
      this.#connections.delete(socket);
      connection.handleClosed();
    });
    this.#server.emit('connection', socket);
    boundRequests(socket, connection);
  }

  /** Closes idle connections, and the others after their response. */
  goAway(): void {
    for (const connection of this.#connections.values()) connection.goAway();
  }

  /** Closes all connections at once. */
  cut(): void {
    for (const socket of this.#connections.keys()) socket.destroy();
  }
}

/** One connection of a client. */
class Connection {
  readonly #socket: Socket;
  /** Verified. */
  readonly #certificate: ClientCertificate | undefined;
  readonly #options: RestHttp1Options;
  readonly #reading: ConnectionReading;
  #timer: NodeJS.Timeout | undefined;
  /** Requests without a response. */
  #requests = 0;
  #isLeaving = false;
  /** The last response is on its way. */
  #isClosing = false;
  #cancel: () => void = () => undefined;
  /** Releases the quota that the body of the request takes. */
  #letBodyGo: () => void = () => undefined;
  /** Of each response that the client has not read: releases its quota. */
  readonly #unread = new Set<() => void>();

  constructor(socket: Socket, options: RestHttp1Options) {
    this.#socket = socket;
    this.#certificate = readClientCertificate(socket);
    this.#options = options;
    this.#reading = options.reading.add(socket);
    this.#within(REQUEST_WITHIN_MS);
  }

  goAway(): void {
    this.#isLeaving = true;
    // A response may be on its way.
    if (this.#requests === 0) this.#socket.destroySoon();
  }

  handleClosed(): void {
    clearTimeout(this.#timer);
    this.#reading.end();
    this.#guard(this.#cancel);
    this.#endBody();
    for (const letGo of this.#unread) letGo();
  }

  #endBody(): void {
    this.#letBodyGo();
    this.#letBodyGo = () => undefined;
  }

  /** Whether the connection may have one more request. */
  readonly mayTake = (): boolean => this.#requests < MAX_PIPELINED && !this.#isClosing;

  readonly isDribble = (bytes: number): boolean => this.#reading.notePart(bytes);

  take(request: IncomingMessage, response: ServerResponse): void {
    this.#guard(() => {
      this.#reading.noteEvent();
      this.#take(request, response);
    });
  }

  #take(request: IncomingMessage, response: ServerResponse): void {
    if (++this.#requests > MAX_PIPELINED) {
      this.#socket.destroy();
      return;
    }
    request.on('error', ignore);
    response.on('error', ignore);
    this.#within(REQUEST_WITHIN_MS);
    const { rest } = this.#options;
    const { method = '', url = '', headers } = request;
    const contentType = headers['content-type'] ?? '';
    const contentLength = Number(headers['content-length'] ?? NaN);
    const length = Number.isNaN(contentLength) ? undefined : contentLength;
    const quotaKey = quotaKeyOf(this.#socket.remoteAddress, this.#certificate);
    const head = { method, path: url, contentType, contentLength: length, quotaKey };
    const refusal = rest.refusal(head);
    if (refusal) {
      // Its body is not read.
      this.#respond(response, refusal, true);
      return;
    }
    this.#letBodyGo = rest.holdBody(head);
    this.#readBody(request, response, (body) => {
      this.#endBody();
      // The request itself waits for a bounded time.
      clearTimeout(this.#timer);
      const peer = peerOf(this.#socket, this.#certificate, headerValuesIn(headers));
      this.#cancel = rest.handle(url, body, peer, {
        onRead: this.#reading.wait(),
        onResponse: (restResponse) => {
          this.#guard(() => {
            this.#respond(response, restResponse, false);
          });
        },
      });
    });
  }

  #readBody(
    request: IncomingMessage,
    response: ServerResponse,
    onBody: (body: Buffer) => void,
  ): void {
    const { rest } = this.#options;
    const { maxBodyBytes } = rest;
    const collected = new CollectedBytes();
    request.on('data', (chunk: Buffer) => {
      this.#guard(() => {
        if (response.headersSent) return;
        if (collected.length + chunk.length <= maxBodyBytes) collected.append(chunk, maxBodyBytes);
        else this.#respond(response, rest.tooLarge(), true);
      });
    });
    request.on('end', () => {
      this.#guard(() => {
        if (!response.headersSent) onBody(collected.take());
      });
    });
  }

  /** @param isLast the connection cannot go on: the body was not read */
  #respond(
    response: ServerResponse,
    { status, headers, body, holdUnread }: RestResponse,
    isLast: boolean,
  ): void {
    this.#cancel = () => undefined;
    if (response.headersSent || this.#socket.destroyed) return;
    const isClosing = isLast || this.#isLeaving;
    this.#isClosing = isClosing;
    this.#within(READ_WITHIN_MS);
    const length = body.length === 0 ? {} : { 'content-length': sizeOf(body) };
    response.writeHead(status, {
      ...headers,
      ...length,
      ...(isClosing ? { connection: 'close' } : {}),
    });
    this.#requests--;
    const letGo = holdUnread?.();
    if (letGo) this.#unread.add(letGo);
    response.cork();
    for (const chunk of body) response.write(chunk);
    response.end(() => {
      if (letGo) {
        letGo();
        this.#unread.delete(letGo);
      }
      if (isClosing) this.#socket.destroySoon();
      else if (this.#requests === 0) this.#within(IDLE_MS);
    });
  }

  /** The connection closes unless it reaches its next state in time. */
  #within(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#socket.destroy();
    }, ms).unref();
  }

  #guard(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#options.onError(error);
      this.#socket.destroy();
    }
  }
}

/** For errors that end a connection, which its 'close' event reports. */
function ignore(): void {
  // See above.
}
