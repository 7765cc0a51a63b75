/**
 * Closes the connections of clients that leave, in turns (`authorities/turns.ts`). Node would close all connections
 * that end in one turn of the event loop, about 50 µs each with their sessions and streams: 3,000 took 150 ms.
 */
import type { Socket } from 'node:net';
import type { Turns } from '../../authorities/index.js';

/** What closing a connection costs outside of the turn's work: Node's callbacks, and the ends of streams. Milliseconds. */
const CLOSE_COST_MS = 0.04;

/**
 * The socket counts as destroyed at once, and closes in its turn: before the gateway accepts a connection that
 * the client opens afterwards, so that the quotas never count both.
 *
 * @param socket with `allowHalfOpen`: without it, Node ends its side of all connections in one turn, too
 */
export function closeInTurns(socket: Socket, turns: Pick<Turns, 'runBounded' | 'charge'>): void {
  // Node calls it for each end of a connection, by the client or by the gateway.
  const close = socket._destroy.bind(socket);
  socket._destroy = (_error, done) => {
    stopReading(socket);
    turns.runBounded(() => {
      turns.charge(CLOSE_COST_MS);
      // Without the error of a reset: 'close' tells as much, and an 'error' event costs more than that.
      close(null, done);
    });
  };
  socket.on('end', leave);
}

/** The part of Node's socket below its public interface. No public call stops the reading of a destroyed socket. */
interface SocketHandle {
  readStop(): number;
  onread: (bytes?: ArrayBuffer) => void;
}

/**
 * If data comes on a destroyed socket that is still open, Node mistakes it for an error number and
 * throws, which would end the process. Over TLS, data that Node has read already may come at once.
 */
export function stopReading(socket: Socket): void {
  const { _handle: handle } = socket as { _handle?: SocketHandle | null };
  if (!handle) return;
  handle.readStop();
  handle.onread = dropped;
}

function dropped(): void {
  // See above.
}

/**
 * For HTTP/2, whose session reads the data below Node's streams: closes the connection when the client ends it, without
 * Node's 'end', which costs more than the rest, for all connections that end in one turn.
 */
export function leaveAtEnd(socket: Socket): void {
  const { _handle: handle } = socket as { _handle?: SocketHandle | null };
  if (!handle) return;
  const read = handle.onread.bind(handle);
  handle.onread = (bytes) => {
    if (bytes === undefined) socket.destroy();
    else read(bytes);
  };
}

/** For HTTP/1.1: what is written reaches a client that has ended its side. */
export function endAfterResponses(socket: Socket): void {
  socket.off('end', leave);
  socket.on('end', endSide);
}

function leave(this: Socket): void {
  this.destroy();
}

function endSide(this: Socket): void {
  this.end();
}
