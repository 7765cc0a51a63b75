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

/**
 * Pieces of work that wait for their turn before nothing more is read: streams to open, polls to read. Each takes some 5 KB,
 * and 50 µs of a turn. With 1,000 they waited for longer than V8 takes to fill its young generation, so it moved all
 * of them among the old objects, and freed 20,000 dead ones in one turn. A count.
 */
const MAX_WAITING = 200;

/** A connection with more events in one turn waits for the others, until it has few again. A count. */
const FEW_EVENTS = 64;

/**
 * A connection that waits. `few`, `many`: events that it had in its last turn. `unread`: it has had no turn since the first
 * pause.
 */
const KINDS = ['few', 'unread', 'many'] as const;
type Kind = (typeof KINDS)[number];

/**
 * So many go on in the first turn of their kind. After a turn that had time for all of them it is twice as many, but of those
 * with many events always one. Counts.
 */
const FIRST_BATCH: Readonly<Record<Kind, number>> = { few: 64, unread: 16, many: 1 };

/** To let a connection go on, and to stop it again, takes a microsecond. A count. */
const MAX_BATCH = 1_024;

/**
 * A body in parts of a few bytes (CVE-2019-9511, "Data Dribble"): Node makes an event of each, so 64 KB of them kept the event loop
 * for up to 90 ms. One turn takes this many, and more only if they are longer on average. The shortest message of gRPC is one
 * part of 5 bytes. A count, and bytes.
 */
const MANY_PARTS = 500;
const FEW_BYTES = 4;

/** The part of Node's socket below its public interface. Node reads HTTP in native code, so `pause` has no effect. */
interface SocketHandle {
  /** Whether Node wants data. False while the socket has enough unread. */
  readonly reading?: boolean;
  readStart(): number;
  readStop(): number;
}

