/**
 * A gRPC server over HTTP/2 (gRPC, PROTOCOL-HTTP2.md) for streams of bytes: the connections of clients
 * with their limits. `client-listener.ts` is its port, which it shares with REST over HTTP/1.1;
 * `grpc-call.ts` is one stream.
 *
 * An exception in a callback of Node, and an 'error' event without a listener, would end the process. So
 * every callback here is guarded, and everything that can emit 'error' has a listener.
 */
import {
  constants,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  type ServerOptions,
} from 'node:http2';
import type { Socket } from 'node:net';
import { TokenBucket, type ClientCertificate } from '../../authorities/index.js';
import type { Keepalive } from '../../config/limits.js';
import { STATUS_CODE } from '../../protos/discovery.js';
import type { Quotas } from '../core/quotas/quotas.js';
import { ClientListener } from './client-listener.js';
import { HeaderGarbage } from './header-garbage.js';
import { ClosedSessions, nativePartOf, type NativePart } from './closed-sessions.js';
import { leaveAtEnd, stopReading } from './connection-end.js';
import {
  respondOnly,
  startCall,
  type CallConnection,
  type CallLimits,
  type CallOptions,
  type Method,
} from './grpc-call.js';
import { headerBytesOf, MAX_HEADER_BYTES, readCallHeaders, trailersOnly } from './grpc-headers.js';
import { addressOf, headerValuesIn, peerOf, quotaKeyOf } from './peer.js';
import type { PollPeer } from './polls.js';
import { isRestPath, type RestDiscovery } from './rest-discovery.js';
import { ReadInTurns, type ConnectionReading } from './read-in-turns.js';
import { RestHttp1 } from './rest-http1.js';
import { startRest } from './rest-http2.js';
import { destroyAfterTurn } from './session-end.js';
import { renewStreams } from './session-streams.js';
import { UnreadParts } from './unread-parts.js';
import { readClientCertificate } from './client-certificate.js';
import type { Turns } from '../../authorities/index.js';
import { noSet, ownSet } from '../../protos/empty-collections.js';
import type { TlsMaterial } from './tls-files.js';

export interface GrpcServerOptions extends CallLimits {
  readonly host: string;
  readonly port: number;
  readonly keepalive: Keepalive;
  /** Concurrent calls of one connection. A count. */
  readonly maxStreamsPerConnection: number;
  /** In which new connections are accepted. */
  readonly turns: Turns;
  readonly quotas: Quotas;
  /** By path. */
  readonly methods: ReadonlyMap<string, Method>;
  /** REST, on the same port; absent: not served. */
  readonly rest?: RestDiscovery;
  /** A client called a method that is not in `methods`; once for each connection and method. */
  readonly onUnknownMethod: (call: UnknownCall) => void;
  /** A handler or a listener failed; the server continues. */
  readonly onError: (error: unknown) => void;
}

export interface UnknownCall {
  /** `/SERVICE/METHOD`, chosen by the client. */
  readonly path: string;
  /** The address of the client. */
  readonly peer: string;
}

/** Unknown methods of one connection that the server reports. Clients invent them. A count. */
const MAX_REPORTED_METHODS = 16;

/** How long a client may take to send its first complete request headers, and to ACK the SETTINGS. Milliseconds. */
const FIRST_STREAM_WITHIN_MS = 10_000;

/** How long the socket of a closed connection may stay open for bytes that its client has not read. Milliseconds. */
const LAST_BYTES_WITHIN_MS = 1_000;

/**
 * Streams that a connection may have at first, and how many more once half of them are open. Node accepts all
 * streams of all readable connections in one turn of the event loop: ten connections that open 500 each cost a
 * turn of 60 ms. The client waits with further streams, for a round trip each time. It equals the default of the
 * setting: clients wait only where an operator has raised the setting. A count.
 */
const STREAMS_AT_A_TIME = 100;

