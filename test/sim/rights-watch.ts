/**
 * Checks what instances write, by the rules for clients that are in force then. Content of a name needs a
 * right to that very name, also if it comes as the member of a glob, since a glob needs a
 * right to all of its directory (invariant 23).
 */
import type { AuthorityMap } from '../../config/model.js';
import { decodeDeltaResponse } from '../../protos/delta-codec.js';
import type { ModelClient } from './model-client.js';
import { markOf, partsOf } from './names.js';
import { Violation } from './oracle.js';
import { isAllowed } from './rights.js';
import { decodeResponse, resourcesByName } from './sotw-wire.js';
import { isWholeType } from './upstream-wire.js';
import type { ClientSpec } from './world.js';

/** The content of one stream, as its instance writes it. */
export class RightsWatch {
  readonly #client: ClientSpec;
  /** By name: the content that this stream brought last, or that its client claims. */
  readonly #written = new Map<string, Uint8Array>();

  constructor(client: ClientSpec) {
    this.#client = client;
  }

  /**
   * The client starts its stream with the version of a set, so its set is not sent again while it is
   * current (GRPC 6). A listener or cluster in it that loses its right later stays in responses like any
   * other removed one, until nothing needs it any more (GRPC 9). Found by seed 2337.
   */
  noteClaimed(client: ModelClient): void {
    for (const [name, { body }] of client.claimed()) this.#written.set(name, body);
  }

  /** @throws Violation if a response has content that the map in force does not allow */
  check(map: AuthorityMap, bytes: Uint8Array): void {
    const { name: client, sotw } = this.#client;
    for (const [name, body] of sotw ? this.#ofSotw(bytes) : this.#ofDelta(bytes)) {
      const before = this.#written.get(name);
      // A set of listeners or clusters keeps what the client holds until its removal may be sent
      // (GRPC 9). A response of any other type brings nothing that is not due.
      const isInSet = sotw !== undefined && isWholeType(partsOf(name).typeUrl);
      const isKept = isInSet && before !== undefined && Buffer.compare(before, body) === 0;
      // Nobody published a placeholder.
      if (!isKept && markOf(body) !== undefined && !isAllowed(map, client, name)) {
        throw new Violation('23', `${client} is sent ${name}, which it may not ask for`);
      }
      this.#written.set(name, Uint8Array.from(body));
    }
  }

  #ofDelta(bytes: Uint8Array): readonly (readonly [string, Uint8Array])[] {
    const decoded = decodeDeltaResponse(bytes, Infinity);
    if (!decoded.ok) throw new Violation('wire', decoded.reason);
    return decoded.message.resources.flatMap(({ name, body }) => (body ? [[name, body]] : []));
  }

  #ofSotw(bytes: Uint8Array): Iterable<readonly [string, Uint8Array]> {
    return resourcesByName(decodeResponse(bytes, this.#client.node));
  }
}
