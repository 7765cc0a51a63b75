/**
 * What a resource takes of a message, and which of its versions clients can take whose messages are
 * limited (message-limit.ts).
 */
import type { Projection } from '../../../authorities/index.js';

/** More than a response has around its resources beside its type: nonce, version, tags and lengths. */
const FRAME_BYTES = 256;
/** More than its wrapper, or the version that tells for which clusters it was sent, adds to a resource. */
export const AROUND_RESOURCE_BYTES = 96;

/** Of one UTF-16 unit. Counting them all would cost more than the rest, for each resource. */
const MOST_UTF8_BYTES = 3;

/** What a resource takes of a message, at most. */
export function sizeInMessage({ field }: Projection): number {
  return field.bytes.length + AROUND_RESOURCE_BYTES;
}

/** @returns how many bytes of resources a message of this type and size has room for, at least. */
export const roomIn = (maxBytes: number, typeUrl: string): number =>
  maxBytes - FRAME_BYTES - MOST_UTF8_BYTES * typeUrl.length;

/** Alone in a message of this size. */
export function fits(projection: Projection, maxBytes: number): boolean {
  return sizeInMessage(projection) <= roomIn(maxBytes, projection.typeUrl);
}

/** Of what has grown too large for clients with a limit: the last version before. */
export class Fallbacks {
  readonly #maxBytes: number;
  readonly #fallbacks = new WeakMap<Projection, Projection>();

  /** @param maxBytes the smallest limit of any client */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** @param before what was there until now */
  handleChanged(projection: Projection, before: Projection | undefined): void {
    if (!before || fits(projection, this.#maxBytes)) return;
    const fallback = fits(before, this.#maxBytes) ? before : this.#fallbacks.get(before);
    if (fallback) this.#fallbacks.set(projection, fallback);
  }

  of(projection: Projection): Projection | undefined {
    return this.#fallbacks.get(projection);
  }
}
