/**
 * The names of one delta client that the gateway refuses, until their errors are sent. They belong to no
 * subscriptions: a name that cannot be served has no authority.
 */
import { STATUS_CODE, type ResourceError, type RpcStatus } from '../../../protos/discovery.js';
import { noMap, ownMap } from '../../../protos/empty-collections.js';
import { isLocatorText, spokenName } from '../session/asked-name.js';
import { NOTHING, type ResponseContent } from '../session/response-draft.js';

/** Names without room whose errors wait to be sent, by type. A count. */
const MAX_TOLD_WITHOUT_ROOM = 100;

export class Refusals {
  /** By type, then by the client's spelling. */
  #byType: Map<string, Map<string, RpcStatus>> = noMap();
  /** The type whose refusals are being sent in several chunks. */
  #underWay: string | undefined;

  /** The types with names whose errors are still to be sent. */
  get types(): Iterable<string> {
    return this.#byType.keys();
  }

  get isEmpty(): boolean {
    return this.#byType.size === 0;
  }

  /** Number of names whose errors are still to be sent. */
  get count(): number {
    let count = 0;
    for (const names of this.#byType.values()) count += names.size;
    return count;
  }

  /** The next chunk continues the response of this type. */
  isUnderWay(typeUrl: string): boolean {
    return this.#underWay === typeUrl;
  }

  /** @returns whether the session reports it; the account reports a lack of room, in one line for all names. */
  add(typeUrl: string, text: string, status: RpcStatus): boolean {
    let names = this.#byType.get(typeUrl);
    if (!names) {
      names = new Map<string, RpcStatus>();
      this.#byType = ownMap(this.#byType).set(typeUrl, names);
    }
    const hasRoom = !isLackOfRoom(status);
    // Further names get no answer, since a client that does not read would fill the memory with answers.
    if (hasRoom || names.size < MAX_TOLD_WITHOUT_ROOM) names.set(text, status);
    return hasRoom;
  }

  /** Takes the next chunk of errors of a type, of about `maxBytes`. */
  take(typeUrl: string, maxBytes: number): ResponseContent {
    const names = this.#byType.get(typeUrl) ?? new Map<string, RpcStatus>();
    const errors: ResourceError[] = [];
    // A client without TP3 ignores errors: the removal ends its wait for the name.
    const removed: string[] = [];
    let bytes = 0;
    for (const [text, status] of names) {
      if (bytes >= maxBytes) break;
      names.delete(text);
      errors.push({ name: spokenName(text), status });
      // The client may hold a name for which there is no room, and is to keep it.
      if (!isLocatorText(text) && !isLackOfRoom(status)) removed.push(text);
      bytes += 2 * text.length + status.message.length;
    }
    if (names.size === 0) this.#byType.delete(typeUrl);
    this.#underWay = names.size === 0 ? undefined : typeUrl;
    return { ...NOTHING, errors, removed };
  }
}

const isLackOfRoom = ({ code }: RpcStatus): boolean => code === STATUS_CODE.resourceExhausted;