/** Header fields of one request, pseudo-header fields included. A count. */
const MAX_HEADER_PAIRS = 100;

/** Frames of one connection that break the protocol, and streams over its limit. A count. */
const MAX_INVALID_FRAMES = 100;
const MAX_REJECTED_STREAMS = 100;

/**
 * SETTINGS and PING frames of one connection. A client that measures its bandwidth sends a few dozen in a
 * second. A count at once, and then a count per second.
 */
const CONTROL_FRAMES = { maxTokens: 1_000, fillRatePerSecond: 1_000 };

/**
 * Streams that the client of one connection resets: all that it has, and not many more, since Node reads all that
 * the connections have sent in one turn. Below the bounds of nghttp2, which would stop the connection without closing
 * it. A count at once, and then a count per second.
 */
const RESETS = { maxTokens: STREAMS_AT_A_TIME, fillRatePerSecond: 20 };

/**
 * 64 KB can open and reset 2,000 streams, and Node handles all that it has read. So after this many events of a turn, the streams that the
 * client opens keep their places until the turn is over, and nghttp2 refuses what it opens beyond its limit. A client that has not
 * acknowledged the SETTINGS has no limit. A count.
 */
const EVENTS_WITH_FREE_PLACES = 20;

/**
 * Node would refuse new streams of a connection whose streams have this much to send, whether they read
 * or not. `writeAheadBytes` bounds that for each stream. Megabytes.
 */
const MAX_SESSION_MEMORY_MB = 2 ** 32 - 1;

export class GrpcServer {
  readonly #options: GrpcServerOptions;
  readonly #listener: ClientListener;
  readonly #server: Http2Server;
  readonly #http1: RestHttp1 | undefined;
  readonly #connections = new Set<Connection>();
  readonly #reading = new ReadInTurns();
  readonly #closed = new ClosedSessions({ open: () => this.#connections.size });
  readonly #headerGarbage = new HeaderGarbage();

  /** @param tls absent: cleartext with prior knowledge (RFC 9113, 3.3) */
  constructor(options: GrpcServerOptions, tls: TlsMaterial | undefined) {
    this.#options = options;
    const settings: ServerOptions = {
      settings: {
        maxConcurrentStreams: Math.min(options.maxStreamsPerConnection, STREAMS_AT_A_TIME),
        maxHeaderListSize: MAX_HEADER_BYTES,
      },
      maxHeaderListPairs: MAX_HEADER_PAIRS,
      maxSessionInvalidFrames: MAX_INVALID_FRAMES,
      maxSessionRejectedStreams: MAX_REJECTED_STREAMS,
      maxSessionMemory: MAX_SESSION_MEMORY_MB,
    };
    const { rest, onError } = options;
    this.#http1 = rest && new RestHttp1({ rest, reading: this.#reading, onError });
    this.#listener = new ClientListener(
      {
        ...options,
        enter: (opened) => enter(opened, options.quotas),
        onHttp1: (socket) => {
          if (this.#http1) this.#http1.accept(socket);
          else socket.destroy();
        },
        reading: this.#reading,
        onHttp2: (socket) => this.#server.emit('connection', socket),
      },
      tls,
    );
    // Without a port of its own: the listener hands over connections.
    const server = createServer(settings);
    this.#server = server;
    let socket: Socket;
    // Node makes the session in a listener of the same event, and hides the socket from it.
    server.prependListener('connection', (opened: Socket) => {
      socket = opened;
    });
    server.on('session', (session) => {
      this.#accept(session, socket);
    });
    server.on('sessionError', ignore);
  }

  /** @returns the bound port. Rejects with the error of the system if the address is unavailable. */
  async listen(): Promise<number> {
    return this.#listener.listen();
  }

  /** Uses new certificates for new connections; open connections keep theirs. */
  replaceTls(material: TlsMaterial): void {
    this.#listener.replaceTls(material);
  }

