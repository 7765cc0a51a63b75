/**
 * gRPC on the admin port, for the tools of gRPC (grpcdebug, grpcurl): the status of clients (CSDS), health
 * checks, channelz, and server reflection. By grpc-js, since nothing here is on the path of clients. The admin
 * server accepts the connections; the server here exists from the first one on.
 *
 * Bounded as the rest of the admin port is: connections, streams, messages, times, and responses that an
 * operator does not read.
 */
import type { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  addAdminServicesToServer,
  Server,
  ServerCredentials,
  ServerInterceptingCall,
  status,
  type ServerInterceptor,
  type ServerOptions,
} from '@grpc/grpc-js';
import { CLIENT_STATUS_SERVICE } from '../../../protos/client-status.js';
import { envoyRegistry } from '../../../protos/envoy-registry.js';
import { HEALTH_SERVICE } from '../../../protos/health.js';
import { destroyAfterTurn, type Http2End } from '../../clients/session-end.js';
import type { AdminContext } from '../reply.js';
import { clientStatusHandlers, CSDS_DEFINITION } from './csds.js';
import { HEALTH_DEFINITION, healthHandlers } from './health.js';

/** One more connection replaces the oldest one. A count. */
const MAX_CONNECTIONS = 8;
/** No request of an operator needs more. */
const MAX_REQUEST_BYTES = 16 * 1_024;

const BOUNDS: ServerOptions = {
  'grpc.max_concurrent_streams': 16,
  'grpc.max_receive_message_length': MAX_REQUEST_BYTES,
  'grpc.max_connection_idle_ms': 30_000,
  'grpc.max_connection_age_ms': 600_000,
  'grpc.max_connection_age_grace_ms': 10_000,
  'grpc.keepalive_time_ms': 20_000,
  'grpc.keepalive_timeout_ms': 10_000,
  // Unread responses of one connection, in MB: Node opens no more streams beyond it.
  'grpc-node.max_session_memory': 10,
};

/** channelz would list this server with a socket that has no address, at which grpcdebug ends with a panic. */
const UNLISTED: ServerOptions = { 'grpc.enable_channelz': 0 };

const CHANNELZ_SERVICE = 'grpc.channelz.v1.Channelz';

export interface AdminGrpcOptions {
  readonly context: AdminContext;
  /** @param authorization the values of this header */
  readonly allows: (authorization: readonly string[]) => boolean;
}

type Injector = ReturnType<Server['createConnectionInjector']>;

export class AdminGrpc {
  readonly #options: AdminGrpcOptions;
  /** In the order in which they came. */
  readonly #connections = new Set<Socket>();
  #server: Server | undefined;
  /** Of the server that starts or has started. */
  #injector: Promise<Injector> | undefined;

  constructor(options: AdminGrpcOptions) {
    this.#options = options;
  }

  /** @param socket a connection that begins with the preface of HTTP/2; with TLS, after the handshake */
  accept(socket: Socket): void {
    this.#makeRoom();
    this.#connections.add(socket);
    socket.on('error', ignore);
    socket.once('close', () => this.#connections.delete(socket));
    this.#injector ??= this.#start();
    void this.#inject(socket, this.#injector);
  }

  /** Until the server has started, nothing reads the connection. Never rejects. */
  async #inject(socket: Socket, started: Promise<Injector>): Promise<void> {
    try {
      const injector = await started;
      if (!socket.destroyed) injector.injectConnection(socket);
    } catch (error) {
      this.#options.context.telemetry.onHandlerError(error);
      this.#injector = undefined;
      socket.destroy();
    }
  }

