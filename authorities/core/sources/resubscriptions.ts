/**
 * Names and globs of one type that the gateway unsubscribed at a state-of-the-world server and then subscribed again. The gateway
 * forgot their resources. The server may not know: it ignores a request whose nonce is old. It then believes that the gateway has
 * the resources, and does not send them again.
 *
 * So one request leaves such a name out, and the next request has the name again. The server must then send the resources.
 */
import { globKeyOf, wireText, type ResourceName } from '../../../protos/resource-name.js';
import { isWholeInSotw } from '../../../protos/type-urls.js';
import type { SourceSubscription } from './source-contents.js';

/** Unsubscribed names of one type that a stream remembers. */
const MAX_UNSUBSCRIBED = 10_000;

/** A glob that was subscribed again. */
interface ReturnedGlob {
  /** How many members the stream had sent before. */
  readonly members: number;
  readonly againMs: number;
  /** Requests have left the glob out a second time. */
  readonly isRepeated: boolean;
}

/** A response that the contents have taken in. */
export interface TakenResponse {
  /** It has heartbeats only. */
  readonly isHeartbeat: boolean;
  /** The keys of the names in it. */
  readonly sent: ReadonlySet<string>;
  readonly arrivedMs: number;
  /** How many of the held members of a glob are in it. */
  readonly countMembers: (glob: SourceSubscription) => number;
}

/** For one type on one stream. */
export class Resubscriptions {
  /**
   * The wire text of each name that the stream sent, and each glob that it was asked for, before the gateway unsubscribed it. Value:
   * the number of members that the stream sent.
   */
  readonly #unsubscribed = new Map<string, number>();
  /** The next request leaves them out. Value: may both requests be repeated once? */
  readonly #toLeaveOut = new Map<SourceSubscription, boolean>();
  /** A request has left them out, and no response has come since. */
  readonly #awaited = new Set<SourceSubscription>();
  /** Until all of their members came. */
  readonly #returnedGlobs = new Map<SourceSubscription, ReturnedGlob>();
  readonly #returnedNames = new WeakSet<SourceSubscription>();

  /** @param isInRequest the last request had the name: the server believes that it was subscribed all the time */
  handleSubscribed(subscription: SourceSubscription, isInRequest: boolean, nowMs: number): void {
    if (isInRequest) this.#toLeaveOut.set(subscription, true);
    const members = this.#unsubscribed.get(textOf(subscription));
    if (members === undefined) return;
    if (!subscription.name.isGlob) {
      this.#returnedNames.add(subscription);
      return;
    }
    // A part of the collection may be under way, and would pass for the answer (seeds 92943, 108994).
    this.#toLeaveOut.set(subscription, true);
    this.#returnedGlobs.set(subscription, { members, againMs: nowMs, isRepeated: false });
  }

  /** @param isInRequest as for `handleSubscribed` */
  handleUnsubscribed(subscription: SourceSubscription, isInRequest: boolean): void {
    this.#toLeaveOut.delete(subscription);
    this.#awaited.delete(subscription);
    // The gateway may unsubscribe the glob a second time before the source has sent all members again (seed 139901).
    const before = this.#returnedGlobs.get(subscription)?.members ?? 0;
    this.#returnedGlobs.delete(subscription);
    // A part of a collection may have come, although it is not answered (seed 116618).
    const wasSent = subscription.name.isGlob ? isInRequest : subscription.status === 'present';
    if (wasSent) this.#note(textOf(subscription), Math.max(subscription.membersLeft, before));
  }

  /** The server sent a resource that the gateway had unsubscribed meanwhile. */
  handleSentUnsubscribed(name: ResourceName): void {
    this.#note(wireText(name.key), 0);
    const glob = wireText(globKeyOf(name));
    this.#note(glob, (this.#unsubscribed.get(glob) ?? 0) + 1);
  }

  /** The oldest are forgotten: if such a name does not come again, it counts as absent. */
  #note(text: string, members: number): void {
    this.#unsubscribed.delete(text);
    this.#unsubscribed.set(text, members);
    const [oldest] = this.#unsubscribed.keys();
    if (oldest !== undefined && this.#unsubscribed.size > MAX_UNSUBSCRIBED)
      this.#unsubscribed.delete(oldest);
  }

  /** Leaves a subscribed name out once, to make the server send it. */
  leaveOut(subscription: SourceSubscription): void {
    this.#toLeaveOut.set(subscription, true);
  }

  /** @returns the subscriptions that the request of now leaves out; if there are any, another request has to follow */
  takeLeftOut(): ReadonlySet<SourceSubscription> {
    const leftOut = new Set(this.#toLeaveOut.keys());
    for (const [one, mayRepeat] of this.#toLeaveOut) if (mayRepeat) this.#awaited.add(one);
    this.#toLeaveOut.clear();
    return leftOut;
  }

  /**
   * If the response was under way, the server ignores both requests: their nonce is old. So the gateway repeats both, once: a server
   * that lacks the name may respond to them too. Heartbeats answer nothing.
   *
   * @returns whether only a new stream can bring what is missing
   */
  handleResponse(response: TakenResponse): boolean {
    const { isHeartbeat, sent } = response;
    let isStuck = false;
    for (const one of this.#awaited) {
      if (isHeartbeat) this.#toLeaveOut.set(one, true);
      else if (one.name.isGlob) isStuck = this.#settleGlob(one, response) || isStuck;
      else if (!sent.has(one.name.key)) this.#toLeaveOut.set(one, false);
    }
    this.#awaited.clear();
    return isStuck;
  }

  /**
   * A response with fewer members than the stream had sent may be older than the requests (seed 735), also if other members
   * have come since (seed 5001952).
   *
   * If its first part is lost (seeds 110250, 53093), a whole set is not repeated: to leave a glob out of the request again would delete
   * its members (seed 114188).
   *
   * @returns as for `handleResponse`
   */
  #settleGlob(glob: SourceSubscription, { arrivedMs, countMembers }: TakenResponse): boolean {
    const isCut = this.lacksFirstPart(glob, arrivedMs);
    const returned = this.#returnedGlobs.get(glob);
    this.#returnedGlobs.delete(glob);
    if (!returned) return false;
    if (isWholeInSotw(glob.typeUrl)) return isCut;
    if (!isCut && countMembers(glob) >= returned.members) return false;
    // Each repetition brings the whole collection and may cause another one: repeat once, then open a new stream.
    if (returned.isRepeated) return true;
    this.#returnedGlobs.set(glob, { ...returned, isRepeated: true });
    this.#toLeaveOut.set(glob, true);
    return false;
  }

  /** Was the glob subscribed again while the response was read in portions? Then the contents have forgotten its first part. */
  lacksFirstPart(glob: SourceSubscription, arrivedMs: number): boolean {
    const returned = this.#returnedGlobs.get(glob);
    return returned !== undefined && returned.againMs > arrivedMs;
  }

  /** Had the stream sent this name before it was unsubscribed? Then it may exist, although the server does not send it. */
  wasSentBefore(name: SourceSubscription): boolean {
    return this.#returnedNames.has(name);
  }
}

/** The name in its wire form. */
export const textOf = ({ name }: SourceSubscription): string => wireText(name.key);