  /**
   * Accepts no more connections and calls. Resolves when all calls have ended, or after the grace time,
   * which cuts the rest.
   */
  async close(graceMs: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const force = setTimeout(() => {
        for (const connection of this.#connections) connection.cut();
        this.#http1?.cut();
        resolve();
      }, graceMs);
      this.#listener.close(() => {
        clearTimeout(force);
        resolve();
      });
      this.#closed.close();
      this.#headerGarbage.close();
      for (const connection of this.#connections) connection.goAway();
      this.#http1?.goAway();
    });
  }

  readonly #forget = (connection: Connection): void => {
    this.#connections.delete(connection);
    if (connection.nativePart) this.#closed.add(connection.nativePart);
  };

  #accept(session: ServerHttp2Session, socket: Socket): void {
    const connection = new Connection(session, socket, this.#options, {
      reading: this.#reading,
      headerGarbage: this.#headerGarbage,
      onClosed: this.#forget,
    });
    this.#connections.add(connection);
  }
}

/** Counts a connection for its address: of its client, nothing else is known yet. */
function enter(socket: Socket, quotas: Quotas): (() => void) | undefined {
  const account = quotas.account(quotaKeyOf(socket.remoteAddress, undefined));
  if (account.ask('connections')) return undefined;
  account.change('connections', 1);
  return () => {
    account.change('connections', -1);
  };
}

/** What all connections share. */
interface Shared {
  readonly reading: ReadInTurns;
  readonly headerGarbage: HeaderGarbage;
  readonly onClosed: (connection: Connection) => void;
}

/** One connection of a client. */
class Connection implements CallConnection {
  readonly #session: ServerHttp2Session;
  readonly #socket: Socket;
  readonly #options: GrpcServerOptions;
  readonly #callOptions: CallOptions;
  readonly #reading: ConnectionReading;
  readonly #headerGarbage: HeaderGarbage;
  #firstStream: NodeJS.Timeout | undefined;
  #keepalive: NodeJS.Timeout | undefined;
  #closing: NodeJS.Timeout | undefined;
  #hasStream = false;
  #openStreams = 0;
  /** As announced to the client, which may not have read it yet. */
  #maxStreams: number;
  /** The client has acknowledged the first SETTINGS. */
  #isSettled = false;
  /** It has not acknowledged the last SETTINGS. */
  #isRaising = false;
  /** The connection is closed after this turn. */
  #isEnding = false;
  #closeReason = 'cancelled by the client';
  readonly nativePart: NativePart | undefined;
  /** Verified. It outlives the socket, which has none once it is closed. */
  readonly certificate: ClientCertificate | undefined;
  readonly #controlFrames = new TokenBucket(CONTROL_FRAMES);
  readonly #resets = new TokenBucket(RESETS);
  readonly #unreadParts = new UnreadParts((bytes) => {
    if (bytes === undefined) this.#reading.noteEvent();
    else if (this.#isEnding) return false;
    else if (this.#reading.notePart(bytes)) this.#calm('the client sent a message in tiny parts');
    return true;
  });
  #unknownMethods: Set<string> = noSet();

