/**
 * The names of one delta client that the gateway refuses, until their errors are sent. They belong to no
 * subscriptions: a name that cannot be served has no authority.
 */
import { STATUS_CODE, type ResourceError, type RpcStatus } from '../../../protos/discovery.js';
import { noMap, ownMap } from '../../../protos/empty-collections.js';
import { MAX_TOLD_WITHOUT_ROOM } from '../quotas/stream-names.js';
import { isLocatorText, spokenName } from '../session/asked-name.js';
import { NOTHING, type ResponseContent } from '../session/response-draft.js';

export class Refusals {
  /** By type, then by the client's spelling. */
  #byType: Map<string, Map<string, RpcStatus>> = noMap();
  /** Names without room among them. */
  #withoutRoom = 0;
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

  add(typeUrl: string, text: string, status: RpcStatus): void {
    const isWithoutRoom = isLackOfRoom(status);
    // Further names get no answer, since a client that does not read would fill the memory with answers.
    if (isWithoutRoom && this.#withoutRoom >= MAX_TOLD_WITHOUT_ROOM) return;
    let names = this.#byType.get(typeUrl);
    if (!names) {
      names = new Map<string, RpcStatus>();
      this.#byType = ownMap(this.#byType).set(typeUrl, names);
    }
    const before = names.get(text);
    if (before && isLackOfRoom(before)) this.#withoutRoom--;
    if (isWithoutRoom) this.#withoutRoom++;
    names.set(text, status);
  }

  /** Takes the next chunk of errors of a type, of about `maxBytes`. */
  take(typeUrl: string, maxBytes: number): ResponseContent {
    const names = this.#byType.get(typeUrl) ?? new Map<string, RpcStatus>();
    // A name may be refused with several sets of parameters (TP2).
    const errors = new Map<string, ResourceError>();
    // A client without TP3 ignores errors: the removal ends its wait for the name.
    const removed: string[] = [];
    let bytes = 0;
    for (const [text, status] of names) {
      if (bytes >= maxBytes) break;
      names.delete(text);
      if (isLackOfRoom(status)) this.#withoutRoom--;
      const name = spokenName(text);
      if (!errors.has(name)) errors.set(name, { name, status });
      // The client may hold a name for which there is no room, and is to keep it.
      if (!isLocatorText(text) && !isLackOfRoom(status)) removed.push(text);
      bytes += 2 * text.length + status.message.length;
    }
    if (names.size === 0) this.#byType.delete(typeUrl);
    this.#underWay = names.size === 0 ? undefined : typeUrl;
    return { ...NOTHING, errors: [...errors.values()], removed };
  }
}

/** A quota refused the name. */
export const isLackOfRoom = ({ code }: RpcStatus): boolean =>
  code === STATUS_CODE.resourceExhausted;