/** The reading of one connection. */
export class ConnectionReading {
  readonly #socket: Socket;
  readonly #all: ReadInTurns;
  /** The last turn that read this connection. */
  #turn = 0;
  /** Events in that turn. A count. */
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
    if (this.#all.turn === this.#firstTurn) return;
    this.noteTurn();
    if (++this.#events === FEW_EVENTS + 1) this.#all.noteMany(this);
    this.#all.noteEvent();
  }

  /** The present turn reads it, or would if there was something to read. */
  noteTurn(): void {
    const { turn } = this.#all;
    if (this.#turn !== turn) this.#events = 0;
    this.#turn = turn;
  }

  /** Of the last turn that read it. A count. */
  get events(): number {
    return this.#events;
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

  /**
   * A stream or a request of the connection begins to wait for its turn.
   *
   * @returns call it when its turn has come, or will not come; a second call does nothing
   */
  wait(): () => void {
    this.#all.awaitingTurn++;
    let isWaiting = true;
    return () => {
      if (isWaiting) this.#all.awaitingTurn--;
      isWaiting = false;
    };
  }

  /** Whether the present turn has read it. */
  get isRead(): boolean {
    return this.#turn === this.#all.turn;
  }

  /** @param sinceTurn the turn of the first pause */
  kind(sinceTurn: number): Kind {
    if (this.#events > FEW_EVENTS) return 'many';
    return this.#turn >= sinceTurn ? 'few' : 'unread';
  }

  pause(): void {
    this.#handle?.readStop();
  }

  goOn(): void {
    // Node starts what it has stopped itself, and closes a connection that was started before (EALREADY).
    if (!this.#socket.destroyed && this.#handle?.reading !== false) this.#handle?.readStart();
  }

  /** The connection is closed, or is not to be read any more. */
  end(): void {
    this.#all.forget(this);
  }

  /** It is cut off. To end it takes about as long as what was read of it, so the others wait. */
  cutOff(): void {
    this.#all.forget(this);
    this.#all.pause();
  }

  get #handle(): SocketHandle | null | undefined {
    return (this.#socket as { _handle?: SocketHandle | null })._handle;
  }
}

/** The connections of one kind that wait, the next one first. */
class Waiting {
  readonly kind: Kind;
  #connections = new Set<ConnectionReading>();
  #batch: number;

  constructor(kind: Kind) {
    this.kind = kind;
    this.#batch = FIRST_BATCH[kind];
  }

  get isEmpty(): boolean {
    return this.#connections.size === 0;
  }

  add(connection: ConnectionReading): void {
    this.#connections.add(connection);
  }

  /** @param connections go before those that wait already */
  addFirst(connections: readonly ConnectionReading[]): void {
    if (connections.length > 0) this.#connections = new Set([...connections, ...this.#connections]);
  }

  /** @returns whether it waited here */
  delete(connection: ConnectionReading): boolean {
    return this.#connections.delete(connection);
  }

  takeBatch(): ConnectionReading[] {
    const batch: ConnectionReading[] = [];
    for (const connection of this.#connections) {
      if (batch.length === this.#batch) break;
      batch.push(connection);
    }
    for (const connection of batch) this.#connections.delete(connection);
    return batch;
  }

  /** @param hadTime the last batch did not fill its turn */
  resize(hadTime: boolean): void {
    if (!hadTime) this.#batch = FIRST_BATCH[this.kind];
    else if (this.kind !== 'many') this.#batch = Math.min(this.#batch * 2, MAX_BATCH);
  }
}

/**
 * While one turn reads for too long, or too much work waits for its turn, all connections stop being read, also those
 * that the turn has not come to. They go on in the order in which they stopped, each kind by itself: those that send little do not
 * wait for all that have not been read yet. What is not read waits in the kernel, which slows its client down.
 *
 * Node itself stops reading a connection while a write to it is under way, and reads on afterwards. So a connection may
 * be read too early, by Node or by this class: then this turn is longer, or a client that does not read is read
 * further, within the bounds on what it may cause.
 */
export class ReadInTurns {
  readonly #reading = new Set<ConnectionReading>();
  readonly #waiting: Readonly<Record<Kind, Waiting>> = {
    few: new Waiting('few'),
    unread: new Waiting('unread'),
    many: new Waiting('many'),
  };
  /** The turn of the first pause, of those after which connections still wait. */
  #pausedTurn = 0;
  /** Those that went on before the present turn, all of one kind. */
  #resumed:
    { readonly queue: Waiting; readonly connections: readonly ConnectionReading[] } | undefined;
  /**
   * In each turn connections of one kind go on, the next in this order. Node reads in the order of the kernel, not in that of their
   * going on: beside others that send much, those that send little would be stopped before Node comes to them, again and again.
   */
  readonly #order: Waiting[] = [
    this.#waiting.few,
    this.#waiting.unread,
    this.#waiting.few,
    this.#waiting.many,
  ];
  #events = 0;
  /** When the present turn began to read, if it has been long enough to look at the clock. */
  #beganMs: number | undefined;
  #isScheduled = false;
  /** Counts the turns that are long enough to matter. */
  turn = 1;
  /** Streams and requests that wait for their turn. A count. */
  awaitingTurn = 0;

  add(socket: Socket): ConnectionReading {
    const connection = new ConnectionReading(socket, this);
    this.#reading.add(connection);
    this.#schedule();
    return connection;
  }

  forget(connection: ConnectionReading): void {
    this.#reading.delete(connection);
    for (const kind of KINDS) this.#waiting[kind].delete(connection);
  }

  /** No further connection is to begin: too much work waits for its turn. */
  get isBehind(): boolean {
    return this.awaitingTurn > MAX_WAITING;
  }

  /** It had many events in this turn. If it waits already, Node had read these before it stopped. */
  noteMany(connection: ConnectionReading): void {
    const { few, unread, many } = this.#waiting;
    if (few.delete(connection) || unread.delete(connection)) many.add(connection);
  }

  noteEvent(): void {
    if (++this.#events < EVENTS_PER_LOOK) return;
    this.#events = 0;
    if (this.#beganMs === undefined) {
      this.#beganMs = performance.now();
      this.#schedule();
    }
    if (this.isBehind || performance.now() - this.#beganMs >= READ_MS) this.pause();
  }

  /** No connection is read further in this turn. */
  pause(): void {
    if (this.#reading.size === 0) return;
    if (!this.#resumed && this.#noneWaits) this.#pausedTurn = this.turn;
    this.#keepPlaces();
    for (const connection of this.#reading) {
      connection.pause();
      this.#waiting[connection.kind(this.#pausedTurn)].add(connection);
    }
    this.#reading.clear();
    this.#schedule();
  }

  /** The turn may not have come to those that it has not read. */
  #keepPlaces(): void {
    if (!this.#resumed) return;
    const { queue, connections } = this.#resumed;
    this.#resumed = undefined;
    queue.resize(false);
    const left = connections.filter((one) => !one.isRead && this.#reading.delete(one));
    for (const connection of left) connection.pause();
    queue.addFirst(left);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(this.#beginTurn);
  }

  readonly #beginTurn = (): void => {
    this.#isScheduled = false;
    this.#beganMs = undefined;
    this.#endTurn();
    this.turn++;
    if (this.#noneWaits) return;
    if (!this.isBehind) this.#goOn();
    this.#schedule();
  };

  /** There was time for all that went on, also for those without anything to read. */
  #endTurn(): void {
    if (!this.#resumed) return;
    const { queue, connections } = this.#resumed;
    this.#resumed = undefined;
    queue.resize(true);
    for (const connection of connections) if (this.#reading.has(connection)) connection.noteTurn();
  }

  get #noneWaits(): boolean {
    return KINDS.every((kind) => this.#waiting[kind].isEmpty);
  }

  #goOn(): void {
    const next = this.#order.findIndex((kind) => !kind.isEmpty);
    this.#order.push(...this.#order.splice(0, next + 1));
    const queue = this.#order.at(-1);
    if (!queue) return;
    const connections = queue.takeBatch();
    this.#resumed = { queue, connections };
    for (const connection of connections) {
      this.#reading.add(connection);
      connection.goOn();
    }
  }
}
