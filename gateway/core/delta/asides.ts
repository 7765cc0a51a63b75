/**
 * The responses to one delta client that belong to no subscriptions: the errors of names that the gateway refuses,
 * and the empty first response of a stream. Each type counts its unacknowledged ones by itself.
 */
import type { RpcStatus } from '../../../protos/discovery.js';
import { noMap, noSet, ownMap, ownSet } from '../../../protos/empty-collections.js';
import { NOTHING, type ResponseContent } from '../session/response-draft.js';
import { Unacknowledged } from '../session/unacknowledged.js';
import { Refusals } from './refusals.js';
import type { SubscriptionsOwner } from './subscriptions-owner.js';

/** A response that belongs to no subscriptions. */
export interface Aside {
  readonly typeUrl: string;
  readonly content: ResponseContent;
  /** It is a further chunk of the response before it. */
  readonly goesOn: boolean;
}

/** The next errors of refused names. */
export interface NextErrors {
  /** Undefined: no errors may be sent now. */
  readonly aside: Aside | undefined;
  /** When to ask again for errors that have to wait; Infinity: after an ACK; undefined: none has to. */
  readonly untilMs: number | undefined;
}

export class Asides {
  readonly #owner: Pick<SubscriptionsOwner, 'awaitsWildcard'>;
  readonly #refusals = new Refusals();
  /** By type. */
  #sent: Map<string, Unacknowledged> = noMap();
  /** Types that the client requested before the first response of the stream. */
  #unanswered: Set<string> = noSet();

  constructor(owner: Pick<SubscriptionsOwner, 'awaitsWildcard'>) {
    this.#owner = owner;
  }

  /** Are errors of refused names still to be sent? */
  get hasErrors(): boolean {
    return !this.#refusals.isEmpty;
  }

  /** Number of refused names whose errors are still to be sent. */
  get refusedCount(): number {
    return this.#refusals.count;
  }

  /** @param text the client's spelling of the name */
  refuse(typeUrl: string, text: string, status: RpcStatus): void {
    this.#refusals.add(typeUrl, text, status);
  }

  /** The client requests a type before the first response of the stream. */
  noteUnanswered(typeUrl: string): void {
    this.#unanswered = ownSet(this.#unanswered).add(typeUrl);
  }

  /** The session sends a response: the stream needs no empty one any more. */
  noteAnswered(): void {
    this.#unanswered = noSet();
  }

  /** Takes the next chunk of errors of one type, of about `maxBytes`. */
  takeErrors(maxBytes: number, nowMs: number): NextErrors {
    let soonestMs: number | undefined;
    for (const typeUrl of this.#refusals.types) {
      if (this.#owner.awaitsWildcard(typeUrl)) continue;
      const goesOn = this.#refusals.isUnderWay(typeUrl);
      const untilMs = goesOn ? undefined : this.#sent.get(typeUrl)?.waitUntilMs(nowMs);
      if (untilMs === undefined) {
        const content = this.#refusals.take(typeUrl, maxBytes);
        return { aside: { typeUrl, content, goesOn }, untilMs: soonestMs };
      }
      soonestMs = Math.min(soonestMs ?? Infinity, untilMs);
    }
    return { aside: undefined, untilMs: soonestMs };
  }

  /** The empty first response of the stream; undefined: there is no type for it. */
  get greeting(): Aside | undefined {
    // Skip types with an open wildcard: Envoy would take the empty response for its content.
    const typeUrl = [...this.#unanswered].find((one) => !this.#owner.awaitsWildcard(one));
    return typeUrl === undefined ? undefined : { typeUrl, content: NOTHING, goesOn: false };
  }

  handleSent({ typeUrl, goesOn }: Aside, nonce: string, nowMs: number): void {
    let sent = this.#sent.get(typeUrl);
    if (!sent) {
      sent = new Unacknowledged();
      this.#sent = ownMap(this.#sent).set(typeUrl, sent);
    }
    sent.handleSent(nonce, false, goesOn, nowMs);
  }

  /**
   * Handles an ACK or a NACK.
   *
   * @returns when the response was sent; undefined: the nonce is not of one of these responses
   */
  handleAcknowledged(typeUrl: string, nonce: string): number | undefined {
    return this.#sent.get(typeUrl)?.handleAcknowledged(nonce);
  }
}
