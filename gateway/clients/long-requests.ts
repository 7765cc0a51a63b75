/**
 * Goes on with requests that take longer than one step may (many names, loads of many clusters, JSON), `PORTION_MS`
 * in each turn of the event loop. The peers take turns.
 */
import { PORTION_MS } from '../../authorities/index.js';

/** A stream with such a request. */
export interface LongRequest {
  /** The account of the client's peer; undefined: streams without accounts are one peer. */
  readonly account: object | undefined;
  /** Handles the next portion, and adds the stream again if more is left. Must not throw. */
  continueRequest(): void;
}

/**
 * `in_turns`: the streams of a peer take turns, so that short requests do not wait for long ones. `one_by_one`: a peer's request
 * is finished before its next one, where half-read requests take much memory.
 */
export type Order = 'in_turns' | 'one_by_one';

export class LongRequests {
  /** By peer; the next one first. */
  readonly #waiting = new Map<object | undefined, Set<LongRequest>>();
  /** By peer, the stream that goes on before the others; empty if they take turns. */
  readonly #begun = new Map<object | undefined, LongRequest>();
  readonly #order: Order;
  readonly #inNextTurn: (work: () => void) => void;
  #isScheduled = false;

  /** @param inNextTurn runs the work in a later turn of the event loop; default: `setImmediate` */
  constructor(order: Order, inNextTurn: (work: () => void) => void = setImmediate) {
    this.#order = order;
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
    if (this.#begun.get(stream.account) === stream) this.#begun.delete(stream.account);
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
    do this.#goOnWithNext();
    while (this.#waiting.size > 0 && performance.now() < untilMs);
    this.#isScheduled = false;
    if (this.#waiting.size > 0) this.#schedule();
  }

  #goOnWithNext(): void {
    const [next] = this.#waiting;
    if (!next) return;
    const [account, ofPeer] = next;
    // The next turn is another peer's.
    this.#waiting.delete(account);
    const [first] = ofPeer;
    const stream = this.#begun.get(account) ?? first;
    if (!stream) return;
    ofPeer.delete(stream);
    if (ofPeer.size > 0) this.#waiting.set(account, ofPeer);
    stream.continueRequest();
    const isLeft = this.#waiting.get(account)?.has(stream) === true;
    if (isLeft && this.#order === 'one_by_one') this.#begun.set(account, stream);
    else this.#begun.delete(account);
  }
}
