/**
 * Goes on with requests that have more names than a session handles in one step, and with JSON, a few milliseconds in each
 * turn of the event loop. The peers take turns, and so do the streams of each peer.
 */
import { PORTION_MS } from '../../authorities/index.js';

/** A stream with such a request. */
export interface LongRequest {
  /** The account of the client's peer; undefined: streams without accounts are one peer. */
  readonly account: object | undefined;
  /** Handles the next portion, and adds the stream again if more is left. Must not throw. */
  continueRequest(): void;
}

export class LongRequests {
  /** By peer; the next one first. */
  readonly #waiting = new Map<object | undefined, Set<LongRequest>>();
  readonly #inNextTurn: (work: () => void) => void;
  #isScheduled = false;

  /** @param inNextTurn runs the work in a later turn of the event loop; default: `setImmediate` */
  constructor(inNextTurn: (work: () => void) => void = setImmediate) {
    this.#inNextTurn = inNextTurn;
  }

  /** A portion of the stream's request is left. */
  add(stream: LongRequest): void {
    const ofPeer = this.#waiting.get(stream.account);
    if (ofPeer) ofPeer.add(stream);
    else this.#waiting.set(stream.account, new Set([stream]));
    this.#schedule();
  }

  /** The stream is over. */
  delete(stream: LongRequest): void {
    const ofPeer = this.#waiting.get(stream.account);
    if (ofPeer?.delete(stream) === true && ofPeer.size === 0) this.#waiting.delete(stream.account);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#inNextTurn(() => {
      this.#turn();
    });
  }

  #turn(): void {
    const untilMs = performance.now() + PORTION_MS;
    do this.#takeNext()?.continueRequest();
    while (this.#waiting.size > 0 && performance.now() < untilMs);
    this.#isScheduled = false;
    if (this.#waiting.size > 0) this.#schedule();
  }

  #takeNext(): LongRequest | undefined {
    for (const [account, ofPeer] of this.#waiting) {
      // The next turn is another peer's.
      this.#waiting.delete(account);
      for (const stream of ofPeer) {
        ofPeer.delete(stream);
        if (ofPeer.size > 0) this.#waiting.set(account, ofPeer);
        return stream;
      }
    }
    return undefined;
  }
}
