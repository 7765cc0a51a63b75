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
  type Server as TlsServer,
  TLSSocket,
} from 'node:tls';
import type { Turns } from '../../authorities/index.js';
import { BACKLOG } from '../backlog.js';
import { acceptInTurns } from './accept-in-turns.js';
import { closeInTurns, endAfterResponses } from './connection-end.js';
import { isFlood, protocolOf, readPreface, type Protocol } from './connection-preface.js';
import type { ReadInTurns } from './read-in-turns.js';
import type { TlsMaterial } from './tls-files.js';

/** How a connection goes on after its first bytes. */
type Kind = Protocol | 'tls';

export interface ClientListenerOptions {
  readonly host: string;
  readonly port: number;
  /**
   * Counts a new connection.
   *
   * @returns call it when the connection is closed; undefined: there is no room for it
   */
  readonly enter: (socket: Socket) => (() => void) | undefined;
  readonly onHttp1: (socket: Socket) => void;
  readonly onHttp2: (socket: Socket) => void;
  /** In which it reads connections until it hands them over. Those wait while it is behind. */
  readonly reading: ReadInTurns;
  /** In which it accepts connections. */
  readonly turns: Turns;
  /** A handler or the listener failed; it goes on. */
  readonly onError: (error: unknown) => void;
}

/** How long a client may take for the first bytes of a TLS handshake, and again for the rest of it. Milliseconds. */
const HANDSHAKE_PART_WITHIN_MS = 5_000;

/** How long a client may take for its first bytes. Milliseconds. */
const FIRST_BYTES_WITHIN_MS = 10_000;

/**
 * Node reads all connections that are readable in one turn of the event loop, about this long for each. So those that
 * begin to be read in one turn are few. Milliseconds.
 */
const READ_COST_MS = 0.1;

/** More than an ordinary first request. Bytes. */
const ORDINARY_FIRST_BYTES = 8_192;

export class ClientListener {
  readonly #options: ClientListenerOptions;
  readonly #server: Server;
  readonly #tlsServer: TlsServer | undefined;
  /** Connections that have not sent enough to tell their protocol. */
  readonly #undecided = new Set<Socket>();
  #isClosing = false;

