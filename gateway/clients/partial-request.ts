/**
 * A request of which a part has come. It has to come whole in time; a long one counts for the peer of its client, and
 * while that peer has its share of all buffered bytes, the gateway reads no more of it.
 */
import { STATUS_CODE, type RpcStatus } from '../../protos/discovery.js';
import type { PeerAccount } from '../core/quotas/quotas.js';

/** From the first part to the last. Milliseconds. */
const WHOLE_WITHIN_MS = 10_000;

/** A shorter request does not count, as little as what waits for one client (`limits.write_ahead`). Bytes. */
export const LONG_REQUEST_BYTES = 65_536;

/** While the peer has its share, the request looks for room again after this time. Milliseconds. */
const ROOM_CHECK_MS = 100;

const TOO_SLOW: RpcStatus = {
  code: STATUS_CODE.deadlineExceeded,
  message: 'the client did not send the rest of a message in time',
};

/** The call that the request comes on. */
export interface PartialCall {
  readonly account: PeerAccount;
  /** The gateway does not read the client at present. */
  isPaused(): boolean;
  pauseReading(): void;
  readOn(): void;
  /** Ends the call. */
  onTooSlow(status: RpcStatus): void;
}

export class PartialRequest {
  /** The length that the request announced. Bytes. */
  readonly length: number;
  readonly #call: PartialCall;
  #countedBytes = 0;
  #isWaiting = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(call: PartialCall, length: number) {
    this.#call = call;
    this.length = length;
    if (length < LONG_REQUEST_BYTES) this.#startDeadline();
    else this.#count();
  }

  /** The request is whole, or the call is over. */
  end(): void {
    clearTimeout(this.#timer);
    this.#call.account.change('buffered', -this.#countedBytes);
    if (this.#isWaiting) this.#call.readOn();
  }

  #count(): void {
    const { account } = this.#call;
    const isFull = account.refusal('buffered') !== undefined;
    if (isFull !== this.#isWaiting) {
      this.#isWaiting = isFull;
      if (isFull) this.#call.pauseReading();
      else this.#call.readOn();
    }
    if (isFull) {
      this.#timer = setTimeout(() => {
        this.#count();
      }, ROOM_CHECK_MS).unref();
      return;
    }
    this.#countedBytes = this.length;
    account.change('buffered', this.length);
    this.#startDeadline();
  }

  #startDeadline(): void {
    this.#timer = setTimeout(() => {
      // The gateway may have let the client wait: for its share of requests, or for an earlier request.
      if (this.#call.isPaused()) this.#startDeadline();
      else this.#call.onTooSlow(TOO_SLOW);
    }, WHOLE_WITHIN_MS).unref();
  }
}