  close(): void {
    this.#server?.forceShutdown();
    for (const socket of this.#connections) socket.destroy();
  }

  #makeRoom(): void {
    const [oldest] = this.#connections;
    if (!oldest || this.#connections.size < MAX_CONNECTIONS) return;
    this.#connections.delete(oldest);
    oldest.destroy();
  }

  /** In several turns of the event loop, since each of the descriptors that it loads takes a time of its own. */
  async #start(): Promise<Injector> {
    const { context, allows } = this.#options;
    const { gateway, telemetry } = context;
    const onError = telemetry.onHandlerError.bind(telemetry);
    const interceptors = [authenticated(allows), paced];
    const server = new Server({ ...BOUNDS, ...UNLISTED, interceptors });
    this.#server = server;
    guardStreams(server, onError);
    server.addService(CSDS_DEFINITION, clientStatusHandlers(gateway, onError));
    server.addService(HEALTH_DEFINITION, healthHandlers(gateway.server.health));
    const services = [CLIENT_STATUS_SERVICE, HEALTH_SERVICE, CHANNELZ_SERVICE];
    for (const service of services) {
      envoyRegistry().getService(service);
      await nextTurn();
    }
    addAdminServicesToServer(server);
    await nextTurn();
    // Most processes never serve it, and its library is loaded last.
    const { addReflection } = await import('./reflection.js');
    addReflection(server, services);
    await nextTurn();
    // The admin server has decrypted the connection and checked its certificate.
    return server.createConnectionInjector(ServerCredentials.createInsecure());
  }
}

/** RFC 9113, 7. */
const INTERNAL_ERROR = 2;

/** What is needed here of the server and the streams of `node:http2`. */
interface SessionSource {
  on(event: 'session', listener: (session: Http2End) => void): void;
}
interface ServerStream {
  readonly closed: boolean;
  readonly destroyed: boolean;
  close(code: number): void;
  on(event: 'error', listener: () => void): void;
}

/** Private methods of grpc-js 1.14: no public one sees a stream before its method is known. */
interface StreamHandling {
  _setupHandlers(http2Server: SessionSource, ...rest: unknown[]): void;
  _streamHandler(interceptors: unknown, stream: ServerStream, headers: unknown): void;
}

/**
 * A client may reset a stream in the packet that opens it. grpc-js would respond to it, and its exception would end the
 * process, before any token is checked. Call this before the server has a port or an injector.
 */
function guardStreams(server: Server, onError: (error: unknown) => void): void {
  const inner = server as unknown as StreamHandling;
  const setUp = inner._setupHandlers.bind(server);
  const handle = inner._streamHandler.bind(server);
  inner._setupHandlers = (http2Server, ...rest) => {
    http2Server.on('session', destroyAfterTurn);
    setUp(http2Server, ...rest);
  };
  inner._streamHandler = (interceptors, stream, headers) => {
    stream.on('error', ignore);
    if (stream.destroyed || stream.closed) return;
    try {
      handle(interceptors, stream, headers);
    } catch (error) {
      onError(error);
      setImmediate(() => {
        stream.close(INTERNAL_ERROR);
      });
    }
  };
}

const UNAUTHENTICATED = {
  code: status.UNAUTHENTICATED,
  details: 'no valid token: send that of admin.token_file as "authorization: Bearer TOKEN"',
};

const authenticated =
  (allows: AdminGrpcOptions['allows']): ServerInterceptor =>
  (_method, call) =>
    new ServerInterceptingCall(call, {
      start: (next) => {
        next({
          onReceiveMetadata: (metadata, pass) => {
            if (allows(metadata.get('authorization').map(String))) pass(metadata);
            else call.sendStatus(UNAUTHENTICATED);
          },
        });
      },
    });

/**
 * Reads the next request of a call only when the client has read the responses before: small requests could
 * otherwise pile up large responses.
 */
const paced: ServerInterceptor = (_method, call) => new PacedCall(call);

class PacedCall extends ServerInterceptingCall {
  #unread = 0;
  #wantsMore = false;

  override sendMessage(message: unknown, callback: () => void): void {
    this.#unread++;
    super.sendMessage(message, () => {
      this.#unread--;
      callback();
      if (this.#unread > 0 || !this.#wantsMore) return;
      this.#wantsMore = false;
      super.startRead();
    });
  }

  override startRead(): void {
    if (this.#unread > 0) this.#wantsMore = true;
    else super.startRead();
  }
}

/** For errors that end a connection or a stream, which its 'close' event reports. */
function ignore(): void {
  // See above.
}
