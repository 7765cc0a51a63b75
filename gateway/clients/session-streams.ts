import type { Http2End } from './session-end.js';

/** Node's session keeps its open streams in a Map, in an object under this symbol. */
const STATE = 'state';

interface SessionState {
  streams?: Map<number, Http2End>;
}

let stateSymbol: symbol | undefined;

/**
 * The open streams of a session. Node adds a stream while it handles what it has read, and emits its 'stream' event only when it has
 * handled all of that.
 *
 * The first stream after a time without any gets a new Map. V8 replaces the table of a Map that grows or shrinks, and the table before
 * refers to the next one and to the entries of its time. Those of a session that was idle for long are among V8's old
 * objects. So a burst on it made old objects of all its streams, also closed ones, until a collection of the whole heap:
 * 36,000 of them on 400 connections took 60 to 105 ms of one turn.
 */
class OpenStreams extends Map<number, Http2End> {
  readonly #state: SessionState;
  readonly #onOpened: (stream: Http2End) => void;

  constructor(state: SessionState, onOpened: (stream: Http2End) => void) {
    super();
    this.#state = state;
    this.#onOpened = onOpened;
  }

  override set(id: number, stream: Http2End): this {
    this.#onOpened(stream);
    if (this.size > 0) return super.set(id, stream);
    this.#state.streams = new OpenStreams(this.#state, this.#onOpened).#with(id, stream);
    return this;
  }

  #with(id: number, stream: Http2End): this {
    return super.set(id, stream);
  }
}

/**
 * @param session without streams
 * @param onOpened the client opened a stream: called at once, while Node handles what it has read
 * @returns false: this version of Node keeps the streams elsewhere
 */
export function watchOpened(session: object, onOpened: (stream: Http2End) => void): boolean {
  stateSymbol ??= Object.getOwnPropertySymbols(session).find((key) => key.description === STATE);
  if (!stateSymbol) return false;
  const state = (session as Readonly<Record<symbol, SessionState | undefined>>)[stateSymbol];
  if (!state?.streams) return false;
  state.streams = new OpenStreams(state, onOpened);
  return true;
}
