/**
 * Frees the native parts of closed HTTP/2 sessions in portions. Node frees a part, some 25 KB, when V8 finds that nothing
 * refers to it any more, and V8 finds all of them in one turn, at the end of a collection of the whole heap: 3,000
 * clients that had left took 20 to 45 ms of it.
 */
import { watchFullCollections } from './full-collections.js';

/** Parts that one collection frees, or this share of those that wait if it is more. A count; a share of 1. */
const PORTION = 500;
const SHARE = 1 / 4;

export interface ClosedSessionsOptions {
  /** Connections that are open now. A count. */
  readonly open: () => number;
  /** Calls its argument after each collection of the whole heap; returns an end of the calls. */
  readonly watch?: typeof watchFullCollections;
}

/** The native part of a session. */
export type NativePart = object;

/** Node's session keeps its native part under a symbol, until it is closed. */
const NATIVE = 'kHandle';

/**
 * @param session of Node's HTTP/2
 * @returns undefined: the session is closed, or this version of Node keeps the part elsewhere
 */
export function nativePartOf(session: object): NativePart | undefined {
  const symbol = Object.getOwnPropertySymbols(session).find((key) => key.description === NATIVE);
  return symbol && (session as Readonly<Record<symbol, NativePart | undefined>>)[symbol];
}

export class ClosedSessions {
  readonly #open: () => number;
  #waiting: NativePart[] = [];
  /** Parts that the next collection may still free. A count. */
  #room = PORTION;
  /**
   * Parts that may wait: as many as there were open sessions at the last collection. So a client that connects again and
   * again costs no more memory than before. A count.
   */
  #mostWaiting = 0;
  readonly #stopWatching: () => void;

  constructor({ open, watch = watchFullCollections }: ClosedSessionsOptions) {
    this.#open = open;
    this.#stopWatching = watch(() => {
      this.#noteCollected();
    });
  }

  /** Parts that wait for a later collection than the next. A count. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** @param part of a session that has closed */
  add(part: NativePart): void {
    if (this.#room > 0) this.#room--;
    else if (this.#waiting.length < this.#mostWaiting) this.#waiting.push(part);
  }

  /** Lets all parts go, also those that follow. */
  close(): void {
    this.#stopWatching();
    this.#waiting = [];
    this.#mostWaiting = 0;
  }

  #noteCollected(): void {
    const portion = Math.max(PORTION, Math.ceil(this.#waiting.length * SHARE));
    this.#room = portion - this.#waiting.splice(0, portion).length;
    this.#mostWaiting = this.#open();
  }
}
