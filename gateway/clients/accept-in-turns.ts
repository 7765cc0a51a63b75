/**
 * Accepts new connections in turns (`authorities/turns.ts`). In one turn of the event loop, Node takes all connections that
 * wait in the kernel, some hundred or more, and makes a socket of each.
 */
import type { Server } from 'node:net';
import type { Turns } from '../../authorities/index.js';

/** The part of Node's server below its public interface. No public call makes it take fewer connections in one turn. */
interface ServerHandle {
  onconnection?: (error: unknown, connection?: { close(): void }) => void;
}

/**
 * Node takes each connection from the kernel at once. The socket, its 'connection' event and its
 * TLS handshake follow in the turn of the connection.
 *
 * @param server listens. A Node.js without this handle accepts connections as before.
 */
export function acceptInTurns(server: Server, turns: Turns): void {
  const { _handle: handle } = server as { _handle?: ServerHandle | null };
  const accept = handle?.onconnection;
  if (!handle || !accept) return;
  handle.onconnection = (error, connection) => {
    turns.runBounded(() => {
      if (server.listening) accept.call(handle, error, connection);
      else connection?.close();
    });
  };
}
