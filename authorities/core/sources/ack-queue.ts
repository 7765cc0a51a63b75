/** ACKs and NACKs that wait to be written to a source, in order, and how much memory they need. */
import type { RpcStatus } from '../../../protos/discovery.js';
import { Fifo } from './fifo.js';

export interface Acknowledgement {
  readonly typeUrl: string;
  /** The nonce of the response. */
  readonly responseNonce: string;
  /** Undefined: an ACK. */
  readonly errorDetail: RpcStatus | undefined;
}

/** The memory of an ACK beside its texts. Bytes. */
const ACK_COST_BYTES = 128;

export class AckQueue<Ack extends Acknowledgement> {
  readonly #queue = new Fifo<Ack>();
  #size = 0;
  #bytes = 0;

  /** A count. */
  get size(): number {
    return this.#size;
  }

  /** The memory that the queue needs, about. */
  get bytes(): number {
    return this.#bytes;
  }

  push(ack: Ack): void {
    this.#size++;
    this.#bytes += bytesOf(ack);
    this.#queue.push(ack);
  }

  shift(): Ack | undefined {
    const ack = this.#queue.shift();
    if (!ack) return undefined;
    this.#size--;
    this.#bytes -= bytesOf(ack);
    return ack;
  }

  clear(): void {
    this.#queue.clear();
    this.#size = 0;
    this.#bytes = 0;
  }
}

const bytesOf = ({ responseNonce, errorDetail }: Acknowledgement): number =>
  ACK_COST_BYTES + responseNonce.length + (errorDetail?.message.length ?? 0);