  constructor(
    session: ServerHttp2Session,
    socket: Socket,
    options: GrpcServerOptions,
    { reading, headerGarbage, onClosed }: Shared,
  ) {
    destroyAfterTurn(session, (isGraceful) => {
      this.#reading.noteEvent();
      if (!isGraceful) this.#dropRest();
      // Otherwise Node reads on to see that the client closes its side, if need be for ever.
      else this.#closing ??= setTimeout(() => socket.destroy(), options.keepalive.timeMs).unref();
    });
    leaveAtEnd(socket);
    this.#session = session;
    this.nativePart = nativePartOf(session);
    this.#socket = socket;
    this.#options = options;
    this.#reading = reading.add(socket);
    this.#headerGarbage = headerGarbage;
    this.certificate = readClientCertificate(socket);
    this.#maxStreams = Math.min(options.maxStreamsPerConnection, STREAMS_AT_A_TIME);
    this.#callOptions = {
      maxMessageBytes: options.maxMessageBytes,
      writeAheadBytes: options.writeAheadBytes,
      peer: addressOf(socket),
      quotaKey: quotaKeyOf(socket.remoteAddress, this.certificate),
      quotas: options.quotas,
      socket,
      connection: this,
      onError: options.onError,
    };
    this.#firstStream = setTimeout(() => {
      this.#end(constants.NGHTTP2_SETTINGS_TIMEOUT, 'the client opened no stream in time');
    }, FIRST_STREAM_WITHIN_MS).unref();
    this.#keepAlive();
    // Node sends no PING after the client has sent a GOAWAY.
    socket.setKeepAlive(true, options.keepalive.timeMs);
    session.on('error', ignore);
    session.on('frameError', ignore);
    session.on('ping', this.#countControlFrame);
    session.on('remoteSettings', this.#countControlFrame);
    session.on('priority', this.#countControlFrame);
    session.once('localSettings', () => {
      this.#isSettled = true;
      this.#noteBegun();
    });
    session.on('stream', (stream, headers, _flags, rawHeaders?: readonly string[]) => {
      this.#accept(stream, headers, rawHeaders ?? []);
    });
    session.on('close', () => {
      clearTimeout(this.#firstStream);
      clearTimeout(this.#keepalive);
      clearTimeout(this.#closing);
      this.#reading.end();
      // The native part may outlive the rest of the connection, and refers to the session.
      session.removeAllListeners().on('error', ignore);
      onClosed(this);
    });
  }

  /** Asks the client to open its next streams elsewhere; open streams go on. */
  goAway(): void {
    this.#session.close();
  }

  /** Closes the connection and all its streams at once. */
  cut(): void {
    this.#session.destroy();
    this.#socket.destroy();
  }

  get closeReason(): string {
    return this.#closeReason;
  }

  /** The connection has the first stream and the ACK of the SETTINGS in time. */
  #noteBegun(): void {
    if (!this.#hasStream || !this.#isSettled) return;
    clearTimeout(this.#firstStream);
    this.#firstStream = undefined;
  }

  #accept(
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    rawHeaders: readonly string[],
  ): void {
    stream.on('error', ignore);
    stream.on('frameError', ignore);
    this.#reading.noteEvent();
    // Before Node handles what follows the headers, such as a reset.
    if (this.#isSettled && this.#reading.events > EVENTS_WITH_FREE_PLACES) destroyAfterTurn(stream);
    this.#headerGarbage.note(rawHeaders.length / 2);
    if (this.#isEnding) return;
    this.#watchClose(stream);
    if (!this.#hasStream) {
      this.#hasStream = true;
      this.#noteBegun();
    }
    this.#raiseMaxStreams();
    const endWait = this.#reading.wait();
    this.#options.turns.runBounded(() => {
      endWait();
      // The client may have reset it already.
      if (stream.destroyed || stream.closed) return;
      try {
        this.#open(stream, headers, rawHeaders);
      } catch (error) {
        this.#options.onError(error);
        stream.close(constants.NGHTTP2_INTERNAL_ERROR);
      }
    });
  }

  /**
   * By itself: closures of one function share their variables, so this listener would keep the headers, secrets among
   * them, as long as the stream is open.
   */
  #watchClose(stream: ServerHttp2Stream): void {
    if (this.#openStreams++ === 0) renewStreams(this.#session);
    const forgetParts = this.#unreadParts.watch(stream);
    stream.on('close', () => {
      this.#openStreams--;
      forgetParts();
      if (stream.rstCode !== constants.NGHTTP2_NO_ERROR) this.#countReset();
    });
  }

  /** Lets the client open more streams, up to the limit, once it has acknowledged the last raise. */
  #raiseMaxStreams(): void {
    const { maxStreamsPerConnection } = this.#options;
    const isFull = this.#maxStreams >= maxStreamsPerConnection;
    if (isFull || this.#isRaising || this.#openStreams < this.#maxStreams / 2) return;
    if (this.#session.destroyed || this.#session.closed) return;
    this.#maxStreams = Math.min(maxStreamsPerConnection, this.#maxStreams + STREAMS_AT_A_TIME);
    this.#isRaising = true;
    try {
      this.#session.settings({ maxConcurrentStreams: this.#maxStreams }, () => {
        this.#isRaising = false;
        this.#raiseMaxStreams();
      });
    } catch (error) {
      this.#options.onError(error);
    }
  }

  #open(
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    rawHeaders: readonly string[],
  ): void {
    const headerBytes = headerBytesOf(rawHeaders);
    const { rest, onError } = this.#options;
    if (rest && headerBytes <= MAX_HEADER_BYTES && isRestPath(headers[':path'] ?? '')) {
      const peer = (): PollPeer => peerOf(this.#socket, this.certificate, headerValuesIn(headers));
      const { quotaKey } = this.#callOptions;
      startRest(stream, headers, { rest, peer, quotaKey, reading: this.#reading, onError });
      return;
    }
    const reading = readCallHeaders(headers, rawHeaders);
    if (!reading.ok) {
      respondOnly(stream, reading.response);
      return;
    }
    const { path } = reading.headers;
    const method = this.#options.methods.get(path);
    if (method) {
      startCall(stream, reading.headers, this.#callOptions, method);
    } else {
      const message = `there is no method ${path}`;
      respondOnly(stream, trailersOnly({ code: STATUS_CODE.unimplemented, message }));
      this.#reportUnknown(path);
    }
  }

  #reportUnknown(path: string): void {
    const known = this.#unknownMethods;
    if (known.has(path) || known.size >= MAX_REPORTED_METHODS) return;
    this.#unknownMethods = ownSet(known).add(path);
    this.#options.onUnknownMethod({ path, peer: this.#callOptions.peer });
  }

  #keepAlive(): void {
    this.#keepalive = setTimeout(() => {
      this.#ping();
    }, this.#options.keepalive.timeMs).unref();
  }

  #ping(): void {
    // Node waits for ever until the client has read what a destroyed session sent last.
    if (this.#session.destroyed) {
      this.#socket.destroy();
      return;
    }
    this.#keepalive = setTimeout(() => {
      this.#end(constants.NGHTTP2_NO_ERROR, 'the client did not answer a PING');
    }, this.#options.keepalive.timeoutMs).unref();
    this.#session.ping(() => {
      clearTimeout(this.#keepalive);
      if (!this.#session.closed) this.#keepAlive();
    });
  }

  readonly #countControlFrame = (): void => {
    this.#reading.noteEvent();
    if (!this.#controlFrames.take(performance.now()))
      this.#calm('the client sent too many control frames');
  };

  #countReset(): void {
    if (!this.#resets.take(performance.now())) this.#calm('the client reset too many streams');
  }

  /** Node reads up to 2 MB of a connection in one turn, and the session is destroyed after the turn. */
  #dropRest(): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    this.#reading.cutOff();
    stopReading(this.#socket);
    setTimeout(() => {
      this.#socket.destroy();
    }, LAST_BYTES_WITHIN_MS).unref();
  }

  #calm(reason: string): void {
    this.#end(constants.NGHTTP2_ENHANCE_YOUR_CALM, reason);
  }

  /** Closes the connection and all its streams. The GOAWAY tells the client why. */
  #end(code: number, reason: string): void {
    if (this.#isEnding || this.#session.destroyed) return;
    this.#closeReason = reason;
    this.#session.destroy(new Error(reason), code);
  }
}

/** For errors that end a connection or a stream, which its 'close' event reports. */
function ignore(): void {
  // See above.
}
