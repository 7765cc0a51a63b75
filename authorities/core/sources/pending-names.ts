/** Names to subscribe, unsubscribe or request again, merged until a request may be written. */
import { RequestRoom } from './request-room.js';
import type { SourceSubscription } from './source-contents.js';

/**
 * New names of one request. A server answers each request by itself, so the answer to the first names comes soon, and
 * no answer is long. A count.
 */
export const MAX_NAMES_PER_REQUEST = 500;

interface Pending {
  readonly subscribe: Map<string, SourceSubscription>;
  readonly unsubscribe: Set<string>;
  /** Keys of names that the stream has subscribed already. */
  readonly again: Set<string>;
}

/** The keys of the names of the next request. */
export interface NamesToSend {
  readonly typeUrl: string;
  readonly asked: readonly string[];
  readonly left: readonly string[];
  /** The new names among `asked`. */
  readonly added: readonly SourceSubscription[];
}

export class PendingNames {
  readonly #maxNew: number;
  readonly #types = new Map<string, Pending>();

  /** @param maxNew new names of one request; Infinity: all that fit */
  constructor(maxNew: number) {
    this.#maxNew = maxNew;
  }

  get isEmpty(): boolean {
    return this.#types.size === 0;
  }

  clear(): void {
    this.#types.clear();
  }

  /** The first request of a type contains all its names. */
  forget(typeUrl: string): void {
    this.#types.delete(typeUrl);
  }

  subscribe(subscription: SourceSubscription): void {
    this.#of(subscription.typeUrl).subscribe.set(subscription.name.key, subscription);
  }

  unsubscribe({ typeUrl, name }: SourceSubscription): void {
    const { subscribe, unsubscribe, again } = this.#of(typeUrl);
    again.delete(name.key);
    if (!subscribe.delete(name.key)) unsubscribe.add(name.key);
  }

  /** @param isLeft whether to unsubscribe it first */
  askAgain({ typeUrl, name }: SourceSubscription, isLeft: boolean): void {
    const { unsubscribe, again } = this.#of(typeUrl);
    if (isLeft) unsubscribe.add(name.key);
    again.add(name.key);
  }

  /** @param maxBytes about the size of the request */
  take(maxBytes: number): NamesToSend | undefined {
    for (const [typeUrl, { subscribe, unsubscribe, again }] of this.#types) {
      const room = new RequestRoom(maxBytes);
      const left = takeKeys(unsubscribe, room);
      const returned = left.some((key) => subscribe.has(key) || again.has(key));
      // A name that was unsubscribed and subscribed again is sent in two requests: the contents
      // forgot it, and go-control-plane resends a name only after an unsubscribe.
      if (returned || unsubscribe.size > 0) return { typeUrl, asked: [], left, added: [] };
      const added = takeValues(subscribe, this.#maxNew, room);
      const asked = added.map(({ name }) => name.key);
      for (const key of asked) again.delete(key);
      if (subscribe.size === 0) asked.push(...takeKeys(again, room));
      if (subscribe.size + again.size === 0) this.#types.delete(typeUrl);
      if (asked.length + left.length === 0) continue;
      return { typeUrl, asked, left, added };
    }
    return undefined;
  }

  #of(typeUrl: string): Pending {
    let pending = this.#types.get(typeUrl);
    if (!pending) {
      pending = { subscribe: new Map(), unsubscribe: new Set(), again: new Set() };
      this.#types.set(typeUrl, pending);
    }
    return pending;
  }
}

function takeKeys(from: Set<string>, room: RequestRoom): string[] {
  const taken: string[] = [];
  for (const key of from) {
    if (!room.take(key, '', taken.length === 0)) break;
    from.delete(key);
    taken.push(key);
  }
  return taken;
}

function takeValues(
  from: Map<string, SourceSubscription>,
  most: number,
  room: RequestRoom,
): SourceSubscription[] {
  const taken: SourceSubscription[] = [];
  for (const [key, subscription] of from) {
    if (taken.length === most || !room.take(key, '', taken.length === 0)) break;
    from.delete(key);
    taken.push(subscription);
  }
  return taken;
}
