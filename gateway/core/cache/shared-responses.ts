/**
 * Encoded responses that several clients are due: one change sent to a thousand clients is encoded
 * once, and clients that do not read hold one copy of it together.
 *
 * A shared response has one nonce for all its clients. Nonces count up over the process, so on each
 * stream they rise, and a response that a stream has had already is encoded anew.
 */
import { encodeDeltaAck } from '../../../protos/delta-codec.js';

export interface EncodedResponse {
  readonly bytes: Buffer;
  readonly nonce: string;
  /** The nonce as a number. */
  readonly number: number;
}

/** The contents of a response, as far as they decide whether two responses are equal. */
export interface ResponseParts {
  /** Equal texts and equal `parts` mean equal responses. */
  readonly kind: string;
  /** The encoded resources in order, compared by identity. Only a response with parts is shared. */
  readonly parts: readonly object[];
}

interface Shared extends EncodedResponse {
  readonly kind: string;
  readonly parts: readonly object[];
}

/** The responses of one turn of the fan-out, and the chunks of a large collection in a storm. */
const MAX_SHARED = 256;
const MAX_SHARED_BYTES = 8 * 1_024 * 1_024;

export class SharedResponses {
  #nonces = 0;
  /** By the first part; the oldest first. */
  readonly #shared = new Map<object, Shared>();
  #bytes = 0;
  #latestAck:
    { readonly nonce: string; readonly typeUrl: string; readonly bytes: Buffer } | undefined;

  /**
   * @param lastNumber `number` of the last response of the stream; 0: none
   * @param write encodes the response with this nonce
   */
  encode(
    { kind, parts }: ResponseParts,
    lastNumber: number,
    write: (nonce: string) => Buffer,
  ): EncodedResponse {
    const [first] = parts;
    const known = first && this.#shared.get(first);
    if (known && known.number > lastNumber && known.kind === kind && isSame(known.parts, parts)) {
      return known;
    }
    const number = ++this.#nonces;
    const nonce = String(number);
    const made = { bytes: write(nonce), nonce, number, kind, parts };
    if (first) this.#keep(first, made);
    return made;
  }

  /**
   * Is this request the ACK of a response and nothing else? Clients encode fields in order of their
   * numbers, so the expected bytes are known. An ACK with other bytes is decoded as any request.
   */
  isAckOf(request: Uint8Array, typeUrl: string, nonce: string): boolean {
    let ack = this.#latestAck;
    if (ack?.nonce !== nonce || ack.typeUrl !== typeUrl) {
      ack = { nonce, typeUrl, bytes: encodeDeltaAck(typeUrl, nonce) };
      this.#latestAck = ack;
    }
    return ack.bytes.equals(request);
  }

  #keep(first: object, made: Shared): void {
    this.#drop(first);
    this.#shared.set(first, made);
    this.#bytes += made.bytes.length;
    for (const oldest of this.#shared.keys()) {
      if (this.#shared.size <= MAX_SHARED && this.#bytes <= MAX_SHARED_BYTES) return;
      this.#drop(oldest);
    }
  }

  #drop(first: object): void {
    this.#bytes -= this.#shared.get(first)?.bytes.length ?? 0;
    this.#shared.delete(first);
  }
}

function isSame(one: readonly object[], other: readonly object[]): boolean {
  return one.length === other.length && one.every((part, at) => part === other[at]);
}
