/**
 * How much one request to a source may contain. gRPC servers refuse a message of more than 4 MiB by default, and the
 * same request would be refused after each reconnect, for ever.
 */

/** Below the 4 MiB of grpc-go, grpc-java, grpc-js and the C core, with room for the Node. Bytes. */
export const MAX_REQUEST_BYTES = 3 * 1_024 * 1_024;

/**
 * After a source refused a request. Another Tributary takes 1 MiB by default (`limits.max_request`), and other servers
 * may have smaller limits. Bytes.
 */
export const SMALL_REQUEST_BYTES = 256 * 1_024;

/** Tag and length of a field. */
const FIELD_BYTES = 5;

/** The bytes that may still be added to one request. */
export class RequestRoom {
  #leftBytes: number;

  constructor(bytes: number) {
    this.#leftBytes = bytes;
  }

  /**
   * Is there room for a name, or for a name with its version? If so, the room shrinks.
   *
   * @param isFirst the request has no other content: even a name that is too long is sent
   */
  take(name: string, version = '', isFirst = false): boolean {
    const bytes = 2 * FIELD_BYTES + Buffer.byteLength(name) + Buffer.byteLength(version);
    if (bytes > this.#leftBytes && !isFirst) return false;
    this.#leftBytes -= bytes;
    return true;
  }
}
