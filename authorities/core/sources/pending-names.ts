/** Names to subscribe, unsubscribe or request again, merged until a request may be written. */
import { wireText } from '../../../protos/resource-name.js';
import type { SourceSubscription } from './source-contents.js';

/**
 * New names of one request. A server answers each request by itself, and each answer is one turn of the event
 * loop: 10,000 names in one request would come back in one long turn. A count.
 */
export const MAX_NAMES_PER_REQUEST = 500;

interface Pending {
  readonly subscribe: Map<string, SourceSubscription>;
  readonly unsubscribe: Set<string>;
  /** Keys of names that the stream has subscribed already. */
  readonly again: Set<string>;
}

/** The names of the next request, in their wire form. */
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

  /** @param maxNew new names of one request; Infinity: all */
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

  take(): NamesToSend | undefined {
    for (const [typeUrl, { subscribe, unsubscribe, again }] of this.#types) {
      const left = [...unsubscribe].map(wireText);
      const returned = [...unsubscribe].some((key) => subscribe.has(key) || again.has(key));
      unsubscribe.clear();
      // A name that was unsubscribed and subscribed again is sent in two requests: the contents
      // forgot it, and go-control-plane resends a name only after an unsubscribe.
      if (returned) return { typeUrl, asked: [], left, added: [] };
      if (subscribe.size > this.#maxNew) {
        return { typeUrl, left, ...takeSome(subscribe, this.#maxNew) };
      }
      this.#types.delete(typeUrl);
      const asked = [...new Set([...subscribe.keys(), ...again])].map(wireText);
      if (asked.length + left.length === 0) continue;
      return { typeUrl, asked, left, added: [...subscribe.values()] };
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

function takeSome(
  subscribe: Map<string, SourceSubscription>,
  most: number,
): Pick<NamesToSend, 'asked' | 'added'> {
  const asked: string[] = [];
  const added: SourceSubscription[] = [];
  for (const [key, subscription] of subscribe) {
    subscribe.delete(key);
    asked.push(wireText(key));
    if (added.push(subscription) === most) break;
  }
  return { asked, added };
}
