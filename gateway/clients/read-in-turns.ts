/**
 * Reads the connections of clients in turns (`authorities/turns.ts`). In one turn of the event loop Node reads up to 2 MB of
 * each connection that has data, and handles all frames in it: 400 connections that sent 64 KB of small frames each kept
 * the loop for up to 700 ms.
 */
import type { Socket } from 'node:net';

/** How long one turn reads before the rest waits for the next turns. Milliseconds. */
const READ_MS = 8;

/** Events between two looks at the clock. An event costs some microseconds, the clock a tenth of one. A count. */
const EVENTS_PER_LOOK = 16;

/** Streams that wait to be opened before no more are read: each takes some 5 KB and 50 µs. A count. */
const MAX_UNOPENED = 1_000;

/** A connection with more events in one turn waits for those with fewer, until it has few again. A count. */
const FEW_EVENTS = 64;

/**
 * A body in parts of a few bytes (CVE-2019-9511, "Data Dribble"): Node makes an event of each, so 64 KB of them kept the event loop
 * for up to 90 ms. One turn takes this many, and more only if they are longer on average. The shortest message of gRPC is one
 * part of 5 bytes. A count, and bytes.
 */
const MANY_PARTS = 500;
const FEW_BYTES = 4;

/** So many connections go on in the first turn after a pause, and twice as many in each turn after it. A count. */
const FIRST_BATCH = 16;

/** The part of Node's socket below its public interface. Node reads HTTP in native code, so `pause` has no effect. */
interface SocketHandle {
  readStart(): number;
  readStop(): number;
}

/** The reading of one connection. */
export class ConnectionReading {
  readonly #socket: Socket;
  readonly #all: ReadInTurns;
  /** The last one that read it. */
  #turn = 0;
  /** In that turn. A count. */
  #events = 0;
  /** The turn of the last part of a body, and the parts in it. */
  #partsTurn = 0;
  #parts = 0;
  #partBytes = 0;
  /** The turn that handles what came with the beginning of the connection: its events are no sign of reading. */
  readonly #firstTurn: number | undefined;

  constructor(socket: Socket, all: ReadInTurns) {
    this.#socket = socket;
    this.#all = all;
    this.#firstTurn = socket.readableLength > 0 ? all.turn : undefined;
  }

  /** The client's bytes caused an event: a stream, its end, a part of a message, a control frame or an error. */
  noteEvent(): void {
    const { turn } = this.#all;
    if (turn === this.#firstTurn) return;
    if (this.#turn !== turn) this.#events = 0;
    this.#turn = turn;
    this.#events++;
    this.#all.noteEvent();
  }

  /**
   * A part of a body arrived, which is an event, too.
   *
   * @returns whether the client sends a body in parts of a few bytes: it is to be cut off
   */
  notePart(bytes: number): boolean {
    const { turn } = this.#all;
    if (this.#partsTurn !== turn) {
      this.#partsTurn = turn;
      this.#parts = 0;
      this.#partBytes = 0;
    }
    this.#parts++;
    this.#partBytes += bytes;
    this.noteEvent();
    return this.#parts > MANY_PARTS && this.#partBytes < this.#parts * FEW_BYTES;
  }

  /** A stream waits for its turn to be opened. */
  noteUnopened(): void {
    this.#all.unopened++;
  }

  noteOpened(): void {
    this.#all.unopened--;
  }

  /** Whether the present turn has read it. */
  get isRead(): boolean {
    return this.#turn === this.#all.turn;
  }

  /** Whether the last turn that read it had many events of it. */
  get hadMany(): boolean {
    return this.#events > FEW_EVENTS;
  }

  pause(): void {
    this.#handle?.readStop();
  }

  goOn(): void {
    if (!this.#socket.destroyed) this.#handle?.readStart();
  }

  /** The connection is closed, or is not to be read any more. */
  end(): void {
    this.#all.forget(this);
  }

  get #handle(): SocketHandle | null | undefined {
    return (this.#socket as { _handle?: SocketHandle | null })._handle;
  }
}

/**
 * While one turn reads for too long, or too many streams wait to be opened, all connections stop being read, also those
 * that the turn has not come to. They go on in the order in which they stopped, those with many events one in each turn.
 * What is not read waits in the kernel, which slows its client down.
 *
 * Node itself stops reading a connection while a write to it is under way, and reads on afterwards. So a connection may
 * be read too early, by Node or by this class: then this turn is longer, or a client that does not read is read
 * further, within the bounds on what it may cause.
 */
export class ReadInTurns {
  readonly #reading = new Set<ConnectionReading>();
  #waiting = new Set<ConnectionReading>();
  readonly #waitingWithMany = new Set<ConnectionReading>();
  /** Those that went on before the present turn. */
  #resumed: ConnectionReading[] = [];
  #events = 0;
  /** When the present turn began to read, if it has been long enough to look at the clock. */
  #beganMs: number | undefined;
  #batch = FIRST_BATCH;
  #isScheduled = false;
  /** Counts the turns that are long enough to matter. */
  turn = 1;
  /** Streams that wait to be opened. A count. */
  unopened = 0;

  add(socket: Socket): ConnectionReading {
    const connection = new ConnectionReading(socket, this);
    this.#reading.add(connection);
    this.#schedule();
    return connection;
  }

  forget(connection: ConnectionReading): void {
    this.#reading.delete(connection);
    this.#waiting.delete(connection);
    this.#waitingWithMany.delete(connection);
  }

  /** No further connection is to begin: too many streams wait to be opened. */
  get isBehind(): boolean {
    return this.unopened > MAX_UNOPENED;
  }

  noteEvent(): void {
    if (++this.#events < EVENTS_PER_LOOK) return;
    this.#events = 0;
    if (this.#beganMs === undefined) {
      this.#beganMs = performance.now();
      this.#schedule();
    }
    if (this.isBehind || performance.now() - this.#beganMs >= READ_MS) this.#pause();
  }

  #pause(): void {
    if (this.#reading.size === 0) return;
    // The turn has not come to some: they keep their place.
    const first = this.#resumed.filter(
      (connection) => !connection.isRead && !connection.hadMany && this.#reading.has(connection),
    );
    this.#waiting = new Set([...first, ...this.#waiting]);
    for (const connection of this.#reading) {
      connection.pause();
      (connection.hadMany ? this.#waitingWithMany : this.#waiting).add(connection);
    }
    this.#reading.clear();
    this.#batch = FIRST_BATCH;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(this.#beginTurn);
  }

  readonly #beginTurn = (): void => {
    this.#isScheduled = false;
    this.#beganMs = undefined;
    this.turn++;
    this.#resumed = [];
    if (this.#waiting.size + this.#waitingWithMany.size === 0) return;
    if (!this.isBehind) {
      this.#goOn(this.#waiting, this.#batch);
      this.#goOn(this.#waitingWithMany, 1);
      this.#batch *= 2;
    }
    this.#schedule();
  };

  #goOn(waiting: Set<ConnectionReading>, count: number): void {
    let left = count;
    for (const connection of waiting) {
      if (left-- === 0) return;
      waiting.delete(connection);
      this.#reading.add(connection);
      this.#resumed.push(connection);
      connection.goOn();
    }
  }
}
