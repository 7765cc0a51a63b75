/**
 * Responses as JSON, for clients of REST. Writing one takes long (150 ms for 1,000 resources of 1 KB), so it is spread
 * over turns of the event loop. The peers take turns. Those of one peer are written one after the other, so that few
 * are half written; clients that are due the same response share its JSON.
 */
import { sizeOf, wholeOf, type Chunks } from '../../protos/discovery-fields.js';
import { responseToJson, type Converted } from '../../protos/discovery-json.js';
import type { PeerAccount } from '../core/quotas/quotas.js';
import { LongRequests, type LongRequest } from './long-requests.js';

type OnWritten = (json: Converted<Chunks>) => void;

/** JSON is about so many times as long as the message, and counts before it is written. */
const JSON_FACTOR = 4;

export class JsonResponses {
  readonly #turns = new LongRequests();
  readonly #queues = new Map<PeerAccount, Queue>();
  /** As long as the response is kept for other clients. */
  readonly #writings = new WeakMap<Chunks, Writing>();

  /**
   * @param message a `DiscoveryResponse`; clients that are due the same one bring the same object
   * @param account of the client's peer; it counts what is to be written
   * @param onWritten called once, unless the request is cancelled before; must not throw
   * @returns cancels the request: the client is gone
   */
  write(message: Chunks, account: PeerAccount, onWritten: OnWritten): () => void {
    const writing = this.#writings.get(message) ?? new Writing(message);
    this.#writings.set(message, writing);
    if (writing.json) {
      onWritten(writing.json);
      return () => undefined;
    }
    const letGo = account.holdUnread(message, JSON_FACTOR * sizeOf(message));
    const waiting = (json: Converted<Chunks>): void => {
      letGo();
      onWritten(json);
    };
    writing.waiting.add(waiting);
    this.#queueOf(account).add(writing);
    return () => {
      letGo();
      writing.waiting.delete(waiting);
    };
  }

  #queueOf(account: PeerAccount): Queue {
    const known = this.#queues.get(account);
    if (known) return known;
    const queue = new Queue(account, this.#turns, () => this.#queues.delete(account));
    this.#queues.set(account, queue);
    return queue;
  }
}

/** What one peer waits for; the first one is being written. */
class Queue implements LongRequest {
  readonly account: PeerAccount;
  readonly #turns: LongRequests;
  readonly #onEmpty: () => void;
  readonly #writings = new Set<Writing>();

  constructor(account: PeerAccount, turns: LongRequests, onEmpty: () => void) {
    this.account = account;
    this.#turns = turns;
    this.#onEmpty = onEmpty;
  }

  add(writing: Writing): void {
    this.#writings.add(writing);
    this.#turns.add(this);
  }

  continueRequest(): void {
    const [first] = this.#writings;
    if (first?.step() === true) this.#writings.delete(first);
    if (this.#writings.size > 0) this.#turns.add(this);
    else this.#onEmpty();
  }
}

/** The JSON of one response, written or being written. */
class Writing {
  json: Converted<Chunks> | undefined;
  readonly waiting = new Set<OnWritten>();
  readonly #message: Chunks;
  #steps: ReturnType<typeof responseToJson> | undefined;

  constructor(message: Chunks) {
    this.#message = message;
  }

  /** Writes one more resource, unless nobody waits for it. @returns whether the writing is over for now */
  step(): boolean {
    if (this.waiting.size === 0) return true;
    this.#steps ??= responseToJson(wholeOf(this.#message));
    const { done, value } = this.#steps.next();
    if (done !== true) return false;
    this.json = value;
    this.#steps = undefined;
    for (const tell of this.waiting) tell(value);
    this.waiting.clear();
    return true;
  }
}
