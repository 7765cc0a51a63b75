/** Node's session keeps its open streams in a Map, in an object under this symbol. */
const STATE = 'state';

interface SessionState {
  streams?: Map<number, unknown>;
}

let stateSymbol: symbol | undefined;

/**
 * Gives a session a new Map for its open streams, to be called while it has few or none. V8 replaces the table of a Map
 * that grows or shrinks, and the table before refers to the next one and to the entries of its time. Those of a
 * session that was idle for long are among V8's old objects. So a burst on it made old objects of all its streams, also closed
 * ones, until a collection of the whole heap: 36,000 of them on 400 connections took 60 to 105 ms of one turn.
 *
 * @returns false: this version of Node keeps the streams elsewhere
 */
export function renewStreams(session: object): boolean {
  stateSymbol ??= Object.getOwnPropertySymbols(session).find((key) => key.description === STATE);
  if (!stateSymbol) return false;
  const state = (session as Readonly<Record<symbol, SessionState | undefined>>)[stateSymbol];
  if (!state?.streams) return false;
  const streams = new Map<number, unknown>();
  // Node's class of this Map has no prototype of Map.
  state.streams.forEach((stream, id) => streams.set(id, stream));
  state.streams = streams;
  return true;
}
