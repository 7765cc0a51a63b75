/**
 * Encoded responses that several clients are due: one change sent to a thousand clients is encoded
 * once, and clients that do not read hold one copy of it together.
 *
 * A shared response has one nonce for all its clients. Nonces count up over the process, so on each
 * stream they rise, and a response that a stream has had already is encoded anew.
 */
import { encodeDeltaAck } from '../../../protos/delta-codec.js';
import { sizeOf, type Chunks } from '../../../protos/discovery-fields.js';
import { encodeSotwAck, isSotwAck, type SotwAck } from '../../../protos/sotw-codec.js';

export interface EncodedResponse {
  readonly chunks: Chunks;
  /** Of all chunks. Bytes. */
  readonly size: number;
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

/** A state-of-the-world response, as far as its ACK depends on it. */
export interface SotwSent {
  readonly typeUrl: string;
  readonly versionInfo: string;
  readonly nonce: string;
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
  #latestSotwAck: (SotwSent & { readonly ack: SotwAck }) | undefined;
  #latestNames = Buffer.alloc(0);

  /**
   * @param lastNumber `number` of the last response of the stream; 0: none
   * @param write encodes the response with this nonce
   */
  encode(
    { kind, parts }: ResponseParts,
    lastNumber: number,
    write: (nonce: string) => Chunks,
  ): EncodedResponse {
    const [first] = parts;
    const known = first && this.#shared.get(first);
    if (known && known.number > lastNumber && known.kind === kind && isSame(known.parts, parts)) {
      return known;
    }
    const number = ++this.#nonces;
    const nonce = String(number);
    const chunks = write(nonce);
    const made = { chunks, size: sizeOf(chunks), nonce, number, kind, parts };
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

  /**
   * The same for a state-of-the-world client, which repeats all its names.
   *
   * @param names encoded, of the client's last request
   * @param mayHaveNode the client has sent its Node before
   */
  isSotwAckOf(
    request: Uint8Array,
    { typeUrl, versionInfo, nonce }: SotwSent,
    names: Uint8Array,
    mayHaveNode: boolean,
  ): boolean {
    let latest = this.#latestSotwAck;
    const isLatest =
      latest?.nonce === nonce && latest.typeUrl === typeUrl && latest.versionInfo === versionInfo;
    if (!latest || !isLatest) {
      const ack = encodeSotwAck(versionInfo, typeUrl, nonce);
      this.#latestSotwAck = latest = { typeUrl, versionInfo, nonce, ack };
    }
    return isSotwAck(request, latest.ack, names, mayHaveNode);
  }

  /** @returns a copy to keep: the same for clients that come one after another with the same names */
  keepNames(encoded: Uint8Array): Uint8Array {
    if (Buffer.compare(this.#latestNames, encoded) !== 0) {
      this.#latestNames = Buffer.from(encoded);
    }
    return this.#latestNames;
  }

  #keep(first: object, made: Shared): void {
    this.#drop(first);
    this.#shared.set(first, made);
    this.#bytes += made.size;
    for (const oldest of this.#shared.keys()) {
      const isRoom = this.#shared.size <= MAX_SHARED && this.#bytes <= MAX_SHARED_BYTES;
      // One of any size is kept until the next: the clients of a fan-out are due it one after the other.
      if (isRoom || oldest === first) break;
      this.#drop(oldest);
    }
  }

  #drop(first: object): void {
    this.#bytes -= this.#shared.get(first)?.size ?? 0;
    this.#shared.delete(first);
  }
}

function isSame(one: readonly object[], other: readonly object[]): boolean {
  return one.length === other.length && one.every((part, at) => part === other[at]);
}
