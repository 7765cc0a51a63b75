/**
 * A large response of a source is taken in portions, so that no response keeps the event loop for long. What comes from
 * the same source meanwhile waits (`ManagementServer`); other sources and all clients go on.
 */
import type { Decoded } from '../../../protos/discovery.js';
import type { InPortions, ReceivedResponse } from './source-stream.js';

/** The cost of one entry of a response beside its bytes, as if it were so many bytes more. */
export const ENTRY_COST_BYTES = 1_024;
/** Some milliseconds. */
export const PORTION_BYTES = 128 * 1_024;

/** A smaller response is decoded at once. Bytes. */
export const DECODED_AT_ONCE_BYTES = 64 * 1_024;

/** Reads a response; each `yield` ends a portion, and gets the time of the next one. */
export type Reading = Generator<'decoding' | 'taking', Decoded<ReceivedResponse>, number>;

/** The size of a response, and how much of its present portion is used. */
export class Portions {
  /** Is the response too large for one portion? */
  readonly areSeveral: boolean;
  readonly #portionBytes: number;
  #usedBytes = 0;

  /**
   * @param portionBytes entries and their bytes, with `ENTRY_COST_BYTES` for each
   * @param entries resources, removed names and errors together. A count
   */
  constructor(portionBytes: number, bytes: number, entries: number) {
    this.#portionBytes = portionBytes;
    this.areSeveral = bytes + entries * ENTRY_COST_BYTES > portionBytes;
  }

  /** Notes one more entry. @returns whether the portion is full, and the entry is the first of the next one */
  isFull(bytes: number): boolean {
    if (!this.areSeveral) return false;
    this.#usedBytes += bytes + ENTRY_COST_BYTES;
    if (this.#usedBytes <= this.#portionBytes) return false;
    this.#usedBytes = bytes + ENTRY_COST_BYTES;
    return true;
  }
}

/** The response of one source that is being read. */
export class ResponseInPortions implements InPortions {
  #reading: Reading | undefined;
  #isDecoded = false;

  get isMidResponse(): boolean {
    return this.#reading !== undefined;
  }

  /** The bytes of the last response were one. */
  get isDecoded(): boolean {
    return this.#isDecoded;
  }

  /** Reads the first portion. @returns undefined: others are left */
  begin(reading: Reading): Decoded<ReceivedResponse> | undefined {
    return this.#next(reading, 0);
  }

  /** Reads the next portion. @returns undefined: others are left */
  continue(nowMs: number): Decoded<ReceivedResponse> | undefined {
    return this.#reading && this.#next(this.#reading, nowMs);
  }

  /** The stream ended: the rest is not read. */
  drop(): void {
    this.#reading = undefined;
  }

  #next(reading: Reading, nowMs: number): Decoded<ReceivedResponse> | undefined {
    // If it throws, nothing is left of it.
    this.#reading = undefined;
    const { done, value } = reading.next(nowMs);
    if (done === true) {
      this.#isDecoded = value.ok;
      return value;
    }
    this.#reading = reading;
    this.#isDecoded = value === 'taking';
    return undefined;
  }
}
