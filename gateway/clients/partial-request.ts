/**
 * A request that has not arrived completely. Its client has to send the rest in time. A long request counts for the peer of
 * its client. While that peer has used up its share of all buffered bytes, the gateway reads no more of the request.
 */
import { STATUS_CODE, type RpcStatus } from '../../protos/discovery.js';
import { LONG_REQUEST_BYTES, type PeerAccount } from '../core/quotas/quotas.js';

/** From the first part to the last. Milliseconds. */
const WHOLE_WITHIN_MS = 10_000;

/** While the peer has used up its share, the request looks for room again after this time. Milliseconds. */
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
  #letGo: (() => void) | undefined;
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
    this.#letGo?.();
    if (this.#isWaiting) this.#call.readOn();
  }

  #count(): void {
    const { account } = this.#call;
    const isFull = account.exhaustedScope('buffered') !== undefined;
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
    this.#letGo = account.holdRequest(this.length);
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
