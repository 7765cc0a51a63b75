/**
 * Responses as JSON, for clients of REST. Writing one takes long (150 ms for 1,000 resources of 1 KB), so it is spread
 * over turns of the event loop. The peers take turns. Those of one peer are written one after the other, so that few
 * are half written; clients that are due the same response share its JSON.
 */
import { conversions } from '../../authorities/index.js';
import { sizeOf, wholeOf, type Chunks } from '../../protos/discovery-fields.js';
import { responseToJson, type Converted } from '../../protos/rest-client-json.js';
import type { PeerAccount } from '../core/quotas/quotas.js';
import { LongRequests, type LongRequest } from './long-requests.js';

type OnWritten = (json: Converted<Chunks>) => void;

/** JSON is about so many times as long as the message, and counts before it is written. */
const JSON_FACTOR = 4;

export class JsonResponses {
  readonly #turns = new LongRequests('one_by_one');
  /** As long as the response is kept for other clients. */
  readonly #writings = new WeakMap<Chunks, Writing>();

  /**
   * @param message a `DiscoveryResponse`; clients that are due the same one bring the same object
   * @param account of the client's peer; it counts what is to be written
   * @param onWritten called once, unless the request is cancelled before; must not throw
   * @returns cancels the request: the client is gone
   */
  write(message: Chunks, account: PeerAccount, onWritten: OnWritten): () => void {
    const writing = this.#writings.get(message) ?? new Writing(message, account, this.#turns);
    this.#writings.set(message, writing);
    if (writing.json) {
      onWritten(writing.json);
      return () => undefined;
    }
    const letGo = account.holdShared(message, JSON_FACTOR * sizeOf(message));
    const leave = writing.await((json) => {
      letGo();
      onWritten(json);
    });
    return () => {
      letGo();
      leave();
    };
  }
}

/** The JSON of one response, written or being written. */
class Writing implements LongRequest {
  json: Converted<Chunks> | undefined;
  /** Of the peer that asked first. */
  readonly account: PeerAccount;
  readonly #message: Chunks;
  readonly #turns: LongRequests;
  readonly #waiting = new Set<OnWritten>();
  #steps: ReturnType<typeof responseToJson> | undefined;
  /** Another thread writes a large resource. */
  #isElsewhere = false;
  /** Its JSON. */
  #large: Converted<Uint8Array> | undefined;

  constructor(message: Chunks, account: PeerAccount, turns: LongRequests) {
    this.#message = message;
    this.account = account;
    this.#turns = turns;
  }

  /** @returns the client does not wait any more; without clients the writing stops */
  await(onWritten: OnWritten): () => void {
    this.#waiting.add(onWritten);
    this.#turns.add(this);
    return () => {
      this.#waiting.delete(onWritten);
      if (this.#waiting.size === 0) this.#turns.delete(this);
    };
  }

  /** Writes one more resource. A large one is left to another thread, and the writing goes on when it is there. */
  continueRequest(): void {
    if (this.#isElsewhere) return;
    this.#steps ??= responseToJson(wholeOf(this.#message));
    const { done, value } = this.#steps.next(this.#large);
    this.#large = undefined;
    if (done === true) this.#finish(value);
    else if (value === undefined) this.#turns.add(this);
    else {
      this.#isElsewhere = true;
      conversions.toJson(value, (json) => {
        this.#isElsewhere = false;
        this.#large = json;
        if (this.#waiting.size > 0) this.#turns.add(this);
      });
    }
  }

  /** A failure is not kept: that of the other thread may pass. */
  #finish(json: Converted<Chunks>): void {
    if (json.ok) this.json = json;
    this.#steps = undefined;
    for (const tell of this.#waiting) tell(json);
    this.#waiting.clear();
  }
}
