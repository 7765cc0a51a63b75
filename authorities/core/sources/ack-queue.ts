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

interface LastNack {
  readonly reason: string;
  readonly sentMs: number;
}

/** NACKs of one type with the same reason, in order: all of its unanswered responses. */
interface PacedNacks<Ack> {
  readonly acks: Ack[];
  readonly reason: string;
  readonly dueMs: number;
}

/** The memory of an ACK beside its texts. Bytes. */
const ACK_COST_BYTES = 128;
/**
 * Some sources send what was refused again at once (Quilkin): each NACK would cause the next, thousands in a second. So a NACK with
 * the reason of the last one of its type comes this long after that one, with those that came meanwhile.
 */
const REPEATED_NACK_MS = 1_000;

export class AckQueue<Ack extends Acknowledgement> {
  readonly #queue = new Fifo<Ack>();
  /** By type, since its last ACK. */
  readonly #lastNacks = new Map<string, LastNack>();
  /** By type. They wait no longer than until another answer of the type. */
  readonly #paced = new Map<string, PacedNacks<Ack>>();
  #size = 0;
  #bytes = 0;
  /** The last request was an ACK or a NACK. */
  #wasAck = false;

  /** How many can be written now. A count. */
  get size(): number {
    return this.#size;
  }

  /** The memory that the queue needs, about. */
  get bytes(): number {
    return this.#bytes;
  }

  /** When the next NACK that was delayed is due. */
  get nextMs(): number {
    if (this.#paced.size === 0) return Infinity;
    return Math.min(...Array.from(this.#paced.values(), ({ dueMs }) => dueMs));
  }

  push(ack: Ack, nowMs: number): void {
    const { typeUrl, errorDetail } = ack;
    this.#bytes += bytesOf(ack);
    const reason = errorDetail?.message;
    const paced = this.#paced.get(typeUrl);
    if (paced && paced.reason === reason) {
      paced.acks.push(ack);
      return;
    }
    this.release(typeUrl, nowMs);
    const last = this.#lastNacks.get(typeUrl);
    if (reason === undefined) this.#lastNacks.delete(typeUrl);
    else if (last?.reason === reason && nowMs < last.sentMs + REPEATED_NACK_MS) {
      this.#paced.set(typeUrl, { acks: [ack], reason, dueMs: last.sentMs + REPEATED_NACK_MS });
      return;
    } else this.#lastNacks.set(typeUrl, { reason, sentMs: nowMs });
    this.#add(ack);
  }

  #add(ack: Ack): void {
    this.#size++;
    this.#queue.push(ack);
  }

  /** The delayed NACKs of a type may be written now: another request of the type follows, and would be taken for their ACK. */
  release(typeUrl: string, nowMs: number): void {
    const paced = this.#paced.get(typeUrl);
    if (!paced) return;
    this.#paced.delete(typeUrl);
    this.#lastNacks.set(typeUrl, { reason: paced.reason, sentMs: nowMs });
    for (const ack of paced.acks) this.#add(ack);
  }

  /** Those that were delayed long enough may be written now. */
  handleTimer(nowMs: number): void {
    for (const [typeUrl, { dueMs }] of this.#paced)
      if (nowMs >= dueMs) this.release(typeUrl, nowMs);
  }

  /**
   * The next request: ACKs first, but one at a time while changes wait. Under `rate_limit_settings`, ACKs alone may use all
   * tokens.
   *
   * @param change the request for the next change; undefined: no change waits
   */
  next<Request>(
    nowMs: number,
    change: () => Request | undefined,
    requestFor: (ack: Ack) => Request,
  ): Request | undefined {
    const first = this.#wasAck ? change() : undefined;
    const ack = first ? undefined : this.shift(nowMs);
    this.#wasAck = ack !== undefined;
    return first ?? (ack ? requestFor(ack) : change());
  }

  shift(nowMs: number): Ack | undefined {
    this.handleTimer(nowMs);
    const ack = this.#queue.shift();
    if (!ack) return undefined;
    this.#size--;
    this.#bytes -= bytesOf(ack);
    return ack;
  }

  clear(): void {
    this.#queue.clear();
    this.#lastNacks.clear();
    this.#paced.clear();
    this.#size = 0;
    this.#bytes = 0;
    this.#wasAck = false;
  }
}

const bytesOf = ({ responseNonce, errorDetail }: Acknowledgement): number =>
  ACK_COST_BYTES + responseNonce.length + (errorDetail?.message.length ?? 0);
