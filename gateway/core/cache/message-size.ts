/**
 * The size of a resource in a message, and the last version of a resource that fits the message limit
 * of clients (message-limit.ts).
 */
import type { Projection } from '../../../authorities/index.js';

/** Upper bound for a response without resources and type: nonce, version, tags and lengths. */
const FRAME_BYTES = 256;
/** Upper bound for the wrapper of a resource and for the cluster digest in an assignment's version. */
export const AROUND_RESOURCE_BYTES = 96;

/** Per UTF-16 unit. An exact count would cost more than the rest of the estimate. */
const MOST_UTF8_BYTES = 3;

/** @returns an upper bound for the bytes of a resource in a message. */
export function sizeInMessage({ field }: Projection): number {
  return field.bytes.length + AROUND_RESOURCE_BYTES;
}

/** @returns a lower bound for the bytes of resources that fit into a message of this size. */
export const bytesLeftIn = (maxBytes: number, typeUrl: string): number =>
  maxBytes - FRAME_BYTES - MOST_UTF8_BYTES * typeUrl.length;

/** @returns whether the resource fits alone into a message of this size. */
export function fits(projection: Projection, maxBytes: number): boolean {
  return sizeInMessage(projection) <= bytesLeftIn(maxBytes, projection.typeUrl);
}

/** For each resource that exceeds the smallest message limit: its last version within the limit. */
export class Fallbacks {
  readonly #maxBytes: number;
  readonly #fallbacks = new WeakMap<Projection, Projection>();

  /** @param maxBytes the smallest limit of any client */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** @param before the version until now */
  handleChanged(projection: Projection, before: Projection | undefined): void {
    if (!before || fits(projection, this.#maxBytes)) return;
    const fallback = fits(before, this.#maxBytes) ? before : this.#fallbacks.get(before);
    if (fallback) this.#fallbacks.set(projection, fallback);
  }

  of(projection: Projection): Projection | undefined {
    return this.#fallbacks.get(projection);
  }
}