  /** @param tls absent: plaintext */
  constructor(options: ClientListenerOptions, tls: TlsMaterial | undefined) {
    this.#options = options;
    this.#tlsServer = tls && this.#makeTlsServer(tls);
    // Node reads a new connection at once, outside of the turns. Paused, it is read first in its turn.
    this.#server = createTcpServer({ pauseOnConnect: true, allowHalfOpen: true });
    this.#server.on('connection', (socket: Socket) => {
      this.#adopt(socket);
      this.#guard(socket, () => {
        const leave = this.#options.enter(socket);
        if (!leave) {
          socket.destroy();
          return;
        }
        socket.on('close', leave);
        // The server computes its part of a handshake as soon as it reads the client's, so that is read in a turn, too.
        if (this.#tlsServer) this.#decide(socket, () => 'tls', HANDSHAKE_PART_WITHIN_MS);
        else this.#decide(socket, protocolOf);
      });
    });
  }

  /** Without a port of its own: it gets connections from this listener. */
  #makeTlsServer(tls: TlsMaterial): TlsServer {
    const server = createTlsServer({
      ...contextOf(tls),
      ALPNProtocols: ['h2', 'http/1.1'],
      requestCert: tls.clientCa !== undefined,
      allowHalfOpen: true,
      handshakeTimeout: HANDSHAKE_PART_WITHIN_MS,
    });
    server.on('secureConnection', (socket: TLSSocket) => {
      this.#adopt(socket);
      this.#options.turns.runBounded(() => {
        this.#guard(socket, () => {
          const { alpnProtocol } = socket;
          if (socket.destroyed) return;
          // The listener closed during the handshake: nobody would tell this client to leave.
          if (this.#isClosing) socket.destroy();
          else if (alpnProtocol === false) this.#decide(socket, protocolOf);
          else this.#handOver(socket, alpnProtocol === 'h2' ? 'http2' : 'http1');
        });
      });
    });
    // Such as a handshake that takes too long: Node leaves the connection open.
    server.on('tlsClientError', (_error, socket) => {
      socket.destroy();
    });
    return server;
  }

  /** Its errors and its end are those of one connection, and cost only their turn. */
  #adopt(socket: Socket): void {
    socket.on('error', ignore);
    closeInTurns(socket, this.#options.turns);
  }

  /** @returns the bound port. Rejects with the error of the system if the address is unavailable. */
  async listen(): Promise<number> {
    const { host, port, onError } = this.#options;
    const server = this.#server;
    return new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, host, BACKLOG, () => {
        server.off('error', reject);
        acceptInTurns(server, this.#options.turns);
        server.on('error', onError);
        resolve((server.address() as AddressInfo).port);
      });
    });
  }

  /** Uses new certificates for new connections; open connections keep theirs. */
  replaceTls(material: TlsMaterial): void {
    this.#tlsServer?.setSecureContext(contextOf(material));
  }

  /** Accepts no more connections. @param onClosed called when all connections are closed */
  close(onClosed: () => void): void {
    this.#isClosing = true;
    this.#server.close(onClosed);
    for (const socket of this.#undecided) socket.destroy();
  }

  /** @param kindOf tells by the first bytes how the connection goes on */
  #decide(
    socket: Socket,
    kindOf: (firstBytes: Buffer) => Kind | undefined,
    withinMs = FIRST_BYTES_WITHIN_MS,
  ): void {
    this.#undecided.add(socket);
    const reading = this.#options.reading.add(socket);
    // So it goes on before the clients that have nothing to send, of which there may be thousands.
    reading.noteTurn();
    const forget = (): void => {
      this.#undecided.delete(socket);
      reading.end();
      reading.goOn();
      socket.off('close', forget);
    };
    socket.on('close', forget);
    this.#options.turns.charge(READ_COST_MS);
    readPreface(socket, {
      withinMs,
      kindOf: (firstBytes) => {
        reading.noteEvent();
        return kindOf(firstBytes);
      },
      onDecided: (kind) => {
        this.#handOverInTurn(socket, kind, forget);
      },
      onError: this.#options.onError,
    });
  }

  /** A thousand connections may become readable in one turn, and their sessions cost most. */
  #handOverInTurn(socket: Socket, kind: Kind, forget: () => void): void {
    const { turns, reading } = this.#options;
    turns.runBounded(() => {
      if (reading.isBehind) {
        // In a later turn: with nothing else to do, the turns would run it at once, again and again.
        setImmediate(() => {
          this.#handOverInTurn(socket, kind, forget);
        });
        return;
      }
      forget();
      this.#guard(socket, () => {
        this.#handOver(socket, kind);
      });
    });
  }

  #handOver(socket: Socket, kind: Kind): void {
    // It may have been closed while it waited.
    if (socket.destroyed) return;
    if (kind === 'tls') {
      this.#tlsServer?.emit('connection', socket);
    } else if (kind === 'http2') {
      // Node refuses HTTP/2 over TLS without ALPN, which a balancer that encrypts again may send.
      if (socket instanceof TLSSocket) socket.alpnProtocol = 'h2';
      if (socket.readableLength > ORDINARY_FIRST_BYTES && beginsWithFlood(socket)) socket.destroy();
      else this.#options.onHttp2(socket);
    } else {
      endAfterResponses(socket);
      this.#options.onHttp1(socket);
    }
    // Node handles in the next tick all that it has read of the connection.
    this.#options.turns.countTicks();
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

/** What Node has read of the connection stays in the socket. */
function beginsWithFlood(socket: Socket): boolean {
  const firstBytes = socket.read() as Buffer | null;
  if (!firstBytes) return false;
  socket.unshift(firstBytes);
  return isFlood(firstBytes);
}

/** For errors that end a connection, which its 'close' event reports. */
function ignore(): void {
  // See above.
}

function contextOf({ cert, key, clientCa }: TlsMaterial): SecureContextOptions {
  return { cert, key, ...(clientCa ? { ca: clientCa } : {}) };
}
