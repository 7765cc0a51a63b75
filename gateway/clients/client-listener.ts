/**
 * The port for clients. It tells HTTP/2 (gRPC, and REST) from HTTP/1.1 (REST only) and hands over the
 * connection: by ALPN with TLS, and otherwise by the first bytes (`connection-preface.ts`).
 */
import {
  createServer as createTcpServer,
  type AddressInfo,
  type Server,
  type Socket,
} from 'node:net';
import {
  createServer as createTlsServer,
  type SecureContextOptions,
  type TLSSocket,
} from 'node:tls';
import type { Turns } from '../../authorities/index.js';
import { acceptInTurns } from './accept-in-turns.js';
import { closeInTurns, endAfterResponses } from './connection-end.js';
import { readPreface } from './connection-preface.js';
import type { TlsMaterial } from './tls-files.js';

export interface ClientListenerOptions {
  readonly host: string;
  readonly port: number;
  readonly onHttp1: (socket: Socket) => void;
  readonly onHttp2: (socket: Socket) => void;
  /** In which it accepts connections. */
  readonly turns: Turns;
  /** A handler or the listener failed; it goes on. */
  readonly onError: (error: unknown) => void;
}

/** How long a client may take for the TLS handshake. Milliseconds. */
const HANDSHAKE_WITHIN_MS = 10_000;

/** How long a client may take for its first bytes. Milliseconds. */
const FIRST_BYTES_WITHIN_MS = 10_000;

/**
 * Node reads all connections that are readable in one turn of the event loop, about this long for each. So those that
 * begin to be read in one turn are few. Milliseconds.
 */
const READ_COST_MS = 0.1;

export class ClientListener {
  readonly #options: ClientListenerOptions;
  readonly #server: Server;
  /** Connections that have not sent enough to tell their protocol. */
  readonly #undecided = new Set<Socket>();

  /** @param tls absent: plaintext */
  constructor(options: ClientListenerOptions, tls: TlsMaterial | undefined) {
    this.#options = options;
    // Node reads a new connection at once, outside of the turns. Paused, it is read first in its turn.
    this.#server = tls
      ? this.#tlsServer(tls)
      : createTcpServer({ pauseOnConnect: true, allowHalfOpen: true });
    this.#server.on(tls ? 'secureConnection' : 'connection', (socket: Socket) => {
      socket.on('error', ignore);
      closeInTurns(socket, options.turns);
      const accept = (): void => {
        this.#guard(socket, () => {
          this.#accept(socket);
        });
      };
      // A TLS handshake ends outside of the turns; a new connection has its turn already.
      if (tls) options.turns.run(accept);
      else accept();
    });
    this.#server.on('tlsClientError', ignore);
  }

  #tlsServer(tls: TlsMaterial): Server {
    return createTlsServer({
      ...contextOf(tls),
      ALPNProtocols: ['h2', 'http/1.1'],
      requestCert: tls.clientCa !== undefined,
      allowHalfOpen: true,
      handshakeTimeout: HANDSHAKE_WITHIN_MS,
    });
  }

  /** @returns the bound port. Rejects with the error of the system if the address is unavailable. */
  async listen(): Promise<number> {
    const { host, port, onError } = this.#options;
    const server = this.#server;
    return new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, host, () => {
        server.off('error', reject);
        acceptInTurns(server, this.#options.turns);
        server.on('error', onError);
        resolve((server.address() as AddressInfo).port);
      });
    });
  }

  /** Uses new certificates for new connections; open connections keep theirs. */
  replaceTls(material: TlsMaterial): void {
    if ('setSecureContext' in this.#server) {
      (this.#server as ReturnType<typeof createTlsServer>).setSecureContext(contextOf(material));
    }
  }

  /** Accepts no more connections. @param onClosed called when all connections are closed */
  close(onClosed: () => void): void {
    this.#server.close(onClosed);
    for (const socket of this.#undecided) socket.destroy();
  }

  #accept(socket: Socket): void {
    // It may have been closed while it waited.
    if (socket.destroyed) return;
    const { alpnProtocol } = socket as Partial<TLSSocket>;
    if (alpnProtocol) this.#handOver(socket, alpnProtocol === 'h2');
    else this.#decide(socket);
  }

  #decide(socket: Socket): void {
    this.#undecided.add(socket);
    const forget = (): void => {
      this.#undecided.delete(socket);
      socket.off('close', forget);
    };
    socket.on('close', forget);
    this.#options.turns.charge(READ_COST_MS);
    readPreface(socket, {
      withinMs: FIRST_BYTES_WITHIN_MS,
      onDecided: (protocol) => {
        // A thousand connections may become readable in one turn, and their sessions cost most.
        this.#options.turns.run(() => {
          forget();
          this.#guard(socket, () => {
            this.#handOver(socket, protocol === 'http2');
          });
        });
      },
      onError: this.#options.onError,
    });
  }

  #handOver(socket: Socket, isHttp2: boolean): void {
    // It may have been closed while it waited.
    if (socket.destroyed) return;
    if (isHttp2) {
      this.#options.onHttp2(socket);
    } else {
      endAfterResponses(socket);
      this.#options.onHttp1(socket);
    }
  }

  #guard(socket: Socket, work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#options.onError(error);
      socket.destroy();
    }
  }
}

/** For errors that end a connection, which its 'close' event reports. */
function ignore(): void {
  // See above.
}

function contextOf({ cert, key, clientCa }: TlsMaterial): SecureContextOptions {
  return { cert, key, ...(clientCa ? { ca: clientCa } : {}) };
}
